/** Owns the shape of the pages' HTTP application: the order of middleware, and every route with its guard, on one screen. */
import express, { type Express } from 'express';
import type { PublicUrl } from '../config-rules.ts';
import { assets } from '../http/assets.ts';
import { knownLength, readBody } from '../http/body.ts';
import { crossSiteGuard, csrfGuard } from '../http/csrf.ts';
import { throughExpress } from '../http/front-door.ts';
import { notFound, type ProblemParts, problemHandler } from '../http/problem.ts';
import { plainHttp } from '../http/protocol.ts';
import { publicHost } from '../http/public-host.ts';
import type { BeginRequest } from '../http/request-context.ts';
import { getOnly, routeTable } from '../http/route-table.ts';
import type { AccountRoutes } from './account-routes.ts';
import type { Browsers } from './browser.ts';

export function createAccountApp(parts: {
  publicUrl: PublicUrl;
  begin: BeginRequest;
  routes: AccountRoutes;
  browsers: Browsers;
  problems: ProblemParts;
  isTrusted: (address: string) => boolean;
  isClean: (text: string) => boolean;
  assetsDirectory: string;
}): Express {
  const { publicUrl, browsers, routes: to, isTrusted, isClean } = parts;
  const { anyone, user } = browsers;
  const change = [...readBody, csrfGuard(publicUrl.origin)];

  const app = express();
  app.disable('x-powered-by').disable('etag').enable('case sensitive routing');
  app.set('query parser', false).set('trust proxy', isTrusted);
  app.use(throughExpress(parts.begin), plainHttp, knownLength);
  app.use(`${publicUrl.basePath}/assets`, assets(parts.assetsDirectory));
  app.use(publicHost({ publicUrl, isTrusted, isClean, dataPaths: /^\/\d/ }), crossSiteGuard);

  app.use(
    publicUrl.basePath || '/',
    routeTable([
      ['GET', '/', to.home],
      ['GET', '/account', anyone, to.show],
      ['GET', '/account/sign-in', getOnly, to.signIn],
      ['GET', '/account/callback', getOnly, anyone, to.callback],
      ['POST', '/account/sign-out', user, change, to.signOut],
      ['POST', '/account/plan', user, change, to.choosePlan],
      ['POST', '/account/keys', user, change, to.makeKey],
      ['POST', '/account/keys/:key/addresses', user, change, to.setNetworks],
      ['POST', '/account/keys/:key/revoke', user, change, to.revokeKey],
    ]),
  );
  app.use(notFound, problemHandler(parts.problems));
  return app;
}
