/** Owns the shape of the HTTP application: the order of middleware, and every route with its guard, on one screen. */
import type { IncomingMessage, RequestListener } from 'node:http';
import express, { type RequestHandler } from 'express';
import type { AdminGuards } from './admin/guards.ts';
import { type AdminNouns, adminRoutes } from './admin/routes.ts';
import type { ApiDocs } from './api-docs/routes.ts';
import type { BinRoutes } from './bin/routes.ts';
import type { Config } from './config.ts';
import type { ConnectionRoutes } from './grants/routes.ts';
import type { HomeRoutes } from './home/routes.ts';
import { assets } from './http/assets.ts';
import { knownLength, readBody } from './http/body.ts';
import { cardNumberGuard } from './http/card-numbers.ts';
import type { ClientAddress } from './http/client-address.ts';
import { crossSiteGuard, csrfGuard } from './http/csrf.ts';
import { frontDoor, type Relayed, type RelayedBelow, throughExpress } from './http/front-door.ts';
import { notFound, type ProblemParts, problemHandler } from './http/problem.ts';
import { plainHttp } from './http/protocol.ts';
import { publicHost } from './http/public-host.ts';
import type { RateLimits } from './http/rate-limit.ts';
import { requestContext } from './http/request-context.ts';
import { getOnly, type Route, routeTable } from './http/route-table.ts';
import { securityHeaders } from './http/security-headers.ts';
import type { Sessions } from './http/session.ts';
import { trustedProxies } from './http/trusted-proxies.ts';
import { type ViewerGuards, viewerOf } from './http/viewer.ts';
import type { Metrics } from './observability/metrics.ts';
import type { AssertionRoutes } from './relay/assertion-routes.ts';
import type { RelayRoutes } from './relay/routes.ts';
import type { ErasureRoutes } from './sign-in/erasure.ts';
import type { SignInRoutes } from './sign-in/routes.ts';
import type { SessionRoutes } from './sign-in/sessions.ts';
import type { ThreadRoutes } from './threads/routes.ts';

export interface AppParts {
  config: Pick<Config, 'publicUrl' | 'trustedProxies'>;
  routes: {
    admin: AdminNouns;
    apiDocs: ApiDocs;
    bin: BinRoutes;
    connections: ConnectionRoutes;
    erasure: ErasureRoutes;
    home: HomeRoutes;
    signIn: SignInRoutes;
    sessions: SessionRoutes;
    backchannelLogout: RequestHandler;
    threads: ThreadRoutes;
    assertions: AssertionRoutes;
    relay: RelayRoutes;
    tokenExchange: RequestHandler;
  };
  limits: RateLimits;
  addressOf: ClientAddress;
  guards: ViewerGuards;
  adminGuards: AdminGuards;
  sessions: Sessions;
  metrics: Metrics;
  problems: ProblemParts;
  /** False for texts that hold a card number. */
  isClean: (text: string) => boolean;
  assetsDirectory: string;
}

/** Whatever else is asked for goes through Express, where the guard against card numbers stands. */
const BIN = /^[0-9]{6,8}$/;

