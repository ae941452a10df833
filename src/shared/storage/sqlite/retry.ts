/** Retries while the database is busy, with short pauses that leave the event loop free, until a deadline. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isBusy, toStoreError } from './faults.ts';

/** The pause is short, because another process may release the lock only briefly. */
const AVERAGE_PAUSE_MS = 2;

/**
 * The time for which a process leaves the lock free. It exceeds the longest pause of a writer, so another process can
 * acquire the lock.
 */
export const YIELD_MS = 4;

export interface RetryOptions {
  deadlineMilliseconds: number;
  /** Returns a number between 0 and 1. */
  random: () => number;
}

/** Repeats synchronous work while the database is busy. @throws AppError `storage_unavailable` after the deadline */
export async function retryWhileBusy<T>(work: () => T, options: RetryOptions): Promise<T> {
  const deadline = performance.now() + options.deadlineMilliseconds;
  for (;;) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || performance.now() >= deadline) throw toStoreError(error);
    }
    await sleep(pauseMilliseconds(options));
  }
}

/**
 * Returns a pause that varies by half of the average in both directions, so that processes do not retry at the same
 * time.
 */
export function pauseMilliseconds({ random }: Pick<RetryOptions, 'random'>): number {
  return AVERAGE_PAUSE_MS * (0.5 + random());
}
