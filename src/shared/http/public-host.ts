/** Redirects page requests with another host name to `PUBLIC_URL`. */
import type { Request, RequestHandler } from 'express';
import type { PublicUrl } from '../config/rules.ts';
import { wantsData, wantsPage } from './accept.ts';
import { holdsCardNumber } from './card-numbers.ts';

/**
 * Creates the middleware. Without the redirect, a user who types `localhost` instead of `127.0.0.1` gets cookies that
 * the callback never receives.
 * @param parts `isTrusted`: whether the peer is a trusted proxy. If so, only `X-Forwarded-Host` counts: `Host` may be
 *   the proxy's own name
 */
export function publicHost(parts: {
  publicUrl: PublicUrl;
  isTrusted: (address: string) => boolean;
  /** Returns whether a path (without the base path) serves data by default. Programs may use another host name. */
  isData: (path: string) => boolean;
  /** Returns whether the caller of a path is a reverse proxy, which must not get a redirect. */
  isForProxies?: (path: string) => boolean;
}): RequestHandler {
  const { publicUrl, isTrusted, isData, isForProxies = () => false } = parts;
  const defaultPort = publicUrl.secure ? /:443$/ : /:80$/;
  const normalizedHost = (host: string) => host.trim().toLowerCase().replace(defaultPort, '');
  const isPage = (req: Request) =>
    wantsPage(req) || !(wantsData(req) || isData(req.path.slice(publicUrl.basePath.length)));
  return (req, res, next) => {
    const isBehindProxy = isTrusted(req.socket.remoteAddress ?? '');
    const host = isBehindProxy ? req.get('x-forwarded-host')?.split(',')[0] : req.get('host');
    const isOtherHost = host !== undefined && normalizedHost(host) !== publicUrl.host;
    if (!isOtherHost || (req.method !== 'GET' && req.method !== 'HEAD') || !isPage(req)) return next();
    if (isForProxies(req.path)) return next();
    // A redirect must not repeat a card number (R86).
    const mustDropPath = holdsCardNumber(req.originalUrl);
    return res.redirect(302, mustDropPath ? `${publicUrl.href}/` : publicUrl.origin + pathOf(req.originalUrl));
  };
}

/** Returns path and query of a request target, which may be an absolute URL (RFC 9112 section 3.2.2). */
function pathOf(target: string): string {
  if (target.startsWith('/')) return target;
  const url = URL.parse(target);
  return url ? url.pathname + url.search : '/';
}
