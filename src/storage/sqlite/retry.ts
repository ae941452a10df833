/** Waits for a busy database in short pauses that leave the event loop free, up to a deadline. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isBusy, toStoreError } from './faults.ts';

/**
 * Between two attempts, on average. Short, because a process that writes without a pause leaves the lock free for moments only.
 * SQLite itself never waits: that would hold up the event loop.
 */
const PAUSE_MS = 2;

/** Longer than any pause: whoever leaves the lock free for so long lets another process have it. */
export const YIELD_MS = 4;

export interface RetryOptions {
  deadlineMilliseconds: number;
  /** Between 0 and 1. */
  random: () => number;
}

/** Repeats synchronous work while the database is busy. @throws AppError `storage_unavailable` at the deadline */
export async function retryWhileBusy<T>(work: () => T, { deadlineMilliseconds, random }: RetryOptions): Promise<T> {
  const deadline = performance.now() + deadlineMilliseconds;
  for (;;) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || performance.now() >= deadline) throw toStoreError(error);
    }
    await sleep(pauseMilliseconds(random));
  }
}

/** Varies by half of its length in both directions, so that processes do not retry in step. */
export function pauseMilliseconds(random: () => number): number {
  return PAUSE_MS * (0.5 + random());
}
