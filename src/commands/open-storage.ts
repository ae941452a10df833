/** Owns how a command comes to the storage: it reads only the settings it needs, opens what the server opens, and closes it again. */
import { loadStorageConfig } from '../config.ts';
import type { ConfigSource } from '../config-reader.ts';
import { checkStorageConfig, type OpenedStorage, openStorage } from '../open-storage.ts';
import { StartRefused } from '../start-refused.ts';

/**
 * Does the work with the storage of the settings, which is closed whatever happens.
 * @param lostKeys ids of keys whose records were given up
 * @throws StartRefused with every fault of those settings (exit status 78), AppError `storage_unavailable`
 */
export async function withStorage<T>(
  source: ConfigSource,
  work: (storage: OpenedStorage) => Promise<T>,
  lostKeys: readonly string[] = [],
): Promise<T> {
  const { values: config, faults } = loadStorageConfig(source);
  const checked = checkStorageConfig(config);
  if (faults.length + checked.faults.length > 0) throw new StartRefused([...faults, ...checked.faults]);
  const { encryptionKeys } = checked;
  const storage = await openStorage({ config, encryptionKeys, clock: Date.now, random: Math.random, lostKeys });
  try {
    return await work(storage);
  } finally {
    await storage.store.close();
  }
}
