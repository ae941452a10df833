/** Counts calls over the last minute for all processes. Each call is reserved first, so no minute exceeds the limit. */
import { setTimeout as sleep } from 'node:timers/promises';
import { remembered } from '../../shared/remembered.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Store } from '../../shared/storage/store.ts';

const WINDOW_MS = 10_000;
/** Together with the current window they always cover the last minute. */
const PAST_WINDOWS = 6;
const LIFETIME_SECONDS = 90;
/** The count of a window is final this long after its end, even if the clocks of the processes differ slightly. */
const FINAL_MS = 2_000;
/** How long a late reservation waits until other late ones are released, before it is tried again. */
const LATE_MS = 100;
const MAX_CACHED = 20_000;

export interface CallWindows {
  /**
   * Reserves one call. Returns undefined, or the whole seconds until another call may be free.
   * @param limit calls in any 60 s
   */
  reserve(appId: string, ownerId: string, limit: number): Promise<number | undefined>;

  /**
   * Releases a reserved call that was not sent.
   * @param reservedAt when `reserve` resolved, in milliseconds since the epoch
   */
  release(appId: string, ownerId: string, reservedAt: number): Promise<void>;
}

export function createCallWindows({ store, clock }: { store: Store; clock: () => number }): CallWindows {
  const finals = remembered<number>(MAX_CACHED);

  const countIn = async (appId: string, ownerId: string, window: number, now: number): Promise<number> => {
    const key = keys.providerCalls(appId, ownerId, window);
    const cachedCount = finals.get(key);
    if (cachedCount !== undefined) return cachedCount;
    const count = await store.counter(key);
    if (now >= (window + 1) * WINDOW_MS + FINAL_MS) finals.set(key, count);
    return count;
  };

  const decrement = async (key: string): Promise<void> => {
    await store.increment(key, -1, { lifetimeSeconds: LIFETIME_SECONDS }).catch(() => undefined);
  };

  const reserve = async (appId: string, ownerId: string, limit: number): Promise<number | undefined> => {
    const now = clock();
    const current = windowAt(now);
    const windows = Array.from({ length: PAST_WINDOWS }, (_none, at) => current - PAST_WINDOWS + at);
    const counts = await Promise.all(windows.map((window) => countIn(appId, ownerId, window, now)));
    const remaining = limit - sumOf(counts);
    const key = keys.providerCalls(appId, ownerId, current);
    const reserved =
      remaining > 0
        ? await store.increment(key, 1, { lifetimeSeconds: LIFETIME_SECONDS, limit: remaining })
        : undefined;
    if (reserved === undefined) {
      return secondsUntilFree([...counts, await store.counter(key)], current, limit, now);
    }
    if (windowAt(clock()) === current) return undefined;
    // The window has ended, and a process that counted it from the next window may have missed this call.
    await decrement(key);
    // Other processes may be late as well, and about to release their calls.
    await sleep(LATE_MS);
    return reserve(appId, ownerId, limit);
  };

  return {
    reserve,

    release: (appId, ownerId, reservedAt) =>
      // From the window that counted the call: released from a later window, it would permit one call too many.
      decrement(keys.providerCalls(appId, ownerId, windowAt(reservedAt))),
  };
}

const sumOf = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0);

function windowAt(time: number): number {
  return Math.floor(time / WINDOW_MS);
}

/** The oldest window leaves the minute first. A call is free once enough calls have left it. */
function secondsUntilFree(counts: readonly number[], current: number, limit: number, now: number): number {
  let total = sumOf(counts);
  for (const [at, count] of counts.entries()) {
    total -= count;
    if (total >= limit) continue;
    const leavesAt = (current + at + 1) * WINDOW_MS;
    return Math.max(1, Math.ceil((leavesAt - now) / 1000));
  }
  return 60;
}
