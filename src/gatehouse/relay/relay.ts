/** Creates the relay, through which back-end services call the platform for users or service accounts. */
import type { PublicUrl } from '../../shared/config/rules.ts';
import type { JsonBytes } from '../../shared/http/json-bytes.ts';
import type { RateLimits } from '../../shared/http/rate-limit.ts';
import type { Events } from '../../shared/observability/events.ts';
import type { Outbound } from '../../shared/outbound/outbound.ts';
import type { Sessions } from '../../shared/sessions/sessions.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { Audit } from '../audit/audit.ts';
import type { ConnectedApps } from '../connected-apps/connected-apps.ts';
import type { ThreadApp } from '../connected-apps/current-apps.ts';
import type { Grants } from '../grants/grants.ts';
import type { Platform } from '../platform/platform.ts';
import type { Users } from '../users/users.ts';
import { relayApi } from './api-routes.ts';
import { type AssertionRoutes, assertionRoutes } from './assertion-routes.ts';
import { relayConnectLinks } from './connect-links.ts';
import { relayConnections } from './connections.ts';
import { createRelayGate, type RelayGate } from './gate.ts';
import { createIdTokens } from './id-token.ts';
import { createRelayTokens, type RelayTokens } from './relay-token.ts';
import { type RelayRoutes, relayCurrentThread, relayGuards } from './routes.ts';
import {
  checkApiToken,
  createServiceAccounts,
  type ServiceAccounts,
  serviceAccountFetch,
  type TokenCheck,
} from './service-account.ts';
import { createTokenExchange } from './token-exchange.ts';
import { tokenExchangeRoutes } from './token-routes.ts';
import { createUserAssertions } from './user-assertion.ts';
import { createRelayUses, type RelayUses } from './uses.ts';

export interface Relay {
  tokens: RelayTokens;
  accounts: ServiceAccounts;
  uses: RelayUses;
  gate: RelayGate;
  /** Tries an API token on the app's platform. */
  checkApiToken(app: ThreadApp, apiToken: string): Promise<TokenCheck>;
  routes: RelayRoutes;
  assertions: AssertionRoutes;
  close(): Promise<void>;
}

/** @throws AppError `storage_unavailable` */
export async function createRelay(parts: {
  storage: { store: Store; sealedJson: SealedJson };
  outbound: Outbound;
  audit: Pick<Audit, 'note' | 'tallies'>;
  events: Pick<Events, 'relayCalled' | 'countsLost'>;
  connectedApps: Pick<ConnectedApps, 'apps' | 'ownKeys' | 'registry'>;
  grants: Grants;
  platform: Platform;
  users: Pick<Users, 'store'>;
  sessions: Pick<Sessions, 'ofUsers'>;
  limits: RateLimits;
  bodies: JsonBytes;
  publicUrl: Pick<PublicUrl, 'basePath'>;
  publicHref: string;
  clock: () => number;
}): Promise<Relay> {
  const {
    storage,
    outbound,
    audit,
    events,
    connectedApps,
    grants,
    platform,
    users,
    limits,
    sessions,
    bodies,
    publicUrl,
    publicHref,
    clock,
  } = parts;
  const { store, sealedJson } = storage;
  const { apps, ownKeys, registry } = connectedApps;
  const tokens = await createRelayTokens({ store, sealedJson, clock });
  const accounts = createServiceAccounts({ store, sealedJson, clock });
  const assertions = createUserAssertions({ ownKeys, publicHref });
  const uses = createRelayUses({
    store,
    audit,
    clock,
    isApp: (id) => apps.find(id) !== undefined,
    count(outcome, app) {
      audit.tallies.count(`relay.${outcome}`);
      events.relayCalled({ app, outcome });
    },
    onLost: (counts) => events.countsLost({ kind: 'relay_uses', counts }),
  });
  const gate = createRelayGate({ tokens, assertions, uses, limits, users: users.store, accounts, apps, clock });
  const { accessTokens, narrowed } = grants;
  const idTokens = createIdTokens({ userSessions: sessions.ofUsers, clock });
  const exchange = createTokenExchange({
    apps,
    gate,
    assertions,
    idTokens,
    accessTokens,
    narrowed,
    grants,
    publicHref,
    clock,
  });
  const userCalls = platform.forServices;
  const accountCalls = platform.forServicesWith(serviceAccountFetch(accounts, outbound));
  return {
    tokens,
    accounts,
    uses,
    gate,
    checkApiToken: (app, apiToken) => checkApiToken(app, apiToken, outbound),
    routes: {
      ...relayGuards({ gate, limits }),
      currentThread: relayCurrentThread({
        gate,
        apps,
        grants,
        userCalls,
        accountCalls,
      }),
      api: relayApi({ gate, apps, grants, userCalls, accountCalls, bodies, basePath: publicUrl.basePath }),
      connections: relayConnections({ gate, apps, grants, publicHref }),
      connectLinks: relayConnectLinks({
        gate,
        apps,
        isRegistered: registry.isRegistered,
        links: grants.links,
        audit,
        clock,
        conditionsFor: users.store.conditionsForImport,
      }),
      ...tokenExchangeRoutes({ gate, exchange, audit }),
    },
    assertions: assertionRoutes({ ownKeys, assertions }),
    async close() {
      await uses.close();
      await tokens.close();
    },
  };
}
