/** The type of the route table (method, path, guards, handler, options), and the router built from it. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import express, { type RequestHandler } from 'express';
import type { UserGuard } from './description.ts';
import { unknownInput } from './operation.ts';
import { methodNotAllowed } from './problem.ts';
import { refuseSpeculative } from './speculative.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** One guard, or a nested list of guards. They run in order, before the handler. */
export type Guards = RequestHandler | readonly Guards[];
/** Guards that only signed-in users and administrators pass: the first one sees to it. */
export type UserGuards = UserGuard<RequestHandler> | readonly [UserGuard<RequestHandler>, ...Guards[]];
type Nested<T> = readonly (T | Nested<T>)[];

/** A guard that works with and without Express. @throws AppError to refuse the request */
export type FastPathGuard = (req: IncomingMessage, res: ServerResponse) => Promise<unknown>;
type FastPathGuards = FastPathGuard | readonly FastPathGuard[];

/** A handler that works with and without Express. @param parameter parameter of the path; '' if the route has none */
export interface FastPathHandler {
  (req: IncomingMessage, res: ServerResponse, parameter: string): Promise<void>;
  /**
   * Starts a read of the store before the guard, in parallel with the guard's read.
   * @returns the handler to call once the guard has authorized the request
   */
  prefetch?(req: IncomingMessage): FastPathHandler;
}

/**
 * Limits what one caller of a route can have stored, called and written to the audit trail, so that the others keep
 * their share (R137). The module that knows these costs makes it.
 */
export interface Budget {
  /** Called for each request once the first guard has passed. @throws AppError `rate_limited` */
  take(req: IncomingMessage, res: ServerResponse): void;
}

/** For a route on which callers who are not signed in cause no write, no outgoing call and no audit entry. */
export const COSTS_NOTHING: Budget = { take: () => undefined };

/** For a route whose handler counts requests itself, since only it can tell which of them count. */
export const COUNTED_BY_HANDLER: Budget = { take: () => undefined };

export interface RouteOptions {
  /** The response may be that of another server, so responses of Gatehouse itself have `Proxy-Status` (RFC 9209). */
  proxied?: true;
  /** In addition to the limit of the address, which every request counts for. */
  budget?: Budget;
  /**
   * The caller is a reverse proxy that passes on the headers of a user's request. Those of them that describe the user's
   * connection, host name and page are ignored, so the response is never a redirect.
   */
  forProxies?: true;
}

type FastPathOptions = RouteOptions & { fastPath: true };
type ExpressOptions = RouteOptions & { fastPath?: never };
type WithBudget = { budget: Budget };

/** A route whose guards and handler work without Express (`fast-path.ts`). */
export type FastPathRoute = readonly ['GET', string, FastPathGuards, FastPathHandler, FastPathOptions];
/** A route of any program. */
export type MountedRoute = FastPathRoute | readonly [Method, string, Guards, RequestHandler, ExpressOptions?];

/** A route of Gatehouse. It must have a budget if callers who are not signed in can pass its first guard (R137). */
export type Route =
  | readonly ['GET', string, UserGuard<FastPathGuard>, FastPathHandler, FastPathOptions]
  | readonly ['GET', string, FastPathGuards, FastPathHandler, FastPathOptions & WithBudget]
  | readonly [Method, string, UserGuards, RequestHandler, ExpressOptions?]
  | readonly [Method, string, Guards, RequestHandler, ExpressOptions & WithBudget];

/**
 * The first guard of a GET route with effects, such as a callback, which uses up its state. Refuses HEAD, and a browser
 * that loads the page before the user opens it (R136).
 */
export const effectGuard: RequestHandler = (req, res, next) => {
  if (req.method === 'HEAD') return methodNotAllowed(['GET'])(req, res, next);
  refuseSpeculative(req);
  next();
};

export function isFastPathRoute(route: MountedRoute): route is FastPathRoute {
  return route[4]?.fastPath === true;
}

export function proxiedPaths(routes: readonly MountedRoute[]): ReadonlySet<string> {
  return new Set(routes.flatMap(([, path, , , options]) => (options?.proxied ? [path] : [])));
}

/**
 * Returns a function that tests whether a path serves data to a GET: none of the route's guards is one of `pageGuards`.
 */
