/** Reads the settings with the files that they name, and reports all faults at once. Opens nothing. */
import type { DatasetFile } from '../shared/bin/dataset-file.ts';
import { type Config, loadConfig } from '../shared/config/config.ts';
import { ignoredSettings } from '../shared/config/ignored-settings.ts';
import type { ConfigSource } from '../shared/config/setting.ts';
import { SETTINGS } from '../shared/config/settings.ts';
import { StartRefused } from '../shared/errors.ts';
import { ADDRESS_ADVICE, type AddressPolicy, createAddressPolicy } from '../shared/outbound/address-policy.ts';
import { claimNameWarning, isEmailClaim } from '../shared/provider/claim-path.ts';
import type { ConnectedApp } from '../shared/provider/connected-app.ts';
import type { EncryptionKey } from '../shared/storage/key-ring.ts';
import { checkStorageConfig } from '../shared/storage/storage.ts';
import { type Deployment, type ParsedApps, parseConnectedApps, unreadable } from './connected-apps/app-file.ts';
import { signInClaimWarnings } from './connected-apps/registration-rules.ts';

/** The settings and files that a running process can read again. */
export interface ReadSettings {
  config: Config;
  /** The values of the settings that may come from files, by name, only to compare them. */
  secrets: ReadonlyMap<string, string>;
  encryptionKeys: readonly EncryptionKey[];
  /** The apps of `CONNECTED_APPS_FILE`. */
  fromFile: readonly ConnectedApp[];
  /** The size of libuv's thread pool, if `UV_THREADPOOL_SIZE` sets it. */
  threadPoolSize: number | undefined;
  /** Sentences about environment variables that nothing reads, and settings that make no user an administrator. */
  warnings: readonly string[];
}

/** For the start: also reads `BIN_DATASET_FILE`. @throws StartRefused with every fault */
export async function readSettingsAndDataset(
  source: ConfigSource,
): Promise<ReadSettings & { datasetFile: DatasetFile | undefined }> {
  const { faults, warnings, settings, datasetPath } = readAll(source);
  const dataset = await readDataset(datasetPath);
  const allFaults = [...faults, ...dataset.faults];
  if (!settings || allFaults.length > 0) throw new StartRefused([...allFaults, ...warnings]);
  return { ...settings, datasetFile: dataset.file };
}

/** @throws StartRefused with every fault */
export function readSettings(source: ConfigSource): ReadSettings {
  const { faults, settings } = readAll(source);
  if (!settings) throw new StartRefused(faults);
  return settings;
}

/** Files that the settings name are read even if some settings are wrong, so that all faults are reported at once. */
function readAll(source: ConfigSource) {
  const { config, values, secrets, faults } = loadConfig(source);
  const policy = createAddressPolicy(values.internalHosts);
  const storage = checkStorageConfig(values);
  const apps = readApps(source, values.connectedAppsFile, { policy, publicHref: values.publicUrl?.href });
  const allFaults = [
    ...faults,
    ...storage.faults,
    ...apps.faults,
    ...adminFaults(values.admin, apps),
    ...adminAddressFaults(values.admin),
    ...binServiceFaults(values.bin.service?.url, policy),
  ];
  const warnings = ignoredSettings(source.env, SETTINGS);
  const isValid = config !== undefined && allFaults.length === 0;
  const settings: ReadSettings | undefined = isValid
    ? {
        config: { ...config, admin: { ...config.admin, app: adminApp(config.admin, apps) } },
        secrets,
        encryptionKeys: storage.encryptionKeys,
        fromFile: apps.apps,
        threadPoolSize: Number.parseInt(source.env.UV_THREADPOOL_SIZE ?? '', 10) || undefined,
        warnings: [...warnings, ...adminWarnings(values.admin, apps), ...signInClaimWarnings(apps.apps)],
      }
    : undefined;
  return { faults: [...new Set(allFaults)], warnings, settings, datasetPath: values.bin.datasetFile };
}

function readApps(source: ConfigSource, path: string | undefined, deployment: Deployment): ParsedApps {
  if (!path) return { apps: [], faults: [], faultyIds: [] };
  let text: string;
  try {
    text = source.readFile(path);
  } catch {
    return unreadable('CONNECTED_APPS_FILE names a file that cannot be read: check the path and its permissions.');
  }
  return parseConnectedApps(text, source, deployment);
}

/**
 * The app whose sign-ins can make an administrator: that of `ADMIN_APP`, or the only sign-in app of the file; none
 * without `ADMIN_VALUES`. An app that is registered later never makes an administrator.
 */
function adminApp({ app: named, values }: Config['admin'], { apps }: ParsedApps): string | undefined {
  if (values.length === 0) return undefined;
  const [first, ...others] = apps.filter(({ signIn }) => signIn !== undefined);
  return named ?? (others.length === 0 ? first?.id : undefined);
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
      ? 'ADMIN_ACR needs an app that administrators sign in with: add one with signIn to CONNECTED_APPS_FILE.'
      : `ADMIN_ACR needs to know which of ${signInApps.length} sign-in apps administrators come from: name it in ADMIN_APP.`,
  ];
}

/** With the claim `email`, administrators are named by their addresses: no group, domain or pattern is one. */
function adminAddressFaults({ claim, values }: Config['admin']): string[] {
  if (!isEmailClaim(claim) || values.every((value) => ADDRESS.test(value))) return [];
  return [
    `ADMIN_VALUES: with ADMIN_CLAIM=${claim}, list the e-mail addresses of administrators, such as ada@example.com; a domain or a pattern is none.`,
  ];
}

const ADDRESS = /^[^\s@*]+@[^\s@*]+$/;

function adminWarnings({ app: named, claim, values }: Config['admin'], { apps }: ParsedApps): string[] {
  const ids = apps.filter(({ signIn }) => signIn !== undefined).map(({ id }) => id);
  const nameWarning = claimNameWarning(claim);
  const isListOfGroups = /(groups|roles)$/i.test(claim);
  return [
    ...(values.length === 0 && ids.length > 0
      ? [
          `no user is an administrator: set ADMIN_VALUES to values of the claim “${claim}” that only administrators have.`,
        ]
      : []),
    ...(named === undefined && ids.length > 1
      ? [`no user is an administrator: set ADMIN_APP to the app that administrators sign in with (${ids.join(', ')}).`]
      : []),
    ...(nameWarning === undefined ? [] : [`ADMIN_CLAIM: ${nameWarning}.`]),
    ...(!isEmailClaim(claim) && !isListOfGroups && values.some((value) => ADDRESS.test(value))
      ? [
          `ADMIN_VALUES has e-mail addresses, and only those in the claim email must be verified: set ADMIN_CLAIM=email if these are addresses of users.`,
        ]
      : []),
  ];
}

function binServiceFaults(url: string | undefined, policy: AddressPolicy): string[] {
  const rule = url === undefined ? undefined : policy.checkUrl(url);
  return rule ? [`BIN_SERVICE_URL: ${ADDRESS_ADVICE[rule]}`] : [];
}

async function readDataset(path: string | undefined): Promise<{ file?: DatasetFile; faults: string[] }> {
  if (!path) return { faults: [] };
  const { readDatasetFile } = await import('../shared/bin/dataset-file.ts');
  const file = await readDatasetFile(path);
  return file.problem === undefined ? { file, faults: [] } : { faults: [`BIN_DATASET_FILE: ${file.problem}`] };
}
