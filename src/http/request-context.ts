/** Owns what every request carries: its id, the reference that people can read out, and which route it met. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Metrics } from '../observability/metrics.ts';
import { flatDataHeaders } from './security-headers.ts';
import type { Viewer } from './session-data.ts';

export interface RequestContext {
  /** `X-Request-Id` of the answer. */
  id: string;
  /** The id's last 8 characters: on error pages, in logs, in sign-in records. */
  reference: string;
  /** Pattern of the route, never the path itself, which may hold what somebody typed. */
  route: string;
  /** Headers that the answer still needs, names and values by turns: on the short way they leave together with the head. */
  unsentHeaders?: readonly string[] | undefined;
  /** Those among them that are this answer's alone. */
  addedHeaders?: readonly string[] | undefined;
  /** Who is signed in; set by the guards that read the session. */
  viewer?: Viewer | undefined;
  /** The admin token that a call of the admin API came with; set by the guard that checked it. */
  adminToken?: { id: string; name: string } | undefined;
}

declare module 'node:http' {
  interface IncomingMessage {
    context: RequestContext;
  }
}

const ID_FORM = /^[A-Za-z0-9-]{8,64}$/;

export interface BeginRequest {
  /** Gives the request its context, and the answer its id and the headers that every answer carries. */
  (req: IncomingMessage, res: ServerResponse): void;
  /** The same on the short way, where `sendHead` sends those headers. */
  short(req: IncomingMessage, res: ServerResponse, route: string): void;
  /** Back from the short way: sets the headers that have not been sent. */
  long(req: IncomingMessage, res: ServerResponse): void;
}

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
  const dataHeaders = flatDataHeaders(headers);

  const start = (req: IncomingMessage, res: ServerResponse, route: string): RequestContext => {
    const id = idOf(req);
    const context: RequestContext = { id, reference: id.slice(-8), route };
    req.context = context;
    const startedAt = performance.now();
    res.on('close', () => {
      const seconds = (performance.now() - startedAt) / 1000;
      durations(context.route, req.method ?? '', res.statusCode).observe(seconds);
    });
    return context;
  };
  const setHeaders = (res: ServerResponse, id: string): void => {
    res.setHeaders(headers as Map<string, string>);
    res.setHeader('X-Request-Id', id);
  };

  const begin = (req: IncomingMessage, res: ServerResponse) => setHeaders(res, start(req, res, 'none').id);
  return Object.assign(begin, {
    short(req: IncomingMessage, res: ServerResponse, route: string) {
      start(req, res, route).unsentHeaders = dataHeaders;
    },
    long({ context }: IncomingMessage, res: ServerResponse) {
      if (!context.unsentHeaders) return;
      const { addedHeaders = [] } = context;
      context.unsentHeaders = undefined;
      context.addedHeaders = undefined;
      if (res.headersSent) return;
      setHeaders(res, context.id);
      for (let at = 0; at < addedHeaders.length; at += 2)
        res.setHeader(addedHeaders[at] ?? '', addedHeaders[at + 1] ?? '');
    },
  });
}

/** Finding a histogram's labels costs more than counting: each combination is found once. */
function labelled({ requests }: Metrics) {
  const known = new Map<string, ReturnType<typeof requests.labels>>();
  return (route: string, method: string, statusCode: number) => {
    const key = `${method} ${statusCode} ${route}`;
    const found = known.get(key);
    if (found) return found;
    const made = requests.labels({ route, method, status: `${Math.floor(statusCode / 100)}xx` });
    known.set(key, made);
    return made;
  };
}
