/** The storage port: what Gatehouse asks of a store, and the duties of every implementation. */

/** A store that is ready has at least this much room. */
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
 * One step of an atomic write. All conditions are checked against the state before the first step. `ifVersion: 0` demands
 * that the key does not exist, `exists` that it exists: in this `version`, or in any. A put without a lifetime lasts, even over a record
 * with one. With a lifetime of zero or less it leaves nothing behind, and with `unchanged` the record expires when it would
 * have expired. Adding a member again changes its score. Scores are finite numbers.
 */
export type Write =
  | { put: string; value: string; lifetimeSeconds?: number | 'unchanged'; ifVersion?: number }
  | { delete: string; ifVersion?: number }
  | { index: string; add: string; score: number }
  | { index: string; remove: string }
  | { exists: string; version?: number };

export interface WriteOptions {
  /**
   * Refuses the write unless this holder is the latest one of the lease, which stops a stale holder. The lease may have
   * expired. A store remembers a lease for at least a day after its end, and refuses the write once it has forgotten it.
   */
  fence?: { lease: string; number: number };
}

export interface IndexPage {
  items: { member: string; score: number }[];
  /** Opaque: pass it as `after` to get the next page. Absent on the last page. */
  next?: string;
}

export interface PageOptions {
  after?: string;
  limit: number;
  /** Default `ascending` by score, then by member. */
  order?: 'ascending' | 'descending';
}

export interface NewLogEntry {
  entry: string;
  /** Milliseconds since the epoch. */
  at: number;
  indexes?: readonly string[];
}

export interface LogPage {
  items: { id: string; at: number; entry: string }[];
  next?: string;
}

/**
 * One item of a copy of the store. A copy has no leases, no messages and no internal records of the store. `expiresAt`:
 * milliseconds since the epoch, absent if the record lasts.
 */
export type KeptItem =
  | { record: string; value: string; version: number; expiresAt?: number }
  | { index: string; member: string; score: number }
  | { counter: string; value: number; expiresAt: number }
  | { log: string; id: string; at: number; entry: string };

/** `failedOver`: since the last check another server took over, which may lack the last writes before that. */
export interface Admitted {
  failedOver: boolean;
}

/**
 * Every method rejects with `AppError('storage_unavailable')` if the store cannot answer in time. The result of a write that
 * was rejected in this way is unknown: read again before you decide.
 *
 * Keys that change together have the same `{tag}`, so that a cluster keeps them in one slot. `write` rejects with a
 * TypeError if its keys, including the fence's lease, have different tags. Indexes and logs count as keys.
 *
 * Lifetimes are in seconds. No method returns an expired record.
 *
 * A key never changes its kind: record, index, counter, log or lease. A cursor (`after`) of another list rejects with
 * `AppError('invalid_request')`, and a limit that is not a whole number from 1 with a TypeError.
 */
export interface Store {
  get(key: string): Promise<StoredRecord | undefined>;

  /** Like `get`, but `unchanged` if the record still has this version: a store need not send the value then. */
  getUnless(key: string, version: number | undefined): Promise<StoredRecord | 'unchanged' | undefined>;

  /**
   * Every record, a few hundred at a time, in no order. A record that exists during the whole walk is returned at least once,
   * whatever is written meanwhile. A record that comes or goes may be missing.
   */
  walk(): AsyncIterable<WalkedRecord[]>;

  /**
   * Does all steps or none. Returns the version of every record that was put, or 1 or more if none was. Returns undefined,
   * with nothing changed, if an `ifVersion`, an `exists` or the fence does not hold.
   */
  write(writes: readonly Write[], options?: WriteOptions): Promise<number | undefined>;

  /** Members in order of score, ties by member. A member that stays is never skipped, whatever is written meanwhile. */
  page(index: string, options: PageOptions): Promise<IndexPage>;

  /** The number of members of an index, at once however many there are. With `upTo`, of those with at most that score. */
  count(index: string, upTo?: number): Promise<number>;

  /**
   * Adds `by` and returns the new value. The lifetime starts with the first increment, and later ones do not extend it. With
   * `limit`, returns undefined and changes nothing if the value would exceed it: an atomic reservation.
   */
  increment(key: string, by: number, options: { lifetimeSeconds: number; limit?: number }): Promise<number | undefined>;

  /** The current value of the counter; 0 if there is none. */
  counter(key: string): Promise<number>;

  /**
   * Appends all of the entries or none, and returns their ids, which ascend in the order of appending. Each id becomes a member
   * of the indexes of its entry in the same step, with `at` as its score. They have the tag of the log.
   */
  append(log: string, entries: readonly NewLogEntry[]): Promise<string[]>;

  /** Entries in order of appending, or the reverse. `after` is an id or the `next` of a page. */
  readLog(log: string, options: PageOptions): Promise<LogPage>;

  /** The entries with these ids that still exist, in any order. Malformed ids are ignored. */
  logEntries(log: string, ids: readonly string[]): Promise<LogPage['items']>;

  /** Deletes the entries with these ids that still exist. Malformed ids are ignored. */
  removeEntries(log: string, ids: readonly string[]): Promise<void>;

  /**
   * Returns the fencing number, or undefined while another owner holds the lease. The number grows with every acquisition,
   * including those by the same owner, and never repeats for a lease.
   */
  acquireLease(lease: string, owner: string, milliseconds: number): Promise<number | undefined>;

  /** Extends the lease if this owner still holds it. */
  renewLease(lease: string, owner: string, milliseconds: number): Promise<boolean>;

  /** Ends the lease if this owner still holds it. */
  releaseLease(lease: string, owner: string): Promise<boolean>;

  /**
   * Sends a message to every subscriber in every process, including this one: at most once, in the order of each publisher.
   * On a cluster, a subscriber may also get messages from shortly before its subscription.
   */
  publish(channel: string, message: string): Promise<void>;

  /** Returns the function that ends the subscription. */
  subscribe(channel: string, listener: (message: string) => void): Promise<() => Promise<void>>;

  /**
   * A copy of everything that has not expired, a few hundred items at a time: first the entries of logs, log by log. SQLite
   * returns the state of one moment. Redis returns each record whole, and up to 64 keys of one tag as of one moment; items
   * that come, change or go meanwhile have their old or their new state. Indexes and lists of sessions come after the
   * records that they list, so no session in the copy is missing from its list.
   */
  dump(): AsyncIterable<KeptItem[]>;

  /**
   * Writes items exactly as they are, including version and expiry, over existing ones. The entries of a log have ids of
   * `logIdAt`, in ascending order; existing entries stay. Only for a store that no other process uses.
   */
  load(items: readonly KeptItem[]): Promise<void>;

  /** The id for the log entry at this place of a copy, counted from 1. */
  logIdAt(place: number): string;

  /** Deletes everything that `dump` would return, except one record. Only for a store that no other process uses. */
  clear(spared: string): Promise<void>;

  /**
   * Checks again what was checked when the store was opened.
   * @throws StorageRefused if a start would now be refused, StorageReplaced if a part of the data is gone
   */
  admit(): Promise<Admitted>;

  /**
   * Rejects if the store cannot take a write now, or has no room for the writes to come.
   * @param bytes that these writes need in addition to `MIN_ROOM_BYTES`; default 0
   */
  ready(bytes?: number): Promise<void>;

  close(): Promise<void>;
}
