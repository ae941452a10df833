/** The start: settings and files are checked, all faults are reported at once, and only then is anything opened. */
import { readFileSync } from 'node:fs';
import { type DatasetFile, readDatasetFile } from './bin/dataset-file.ts';
import { type Config, loadConfig } from './config/config.ts';
import type { ConfigSource } from './config/setting.ts';
import { type ParsedApps, parseConnectedApps, unreadable } from './connected-apps/app-file.ts';
import { StartRefused } from './errors.ts';
import { createGatehouse, type GatehouseParts } from './gatehouse.ts';
import { createEventLoopMonitor, type EventLoopMonitor, enforceRequestLimits, LISTENER_LIMITS } from './http/limits.ts';
import { bindPorts, closeServer } from './http/listeners.ts';
import { refuseUnreadable } from './http/protocol.ts';
import type { LogDestination } from './observability/logger.ts';
import { once } from './once.ts';
import { ADDRESS_ADVICE, type AddressPolicy, createAddressPolicy } from './outbound/address-policy.ts';
import { checkStorageConfig } from './storage/storage.ts';

export interface RunningGatehouse {
  config: Config;
  /** Stops taking requests, lets those in flight end within the grace, and closes everything. */
  close(): Promise<void>;
}

export type Environment = ConfigSource['env'];

/**
 * @param createMonitor makes the monitor that decides whether new requests are refused
 * @throws StartRefused with every fault; any error of opening the storage
 */
export async function startGatehouse(
  env: Environment,
  logDestination: LogDestination,
  createMonitor: () => EventLoopMonitor = createEventLoopMonitor,
): Promise<RunningGatehouse> {
  const parts = await readSettings({ env, readFile: (path) => readFileSync(path, 'utf8') });
  const { config } = parts;
  // Ports come first: a process that cannot bind them must not touch the storage.
  const [main, management] = await bindPorts(config);
  try {
    for (const { server } of [main, management]) refuseUnreadable(server, config.publicUrl.href);
    const gatehouse = await createGatehouse({ ...parts, logDestination });
    const limits = { limits: LISTENER_LIMITS, publicHref: config.publicUrl.href };
    management.open(enforceRequestLimits({ ...limits, isBusy: () => false })(gatehouse.health.listener));
    const busy = createMonitor();
    const limited = enforceRequestLimits({ ...limits, isBusy: busy.isBusy, onRefused: gatehouse.countProblem });
    main.open(limited(gatehouse.app));
    const close = once(async () => {
      gatehouse.health.drain();
      await closeServer(main.server, config.shutdownSeconds);
      busy.stop();
      await gatehouse.close();
      // Last, so that health checks see "not ready" instead of a dead process (R90).
      await closeServer(management.server, 0);
    });
    return { config, close };
  } catch (error) {
    await Promise.all([main, management].map(({ server }) => closeServer(server, 0)));
    throw error;
  }
}

async function readSettings(source: ConfigSource): Promise<Omit<GatehouseParts, 'logDestination'>> {
  const { config, values, faults } = loadConfig(source);
  // Files that the settings name are read even if some settings are wrong, so that all faults are reported at once.
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
  const admin = { ...config.admin, app: adminApp(config.admin.app, apps) };
  return {
    config: { ...config, admin },
    encryptionKeys: storage.encryptionKeys,
    fromFile: apps.apps,
    datasetFile: dataset.file,
  };
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

/**
 * The app whose sign-ins can make an administrator: that of `ADMIN_APP`, or the only sign-in app of the file. An app that is
 * registered later never makes an administrator.
 */
function adminApp(named: string | undefined, { apps }: ParsedApps): string | undefined {
  const [only, ...others] = apps.filter(({ signIn }) => signIn !== undefined);
  return named ?? (others.length === 0 ? only?.id : undefined);
}

/** Faults of `ADMIN_APP` and `ADMIN_ACR`; none if a faulty entry of the file may be the app that they need. */
function adminFaults({ app: named, acr }: Config['admin'], parsed: ParsedApps): string[] {
  const signInApps = parsed.apps.filter(({ signIn }) => signIn !== undefined);
  const mayBeFaulty = parsed.faultyIds.some((id) => named === undefined || id === undefined || id === named);
  if (mayBeFaulty) return [];
  if (named !== undefined) {
    if (signInApps.some(({ id }) => id === named)) return [];
    return [`ADMIN_APP: no app of CONNECTED_APPS_FILE that users sign in with has the id "${named}".`];
  }
  // Step-up redirects to one app; without it no administrator could sign in again.
  if (acr === undefined || signInApps.length === 1) return [];
  return [
    signInApps.length === 0
      ? 'ADMIN_ACR needs an app that administrators sign in with: give CONNECTED_APPS_FILE one that has signIn.'
      : `ADMIN_ACR needs to know which of ${signInApps.length} sign-in apps administrators come from: name it in ADMIN_APP.`,
  ];
}

function binServiceFaults(url: string | undefined, policy: AddressPolicy): string[] {
  const rule = url === undefined ? undefined : policy.checkUrl(url);
  return rule ? [`BIN_SERVICE_URL: ${ADDRESS_ADVICE[rule]}`] : [];
}

async function readDataset(path: string | undefined): Promise<{ file?: DatasetFile; faults: string[] }> {
  if (!path) return { faults: [] };
  const file = await readDatasetFile(path);
  return file.problem === undefined ? { file, faults: [] } : { faults: [`BIN_DATASET_FILE: ${file.problem}`] };
}
