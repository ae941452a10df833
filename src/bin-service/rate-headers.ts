/** Owns what a caller is told of its limit (draft-ietf-httpapi-ratelimit-headers): the policy, and what is left of it. Pure. */
import type { Month } from './month.ts';

/** Such as `"free";q=10000;w=2592000`: so many requests in a window of so many seconds. */
export function rateLimitPolicy(plan: string, limit: number, { start, end }: Month): string {
  return `"${plan}";q=${limit};w=${(end - start) / 1000}`;
}

/** Such as `"free";r=9999;t=3600`: so many requests left, all of them again in so many seconds. */
export function rateLimit(plan: string, remaining: number, resetSeconds: number): string {
  return `"${plan}";r=${remaining};t=${resetSeconds}`;
}
