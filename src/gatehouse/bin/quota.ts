/** Budgets of paid calls to the BIN lookup service, counted in the store for all processes together. */

import type { BinBudget } from '../../shared/bin/lookup-result.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Store } from '../../shared/storage/store.ts';
import { DAY_SECONDS, isoTime } from '../../shared/time.ts';

/** The caller whose budget pays for a lookup. `callsPerMonth`: null if the relay token has no budget of its own. */
export type BinCaller =
  | { kind: 'user'; id: string }
  | { kind: 'relay_token'; id: string; callsPerMonth: number | null }
  | { kind: 'operator' };

/** `release`: returns the call if it was never sent. `secondsLeft`: until the spent budget is renewed. */
export type Reservation =
  | { granted: true; release(): Promise<void> }
  | { granted: false; secondsLeft: number; spent: BinBudget };

export interface BinQuota {
  /** Reserves one call in each budget of the caller before the call is made (R87, R93). */
  reserve(caller: BinCaller): Promise<Reservation>;
  /** Returns, for pages, the calls reserved this month, the limits, and when the month ends (ISO 8601). */
  status(): Promise<QuotaStatus>;
}

export interface BinQuotaLimits {
  /** Calls a month (UTC) of all callers together. */
  monthlyQuota: number;
  /** Calls of the monthly quota that only users may cause. */
  userReserve: number;
  /** Calls that one user may cause in a day (UTC). */
  userDailyQuota: number;
}

export interface QuotaStatus {
  used: number;
  limit: number;
  userReserve: number;
  userDailyQuota: number;
  resetsAt: string;
}

interface Period {
  /** The day or month of an instant (milliseconds since the epoch), as in ISO 8601. */
  nameOf(now: number): string;
  endOf(now: number): number;
  /** Longer than two periods, so that the counts of the earlier period still exist if the clock is set back. */
  lifetimeSeconds: number;
}

interface Budget {
  name: BinBudget;
  limit: number;
  period: Period;
  key(period: string): string;
}

const DAY: Period = {
  nameOf: (now) => isoTime(now).slice(0, 10),
  endOf: (now) => new Date(now).setUTCHours(24, 0, 0, 0),
  lifetimeSeconds: 3 * DAY_SECONDS,
};

const MONTH: Period = {
  nameOf: (now) => isoTime(now).slice(0, 7),
  endOf(now) {
    const date = new Date(now);
    return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1);
  },
  lifetimeSeconds: 100 * DAY_SECONDS,
};

/** @param parts `clock`: milliseconds since the epoch */
export function createBinQuota(parts: BinQuotaLimits & { store: Store; clock: () => number }): BinQuota {
  const { store, clock, monthlyQuota, userReserve, userDailyQuota } = parts;

  const monthly = (name: BinBudget, limit: number, key: Budget['key']): Budget => ({ name, limit, period: MONTH, key });
  const total = monthly('month', monthlyQuota, keys.binQuota);
  const unreserved = monthly('unreserved', Math.max(0, monthlyQuota - userReserve), keys.binQuota);

  const budgetsOf = (caller: BinCaller): Budget[] => {
    if (caller.kind === 'operator') return [unreserved];
    const key = (period: string) => keys.binCallsOf(caller.id, period);
    if (caller.kind === 'user') return [{ name: 'user', limit: userDailyQuota, period: DAY, key }, total];
    const { callsPerMonth } = caller;
    return callsPerMonth === null ? [unreserved] : [monthly('relay_token', callsPerMonth, key), unreserved];
  };

  /**
   * Returns the period of `now`, and the next one as well if calls were already counted in it. After the clock was set
   * back past the start of a period, the earlier one has calls left, but the service may count them in the later one.
   */
  const countedPeriods = async ({ key, period }: Budget, now: number): Promise<number[]> => {
    const next = period.endOf(now);
    return (await store.counter(key(period.nameOf(next)))) > 0 ? [next, now] : [now];
  };

  const release = async (reservations: readonly [Budget, number][]): Promise<void> => {
    for (const [{ key, period }, at] of reservations)
      await store.increment(key(period.nameOf(at)), -1, { lifetimeSeconds: period.lifetimeSeconds });
  };

  return {
    async reserve(caller) {
      const now = clock();
      const reservations: [Budget, number][] = [];
      for (const budget of budgetsOf(caller)) {
        const { name, limit, key, period } = budget;
        for (const at of await countedPeriods(budget, now)) {
          const { lifetimeSeconds } = period;
          const used = await store.increment(key(period.nameOf(at)), 1, { lifetimeSeconds, limit });
          if (used === undefined) {
            await release(reservations);
            return { granted: false, secondsLeft: Math.ceil((period.endOf(at) - now) / 1000), spent: name };
          }
          reservations.push([budget, at]);
        }
      }
      return { granted: true, release: () => release(reservations) };
    },

    async status() {
      const now = clock();
      const months = await countedPeriods(total, now);
      const counts = await Promise.all(months.map((at) => store.counter(keys.binQuota(MONTH.nameOf(at)))));
      const used = Math.max(...counts);
      const resetsAt = isoTime(MONTH.endOf(months[counts.indexOf(used)] ?? now));
      return { used, limit: monthlyQuota, userReserve, userDailyQuota, resetsAt };
    },
  };
}