export function createApp(parts: AppParts): RequestListener {
  const { config, guards, sessions, limits, addressOf, isClean, routes: to } = parts;
  const { publicUrl } = config;
  const isTrusted = trustedProxies(config.trustedProxies);
  const { anyone, onlooker, user, userPage } = guards;
  // The token may be in the form, so the body is read before; who is signed in is known before both.
  const change = [...readBody, csrfGuard(publicUrl.origin)];
  const session = sessions.middleware;

  const headers = securityHeaders(publicUrl.secure);
  const begin = requestContext({ metrics: parts.metrics, isTrusted, isClean, headers });
  const currentThread: Relayed = async (req, res) => {
    const ahead = to.threads.readAhead(req);
    const { sessionRef } = await guards.requireUser(req);
    limits.take('session', sessionRef);
    await to.threads.current(req, res, ahead);
  };
  const perSession: RequestHandler = (req, _res, next) => {
    limits.take('session', viewerOf(req).sessionRef);
    next();
  };
  const oneBin: RelayedBelow = async (req, res, bin) => {
    const { sessionRef } = await guards.requireUser(req);
    limits.take('session', sessionRef);
    await to.bin.one(req, res, bin);
  };
  const binOf: RequestHandler = (req, res) => to.bin.one(req, res, String(req.params.bin));
  const binGuard: RequestHandler = (req, res, next) => to.relay.enterBins(req, res).then(() => next(), next);
  const relayedBin: RelayedBelow = async (req, res, bin) => {
    await to.relay.enterBins(req, res);
    await to.bin.one(req, res, bin);
  };
  const perAddress = (req: IncomingMessage) => void limits.take('address', addressOf(req));

  const app = express();
  app.disable('x-powered-by').disable('etag').enable('case sensitive routing');
  app.set('query parser', false).set('trust proxy', isTrusted);
  app.use(throughExpress(begin), plainHttp, knownLength);
  app.use((req, _res, next) => {
    perAddress(req);
    next();
  });
  app.use(`${publicUrl.basePath}/assets`, assets(parts.assetsDirectory));
  app.use(cardNumberGuard({ isClean, basePath: publicUrl.basePath }));
  app.use(
    publicHost({
      publicUrl,
      isTrusted,
      isClean,
      dataPaths: /^\/(threads\/|relay\/|session\/verify$|\.well-known\/|bin\/|session$|admin\/api\/|openapi\.json$)/,
    }),
    crossSiteGuard,
  );
  const routes: Route[] = [
    // Relayed: no express-session here, the guard reads the record itself.
    ['GET', '/threads/current', currentThread],
    ['GET', '/bin/:bin', user, perSession, binOf],
    ['GET', '/bin', userPage, to.bin.form],
    ['POST', '/bin', user, perSession, change, to.bin.many],

    // For back-end services: the relay token decides, and no cookie counts.
    ['GET', '/relay/threads/current', to.relay.currentThread],
    ['GET', '/relay/bin/:bin', binGuard, binOf],
    ['POST', '/relay/bin', binGuard, readBody, to.relay.jsonOnly, to.bin.many],
    ['POST', '/relay/token', readBody, to.tokenExchange],
    ['GET', '/session/verify', user, to.assertions.verify],
    ['GET', '/.well-known/jwks.json', to.assertions.keySet],

    ['GET', '/', anyone, to.home.home],
    ['GET', '/problems/:code', anyone, to.home.problem],

    ['GET', '/sign-in', getOnly, anyone, to.signIn.signIn],
    ['GET', '/oauth/callback/:app', getOnly, anyone, session, to.signIn.callback],
    ['POST', '/sign-out', anyone, change, session, to.signIn.signOut],
    ['POST', '/sign-out/everywhere', anyone, change, session, to.signIn.signOutEverywhere],
    // From a provider: no cookie counts here, so there is nothing that another site could make use of.
    ['POST', '/oauth/backchannel-logout/:app', readBody, to.backchannelLogout],
    ['GET', '/sessions', userPage, to.sessions.list],
    ['POST', '/sessions/:id/end', user, change, to.sessions.end],
    ['GET', '/account/delete', userPage, to.erasure.ask],
    ['POST', '/account/delete', user, change, to.erasure.erase],
    ['GET', '/session', onlooker, to.signIn.session],

    ['GET', '/connections', userPage, to.connections.list],
    ['GET', '/connections/:app', userPage, to.connections.one],
    ['POST', '/connections/:app', user, change, to.signIn.connect],
    ['POST', '/connections/:app/disconnect', user, change, to.connections.disconnect],

    ['GET', '/openapi.json', to.apiDocs.document(() => routes)],
    ['GET', '/docs', anyone, to.apiDocs.page(() => routes)],

    ...adminRoutes(to.admin, parts.adminGuards),
  ];
  app.use(publicUrl.basePath || '/', routeTable(routes));

  app.use(notFound, problemHandler(parts.problems));
  return frontDoor({
    app,
    begin,
    // The middleware that counts stands in Express: each request is counted once on either way.
    admit: perAddress,
    isClean,
    basePath: publicUrl.basePath,
    ways: {
      exact: [
        { route: '/threads/current', handle: currentThread },
        { route: '/relay/threads/current', handle: to.relay.currentThread },
      ],
      below: [
        { prefix: '/bin/', rest: BIN, route: '/bin/:bin', handle: oneBin },
        { prefix: '/relay/bin/', rest: BIN, route: '/relay/bin/:bin', handle: relayedBin },
      ],
    },
  });
}
