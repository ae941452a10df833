/** Chores: background work that is done from time to time, by one process at a time. */

import { keys } from './keys.ts';
import { createLeases } from './lease.ts';
import type { Store } from './store.ts';

export interface Chore {
  name: string;
  everyMilliseconds: number;
  /** What fails is done at the next turn. */
  work: () => Promise<unknown>;
}

export interface Chores {
  /** Begins no further turn, and resolves once what is being done is done. */
  close(): Promise<void>;
}

const LEASE_MILLISECONDS = 30_000;

/**
 * Starts each soon after the start and then at its interval; the lease keeps other processes from doing the same meanwhile.
 * @param parts `random` (0 to 1) spreads the turns of processes that started together
 */
export function startChores(parts: { store: Store; random: () => number; chores: readonly Chore[] }): Chores {
  const { store, random, chores } = parts;
  const leases = createLeases({ store, milliseconds: LEASE_MILLISECONDS });
  const underWay = new Set<Promise<unknown>>();
  const timers = new Map<string, NodeJS.Timeout>();
  let stopped = false;

  const plan = (chore: Chore, milliseconds: number): void => {
    if (stopped) return;
    const timer = setTimeout(() => {
      const turn = leases.hold(keys.choreLease(chore.name), chore.work).catch(() => undefined);
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
    async close() {
      stopped = true;
      for (const timer of timers.values()) clearTimeout(timer);
      await Promise.all(underWay);
    },
  };
}
