/** The platform's rate limits for each user and for all users. Headers state them, and an option enforces them. */

export interface RateLimits {
  /** Calls of each user in a minute. Default 50. */
  perUserPerMinute: number;
  /** Calls of each user in an hour. Default 750. */
  perUserPerHour: number;
  /** Calls of all users in a minute. Default 600. */
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
  /** The status of the refusal; absent if the call is allowed. */
  refusedWith?: 429 | 503;
}

interface Window {
  startedAtMs: number;
  calls: number;
}

const MINUTE_MS = 60_000;

/** Creates the function that counts calls. Reset times are UTC timestamps in seconds. */
export function createRateLimits({ now, limits }: { now: () => number; limits: RateLimits }) {
  /** Two windows for each account and one for all, so the map stays small. */
  const windows = new Map<string, Window>();

  /** Returns the remaining calls before this one, which counts only if it is allowed. */
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
    const callCount = isRefused ? 0 : 1;
    for (const { window } of [minute, hour, company]) window.calls += callCount;
    const seconds = (milliseconds: number) => String(Math.ceil(milliseconds / 1000));
    // With a 429 the reset is 0, as on some platforms, because clients must handle that.
    const resetOf = (state: typeof user) => (isRefused && limits.response === '429' ? '0' : seconds(state.resetAtMs));
    return {
      headers: {
        'X-Ratelimit-Limit': String(user.limit),
        'X-Ratelimit-Remaining': String(Math.max(0, user.remaining - callCount)),
        'X-Ratelimit-Reset': resetOf(user),
        'X-Company-RateLimit-Limit': String(company.limit),
        'X-Company-RateLimit-Remaining': String(Math.max(0, company.remaining - callCount)),
        'X-Company-RateLimit-Reset': resetOf(company),
        ...(isRefused && company.remaining === 0
          ? { 'X-Company-Retry-After': seconds(company.resetAtMs - now()) }
          : {}),
      },
      ...(isRefused ? { refusedWith: limits.response === '429' ? 429 : 503 } : {}),
    };
  };
}
