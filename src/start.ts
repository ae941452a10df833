/** Owns the course of a start: settings and files are checked, all faults told at once, and only then is anything opened. */
import { accessSync, constants, existsSync, mkdirSync, readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { dirname, resolve } from 'node:path';
import type { DestinationStream } from 'pino';
import type { Dataset } from './bin/dataset.ts';
import { readDatasetFile } from './bin/dataset-file.ts';
import { type Config, type ConfigSource, loadConfig } from './config.ts';
import { ADDRESS_ADVICE, type ParsedApps, parseConnectedApps, unreadable } from './connected-apps/app-file.ts';
import { createDependencies, type Dependencies, type DependencyParts } from './dependencies.ts';
import { refuseUnreadable } from './http/protocol.ts';
import { closeServer, takePorts } from './listeners.ts';
import { type AddressPolicy, createAddressPolicy } from './outbound/address-policy.ts';
import { codeOf, StartRefused } from './start-refused.ts';
import { WrongKeyError } from './storage/key-check.ts';
import { parseEncryptionKeys } from './storage/key-ring.ts';
import { RedisRefusedError } from './storage/redis-admission.ts';
import { readTarget } from './storage/redis-target.ts';
import { DatabaseFileError } from './storage/sqlite-database.ts';

export interface Gatehouse {
  config: Config;
  /** Stops taking requests, lets those in flight end within the grace, and closes everything. */
  close(): Promise<void>;
}

export type Environment = ConfigSource['env'];

/** @throws StartRefused with every fault; whatever else goes wrong while opening */
export async function startGatehouse(env: Environment, logDestination: DestinationStream): Promise<Gatehouse> {
  const parts = await readSettings({ env, readFile: (path) => readFileSync(path, 'utf8') });
  const { config } = parts;
  // Ports come first: whoever cannot have them leaves the storage untouched.
  const [main, management] = await takePorts(config);
  try {
    refuseUnreadable(main.server, config.publicUrl.href);
    if (!config.redis) prepareDataDirectory(config.dataDirectory);
    const dependencies = await createDependencies({ ...parts, logDestination });
    management.open(dependencies.health.listener);
    main.open(dependencies.app);
    const servers = { server: main.server, management: management.server };
    return { config, close: once(() => stop({ ...servers, dependencies, graceSeconds: config.shutdownSeconds })) };
  } catch (error) {
    await Promise.all([main, management].map(({ server }) => closeServer(server, 0)));
    throw asRefusal(error, config);
  }
}

/** Where the storage is there but must not be used as it is, or has no place to be, an operator has to decide. */
function asRefusal(error: unknown, { redis, dataDirectory }: Config): unknown {
  if (error instanceof WrongKeyError || error instanceof DatabaseFileError || error instanceof RedisRefusedError)
    return new StartRefused([error.message], { cause: error });
  const path = error instanceof Error && 'path' in error ? String(error.path) : undefined;
  const isInside = path !== undefined && resolve(path).startsWith(resolve(dataDirectory));
  return !redis && isInside ? dataDirectoryRefused(error) : error;
}

async function readSettings(source: ConfigSource): Promise<Omit<DependencyParts, 'logDestination'>> {
  const { config, values, faults } = loadConfig(source);
  // What the settings point at is read even when some of them are wrong: everything is told at once.
  const policy = createAddressPolicy(values.internalHosts);
  const keys = values.encryptionKeys === '' ? { faults: [] } : parseEncryptionKeys(values.encryptionKeys);
  const apps = readApps(source, values.connectedAppsFile, policy);
  const dataset = await readDataset(values.bin.datasetFile);
  const all = [
    ...faults,
    ...('faults' in keys ? keys.faults : []),
    ...apps.faults,
    ...adminFaults(values.admin.app, apps),
    ...binServiceFaults(values.bin.service?.url, policy),
    ...dataset.faults,
    ...redisFaults(values),
  ];
  if (!config || 'faults' in keys || all.length > 0) throw new StartRefused([...new Set(all)]);
  return { config, encryptionKeys: keys.keys, connectedApps: apps.apps, importedDataset: dataset.dataset };
}

function readApps(source: ConfigSource, path: string | undefined, policy: AddressPolicy): ParsedApps {
  if (!path) return { apps: [], faults: [], faultyIds: [] };
  let text: string;
  try {
    text = source.readFile(path);
  } catch {
    return unreadable('CONNECTED_APPS_FILE names a file that cannot be read: check the path and its permissions.');
  }
  return parseConnectedApps(text, source, policy);
}

/** An app that has faults of its own, or may have, is not told a second time. */
function adminFaults(named: string | undefined, { apps, faultyIds }: ParsedApps): string[] {
  if (named === undefined || faultyIds.includes(named) || faultyIds.includes(undefined)) return [];
  if (apps.some((app) => app.id === named && app.signIn)) return [];
  return [`ADMIN_APP: no app of CONNECTED_APPS_FILE that people sign in with has the id "${named}".`];
}

function binServiceFaults(url: string | undefined, policy: AddressPolicy): string[] {
  const rule = url === undefined ? undefined : policy.checkUrl(url);
  return rule ? [`BIN_SERVICE_URL: ${ADDRESS_ADVICE[rule]}`] : [];
}

/** Never repeats the text, which may hold a password. */
function redisFaults({ redis }: Config): string[] {
  try {
    if (redis) readTarget(redis);
    return [];
  } catch {
    return [
      'REDIS_URL, REDIS_CLUSTER or REDIS_SENTINELS cannot be read: give redis://host:port, or host:port,host:port.',
    ];
  }
}

async function readDataset(path: string | undefined): Promise<{ dataset?: Dataset; faults: string[] }> {
  if (!path) return { faults: [] };
  const answer = await readDatasetFile(path);
  return 'dataset' in answer
    ? { dataset: answer.dataset, faults: [] }
    : { faults: [`BIN_DATASET_FILE: ${answer.problem}`] };
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

/** Health answers until the end, so that whoever watches sees "not ready" and not a dead process (R90). */
async function stop(parts: {
  server: Server;
  management: Server;
  dependencies: Dependencies;
  graceSeconds: number;
}): Promise<void> {
  const { server, management, dependencies, graceSeconds } = parts;
  dependencies.health.drain();
  await closeServer(server, graceSeconds);
  await dependencies.close();
  await closeServer(management, 0);
}

function once(work: () => Promise<void>): () => Promise<void> {
  let result: Promise<void> | undefined;
  return () => {
    result ??= work();
    return result;
  };
}
