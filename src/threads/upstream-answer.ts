/** Owns what is taken over from the platform's answers: which headers pass, and what counts as a rate limit. */
import type { IncomingHttpHeaders } from 'node:http';
import { readableOf, type StreamedAnswer } from '../outbound/streamed-answer.ts';

/** Whatever is not named here does not pass: cookies, CORS, server names, redirects (R76). */
const PASSED = [
  'content-type',
  'content-length',
  'content-encoding',
  'content-language',
  'etag',
  'last-modified',
] as const;

/** Characters that cannot stand in a header, and would fail the whole answer. */
const UNSENDABLE = /[^\t\x20-\x7e\x80-\xff]/;

export function passedHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const name of PASSED) {
    const value = headers[name];
    if (typeof value === 'string' && !UNSENDABLE.test(value)) passed[name] = value;
  }
  return passed;
}

const DEFAULT_SECONDS = 60;
const MOST_SECONDS = 3600;

export interface RateLimit {
  /** Whole seconds until the platform wants to be asked again. */
  seconds: number;
  /** False where it did not say how long, and the seconds are a guess. */
  stated: boolean;
}

/**
 * There where the platform said that a limit is passed (429, or 503 for its rate limit), else undefined.
 * @param now milliseconds since the epoch
 */
export async function rateLimitOf(response: StreamedAnswer, now: number): Promise<RateLimit | undefined> {
  const { statusCode, headers } = response;
  if (statusCode !== 429 && statusCode !== 503) return undefined;
  if (statusCode === 503 && !(saysLimit(headers) || (await bodySaysLimit(readableOf(response.body))))) return undefined;
  const stated =
    secondsOf(headers['retry-after'], now) ??
    secondsOf(headers['x-company-retry-after'], now) ??
    resetSeconds(headers[headers['x-company-ratelimit-remaining'] === '0' ? COMPANY_RESET : 'x-ratelimit-reset'], now);
  const seconds = Math.min(MOST_SECONDS, Math.max(1, Math.ceil(stated ?? DEFAULT_SECONDS)));
  return { seconds, stated: stated !== undefined };
}

const COMPANY_RESET = 'x-company-ratelimit-reset';

/** A UTC timestamp in seconds; some send the seconds that are left. */
function resetSeconds(value: string | string[] | undefined, now: number): number | undefined {
  const reset = Number(value);
  const left = reset > 1_000_000_000 ? reset - now / 1000 : reset;
  return left > 0 ? left : undefined;
}

function saysLimit(headers: IncomingHttpHeaders): boolean {
  const spent = headers['x-ratelimit-remaining'] === '0' || headers['x-company-ratelimit-remaining'] === '0';
  return spent || headers['x-company-retry-after'] !== undefined;
}

const LOOKED_AT_BYTES = 2048;

/** Some say it in the body alone ("Over Rate Limit"); a 503 is never passed on, so its body may be spent here. */
async function bodySaysLimit(body: AsyncIterable<Buffer>): Promise<boolean> {
  let text = '';
  try {
    for await (const chunk of body) {
      text += chunk.toString('latin1');
      if (text.length >= LOOKED_AT_BYTES) break;
    }
  } catch {
    // What came before it broke off is all there is to judge.
  }
  return /over\s+rate\s+limit|rate\s+limit\s+exceeded/i.test(text.slice(0, LOOKED_AT_BYTES));
}

/** Seconds or an HTTP date (RFC 9110 section 10.2.3). */
function secondsOf(value: string | string[] | undefined, now: number): number | undefined {
  if (typeof value !== 'string' || value === '') return undefined;
  const seconds = /^\d{1,9}$/.test(value) ? Number(value) : (Date.parse(value) - now) / 1000;
  return Number.isFinite(seconds) && seconds > 0 ? seconds : undefined;
}
