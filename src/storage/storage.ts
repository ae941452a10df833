/** The way to the storage: its settings are checked, its place made, its keys proved; the server and the commands open it alike. */
import { accessSync, constants, existsSync, mkdirSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { StorageConfig } from '../config/config.ts';
import { isLoopbackHost } from '../config/rules.ts';
import { codeOf, StartRefused } from '../errors.ts';
import { checkKeyRing, isEmpty, WrongKeyError } from './key-check.ts';
import { type EncryptionKey, parseEncryptionKeys } from './key-ring.ts';
import { answerKeyRollCall } from './key-roll-call.ts';
import { SEALED_KINDS } from './keys.ts';
import { assertInService, OutOfServiceError } from './out-of-service.ts';
import { patiently } from './patience.ts';
import { RedisRefusedError } from './redis/refused.ts';
import { readTarget } from './redis/target.ts';
import { agreeOnSchema } from './schema-version.ts';
import { createSealer, type Sealer } from './sealed.ts';
import { createSealedJson, type SealedJson } from './sealed-json.ts';
import { DatabaseFileError } from './sqlite/database.ts';
import { createSqliteStore, DEADLINE_MILLISECONDS } from './sqlite/store.ts';
import type { Store } from './store.ts';

/** A storage that is slow while everything starts at once is no reason to give up; one that is not there is. */
const START_PATIENCE_MILLISECONDS = 5_000;

export interface OpenedStorage {
  store: Store;
  sealer: Sealer;
  /** Nothing was there: a first start, or everything is gone. */
  wasEmpty: boolean;
  /** How long it may take to answer a command. */
  deadlineMilliseconds: number;
}

/** What the settings of the storage are worth, judged without opening anything. */
export function checkStorageConfig(config: StorageConfig): { encryptionKeys: EncryptionKey[]; faults: string[] } {
  // That no keys are given at all is told by whoever read the settings.
  const parsed = config.encryptionKeys === '' ? { keys: [] } : parseEncryptionKeys(config.encryptionKeys);
  const faults = [...('faults' in parsed ? parsed.faults : []), ...redisFaults(config)];
  return { encryptionKeys: 'keys' in parsed ? parsed.keys : [], faults };
}

/** @throws StartRefused where an operator has to decide, AppError `storage_unavailable` where it cannot be opened now */
export async function openStorage(parts: {
  config: StorageConfig;
  encryptionKeys: readonly EncryptionKey[];
  clock: () => number;
  random: () => number;
  /** Ids of keys whose records were given up. */
  lostKeys?: readonly string[];
}): Promise<OpenedStorage> {
  const { config, lostKeys = [] } = parts;
  const store = await openStore(parts);
  try {
    const sealer = createSealer(parts.encryptionKeys, Object.keys(SEALED_KINDS));
    await patiently(() => assertInService(store), START_PATIENCE_MILLISECONDS);
    await patiently(() => agreeOnSchema(store), START_PATIENCE_MILLISECONDS);
    const wasEmpty = await patiently(() => isEmpty(store), START_PATIENCE_MILLISECONDS);
    await patiently(() => checkKeyRing(store, sealer, lostKeys), START_PATIENCE_MILLISECONDS);
    const deadlineMilliseconds = config.redis?.deadlineMilliseconds ?? DEADLINE_MILLISECONDS;
    return { store, sealer, wasEmpty, deadlineMilliseconds };
  } catch (error) {
    await store.close();
    throw asRefusal(error, config);
  }
}

/** The storage of a server. */
export interface Storage extends OpenedStorage {
  sealedJson: SealedJson;
  close(): Promise<void>;
}

/** Opens it, and tells other processes which keys this one has while it is open. @throws as `openStorage` */
export async function createStorage(
  parts: Omit<Parameters<typeof openStorage>[0], 'lostKeys'> & {
    events: { recordRefused(facts: { kind: string; reason: string }): void; redisUnprotected(): void };
  },
): Promise<Storage> {
  const { events, config } = parts;
  const opened = await openStorage(parts);
  const { store, sealer } = opened;
  try {
    await answerKeyRollCall(store, sealer);
  } catch (error) {
    await store.close();
    throw error;
  }
  if (isUnprotected(config)) events.redisUnprotected();
  return { ...opened, sealedJson: createSealedJson(sealer, events.recordRefused), close: () => store.close() };
}

/** The store alone, for a program that seals nothing. @throws as `openStorage` */
export async function openStore(parts: {
  config: Pick<StorageConfig, 'redis' | 'dataDirectory'>;
  clock: () => number;
  random: () => number;
  /** Stands before every key in a Redis that serves several programs. */
  keyPrefix?: string;
}): Promise<Store> {
  const { config, clock, random, keyPrefix } = parts;
  try {
    if (config.redis) {
      // Who keeps everything in a file need not wait until all that speaks to a Redis is loaded.
      const { createRedisStore } = await import('./redis/store.ts');
      return await createRedisStore({ ...config.redis, random, ...(keyPrefix === undefined ? {} : { keyPrefix }) });
    }
    prepareDataDirectory(config.dataDirectory);
    return await createSqliteStore({ directory: config.dataDirectory, clock, random });
  } catch (error) {
    throw asRefusal(error, config);
  }
}

/** Never repeats the text, which may hold a password. */
export function redisFaults({ redis }: Pick<StorageConfig, 'redis'>): string[] {
  try {
    if (redis) readTarget(redis);
    return [];
  } catch {
    return [
      'REDIS_URL, REDIS_CLUSTER or REDIS_SENTINELS cannot be read: give redis://host:port, or host:port,host:port.',
    ];
  }
}

/** True where what Gatehouse keeps goes over a network that others may listen on. */
export function isUnprotected({ redis }: Pick<StorageConfig, 'redis'>): boolean {
  if (!redis) return false;
  const { addresses, credentials } = readTarget(redis);
  return credentials.tls === undefined && addresses.some(({ host }) => !isLoopbackHost(host));
}

/** Where the storage is there but must not be used as it is, or has no place to be, an operator has to decide. */
function asRefusal(error: unknown, { redis, dataDirectory }: Pick<StorageConfig, 'redis' | 'dataDirectory'>): unknown {
  const refusals = [WrongKeyError, DatabaseFileError, RedisRefusedError, OutOfServiceError];
  if (error instanceof Error && refusals.some((kind) => error instanceof kind))
    return new StartRefused([error.message], { cause: error });
  const path = error instanceof Error && 'path' in error ? String(error.path) : undefined;
  const isInside = path !== undefined && resolve(path).startsWith(resolve(dataDirectory));
  return !redis && isInside ? dataDirectoryRefused(error) : error;
}

/** @throws StartRefused where the folder cannot be made, or not be used */
function prepareDataDirectory(directory: string): void {
  try {
    makeFolder(resolve(directory));
    // The trailing dot asks for a folder: a file there is an error.
    accessSync(`${resolve(directory)}/.`, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw dataDirectoryRefused(error);
  }
}

/** Step by step, because Node's own `recursive` never ends below a folder in which nothing can be made, such as /proc. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) makeFolder(parent);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    // Another process may have made it just now.
    if (codeOf(error) !== 'EEXIST') throw error;
  }
}

function dataDirectoryRefused(error: unknown): StartRefused {
  const why = DATA_DIRECTORY_FAULTS[codeOf(error) ?? ''] ?? 'names a folder that cannot be made or used';
  const advice = 'Choose a folder with DATA_DIR in which this user may write.';
  return new StartRefused([`DATA_DIR ${why}. ${advice}`], { cause: error });
}

const DATA_DIRECTORY_FAULTS: Readonly<Record<string, string>> = {
  ENOTDIR: 'names a file, or a place below one',
  EACCES: 'names a folder in which this user may not write',
  EPERM: 'names a folder in which this user may not write',
  EROFS: 'names a folder on a disk that is read-only',
};
