/** Owns the rate limits of the platform: calls of each user and of all together, told in headers, refused where so set. */

export interface RateLimits {
  /** Default 50. */
  perUserPerMinute: number;
  /** Default 750. */
  perUserPerHour: number;
  /** Default 600. */
  perCompanyPerMinute: number;
  /** How a call over the limit is answered; `none`: it is let through, and only the headers count. */
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

/** Resets are UTC timestamps in seconds. A few entries for each account, so it cannot grow without bound. */
export function createRateLimits({ now, limits }: { now: () => number; limits: RateLimits }) {
  const windows = new Map<string, Window>();

  /** What is left before this call, which counts only where it is let through. */
  function look(key: string, most: number, lengthMs: number) {
    const known = windows.get(key);
    const window = known && now() - known.startedAtMs < lengthMs ? known : { startedAtMs: now(), calls: 0 };
    windows.set(key, window);
    return { window, most, left: Math.max(0, most - window.calls), resetAtMs: window.startedAtMs + lengthMs };
  }

  return function count(accountId: string): CountedCall {
    const minute = look(`minute ${accountId}`, limits.perUserPerMinute, MINUTE_MS);
    const hour = look(`hour ${accountId}`, limits.perUserPerHour, 60 * MINUTE_MS);
    const company = look('company', limits.perCompanyPerMinute, MINUTE_MS);
    const user = hour.left < minute.left ? hour : minute;
    const isRefused = limits.answer !== 'none' && Math.min(user.left, company.left) === 0;
    const spent = isRefused ? 0 : 1;
    for (const { window } of [minute, hour, company]) window.calls += spent;
    const seconds = (milliseconds: number) => String(Math.ceil(milliseconds / 1000));
    // With a 429 the reset may be 0: whoever reads it as a time has been told nothing.
    const reset = (one: typeof user) => (isRefused && limits.answer === '429' ? '0' : seconds(one.resetAtMs));
    return {
      headers: {
        'X-Ratelimit-Limit': String(user.most),
        'X-Ratelimit-Remaining': String(Math.max(0, user.left - spent)),
        'X-Ratelimit-Reset': reset(user),
        'X-Company-RateLimit-Limit': String(company.most),
        'X-Company-RateLimit-Remaining': String(Math.max(0, company.left - spent)),
        'X-Company-RateLimit-Reset': reset(company),
        ...(isRefused && company.left === 0 ? { 'X-Company-Retry-After': seconds(company.resetAtMs - now()) } : {}),
      },
      ...(isRefused ? { refusedWith: limits.answer === '429' ? 429 : 503 } : {}),
    };
  };
}
