/** Owns the monthly budget of calls to the BIN lookup service, shared by all processes through the store. */
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';

/** `secondsLeft`: until the budget is full again, the start of the next month in UTC. */
export type Reservation = { granted: true } | { granted: false; secondsLeft: number };

export interface BinQuota {
  /** Takes one call from this month's budget, before the call is made (R87). What the call then brings gives nothing back. */
  reserve(): Promise<Reservation>;
  /** For pages: calls reserved this month, the limit, and when the month ends (ISO 8601). */
  status(): Promise<{ used: number; limit: number; resetsAt: string }>;
}

// Longer than two months: a clock that goes back finds the month it left as it left it.
const LIFETIME_SECONDS = 100 * 24 * 3600;

/** @param parts `limit`: calls a month; `clock`: milliseconds since the epoch */
export function createBinQuota(parts: { store: Store; limit: number; clock: () => number }): BinQuota {
  const { store, limit, clock } = parts;
  return {
    async reserve() {
      const now = clock();
      const used = await store.increment(keyAt(now), 1, { lifetimeSeconds: LIFETIME_SECONDS, limit });
      if (used !== undefined) return { granted: true };
      return { granted: false, secondsLeft: Math.max(1, Math.ceil((monthEnd(now) - now) / 1000)) };
    },
    async status() {
      const now = clock();
      return { used: await store.counter(keyAt(now)), limit, resetsAt: new Date(monthEnd(now)).toISOString() };
    },
  };
}

function keyAt(now: number): string {
  return keys.binQuota(new Date(now).toISOString().slice(0, 7));
}

function monthEnd(now: number): number {
  const date = new Date(now);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1);
}
