/** Parses a storage on the command line: `sqlite`, `redis`, a folder, or a URL. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { loadStorageConfig, type StorageConfig } from '../../shared/config/config.ts';
import type { ConfigSource } from '../../shared/config/setting.ts';
import { StartRefused } from '../../shared/errors.ts';
import type { EncryptionKey } from '../../shared/storage/key-ring.ts';
import { storageName } from '../../shared/storage/name.ts';
import type { Sealer } from '../../shared/storage/sealed.ts';
import { DATABASE_FILE } from '../../shared/storage/sqlite/store.ts';
import { checkStorageConfig, createStorageSealer } from '../../shared/storage/storage.ts';

export interface StoragePlace {
  config: StorageConfig;
  encryptionKeys: readonly EncryptionKey[];
  sealer: Sealer;
  /** The name that commands print. */
  name: string;
}

const REDIS_PLACES = [
  'REDIS_URL',
  'REDIS_CLUSTER',
  'REDIS_SENTINELS',
  'REDIS_SENTINEL_NAME',
  'REDIS_SENTINEL_USERNAME',
  'REDIS_SENTINEL_PASSWORD',
];

/**
 * @param place `sqlite` (in DATA_DIR), `redis` (from the settings), `sqlite:FOLDER`, or a `redis:` or `rediss:` URL.
 *   Default: the storage of the settings
 * @throws StartRefused with all faults of the settings, or for any other text
 */
export function readPlace(source: ConfigSource, place?: string): StoragePlace {
  const { values: config, faults } = loadStorageConfig({ ...source, env: envOf(source.env, place) });
  const checked = checkStorageConfig(config);
  const unset =
    place === 'redis' && !config.redis
      ? ['REDIS_URL, REDIS_CLUSTER or REDIS_SENTINELS is required: set one of them, or use a redis:// URL.']
      : [];
  const allFaults = [...faults, ...checked.faults, ...unset];
  if (allFaults.length > 0) throw new StartRefused(allFaults);
  const { encryptionKeys } = checked;
  return { config, encryptionKeys, sealer: createStorageSealer(encryptionKeys), name: storageName(config) };
}

/** @throws StartRefused if there is no database; opening the storage would create one */
export function assertDatabase({ config: { redis, dataDirectory } }: StoragePlace): void {
  if (redis || existsSync(join(dataDirectory, DATABASE_FILE))) return;
  throw new StartRefused([
    `There is no database in ${dataDirectory}: set DATA_DIR to the folder that holds ${DATABASE_FILE}, or start Gatehouse once, which creates it.`,
  ]);
}

/** Says how an operator empties this storage. */
export function howToEmpty({ config: { redis, dataDirectory } }: StoragePlace): string {
  return redis
    ? 'Use an empty Redis. If nothing in this one is needed, empty it with redis-cli FLUSHDB, in a cluster on every primary.'
    : `Move ${DATABASE_FILE} and the files next to it out of ${dataDirectory}.`;
}

function envOf(env: ConfigSource['env'], place: string | undefined): ConfigSource['env'] {
  if (place === undefined || place === 'redis') return env;
  const names = REDIS_PLACES.flatMap((name) => [name, `${name}_FILE`]);
  const withoutRedis = Object.fromEntries(names.map((name) => [name, undefined]));
  if (place === 'sqlite') return { ...env, ...withoutRedis };
  if (place.startsWith('sqlite:') && place.length > 'sqlite:'.length)
    return { ...env, ...withoutRedis, DATA_DIR: place.slice('sqlite:'.length) };
  if (/^rediss:\/\//.test(place)) return { ...env, ...withoutRedis, REDIS_URL: place };
  // In a move to TLS, the settings have the client certificate of the other storage.
  const withoutCertificate = { REDIS_CERT_FILE: undefined, REDIS_KEY_FILE: undefined };
  if (/^redis:\/\//.test(place)) return { ...env, ...withoutRedis, ...withoutCertificate, REDIS_URL: place };
  throw new StartRefused(['Name a storage as sqlite, redis, sqlite:FOLDER, or by a redis:// or rediss:// URL.']);
}
