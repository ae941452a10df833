/** Owns the mounting of routes: a list of method, path, guards and handler becomes a router that knows what it refuses. */
import express, { type RequestHandler } from 'express';
import { methodNotAllowed } from './problem.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';
/** Guards come before the handler, in the order in which they run. */
export type Route = [Method, string, ...(RequestHandler | RequestHandler[])[]];

/** A HEAD would use up what the GET is for: a state, one of the few pending requests. */
export const getOnly: RequestHandler = (req, res, next) =>
  req.method === 'HEAD' ? methodNotAllowed(['GET'])(req, res, next) : next();

/** Mounts the routes; any other method on one of their paths gets 405 with what is allowed. */
export function routeTable(routes: readonly Route[]): RequestHandler {
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
    for (const [method, , ...handlers] of here) route[EXPRESS_METHODS[method]](noted(path), ...handlers.flat());
    const allowed = here.flatMap(([method, , ...handlers]) =>
      method === 'GET' && !handlers.includes(getOnly) ? ['GET', 'HEAD'] : [method],
    );
    route.all(noted(path), methodNotAllowed(allowed));
  }
  return router;
}

const EXPRESS_METHODS = { GET: 'get', POST: 'post', PUT: 'put', DELETE: 'delete' } as const;
