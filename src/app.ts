/** Owns the shape of the HTTP application: the order of middleware, and every route with its guard, on one screen. */
import type { RequestListener } from 'node:http';
import express, { type RequestHandler } from 'express';
import type { BinRoutes } from './bin/routes.ts';
import type { Config } from './config.ts';
import type { ConnectionRoutes } from './grants/routes.ts';
import type { HomeRoutes } from './home/routes.ts';
import { assets } from './http/assets.ts';
import { knownLength, readBody } from './http/body.ts';
import { cardNumberGuard } from './http/card-numbers.ts';
import { crossSiteGuard, csrfGuard } from './http/csrf.ts';
import { frontDoor, type Relayed, throughExpress } from './http/front-door.ts';
import { methodNotAllowed, notFound, type ProblemParts, problemHandler } from './http/problem.ts';
import { plainHttp } from './http/protocol.ts';
import { publicHost } from './http/public-host.ts';
import { requestContext } from './http/request-context.ts';
import { securityHeaders } from './http/security-headers.ts';
import type { Sessions } from './http/session.ts';
import { trustedProxies } from './http/trusted-proxies.ts';
import type { ViewerGuards } from './http/viewer.ts';
import type { Metrics } from './observability/metrics.ts';
import type { SignInRoutes } from './sign-in/routes.ts';
import type { SessionRoutes } from './sign-in/sessions.ts';

export interface AppParts {
  config: Pick<Config, 'publicUrl' | 'trustedProxies'>;
  routes: {
    bin: BinRoutes;
    connections: ConnectionRoutes;
    home: HomeRoutes;
    signIn: SignInRoutes;
    sessions: SessionRoutes;
    backchannelLogout: RequestHandler;
    threads: { current: Relayed };
  };
  guards: ViewerGuards;
  sessions: Sessions;
  metrics: Metrics;
  problems: ProblemParts;
  /** False for texts that hold a card number. */
  isClean: (text: string) => boolean;
  assetsDirectory: string;
}

export function createApp(parts: AppParts): RequestListener {
  const { config, guards, sessions, isClean, routes: to } = parts;
  const { publicUrl } = config;
  const isTrusted = trustedProxies(config.trustedProxies);
  const { anyone, onlooker, user, userPage } = guards;
  // The token may be in the form, so the body is read before; who is signed in is known before both.
  const change = [...readBody, csrfGuard(publicUrl.origin)];
  const session = sessions.middleware;

  const headers = securityHeaders(publicUrl.secure);
  const begin = requestContext({ metrics: parts.metrics, isTrusted, isClean, headers });
  const currentThread: Relayed = async (req, res) => {
    await guards.requireUser(req);
    await to.threads.current(req, res);
  };

  const app = express();
  app.disable('x-powered-by').disable('etag').enable('case sensitive routing');
  app.set('query parser', false).set('trust proxy', isTrusted);
  app.use(throughExpress(begin), plainHttp, knownLength);
  app.use(`${publicUrl.basePath}/assets`, assets(parts.assetsDirectory));
  app.use(cardNumberGuard({ isClean, basePath: publicUrl.basePath }));
  app.use(publicHost({ publicUrl, isTrusted, isClean, dataPaths: /^\/(threads\/|bin\/|session$)/ }), crossSiteGuard);
  app.use(
    publicUrl.basePath || '/',
    table([
      // Relayed: no express-session here, the guard reads the record itself.
      ['GET', '/threads/current', currentThread],
      ['GET', '/bin/:bin', user, to.bin.one],
      ['GET', '/bin', userPage, to.bin.form],
      ['POST', '/bin', user, change, to.bin.many],

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
      ['GET', '/session', onlooker, to.signIn.session],

      ['GET', '/connections', userPage, to.connections.list],
      ['GET', '/connections/:app', userPage, to.connections.one],
      ['POST', '/connections/:app', user, change, to.signIn.connect],
      ['POST', '/connections/:app/disconnect', user, change, to.connections.disconnect],
    ]),
  );
  app.use(notFound, problemHandler(parts.problems));
  return frontDoor({
    app,
    begin,
    isClean,
    relayed: new Map([[`${publicUrl.basePath}/threads/current`, currentThread]]),
  });
}

type Route = ['GET' | 'POST', string, ...(RequestHandler | RequestHandler[])[]];

/** A HEAD would use up what the GET is for: a state, one of the few pending requests. */
const getOnly: RequestHandler = (req, res, next) =>
  req.method === 'HEAD' ? methodNotAllowed(['GET'])(req, res, next) : next();

/** Mounts the routes; any other method on one of their paths gets 405 with what is allowed. */
function table(routes: Route[]): RequestHandler {
  const router = express.Router({ caseSensitive: true });
  const noted =
    (path: string): RequestHandler =>
    (req, _res, next) => {
      req.context.route = path;
      next();
    };
  for (const path of new Set(routes.map(([, one]) => one))) {
    const route = router.route(path);
    const here = routes.filter(([, one]) => one === path);
    for (const [method, , ...handlers] of here) {
      route[method === 'GET' ? 'get' : 'post'](noted(path), ...handlers.flat());
    }
    const allowed = here.flatMap(([method, , ...handlers]) =>
      method === 'GET' && !handlers.includes(getOnly) ? ['GET', 'HEAD'] : [method],
    );
    route.all(noted(path), methodNotAllowed(allowed));
  }
  return router;
}
