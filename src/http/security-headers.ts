/** Owns the headers that every answer carries (R68, R69). */
import type { RequestHandler } from 'express';
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

/**
 * `same-origin` as referrer policy: under `no-referrer` browsers send `Origin: null` with our own forms.
 * @param secure whether browsers reach us by https
 */
export function securityHeaders(secure: boolean): RequestHandler {
  const headers = helmet({
    contentSecurityPolicy: false,
    // Chromium warns on the console where it cannot follow this one; it protects nothing that the others leave open.
    originAgentCluster: false,
    referrerPolicy: { policy: 'same-origin' },
    strictTransportSecurity: secure ? { maxAge: 31_536_000, includeSubDomains: false } : false,
  });
  return (req, res, next) => {
    res.setHeader('Cache-Control', 'no-store');
    res.setHeader('Content-Security-Policy', PAGE_POLICY);
    headers(req, res, next);
  };
}
