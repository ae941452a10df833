/** Opens a storage for a command, with only the settings that it needs. */
import type { ConfigSource } from '../../shared/config/setting.ts';
import { trustAuthorities } from '../../shared/outbound/authorities.ts';
import { type OpenedStorage, openStorage, openStore } from '../../shared/storage/storage.ts';
import type { Store } from '../../shared/storage/store.ts';
import { assertDatabase, readPlace, type StoragePlace } from './storage-place.ts';

type Work<T> = (storage: OpenedStorage) => Promise<T>;

/**
 * Opens the configured storage, runs the work, and always closes the storage. Creates no storage, because a command
 * would then report on, or write to, an empty storage that no process uses.
 * @param lostKeys ids of keys whose records are given up
 * @throws StartRefused with every fault of those settings, or for an empty storage (exit status 78);
 *   AppError `storage_unavailable`
 */
export function withStorage<T>(source: ConfigSource, work: Work<T>, lostKeys: readonly string[] = []): Promise<T> {
  return withOpened(source, { lostKeys, mustExist: true }, work);
}

/** Like `withStorage`, for a storage that may be new. */
export function withNewStorage<T>(source: ConfigSource, work: Work<T>): Promise<T> {
  return withOpened(source, {}, work);
}

async function withOpened<T>(
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
