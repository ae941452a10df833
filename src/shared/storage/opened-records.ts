/** Opened records in memory. Each read asks the store for the version: an entry is used only if it still is the current one. */
import type { Store, StoredRecord } from './store.ts';

/** A read that has started. */
export interface RecordReading<T> {
  key: string;
  /** The record as this process opened it before; current where `record` is `unchanged`. */
  cached: T | undefined;
  record: Promise<StoredRecord | 'unchanged' | undefined>;
}

/** `Opened`: what `open` makes of a record. `T`: that part of it which the cache may hold. */
export interface OpenedRecords<T, Opened> {
  /** Undefined where the store has no such record. */
  find(key: string): Promise<T | Opened | undefined>;
  /** The two halves of `find`, for a caller that starts the read before it knows that it needs it. */
  read(key: string): RecordReading<T>;
  finish(reading: RecordReading<T>): Promise<T | Opened | undefined>;
}

/**
 * @param parts `cache`: by key of the record. `open`: opens a record that is not in the cache in this version, and puts it
 *   there if it may be used again
 */
export function createOpenedRecords<T extends { version: number }, Opened = T>(parts: {
  store: Pick<Store, 'getUnless'>;
  cache: { get(key: string): T | undefined };
  open: (key: string, record: StoredRecord) => Promise<Opened>;
}): OpenedRecords<T, Opened> {
  const { store, cache, open } = parts;
  return {
    // Written out, although it is `finish(read(key))`: it is on the way of each request, which needs no object for it.
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
