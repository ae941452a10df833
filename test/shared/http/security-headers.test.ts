/** R68, R69: exactly the headers of every response. */
import { expect, test } from 'vitest';
import { DATA_POLICY, flatDataHeaders, securityHeaders } from '../../../src/shared/http/security-headers.ts';

const ALWAYS = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
    "connect-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
};

test('R68 the headers with http, and with https, which adds HSTS for a year', () => {
  expect(Object.fromEntries(securityHeaders(false))).toEqual(ALWAYS);
  expect(Object.fromEntries(securityHeaders(true))).toEqual({
    ...ALWAYS,
    'Strict-Transport-Security': 'max-age=31536000',
  });
});

test('R68 data responses have the same headers, and a stricter policy', () => {
  const flat = flatDataHeaders(securityHeaders(false));
  const pairs = Array.from({ length: flat.length / 2 }, (_, n) => flat.slice(2 * n, 2 * n + 2));
  expect(Object.fromEntries(pairs)).toEqual({ ...ALWAYS, 'Content-Security-Policy': DATA_POLICY });
  expect(DATA_POLICY).toBe("default-src 'none'; frame-ancestors 'none'; sandbox");
});
