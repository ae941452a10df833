/** Scheduled tasks: background work that one process at a time does at regular intervals. */
import { keys } from './keys.ts';
import { createLeases } from './lease.ts';
import type { Store } from './store.ts';

export interface ScheduledTask {
  name: string;
  everyMilliseconds: number;
  /**
   * Returns whether the work is due, if it rarely is. Called before the lease is acquired, since acquiring it is a
   * write.
   */
  isDue?: () => Promise<boolean>;
  /**
   * Does the task. If it rejects, it is repeated at the next interval.
   * @param turn once it is over, the work must start nothing more
   */
  work: (turn: TaskTurn) => Promise<unknown>;
}

export interface TaskTurn {
  /** True once this process is stopping or has lost the lease. */
  isOver(): boolean;
}

const LEASE_MS = 30_000;

/**
 * Starts each task within seconds, and then at its interval. A lease keeps other processes from doing the same task at
 * the same time.
 * @param parts `random` (0 to 1) spreads the tasks of processes that started together
 */
export function startScheduledTasks(parts: {
  store: Store;
  random: () => number;
  scheduledTasks: readonly ScheduledTask[];
}) {
  const { store, random, scheduledTasks } = parts;
  const leases = createLeases({ store, milliseconds: LEASE_MS });
  const runningTurns = new Set<Promise<unknown>>();
  const timers = new Map<string, NodeJS.Timeout>();
  let isStopped = false;

  const run = async ({ name, isDue, work }: ScheduledTask): Promise<void> => {
    if (isDue && !(await isDue())) return;
    await leases.hold(keys.taskLease(name), ({ isLost }) => work({ isOver: () => isStopped || isLost() }));
  };

  const schedule = (task: ScheduledTask, milliseconds: number): void => {
    if (isStopped) return;
    const timer = setTimeout(() => {
      const turn = run(task).catch(() => undefined);
      runningTurns.add(turn);
      void turn.finally(() => {
        runningTurns.delete(turn);
        schedule(task, task.everyMilliseconds * (0.75 + random() / 2));
      });
    }, milliseconds);
    timers.set(task.name, timer.unref());
  };

  for (const task of scheduledTasks) schedule(task, Math.min(task.everyMilliseconds, 5_000) * (0.5 + random() / 2));

  return {
    /** Starts no further task, and resolves once the running ones are done. */
    async close(): Promise<void> {
      isStopped = true;
      for (const timer of timers.values()) clearTimeout(timer);
      await Promise.all(runningTurns);
    },
  };
}
