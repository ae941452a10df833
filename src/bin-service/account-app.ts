/** The Express application of the account pages: middleware in order, and every route with its guard. */
import express, { type Express, type RequestHandler } from 'express';
import type { PublicUrl } from '../config/rules.ts';
import { readBody, requireContentLength } from '../http/body.ts';
import { enterExpress } from '../http/fast-path.ts';
import { notFound } from '../http/problem.ts';
import { plainHttp } from '../http/protocol.ts';
import { publicHost } from '../http/public-host.ts';
import type { BeginRequest } from '../http/request-context.ts';
import { getOnly, routeTable } from '../http/route-table.ts';
import { assets } from '../pages/assets.ts';
import { type ProblemParts, problemHandler } from '../pages/problem-handler.ts';
import { crossSiteGuard, csrfGuard } from '../sessions/csrf.ts';
import type { AccountRoutes } from './account-routes.ts';
import type { Browsers } from './browser.ts';

export function createAccountApp(parts: {
  publicUrl: PublicUrl;
  begin: BeginRequest;
  routes: AccountRoutes;
  /** For a payment system, with its own token instead of a session. */
  confirmPlan: RequestHandler;
  browsers: Browsers;
  problems: ProblemParts;
  isTrusted: (address: string) => boolean;
}): Express {
  const { publicUrl, browsers, routes: to, isTrusted } = parts;
  const { loadSession, requireUser } = browsers;
  const change = [...readBody, csrfGuard(publicUrl.origin)];

  const app = express();
  app.disable('x-powered-by').disable('etag').enable('case sensitive routing');
  app.set('query parser', false);
  app.use(enterExpress(parts.begin), plainHttp, requireContentLength);
  app.use(`${publicUrl.basePath}/assets`, assets());
  app.use(publicHost({ publicUrl, isTrusted, isData: (path) => /^\/\d/.test(path) }), crossSiteGuard);

  app.use(
    publicUrl.basePath || '/',
    routeTable([
      ['GET', '/', [], to.home],
      ['GET', '/account', loadSession, to.show],
      ['GET', '/account/sign-in', getOnly, to.signIn],
      ['GET', '/account/callback', [getOnly, loadSession], to.callback],
      ['POST', '/account/sign-out', [loadSession, change], to.signOut],
      ['POST', '/account/plan', [requireUser, change], to.choosePlan],
      ['POST', '/account/confirmations', [readBody], parts.confirmPlan],
      ['POST', '/account/keys', [requireUser, change], to.makeKey],
      ['POST', '/account/keys/:key/addresses', [requireUser, change], to.setNetworks],
      ['POST', '/account/keys/:key/revoke', [requireUser, change], to.revokeKey],
    ]),
  );
  app.use(notFound, problemHandler(parts.problems));
  return app;
}
