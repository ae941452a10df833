/** Makes the administration: the pages and the API of each resource, and who may use them. */

import type { Audit } from '../audit/audit.ts';
import type { Bins } from '../bin/bin.ts';
import type { PublicUrl } from '../config/rules.ts';
import type { ConnectedApps } from '../connected-apps/connected-apps.ts';
import type { Grants } from '../grants/grants.ts';
import type { RateLimits } from '../http/rate-limit.ts';
import type { Route } from '../http/route-table.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { Pages } from '../pages/pages.ts';
import type { ProblemReferences } from '../pages/problem-references.ts';
import type { Relay } from '../relay/relay.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { SignInRecords } from '../sign-in-record/sign-in-record.ts';
import type { Storage } from '../storage/storage.ts';
import type { Users } from '../users/users.ts';
import type { Webhooks } from '../webhooks/webhooks.ts';
import { createAdminTokens } from './admin-tokens/admin-token.ts';
import { adminTokenRoutes } from './admin-tokens/routes.ts';
import { auditRoutes } from './audit/routes.ts';
import { binAdminRoutes } from './bin/routes.ts';
import { connectedAppApi, connectedAppFacts } from './connected-apps/api.ts';
import { createConnectedAppChanges } from './connected-apps/changes.ts';
import { connectedAppCheckRoutes } from './connected-apps/check.ts';
import { connectedAppPages } from './connected-apps/pages.ts';
import { createProviderRegistration, providerRegistrationApi } from './connected-apps/provider-registration.ts';
import { createWithdraw } from './connected-apps/withdrawal.ts';
import { disconnectionRoutes } from './connections/disconnections.ts';
import { adminConnectionRoutes } from './connections/routes.ts';
import { createAdminGuards } from './guards.ts';
import { keyRoutes } from './keys/routes.ts';
import { overviewRoutes } from './overview/routes.ts';
import { policyRoutes } from './policy/routes.ts';
import { relayTokenRoutes } from './relay-tokens/routes.ts';
import { type AdminNouns, adminRoutes } from './routes.ts';
import { serviceAccountRoutes } from './service-accounts/routes.ts';
import { adminSessionRoutes } from './sessions/routes.ts';
import { signInAdminRoutes } from './sign-ins/routes.ts';
import { userRoutes } from './users/routes.ts';
import { webhookApi } from './webhooks/api.ts';
import { webhookChanges } from './webhooks/changes.ts';
import { webhookPages } from './webhooks/pages.ts';

export interface Admin {
  routes: readonly Route[];
}

export function createAdmin(parts: {
  storage: Storage;
  outbound: Outbound;
  audit: Audit;
  connectedApps: ConnectedApps;
  grants: Grants;
  users: Users;
  sessions: Sessions;
  signInRecords: SignInRecords;
  /** `stepUp`: the stronger sign-in that is demanded here, where one is. */
  signIn: { stepUp: { acr: string; href: string } | undefined };
  bins: Bins;
  relay: Relay;
  webhooks: Webhooks;
  limits: RateLimits;
  pages: Pages;
  references: Pick<ProblemReferences, 'find'>;
  publicUrl: PublicUrl;
  clock: () => number;
}): Admin {
  const { storage, outbound, connectedApps, bins, relay, webhooks, limits, pages, references, clock } = parts;
  const { signInRecords, sessions, signIn } = parts;
  const { store, sealer, sealedJson } = storage;
  const { trail, tallies, note } = parts.audit;
  const { apps, ownKeys } = connectedApps;
  const { connections, index, everyone, revocations } = parts.grants;
  const { store: users, lifecycle } = parts.users;
  const { href: publicHref, basePath, origin } = parts.publicUrl;
  const tokens = createAdminTokens({ store, sealedJson, clock });
  const guards = createAdminGuards({
    ...{ sessions: sessions.guards, tokens, limits, note, origin },
    stepUp: signIn.stepUp && { ...signIn.stepUp, home: `${basePath}/admin` },
  });
  const nouns: AdminNouns = {
    ...connectedAppNouns(connectedApps),
    users: userRoutes({ users, lifecycle, sessions: sessions.ofUsers, connections, apps, trail, pages, basePath }),
    sessions: adminSessionRoutes({ sessions: sessions.ofUsers, users, trail, pages, basePath }),
    connections: adminConnectionRoutes({
      ...{ index, connections, users, apps, pages },
      ...{ everyone, revocations },
    }),
    disconnections: disconnectionRoutes({ index, connections, everyone, apps, trail, pages, basePath }),
    signIns: signInAdminRoutes({ records: signInRecords, references, apps, pages }),
    audit: auditRoutes({ trail, pages }),
    bin: binAdminRoutes({ bins, pages }),
    overview: overviewRoutes({
      ...{ tallies, index, countUsers: users.count, countSessions: sessions.ofUsers.count, pages },
      binQuota: async () => bins.quota?.status(),
    }),
    keys: keyRoutes({ store, sealer, ownKeys, trail, pages, clock, basePath }),
    policy: policyRoutes({ apps, gate: relay.gate, pages, clock, tokens: relay.tokens }),
    relayTokens: relayTokenRoutes({ apps, pages, clock, basePath, trail, tokens: relay.tokens, uses: relay.uses }),
    ...webhookNouns(webhooks),
    serviceAccounts: serviceAccountRoutes({
      ...{ apps, pages, clock, basePath, trail, accounts: relay.accounts },
      check: relay.checkApiToken,
    }),
    adminTokens: adminTokenRoutes({ tokens, trail, pages, clock, basePath }),
  };
  return { routes: adminRoutes(nouns, guards) };

  function connectedAppNouns({
    registry,
    readProviderFacts: readProvider,
    registration: atProvider,
    check,
  }: ConnectedApps) {
    const { examine } = outbound;
    const countConnections = index.count;
    const facts = connectedAppFacts({ apps, registry, publicHref, countConnections });
    const withdraw = createWithdraw({ registration: atProvider, trail });
    const changes = createConnectedAppChanges({ apps, registry, trail, examine, withdraw, countConnections });
    const registration = createProviderRegistration({
      ...{ changes, trail, readProvider, publicHref },
      registerAt: atProvider.register,
      withdraw,
    });
    return {
      connectedApps: connectedAppPages({
        ...{ facts, changes, registration, readProvider, pages, clock, publicHref, basePath },
      }),
      connectedAppCheck: connectedAppCheckRoutes({ apps, pages, trail, appCheck: check }),
      connectedAppApi: connectedAppApi({ facts, changes, publicHref }),
      providerRegistration: providerRegistrationApi({ registration, facts, publicHref }),
    };
  }

  function webhookNouns({ registered, messages }: Webhooks) {
    const changes = webhookChanges({ webhooks: registered, examine: outbound.examine, trail });
    return {
      webhooks: webhookPages({ webhooks: registered, messages, changes, pages, basePath }),
      webhookApi: webhookApi({ webhooks: registered, messages, changes, basePath }),
    };
  }
}
