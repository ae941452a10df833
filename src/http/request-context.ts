/** Owns what every request carries: its id, the reference that people can read out, and which route it met. */
import { randomUUID } from 'node:crypto';
import type { RequestHandler } from 'express';
import type { Metrics } from '../observability/metrics.ts';
import type { Viewer } from './viewer.ts';

export interface RequestContext {
  /** `X-Request-Id` of the answer. */
  id: string;
  /** The id's last 8 characters: on error pages, in logs, in sign-in records. */
  reference: string;
  /** Pattern of the route, never the path itself, which may hold what somebody typed. */
  route: string;
  /** Who is signed in; set by the guards that read the session. */
  viewer?: Viewer | undefined;
}

declare module 'express-serve-static-core' {
  interface Request {
    context: RequestContext;
  }
}

const ID_FORM = /^[A-Za-z0-9-]{8,64}$/;

/**
 * @param parts `isTrusted`: whether this peer's `X-Request-Id` counts; `isClean`: false for texts that hold a card number
 */
export function requestContext(parts: {
  metrics: Metrics;
  isTrusted: (address: string) => boolean;
  isClean: (text: string) => boolean;
}): RequestHandler {
  const { metrics, isTrusted, isClean } = parts;
  return (req, res, next) => {
    const given = req.get('x-request-id');
    const accepted =
      given !== undefined && ID_FORM.test(given) && isTrusted(req.socket.remoteAddress ?? '') && isClean(given);
    const id = accepted ? given : randomUUID();
    req.context = { id, reference: id.slice(-8), route: 'none' };
    res.setHeader('X-Request-Id', id);
    const startedAt = performance.now();
    res.once('close', () => {
      const labels = { route: req.context.route, method: req.method, status: `${Math.floor(res.statusCode / 100)}xx` };
      metrics.requests.observe(labels, (performance.now() - startedAt) / 1000);
    });
    next();
  };
}
