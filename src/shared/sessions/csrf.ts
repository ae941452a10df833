/** Checks that a state change comes from our own pages (R66). */
import { timingSafeEqual } from 'node:crypto';
import type { Request, RequestHandler } from 'express';
import { AppError } from '../errors.ts';
import { formField } from '../http/body.ts';
import { requiring } from '../http/description.ts';

const failed = (logDetail: string, detail = 'Go back to the page, reload it and try again.') =>
  new AppError('csrf_failed', { detail, logDetail });

/** For state changes with a session; without a session there is nothing to protect. Runs after the body is read. */
export function csrfGuard(origin: string): RequestHandler {
  const otherOrigin = `The request did not come from ${origin}. Open the page there and try again.`;
  return requiring<RequestHandler>([{ session: [], csrf: [] }], (req, _res, next) => {
    const { session } = req.context;
    if (!session) return next();
    const foreign = foreignHeader(req, origin);
    if (foreign !== undefined) return next(failed(`foreign ${foreign}`, otherOrigin));
    return isSame(tokenOf(req), session.csrfToken) ? next() : next(failed('wrong or missing token'));
  });
}

/** True if a page of another site sent the request, for changes that need no session. Programs send neither header. */
export function isFromOtherSite(req: Request, origin: string): boolean {
  return foreignHeader(req, origin) !== undefined;
}

/**
 * Returns the header that names another site. Under the referrer policy `no-referrer`, which a proxy may set, browsers
 * send `Origin: null` with our own forms, too (Fetch Standard, section 3.2). Only `Sec-Fetch-Site` tells these apart.
 */
function foreignHeader(req: Request, origin: string): 'Origin' | 'Sec-Fetch-Site' | undefined {
  const [sentOrigin, site] = [req.get('origin'), req.get('sec-fetch-site')];
  const isHidden = sentOrigin === 'null' && site === 'same-origin';
  if (sentOrigin !== undefined && sentOrigin !== origin && !isHidden) return 'Origin';
  return site === undefined || site === 'same-origin' ? undefined : 'Sec-Fetch-Site';
}

/** `Sec-Fetch-Dest` of a document that is loaded into another one (Fetch Standard, section 2.2.5). */
const FRAMED = new Set(['iframe', 'frame', 'embed', 'object', 'fencedframe']);
const NOT_FRAMED = 'This page cannot be shown inside another page. Open its address in a window of its own.';

/**
 * Safe methods change nothing, but no other site may read their responses. Nor may any page load ours into itself: it
 * would not be shown (`frame-ancestors`), but would count for its address (R137).
 */
export const crossSiteGuard: RequestHandler = (req, _res, next) => {
  if (FRAMED.has(req.get('sec-fetch-dest') ?? '')) return next(failed('loaded into another page', NOT_FRAMED));
  const isForeign = req.get('sec-fetch-site') === 'cross-site' && req.get('sec-fetch-mode') !== 'navigate';
  next(isForeign ? failed('cross-site read') : undefined);
};

/**
 * For a GET with a side effect, such as an audit entry: not even a link may cause it. @throws AppError `csrf_failed`
 */
export function refuseOtherSites(req: Request): void {
  const site = req.get('sec-fetch-site');
  if (site === 'cross-site' || site === 'same-site') throw failed('foreign Sec-Fetch-Site');
}

function tokenOf(req: Request): string {
  return req.get('x-csrf-token') ?? formField(req.body, '_csrf') ?? '';
}

function isSame(sent: string, expected: string): boolean {
  const [left, right] = [Buffer.from(sent), Buffer.from(expected)];
  return left.length === right.length && timingSafeEqual(left, right);
}
