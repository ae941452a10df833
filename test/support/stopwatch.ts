/** Owns how long something took by what the program answers for: without the time in which it was ready to run, and other processes had the processor. */
import { readFileSync } from 'node:fs';

/**
 * Started at the call.
 * @param pid whose wait for the processor is left out, beside this process's own
 * @returns what tells the milliseconds since
 */
export function startStopwatch(pid?: number): () => number {
  const since = performance.now();
  const kept = keptWaiting(pid);
  return () => performance.now() - since - (keptWaiting(pid) - kept);
}

/** Milliseconds that the main threads were ready to run and did not: Linux counts them (proc_pid_schedstat). */
function keptWaiting(pid: number | undefined): number {
  const nanoseconds = ['self', ...(pid === undefined ? [] : [pid])].map((process) => {
    try {
      return Number(readFileSync(`/proc/${process}/schedstat`, 'utf8').split(' ')[1]);
    } catch {
      // No Linux, or the process has ended: all the time counts.
      return 0;
    }
  });
  return nanoseconds.reduce((sum, one) => sum + one, 0) / 1e6;
}
