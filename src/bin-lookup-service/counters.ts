/** The counters that quotas and bans need, and an in-memory version for the sandbox. */
import type { Store } from '../shared/storage/store.ts';

export type Counters = Pick<Store, 'increment' | 'counter'>;

/** @param clock milliseconds since the epoch */
export function createMemoryCounters(clock: () => number): Counters {
  const counters = new Map<string, { value: number; expiresAt: number }>();
  const read = (key: string) => {
    const counter = counters.get(key);
    return counter && counter.expiresAt > clock() ? counter : undefined;
  };
  return {
    async increment(key, by, { lifetimeSeconds, limit }) {
      const counter = read(key) ?? { value: 0, expiresAt: clock() + lifetimeSeconds * 1000 };
      if (limit !== undefined && counter.value + by > limit) return undefined;
      counter.value += by;
      counters.set(key, counter);
      return counter.value;
    },
    counter: async (key) => read(key)?.value ?? 0,
  };
}
