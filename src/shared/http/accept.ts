/** Decides by the `Accept` header whether a request prefers a page or data (RFC 9110 section 12.5.1). */
import type { Request } from 'express';

/** Returns true for a browser's navigation, which prefers HTML to JSON. */
export function wantsPage(req: Request): boolean {
  return req.accepts(['application/json', 'text/html']) === 'text/html';
}

/** Returns true for a program that names JSON. A request that accepts anything counts as one for a page. */
export function wantsData(req: Request): boolean {
  return req.accepts(['text/html', 'application/json']) === 'application/json';
}
