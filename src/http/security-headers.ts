/** Owns the headers that every answer carries (R68, R69). */
import type { IncomingMessage, ServerResponse } from 'node:http';
import helmet from 'helmet';

/** No `form-action`: Chromium applies it to every hop of the redirect chain that a form starts, and so would block consent. */
const PAGE_POLICY = [
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

/** For answers that are data, whatever is in them: nothing runs, and nothing is fetched. */
export const DATA_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox";

/**
 * `same-origin` as referrer policy: under `no-referrer` browsers send `Origin: null` with our own forms.
 * @param secure whether browsers reach us by https
 */
export function securityHeaders(secure: boolean): ReadonlyMap<string, string> {
  const headers = new Map([
    ['Cache-Control', 'no-store'],
    ['Content-Security-Policy', PAGE_POLICY],
  ]);
  const setHeaders = helmet({
    contentSecurityPolicy: false,
    // Chromium warns on the console where it cannot follow this one; it protects nothing that the others leave open.
    originAgentCluster: false,
    // For browsers that nobody has any more, or (the last one) said by `frame-ancestors`.
    dnsPrefetchControl: false,
    ieNoOpen: false,
    permittedCrossDomainPolicies: false,
    xXssProtection: false,
    frameguard: false,
    referrerPolicy: { policy: 'same-origin' },
    strictTransportSecurity: secure ? { maxAge: 31_536_000, includeSubDomains: false } : false,
  });
  // They are the same for every answer, so they are worked out once, on an answer that is none.
  const response = {
    setHeader: (name: string, value: string) => headers.set(name, value),
    removeHeader: () => undefined,
  };
  setHeaders({} as IncomingMessage, response as unknown as ServerResponse, () => undefined);
  return headers;
}

/** The same for an answer that is data: names and values by turns, as `writeHead` takes them. */
export function flatDataHeaders(headers: ReadonlyMap<string, string>): readonly string[] {
  return [...new Map(headers).set('Content-Security-Policy', DATA_POLICY)].flat();
}
