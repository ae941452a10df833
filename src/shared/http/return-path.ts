/** Decides where a browser may return after signing in or connecting: a local path or a registered URL (R70). Pure. */
import type { IncomingMessage } from 'node:http';
import { holdsCardNumber } from './card-numbers.ts';

export interface LocalSite {
  origin: string;
}

/** Limits what each started sign-in stores, which needs no session (R91). */
export const MAX_PATH_LENGTH = 512;

/**
 * Checks a path as browsers parse it. They drop tabs and line breaks, and treat a backslash as a slash (WHATWG URL
 * Standard).
 * @param requested value of the request parameter
 * @param site `origin`: the origin of `PUBLIC_URL`
 * @returns the local path, or undefined for a text that a browser could resolve to another host
 */
export function localPath(requested: unknown, { origin }: LocalSite): string | undefined {
  if (typeof requested !== 'string' || requested.length > MAX_PATH_LENGTH) return undefined;
  if (!/^\/(?![/\\])/.test(requested)) return undefined;
  // A redirect must not repeat a card number (R86).
  if (holdsCardNumber(requested)) return undefined;
  if (/[\\\s\p{Cc}\p{Cf}]/u.test(requested)) return undefined;
  const url = URL.parse(requested, origin);
  if (!url || url.origin !== origin) return undefined;
  const path = url.pathname + url.search + url.hash;
  // Percent-encoding may have made the path longer.
  if (path.length > MAX_PATH_LENGTH) return undefined;
  // `/.//host` is harmless with this origin, but becomes `//host` if another program resolves the path again.
  return /^\/(?!\/)/.test(path) && !/^\/(?:%2f|%5c)/i.test(path) ? path : undefined;
}

/** @returns the registered URL that equals `requested` character by character, else the local path, else home */
export function returnTarget(
  requested: unknown,
  site: LocalSite & { home: string },
  returnUrls: readonly string[],
): string {
  const registered = returnUrls.find((url) => url === requested);
  return registered ?? localPath(requested, site) ?? site.home;
}

/**
 * Returns the local path to which the user can return, from a reverse proxy that asks about the user's request:
 * `X-Forwarded-Uri` is a path (Caddy, Traefik), `X-Original-URL` usually a URL (nginx). The path of a form may not be
 * one to open (`X-Forwarded-Method`, `X-Original-Method`), so the page that sent it comes first. They count for nothing
 * else (R77).
 */
export function forwardedPath({ headers }: Pick<IncomingMessage, 'headers'>, site: LocalSite): string | undefined {
  const target = headers['x-forwarded-uri'] ?? headers['x-original-url'];
  const method = headers['x-forwarded-method'] ?? headers['x-original-method'] ?? 'GET';
  const page = /^(GET|HEAD)$/i.test(String(method)) ? undefined : localReferrer(headers.referer, site);
  return page ?? (typeof target === 'string' ? localPath(pathOf(target), site) : undefined);
}

/** Returns the local path of the page that sent the request; undefined for a page of another site. */
export function localReferrer(referrer: string | undefined, site: LocalSite): string | undefined {
  const url = URL.parse(referrer ?? '');
  return url?.origin === site.origin ? localPath(url.pathname + url.search, site) : undefined;
}

/** Returns path and query of a request target, which may be an absolute URL (RFC 9112 section 3.2.2). */
export function pathOf(target: string): string | undefined {
  if (target.startsWith('/')) return target;
  const url = URL.parse(target);
  return url ? url.pathname + url.search : undefined;
}
