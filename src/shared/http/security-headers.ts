/** The security headers of every response (R68, R69). */
import type { IncomingMessage, ServerResponse } from 'node:http';
import helmet from 'helmet';

/**
 * The policy of pages. It has no `form-action`: Chromium also applies it to redirects after a form, and would block
 * those to the provider.
 */
export const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "object-src 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

/**
 * The policy of all other responses: nothing in them runs or loads. Because of `sandbox`, Chromium also does not keep
 * them for Back, from where a page of a session that has ended would return (R106).
 */
const DATA_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox";

/**
 * Returns the headers, with the policy for data: a page is sent with `PAGE_POLICY`. The referrer policy is
 * `same-origin`, because under `no-referrer` browsers send `Origin: null` with forms.
 * @param publicHref `PUBLIC_URL`
 */
export function securityHeaders(publicHref: string): ReadonlyMap<string, string> {
  const headers = new Map([
    ['Cache-Control', 'no-store'],
    ['Content-Security-Policy', DATA_POLICY],
  ]);
  const setHeaders = helmet({
    contentSecurityPolicy: false,
    // Chromium logs a warning when it cannot apply this one, and the other headers make it unnecessary.
    originAgentCluster: false,
    // For obsolete browsers only; `frame-ancestors` covers `frameguard`.
    dnsPrefetchControl: false,
    ieNoOpen: false,
    permittedCrossDomainPolicies: false,
    xXssProtection: false,
    frameguard: false,
    referrerPolicy: { policy: 'same-origin' },
    strictTransportSecurity: transportSecurity(publicHref),
  });
  // The headers are constant, so helmet runs once, on a stand-in that collects them.
  const response = {
    setHeader: (name: string, value: string) => headers.set(name, value),
    removeHeader: () => undefined,
  };
  setHeaders({} as IncomingMessage, response as unknown as ServerResponse, () => undefined);
  return headers;
}

const YEAR_SECONDS = 31_536_000;
const SHORT_SECONDS = 300;

/**
 * Browsers apply the policy to every port of the host name (RFC 6797 section 8.2). If `PUBLIC_URL` names a port, other
 * services may use the other ports, without https, so the policy is short.
 */
function transportSecurity(publicHref: string): { maxAge: number; includeSubDomains: false } | false {
  const { protocol, port } = new URL(publicHref);
  if (protocol !== 'https:') return false;
  return { maxAge: port === '' ? YEAR_SECONDS : SHORT_SECONDS, includeSubDomains: false };
}
