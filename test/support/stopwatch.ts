/** Owns how long something took by what the program answers for: without the time in which this process was ready to run, and others had the processor. */
import { readFileSync } from 'node:fs';

/** Started at the call; the answer tells the milliseconds since. */
export function startStopwatch(): () => number {
  const since = performance.now();
  const kept = keptWaiting();
  return () => performance.now() - since - (keptWaiting() - kept);
}

/** Milliseconds that the main thread was ready to run and did not, since it began: Linux counts them (proc_pid_schedstat). */
function keptWaiting(): number {
  try {
    return Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[1]) / 1e6;
  } catch {
    // No Linux: all the time counts.
    return 0;
  }
}
