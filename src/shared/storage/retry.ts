/** Retries while the store is unavailable, so that long work survives a short outage. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../errors.ts';

/**
 * Repeats the work while the store is unavailable. It may be done twice, because a rejected write may have been
 * applied.
 */
export async function retryWhileUnavailable<T>(
  work: () => Promise<T>,
  maxMilliseconds = 60_000,
  pauseMilliseconds = 500,
): Promise<T> {
  const deadline = performance.now() + maxMilliseconds;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const isUnavailable = error instanceof AppError && error.code === 'storage_unavailable';
      if (!isUnavailable || performance.now() > deadline) throw error;
      await sleep(pauseMilliseconds);
    }
  }
}
