/** The platform's rate limits: calls of each user and of all users, stated in headers and optionally enforced. */

export interface RateLimits {
  /** Default 50. */
  perUserPerMinute: number;
  /** Default 750. */
  perUserPerHour: number;
  /** Default 600. */
  perCompanyPerMinute: number;
  /** Response to a call over the limit; `none`: the call is allowed, and only the headers show the limit. */
  answer: 'none' | '503' | '429';
}

export const USUAL_LIMITS: RateLimits = {
  perUserPerMinute: 50,
  perUserPerHour: 750,
  perCompanyPerMinute: 600,
  answer: 'none',
};

export interface CountedCall {
  headers: Record<string, string>;
  /** The status to refuse with. */
  refusedWith?: 429 | 503;
}

interface Window {
  startedAtMs: number;
  calls: number;
}

const MINUTE_MS = 60_000;

/** Reset times are UTC timestamps in seconds. There are three windows for each account, so the map stays small. */
export function createRateLimits({ now, limits }: { now: () => number; limits: RateLimits }) {
  const windows = new Map<string, Window>();

  /** The remaining calls before this one, which counts only if it is allowed. */
  function read(key: string, limit: number, lengthMs: number) {
    const last = windows.get(key);
    const window = last && now() - last.startedAtMs < lengthMs ? last : { startedAtMs: now(), calls: 0 };
    windows.set(key, window);
    return { window, limit, left: Math.max(0, limit - window.calls), resetAtMs: window.startedAtMs + lengthMs };
  }

  return function count(accountId: string): CountedCall {
    const minute = read(`minute ${accountId}`, limits.perUserPerMinute, MINUTE_MS);
    const hour = read(`hour ${accountId}`, limits.perUserPerHour, 60 * MINUTE_MS);
    const company = read('company', limits.perCompanyPerMinute, MINUTE_MS);
    const user = hour.left < minute.left ? hour : minute;
    const isRefused = limits.answer !== 'none' && Math.min(user.left, company.left) === 0;
    const spent = isRefused ? 0 : 1;
    for (const { window } of [minute, hour, company]) window.calls += spent;
    const seconds = (milliseconds: number) => String(Math.ceil(milliseconds / 1000));
    // With a 429 the reset is 0, as some platforms send it, so that clients must cope with it.
    const reset = (one: typeof user) => (isRefused && limits.answer === '429' ? '0' : seconds(one.resetAtMs));
    return {
      headers: {
        'X-Ratelimit-Limit': String(user.limit),
        'X-Ratelimit-Remaining': String(Math.max(0, user.left - spent)),
        'X-Ratelimit-Reset': reset(user),
        'X-Company-RateLimit-Limit': String(company.limit),
        'X-Company-RateLimit-Remaining': String(Math.max(0, company.left - spent)),
        'X-Company-RateLimit-Reset': reset(company),
        ...(isRefused && company.left === 0 ? { 'X-Company-Retry-After': seconds(company.resetAtMs - now()) } : {}),
      },
      ...(isRefused ? { refusedWith: limits.answer === '429' ? 429 : 503 } : {}),
    };
  };
}
