/** Makes the parts that store, refresh, use, list and revoke grants. */
import type { ConnectedApps } from '../connected-apps/connected-apps.ts';
import type { Events } from '../observability/events.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { Chore } from '../storage/chore.ts';
import { createLeases } from '../storage/lease.ts';
import type { Sealer } from '../storage/sealed.ts';
import type { Store } from '../storage/store.ts';
import { type AuthorizedFetch, createAuthorizedFetch } from './authorized-fetch.ts';
import { type ConnectionIndex, createConnectionIndex } from './connection-index.ts';
import { type Connections, createConnections } from './connections.ts';
import { createDisconnectEveryone, type DisconnectEveryone } from './disconnect-everyone.ts';
import { createGrantStore, type GrantStore } from './grant-store.ts';
import { createNarrowedTokens, type NarrowedTokens } from './narrowed-token.ts';
import { createRefresher } from './refresh.ts';
import { refreshTimes } from './refresh-state.ts';
import { createRevocations, type Revocations } from './revocations.ts';
import { createTokenVault, type TokenVault } from './token-vault.ts';

export interface Grants extends Pick<GrantStore, 'load' | 'readAhead'> {
  connections: Connections;
  /** Lists of all connections, for administrators. */
  index: ConnectionIndex;
  everyone: DisconnectEveryone;
  revocations: Pick<Revocations, 'page'>;
  vault: TokenVault;
  narrowed: NarrowedTokens;
  /** Calls with users' access tokens. */
  fetch: AuthorizedFetch;
  chores: readonly Chore[];
  /** Resolves once no refresh and no disconnection is in flight. */
  close(): Promise<void>;
}

/** Also starts, in the background, to settle the refreshes that a killed process left open. */
export function createGrants(parts: {
  storage: { store: Store; sealer: Sealer; deadlineMilliseconds: number };
  connectedApps: Pick<ConnectedApps, 'apps' | 'provider'>;
  outbound: Outbound;
  events: Events;
  clock: () => number;
  random: () => number;
}): Grants {
  const { storage, connectedApps, outbound, events, clock, random } = parts;
  const { store, sealer } = storage;
  const { provider } = connectedApps;
  const findApp = connectedApps.apps.find;

  const index = createConnectionIndex({ store, clock });
  const grants = createGrantStore({ store, sealer, clock, index });
  const revocations = createRevocations({ store, sealer, grants, provider, findApp, events, clock, random });
  const times = refreshTimes(storage.deadlineMilliseconds);
  const refresher = createRefresher({
    ...{ grants, times, events, clock, random },
    provider: { refresh: provider.refresh, revoke: revocations.revokeUnowned },
    leases: createLeases({ store, milliseconds: times.leaseMilliseconds }),
  });
  const vault = createTokenVault({ grants, refresher, clock });
  const connections = createConnections({ grants, revocations, events, clock });
  const everyone = createDisconnectEveryone({ store, index, connections, findApp, clock });

  // Not awaited: a request that needs such a grant settles it first.
  void refresher.settleAbandoned(findApp).catch(() => undefined);

  return {
    load: grants.load,
    readAhead: grants.readAhead,
    connections,
    index,
    everyone,
    revocations,
    vault,
    narrowed: createNarrowedTokens({ grants, refresher, clock }),
    fetch: createAuthorizedFetch({ vault, grants, outbound }),
    chores: [
      { name: 'disconnect-everyone', everyMilliseconds: 30_000, work: everyone.resume },
      { name: 'retry-revocations', everyMilliseconds: 10_000, work: revocations.retryDue },
      { name: 'settle-connections', everyMilliseconds: 60_000, work: () => index.settle(grants) },
    ],
    async close() {
      await Promise.all([refresher.settle(), everyone.settle()]);
    },
  };
}
