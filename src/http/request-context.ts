/** Owns what every request carries: its id, the reference that people can read out, and which route it met. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
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

declare module 'node:http' {
  interface IncomingMessage {
    context: RequestContext;
  }
}

const ID_FORM = /^[A-Za-z0-9-]{8,64}$/;

/** Begins a request: gives it its context, and the answer its id and the headers that every answer carries. */
export type BeginRequest = (req: IncomingMessage, res: ServerResponse, route?: string) => void;

/**
 * @param parts `isTrusted`: whether this peer's `X-Request-Id` counts; `isClean`: false for texts that hold a card number;
 *   `headers`: those of every answer
 */
export function requestContext(parts: {
  metrics: Metrics;
  isTrusted: (address: string) => boolean;
  isClean: (text: string) => boolean;
  headers: ReadonlyMap<string, string>;
}): BeginRequest {
  const { metrics, isTrusted, isClean, headers } = parts;

  const idOf = (req: IncomingMessage): string => {
    const given = req.headers['x-request-id'];
    const accepted =
      typeof given === 'string' && ID_FORM.test(given) && isTrusted(req.socket.remoteAddress ?? '') && isClean(given);
    return accepted ? given : randomUUID();
  };

  const durations = labelled(metrics);
  return (req, res, route = 'none') => {
    const id = idOf(req);
    req.context = { id, reference: id.slice(-8), route };
    res.setHeaders(headers as Map<string, string>);
    res.setHeader('X-Request-Id', id);
    const startedAt = performance.now();
    res.once('close', () => {
      const seconds = (performance.now() - startedAt) / 1000;
      durations(req.context.route, req.method ?? '', `${Math.floor(res.statusCode / 100)}xx`).observe(seconds);
    });
  };
}

/** Finding a histogram's labels costs more than counting: each combination is found once. */
function labelled({ requests }: Metrics) {
  const known = new Map<string, ReturnType<typeof requests.labels>>();
  return (route: string, method: string, status: string) => {
    const key = `${method} ${status} ${route}`;
    const found = known.get(key) ?? requests.labels({ route, method, status });
    known.set(key, found);
    return found;
  };
}
