/** The HTTP application: the middleware in order, then the routes of the table. */
import type { IncomingMessage, RequestListener } from 'node:http';
import express, { type RequestHandler } from 'express';
import type { Config } from '../shared/config/config.ts';
import { isInNetworks } from '../shared/config/networks.ts';
import { wantsPage } from '../shared/http/accept.ts';
import { readBody, requireContentLength } from '../shared/http/body.ts';
import { cardNumberGuard } from '../shared/http/card-numbers.ts';
import { clientAddress } from '../shared/http/client-address.ts';
import { enterExpress, fastPath } from '../shared/http/fast-path.ts';
import type { JsonBytes } from '../shared/http/json-bytes.ts';
import { notFound } from '../shared/http/problem.ts';
import { dropUsersHeaders, plainHttp } from '../shared/http/protocol.ts';
import { publicHost } from '../shared/http/public-host.ts';
import type { RateLimits } from '../shared/http/rate-limit.ts';
import { requestContext } from '../shared/http/request-context.ts';
import { type Budget, isDataPath, isForProxies, proxiedPaths, routeTable } from '../shared/http/route-table.ts';
import { securityHeaders } from '../shared/http/security-headers.ts';
import type { Observability } from '../shared/observability/observability.ts';
import { assets } from '../shared/pages/assets.ts';
import type { Pages } from '../shared/pages/pages.ts';
import { problemHandler } from '../shared/pages/problem-handler.ts';
import type { ProblemReferences } from '../shared/pages/problem-references.ts';
import { crossSiteGuard, csrfGuard } from '../shared/sessions/csrf.ts';
import { sessionOf } from '../shared/sessions/guards.ts';
import type { Sessions } from '../shared/sessions/sessions.ts';
import type { Admin } from './admin/admin.ts';
import type { ApiDocs } from './api-docs/api-docs.ts';
import type { Bins } from './bin/bin.ts';
import { binRoutes } from './bin/routes.ts';
import type { ConnectedApps } from './connected-apps/connected-apps.ts';
import type { Grants } from './grants/grants.ts';
import { connectionRoutes } from './grants/routes.ts';
import type { Home } from './home/home.ts';
import type { Platform } from './platform/platform.ts';
import { isDeclaredCall } from './platform/routed-request.ts';
import { apiRoutes, threadRoutes } from './platform/routes.ts';
import type { Relay } from './relay/relay.ts';
import { createRoutes } from './routes.ts';
import type { SignIn } from './sign-in/sign-in.ts';

export interface AppParts {
  config: Pick<Config, 'publicUrl' | 'trustedProxies' | 'accessLog'>;
  observability: Pick<Observability, 'events' | 'metrics' | 'beginRequest'>;
  connectedApps: Pick<ConnectedApps, 'apps'>;
  grants: Grants;
  platform: Platform;
  bins: Bins;
  relay: Relay;
  sessions: Sessions;
  signIn: SignIn;
  admin: Admin;
  home: Home;
  apiDocs: ApiDocs;
  limits: RateLimits;
  pages: Pages;
  references: ProblemReferences;
  bodies: JsonBytes;
  clock: () => number;
}

export function createApp(parts: AppParts): RequestListener {
  const { config, observability, sessions, limits, pages, references, relay, signIn } = parts;
  const { publicUrl } = config;
  const { basePath, href: publicHref } = publicUrl;
  const { events, metrics } = observability;
  const { apps } = parts.connectedApps;
  const { connections, links } = parts.grants;
  const handlers = {
    signIn: signIn.routes,
    sessions: signIn.sessionRoutes,
    erasure: signIn.erasureRoutes,
    backchannelLogout: signIn.backchannelLogout,
    home: parts.home,
    apiDocs: parts.apiDocs,
    bin: binRoutes({ lookup: parts.bins.lookup, pages, events, references, publicHref }),
    connections: connectionRoutes({ apps, connections, links, servicesOf: relay.uses.servicesOf, pages, publicHref }),
    threads: threadRoutes({
      apps,
      calls: parts.platform.forBrowsers,
      sessions: sessions.browser,
      grants: parts.grants,
    }),
    api: apiRoutes({ apps, calls: parts.platform.forBrowsers, bodies: parts.bodies, basePath }),
    relay: relay.routes,
    assertions: relay.assertions,
    admin: parts.admin.routes,
  };
  const isTrusted = (address: string) => isInNetworks(address, config.trustedProxies);
  const addressOf = clientAddress(config.trustedProxies, events.forwardedFault);
  const headers = securityHeaders(publicUrl.href);
  const begin = requestContext({
    metrics,
    isTrusted,
    addressOf,
    headers,
    onBegin: observability.beginRequest,
    onEnd: config.accessLog ? events.requestEnded : undefined,
  });
  const { loadSession, peekSession, requireUserOrRedirect } = sessions.guards;
  const sessionBudget: Budget = { take: (req) => void limits.take('session', sessionOf(req).ref) };
  const csrf = csrfGuard(publicUrl.origin);
  const routes = createRoutes(handlers, {
    ...sessions.guards,
    // The CSRF token may be a field of the form, so the body is read first.
    change: [readBody, csrf],
    csrf,
    browserSession: sessions.browser.middleware,
    sessionBudget,
  });
  const perAddress = (req: IncomingMessage) => void limits.take('address', req.context.address);

  const isProxyPath = isForProxies(routes, basePath);
  const app = express();
  app.disable('x-powered-by').disable('etag').enable('case sensitive routing');
  app.set('query parser', false);
  app.use(enterExpress(begin), dropUsersHeaders(isProxyPath), plainHttp, requireContentLength);
  app.use((req, _res, next) => {
    perAddress(req);
    next();
  });
  app.use(`${basePath}/assets`, assets());
  app.use(cardNumberGuard(publicUrl, isDeclaredCall(apps, basePath)));
  const isData = isDataPath(routes, [loadSession, requireUserOrRedirect]);
  const onFault = events.hostFault;
  app.use(publicHost({ publicUrl, isTrusted, isData, isForProxies: isProxyPath, onFault }), crossSiteGuard);
  app.use(basePath || '/', routeTable(routes));
  const problems = { pages, events, references, publicHref, basePath, clock: parts.clock };
  // A page that does not exist has the menu of the user, unless the session cannot be read.
  const addUser: RequestHandler = (req, res, next) =>
    wantsPage(req) && !isAssetPath(req.path) ? peekSession(req, res, () => next()) : next();
  app.use(addUser, notFound, problemHandler(problems, proxiedPaths(routes)));
  // On the fast path `countRequest` counts by address instead of the middleware above, so each request is counted once.
  return fastPath({ app, begin, countRequest: perAddress, basePath, routes });
}

/**
 * True for a path that a proxy may compress. Its page must not have the token of the user's session, whose length would
 * then tell an observer what the token is (BREACH). A proxy decodes the path first.
 */
function isAssetPath(path: string): boolean {
  try {
    return decodeURIComponent(path).includes('/assets/');
  } catch {
    return true;
  }
}
