/** Leases in Redis: the owner of each by the server's clock, and the fencing number that reveals a stale holder. */
import type { Store } from '../store.ts';
import type { RedisParts } from './records.ts';
import { runScript } from './scripts.ts';

type LeaseMethods = 'acquireLease' | 'renewLease' | 'releaseLease';

export function redisLeases({ connection, runWrite, names }: RedisParts): Pick<Store, LeaseMethods> {
  const extend = async (lease: string, ...args: (string | number)[]) =>
    (await connection.run((client) => runScript(client, 'gatehouseExtend', [names.of(lease)], args))) === 1;
  return {
    // As durable as the writes that it protects: if a failover lost the lease, its holder could store nothing.
    async acquireLease(lease, owner, milliseconds) {
      const args = [owner, Math.ceil(milliseconds)];
      const number = await runWrite((client) => runScript(client, 'gatehouseAcquire', [names.of(lease)], args));
      return typeof number === 'number' ? number : undefined;
    },
    renewLease: (lease, owner, milliseconds) => extend(lease, owner, Math.ceil(milliseconds)),
    releaseLease: (lease, owner) => extend(lease, owner),
  };
}
