/** Creates the parts that store, refresh, use, list and revoke grants. */

import type { Events } from '../../shared/observability/events.ts';
import type { Outbound } from '../../shared/outbound/outbound.ts';
import type { ConnectedApp, ConnectedAppRegistration } from '../../shared/provider/connected-app.ts';
import { createLeases } from '../../shared/storage/lease.ts';
import type { ScheduledTask } from '../../shared/storage/scheduled-task.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Storage } from '../../shared/storage/storage.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { ConnectedApps } from '../connected-apps/connected-apps.ts';
import { type AccessTokens, createAccessTokens } from './access-tokens.ts';
import { type AuthorizedFetch, createAuthorizedFetch } from './authorized-fetch.ts';
import { type ConnectLinks, createConnectLinks } from './connect-links.ts';
import { type CreateCheckTasks, createConnectionCheck } from './connection-check.ts';
import { type ConnectionIndex, createConnectionIndex } from './connection-index.ts';
import { type Connections, createConnections, type EndedBy } from './connections.ts';
import { createDisconnectEveryone, type DisconnectEveryone } from './disconnect-everyone.ts';
import { createGrantStore, type GrantStore } from './grant-store.ts';
import { createGrantImports, type GrantImports } from './imported-grant.ts';
import { createListing } from './listing.ts';
import { createMissingScopes, type MissingScopes } from './missing-scopes.ts';
import { countSetAside, createMovedApps } from './moved-apps.ts';
import { createNarrowedTokens, type NarrowedTokens } from './narrowed-token.ts';
import { createRefresher, refreshTimes } from './refresh.ts';
import { createRevocations, type Revocations } from './revocations.ts';
import { createServiceShare } from './service-share.ts';

/** The most connections to end: fewer callbacks than this run at one time. */
const MAX_REMAINING = 1_000;

export interface Grants extends Pick<GrantStore, 'load' | 'prefetch' | 'noteUse'> {
  /**
   * Ends connections that callbacks stored while their app was being deleted. Callbacks that start later find that the
   * app no longer exists.
   */
  endRemaining(app: ConnectedApp, by: EndedBy): Promise<void>;

  /** Counts the connections that a changed registration would set aside. @returns at most 1,000 */
  countSetAside(changed: ConnectedAppRegistration, present?: ConnectedApp): Promise<number>;

  connections: Connections;
  links: ConnectLinks;
  index: ConnectionIndex;
  everyone: DisconnectEveryone;
  revocations: Revocations;
  accessTokens: AccessTokens;
  imports: GrantImports;
  missing: MissingScopes;
  narrowed: NarrowedTokens;

  /** Calls with users' access tokens. */
  fetch: AuthorizedFetch;

  scheduledTasks: readonly ScheduledTask[];
  createCheckTasks: CreateCheckTasks;

  /** Resolves once no refresh and no disconnection is in flight, and the lists are written. */
  close(): Promise<void>;
}

/**
 * Creates the parts, and starts to refresh in the background all grants whose refresh was interrupted by a kill.
 * Processes that are already running refresh such a grant when it is next due.
 */
export function createGrants(parts: {
  storage: { store: Store; sealedJson: SealedJson; deadlineMilliseconds: number } & Partial<
    Pick<Storage, 'failedOverAt'>
  >;
  connectedApps: Pick<ConnectedApps, 'apps' | 'provider' | 'registry'>;
  outbound: Outbound;
  config: { connectionCheckSeconds: number };
  events: Events;
  publicHref: string;
  clock: () => number;
  random: () => number;
}): Grants {
  const { storage, connectedApps, outbound, config, events, publicHref, clock, random } = parts;
  const { connectionCheckSeconds: checkSeconds } = config;
  const { store, sealedJson } = storage;
  const { provider } = connectedApps;
  const findApp = connectedApps.apps.find;

  const index = createConnectionIndex({ store, clock, findApp });
  const listing = createListing({
    index,
    load: (userId, appId) => grants.loadStored(userId, appId),
    onLost: (connections) => events.listingsLost({ connections }),
  });
  const grants = createGrantStore({ store, sealedJson, clock, connectionIndex: listing });
  const revocations = createRevocations({ store, sealedJson, grants, provider, findApp, events, clock, random });
  const times = refreshTimes(storage.deadlineMilliseconds);
  const refresher = createRefresher({
    grants,
    provider,
    revokeUnowned: revocations.revokeUnowned,
    leases: createLeases({ store, milliseconds: times.leaseMilliseconds }),
    times,
    events,
    clock,
    random,
    failedOverAt: storage.failedOverAt,
  });
  const missing = createMissingScopes({ grants, index, events });
  const inServiceShare = createServiceShare(outbound, provider);
  const accessTokens = createAccessTokens({ grants, refresher, inServiceShare, missing, clock });
  const links = createConnectLinks({ store, sealedJson, publicHref, clock });
  const { isRegistered } = connectedApps.registry;
  const connections = createConnections({
    grants,
    revocations,
    links,
    findApp,
    isRegistered,
    checkSeconds,
    events,
    clock,
  });
  const everyone = createDisconnectEveryone({ store, index, connections, clock });

  // Not awaited: a request that needs such a grant refreshes it first.
  void refresher.refreshInterrupted(findApp).catch(() => undefined);

  const scheduledTasks: readonly ScheduledTask[] = [
    { name: 'disconnect-everyone', everyMilliseconds: 30_000, work: everyone.resume },
    { name: 'retry-revocations', everyMilliseconds: 10_000, work: revocations.retryDue },
    {
      name: 'update-expired-connections',
      everyMilliseconds: 60_000,
      work: () => index.updateExpired(grants.loadStored),
    },
    createMovedApps({ store, grants, index, apps: connectedApps.apps, events }),
  ];

  return {
    load: grants.load,
    async endRemaining(app, by) {
      const { items } = await index.page({ appId: app.id, limit: MAX_REMAINING });
      await Promise.all(items.map(({ userId }) => connections.end(userId, app.id, by, undefined, app)));
    },
    countSetAside: (changed, present) => countSetAside(store, grants, changed, present),
    prefetch: grants.prefetch,
    noteUse: grants.noteUse,
    connections,
    links,
    index,
    everyone,
    revocations,
    accessTokens,
    imports: createGrantImports({ grants, isRegistered, refresher, clock }),
    scheduledTasks,
    createCheckTasks: createConnectionCheck({
      store,
      grants,
      refresher,
      missing,
      apps: connectedApps.apps,
      seconds: checkSeconds,
      clock,
    }),
    missing,
    narrowed: createNarrowedTokens({ grants, refresher, inServiceShare, store, clock }),
    fetch: createAuthorizedFetch({ accessTokens, grants, outbound }),
    async close() {
      await Promise.all([refresher.close(), everyone.close()]);
      await listing.close();
    },
  };
}
