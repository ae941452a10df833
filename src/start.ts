/** Owns the course of a start: settings and files are checked, all faults told at once, and only then is anything opened. */
import { readFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { DestinationStream } from 'pino';
import type { Dataset } from './bin/dataset.ts';
import { readDatasetFile } from './bin/dataset-file.ts';
import { type Config, type ConfigSource, loadConfig } from './config.ts';
import { parseConnectedApps } from './connected-apps/app-file.ts';
import type { ConnectedApp } from './connected-apps/connected-app.ts';
import { createDependencies, type Dependencies, type DependencyParts } from './dependencies.ts';
import { refuseUnreadable } from './http/protocol.ts';
import { WrongKeyError } from './storage/key-check.ts';
import { parseEncryptionKeys } from './storage/key-ring.ts';
import { RedisRefusedError } from './storage/redis-admission.ts';
import { readTarget } from './storage/redis-target.ts';
import { DatabaseFileError } from './storage/sqlite-database.ts';

/** The settings, or what they point at, cannot be used. Exit status 78 (`EX_CONFIG`). */
export class StartRefused extends Error {
  readonly faults: readonly string[];
  constructor(faults: readonly string[], options?: ErrorOptions) {
    super(faults.join('\n'), options);
    this.name = 'StartRefused';
    this.faults = faults;
  }
}

export interface Gatehouse {
  config: Config;
  /** Stops taking requests, lets those in flight end within the grace, and closes everything. */
  close(): Promise<void>;
}

export type Environment = ConfigSource['env'];

/** @throws StartRefused with every fault; whatever else goes wrong while opening */
export async function startGatehouse(env: Environment, logDestination: DestinationStream): Promise<Gatehouse> {
  const parts = await readSettings({ env, readFile: (path) => readFileSync(path, 'utf8') });
  const dependencies = await createDependencies({ ...parts, logDestination }).catch((error: unknown) => {
    throw isRefusal(error) ? new StartRefused([error.message], { cause: error }) : error;
  });
  const { config } = parts;
  let management: Server | undefined;
  try {
    management = await listen(dependencies.health.listener, config.management, 'MANAGEMENT_PORT');
    const server = await listen(dependencies.app, config.listen, 'PORT');
    refuseUnreadable(server, config.publicUrl.href);
    return {
      config,
      close: once(() => stop({ server, management, dependencies, graceSeconds: config.shutdownSeconds })),
    };
  } catch (error) {
    await stop({ management, dependencies, graceSeconds: 0 });
    throw error;
  }
}

/** The storage is there, but must not be used as it is: an operator has to decide. */
function isRefusal(error: unknown): error is Error {
  return error instanceof WrongKeyError || error instanceof DatabaseFileError || error instanceof RedisRefusedError;
}

async function readSettings(source: ConfigSource): Promise<Omit<DependencyParts, 'logDestination'>> {
  const { config, faults } = loadConfig(source);
  // What the settings point at is read even when some of them are wrong: everything is told at once.
  const keys =
    source.env.ENCRYPTION_KEYS || config
      ? parseEncryptionKeys(config?.encryptionKeys ?? source.env.ENCRYPTION_KEYS ?? '')
      : undefined;
  const apps = readApps(source, config?.connectedAppsFile ?? source.env.CONNECTED_APPS_FILE);
  const dataset = await readDataset(config?.bin.datasetFile ?? source.env.BIN_DATASET_FILE);
  const keyFaults = keys && 'faults' in keys ? keys.faults : [];
  const all = [
    ...faults,
    ...keyFaults,
    ...apps.faults,
    ...adminFaults(config, apps.apps),
    ...dataset.faults,
    ...redisFaults(config),
  ];
  if (!config || !keys || 'faults' in keys || all.length > 0) throw new StartRefused(all);
  return { config, encryptionKeys: keys.keys, connectedApps: apps.apps, importedDataset: dataset.dataset };
}

function readApps(source: ConfigSource, path: string | undefined): { apps: ConnectedApp[]; faults: string[] } {
  if (!path) return { apps: [], faults: [] };
  let text: string;
  try {
    text = source.readFile(path);
  } catch {
    return {
      apps: [],
      faults: ['CONNECTED_APPS_FILE names a file that cannot be read: check the path and its permissions.'],
    };
  }
  return parseConnectedApps(text, source);
}

function adminFaults(config: Config | undefined, apps: readonly ConnectedApp[]): string[] {
  const named = config?.admin.app;
  if (named === undefined || apps.some((app) => app.id === named && app.signIn)) return [];
  return [`ADMIN_APP: no app of CONNECTED_APPS_FILE that people sign in with has the id "${named}".`];
}

/** Never repeats the text, which may hold a password. */
function redisFaults(config: Config | undefined): string[] {
  try {
    if (config?.redis) readTarget(config.redis);
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

function listen(listener: RequestListener, at: { host: string; port: number }, setting: string): Promise<Server> {
  const server = createServer(
    { headersTimeout: 10_000, requestTimeout: 30_000, keepAliveTimeout: 65_000, connectionsCheckingInterval: 5_000 },
    listener,
  );
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      const code = 'code' in error ? error.code : undefined;
      const where = `${at.host}:${at.port}`;
      const why =
        code === 'EADDRINUSE' ? `another program listens on ${where} already` : `${where} cannot be listened on`;
      reject(new StartRefused([`${setting}: ${why}. Choose another with ${setting}.`], { cause: error }));
    });
    server.listen(at.port, at.host, () => resolve(server));
  });
}

/** Health answers until the end, so that whoever watches sees "not ready" and not a dead process (R90). */
async function stop(parts: {
  server?: Server;
  management: Server | undefined;
  dependencies: Dependencies;
  graceSeconds: number;
}): Promise<void> {
  const { server, management, dependencies, graceSeconds } = parts;
  dependencies.health.drain();
  if (server) await closeServer(server, graceSeconds);
  await dependencies.close();
  if (management) await closeServer(management, 0);
}

const IDLE_CHECK_MILLISECONDS = 50;

/** What is in flight may end within the grace; a kept connection ends as soon as its answer is out. */
async function closeServer(server: Server, graceSeconds: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.prependListener('request', (_req, res) => res.setHeader('Connection', 'close'));
  const idle = setInterval(() => server.closeIdleConnections(), IDLE_CHECK_MILLISECONDS);
  const cut = setTimeout(() => server.closeAllConnections(), graceSeconds * 1000);
  await closed;
  clearInterval(idle);
  clearTimeout(cut);
}

function once(work: () => Promise<void>): () => Promise<void> {
  let result: Promise<void> | undefined;
  return () => {
    result ??= work();
    return result;
  };
}
