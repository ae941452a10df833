/** Creates the registry of connected apps, their checks, and the client of their providers. */
import type { Events } from '../../shared/observability/events.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { createProvider, type ProviderParts } from '../../shared/provider/provider.ts';
import type { ProviderClient } from '../../shared/provider/provider-client.ts';
import {
  type EndpointName,
  hasDiscovery,
  ineffectiveEndpoints,
  ineffectiveWords,
  type OnMetadata,
} from '../../shared/provider/provider-metadata.ts';
import type { ScheduledTask } from '../../shared/storage/scheduled-task.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store } from '../../shared/storage/store.ts';
import { type AppRegistry, createAppRegistry } from './app-registry.ts';
import { type AppCheck, createAppCheck } from './check.ts';
import { type CurrentApps, createCurrentApps } from './current-apps.ts';
import { createDynamicRegistration, type DynamicRegistration } from './dynamic-registration.ts';
import { type VerifiedLogoutToken, verifyLogoutToken } from './logout-token.ts';
import { createObservations } from './observations.ts';
import { createOwnKeys, type OwnKeys } from './own-keys.ts';
import { createProviderFacts, type ReadProviderFacts } from './provider-facts.ts';
import { signInClaimWarnings } from './registration-rules.ts';
import { createScheduledChecks, type ScheduledChecks } from './scheduled-checks.ts';

export interface ConnectedApps {
  apps: CurrentApps;
  registry: AppRegistry;
  provider: ProviderClient;
  ownKeys: OwnKeys;
  /**
   * The endpoints that are set by hand without effect, since discovery names others. Reads the metadata of an app with
   * both, unless it is known; none if that fails.
   */
  findIneffectiveEndpoints(app: ConnectedApp): Promise<EndpointName[]>;
  /** @throws ProviderError if the provider's metadata or keys are unavailable */
  verifyLogoutToken(app: ConnectedApp, token: string): Promise<VerifiedLogoutToken>;
  /** The doctor. */
  check: AppCheck;
  checks: ScheduledChecks;
  scheduledTasks: readonly ScheduledTask[];
  readProviderFacts: ReadProviderFacts;
  /** Makes the next use of each provider's metadata read it again. */
  readMetadataAgain(): void;
  registration: DynamicRegistration;
  close(): Promise<void>;
}

/** @param parts `fromFile`: the apps of `CONNECTED_APPS_FILE`. @throws AppError `storage_unavailable` */
export async function createConnectedApps(
  parts: ProviderParts & {
    storage: { store: Store; sealedJson: SealedJson };
    fromFile: readonly ConnectedApp[];
    /** Only for a server: commands run no scheduled checks. */
    config?: { connectionCheckSeconds: number };
    events?: Pick<Events, 'ownKeysReplaced' | 'appCheckChanged' | 'settingWarned'>;
    publicHref: string;
  },
): Promise<ConnectedApps> {
  const { storage, outbound, fromFile, config, events, publicHref, clock } = parts;
  const { store, sealedJson } = storage;
  const apps = createCurrentApps(fromFile);
  const ownKeys = createOwnKeys({
    store,
    sealedJson,
    clock,
    onReplaced: (cause) => events?.ownKeysReplaced({ cause }),
  });
  const observations = createObservations({ store, clock });
  const { metadata, jwts, provider } = createProvider({
    ...parts,
    ownKeys,
    onTokens: observations.record,
    onMetadata: warnOnce((text) => events?.settingWarned(text)),
  });
  const registry = await createAppRegistry({ store, sealedJson, apps, clock });
  const check = createAppCheck({ outbound, metadata, provider, observations, clock, publicHref });
  const checks = createScheduledChecks({
    store,
    apps,
    check,
    events,
    clock,
    changedAt: async (id) => (registry.isFromFile(id) ? undefined : ((await registry.find(id))?.changedAt ?? 0)),
    seconds: config?.connectionCheckSeconds ?? 0,
  });
  // The settings are read before the storage, and warn about the apps of the file.
  const storedApps = apps.list().filter(({ id }) => !registry.isFromFile(id));
  for (const warning of signInClaimWarnings(storedApps)) events?.settingWarned(warning);
  const findIneffectiveEndpoints = async (app: ConnectedApp): Promise<EndpointName[]> => {
    if (app.endpoints === undefined || !hasDiscovery(app)) return [];
    const read = await metadata.load(app).catch(() => undefined);
    return read ? ineffectiveEndpoints(app, read) : [];
  };
  // Reads the metadata of these apps now, so that the log of the start has the warnings.
  if (config) for (const app of apps.list().filter(({ disabled }) => !disabled)) void findIneffectiveEndpoints(app);
  return {
    apps,
    registry,
    provider,
    ownKeys,
    findIneffectiveEndpoints,
    verifyLogoutToken: (app, token) => verifyLogoutToken(jwts, app, token),
    check,
    checks,
    scheduledTasks: checks.scheduledTasks,
    readProviderFacts: createProviderFacts({ metadata, examine: outbound.examine }),
    readMetadataAgain: metadata.markAllStale,
    registration: createDynamicRegistration({ outbound }),
    close: registry.close,
  };
}

/** Metadata is read every hour: only a change is worth another line. */
function warnOnce(warn: (text: string) => void): OnMetadata {
  const warned = new Map<string, string>();
  return (app, metadata) => {
    const names = ineffectiveEndpoints(app, metadata);
    const list = names.join();
    if (app.id === undefined || list === (warned.get(app.id) ?? '')) return;
    warned.set(app.id, list);
    const { detail, advice } = ineffectiveWords(names);
    if (names.length > 0) warn(`The app "${app.id}": ${detail} ${advice}`);
  };
}
