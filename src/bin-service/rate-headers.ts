/** The rate limit headers (draft-ietf-httpapi-ratelimit-headers). */
import type { Month } from './month.ts';
import { MINUTE, type Plan } from './plans.ts';

/** For example `"free";q=10000;w=2592000, "minute";q=12000;w=60`: each quota, and its window in seconds. */
export function rateLimitPolicy({ name, monthlyRequests, requestsPerMinute }: Plan, { start, end }: Month): string {
  const monthly = `"${name}";q=${monthlyRequests};w=${(end - start) / 1000}`;
  return requestsPerMinute === undefined ? monthly : `${monthly}, ${minutePolicy(requestsPerMinute)}`;
}

/** Of the minute alone, for a request that exceeds it. */
export function minutePolicy(requestsPerMinute: number): string {
  return `"${MINUTE}";q=${requestsPerMinute};w=60`;
}

/** For example `"free";r=9999;t=3600`: the remaining requests, and the seconds until the reset. */
export function rateLimit(policy: string, remaining: number, resetSeconds: number): string {
  return `"${policy}";r=${remaining};t=${resetSeconds}`;
}
