/** The rate limit headers (draft-ietf-httpapi-ratelimit-headers). */
import type { Month } from './month.ts';

/** For example `"free";q=10000;w=2592000`: the quota, and the window in seconds. */
export function rateLimitPolicy(plan: string, limit: number, { start, end }: Month): string {
  return `"${plan}";q=${limit};w=${(end - start) / 1000}`;
}

/** For example `"free";r=9999;t=3600`: the remaining requests, and the seconds until the reset. */
export function rateLimit(plan: string, remaining: number, resetSeconds: number): string {
  return `"${plan}";r=${remaining};t=${resetSeconds}`;
}
