/** Measures durations without waits for a processor, and processor time, for tests on busy machines. */
import { readFileSync } from 'node:fs';
import { runningChildIds } from './child-processes.ts';

/**
 * Starts now. The returned function gives the milliseconds since then, without the time for which this process and its
 * children waited for a processor. On a quiet machine they do not wait.
 */
export function startStopwatch(): () => number {
  const startedAt = performance.now();
  const waitsAtStart = waitsOfThreads();
  return () => {
    let starved = 0;
    for (const [id, milliseconds] of waitsOfThreads()) {
      starved += Math.max(0, milliseconds - (waitsAtStart.get(id) ?? 0));
    }
    return performance.now() - startedAt - starved;
  };
}

/** Total milliseconds for which these processes were ready to run but had no processor. */
export function processorWaitOf(ids: readonly number[]): number {
  let total = 0;
  for (const id of ids) total += waitOf(id);
  return total;
}

/** Processor time of the work in milliseconds: the minimum of nine rounds, which other processes disturb least. */
export async function processorTimeOf(work: () => unknown): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < 9; round++) {
    const usageAtStart = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(usageAtStart);
    times.push((user + system) / 1000);
  }
  return Math.min(...times);
}

/** The waits of each main thread, from proc_pid_schedstat of Linux. */
function waitsOfThreads(): Map<number, number> {
  return new Map([process.pid, ...runningChildIds()].map((id) => [id, waitOf(id)]));
}

/** 0 if the process has ended, or on systems other than Linux. */
function waitOf(id: number): number {
  try {
    return Number(readFileSync(`/proc/${id}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
  } catch {
    return 0;
  }
}
