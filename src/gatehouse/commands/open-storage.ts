/** Opens a storage for a command, with only the settings that it needs. */
import type { ConfigSource } from '../../shared/config/setting.ts';
import { trustAuthorities } from '../../shared/outbound/authorities.ts';
import { type OpenedStorage, openStorage, openStore } from '../../shared/storage/storage.ts';
import type { Store } from '../../shared/storage/store.ts';
import { assertDatabase, readPlace, type StoragePlace } from './storage-place.ts';

type Work<T> = (storage: OpenedStorage) => Promise<T>;

/**
 * Opens the configured storage, does the work, and always closes the storage. Sets up nothing: a command would report on an
 * empty storage, or write to one, that no Gatehouse uses.
 * @param lostKeys ids of keys whose records are given up
 * @throws StartRefused with every fault of those settings, or for a storage that holds nothing (exit status 78);
 *   AppError `storage_unavailable`
 */
export function withStorage<T>(source: ConfigSource, work: Work<T>, lostKeys: readonly string[] = []): Promise<T> {
  return opened(source, { lostKeys, mustExist: true }, work);
}

/** As `withStorage`, for one that may be new. */
export function withNewStorage<T>(source: ConfigSource, work: Work<T>): Promise<T> {
  return opened(source, {}, work);
}

async function opened<T>(
  source: ConfigSource,
  options: { lostKeys?: readonly string[]; mustExist?: boolean },
  work: Work<T>,
): Promise<T> {
  const place = readPlace(source);
  const { config, encryptionKeys } = place;
  if (options.mustExist) assertDatabase(place);
  trustAuthorities(config.authorities);
  const storage = await openStorage({ config, encryptionKeys, clock: Date.now, random: Math.random }, options);
  try {
    return await work(storage);
  } finally {
    await storage.store.close();
  }
}

/** Opens only the store, without checking keys or state. */
export async function withStore<T>({ config }: StoragePlace, work: (store: Store) => Promise<T>): Promise<T> {
  trustAuthorities(config.authorities);
  const store = await openStore({ config, clock: Date.now, random: Math.random });
  return work(store).finally(() => store.close());
}
