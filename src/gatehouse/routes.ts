/** Every route of Gatehouse: method, path, guard, handler and options. */
import type { RequestHandler } from 'express';
import { readBody } from '../shared/http/body.ts';
import { type Budget, COSTS_NOTHING, effectGuard, type Guards, type Route } from '../shared/http/route-table.ts';
import type { SessionGuards } from '../shared/sessions/guards.ts';
import type { ApiDocs } from './api-docs/api-docs.ts';
import type { BinRoutes } from './bin/routes.ts';
import type { ConnectionRoutes } from './grants/routes.ts';
import type { Home } from './home/home.ts';
import type { ApiRoutes } from './platform/routed-request.ts';
import type { ThreadRoutes } from './platform/routes.ts';
import type { AssertionRoutes } from './relay/assertion-routes.ts';
import type { RelayRoutes } from './relay/routes.ts';
import type { BackchannelLogout } from './sign-in/backchannel-logout.ts';
import type { ErasureRoutes } from './sign-in/erasure.ts';
import type { SignInRoutes } from './sign-in/routes.ts';
import type { SessionRoutes } from './sign-in/session-routes.ts';

/** The handlers of each module. */
export interface Handlers {
  /** The routes of the administration. */
  admin: readonly Route[];
  api: ApiRoutes;
  apiDocs: ApiDocs;
  assertions: AssertionRoutes;
  backchannelLogout: BackchannelLogout;
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
  /** Checks the CSRF token in the header. */
  csrf: RequestHandler;
  /** Adds express-session's `req.session`. */
  browserSession: RequestHandler;
  /** Counts the requests of each session. */
  sessionBudget: Budget;
}

const API_PATH = '/api/:app/*platformPath';
const RELAY_API_PATH = '/relay/api/:app/*platformPath';
const WRITES = ['POST', 'PUT', 'PATCH', 'DELETE'] as const;

/** For threads and BIN data, which may come from another server. */
const FAST = { fastPath: true, proxied: true } as const;
const FREE = { budget: COSTS_NOTHING };

export function createRoutes(handlers: Handlers, guards: RouteGuards): readonly Route[] {
  const { loadSession, peekSession, requireUser, requireUserOrRedirect, authenticateUser, change, browserSession } =
    guards;
  const { relay, signIn } = handlers;
  const forBrowsers = { budget: guards.sessionBudget };
  const forServices = { budget: relay.budget };
  const starts = { budget: signIn.startBudget };
  const { api } = handlers;
  const platform = { proxied: true, ...forBrowsers } as const;
  const routes: Route[] = [
    ['GET', '/threads/current', authenticateUser, handlers.threads.current, { ...FAST, ...forBrowsers }],
    // The calls of platforms that apps declare as routes, with the platform's own path behind the id of the app.
    ['GET', '/api/:app', requireUser, api.list, forBrowsers],
    ['GET', API_PATH, requireUser, api.read, platform],
    ...WRITES.map((method): Route => [method, API_PATH, [requireUser, guards.csrf], api.write, platform]),
    ['GET', '/bin/:bin', authenticateUser, handlers.bin.one, { ...FAST, ...forBrowsers }],
    ['GET', '/bin', requireUserOrRedirect, handlers.bin.page, forBrowsers],
    ['POST', '/bin', [requireUser, change], handlers.bin.many, { proxied: true, ...forBrowsers }],

    // For back-end services, which authenticate with a relay token. Cookies are ignored.
    [
      'GET',
      '/relay/threads/current',
      [relay.authenticate, relay.currentThreadGuard],
      relay.currentThread,
      { ...FAST, ...forServices },
    ],
    ['GET', '/relay/api/:app', [relay.serviceGuard, relay.apiGuard], relay.api.list, forServices],
    ...(['GET', ...WRITES] as const).map(
      (method): Route => [
        method,
        RELAY_API_PATH,
        [relay.serviceGuard, relay.apiGuard],
        method === 'GET' ? relay.api.read : relay.api.write,
        { proxied: true, ...forServices },
      ],
    ),
    ['GET', '/relay/bin/:bin', [relay.authenticate, relay.binGuard], handlers.bin.one, { ...FAST, ...forServices }],
    [
      'POST',
      '/relay/bin',
      [relay.serviceGuard, relay.binsGuard, readBody, relay.jsonOnly],
      handlers.bin.manyAsJson,
      { proxied: true, ...forServices },
    ],
    ['POST', '/relay/token', [relay.clientGuard, readBody], relay.exchangeToken, forServices],
    ['GET', '/relay/connections', [relay.serviceGuard, relay.connectionsGuard], relay.connections, forServices],
    [
      'POST',
      '/relay/connect-links',
      [relay.serviceGuard, relay.connectLinksGuard, readBody, relay.jsonOnly],
      relay.connectLinks,
      forServices,
    ],

    // For reverse proxies: a signed assertion of the session's user, and the keys that verify it.
    ['GET', '/session/verify', guards.requireUserForProxy, handlers.assertions.verify, { forProxies: true }],
    ['GET', '/.well-known/jwks.json', [], handlers.assertions.keySet, FREE],

    ['GET', '/', loadSession, handlers.home.home, FREE],
    ['GET', '/problems/:code', loadSession, handlers.home.problem, FREE],

    ['GET', '/sign-in', [effectGuard, loadSession], signIn.startSignIn, { budget: signIn.signInBudget }],
    [
      'GET',
      '/oauth/callback/:app',
      [effectGuard, loadSession, browserSession],
      signIn.callback,
      { budget: signIn.callbackBudget },
    ],
    // From a provider. Ignores cookies, and changes nothing.
    ['POST', '/oauth/callback/:app', readBody, signIn.postedCallback, { budget: signIn.callbackBudget }],
    ['POST', '/sign-out', [loadSession, change, browserSession], signIn.signOut, FREE],
    ['POST', '/sign-out/everywhere', [loadSession, change, browserSession], signIn.signOutEverywhere, FREE],
    // From a provider. Ignores cookies, so it needs no CSRF check.
    [
      'POST',
      '/oauth/backchannel-logout/:app',
      readBody,
      handlers.backchannelLogout.logOut,
      { budget: handlers.backchannelLogout.budget },
    ],
    ['GET', '/sessions', requireUserOrRedirect, handlers.sessions.list],
    ['POST', '/sessions/:id/end', [requireUser, change], handlers.sessions.end],
    ['GET', '/account/delete', requireUserOrRedirect, handlers.erasure.ask],
    ['POST', '/account/delete', [requireUser, change], handlers.erasure.erase],
    ['GET', '/account/deleted', loadSession, handlers.erasure.erased, FREE],
    ['GET', '/session', peekSession, handlers.sessions.current, FREE],

    ['GET', '/connections', requireUserOrRedirect, handlers.connections.list],
    ['GET', '/connections/:app', requireUserOrRedirect, handlers.connections.one],
    ['POST', '/connections/:app', [requireUser, change], signIn.connect, starts],
    ['POST', '/connections/:app/disconnect', [requireUser, change], handlers.connections.disconnect],

    ['GET', '/connect/:link', requireUserOrRedirect, handlers.connections.link],
    ['POST', '/connect/:link', [requireUser, change], signIn.connectByLink, starts],

    ['GET', '/openapi.json', [], handlers.apiDocs.document(() => routes), FREE],
    // Without the session: they hold no secret, so they are compressed and kept.
    ['GET', '/docs', [], handlers.apiDocs.page(() => routes), FREE],
    ['GET', '/docs/:guide', [], handlers.apiDocs.guide(() => routes), FREE],

    ...handlers.admin,
  ];
  return routes;
}
