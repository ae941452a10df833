/** Every route of Gatehouse: method, path, guard, handler, and whether it is relayed and has a budget. */
import type { RequestHandler } from 'express';
import { readBody } from '../shared/http/body.ts';
import { type Guards, getOnly, type Route } from '../shared/http/route-table.ts';
import type { SessionGuards } from '../shared/sessions/guards.ts';
import type { ApiDocs } from './api-docs/api-docs.ts';
import type { BinRoutes } from './bin/routes.ts';
import type { ConnectionRoutes } from './grants/routes.ts';
import type { Home } from './home/home.ts';
import type { Relay } from './relay/relay.ts';
import type { SignIn } from './sign-in/sign-in.ts';
import type { ThreadRoutes } from './threads/routes.ts';

/** The handlers of each module. */
export type Handlers = SignIn['routes'] & {
  /** A table of its own, in the same form. */
  admin: readonly Route[];
  apiDocs: ApiDocs;
  assertions: Relay['assertions'];
  bin: BinRoutes;
  connections: ConnectionRoutes;
  home: Home;
  relay: Relay['routes'];
  relayConnections: RequestHandler;
  relayConnectLinks: RequestHandler;
  threads: ThreadRoutes;
  tokenExchange: RequestHandler;
};

export interface RouteGuards extends SessionGuards {
  /** Reads the body and checks the CSRF token, which may be a field of it. */
  change: Guards;
  /** Adds express-session's `req.session`. */
  browserSession: RequestHandler;
}

const RELAYED = { relayed: true } as const;
const RELAYED_TO_BROWSERS = { relayed: true, budget: 'session' } as const;

export function createRoutes(to: Handlers, guards: RouteGuards): readonly Route[] {
  const { loadSession, peekSession, requireUser, requireUserOrRedirect, authenticateUser, change, browserSession } =
    guards;
  const routes: Route[] = [
    ['GET', '/threads/current', authenticateUser, to.threads.current, RELAYED_TO_BROWSERS],
    ['GET', '/bin/:bin', authenticateUser, to.bin.one, RELAYED_TO_BROWSERS],
    ['GET', '/bin', requireUserOrRedirect, to.bin.form],
    ['POST', '/bin', [requireUser, change], to.bin.many, RELAYED_TO_BROWSERS],

    // For back-end services: authorized by the relay token, which has its own budget. Cookies are ignored.
    ['GET', '/relay/threads/current', to.relay.authorizeThread, to.relay.currentThread, RELAYED],
    ['GET', '/relay/bin/:bin', to.relay.authorizeBin, to.bin.one, RELAYED],
    ['POST', '/relay/bin', [to.relay.binGuard, readBody, to.relay.jsonOnly], to.bin.manyAsJson, RELAYED],
    ['POST', '/relay/token', readBody, to.tokenExchange],
    ['GET', '/relay/connections', to.relay.connectionsGuard, to.relayConnections],
    ['POST', '/relay/connect-links', [to.relay.connectLinksGuard, readBody, to.relay.jsonOnly], to.relayConnectLinks],

    // For reverse proxies: a signed assertion of the session's user, and the keys that verify it.
    ['GET', '/session/verify', requireUser, to.assertions.verify],
    ['GET', '/.well-known/jwks.json', [], to.assertions.keySet],

    ['GET', '/', loadSession, to.home.home],
    ['GET', '/problems/:code', loadSession, to.home.problem],

    ['GET', '/sign-in', [getOnly, loadSession], to.signIn.signIn],
    ['GET', '/oauth/callback/:app', [getOnly, loadSession, browserSession], to.signIn.callback],
    ['POST', '/sign-out', [loadSession, change, browserSession], to.signIn.signOut],
    ['POST', '/sign-out/everywhere', [loadSession, change, browserSession], to.signIn.signOutEverywhere],
    // From a provider. Ignores cookies, so it needs no CSRF check.
    ['POST', '/oauth/backchannel-logout/:app', readBody, to.backchannelLogout],
    ['GET', '/sessions', requireUserOrRedirect, to.sessions.list],
    ['POST', '/sessions/:id/end', [requireUser, change], to.sessions.end],
    ['GET', '/account/delete', requireUserOrRedirect, to.erasure.ask],
    ['POST', '/account/delete', [requireUser, change], to.erasure.erase],
    ['GET', '/session', peekSession, to.sessions.current],

    ['GET', '/connections', requireUserOrRedirect, to.connections.list],
    ['GET', '/connections/:app', requireUserOrRedirect, to.connections.one],
    ['POST', '/connections/:app', [requireUser, change], to.signIn.connect],
    ['POST', '/connections/:app/disconnect', [requireUser, change], to.connections.disconnect],

    ['GET', '/connect/:link', requireUserOrRedirect, to.connections.link],
    ['POST', '/connect/:link', [requireUser, change], to.signIn.connectByLink],

    ['GET', '/openapi.json', [], to.apiDocs.document(() => routes)],
    ['GET', '/docs', loadSession, to.apiDocs.page(() => routes)],

    ...to.admin,
  ];
  return routes;
}
