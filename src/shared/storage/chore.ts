/** Chores: background work that one process at a time does at intervals. */
import { keys } from './keys.ts';
import { createLeases } from './lease.ts';
import type { Store } from './store.ts';

export interface Chore {
  name: string;
  everyMilliseconds: number;
  /** Asked before the lease is taken, which is a write, for work that is rarely due. */
  isDue?: () => Promise<boolean>;
  /**
   * If it fails, it is repeated at the next interval.
   * @param turn once it is over, nothing more is started
   */
  work: (turn: ChoreTurn) => Promise<unknown>;
}

export interface ChoreTurn {
  /** True once this process stops, or has lost the lease. */
  isOver(): boolean;
}

const LEASE_MS = 30_000;

/**
 * Starts each chore soon, and then at its interval. A lease keeps other processes from doing the same chore at the same time.
 * @param parts `random` (0 to 1) spreads the chores of processes that started together
 */
export function startChores(parts: { store: Store; random: () => number; chores: readonly Chore[] }) {
  const { store, random, chores } = parts;
  const leases = createLeases({ store, milliseconds: LEASE_MS });
  const underWay = new Set<Promise<unknown>>();
  const timers = new Map<string, NodeJS.Timeout>();
  let stopped = false;

  const run = async ({ name, isDue, work }: Chore): Promise<void> => {
    if (isDue && !(await isDue())) return;
    await leases.hold(keys.choreLease(name), ({ isLost }) => work({ isOver: () => stopped || isLost() }));
  };

  const plan = (chore: Chore, milliseconds: number): void => {
    if (stopped) return;
    const timer = setTimeout(() => {
      const turn = run(chore).catch(() => undefined);
      underWay.add(turn);
      void turn.finally(() => {
        underWay.delete(turn);
        plan(chore, chore.everyMilliseconds * (0.75 + random() / 2));
      });
    }, milliseconds);
    timers.set(chore.name, timer.unref());
  };

  for (const chore of chores) plan(chore, Math.min(chore.everyMilliseconds, 5_000) * (0.5 + random() / 2));

  return {
    /** Starts no further chore, and resolves once those under way are done. */
    async close(): Promise<void> {
      stopped = true;
      for (const timer of timers.values()) clearTimeout(timer);
      await Promise.all(underWay);
    },
  };
}
