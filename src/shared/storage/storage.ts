/** Opens the storage for the server and for commands: checks its settings, creates its folder, and checks the keys. */
import { accessSync, constants, existsSync, mkdirSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { StorageConfig } from '../config/config.ts';
import { isLoopbackHost } from '../config/rules.ts';
import { codeOf, StartRefused } from '../errors.ts';
import { identifyStore } from './identified-store.ts';
import { checkKeyRing, isEmpty } from './key-check.ts';
import { type EncryptionKey, parseEncryptionKeys } from './key-ring.ts';
import { respondToKeyRollCall } from './key-roll-call.ts';
import { SEALED_KINDS } from './keys.ts';
import { storageName } from './name.ts';
import { assertInService } from './out-of-service.ts';
import { type Probe, storageProbe } from './probe.ts';
import { readTarget, settingOf } from './redis/target.ts';
import { StorageRefused } from './refused.ts';
import { retryWhileUnavailable } from './retry.ts';
import { agreeOnSchema } from './schema-version.ts';
import { createReplaceableSealer, createSealer, type ReplaceableSealer, type Sealer } from './sealed.ts';
import { createSealedJson, type SealedJson } from './sealed-json.ts';
import { createSqliteStore, DEADLINE_MILLISECONDS, type SqliteObserver } from './sqlite/store.ts';
import type { Store } from './store.ts';
import { type TimedCommand, timedStore } from './timed-store.ts';

const ADDRESS_FORMAT =
  'redis://user:password@host:port (in lists also host:port), and percent-encode special characters of the password.';

/** A storage may respond slowly while many processes start at once. */
const START_RETRY_MS = 5_000;

export interface OpenedStorage {
  store: Store;
  /** The sealer for code that checks, counts or replaces the encryption keys. */
  sealer: Sealer;
  /** Seals and opens the records of modules. */
  sealedJson: SealedJson;
  /** The id of this storage. A restored or moved storage has another id. */
  identity: string;
  /** True at the first start, and after all data was lost. */
  wasEmpty: boolean;
  /** How long a command may take. */
  deadlineMilliseconds: number;
}

/** Checks the settings of the storage without opening anything. */
export function checkStorageConfig(config: StorageConfig): { encryptionKeys: EncryptionKey[]; faults: string[] } {
  // Reading the settings has already reported an empty list of keys.
  const parsed = config.encryptionKeys === '' ? { keys: [] } : parseEncryptionKeys(config.encryptionKeys);
  const faults = [...('faults' in parsed ? parsed.faults : []), ...redisAddressFaults(config)];
  return { encryptionKeys: 'keys' in parsed ? parsed.keys : [], faults };
}

export interface OpenParts {
  config: StorageConfig;
  encryptionKeys: readonly EncryptionKey[];
  clock: () => number;
  random: () => number;
  /** Called when a lost connection is open again, before a command is sent on it. */
  onReconnect?: () => void;
  /** Called only if the storage is the embedded database. */
  sqliteObserver?: () => SqliteObserver;
}

/**
 * @param options `lostKeys`: ids of keys whose records were given up; `mustExist`: true to refuse an empty storage
 * @throws StartRefused if an operator must act, AppError `storage_unavailable` if the storage cannot be opened now
 */
export async function openStorage(
  parts: OpenParts,
  { lostKeys = [], mustExist = false }: { lostKeys?: readonly string[]; mustExist?: boolean } = {},
): Promise<OpenedStorage> {
  const { config, encryptionKeys } = parts;
  const store = await openStore(parts);
  const retry = <T>(work: () => Promise<T>) => retryWhileUnavailable(work, START_RETRY_MS);
  try {
    const sealer = createStorageSealer(encryptionKeys);
    await retry(() => assertInService(store));
    if (mustExist) await retry(() => assertNotEmpty(store, config));
    const identity = await retry(() => agreeOnSchema(store));
    const wasEmpty = await retry(() => isEmpty(store));
    await retry(() => checkKeyRing(store, sealer, lostKeys));
    const deadlineMilliseconds = config.redis?.deadlineMilliseconds ?? DEADLINE_MILLISECONDS;
    return { store, sealer, sealedJson: createSealedJson(sealer), identity, wasEmpty, deadlineMilliseconds };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** @throws StorageRefused for a storage without data of Gatehouse: most likely a setting names the wrong one */
export async function assertNotEmpty(store: Store, config: LocationConfig): Promise<void> {
  if (!(await isEmpty(store))) return;
  const setting = config.redis ? settingOf(config.redis) : 'DATA_DIR';
  throw new StorageRefused(
    `${storageName(config)} contains no data of Gatehouse. Check ${setting}, or start Gatehouse once to set it up.`,
  );
}

export function createStorageSealer(encryptionKeys: readonly EncryptionKey[]): Sealer {
  return createSealer(encryptionKeys, Object.keys(SEALED_KINDS));
}

/** The storage of a server. */
export interface Storage extends OpenedStorage {
  sealer: ReplaceableSealer;
  probe: Probe;
  /** When this process last noticed a failover that may have lost writes, in milliseconds since the epoch. */
  failedOverAt(): number | undefined;
  close(): Promise<void>;
}

/** Opens the storage, and reports this process's keys to other processes on request. @throws as `openStorage` */
export async function createStorage(
  parts: OpenParts & {
    events: {
      recordRefused(facts: { kind: string; reason: string }): void;
      redisUnprotected(): void;
      failoverLosesWrites(kind: 'sentinels' | 'cluster'): void;
      storageFailedOver(facts: { storage: string }): void;
      storageSlow(facts: { storage: string; milliseconds: number }): void;
      checkpointFailed(facts: { storage: string; cause: unknown }): void;
    };
    /** Returns the histogram for the durations of a command, or of the flushes of the embedded database. */
    timesOf: (command: TimedCommand | 'flush' | 'checkpoint') => { observe(seconds: number): void };
    /** Called from time to time with the size of the embedded database's log. */
    onLogBytes: (bytes: number) => void;
  },
): Promise<Storage> {
  const { events, config, timesOf, onLogBytes, clock } = parts;
  let onReconnect = () => {};
  const openedStorage = await openStorage({
    ...parts,
    onReconnect: () => onReconnect(),
    sqliteObserver: () => {
      const times = { flush: timesOf('flush'), checkpoint: timesOf('checkpoint') };
      return {
        flushed: (seconds, by) => times[by].observe(seconds),
        flushedSlowly: ({ file, milliseconds }) => events.storageSlow({ storage: file, milliseconds }),
        checkpointFailed: ({ file, cause }) => events.checkpointFailed({ storage: file, cause }),
        logBytes: onLogBytes,
      };
    },
  });
  let failedOverAt: number | undefined;
  const { store, reconnected } = identifyStore({
    store: timedStore(openedStorage.store, timesOf),
    identity: openedStorage.identity,
    onFailover() {
      failedOverAt = clock();
      events.storageFailedOver({ storage: storageName(config) });
    },
  });
  onReconnect = reconnected;
  const sealer = createReplaceableSealer(openedStorage.sealer);
  try {
    // Not through the identified store: a process that refuses its storage still holds its keys.
    await respondToKeyRollCall(openedStorage.store, sealer);
  } catch (error) {
    await store.close();
    throw error;
  }
  if (isUnprotected(config)) events.redisUnprotected();
  const lossyKind = lossyFailover(config);
  if (lossyKind) events.failoverLosesWrites(lossyKind);
  const sealedJson = createSealedJson(sealer, events.recordRefused);
  return {
    ...openedStorage,
    store,
    sealer,
    sealedJson,
    probe: storageProbe(store, config),
    failedOverAt: () => failedOverAt,
    close: () => store.close(),
  };
}

type LocationConfig = Pick<StorageConfig, 'redis' | 'dataDirectory'>;

/** Opens only the store, without keys, for a program that seals nothing. @throws as `openStorage` */
export async function openStore(parts: {
  config: LocationConfig;
  clock: () => number;
  random: () => number;
  onReconnect?: (() => void) | undefined;
  /** Prefix of every key in a Redis that several programs share. */
  keyPrefix?: string;
  sqliteObserver?: () => SqliteObserver;
}): Promise<Store> {
  const { config, clock, random, onReconnect, keyPrefix, sqliteObserver } = parts;
  if (config.redis) {
    // Imported here so that a start with SQLite does not load the Redis driver.
    const { createRedisStore } = await import('./redis/store.ts');
    return createRedisStore({
      ...config.redis,
      random,
      onReconnect,
      ...(keyPrefix === undefined ? {} : { keyPrefix }),
    });
  }
  try {
    prepareDataDirectory(resolve(config.dataDirectory));
    const observer = sqliteObserver?.();
    return await createSqliteStore({ directory: config.dataDirectory, clock, random, ...(observer && { observer }) });
  } catch (error) {
    // Only errors of the file system have a path.
    throw error instanceof Error && 'path' in error ? dataDirectoryRefused(error) : error;
  }
}

/** Returns the faults of the address of Redis. They never repeat the address, which may contain a password. */
export function redisAddressFaults({ redis }: Pick<StorageConfig, 'redis'>): string[] {
  try {
    if (redis?.clientCertificate && !readTarget(redis).credentials.tls)
      return ['REDIS_CERT_FILE works only with TLS. Write rediss:// in the address of Redis.'];
    if (redis) readTarget(redis);
    return [];
  } catch {
    return [`${redis && settingOf(redis)} cannot be read. Write ${ADDRESS_FORMAT}`];
  }
}

/** Returns whether data is sent over a network without TLS. */
export function isUnprotected({ redis }: Pick<StorageConfig, 'redis'>): boolean {
  if (!redis) return false;
  const { addresses, credentials } = readTarget(redis);
  return credentials.tls === undefined && addresses.some(({ host }) => !isLoopbackHost(host));
}

/** Returns the kind of failover that can lose the last writes; undefined if there is none. */
function lossyFailover({ redis }: Pick<StorageConfig, 'redis'>): 'sentinels' | 'cluster' | undefined {
  if (!redis || redis.durability === 'none' || 'url' in redis) return undefined;
  if ('cluster' in redis) return 'cluster';
  return redis.durability === 'aof' ? 'sentinels' : undefined;
}

/** @throws a system error if the folder cannot be created or used */
function prepareDataDirectory(directory: string): void {
  createFolder(directory);
  // The trailing dot makes a file an error.
  accessSync(`${directory}/.`, constants.R_OK | constants.W_OK | constants.X_OK);
}

/**
 * Creates one folder at a time, because `mkdirSync` with `recursive` never returns below /proc, which accepts no files.
 */
function createFolder(folder: string): void {
  if (existsSync(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) createFolder(parent);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    // Another process may have created the folder in the meantime.
    if (codeOf(error) !== 'EEXIST') throw error;
  }
}

function dataDirectoryRefused(error: unknown): StartRefused {
  const fault = DATA_DIRECTORY_FAULTS[codeOf(error) ?? ''] ?? 'names a folder that cannot be created or used';
  const advice = 'Set DATA_DIR to a folder that this user can write to.';
  return new StartRefused([`DATA_DIR ${fault}. ${advice}`], { cause: error });
}

const DATA_DIRECTORY_FAULTS: Readonly<Record<string, string>> = {
  ENOTDIR: 'names a file, or a path below one',
  EACCES: 'names a folder that this user cannot write to',
  EPERM: 'names a folder that this user cannot write to',
  EROFS: 'names a folder on a read-only disk',
};
