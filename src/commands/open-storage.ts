/** Opens a storage for a command, with only the settings that it needs. */
import type { ConfigSource } from '../config/setting.ts';
import { trustAuthorities } from '../outbound/authorities.ts';
import { type OpenedStorage, openStorage, openStore } from '../storage/storage.ts';
import type { Store } from '../storage/store.ts';
import { assertDatabase, readPlace, type StoragePlace } from './storage-place.ts';

/**
 * Opens the configured storage, does the work, and always closes the storage.
 * @param lostKeys ids of keys whose records are given up
 * @throws StartRefused with every fault of those settings (exit status 78), AppError `storage_unavailable`
 */
export async function withStorage<T>(
  source: ConfigSource,
  work: (storage: OpenedStorage) => Promise<T>,
  lostKeys: readonly string[] = [],
): Promise<T> {
  const { config, encryptionKeys } = readPlace(source);
  trustAuthorities(config.authorities);
  const storage = await openStorage({ config, encryptionKeys, clock: Date.now, random: Math.random }, lostKeys);
  try {
    return await work(storage);
  } finally {
    await storage.store.close();
  }
}

/** As `withStorage`, but never creates a database. @throws as `withStorage`, and StartRefused if there is none */
export async function withExistingStorage<T>(
  source: ConfigSource,
  work: (storage: OpenedStorage) => Promise<T>,
): Promise<T> {
  assertDatabase(readPlace(source));
  return withStorage(source, work);
}

/** Opens only the store, without checking keys or state. */
export async function withStore<T>({ config }: StoragePlace, work: (store: Store) => Promise<T>): Promise<T> {
  trustAuthorities(config.authorities);
  const store = await openStore({ config, clock: Date.now, random: Math.random });
  return work(store).finally(() => store.close());
}
