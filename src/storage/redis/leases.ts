/** Leases in Redis: who holds one by the server's clock, and the fencing number that shows a stale holder. */

import type { Store } from '../store.ts';
import type { RedisParts } from './records.ts';
import { runScript } from './scripts.ts';

type LeaseMethods = 'acquireLease' | 'renewLease' | 'releaseLease';

export function redisLeases({ connection, runWrite, names }: RedisParts): Pick<Store, LeaseMethods> {
  return {
    // As durable as the writes that it guards: with a lease that a failover forgot, its holder could store nothing.
    async acquireLease(lease, owner, milliseconds) {
      const args = [owner, Math.ceil(milliseconds)];
      const number = await runWrite((client) => runScript(client, 'gatehouseAcquire', [names.of(lease)], args));
      return typeof number === 'number' ? number : undefined;
    },
    async renewLease(lease, owner, milliseconds) {
      const args = [owner, Math.ceil(milliseconds)];
      return (await connection.run((client) => runScript(client, 'gatehouseExtend', [names.of(lease)], args))) === 1;
    },
    async releaseLease(lease, owner) {
      return (await connection.run((client) => runScript(client, 'gatehouseExtend', [names.of(lease)], [owner]))) === 1;
    },
  };
}
