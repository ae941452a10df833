/** Waits for a busy database: short jittered pauses that leave the event loop free, up to a deadline. */

import { setTimeout as sleep } from 'node:timers/promises';
import { isBusy, toStoreError } from './faults.ts';

/** How long SQLite itself may block the event loop in one attempt; processes starve when it is much more. */
export const BUSY_TIMEOUT_MILLISECONDS = 5;

const FIRST_PAUSE_MILLISECONDS = 2;
const MAX_PAUSE_MS = 24;

export interface RetryOptions {
  deadlineMilliseconds: number;
  /** Between 0 and 1. */
  random: () => number;
}

/** Runs synchronous work, again while the database is busy; rejects with `storage_unavailable` at the deadline. */
export async function retryWhileBusy<T>(work: () => T, { deadlineMilliseconds, random }: RetryOptions): Promise<T> {
  const deadline = performance.now() + deadlineMilliseconds;
  for (let attempt = 0; ; attempt += 1) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || performance.now() >= deadline) throw toStoreError(error);
    }
    await sleep(pauseMilliseconds(attempt, random));
  }
}

/** Grows with the attempts, and lies between a half and one and a half of its middle, so that processes do not march in step. */
export function pauseMilliseconds(attempt: number, random: () => number): number {
  const middle = Math.min(FIRST_PAUSE_MILLISECONDS * 2 ** attempt, MAX_PAUSE_MS);
  return middle * (0.5 + random());
}
