/** Counters with a lifetime in Redis. */
import type { Store } from '../store.ts';
import { lifetimeMilliseconds, type RedisParts } from './records.ts';
import { runScript } from './scripts.ts';

export function redisCounters({ connection, names }: RedisParts): Pick<Store, 'increment' | 'counter'> {
  return {
    async increment(key, by, { lifetimeSeconds, limit }) {
      const args = [by, lifetimeMilliseconds(lifetimeSeconds), limit ?? ''];
      const value = await connection.run((client) => runScript(client, 'gatehouseIncrement', [names.of(key)], args));
      return typeof value === 'number' ? value : undefined;
    },
    counter: async (key) => Number(await connection.run((client) => client.get(names.of(key)))),
  };
}
