/** Owns the headers that every answer carries (R68, R69). */
import type { RequestHandler } from 'express';
import helmet from 'helmet';

/**
 * No `form-action`: Chromium applies it to every hop of the redirect chain that a form starts, and so would block consent.
 * `same-origin` as referrer policy: under `no-referrer` browsers send `Origin: null` with our own forms.
 * @param secure whether browsers reach us by https
 */
export function securityHeaders(secure: boolean): RequestHandler {
  const headers = helmet({
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        scriptSrc: ["'self'"],
        styleSrc: ["'self'"],
        imgSrc: ["'self'", 'data:'],
        fontSrc: ["'self'"],
        connectSrc: ["'self'"],
        objectSrc: ["'none'"],
        baseUri: ["'none'"],
        frameAncestors: ["'none'"],
      },
    },
    referrerPolicy: { policy: 'same-origin' },
    strictTransportSecurity: secure ? { maxAge: 31_536_000, includeSubDomains: false } : false,
  });
  return (req, res, next) => {
    res.setHeader('Cache-Control', 'no-store');
    headers(req, res, next);
  };
}
