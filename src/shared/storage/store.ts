/** The storage port: the operations and guarantees that every store implementation provides. */

/** A store is ready only if it has at least this much free space. */
export const MIN_FREE_BYTES = 512 * 1024;

/** A stored value and its version. Versions of a key never repeat, even after the key was deleted. */
export interface StoredRecord {
  value: string;
  version: number;
}

export interface KeyedRecord extends StoredRecord {
  key: string;
}

/**
 * One step of an atomic write. All conditions are checked before the first step is applied. `ifVersion: 0` requires
 * that the key does not exist. `exists` requires that the key exists, and has this `version` if one is given. A put
 * without a lifetime never expires, even if it replaces a record that does. A lifetime of zero or less stores nothing;
 * `unchanged` keeps the expiry time of the existing record. Adding an existing member changes its score. Scores are
 * finite numbers.
 */
export type Write =
  | { put: string; value: string; lifetimeSeconds?: number | 'unchanged'; ifVersion?: number }
  | { delete: string; ifVersion?: number }
  | { index: string; add: string; score: number }
  | { index: string; remove: string }
  | { exists: string; version?: number };

export interface WriteOptions {
  /**
   * Refuses the write unless this is the lease's latest fencing number, which stops a stale holder. The lease itself
   * may have expired. A store remembers a lease for at least a day after its end, and refuses the write after that.
   */
  fence?: { lease: string; number: number };
}

export interface IndexPage {
  items: { member: string; score: number }[];
  /** An opaque cursor: pass it as `after` to get the next page. The last page has none. */
  next?: string;
}

export interface PageOptions {
  after?: string;
  limit: number;
  /** By default `ascending`, by score and then by member. */
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
 * One item of a copy of the store. A copy has no leases, messages or internal records of the store. `expiresAt`:
 * milliseconds since the epoch, absent if the record never expires.
 */
export type CopyItem =
  | { record: string; value: string; version: number; expiresAt?: number }
  | { index: string; member: string; score: number }
  | { counter: string; value: number; expiresAt: number }
  | { log: string; id: string; at: number; entry: string };

/** `failedOver`: another server has taken over since the last check, and may lack the last writes. */
export interface Admission {
  failedOver: boolean;
}

/**
 * Every method rejects with `AppError('storage_unavailable')` if the store does not respond in time. A write that was
 * rejected in this way may have been applied: read again before you decide.
 *
 * Keys that change together have the same `{tag}`, so that a cluster stores them in one slot. `write` rejects with a
 * TypeError if its keys, including the fence's lease, have different tags. Indexes and logs count as keys.
 *
 * Lifetimes are in seconds. No method returns an expired record.
 *
 * A key never changes its kind: record, index, counter, log or lease. Methods reject a cursor (`after`) of another list
 * with `AppError('invalid_request')`, and a limit that is not a whole number of at least 1 with a TypeError.
 */
export interface Store {
  get(key: string): Promise<StoredRecord | undefined>;

  /** Like `get`, but returns `unchanged` if the record still has this version, so the store need not send the value. */
  getIfChanged(key: string, knownVersion: number | undefined): Promise<StoredRecord | 'unchanged' | undefined>;

  /**
   * Returns every record, a few hundred at a time, in no particular order. A record that exists throughout the walk is
   * returned at least once, regardless of concurrent writes. A record that is created or deleted during the walk may be
   * missing.
   */
  walk(): AsyncIterable<KeyedRecord[]>;

  /**
   * Applies all steps or none. Returns the version of the records that were put, or any positive number if none was.
   * Returns undefined and changes nothing if an `ifVersion`, an `exists` or the fence does not hold.
   */
  write(writes: readonly Write[], options?: WriteOptions): Promise<number | undefined>;

  /**
   * Returns members ordered by score, then by member. Concurrent writes never cause an existing member to be skipped.
   */
  page(index: string, options: PageOptions): Promise<IndexPage>;

  /**
   * Returns the number of members of an index, in constant time. With `upTo`, counts only members with at most that
   * score.
   */
  count(index: string, upTo?: number): Promise<number>;

  /**
   * Adds `by` and returns the new value. The lifetime starts with the first increment; later ones do not extend it.
   * With `limit`, returns undefined and changes nothing if the value would exceed it, so it is an atomic reservation.
   */
  increment(key: string, by: number, options: { lifetimeSeconds: number; limit?: number }): Promise<number | undefined>;

  /** Returns the value of a counter; 0 if it does not exist. */
  counter(key: string): Promise<number>;

  /**
   * Appends all entries or none, and returns their ids, which ascend in the order in which the entries were appended.
   * The same step adds each id to the indexes of its entry, with `at` as its score. These indexes have the tag of the
   * log.
   */
  append(log: string, entries: readonly NewLogEntry[]): Promise<string[]>;

  /**
   * Returns entries in the order in which they were appended, or in reverse order. `after` is an id or the `next` of a
   * page.
   */
  readLog(log: string, options: PageOptions): Promise<LogPage>;

  /** Returns the entries with these ids that still exist, in any order. Malformed ids are ignored. */
  logEntries(log: string, ids: readonly string[]): Promise<LogPage['items']>;

  /** Deletes the entries with these ids that still exist. Malformed ids are ignored. */
  removeEntries(log: string, ids: readonly string[]): Promise<void>;

  /**
   * Acquires the lease and returns the fencing number, or undefined while another owner holds the lease. The number
   * grows with every acquisition, also by the same owner, and never repeats for a lease.
   */
  acquireLease(lease: string, owner: string, milliseconds: number): Promise<number | undefined>;

  /** Extends the lease if this owner still holds it. */
  renewLease(lease: string, owner: string, milliseconds: number): Promise<boolean>;

  /** Ends the lease if this owner still holds it. */
  releaseLease(lease: string, owner: string): Promise<boolean>;

  /**
   * Sends a message to every subscriber in every process, including this one, at most once. Messages of one publisher
   * keep their order. On a cluster, a subscriber may also get messages from shortly before its subscription.
   */
  publish(channel: string, message: string): Promise<void>;

  /** Subscribes to a channel, and returns a function that ends the subscription. */
  subscribe(channel: string, listener: (message: string) => void): Promise<() => Promise<void>>;

  /**
   * Returns everything that has not expired, a few hundred items at a time, beginning with the entries of each log.
   * SQLite returns a snapshot. Redis returns each record whole, and a snapshot of up to 64 keys of one tag; an item
   * that changes during the dump has its old or its new state. Indexes and lists of sessions come after the records
   * that they list, so no session in the copy is missing from its list.
   */
  dump(): AsyncIterable<CopyItem[]>;

  /**
   * Writes items unchanged, including version and expiry, and replaces existing ones. The entries of a log must have
   * ids from `logIdAt`, in ascending order; existing entries stay. Only for a store that no other process uses.
   */
  load(items: readonly CopyItem[]): Promise<void>;

  /** Returns the id for the log entry at this position of a copy, counted from 1. */
  logIdAt(position: number): string;

  /** Deletes everything that `dump` would return, except one record. Only for a store that no other process uses. */
  clear(exceptKey: string): Promise<void>;

  /**
   * Repeats the checks that were made when the store was opened.
   * @throws StorageRefused if a start would now be refused, StorageReplaced if a part of the data is gone
   */
  admit(): Promise<Admission>;

  /**
   * Rejects if the store cannot accept a write now, or has no space for the coming writes.
   * @param bytes space for these writes, in addition to `MIN_FREE_BYTES`; default 0
   */
  ready(bytes?: number): Promise<void>;

  close(): Promise<void>;
}
