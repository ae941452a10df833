/**
 * Reads the platform's responses: their headers to pass on, the scopes they demand, and the rate limits they report.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { retryAfterSeconds } from '../../shared/outbound/retry-after.ts';
import { readableOf, type StreamedResponse } from '../../shared/outbound/streamed-body.ts';
import { tokenChallenge } from '../../shared/provider/challenges.ts';
import type { StatedLimit } from './stated-windows.ts';

/** Other headers are dropped: cookies, CORS, server names, redirects (R76). */
const PASSED_NAMES = ['content-type', 'content-length', 'content-language', 'etag', 'last-modified'] as const;

export function passedHeaders({ statusCode, headers }: StreamedResponse): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const name of PASSED_NAMES) {
    const value = headers[name];
    if (typeof value === 'string') passed[name] = value;
  }
  // RFC 9110 section 8.6: never on a response without content. That of a 304 is about another response.
  if (statusCode === 204 || statusCode === 205 || statusCode === 304) delete passed['content-length'];
  return passed;
}

/** Returns the links of the response (RFC 8288), if it has any. */
export function linkOf({ headers }: StreamedResponse): string | undefined {
  const { link } = headers;
  return Array.isArray(link) ? link.join(', ') : link;
}

/** True if the response announces more bytes than this, compressed or not. */
export function announcesMore({ headers, compressedLength }: StreamedResponse, maxBytes: number): boolean {
  return Number(compressedLength ?? headers['content-length']) > maxBytes;
}

/** Returns the scopes that the platform names when it refuses a token without them (RFC 6750 section 3.1). */
export function demandedScopes(response: StreamedResponse): string[] {
  return tokenChallenge(response, ['insufficient_scope'])?.scope?.split(' ') ?? [];
}

const DEFAULT_SECONDS = 60;
const MAX_SECONDS = 3600;

interface RateLimit {
  /** Whole seconds to wait before the next call. */
  seconds: number;
  /** False if the platform did not say how long to wait, so the seconds are a default. */
  isStated: boolean;
}

/**
 * Returns the rate limit if the response says that it is exceeded (429, or a 503 that says so), otherwise undefined.
 * @param now milliseconds since the epoch
 */
export async function rateLimitOf(response: StreamedResponse, now: number): Promise<RateLimit | undefined> {
  const { statusCode, headers } = response;
  if (statusCode !== 429 && statusCode !== 503) return undefined;
  if (statusCode === 503 && !(saysLimit(headers) || (await bodySaysLimit(readableOf(response.body))))) return undefined;
  const statedSeconds =
    retryAfterSeconds(headers['retry-after'], now) ??
    retryAfterSeconds(headers['x-company-retry-after'], now) ??
    resetSeconds(headers[headers['x-company-ratelimit-remaining'] === '0' ? COMPANY_RESET : 'x-ratelimit-reset'], now);
  const seconds = Math.min(MAX_SECONDS, Math.max(1, Math.ceil(statedSeconds ?? DEFAULT_SECONDS)));
  return { seconds, isStated: statedSeconds !== undefined };
}

const COMPANY_RESET = 'x-company-ratelimit-reset';

/** Returns the limit that these headers state, or undefined if they state none. */
export function statedLimitOf(headers: IncomingHttpHeaders, prefix: string, now: number): StatedLimit | undefined {
  const limit = numberOf(headers[`${prefix}-limit`]);
  const remaining = numberOf(headers[`${prefix}-remaining`]);
  if (limit === undefined || remaining === undefined) return undefined;
  const seconds = resetSeconds(headers[`${prefix}-reset`], now);
  return { limit, remaining, resetAt: seconds === undefined ? undefined : now + seconds * 1000 };
}

/**
 * Returns the seconds until the reset. The header is a UTC timestamp in seconds; some platforms send the remaining
 * seconds, or 0 at the limit.
 */
function resetSeconds(header: string | string[] | undefined, now: number): number | undefined {
  const reset = numberOf(header) ?? 0;
  const secondsLeft = reset > 1_000_000_000 ? reset - now / 1000 : reset;
  return secondsLeft > 0 ? secondsLeft : undefined;
}

function numberOf(header: string | string[] | undefined): number | undefined {
  return typeof header === 'string' && /^\d{1,12}(\.\d+)?$/.test(header) ? Number(header) : undefined;
}

function saysLimit(headers: IncomingHttpHeaders): boolean {
  const isSpent = headers['x-ratelimit-remaining'] === '0' || headers['x-company-ratelimit-remaining'] === '0';
  return isSpent || headers['x-company-retry-after'] !== undefined;
}

const INSPECTED_BYTES = 2048;

/**
 * True if the body names a rate limit ("Over Rate Limit"), as on some platforms. A 503 is never passed on, so its body
 * may be consumed here.
 */
async function bodySaysLimit(body: AsyncIterable<Buffer>): Promise<boolean> {
  let text = '';
  try {
    for await (const chunk of body) {
      text += chunk.toString('latin1');
      if (text.length >= INSPECTED_BYTES) break;
    }
  } catch {
    // The body was cut off: the part that arrived decides.
  }
  return /over\s+rate\s+limit|rate\s+limit\s+exceeded/i.test(text.slice(0, INSPECTED_BYTES));
}
