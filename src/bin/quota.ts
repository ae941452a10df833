/** Owns the monthly budget of calls to the BIN lookup service, shared by all processes through the store. */
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';

/**
 * `giveBack`: for a call that never left. `secondsLeft`: until the budget is full again, the start of the next month in
 * UTC. `kept`: calls are left, but not for bulk jobs.
 */
export type Reservation =
  | { granted: true; giveBack(): Promise<void> }
  | { granted: false; secondsLeft: number; kept: boolean };

export interface BinQuota {
  /**
   * Takes one call from this month's budget, before the call is made (R87). What the call then brings gives nothing back.
   * @param use bulk jobs leave the reserve alone
   */
  reserve(use?: 'single' | 'bulk'): Promise<Reservation>;
  /** For pages: calls reserved this month, the limit, what bulk jobs may not touch, and when the month ends (ISO 8601). */
  status(): Promise<QuotaStatus>;
}

export interface QuotaStatus {
  used: number;
  limit: number;
  bulkReserve: number;
  resetsAt: string;
}

// Longer than two months: a clock that goes back finds the month it left as it left it.
const LIFETIME_SECONDS = 100 * 24 * 3600;

/** @param parts `limit`: calls a month; `bulkReserve`: how many of them bulk jobs leave alone; `clock`: milliseconds since the epoch */
export function createBinQuota(parts: {
  store: Store;
  limit: number;
  bulkReserve?: number;
  clock: () => number;
}): BinQuota {
  const { store, limit, bulkReserve = 0, clock } = parts;

  /**
   * This month, and the next one where calls were counted in it already: a clock that goes back over the start of a month
   * finds calls left in the earlier one, but the service may count them in the later one.
   */
  const countedMonths = async (now: number): Promise<number[]> => {
    const next = monthEnd(now);
    return (await store.counter(keyAt(next))) > 0 ? [next, now] : [now];
  };

  const giveBack = async (months: readonly number[]): Promise<void> => {
    for (const month of months) await store.increment(keyAt(month), -1, { lifetimeSeconds: LIFETIME_SECONDS });
  };

  return {
    async reserve(use = 'single') {
      const now = clock();
      const most = use === 'bulk' ? Math.max(0, limit - bulkReserve) : limit;
      const taken: number[] = [];
      for (const month of await countedMonths(now)) {
        const key = keyAt(month);
        const used = await store.increment(key, 1, { lifetimeSeconds: LIFETIME_SECONDS, limit: most });
        if (used === undefined) {
          await giveBack(taken);
          const secondsLeft = Math.max(1, Math.ceil((monthEnd(month) - now) / 1000));
          return { granted: false, secondsLeft, kept: most < limit && (await store.counter(key)) < limit };
        }
        taken.push(month);
      }
      return { granted: true, giveBack: () => giveBack(taken) };
    },
    async status() {
      const now = clock();
      const months = await countedMonths(now);
      const counts = await Promise.all(months.map((month) => store.counter(keyAt(month))));
      const most = counts.indexOf(Math.max(...counts));
      const resetsAt = new Date(monthEnd(months[most] ?? now)).toISOString();
      return { used: counts[most] ?? 0, limit, bulkReserve, resetsAt };
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
