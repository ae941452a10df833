/** R68, R69: exactly the headers of every response. */
import { expect, test } from 'vitest';
import { PAGE_POLICY, securityHeaders } from '../../../src/shared/http/security-headers.ts';

const ALWAYS = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'; sandbox",
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
};

test.each([
  ['http', 'http://gatehouse.test:3000', undefined],
  ['https, with HSTS for a year', 'https://gatehouse.test/base', 'max-age=31536000'],
  ['https with the default port, with HSTS for a year', 'https://gatehouse.test:443', 'max-age=31536000'],
  [
    'https on a port of its own, with HSTS for five minutes, since it counts for every port of the host',
    'https://gatehouse.test:8443/base',
    'max-age=300',
  ],
])('R68 the headers with %s', (_what, publicHref, hsts) => {
  const added = hsts && { 'Strict-Transport-Security': hsts };
  expect(Object.fromEntries(securityHeaders(publicHref))).toEqual({ ...ALWAYS, ...added });
});

test('R68 the policy of pages', () => {
  expect(PAGE_POLICY).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
      "connect-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
  );
});
