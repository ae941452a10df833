/** Leases in the embedded database: who holds one, and the fencing number that shows a stale holder. */

import type { DatabaseSync } from 'node:sqlite';
import { createSequence } from './schema.ts';

/** All inside a transaction only. */
export interface SqliteLeases {
  acquire(lease: string, owner: string, milliseconds: number): number | undefined;
  renew(lease: string, owner: string, milliseconds: number): boolean;
  release(lease: string, owner: string): boolean;
  /** True while nobody has been given the lease after the holder of that number. */
  isLatest(lease: string, number: number): boolean;
}

export function createSqliteLeases(database: DatabaseSync, clock: () => number): SqliteLeases {
  const select = database.prepare('SELECT owner, number, expires_at, length FROM leases WHERE lease = ?');
  const upsert = database.prepare(`
    INSERT INTO leases (lease, owner, number, expires_at, length) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (lease) DO UPDATE SET owner = excluded.owner, number = excluded.number,
      expires_at = excluded.expires_at, length = excluded.length`);
  const shorten = database.prepare('UPDATE leases SET expires_at = ? WHERE lease = ?');
  // The row outlives the lease: its number is what refuses a holder that wakes up late.
  const setExpiry = database.prepare(
    'UPDATE leases SET expires_at = ? WHERE lease = ? AND owner = ? AND expires_at > ?',
  );
  const nextNumber = createSequence(database);
  const read = (lease: string) =>
    select.get(lease) as { owner: string; number: number; expires_at: number; length: number } | undefined;

  /** What is left of a lease never exceeds its length: where it seems to, the clock was set back, and its length counts from now. */
  const isHeld = (lease: string, { expires_at: end, length }: { expires_at: number; length: number }, now: number) => {
    if (end - now > length) shorten.run(now + length, lease);
    return end > now;
  };

  return {
    acquire(lease, owner, milliseconds) {
      const now = clock();
      const current = read(lease);
      if (current !== undefined && current.owner !== owner && isHeld(lease, current, now)) return undefined;
      const number = nextNumber();
      const length = Math.ceil(milliseconds);
      upsert.run(lease, owner, number, Math.ceil(now) + length, length);
      return number;
    },
    renew(lease, owner, milliseconds) {
      const now = clock();
      return setExpiry.run(Math.ceil(now + milliseconds), lease, owner, now).changes === 1;
    },
    release(lease, owner) {
      const now = clock();
      return setExpiry.run(Math.floor(now), lease, owner, now).changes === 1;
    },
    isLatest: (lease, number) => read(lease)?.number === number,
  };
}
