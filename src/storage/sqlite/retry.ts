/** Waits for a busy database in short pauses that leave the event loop free, up to a deadline. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isBusy, toStoreError } from './faults.ts';

/** How long SQLite itself may block the event loop in one attempt. With much more, processes starve. */
export const BUSY_TIMEOUT_MS = 5;

const FIRST_PAUSE_MS = 2;
const MAX_PAUSE_MS = 24;

export interface RetryOptions {
  deadlineMilliseconds: number;
  /** Between 0 and 1. */
  random: () => number;
}

/** Repeats synchronous work while the database is busy. @throws AppError `storage_unavailable` at the deadline */
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

/** Grows with the attempts, and varies by half of its length in both directions, so that processes do not retry in step. */
export function pauseMilliseconds(attempt: number, random: () => number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** attempt, MAX_PAUSE_MS) * (0.5 + random());
}
