/** Every route of Gatehouse: method, path, guard, handler and options. */
import type { RequestHandler } from 'express';
import { readBody } from '../shared/http/body.ts';
import { effectGuard, type Guards, type Route } from '../shared/http/route-table.ts';
import type { SessionGuards } from '../shared/sessions/guards.ts';
import type { ApiDocs } from './api-docs/api-docs.ts';
import type { BinRoutes } from './bin/routes.ts';
import type { ConnectionRoutes } from './grants/routes.ts';
import type { Home } from './home/home.ts';
import type { AssertionRoutes } from './relay/assertion-routes.ts';
import type { RelayRoutes } from './relay/routes.ts';
import type { ErasureRoutes } from './sign-in/erasure.ts';
import type { SignInRoutes } from './sign-in/routes.ts';
import type { SessionRoutes } from './sign-in/session-routes.ts';
import type { ThreadRoutes } from './threads/routes.ts';

/** The handlers of each module. */
export interface Handlers {
  /** The routes of the administration. */
  admin: readonly Route[];
  apiDocs: ApiDocs;
  assertions: AssertionRoutes;
  backchannelLogout: RequestHandler;
  bin: BinRoutes;
  connections: ConnectionRoutes;
  erasure: ErasureRoutes;
  home: Home;
  relay: RelayRoutes;
  sessions: SessionRoutes;
  signIn: SignInRoutes;
  threads: ThreadRoutes;
}

export interface RouteGuards extends SessionGuards {
  /** Reads the body and checks the CSRF token, which may be a field of it. */
  change: Guards;
  /** Adds express-session's `req.session`. */
  browserSession: RequestHandler;
}

/** For threads and BIN data, which may come from another server. */
const FAST = { fastPath: true, proxied: true } as const;

export function createRoutes(handlers: Handlers, guards: RouteGuards): readonly Route[] {
  const { loadSession, peekSession, requireUser, requireUserOrRedirect, authenticateUser, change, browserSession } =
    guards;
  const routes: Route[] = [
    ['GET', '/threads/current', authenticateUser, handlers.threads.current, { ...FAST, budget: 'session' }],
    ['GET', '/bin/:bin', authenticateUser, handlers.bin.one, { ...FAST, budget: 'session' }],
    ['GET', '/bin', requireUserOrRedirect, handlers.bin.form],
    ['POST', '/bin', [requireUser, change], handlers.bin.many, { proxied: true, budget: 'session' }],

    // For back-end services: authorized by the relay token, which has its own budget. Cookies are ignored.
    ['GET', '/relay/threads/current', handlers.relay.currentThreadGuard, handlers.relay.currentThread, FAST],
    ['GET', '/relay/bin/:bin', handlers.relay.binGuard, handlers.bin.one, FAST],
    [
      'POST',
      '/relay/bin',
      [handlers.relay.binsGuard, readBody, handlers.relay.jsonOnly],
      handlers.bin.manyAsJson,
      { proxied: true },
    ],
    ['POST', '/relay/token', readBody, handlers.relay.exchangeToken],
    ['GET', '/relay/connections', handlers.relay.connectionsGuard, handlers.relay.connections],
    [
      'POST',
      '/relay/connect-links',
      [handlers.relay.connectLinksGuard, readBody, handlers.relay.jsonOnly],
      handlers.relay.connectLinks,
    ],

    // For reverse proxies: a signed assertion of the session's user, and the keys that verify it.
    ['GET', '/session/verify', requireUser, handlers.assertions.verify],
    ['GET', '/.well-known/jwks.json', [], handlers.assertions.keySet],

    ['GET', '/', loadSession, handlers.home.home],
    ['GET', '/problems/:code', loadSession, handlers.home.problem],

    ['GET', '/sign-in', [effectGuard, loadSession], handlers.signIn.startSignIn],
    ['GET', '/oauth/callback/:app', [effectGuard, loadSession, browserSession], handlers.signIn.callback],
    ['POST', '/sign-out', [loadSession, change, browserSession], handlers.signIn.signOut],
    ['POST', '/sign-out/everywhere', [loadSession, change, browserSession], handlers.signIn.signOutEverywhere],
    // From a provider. Ignores cookies, so it needs no CSRF check.
    ['POST', '/oauth/backchannel-logout/:app', readBody, handlers.backchannelLogout],
    ['GET', '/sessions', requireUserOrRedirect, handlers.sessions.list],
    ['POST', '/sessions/:id/end', [requireUser, change], handlers.sessions.end],
    ['GET', '/account/delete', requireUserOrRedirect, handlers.erasure.ask],
    ['POST', '/account/delete', [requireUser, change], handlers.erasure.erase],
    ['GET', '/session', peekSession, handlers.sessions.current],

    ['GET', '/connections', requireUserOrRedirect, handlers.connections.list],
    ['GET', '/connections/:app', requireUserOrRedirect, handlers.connections.one],
    ['POST', '/connections/:app', [requireUser, change], handlers.signIn.connect],
    ['POST', '/connections/:app/disconnect', [requireUser, change], handlers.connections.disconnect],

    ['GET', '/connect/:link', requireUserOrRedirect, handlers.connections.link],
    ['POST', '/connect/:link', [requireUser, change], handlers.signIn.connectByLink],

    ['GET', '/openapi.json', [], handlers.apiDocs.document(() => routes)],
    ['GET', '/docs', loadSession, handlers.apiDocs.page(() => routes)],

    ...handlers.admin,
  ];
  return routes;
}
