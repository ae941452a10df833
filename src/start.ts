/** Owns the course of a start: settings and files are checked, all faults told at once, and only then is anything opened. */
import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { DestinationStream } from 'pino';
import { type DatasetFile, readDatasetFile } from './bin/dataset-file.ts';
import { type Config, loadConfig } from './config.ts';
import type { ConfigSource } from './config-reader.ts';
import { type ParsedApps, parseConnectedApps, unreadable } from './connected-apps/app-file.ts';
import { createDependencies, type Dependencies, type DependencyParts } from './dependencies.ts';
import { type BusyGauge, createBusyGauge, LISTENER_LIMITS, withinLimits } from './http/limits.ts';
import { refuseUnreadable } from './http/protocol.ts';
import { closeServer, takePorts } from './listeners.ts';
import { checkStorageConfig } from './open-storage.ts';
import { ADDRESS_ADVICE, type AddressPolicy, createAddressPolicy } from './outbound/address-policy.ts';
import { StartRefused } from './start-refused.ts';

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
    const dependencies = await createDependencies({ ...parts, logDestination });
    management.open(dependencies.health.listener);
    const busy = createBusyGauge();
    const limited = withinLimits({
      limits: LISTENER_LIMITS,
      isBusy: busy.isBusy,
      onRefused: dependencies.countProblem,
      publicHref: config.publicUrl.href,
    });
    main.open(limited(dependencies.app));
    const servers = { server: main.server, management: management.server, busy };
    return { config, close: once(() => stop({ ...servers, dependencies, graceSeconds: config.shutdownSeconds })) };
  } catch (error) {
    await Promise.all([main, management].map(({ server }) => closeServer(server, 0)));
    throw error;
  }
}

async function readSettings(source: ConfigSource): Promise<Omit<DependencyParts, 'logDestination'>> {
  const { config, values, faults } = loadConfig(source);
  // What the settings point at is read even when some of them are wrong: everything is told at once.
  const policy = createAddressPolicy(values.internalHosts);
  const storage = checkStorageConfig(values);
  const apps = readApps(source, values.connectedAppsFile, policy);
  const dataset = await readDataset(values.bin.datasetFile);
  const all = [
    ...faults,
    ...storage.faults,
    ...apps.faults,
    ...adminFaults(values.admin, apps),
    ...binServiceFaults(values.bin.service?.url, policy),
    ...dataset.faults,
  ];
  if (!config || all.length > 0) throw new StartRefused([...new Set(all)]);
  return { config, encryptionKeys: storage.encryptionKeys, connectedApps: apps.apps, datasetFile: dataset.file };
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
function adminFaults({ app: named, acr }: Config['admin'], { apps, faultyIds }: ParsedApps): string[] {
  if (named === undefined) return acr === undefined || faultyIds.length > 0 ? [] : stepUpFaults(apps);
  if (faultyIds.includes(named) || faultyIds.includes(undefined)) return [];
  if (apps.some((app) => app.id === named && app.signIn)) return [];
  return [`ADMIN_APP: no app of CONNECTED_APPS_FILE that people sign in with has the id "${named}".`];
}

/** A stronger sign-in is demanded of one app: without it every administrator would be sent nowhere. */
function stepUpFaults(apps: ParsedApps['apps']): string[] {
  const count = apps.filter(({ signIn }) => signIn !== undefined).length;
  if (count === 1) return [];
  return [
    count === 0
      ? 'ADMIN_ACR needs an app that administrators sign in with: give CONNECTED_APPS_FILE one that has signIn.'
      : `ADMIN_ACR needs to know which of ${count} sign-in apps administrators come from: name it in ADMIN_APP.`,
  ];
}

function binServiceFaults(url: string | undefined, policy: AddressPolicy): string[] {
  const rule = url === undefined ? undefined : policy.checkUrl(url);
  return rule ? [`BIN_SERVICE_URL: ${ADDRESS_ADVICE[rule]}`] : [];
}

async function readDataset(path: string | undefined): Promise<{ file?: DatasetFile; faults: string[] }> {
  if (!path) return { faults: [] };
  const answer = await readDatasetFile(path);
  return answer.problem === undefined
    ? { file: answer, faults: [] }
    : { faults: [`BIN_DATASET_FILE: ${answer.problem}`] };
}

/** Health answers until the end, so that whoever watches sees "not ready" and not a dead process (R90). */
async function stop(parts: {
  server: Server;
  management: Server;
  busy: BusyGauge;
  dependencies: Dependencies;
  graceSeconds: number;
}): Promise<void> {
  const { server, management, busy, dependencies, graceSeconds } = parts;
  dependencies.health.drain();
  await closeServer(server, graceSeconds);
  busy.stop();
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
