/** Waits until a condition holds, and returns how long that took. */
import { setTimeout as sleep } from 'node:timers/promises';
import { startStopwatch } from './stopwatch.ts';

/** Ends only what hangs. */
const PATIENCE_MILLISECONDS = 120_000;
const PAUSE_MILLISECONDS = 20;

/** For `vi.waitFor` and `vi.waitUntil`, whose own patience is a second. */
export const PATIENTLY = { timeout: PATIENCE_MILLISECONDS };

/**
 * @returns the milliseconds that it took, by the stopwatch
 * @throws Error with the condition's text when it does not come true
 */
export async function until(
  holds: () => boolean | Promise<boolean>,
  milliseconds = PATIENCE_MILLISECONDS,
): Promise<number> {
  const took = startStopwatch();
  const deadline = performance.now() + milliseconds;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`It did not come true in ${milliseconds} ms: ${holds}`);
    await sleep(PAUSE_MILLISECONDS);
  }
  return took();
}
