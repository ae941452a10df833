/** Makes the registry of connected apps and the client for their providers. */
import type { Events } from '../observability/events.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { Sealer } from '../storage/sealed.ts';
import type { Store } from '../storage/store.ts';
import { type AppRegistry, createAppRegistry } from './app-registry.ts';
import { type AppStore, createAppStore } from './app-store.ts';
import { type AppCheck, createAppCheck } from './check.ts';
import type { ConnectedApp } from './connected-app.ts';
import { createDynamicRegistration, type DynamicRegistration } from './dynamic-registration.ts';
import { createLogoutTokens, type LogoutTokens } from './logout-token.ts';
import { createObservations } from './observations.ts';
import { createOwnKeys, type OwnKeys } from './own-keys.ts';
import { createProviderClient, type ProviderClient } from './provider-client.ts';
import { createProviderFacts, type ReadProviderFacts } from './provider-facts.ts';
import { createProviderJwts, type ProviderJwts } from './provider-jwt.ts';
import { createProviderMetadata, type ProviderMetadataSource } from './provider-metadata.ts';
import { createSigningKeys } from './signing-keys.ts';

export interface ConnectedApps {
  apps: AppStore;
  registry: AppRegistry;
  provider: ProviderClient;
  ownKeys: OwnKeys;
  logoutTokens: LogoutTokens;
  /** The doctor. */
  check: AppCheck;
  readProviderFacts: ReadProviderFacts;
  registration: DynamicRegistration;
  close(): Promise<void>;
}

interface ProviderParts {
  outbound: Outbound;
  /** Milliseconds since the epoch. */
  clock: () => number;
  /** Milliseconds, independent of the system's time. */
  monotonicClock: () => number;
  random: () => number;
}

/** @param parts `fromFile`: the apps of `CONNECTED_APPS_FILE`. @throws AppError `storage_unavailable` */
export async function createConnectedApps(
  parts: ProviderParts & {
    storage: { store: Store; sealer: Sealer };
    fromFile: readonly ConnectedApp[];
    events?: Pick<Events, 'ownKeysReplaced'>;
    publicHref: string;
  },
): Promise<ConnectedApps> {
  const { storage, outbound, fromFile, events, publicHref, clock } = parts;
  const { store, sealer } = storage;
  const apps = createAppStore(fromFile);
  const ownKeys = createOwnKeys({ store, sealer, clock, onReplaced: (cause) => events?.ownKeysReplaced({ cause }) });
  const { metadata, jwts, provider: client } = createProvider({ ...parts, ownKeys });
  const observations = createObservations({ store, clock });
  const provider = observations.watch(client);
  const registry = await createAppRegistry({ store, sealer, apps, clock });
  return {
    apps,
    registry,
    provider,
    ownKeys,
    logoutTokens: createLogoutTokens({ jwts }),
    check: createAppCheck({ outbound, metadata, provider, observations, clock, publicHref }),
    readProviderFacts: createProviderFacts({ metadata, examine: outbound.examine }),
    registration: createDynamicRegistration({ outbound }),
    close: registry.close,
  };
}

/** The provider client alone, for a program whose only app is in its settings. @param parts `ownKeys`: for private_key_jwt */
export function createProvider(parts: ProviderParts & { ownKeys?: Pick<OwnKeys, 'sign'> }): {
  metadata: ProviderMetadataSource;
  jwts: ProviderJwts;
  provider: ProviderClient;
} {
  const { outbound, clock, monotonicClock, random, ownKeys } = parts;
  const metadata = createProviderMetadata({ outbound, monotonicClock, random });
  const jwts = createProviderJwts({ metadata, signingKeys: createSigningKeys({ outbound, monotonicClock }), clock });
  return { metadata, jwts, provider: createProviderClient({ outbound, metadata, jwts, ...(ownKeys && { ownKeys }) }) };
}
