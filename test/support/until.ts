/** Waits until a condition holds, and returns how long that took. */
import { setTimeout as sleep } from 'node:timers/promises';
import { startStopwatch } from './stopwatch.ts';

/** Long enough to fail only tests that hang. */
const MAX_WAIT_MILLISECONDS = 120_000;
const PAUSE_MILLISECONDS = 20;

/** For `vi.waitFor` and `vi.waitUntil`, whose default timeout is a second. */
export const LONG_TIMEOUT = { timeout: MAX_WAIT_MILLISECONDS };

/**
 * @returns the milliseconds that it took, by the stopwatch
 * @throws Error with the text of the condition after `milliseconds`
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  milliseconds = MAX_WAIT_MILLISECONDS,
): Promise<number> {
  const elapsed = startStopwatch();
  const deadline = performance.now() + milliseconds;
  while (!(await condition())) {
    if (performance.now() > deadline)
      throw new Error(`This condition was not met within ${milliseconds} ms: ${condition}`);
    await sleep(PAUSE_MILLISECONDS);
  }
  return elapsed();
}
