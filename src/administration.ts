/** Owns the assembly of the administration: what its pages and its API are made of. */
import { type AdminTokens, createAdminTokens } from './admin/admin-token.ts';
import { adminTokenRoutes } from './admin/admin-tokens.ts';
import { auditRoutes } from './admin/audit.ts';
import { binAdminRoutes } from './admin/bin.ts';
import { createConnectedAppChanges } from './admin/connected-app-changes.ts';
import { connectedAppCheckRoutes } from './admin/connected-app-check.ts';
import { connectedAppPages } from './admin/connected-app-pages.ts';
import { connectedAppApi, connectedAppFacts } from './admin/connected-apps-api.ts';
import { adminConnectionRoutes } from './admin/connections.ts';
import { disconnectionRoutes } from './admin/disconnections.ts';
import { overviewRoutes } from './admin/home.ts';
import { keyRoutes } from './admin/keys.ts';
import { policyRoutes } from './admin/policy.ts';
import { createProviderRegistration, providerRegistrationApi } from './admin/provider-registration.ts';
import { relayTokenRoutes } from './admin/relay-tokens.ts';
import type { AdminNouns } from './admin/routes.ts';
import { serviceAccountRoutes } from './admin/service-accounts.ts';
import { adminSessionRoutes } from './admin/sessions.ts';
import { signInAdminRoutes } from './admin/sign-ins.ts';
import { userRoutes } from './admin/users.ts';
import { webhookChanges } from './admin/webhook-changes.ts';
import { webhookPages } from './admin/webhook-pages.ts';
import { webhookApi } from './admin/webhooks-api.ts';
import type { Tallies } from './audit/tallies.ts';
import type { AuditTrail } from './audit/trail.ts';
import type { BinEnrichment } from './bin/enrichment.ts';
import type { AppRegistry } from './connected-apps/app-registry.ts';
import type { AppStore } from './connected-apps/app-store.ts';
import { createAppCheck } from './connected-apps/check.ts';
import { registerAtProvider, withdrawAtProvider } from './connected-apps/dynamic-registration.ts';
import type { Observations } from './connected-apps/observations.ts';
import type { OwnKeys } from './connected-apps/own-keys.ts';
import type { ProviderClient } from './connected-apps/provider-client.ts';
import { readProviderFacts } from './connected-apps/provider-facts.ts';
import type { ProviderMetadataSource } from './connected-apps/provider-metadata.ts';
import type { ConnectionIndex } from './grants/connection-index.ts';
import type { Connections } from './grants/connections.ts';
import type { DisconnectEveryone } from './grants/disconnect-everyone.ts';
import type { Revocations } from './grants/revocations.ts';
import type { Pages } from './http/pages.ts';
import type { SessionIndex } from './http/session-index.ts';
import type { UserSessions } from './http/user-sessions.ts';
import type { Outbound } from './outbound/outbound.ts';
import type { Relay } from './relay/relay.ts';
import { checkApiToken } from './relay/service-account.ts';
import type { Webhooks } from './relay/webhook.ts';
import type { WebhookMessages } from './relay/webhook-messages.ts';
import type { SignInRecords } from './sign-in/record.ts';
import type { Sealer } from './storage/sealed.ts';
import type { Store } from './storage/store.ts';
import type { People } from './users/people.ts';
import type { UserStore } from './users/user-store.ts';

export interface AdministrationParts {
  store: Store;
  sealer: Sealer;
  outbound: Outbound;
  pages: Pages;
  trail: AuditTrail;
  tallies: Tallies;
  apps: AppStore;
  registry: AppRegistry;
  metadata: ProviderMetadataSource;
  provider: ProviderClient;
  observations: Observations;
  ownKeys: OwnKeys;
  connections: Connections;
  connectionIndex: ConnectionIndex;
  everyone: DisconnectEveryone;
  revocations: Revocations;
  users: UserStore;
  people: People;
  sessionIndex: SessionIndex;
  userSessions: UserSessions;
  signInRecords: SignInRecords;
  bins: BinEnrichment;
  relay: Relay;
  webhooks: Webhooks;
  messages: WebhookMessages;
  /** False for a user who is disabled. */
  mayBeServed: (userId: string) => Promise<boolean>;
  clock: () => number;
  publicHref: string;
  basePath: string;
}

