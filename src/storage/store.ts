/** Owns the storage port: what Gatehouse asks of any store, with the duties that every implementation has. */

/** A stored value and its version. A version never repeats for a key, not even after the key was deleted. */
export interface StoredRecord {
  value: string;
  version: number;
}

/**
 * One step of an atomic write. `ifVersion: 0` means that the key must not exist; every condition is judged against the
 * state before the first step. A put without a lifetime lasts, even over one that had a lifetime; with a lifetime of zero
 * or less it leaves nothing behind. Adding a member again moves it to the new score. Scores are finite numbers.
 */
export type Write =
  | { put: string; value: string; lifetimeSeconds?: number; ifVersion?: number }
  | { delete: string; ifVersion?: number }
  | { index: string; add: string; score: number }
  | { index: string; remove: string };

export interface WriteOptions {
  /**
   * Refuse the write unless this holder is the latest that was given the lease (stale-holder guard). The lease may have
   * ended meanwhile. A store remembers it for a day at least after its end, and refuses once it has forgotten it.
   */
  fence?: { lease: string; number: number };
}

export interface IndexPage {
  items: { member: string; score: number }[];
  /** Opaque; pass it as `after` for the next page. Absent on the last page. */
  next?: string;
}

export interface PageOptions {
  after?: string;
  limit: number;
  /** Default `ascending` by score, then by member. */
  order?: 'ascending' | 'descending';
}

export interface LogPage {
  items: { id: string; at: number; entry: string }[];
  next?: string;
}

/**
 * The store. Every method rejects with `AppError('storage_unavailable')` when the store cannot answer in time;
 * a write that was rejected so is unknown, not failed: read again before deciding.
 *
 * Keys that change together carry the same `{tag}`, so that a cluster keeps them in one slot. `write` rejects with
 * a TypeError when its keys (the fence's lease included) differ in their tag; indexes and logs count as keys.
 *
 * Lifetimes are in seconds and are the store's to enforce: an expired record is not returned by anything.
 *
 * A key is of one kind for good: a record, an index, a counter, a log or a lease. A cursor (`after`) that is not one of
 * that list rejects with `AppError('invalid_request')`; a limit that is not a whole number from 1 with a TypeError.
 */
export interface Store {
  get(key: string): Promise<StoredRecord | undefined>;

  /** All steps or none. Answers false, with nothing changed, when an `ifVersion` or the fence does not hold. */
  write(writes: readonly Write[], options?: WriteOptions): Promise<boolean>;

  /** Reads and deletes at once. Of any number of callers in any number of processes at most one gets the value. */
  take(key: string): Promise<string | undefined>;

  /** Members in order of score, ties by member. Stable while others write: no member that stays is skipped. */
  page(index: string, options: PageOptions): Promise<IndexPage>;

  /** Number of members of an index. */
  count(index: string): Promise<number>;

  /**
   * Adds `by` and answers the new value; the lifetime starts with the first increment and is not extended by later ones.
   * With `limit`, answers undefined and changes nothing when the value would pass it: an atomic reservation.
   */
  increment(key: string, by: number, options: { lifetimeSeconds: number; limit?: number }): Promise<number | undefined>;

  /** The counter's value now; 0 when there is none. */
  counter(key: string): Promise<number>;

  /** Appends and answers the entry's id. Ids ascend in the order of appending. `at`: milliseconds since the epoch. */
  append(log: string, entry: string, at: number): Promise<string>;

  /** Entries in order of appending (or the reverse); `after` is an id or a page's `next`. */
  readLog(log: string, options: PageOptions): Promise<LogPage>;

  /** Deletes from the oldest on, up to the first entry whose `at` is not before that time, and answers how many. */
  trimLog(log: string, before: number): Promise<number>;

  /**
   * Answers the fencing number, which grows with every acquisition (the same owner's included) and never repeats for a
   * lease, or undefined while another owner holds it.
   */
  acquireLease(lease: string, owner: string, milliseconds: number): Promise<number | undefined>;

  /** Extends the lease if this owner still holds it. */
  renewLease(lease: string, owner: string, milliseconds: number): Promise<boolean>;

  /** Ends the lease if this owner still holds it; another's lease is left alone. */
  releaseLease(lease: string, owner: string): Promise<boolean>;

  /** Tells every subscriber in every process, this one included; at most once, no history, order kept per publisher. */
  publish(channel: string, message: string): Promise<void>;

  /** Answers the function that ends the subscription. */
  subscribe(channel: string, listener: (message: string) => void): Promise<() => Promise<void>>;

  /** Rejects when the store cannot take a write now. */
  ready(): Promise<void>;

  close(): Promise<void>;
}
