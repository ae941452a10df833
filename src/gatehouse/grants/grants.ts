/** Makes the parts that store, refresh, use, list and revoke grants. */

import type { Events } from '../../shared/observability/events.ts';
import type { Outbound } from '../../shared/outbound/outbound.ts';
import type { ConnectedApp, ConnectedAppRegistration } from '../../shared/provider/connected-app.ts';
import type { Chore } from '../../shared/storage/chore.ts';
import { createLeases } from '../../shared/storage/lease.ts';
import type { Sealer } from '../../shared/storage/sealed.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Storage } from '../../shared/storage/storage.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { ConnectedApps } from '../connected-apps/connected-apps.ts';
import { createAuthorizedFetch } from './authorized-fetch.ts';
import { createConnectLinks } from './connect-links.ts';
import { createConnectionCheck } from './connection-check.ts';
import { createConnectionIndex } from './connection-index.ts';
import { createConnections, type EndedBy } from './connections.ts';
import { createDisconnectEveryone } from './disconnect-everyone.ts';
import { createGrantStore } from './grant-store.ts';
import { createGrantImports } from './imported-grant.ts';
import { createListing } from './listing.ts';
import { createMissingScopes } from './missing-scopes.ts';
import { countSetAside, createMovedApps } from './moved-apps.ts';
import { createNarrowedTokens } from './narrowed-token.ts';
import { createRefresher, refreshTimes } from './refresh.ts';
import { createRevocations } from './revocations.ts';
import { createTokenVault } from './token-vault.ts';

/** More callbacks are not under way at one moment. */
const MAX_LEFT = 1_000;

export type Grants = ReturnType<typeof createGrants>;

/**
 * Also begins, in the background, to settle the refreshes that a killed process left open: all of them at a start; running
 * processes settle one when it is next due.
 */
export function createGrants(parts: {
  storage: { store: Store; sealer: Sealer; sealedJson: SealedJson; deadlineMilliseconds: number } & Partial<
    Pick<Storage, 'failedOverAt'>
  >;
  connectedApps: Pick<ConnectedApps, 'apps' | 'provider' | 'registry'>;
  outbound: Outbound;
  config: { connectionCheckSeconds: number };
  events: Events;
  publicHref: string;
  clock: () => number;
  random: () => number;
}) {
  const { storage, connectedApps, outbound, config, events, publicHref, clock, random } = parts;
  const { connectionCheckSeconds: checkSeconds } = config;
  const { store, sealer, sealedJson } = storage;
  const { provider } = connectedApps;
  const findApp = connectedApps.apps.find;

  const index = createConnectionIndex({ store, clock, findApp });
  const listing = createListing({
    index,
    load: (userId, appId) => grants.loadStored(userId, appId),
    lost: (connections) => events.listingsLost({ connections }),
  });
  const grants = createGrantStore({ store, sealer, clock, connectionIndex: listing });
  const revocations = createRevocations({ store, sealer, grants, provider, findApp, events, clock, random });
  const times = refreshTimes(storage.deadlineMilliseconds);
  const refresher = createRefresher({
    ...{ grants, provider, times, events, clock, random },
    revokeUnowned: revocations.revokeUnowned,
    failedOverAt: storage.failedOverAt,
    leases: createLeases({ store, milliseconds: times.leaseMilliseconds }),
  });
  const missing = createMissingScopes({ grants, index, events });
  const vault = createTokenVault({ grants, refresher, missing, clock });
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

  // Not awaited: a request that needs such a grant settles it first.
  void refresher.settleAbandoned(findApp).catch(() => undefined);

  const chores: readonly Chore[] = [
    { name: 'disconnect-everyone', everyMilliseconds: 30_000, work: everyone.resume },
    { name: 'retry-revocations', everyMilliseconds: 10_000, work: revocations.retryDue },
    { name: 'settle-connections', everyMilliseconds: 60_000, work: () => index.settle(grants.loadStored) },
    createMovedApps({ store, grants, index, apps: connectedApps.apps, events }),
  ];

  return {
    load: grants.load,
    /**
     * Ends the connections of an app that was deleted a moment ago, which a callback stored meanwhile. Those that come later find
     * that the app is gone.
     */
    async endLeft(app: ConnectedApp, by: EndedBy): Promise<void> {
      const { items } = await index.page({ appId: app.id, limit: MAX_LEFT });
      await Promise.all(items.map(({ userId }) => connections.end(userId, app.id, by, undefined, app)));
    },
    /** As `countSetAside`. */
    countSetAside: (after: ConnectedAppRegistration, before?: ConnectedApp) =>
      countSetAside(store, grants, after, before),
    prefetch: grants.prefetch,
    noteUse: grants.noteUse,
    connections,
    links,
    index,
    everyone,
    revocations,
    vault,
    imports: createGrantImports({ grants, isRegistered, refresher, clock }),
    chores,
    /** The chore that checks idle connections, unless it is switched off. */
    checks: createConnectionCheck({
      ...{ store, grants, refresher, missing, apps: connectedApps.apps, seconds: checkSeconds, clock },
    }),
    missing,
    narrowed: createNarrowedTokens({ grants, refresher, clock }),
    /** Calls with users' access tokens. */
    fetch: createAuthorizedFetch({ vault, grants, outbound }),
    /** Resolves once no refresh and no disconnection is in flight, and the lists are written. */
    async close() {
      await Promise.all([refresher.settle(), everyone.settle()]);
      await listing.close();
    },
  };
}
