/** Owns the one name under which pages are seen: asked for under another, a page redirects to `PUBLIC_URL`. */
import type { Request, RequestHandler } from 'express';
import type { PublicUrl } from '../config-rules.ts';
import { readings } from './card-numbers.ts';
import { wantsData, wantsPage } from './viewer.ts';

/**
 * Without this, somebody who types `localhost` for `127.0.0.1` gets cookies that the callback never sees.
 * @param parts `isClean`: false for texts that hold a card number, which no redirect carries on; `isTrusted`: whether this peer is a proxy of ours: then `X-Forwarded-Host` is the name that was asked for, and
 *   a proxy that sends none has put its own name into `Host`, which says nothing
 */
export function publicHost(parts: {
  publicUrl: PublicUrl;
  isTrusted: (address: string) => boolean;
  isClean: (text: string) => boolean;
  /** Paths that answer data to whoever does not ask for a page: programs may know us by another name. */
  dataPaths: RegExp;
}): RequestHandler {
  const { publicUrl, isTrusted, isClean, dataPaths } = parts;
  const defaultPort = publicUrl.secure ? /:443$/ : /:80$/;
  const plain = (host: string) => host.trim().toLowerCase().replace(defaultPort, '');
  const isPage = (req: Request) =>
    wantsPage(req) || !(wantsData(req) || dataPaths.test(req.path.slice(publicUrl.basePath.length)));
  return (req, res, next) => {
    const behindProxy = isTrusted(req.socket.remoteAddress ?? '');
    const host = behindProxy ? req.get('x-forwarded-host')?.split(',')[0] : req.get('host');
    const elsewhere = host !== undefined && plain(host) !== publicUrl.host;
    if (!elsewhere || (req.method !== 'GET' && req.method !== 'HEAD') || !isPage(req)) return next();
    return res.redirect(
      302,
      readings(req.originalUrl).every(isClean) ? publicUrl.origin + pathOf(req.originalUrl) : `${publicUrl.href}/`,
    );
  };
}

/** A request line may hold a whole URL (RFC 9112 section 3.2.2), of which only path and query are ours. */
function pathOf(target: string): string {
  if (target.startsWith('/')) return target;
  const url = URL.parse(target);
  return url ? url.pathname + url.search : '/';
}
