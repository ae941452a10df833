/** Opens the storage, for the server and for commands: checks its settings, creates its folder, and checks the keys. */
import { accessSync, constants, existsSync, mkdirSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { StorageConfig } from '../config/config.ts';
import { isLoopbackHost } from '../config/rules.ts';
import { codeOf, StartRefused } from '../errors.ts';
import { identifyStore } from './identified-store.ts';
import { checkKeyRing, isEmpty } from './key-check.ts';
import { type EncryptionKey, parseEncryptionKeys } from './key-ring.ts';
import { answerKeyRollCall } from './key-roll-call.ts';
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

const FORM_OF_ADDRESS =
  'redis://user:password@host:port (in lists also host:port), and percent-encode special characters of the password.';

/** A storage may be slow while everything starts at once. */
const START_RETRY_MS = 5_000;

export interface OpenedStorage {
  store: Store;
  /** The keys: for what checks, counts and replaces them. */
  sealer: Sealer;
  /** For modules, which seal and open records with it. */
  sealedJson: SealedJson;
  /** Of the storage; a restored or moved one has another. */
  identity: string;
  /** The storage held nothing: this is the first start, or everything is lost. */
  wasEmpty: boolean;
  /** How long a command may take. */
  deadlineMilliseconds: number;
}

/** Checks the settings of the storage without opening anything. */
export function checkStorageConfig(config: StorageConfig): { encryptionKeys: EncryptionKey[]; faults: string[] } {
  // If there are no keys at all, reading the settings has reported that.
  const parsed = config.encryptionKeys === '' ? { keys: [] } : parseEncryptionKeys(config.encryptionKeys);
  const faults = [...('faults' in parsed ? parsed.faults : []), ...redisAddressFaults(config)];
  return { encryptionKeys: 'keys' in parsed ? parsed.keys : [], faults };
}

export interface OpenParts {
  config: StorageConfig;
  encryptionKeys: readonly EncryptionKey[];
  clock: () => number;
  random: () => number;
  /** Called in the moment in which a connection that was lost is there again, before a command is sent on it. */
  onReconnect?: () => void;
  /** Called if the storage is the embedded database. */
  sqliteObserver?: () => SqliteObserver;
}

/**
 * @param options `lostKeys`: ids of keys whose records were given up; `mustExist`: refuse a storage that holds nothing
 * @throws StartRefused if an operator has to decide, AppError `storage_unavailable` if it cannot be opened now
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

/** @throws StorageRefused for a storage that holds nothing of Gatehouse: most likely a setting names another place */
export async function assertNotEmpty(store: Store, config: PlaceConfig): Promise<void> {
  if (!(await isEmpty(store))) return;
  const setting = config.redis ? settingOf(config.redis) : 'DATA_DIR';
  throw new StorageRefused(
    `${storageName(config)} holds nothing of Gatehouse. Check ${setting}, or start Gatehouse once, which sets it up.`,
  );
}

export function createStorageSealer(encryptionKeys: readonly EncryptionKey[]): Sealer {
  return createSealer(encryptionKeys, Object.keys(SEALED_KINDS));
}

/** The storage of a server. */
export interface Storage extends OpenedStorage {
  sealer: ReplaceableSealer;
  probe: Probe;
  /** When the last failover was noticed that may have lost writes (milliseconds since the epoch). */
  failedOverAt(): number | undefined;
  close(): Promise<void>;
}

/** Opens the storage, and tells other processes which keys this one has while it is open. @throws as `openStorage` */
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
    /** Returns where the times of a command go, and those of the flushes of the embedded database. */
    timesOf: (command: TimedCommand | 'flush' | 'checkpoint') => { observe(seconds: number): void };
    /** Gets the size of the log of the embedded database, from time to time. */
    onLogBytes: (bytes: number) => void;
  },
): Promise<Storage> {
  const { events, config, timesOf, onLogBytes, clock } = parts;
  let onReconnect = () => {};
  const opened = await openStorage({
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
    store: timedStore(opened.store, timesOf),
    identity: opened.identity,
    onFailover() {
      failedOverAt = clock();
      events.storageFailedOver({ storage: storageName(config) });
    },
  });
  onReconnect = reconnected;
  const sealer = createReplaceableSealer(opened.sealer);
  try {
    // Past the gate: a process that refuses the storage still uses it, as long as it runs.
    await answerKeyRollCall(opened.store, sealer);
  } catch (error) {
    await store.close();
    throw error;
  }
  if (isUnprotected(config)) events.redisUnprotected();
  const lossy = lossyFailover(config);
  if (lossy) events.failoverLosesWrites(lossy);
  const sealedJson = createSealedJson(sealer, events.recordRefused);
  return {
    ...opened,
    store,
    sealer,
    sealedJson,
    probe: storageProbe(store, config),
    failedOverAt: () => failedOverAt,
    close: () => store.close(),
  };
}

