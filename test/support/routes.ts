/** All routes of the table, so that no test forgets a new one. */
import type { AdminGuards } from '../../src/gatehouse/admin/guards.ts';
import type { AdminResources } from '../../src/gatehouse/admin/resources.ts';
import { adminRoutes } from '../../src/gatehouse/admin/routes.ts';
import { createRoutes, type Handlers, type RouteGuards } from '../../src/gatehouse/routes.ts';
import type { Method } from '../../src/shared/http/route-table.ts';

export interface ListedRoute {
  method: Method;
  /** As in the table, such as `/bin/:bin`. */
  pattern: string;
  /** The pattern with values that exist. */
  path: string;
}

const VALUES: Record<string, string> = {
  link: 'gthl_unknown',
  bin: '45717360',
  guide: 'relay',
  app: 'platform',
  platformPath: '1/threads/current',
  code: 'not_found',
  id: 'Nobodys-session_',
  change: 'enable',
  route: 'current-thread',
  step: 'alerts',
  message: 'msg_AAAAAAAAAAAAAAAAAAAAAA',
};

/** Called by providers, which authenticate with a signature. Cookies are ignored. */
export const PROVIDER_ROUTE = '/oauth/backchannel-logout/:app';

/** Refuses a response that a provider sends by POST, and changes nothing. */
const POSTED_CALLBACK = '/oauth/callback/:app';

/** Replaces every module and guard, because only methods and paths are read here. */
const nothing: object = new Proxy(() => nothing, { get: () => nothing });

export const ROUTE_TABLE = [
  ...createRoutes(
    new Proxy({}, { get: (_target, name) => (name === 'admin' ? [] : nothing) }) as Handlers,
    nothing as RouteGuards,
  ),
  ...adminRoutes(nothing as AdminResources, nothing as AdminGuards),
];

export const listed = ([method, pattern]: (typeof ROUTE_TABLE)[number]): ListedRoute => ({
  method,
  pattern,
  path: pattern.replace(/[:*](\w+)/g, (_all, name: string) => {
    const value = VALUES[name];
    if (value === undefined) throw new Error(`Add a value for :${name} to VALUES in test/support/routes.ts.`);
    return value;
  }),
});

const ALL_ROUTES: readonly ListedRoute[] = ROUTE_TABLE.map(listed);

/** All routes of the administration, pages and API. */
export const ADMIN_ROUTES = ALL_ROUTES.filter(({ pattern }) => /^\/admin(\/|$)/.test(pattern));

/** All other routes. */
export const ROUTES = ALL_ROUTES.filter((route) => !ADMIN_ROUTES.includes(route));

/** Called by back-end services, which authenticate with a relay token. Cookies are ignored. */
export const SERVICE_PREFIX = '/relay/';

/** Routes with which a browser changes something. */
export const BROWSER_CHANGES = ROUTES.filter(
  ({ method, pattern }) =>
    method === 'POST' && ![PROVIDER_ROUTE, POSTED_CALLBACK].includes(pattern) && !pattern.startsWith(SERVICE_PREFIX),
);
