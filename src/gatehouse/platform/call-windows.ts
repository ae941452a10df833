/** Limits the calls of all processes in any minute. Each call is reserved first, so no minute exceeds the limit. */
import { setTimeout as sleep } from 'node:timers/promises';
import { remembered } from '../../shared/remembered.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Store } from '../../shared/storage/store.ts';

const WINDOW_MS = 10_000;
/** Together with the current window, these windows always cover the last minute. */
const PAST_WINDOWS = 6;
const LIFETIME_SECONDS = 90;
/** A window's count is final this long after its end, even if the clocks of the processes differ slightly. */
const FINAL_MS = 2_000;
/** How long a late reservation waits for other late ones to be released before it is tried again. */
const LATE_MS = 100;
const MAX_CACHED = 20_000;

export interface CallWindows {
  /**
   * Reserves one call. Returns undefined if it is reserved, otherwise the whole seconds until a call may be free.
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
  const finalCounts = remembered<number>(MAX_CACHED);

  const countIn = async (appId: string, ownerId: string, window: number, now: number): Promise<number> => {
    const key = keys.providerCalls(appId, ownerId, window);
    const cachedCount = finalCounts.get(key);
    if (cachedCount !== undefined) return cachedCount;
    const count = await store.counter(key);
    if (now >= (window + 1) * WINDOW_MS + FINAL_MS) finalCounts.set(key, count);
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
    const newCount =
      remaining > 0
        ? await store.increment(key, 1, { lifetimeSeconds: LIFETIME_SECONDS, limit: remaining })
        : undefined;
    if (newCount === undefined) {
      return secondsUntilFree([...counts, await store.counter(key)], current, limit, now);
    }
    if (windowAt(clock()) === current) return undefined;
    // The window has ended, and a process that counted it from the next window may have missed this call.
    await decrement(key);
    // Other processes may be late as well, and may be about to release their calls.
    await sleep(LATE_MS);
    return reserve(appId, ownerId, limit);
  };

  return {
    reserve,

    release: (appId, ownerId, reservedAt) =>
      // Uses the window that counted the call: released from a later window, it would permit one call too many.
      decrement(keys.providerCalls(appId, ownerId, windowAt(reservedAt))),
  };
}

const sumOf = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0);

function windowAt(time: number): number {
  return Math.floor(time / WINDOW_MS);
}

/** Returns the whole seconds until a call is free: the windows leave the minute one by one, the oldest first. */
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
