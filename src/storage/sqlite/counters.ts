/** Counters with a lifetime in the embedded database. */

import type { DatabaseSync } from 'node:sqlite';
import type { Store } from '../store.ts';

export interface SqliteCounters {
  /** Inside a transaction only. */
  increment(key: string, by: number, options: Parameters<Store['increment']>[2]): number | undefined;
  value(key: string): number;
}

export function createSqliteCounters(database: DatabaseSync, clock: () => number): SqliteCounters {
  const select = database.prepare('SELECT value, expires_at FROM counters WHERE key = ? AND expires_at > ?');
  const upsert = database.prepare(`
    INSERT INTO counters (key, value, expires_at) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at`);
  const read = (key: string, now: number) => select.get(key, now) as { value: number; expires_at: number } | undefined;

  return {
    increment(key, by, { lifetimeSeconds, limit }) {
      const now = clock();
      const counter = read(key, now);
      const value = (counter?.value ?? 0) + by;
      if (limit !== undefined && value > limit) return undefined;
      upsert.run(key, value, counter?.expires_at ?? Math.ceil(now + lifetimeSeconds * 1000));
      return value;
    },
    value: (key) => read(key, clock())?.value ?? 0,
  };
}
