/** Owns the rate-limit headers of the platform: they count each user's calls of the running minute and refuse nothing. */

const PER_MINUTE = 50;
const MINUTE_MS = 60_000;

/** `X-Ratelimit-Reset` is a UTC timestamp in seconds. One entry for each account, so it cannot grow. */
export function createRateHeaders({ now }: { now: () => number }) {
  const windows = new Map<string, { startedAtMs: number; calls: number }>();

  return (accountId: string): Record<string, string> => {
    const known = windows.get(accountId);
    const current = known && now() - known.startedAtMs < MINUTE_MS ? known : { startedAtMs: now(), calls: 0 };
    current.calls += 1;
    windows.set(accountId, current);
    return {
      'X-Ratelimit-Limit': String(PER_MINUTE),
      'X-Ratelimit-Remaining': String(Math.max(0, PER_MINUTE - current.calls)),
      'X-Ratelimit-Reset': String(Math.ceil((current.startedAtMs + MINUTE_MS) / 1000)),
    };
  };
}
