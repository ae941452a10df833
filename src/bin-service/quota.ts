/**
 * Counts a month's requests exactly, for all processes together. The requests of a caller that arrive during a write
 * share the next one.
 */
import { remembered } from '../shared/remembered.ts';
import { keys } from '../shared/storage/keys.ts';
import type { Counters } from './counters.ts';
import { type Month, monthAt, monthOf, secondsLeft } from './month.ts';

export interface Taken {
  granted: boolean;
  /** Requests left this month. */
  remaining: number;
  resetSeconds: number;
  month: Month;
}

export interface Quota {
  /**
   * Takes one request of this month. Rejects with `storage_unavailable`.
   * @param limit requests in a month
   */
  take(subject: string, limit: number): Promise<Taken>;
  /** For pages: requests this month. */
  used(subject: string): Promise<number>;
}

interface Waiting {
  limit: number;
  resolve: (remaining: number) => void;
  reject: (error: unknown) => void;
}

// Longer than two months, so that a clock set back finds the count of the earlier month.
const LIFETIME_SECONDS = 100 * 24 * 3600;
/** How long a spent limit is not counted again: a caller who goes on must not cost writes. */
const SPENT_MS = 1_000;
const MAX_SPENT = 10_000;
/** Other processes may take the rest between its reading and its reservation. */
const MAX_ATTEMPTS = 8;
const REFUSED = -1;

/** @param parts `clock`: milliseconds since the epoch */
export function createQuota(parts: { counters: Counters; clock: () => number }): Quota {
  const { counters, clock } = parts;
  const queues = new Map<string, Waiting[]>();
  const spent = remembered<{ limit: number; at: number }>(MAX_SPENT);
  let month = monthOf(clock());

  /** Counts as many as the limit still allows. */
  const reserve = async (key: string, count: number, limit: number): Promise<{ granted: number; used: number }> => {
    let wanted = count;
    for (let attempt = 0; wanted > 0 && attempt < MAX_ATTEMPTS; attempt += 1) {
      const used = await counters.increment(key, wanted, { lifetimeSeconds: LIFETIME_SECONDS, limit });
      if (used !== undefined) return { granted: wanted, used };
      wanted = Math.min(wanted, limit - (await counters.counter(key)));
    }
    return { granted: 0, used: limit };
  };

  const serve = async (key: string, queue: Waiting[]): Promise<void> => {
    while (queue.length > 0) {
      const batch = queue.splice(0);
      // A plan can change in between: the latest limit counts.
      const limit = batch.at(-1)?.limit ?? 0;
      try {
        const { granted, used } = await reserve(key, batch.length, limit);
        if (granted < batch.length) spent.set(key, { limit, at: performance.now() });
        for (const [index, { resolve }] of batch.entries())
          resolve(index < granted ? limit - used + granted - 1 - index : REFUSED);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    queues.delete(key);
  };

  const isSpent = (key: string, limit: number): boolean => {
    const last = spent.get(key);
    return last !== undefined && limit <= last.limit && performance.now() - last.at < SPENT_MS;
  };

  const count = (key: string, limit: number): Promise<number> => {
    if (isSpent(key, limit)) return Promise.resolve(REFUSED);
    return new Promise((resolve, reject) => {
      const waiting = { limit, resolve, reject };
      const queue = queues.get(key);
      if (queue) return void queue.push(waiting);
      const started = [waiting];
      queues.set(key, started);
      void serve(key, started);
    });
  };

  return {
    async take(subject, limit) {
      month = monthAt(clock(), month);
      const counted = month;
      const remaining = await count(keys.planUse(subject, counted.id), limit);
      const resetSeconds = secondsLeft(counted, clock());
      return { granted: remaining !== REFUSED, remaining: Math.max(0, remaining), resetSeconds, month: counted };
    },
    used(subject) {
      month = monthAt(clock(), month);
      return counters.counter(keys.planUse(subject, month.id));
    },
  };
}
