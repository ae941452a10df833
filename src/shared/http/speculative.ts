/** Refuses requests for pages that a browser loads before the user opens them, if it ever happens (R136). */
import type { IncomingMessage } from 'node:http';
import { AppError } from '../errors.ts';

/**
 * `Sec-Purpose` is the standard (Fetch, section 3.7). For `<link rel="prefetch">`, Chromium long sent only `Purpose`,
 * and Firefox `X-Moz`.
 */
const PURPOSE_HEADERS = ['sec-purpose', 'purpose', 'x-moz'] as const;

/** @throws AppError `not_prefetched`; the browser then sends the request again when the user opens the page */
export function refuseSpeculative({ headers }: IncomingMessage): void {
  // The value can have parameters, such as `prefetch;prerender`.
  const isSpeculative = PURPOSE_HEADERS.some((name) => /^\s*prefetch\b/i.test(String(headers[name] ?? '')));
  if (isSpeculative) throw new AppError('not_prefetched', { detail: 'Request this address only when it is opened.' });
}