type PlaceConfig = Pick<StorageConfig, 'redis' | 'dataDirectory'>;

/** Opens only the store, for a program that seals nothing. @throws as `openStorage` */
export async function openStore(parts: {
  config: PlaceConfig;
  clock: () => number;
  random: () => number;
  onReconnect?: (() => void) | undefined;
  /** Stands before every key in a Redis that several programs use. */
  keyPrefix?: string;
  sqliteObserver?: () => SqliteObserver;
}): Promise<Store> {
  const { config, clock, random, onReconnect, keyPrefix, sqliteObserver } = parts;
  if (config.redis) {
    // Imported only here, so that a start with SQLite need not load the Redis driver.
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

/** Never repeats the text, which may contain a password. */
export function redisAddressFaults({ redis }: Pick<StorageConfig, 'redis'>): string[] {
  try {
    if (redis?.clientCertificate && !readTarget(redis).credentials.tls)
      return ['REDIS_CERT_FILE is for TLS: write rediss:// in the address of Redis.'];
    if (redis) readTarget(redis);
    return [];
  } catch {
    return [`${redis && settingOf(redis)} cannot be read: give ${FORM_OF_ADDRESS}`];
  }
}

/** True if the data passes over a network without TLS. */
export function isUnprotected({ redis }: Pick<StorageConfig, 'redis'>): boolean {
  if (!redis) return false;
  const { addresses, credentials } = readTarget(redis);
  return credentials.tls === undefined && addresses.some(({ host }) => !isLoopbackHost(host));
}

/** Which kind of failover loses the last writes; undefined where none does. */
function lossyFailover({ redis }: Pick<StorageConfig, 'redis'>): 'sentinels' | 'cluster' | undefined {
  if (!redis || redis.durability === 'none' || 'url' in redis) return undefined;
  if ('cluster' in redis) return 'cluster';
  return redis.durability === 'aof' ? 'sentinels' : undefined;
}

/** @throws Error of the system if the folder cannot be created or used */
function prepareDataDirectory(directory: string): void {
  createFolder(directory);
  // The trailing dot asks for a folder: a file is an error.
  accessSync(`${directory}/.`, constants.R_OK | constants.W_OK | constants.X_OK);
}

/** Step by step, because Node's `recursive` never ends below a folder that accepts no files, such as /proc. */
function createFolder(folder: string): void {
  if (existsSync(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) createFolder(parent);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    // Another process may have created it just now.
    if (codeOf(error) !== 'EEXIST') throw error;
  }
}

function dataDirectoryRefused(error: unknown): StartRefused {
  const fault = DATA_DIRECTORY_FAULTS[codeOf(error) ?? ''] ?? 'names a folder that cannot be made or used';
  const advice = 'Choose a folder with DATA_DIR in which this user may write.';
  return new StartRefused([`DATA_DIR ${fault}. ${advice}`], { cause: error });
}

const DATA_DIRECTORY_FAULTS: Readonly<Record<string, string>> = {
  ENOTDIR: 'names a file, or a place below one',
  EACCES: 'names a folder in which this user may not write',
  EPERM: 'names a folder in which this user may not write',
  EROFS: 'names a folder on a disk that is read-only',
};
