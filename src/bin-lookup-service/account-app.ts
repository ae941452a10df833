/** The Express application of the account pages: middleware in order, and every route with its guard. */
import express, { type Express, type RequestHandler } from 'express';
import type { PublicUrl } from '../shared/config/rules.ts';
import { readBody, requireContentLength } from '../shared/http/body.ts';
import { enterExpress } from '../shared/http/fast-path.ts';
import { notFound } from '../shared/http/problem.ts';
import { plainHttp } from '../shared/http/protocol.ts';
import { publicHost } from '../shared/http/public-host.ts';
import type { BeginRequest } from '../shared/http/request-context.ts';
import { effectGuard, routeTable } from '../shared/http/route-table.ts';
import { assets } from '../shared/pages/assets.ts';
import { type ProblemParts, problemHandler } from '../shared/pages/problem-handler.ts';
import { crossSiteGuard, csrfGuard } from '../shared/sessions/csrf.ts';
import type { AccountRoutes } from './account-routes.ts';
import type { Browsers } from './browser.ts';

export function createAccountApp(parts: {
  publicUrl: PublicUrl;
  begin: BeginRequest;
  routes: AccountRoutes;
  /** Called by a payment system, with its own token instead of a session. */
  confirmPlan: RequestHandler;
  browsers: Browsers;
  problems: ProblemParts;
  isTrusted: (address: string) => boolean;
}): Express {
  const { publicUrl, browsers, routes, isTrusted } = parts;
  const { loadSession, requireUser } = browsers;
  const change = [...readBody, csrfGuard(publicUrl.origin)];

  const app = express();
  app.disable('x-powered-by').disable('etag').enable('case sensitive routing');
  app.set('query parser', false);
  app.use(enterExpress(parts.begin), plainHttp, requireContentLength);
  app.use(`${publicUrl.basePath}/assets`, assets());
  const onFault = parts.problems.events.hostFault;
  app.use(publicHost({ publicUrl, isTrusted, isData: (path) => /^\/\d/.test(path), onFault }), crossSiteGuard);

  app.use(
    publicUrl.basePath || '/',
    routeTable([
      ['GET', '/', [], routes.home],
      ['GET', '/account', loadSession, routes.show],
      ['GET', '/account/sign-in', effectGuard, routes.signIn],
      ['GET', '/account/callback', [effectGuard, loadSession], routes.callback],
      ['POST', '/account/sign-out', [loadSession, change], routes.signOut],
      ['POST', '/account/plan', [requireUser, change], routes.choosePlan],
      ['POST', '/account/confirmations', [readBody], parts.confirmPlan],
      ['POST', '/account/keys', [requireUser, change], routes.createKey],
      ['POST', '/account/keys/:key/addresses', [requireUser, change], routes.setNetworks],
      ['POST', '/account/keys/:key/revoke', [requireUser, change], routes.revokeKey],
    ]),
  );
  app.use(notFound, problemHandler(parts.problems));
  return app;
}
