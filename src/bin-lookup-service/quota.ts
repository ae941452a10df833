/**
 * Counts the requests of a month exactly, for all processes together. The requests of a caller that arrive during a
 * write are counted with the next write.
 */
import { remembered } from '../shared/remembered.ts';
import { keys } from '../shared/storage/keys.ts';
import type { Counters } from './counters.ts';
import { type Month, monthAt, monthOf, secondsLeft } from './month.ts';

export interface QuotaResult {
  granted: boolean;
  /** The remaining requests of this month. */
  remaining: number;
  resetSeconds: number;
  month: Month;
}

export interface Quota {
  /**
   * Counts one request, unless the limit is reached. Rejects with `storage_unavailable`.
   * @param limit the number of requests in a month
   */
  take(subject: string, limit: number): Promise<QuotaResult>;
  /** Returns the number of requests of this month, for pages. */
  used(subject: string): Promise<number>;
}

interface WaitingRequest {
  limit: number;
  resolve: (remaining: number) => void;
  reject: (error: unknown) => void;
}

// Longer than two months, so that after the clock is set back, the count of the earlier month still exists.
const LIFETIME_SECONDS = 100 * 24 * 3600;
/** For this time after a refusal, requests are refused without a write, in case the caller continues. */
const SPENT_MS = 1_000;
const MAX_SPENT = 10_000;
/** Several attempts, because other processes may use the remaining requests between the read and the reservation. */
const MAX_ATTEMPTS = 8;
const REFUSED = -1;

/** @param parts `clock`: milliseconds since the epoch */
export function createQuota(parts: { counters: Counters; clock: () => number }): Quota {
  const { counters, clock } = parts;
  const queues = new Map<string, WaitingRequest[]>();
  const spent = remembered<{ limit: number; at: number }>(MAX_SPENT);
  let month = monthOf(clock());

  /** Reserves as many requests as the limit still allows. */
  const reserve = async (key: string, count: number, limit: number): Promise<{ granted: number; used: number }> => {
    let requested = count;
    for (let attempt = 0; requested > 0 && attempt < MAX_ATTEMPTS; attempt += 1) {
      const used = await counters.increment(key, requested, { lifetimeSeconds: LIFETIME_SECONDS, limit });
      if (used !== undefined) return { granted: requested, used };
      requested = Math.min(requested, limit - (await counters.counter(key)));
    }
    return { granted: 0, used: limit };
  };

  const serve = async (key: string, queue: WaitingRequest[]): Promise<void> => {
    while (queue.length > 0) {
      const batch = queue.splice(0);
      // The plan can change between the requests: the latest limit applies.
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
    const entry = spent.get(key);
    return entry !== undefined && limit <= entry.limit && performance.now() - entry.at < SPENT_MS;
  };

  const count = (key: string, limit: number): Promise<number> => {
    if (isSpent(key, limit)) return Promise.resolve(REFUSED);
    return new Promise((resolve, reject) => {
      const waiting = { limit, resolve, reject };
      const queue = queues.get(key);
      if (queue) return void queue.push(waiting);
      const newQueue = [waiting];
      queues.set(key, newQueue);
      void serve(key, newQueue);
    });
  };

  return {
    async take(subject, limit) {
      month = monthAt(clock(), month);
      const countedMonth = month;
      const remaining = await count(keys.planUse(subject, countedMonth.id), limit);
      const resetSeconds = secondsLeft(countedMonth, clock());
      return { granted: remaining !== REFUSED, remaining: Math.max(0, remaining), resetSeconds, month: countedMonth };
    },
    used(subject) {
      month = monthAt(clock(), month);
      return counters.counter(keys.planUse(subject, month.id));
    },
  };
}
