/** Owns the short way for relayed calls: past Express where nothing of it is needed, and through it wherever anything is unusual. */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Express, RequestHandler } from 'express';
import type { BeginRequest } from './request-context.ts';

/** A GET that is answered from the session's cookie and its query alone. */
export type Relayed = (req: IncomingMessage, res: ServerResponse) => Promise<void>;

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
 * @param parts `relayed`: handlers by path; `isClean`: false for texts that hold a card number
 */
export function frontDoor(parts: {
  app: Express;
  relayed: ReadonlyMap<string, Relayed>;
  begin: BeginRequest;
  isClean: (text: string) => boolean;
}): RequestListener {
  const { app, relayed, begin, isClean } = parts;
  return (req, res) => {
    const url = req.url ?? '';
    const end = url.indexOf('?');
    const path = end < 0 ? url : url.slice(0, end);
    const handle = relayed.get(path);
    if (!handle || !isOrdinary(req) || (end >= 0 && !isClean(url))) return app(req, res);
    begin(req, res, path);
    handle(req, res).catch((error: unknown) => {
      req.failure = error;
      app(req, res);
    });
  };
}

/** Express's side of it: what has begun is not begun again, and what has failed is handed on. */
export function throughExpress(begin: BeginRequest): RequestHandler {
  return (req, res, next) => {
    if (!req.context) begin(req, res);
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
