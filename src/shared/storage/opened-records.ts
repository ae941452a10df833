/** A cache of opened records. Each read checks the version in the store, so only a current entry is used. */
import type { Store, StoredRecord } from './store.ts';

/** A read that has been started. */
export interface RecordReading<T> {
  key: string;
  /** The cached record, which is current if `record` resolves with `unchanged`. */
  cached: T | undefined;
  record: Promise<StoredRecord | 'unchanged' | undefined>;
}

/** `Opened`: the result of `open`. `T`: the results that may be cached. */
export interface OpenedRecords<T, Opened> {
  /** Returns the opened record; undefined if the store has no such record. */
  find(key: string): Promise<T | Opened | undefined>;
  /** `read` and `finish` are the two halves of `find`, for a caller that starts the read early. */
  read(key: string): RecordReading<T>;
  finish(reading: RecordReading<T>): Promise<T | Opened | undefined>;
}

/**
 * @param parts `cache`: opened records by key. `open`: opens a version that is not in the cache, and caches it if it
 *   may be used again
 */
export function createOpenedRecords<T extends { version: number }, Opened = T>(parts: {
  store: Pick<Store, 'getUnless'>;
  cache: { get(key: string): T | undefined };
  open: (key: string, record: StoredRecord) => Promise<Opened>;
}): OpenedRecords<T, Opened> {
  const { store, cache, open } = parts;
  return {
    // The same as `finish(read(key))`, but without an object: every request runs this.
    async find(key) {
      const cached = cache.get(key);
      const record = await store.getUnless(key, cached?.version);
      return record === 'unchanged' ? cached : record && open(key, record);
    },
    read(key) {
      const cached = cache.get(key);
      return { key, cached, record: store.getUnless(key, cached?.version) };
    },
    async finish({ key, cached, record: reading }) {
      const record = await reading;
      return record === 'unchanged' ? cached : record && open(key, record);
    },
  };
}
