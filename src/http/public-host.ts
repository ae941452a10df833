/** Owns the one name under which pages are seen: asked for under another, a page redirects to `PUBLIC_URL`. */
import type { RequestHandler } from 'express';
import type { PublicUrl } from '../config.ts';
import { wantsPage } from './viewer.ts';

/**
 * Without this, somebody who types `localhost` for `127.0.0.1` gets cookies that the callback never sees.
 * @param isTrusted whether this peer is a proxy of ours: then `X-Forwarded-Host` is the name that was asked for, and
 *   a proxy that sends none has put its own name into `Host`, which says nothing
 */
export function publicHost(publicUrl: PublicUrl, isTrusted: (address: string) => boolean): RequestHandler {
  return (req, res, next) => {
    const behindProxy = isTrusted(req.socket.remoteAddress ?? '');
    const host = behindProxy ? req.get('x-forwarded-host') : req.get('host');
    const elsewhere = host !== undefined && host.toLowerCase() !== publicUrl.host;
    if (!elsewhere || (req.method !== 'GET' && req.method !== 'HEAD') || !wantsPage(req)) return next();
    return res.redirect(302, publicUrl.origin + req.originalUrl);
  };
}
