/** Owns the short way for relayed calls: past Express where nothing of it is needed, and through it wherever anything is unusual. */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Express, RequestHandler } from 'express';
import type { BeginRequest } from './request-context.ts';

/** A GET that is answered from its head alone. */
export type Relayed = (req: IncomingMessage, res: ServerResponse) => Promise<void>;
/** The same for what lies below a path. @param rest what follows the prefix */
export type RelayedBelow = (req: IncomingMessage, res: ServerResponse, rest: string) => Promise<void>;

/** What goes the short way; `route` is the name that Express's route has. */
export interface ShortWays {
  exact: readonly { route: string; handle: Relayed | RelayedBelow }[];
  /** `rest`: what follows the prefix has to match, in full; everything else goes through Express. */
  below: readonly { prefix: string; rest: RegExp; route: string; handle: RelayedBelow }[];
}

declare module 'node:http' {
  interface IncomingMessage {
    /** What the short way failed with; Express answers it as it answers everything else that fails. */
    failure?: unknown;
  }
}

/**
 * Express costs more than the relaying itself, so an ordinary relayed call does without it. Whatever could make a difference
 * to guards, redirects or pages (another method, a page wanted, a foreign site, a proxy's id, a body, an upgrade, digits in
 * the query) goes through Express, where the same route stands with the same handler.
 * @param parts `basePath`: stands before every path; `admit`: hears of each request that goes the short way, and throws where it may not
 *   go on; `isClean`: false for texts that hold a card number
 */
export function frontDoor(parts: {
  app: Express;
  basePath: string;
  ways: ShortWays;
  begin: BeginRequest;
  admit: (req: IncomingMessage) => void;
  isClean: (text: string) => boolean;
}): RequestListener {
  const { app, begin, admit, isClean } = parts;
  const wayOf = shortWayFinder(parts.ways, parts.basePath);
  return (req, res) => {
    const url = req.url ?? '';
    const end = url.indexOf('?');
    const way = wayOf(end < 0 ? url : url.slice(0, end));
    if (!way || !isOrdinary(req) || (end >= 0 && !isClean(url))) return app(req, res);
    begin.short(req, res, way.route);
    const failed = (error: unknown) => {
      req.failure = error;
      app(req, res);
    };
    try {
      admit(req);
    } catch (error) {
      return failed(error);
    }
    way.handle(req, res, way.rest).catch(failed);
  };
}

interface ShortWay {
  route: string;
  handle: RelayedBelow;
  rest: string;
}

function shortWayFinder({ exact, below }: ShortWays, basePath: string): (path: string) => ShortWay | undefined {
  const known = new Map(exact.map(({ route, handle }) => [basePath + route, { route, handle, rest: '' }]));
  const prefixes = below.map((way) => ({ ...way, start: basePath + way.prefix }));
  return (path) => {
    const found = known.get(path);
    if (found) return found;
    const way = prefixes.find(({ start }) => path.startsWith(start));
    const rest = way && path.slice(way.start.length);
    return rest !== undefined && way?.rest.test(rest) ? { route: way.route, handle: way.handle, rest } : undefined;
  };
}

/** Express's side of it: what has begun is not begun again, and what has failed is handed on. */
export function throughExpress(begin: BeginRequest): RequestHandler {
  return (req, res, next) => {
    if (req.context) begin.long(req, res);
    else begin(req, res);
    next(req.failure);
  };
}

const UNUSUAL = ['upgrade', 'transfer-encoding', 'content-length', 'x-request-id', 'x-forwarded-host'];

function isOrdinary(req: IncomingMessage): boolean {
  const { headers, rawHeaders, method } = req;
  if (method !== 'GET' || headers.accept?.includes('html') || headers['sec-fetch-site'] === 'cross-site') return false;
  if (UNUSUAL.some((name) => headers[name] !== undefined)) return false;
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.length === 4 && rawHeaders[at]?.toLowerCase() === 'host') hosts += 1;
  }
  return hosts === 1;
}
