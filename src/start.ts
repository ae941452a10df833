/** Owns the course of a start: settings and files are checked, all faults told at once, and only then is anything opened. */
import { readFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { DestinationStream } from 'pino';
import type { Dataset } from './bin/dataset.ts';
import { readDatasetFile } from './bin/dataset-file.ts';
import { type Config, type ConfigSource, loadConfig } from './config.ts';
import { parseConnectedApps } from './connected-apps/app-file.ts';
import type { ConnectedApp } from './connected-apps/connected-app.ts';
import { createDependencies, type Dependencies, type DependencyParts } from './dependencies.ts';
import { parseEncryptionKeys } from './storage/key-ring.ts';

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
  const dependencies = await createDependencies({ ...parts, logDestination });
  const { config } = parts;
  const servers: Server[] = [];
  try {
    servers.push(await listen(dependencies.health.listener, config.management, 'MANAGEMENT_PORT'));
    servers.push(await listen(dependencies.app, config.listen, 'PORT'));
  } catch (error) {
    await closeAll(servers, dependencies, 0);
    throw error;
  }
  return { config, close: () => closeAll(servers, dependencies, config.shutdownSeconds) };
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
  const all = [...faults, ...keyFaults, ...apps.faults, ...adminFaults(config, apps.apps), ...dataset.faults];
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

/** The port that was given, also where the setting said 0. */
export function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

async function closeAll(servers: Server[], dependencies: Dependencies, graceSeconds: number): Promise<void> {
  dependencies.health.drain();
  const closed = servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve())));
  for (const server of servers) server.closeIdleConnections();
  const timer = setTimeout(() => {
    for (const server of servers) server.closeAllConnections();
  }, graceSeconds * 1000);
  await Promise.all(closed);
  clearTimeout(timer);
  await dependencies.close();
}
