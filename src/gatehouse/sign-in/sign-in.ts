/** Creates the module for signing in and out, connecting apps, the user's sessions, and deleting the account. */
import { randomBytes } from 'node:crypto';
import type { Config } from '../../shared/config/config.ts';
import type { RateLimits } from '../../shared/http/rate-limit.ts';
import type { Events } from '../../shared/observability/events.ts';
import type { Pages } from '../../shared/pages/pages.ts';
import type { Sessions } from '../../shared/sessions/sessions.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { Audit } from '../audit/audit.ts';
import type { ConnectedApps } from '../connected-apps/connected-apps.ts';
import type { Grants } from '../grants/grants.ts';
import type { SignInRecords } from '../sign-in-record/sign-in-record.ts';
import type { Users } from '../users/users.ts';
import { type BackchannelLogout, backchannelLogout } from './backchannel-logout.ts';
import { type ErasureRoutes, erasureRoutes } from './erasure.ts';
import { createSignInFlow } from './flow.ts';
import { createKeptReturns } from './kept-returns.ts';
import { createPendingRequests } from './pending-requests.ts';
import { type SignInRoutes, signInRoutes } from './routes.ts';
import { type SessionRoutes, sessionRoutes } from './session-routes.ts';
import { createStateSigner, type StateSigner } from './state.ts';

export interface SignIn {
  routes: SignInRoutes;
  sessionRoutes: SessionRoutes;
  erasureRoutes: ErasureRoutes;
  backchannelLogout: BackchannelLogout;

  /** The stronger sign-in that the administration requires, if it requires one. */
  stepUp: { acr: string; href: () => string } | undefined;

  useSecrets: StateSigner['useSecrets'];

  /** The app whose sign-ins can make a user an administrator. */
  adminApp(): string | undefined;

  useAdminApp(app: string | undefined): void;
}

export function createSignIn(parts: {
  config: Pick<Config, 'publicUrl' | 'sessionSecrets' | 'admin'>;
  storage: { store: Store; sealedJson: SealedJson };
  connectedApps: Pick<ConnectedApps, 'apps' | 'provider' | 'verifyLogoutToken'>;
  grants: Pick<Grants, 'connections' | 'links'>;
  users: Users;
  sessions: Pick<Sessions, 'browser' | 'ofUsers'>;
  signInRecords: Pick<SignInRecords, 'recorder'>;
  audit: Pick<Audit, 'trail' | 'note'>;
  limits: Pick<RateLimits, 'take'>;
  pages: Pages;
  events: Events;
  clock: () => number;
}): SignIn {
  const { config, sessions, limits, pages, events, clock } = parts;
  const { store, sealedJson } = parts.storage;
  const { publicUrl, sessionSecrets } = config;
  let adminRule = config.admin;
  const { origin, href, basePath } = publicUrl;
  const { apps, provider, verifyLogoutToken } = parts.connectedApps;
  const { connections, links } = parts.grants;
  const { store: users, lifecycle } = parts.users;
  const site = { origin, href, home: `${basePath}/` };
  const states = createStateSigner({ secrets: sessionSecrets, randomBytes });
  const flow = createSignInFlow({
    apps,
    provider,
    connections,
    users,
    recorder: parts.signInRecords.recorder,
    pendingRequests: createPendingRequests({ store, sealedJson, home: site.home, clock }),
    keptReturns: createKeptReturns({ store, sealedJson, home: site.home }),
    states,
    adminRule: () => adminRule,
    events,
    clock,
    publicHref: href,
    home: site.home,
    recordUrl: (attempt) => `${href}/admin/sign-ins/${attempt}`,
  });
  return {
    routes: signInRoutes({
      apps,
      flow,
      links,
      lifecycle,
      browser: sessions.browser,
      limits,
      pages,
      events,
      clock,
      site,
    }),
    sessionRoutes: sessionRoutes({ sessions, pages, events, basePath: publicUrl.basePath }),
    erasureRoutes: erasureRoutes({ lifecycle, apps, audit: parts.audit, sessions, pages, basePath }),
    backchannelLogout: backchannelLogout({
      apps,
      verifyLogoutToken,
      userSessions: sessions.ofUsers,
      store,
      limits,
      events,
    }),
    stepUp:
      adminRule.acr === undefined
        ? undefined
        : { acr: adminRule.acr, href: () => `${href}/sign-in?app=${adminRule.app}&step_up=1` },
    useSecrets: states.useSecrets,
    adminApp: () => adminRule.app,
    useAdminApp(app) {
      adminRule = { ...adminRule, app };
    },
  };
}
