/** Redirects page requests with another host name to `PUBLIC_URL`, but never to the address that was requested. */
import type { Request, RequestHandler } from 'express';
import { normalAddress } from '../config/networks.ts';
import type { PublicUrl } from '../config/rules.ts';
import { wantsData, wantsPage } from './accept.ts';
import { holdsCardNumber } from './card-numbers.ts';
import { UNKNOWN_ADDRESS } from './client-address.ts';
import { pathOf } from './return-path.ts';

/** A proxy that does not pass on the host in the browser's address. Each host is reported once. */
export interface HostFault {
  /** The address of the proxy. */
  peer: string;
  isTrusted: boolean;
  /** The host of the request. */
  seen: string;
  /** The host of `PUBLIC_URL`. */
  expected: string;
}

/** Callers choose the hosts. */
const MAX_REPORTED_HOSTS = 10;
/** A parameter of the URLs of these redirects. Its name is Gatehouse's own: platforms may have a `redirected`. */
const REDIRECTED = 'gatehouse-redirected=1';
const REDIRECTED_PARAMETER = new RegExp(`([?&])${REDIRECTED}(&|$)`);

/**
 * Creates the middleware. Without the redirect, a user who types `localhost` instead of `127.0.0.1` gets cookies that
 * the callback never receives. Cookies belong to all ports of a host, so another port needs no redirect.
 *
 * A proxy can name another host than the browser does, so that the browser is at the host of `PUBLIC_URL` already. The
 * redirect adds a parameter, and a request with it gets the page. Routes do not see it, with any method: a form without
 * an action is sent to the URL of its page.
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
  onFault?: (fault: HostFault) => void;
}): RequestHandler {
  const { publicUrl, isTrusted, isData, isForProxies = () => false, onFault } = parts;
  const defaultPort = publicUrl.secure ? /:443$/ : /:80$/;
  const isPage = (req: Request) =>
    wantsPage(req) || !(wantsData(req) || isData(req.path.slice(publicUrl.basePath.length)));
  const reportedHosts = new Set<string>();
  const report = (req: Request, isBehindProxy: boolean, host: string) => {
    const seen = /^[\w.:[\]-]{1,255}$/.test(host) && !holdsCardNumber(host) ? host : '(no host name)';
    if (reportedHosts.has(seen) || reportedHosts.size >= MAX_REPORTED_HOSTS) return;
    reportedHosts.add(seen);
    const peer = normalAddress(req.socket.remoteAddress ?? '') ?? UNKNOWN_ADDRESS;
    onFault?.({ peer, isTrusted: isBehindProxy, seen, expected: publicUrl.host });
  };
  return (req, res, next) => {
    const isRedirected = REDIRECTED_PARAMETER.test(req.url);
    if (isRedirected) {
      req.url = withoutParameter(req.url);
      req.originalUrl = withoutParameter(req.originalUrl);
    }
    const isBehindProxy = isTrusted(req.socket.remoteAddress ?? '');
    const sentHost = isBehindProxy ? req.get('x-forwarded-host')?.split(',')[0] : req.get('host');
    const host = sentHost?.trim().toLowerCase() ?? publicUrl.host;
    if (
      host.replace(defaultPort, '') === publicUrl.host ||
      (req.method !== 'GET' && req.method !== 'HEAD') ||
      !isPage(req)
    )
      return next();
    if (isForProxies(req.path)) return next();
    const isOtherPort = withoutPort(host) === withoutPort(publicUrl.host);
    if (isBehindProxy || isOtherPort || isRedirected) report(req, isBehindProxy, host);
    if (isOtherPort || isRedirected) return next();
    // A redirect must not repeat a card number (R86).
    const path = holdsCardNumber(req.originalUrl) ? `${publicUrl.basePath}/` : (pathOf(req.originalUrl) ?? '/');
    return res.redirect(302, `${publicUrl.origin}${path}${path.includes('?') ? '&' : '?'}${REDIRECTED}`);
  };
}

const withoutParameter = (target: string) =>
  target.replace(REDIRECTED_PARAMETER, (_match, before: string, after: string) => (after === '' ? '' : before));
const withoutPort = (host: string) => host.replace(/:\d*$/, '');
