/** The platform's rate limits: calls of each user and of all users, stated in headers and optionally enforced. */

export interface RateLimits {
  /** Default 50. */
  perUserPerMinute: number;
  /** Default 750. */
  perUserPerHour: number;
  /** Default 600. */
  perCompanyPerMinute: number;
  /** The response to a call over the limit; `none`: the call is allowed, and only the headers show the limit. */
  response: 'none' | '503' | '429';
}

export const USUAL_LIMITS: RateLimits = {
  perUserPerMinute: 50,
  perUserPerHour: 750,
  perCompanyPerMinute: 600,
  response: 'none',
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
    const latest = windows.get(key);
    const window = latest && now() - latest.startedAtMs < lengthMs ? latest : { startedAtMs: now(), calls: 0 };
    windows.set(key, window);
    return { window, limit, remaining: Math.max(0, limit - window.calls), resetAtMs: window.startedAtMs + lengthMs };
  }

  return function count(accountId: string): CountedCall {
    const minute = read(`minute ${accountId}`, limits.perUserPerMinute, MINUTE_MS);
    const hour = read(`hour ${accountId}`, limits.perUserPerHour, 60 * MINUTE_MS);
    const company = read('company', limits.perCompanyPerMinute, MINUTE_MS);
    const user = hour.remaining < minute.remaining ? hour : minute;
    const isRefused = limits.response !== 'none' && Math.min(user.remaining, company.remaining) === 0;
    const spent = isRefused ? 0 : 1;
    for (const { window } of [minute, hour, company]) window.calls += spent;
    const seconds = (milliseconds: number) => String(Math.ceil(milliseconds / 1000));
    // With a 429 the reset is 0, as on some platforms, because clients must handle that.
    const reset = (state: typeof user) => (isRefused && limits.response === '429' ? '0' : seconds(state.resetAtMs));
    return {
      headers: {
        'X-Ratelimit-Limit': String(user.limit),
        'X-Ratelimit-Remaining': String(Math.max(0, user.remaining - spent)),
        'X-Ratelimit-Reset': reset(user),
        'X-Company-RateLimit-Limit': String(company.limit),
        'X-Company-RateLimit-Remaining': String(Math.max(0, company.remaining - spent)),
        'X-Company-RateLimit-Reset': reset(company),
        ...(isRefused && company.remaining === 0
          ? { 'X-Company-Retry-After': seconds(company.resetAtMs - now()) }
          : {}),
      },
      ...(isRefused ? { refusedWith: limits.response === '429' ? 429 : 503 } : {}),
    };
  };
}
