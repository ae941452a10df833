/**
 * Reads records through the caller's cache of opened records: an entry is used only if the store still has its version.
 */
import type { Store, StoredRecord } from './store.ts';

/** A read that has been started. */
export interface RecordReading<Cached> {
  key: string;
  /** The cached record, which is current if `pendingRecord` resolves with `unchanged`. */
  cached: Cached | undefined;
  pendingRecord: Promise<StoredRecord | 'unchanged' | undefined>;
}

/** `Opened`: what `open` returns, which may also be a result that is not cached. */
export interface OpenedRecords<Cached, Opened> {
  /** Returns the opened record; undefined if the store has no such record. */
  find(key: string): Promise<Cached | Opened | undefined>;
  /** `read` and `finish` are the two halves of `find`, for a caller that starts the read early. */
  read(key: string): RecordReading<Cached>;
  finish(reading: RecordReading<Cached>): Promise<Cached | Opened | undefined>;
}

/**
 * @param parts `cache`: opened records by key. `open`: opens a version that is not in the cache, and caches it if it
 *   may be used again
 */
export function createOpenedRecords<Cached extends { version: number }, Opened = Cached>(parts: {
  store: Pick<Store, 'getIfChanged'>;
  cache: { get(key: string): Cached | undefined };
  open: (key: string, record: StoredRecord) => Promise<Opened>;
}): OpenedRecords<Cached, Opened> {
  const { store, cache, open } = parts;
  return {
    // The same as `finish(read(key))`, but without an object: every request runs this.
    async find(key) {
      const cached = cache.get(key);
      const record = await store.getIfChanged(key, cached?.version);
      return record === 'unchanged' ? cached : record && open(key, record);
    },
    read(key) {
      const cached = cache.get(key);
      return { key, cached, pendingRecord: store.getIfChanged(key, cached?.version) };
    },
    async finish({ key, cached, pendingRecord }) {
      const record = await pendingRecord;
      return record === 'unchanged' ? cached : record && open(key, record);
    },
  };
}
