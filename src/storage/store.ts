/** The storage port: what Gatehouse asks of any store, with the duties that every implementation has. */

/** What a store that is ready has room for at least. */
export const MIN_ROOM_BYTES = 512 * 1024;

/** A stored value and its version. A version never repeats for a key, not even after the key was deleted. */
export interface StoredRecord {
  value: string;
  version: number;
}

export interface WalkedRecord extends StoredRecord {
  key: string;
}

/**
 * One step of an atomic write. `ifVersion: 0` means that the key must not exist; every condition is judged against the
 * state before the first step. A put without a lifetime lasts, even over one that had a lifetime; with a lifetime of zero
 * or less it leaves nothing behind; with `unchanged` the record ends when it would have ended. Adding a member again moves it to the new score. Scores are finite numbers.
 * `exists` changes nothing: it is the condition that there is a record of this key, in whatever version.
 */
export type Write =
  | { put: string; value: string; lifetimeSeconds?: number | 'unchanged'; ifVersion?: number }
  | { delete: string; ifVersion?: number }
  | { index: string; add: string; score: number }
  | { index: string; remove: string }
  | { exists: string };

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
 * One thing that is kept, as a copy of the store holds it: everything but leases, messages and what the store keeps for
 * itself. `expiresAt`: milliseconds since the epoch, absent where it lasts.
 */
export type KeptItem =
  | { record: string; value: string; version: number; expiresAt?: number }
  | { index: string; member: string; score: number }
  | { counter: string; value: number; expiresAt: number }
  | { log: string; id: string; at: number; entry: string };

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

  /** The same, but `unchanged` where it still has this version: a store may then spare itself the value. */
  getUnless(key: string, version: number | undefined): Promise<StoredRecord | 'unchanged' | undefined>;

  /**
   * Every record, a few hundred at a time, in no order. One that is there from the first to the last is given once at least,
   * whatever is written meanwhile; one that comes or goes may be given or not.
   */
  walk(): AsyncIterable<WalkedRecord[]>;

  /**
   * All steps or none. Returns the version that every record has which it put, or 1 or more where it put none; undefined,
   * with nothing changed, when an `ifVersion`, an `exists` or the fence does not hold.
   */
  write(writes: readonly Write[], options?: WriteOptions): Promise<number | undefined>;

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

  /**
   * Appends and answers the entry's id. Ids ascend in the order of appending. `at`: milliseconds since the epoch. The id
   * becomes a member of these indexes, with that time as its score: both or neither. They carry the tag of the log.
   */
  append(log: string, entry: string, at: number, indexes?: readonly string[]): Promise<string>;

  /** Entries in order of appending (or the reverse); `after` is an id or a page's `next`. */
  readLog(log: string, options: PageOptions): Promise<LogPage>;

  /** The entries with these ids that are still there, in any order. An id of no log's form is not there. */
  logEntries(log: string, ids: readonly string[]): Promise<LogPage['items']>;

  /** Deletes the entries with these ids that are still there. An id of no log's form is not there. */
  removeEntries(log: string, ids: readonly string[]): Promise<void>;

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

  /**
   * Everything that is kept and has not expired, a few hundred items at a time, first the entries of logs, log by log. SQLite gives it as
   * of one moment. Redis gives what was there from the first to the last, each record whole, and reads together what one tag
   * holds (up to 64 keys); what comes, changes or goes meanwhile may be given in its old state or its new one. Lists of
   * sessions, and indexes, are read after what they list, so that no session is given that its list lacks.
   */
  dump(): AsyncIterable<KeptItem[]>;

  /**
   * Puts items in their place exactly as they are, version and end included, over what is there. The entries of a log come in
   * ascending order of their ids, of which `logIdAt` makes such; one that is there already is left. For a store that nobody else uses.
   */
  load(items: readonly KeptItem[]): Promise<void>;

  /** The id that an entry has which is loaded at this place of a copy, counted from 1. */
  logIdAt(place: number): string;

  /** Deletes everything that `dump` would give, but for that one record. For a store that nobody else uses. */
  clear(spared: string): Promise<void>;

  /**
   * Rejects when the store cannot take a write now, or has no room for the writes to come.
   * @param bytes that these writes need beside `MIN_ROOM_BYTES`; default 0
   */
  ready(bytes?: number): Promise<void>;

  close(): Promise<void>;
}