export interface Administration {
  nouns: AdminNouns;
  tokens: AdminTokens;
}

export function createAdministration(parts: AdministrationParts): Administration {
  const { store, pages, trail, apps, users, people, connections, relay, outbound, clock, publicHref, basePath } = parts;
  const { userSessions, sessionIndex, signInRecords, connectionIndex: index } = parts;
  const tokens = createAdminTokens({ store, clock });
  const nouns: AdminNouns = {
    ...connectedAppNouns(parts),
    users: userRoutes({ users, people, sessions: userSessions, connections, apps, trail, pages, basePath }),
    sessions: adminSessionRoutes({ index: sessionIndex, sessions: userSessions, users, trail, pages, basePath }),
    connections: adminConnectionRoutes({
      ...{ index, connections, users, apps, pages },
      ...{ everyone: parts.everyone, revocations: parts.revocations },
    }),
    disconnections: disconnectionRoutes({ index, connections, everyone: parts.everyone, apps, trail, basePath }),
    signIns: signInAdminRoutes({ records: signInRecords, apps, pages, clock }),
    audit: auditRoutes({ trail, pages }),
    bin: binAdminRoutes({ bins: parts.bins, pages }),
    overview: overviewRoutes({
      ...{ tallies: parts.tallies, index, countUsers: users.count, countSessions: sessionIndex.count, pages },
      binQuota: async () => parts.bins.quota?.status(),
    }),
    keys: keyRoutes({ store, sealer: parts.sealer, ownKeys: parts.ownKeys, trail, pages, clock, basePath }),
    policy: policyRoutes({ apps, mayBeServed: parts.mayBeServed, pages, clock, tokens: relay.tokens }),
    relayTokens: relayTokenRoutes({ apps, pages, clock, basePath, trail, tokens: relay.tokens, uses: relay.uses }),
    ...webhookNouns(parts),
    serviceAccounts: serviceAccountRoutes({
      ...{ apps, pages, clock, basePath, trail, accounts: relay.accounts },
      check: (app, apiToken) => checkApiToken(app, apiToken, outbound),
    }),
    adminTokens: adminTokenRoutes({ tokens, trail, pages, clock, basePath }),
  };
  return { nouns, tokens };

  function connectedAppNouns({ registry, metadata, provider, observations }: AdministrationParts) {
    const { examine } = outbound;
    const countConnections = index.count;
    const facts = connectedAppFacts({ apps, registry, publicHref, countConnections });
    const changes = createConnectedAppChanges({ apps, registry, trail, examine, countConnections });
    const readProvider = (at: Parameters<typeof readProviderFacts>[1]) => readProviderFacts({ metadata, examine }, at);
    const registration = createProviderRegistration({
      ...{ changes, trail, readProvider, publicHref },
      registerAt: (endpoint, wanted, token) => registerAtProvider({ outbound }, endpoint, wanted, token),
      withdrawAt: (management) => withdrawAtProvider({ outbound }, management),
    });
    const appCheck = createAppCheck({ outbound, metadata, provider, observations, clock, publicHref });
    return {
      connectedApps: connectedAppPages({
        ...{ facts, changes, registration, readProvider, pages, clock, publicHref, basePath },
      }),
      connectedAppCheck: connectedAppCheckRoutes({ apps, pages, trail, appCheck }),
      connectedAppApi: connectedAppApi({ facts, changes, publicHref }),
      providerRegistration: providerRegistrationApi({ registration, facts, publicHref }),
    };
  }

  function webhookNouns({ webhooks, messages }: AdministrationParts) {
    const changes = webhookChanges({ webhooks, examine: outbound.examine, trail });
    return {
      webhooks: webhookPages({ webhooks, messages, changes, pages, basePath }),
      webhookApi: webhookApi({ webhooks, messages, changes, basePath }),
    };
  }
}
