/** Owns the counting of calls over the last minute by all processes: reserved one by one, so that no minute ever holds more than the limit. */
import { setTimeout as sleep } from 'node:timers/promises';
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';

export interface CallWindows {
  /**
   * Reserves one call; answers undefined, or the whole seconds until there may be room again.
   * @param limit most calls in any minute
   */
  reserve(appId: string, whom: string, limit: number): Promise<number | undefined>;
  /** Gives back a call that was not made. @param reservedAt when `reserve` had answered, in milliseconds since the epoch */
  giveBack(appId: string, whom: string, reservedAt: number): Promise<void>;
}

const WINDOW_MILLISECONDS = 10_000;
/** With the running one they reach back over a minute at any moment. */
const PAST_WINDOWS = 6;
const KEPT_SECONDS = 90;
/** When a window has been over for so long its count moves no more, clocks a little apart included. */
const FINAL_MILLISECONDS = 2_000;
/** So long whoever was late waits for others who were, before it counts anew. */
const TURN_MILLISECONDS = 100;
const MOST_CACHED = 20_000;

export function createCallWindows(parts: { store: Store; clock: () => number }): CallWindows {
  const { store, clock } = parts;
  const finals = new Map<string, number>();

  const past = async (key: string, window: number, now: number): Promise<number> => {
    const known = finals.get(key);
    if (known !== undefined) return known;
    const count = await store.counter(key);
    if (now >= (window + 1) * WINDOW_MILLISECONDS + FINAL_MILLISECONDS) {
      if (finals.size >= MOST_CACHED) finals.clear();
      finals.set(key, count);
    }
    return count;
  };

  const give = async (key: string): Promise<void> => {
    await store.increment(key, -1, { lifetimeSeconds: KEPT_SECONDS }).catch(() => undefined);
  };

  const reserve: CallWindows['reserve'] = async (appId, whom, limit) => {
    const now = clock();
    const running = windowAt(now);
    const windows = Array.from({ length: PAST_WINDOWS }, (_none, at) => running - PAST_WINDOWS + at);
    const counts = await Promise.all(windows.map((one) => past(keys.providerCalls(appId, whom, one), one, now)));
    const spent = counts.reduce((sum, count) => sum + count, 0);
    const key = keys.providerCalls(appId, whom, running);
    const left = limit - spent;
    const taken = left > 0 ? await store.increment(key, 1, { lifetimeSeconds: KEPT_SECONDS, limit: left }) : undefined;
    if (taken === undefined) {
      return secondsUntilRoom([...counts, await store.counter(key)], running, limit, now);
    }
    if (windowAt(clock()) === running) return undefined;
    // It turned meanwhile: whoever looked at it from the next one may not have seen this call.
    await give(key);
    // Others may have been as late: what they are about to give back is no call.
    await sleep(TURN_MILLISECONDS);
    return reserve(appId, whom, limit);
  };

  return {
    reserve,
    // Out of the window that holds it: taken out of a later one it would leave room there that is none.
    giveBack: (appId, whom, reservedAt) => give(keys.providerCalls(appId, whom, windowAt(reservedAt))),
  };
}

function windowAt(time: number): number {
  return Math.floor(time / WINDOW_MILLISECONDS);
}

/** The oldest windows leave the minute first; there is room once enough of them have. */
function secondsUntilRoom(counts: readonly number[], running: number, limit: number, now: number): number {
  let held = counts.reduce((sum, count) => sum + count, 0);
  for (const [at, count] of counts.entries()) {
    held -= count;
    if (held >= limit) continue;
    const leavesAt = (running + at + 1) * WINDOW_MILLISECONDS;
    return Math.max(1, Math.ceil((leavesAt - now) / 1000));
  }
  return 60;
}
