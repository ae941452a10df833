/** Counters with a lifetime in the embedded database. */
import { isRelaxed } from '../keys.ts';
import type { Store } from '../store.ts';
import type { SqliteParts } from './parts.ts';

export function sqliteCounters({ database, clock, read, write }: SqliteParts): Pick<Store, 'increment' | 'counter'> {
  const select = database.prepare('SELECT value, expires_at FROM counters WHERE key = ? AND expires_at > ?');
  const upsert = database.prepare(`
    INSERT INTO counters (key, value, expires_at) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at`);
  const find = (key: string, now: number) => select.get(key, now) as { value: number; expires_at: number } | undefined;

  return {
    increment(key, by, { lifetimeSeconds, limit }) {
      const increment = () => {
        const now = clock();
        const counter = find(key, now);
        const value = (counter?.value ?? 0) + by;
        if (limit !== undefined && value > limit) return undefined;
        upsert.run(key, value, counter?.expires_at ?? Math.ceil(now + lifetimeSeconds * 1000));
        return value;
      };
      return write(increment, { relaxed: isRelaxed(key) });
    },
    counter: (key) => read(() => find(key, clock())?.value ?? 0),
  };
}