export function isDataPath(
  routes: readonly MountedRoute[],
  pageGuards: readonly RequestHandler[],
): (path: string) => boolean {
  const dataRoutes = routes.filter(
    (route) =>
      route[0] === 'GET' &&
      !flatten<unknown>(route[2]).some((guard) => pageGuards.some((pageGuard) => pageGuard === guard)),
  );
  return isPathOf(dataRoutes);
}

/** Returns a function that tests whether a path, with the base path, is that of a route with `forProxies`. */
export function isForProxies(routes: readonly MountedRoute[], basePath: string): (path: string) => boolean {
  return isPathOf(
    routes.filter(([, , , , options]) => options?.forProxies),
    basePath,
  );
}

/** Like Express, the pattern accepts a slash at the end. */
function patternOf(path: string, basePath = ''): RegExp {
  const anyParameters = path.replaceAll('.', '\\.').replace(/:\w+/g, '[^/]+').replace(/\*\w+/g, '.+');
  return new RegExp(`^${RegExp.escape(basePath)}${anyParameters}/?$`);
}

function isPathOf(routes: readonly MountedRoute[], basePath = ''): (path: string) => boolean {
  const patterns = routes.map(([, path]) => patternOf(path, basePath));
  return (path) => patterns.some((pattern) => pattern.test(path));
}

/** Returns a handler that runs all steps of a route of the fast path: prefetch, guards, budget, handler. */
export function fastPathHandler([, , guards, handler, { budget }]: FastPathRoute): FastPathHandler {
  const refuseUnknown = unknownInput(handler);
  const [first, ...others] = flatten<FastPathGuard>(guards);
  return async (req, res, parameter) => {
    const respond = handler.prefetch?.(req) ?? handler;
    await first?.(req, res);
    budget?.take(req, res);
    for (const guard of others) await guard(req, res);
    refuseUnknown?.(req);
    await respond(req, res, parameter);
  };
}

/** Mounts the routes. Other methods on their paths get 405 with the allowed methods. */
export function routeTable(routes: readonly MountedRoute[]): RequestHandler {
  const router = express.Router({ caseSensitive: true });
  const isOfRoute = isPathOf(routes);
  const isOfGet = isPathOf(routes.filter(([method]) => method === 'GET'));
  const isWithoutGet = (path: string) => isOfRoute(path) && !isOfGet(path);
  const setRoute =
    (path: string): RequestHandler =>
    (req, _res, next) => {
      req.context.route = path;
      req.context.isWithoutGet = isWithoutGet;
      next();
    };
  for (const path of new Set(routes.map((route) => route[1]))) {
    // A path with a wildcard gets a pattern without groups: Express would decode them, and refuse what it cannot decode.
    const expressRoute = router.route(path.includes('*') ? patternOf(path) : path);
    const routesOfPath = routes.filter((route) => route[1] === path);
    for (const route of routesOfPath) expressRoute[EXPRESS_METHODS[route[0]]](setRoute(path), ...stepsOf(route));
    const allowed = routesOfPath.flatMap((route) =>
      route[0] === 'GET' && !stepsOf(route).includes(effectGuard) ? ['GET', 'HEAD'] : [route[0]],
    );
    expressRoute.all(setRoute(path), methodNotAllowed(allowed));
  }
  return router;
}

const EXPRESS_METHODS = { GET: 'get', POST: 'post', PUT: 'put', PATCH: 'patch', DELETE: 'delete' } as const;

function stepsOf(route: MountedRoute): RequestHandler[] {
  if (isFastPathRoute(route)) {
    const handle = fastPathHandler(route);
    return [(req, res) => handle(req, res, String(Object.values(req.params)[0] ?? ''))];
  }
  const [, , guards, handler, { budget } = {}] = route;
  const takeBudget: RequestHandler = (req, res, next) => {
    budget?.take(req, res);
    next();
  };
  const refuseUnknown = unknownInput(handler);
  const check: RequestHandler = (req, _res, next) => {
    refuseUnknown?.(req);
    next();
  };
  // The first guard identifies the caller, which the budget needs. The request is counted before the body is read.
  const [first, ...others] = flatten<RequestHandler>(guards);
  return [
    ...(first ? [first] : []),
    ...(budget ? [takeBudget] : []),
    ...others,
    ...(refuseUnknown ? [check] : []),
    handler,
  ];
}

/** Returns all guards, in the order in which they run. */
export function flatten<T>(guards: T | Nested<T>): T[] {
  return Array.isArray(guards) ? guards.flatMap((guard) => flatten<T>(guard)) : [guards as T];
}
