/** Retries while unavailable: a store that is away for a moment does not end long work. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../errors.ts';

const MINUTE_MILLISECONDS = 60_000;
const PAUSE_MILLISECONDS = 500;

/** Does it again while the store does not answer. The work may be done twice: what was rejected is unknown. */
export async function patiently<T>(
  work: () => Promise<T>,
  mostMilliseconds = MINUTE_MILLISECONDS,
  pauseMilliseconds = PAUSE_MILLISECONDS,
): Promise<T> {
  const until = performance.now() + mostMilliseconds;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const passing = error instanceof AppError && error.code === 'storage_unavailable';
      if (!passing || performance.now() > until) throw error;
      await sleep(pauseMilliseconds);
    }
  }
}
