/** Measures on a busy machine: how long something took, less the waits for a processor, and how much processor time it took. */
import { readFileSync } from 'node:fs';
import { runningIds } from './left-running.ts';

/**
 * Started at the call; the function that it returns tells the milliseconds since, less the time for which this process and
 * those that it started have waited for a processor. On a quiet machine they do not wait.
 */
export function startStopwatch(): () => number {
  const since = performance.now();
  const before = waits();
  return () => {
    let starved = 0;
    for (const [id, milliseconds] of waits()) starved += Math.max(0, milliseconds - (before.get(id) ?? 0));
    return performance.now() - since - starved;
  };
}

/** Milliseconds for which these processes, since they began, were ready to run and did not. */
export function waitedFor(ids: readonly number[]): number {
  return ids.reduce((sum, id) => sum + waitOf(id), 0);
}

/** Milliseconds of processor time that this process spends on the work: the least of nine, which others disturb least. */
export async function cpuOf(work: () => unknown): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < 9; round++) {
    const before = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(before);
    times.push((user + system) / 1000);
  }
  return Math.min(...times);
}

/** Of each main thread; Linux counts them (proc_pid_schedstat). */
function waits(): Map<number, number> {
  return new Map([process.pid, ...runningIds()].map((id) => [id, waitOf(id)]));
}

/** 0 where the process has ended, or this is no Linux: then all the time counts. */
function waitOf(id: number): number {
  try {
    return Number(readFileSync(`/proc/${id}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
  } catch {
    return 0;
  }
}
