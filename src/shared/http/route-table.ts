/** The type of the route table (method, path, guards, handler, options), and the router built from it. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import express, { type RequestHandler } from 'express';
import { unknownInput } from './operation.ts';
import { methodNotAllowed } from './problem.ts';
import { refuseSpeculative } from './speculative.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** One guard, or a nested list of guards. They run in order, before the handler. */
export type Guards = RequestHandler | readonly Guards[];
type Nested<T> = readonly (T | Nested<T>)[];

/** A guard that works with and without Express. @throws AppError to refuse the request */
export type FastPathGuard = (req: IncomingMessage, res: ServerResponse) => Promise<unknown>;

/** A handler that works with and without Express. @param parameter parameter of the path; '' if the route has none */
export interface FastPathHandler {
  (req: IncomingMessage, res: ServerResponse, parameter: string): Promise<void>;
  /**
   * Starts a read of the store before the guard, in parallel with the guard's read.
   * @returns the handler to call once the guard has authorized the request
   */
  prefetch?(req: IncomingMessage): FastPathHandler;
}

export interface RouteOptions {
  /** The response may be that of another server, so responses of Gatehouse itself have `Proxy-Status` (RFC 9209). */
  proxied?: true;
  /**
   * Once the guard has authorized the request, it also counts for the session. All requests count for their address.
   */
  budget?: 'session';
}

/** A route whose guard and handler work without Express (`fast-path.ts`). */
export type FastPathRoute = readonly ['GET', string, FastPathGuard, FastPathHandler, RouteOptions & { fastPath: true }];
export type ExpressRoute = readonly [Method, string, Guards, RequestHandler, (RouteOptions & { fastPath?: never })?];
export type Route = ExpressRoute | FastPathRoute;

/** Counts a request of this caller. @throws AppError `rate_limited` */
export type TakeBudget = (budget: 'session', req: IncomingMessage) => void;

/**
 * The first guard of a GET route with effects, such as a callback, which uses up its state. Refuses HEAD, and a browser
 * that loads the page before the user opens it (R136).
 */
export const effectGuard: RequestHandler = (req, res, next) => {
  if (req.method === 'HEAD') return methodNotAllowed(['GET'])(req, res, next);
  refuseSpeculative(req);
  next();
};

export function isFastPathRoute(route: Route): route is FastPathRoute {
  return route[4]?.fastPath === true;
}

export function proxiedPaths(routes: readonly Route[]): ReadonlySet<string> {
  return new Set(routes.flatMap(([, path, , , options]) => (options?.proxied ? [path] : [])));
}

/**
 * Returns a function that tests whether a path serves data to a GET: none of the route's guards is one of `pageGuards`.
 */
export function isDataPath(routes: readonly Route[], pageGuards: readonly RequestHandler[]): (path: string) => boolean {
  const patterns = routes
    .filter((route) => route[0] === 'GET' && !flatten(route[2]).some((guard) => pageGuards.includes(guard)))
    .map(([, path]) => path.replaceAll('.', '\\.').replace(/:\w+/g, '[^/]+'));
  const dataPath = new RegExp(`^(?:${patterns.join('|')})$`);
  return (path) => dataPath.test(path);
}

/** Returns a handler that runs all steps of a route of the fast path: prefetch, guard, budget, handler. */
export function fastPathHandler([, , guard, handler, { budget }]: FastPathRoute, take: TakeBudget): FastPathHandler {
  const refuseUnknown = unknownInput(handler);
  return async (req, res, parameter) => {
    const respond = handler.prefetch?.(req) ?? handler;
    await guard(req, res);
    if (budget) take(budget, req);
    refuseUnknown?.(req);
    await respond(req, res, parameter);
  };
}

/** Mounts the routes. Other methods on their paths get 405 with the allowed methods. */
export function routeTable(routes: readonly Route[], take: TakeBudget = () => undefined): RequestHandler {
  const router = express.Router({ caseSensitive: true });
  const setRoute =
    (path: string): RequestHandler =>
    (req, _res, next) => {
      req.context.route = path;
      next();
    };
  for (const path of new Set(routes.map((route) => route[1]))) {
    const expressRoute = router.route(path);
    const routesOfPath = routes.filter((route) => route[1] === path);
    for (const route of routesOfPath) expressRoute[EXPRESS_METHODS[route[0]]](setRoute(path), ...stepsOf(route, take));
    const allowed = routesOfPath.flatMap((route) =>
      route[0] === 'GET' && !stepsOf(route, take).includes(effectGuard) ? ['GET', 'HEAD'] : [route[0]],
    );
    expressRoute.all(setRoute(path), methodNotAllowed(allowed));
  }
  return router;
}

const EXPRESS_METHODS = { GET: 'get', POST: 'post', PUT: 'put', DELETE: 'delete' } as const;

function stepsOf(route: Route, take: TakeBudget): RequestHandler[] {
  if (isFastPathRoute(route)) {
    const handle = fastPathHandler(route, take);
    return [(req, res) => handle(req, res, String(Object.values(req.params)[0] ?? ''))];
  }
  const [, , guards, handler, { budget } = {}] = route;
  const count: RequestHandler = (req, _res, next) => {
    if (budget) take(budget, req);
    next();
  };
  const refuseUnknown = unknownInput(handler);
  const check: RequestHandler = (req, _res, next) => {
    refuseUnknown?.(req);
    next();
  };
  // The first guard identifies the caller, which the budget needs. The request is counted before the body is read.
  const [first, ...others] = flatten(guards);
  return [...(first ? [first] : []), ...(budget ? [count] : []), ...others, ...(refuseUnknown ? [check] : []), handler];
}

/** Returns all guards, in the order in which they run. */
export function flatten<T>(guards: T | Nested<T>): T[] {
  return Array.isArray(guards) ? guards.flatMap((guard) => flatten<T>(guard)) : [guards as T];
}
