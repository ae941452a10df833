/** Leases in the embedded database, with the fencing number that reveals a stale holder. */
import type { Store } from '../store.ts';
import type { SqliteParts } from './parts.ts';
import { createSequence } from './schema.ts';

type LeaseMethods = 'acquireLease' | 'renewLease' | 'releaseLease';

interface LeaseRow {
  owner: string;
  expires_at: number;
  length: number;
}

export function sqliteLeases({ database, clock, write }: SqliteParts): Pick<Store, LeaseMethods> {
  const select = database.prepare('SELECT owner, expires_at, length FROM leases WHERE lease = ?');
  const upsert = database.prepare(`
    INSERT INTO leases (lease, owner, number, expires_at, length) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (lease) DO UPDATE SET owner = excluded.owner, number = excluded.number,
      expires_at = excluded.expires_at, length = excluded.length`);
  const limitExpiry = database.prepare('UPDATE leases SET expires_at = ? WHERE lease = ?');
  // The row outlives the lease, so that its number stops a stale holder.
  const setExpiry = database.prepare(
    'UPDATE leases SET expires_at = ? WHERE lease = ? AND owner = ? AND expires_at > ?',
  );
  const nextNumber = createSequence(database);

  /**
   * Returns whether the lease is held. If it has more time left than its length, the clock was set back, and its length
   * then counts from now.
   */
  const isHeld = (lease: string, { expires_at: expiresAt, length }: LeaseRow, now: number) => {
    if (expiresAt - now > length) limitExpiry.run(now + length, lease);
    return expiresAt > now;
  };

  return {
    acquireLease: (lease, owner, milliseconds) =>
      write(() => {
        const now = clock();
        const current = select.get(lease) as LeaseRow | undefined;
        if (current !== undefined && current.owner !== owner && isHeld(lease, current, now)) return undefined;
        const number = nextNumber();
        const length = Math.ceil(milliseconds);
        upsert.run(lease, owner, number, Math.ceil(now) + length, length);
        return number;
      }),
    renewLease: (lease, owner, milliseconds) =>
      write(() => {
        const now = clock();
        return setExpiry.run(Math.ceil(now + milliseconds), lease, owner, now).changes === 1;
      }),
    releaseLease: (lease, owner) =>
      write(() => {
        const now = clock();
        return setExpiry.run(Math.floor(now), lease, owner, now).changes === 1;
      }),
  };
}
