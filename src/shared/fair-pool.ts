/**
 * Shares slots for background work among receivers, apps or providers, in turn: p-queue and Bottleneck share them by
 * priority. One that hangs delays only its own work.
 */

/** A call, which resolves to whether it succeeded. */
type Work = () => Promise<boolean>;

interface Share {
  waiting: Work[];
  running: number;
  /** Maximum number of calls that run at a time. */
  limit: number;
}

/** Work that takes longer releases its slot, and continues without one. */
const PROMPT_MS = 2_000;

/**
 * Creates a pool that assigns free slots to the keys in turn. A key starts with a limit of one. Each success doubles
 * its limit, up to `share`, and a failure sets it back to one. So a receiver that hangs has one call at a time, which
 * has a slot for two seconds. Work must have a deadline of its own, which ends the work without a slot.
 * @param options `slots`: the number of calls that run at a time; `share`: the highest limit of a key
 */
export function createFairPool({ slots, share }: { slots: number; share: number }) {
  /** The keys in the order of their turns. A key without work has no entry. */
  const shares = new Map<string, Share>();
  let usedSlots = 0;
  let idle = Promise.withResolvers<void>();
  idle.resolve();

  const run = async (key: string, state: Share, work: Work): Promise<void> => {
    state.running += 1;
    usedSlots += 1;
    let hasSlot = true;
    const releaseSlot = () => {
      if (hasSlot) usedSlots -= 1;
      hasSlot = false;
    };
    const timer = setTimeout(() => {
      releaseSlot();
      startNext();
    }, PROMPT_MS);
    const isSuccess = await work().catch(() => false);
    clearTimeout(timer);
    releaseSlot();
    state.running -= 1;
    state.limit = isSuccess ? Math.min(share, 2 * state.limit) : 1;
    if (state.running + state.waiting.length === 0) shares.delete(key);
    if (shares.size === 0) idle.resolve();
    startNext();
  };

  const startNext = (): void => {
    // A key that is set again moves to the end, where this loop reaches it once more.
    for (const [key, state] of shares) {
      if (usedSlots >= slots) return;
      if (state.running >= state.limit) continue;
      const work = state.waiting.shift();
      if (!work) continue;
      shares.delete(key);
      shares.set(key, state);
      void run(key, state, work);
    }
  };

  return {
    /** Adds work. If it rejects, it counts as failed. */
    add(key: string, work: Work): void {
      if (shares.size === 0) idle = Promise.withResolvers<void>();
      const state = shares.get(key) ?? { waiting: [], running: 0, limit: 1 };
      shares.set(key, state);
      state.waiting.push(work);
      startNext();
    },
    /** Returns the number of calls of this key that wait or run. */
    load(key: string): number {
      const { waiting, running } = shares.get(key) ?? { waiting: [], running: 0 };
      return waiting.length + running;
    },
    isIdle: () => shares.size === 0,
    /** Resolves once nothing waits or runs. */
    idle: (): Promise<void> => idle.promise,
    /** Drops waiting work, and resolves once nothing runs. */
    stop(): Promise<void> {
      for (const [key, state] of shares) {
        state.waiting = [];
        if (state.running === 0) shares.delete(key);
      }
      if (shares.size === 0) idle.resolve();
      return idle.promise;
    },
  };
}

/** Processes the items of each key independently, `atOnce` at a time for each. Rejects with the first failure. */
export async function workByKey<T>(
  items: readonly T[],
  { keyOf, atOnce }: { keyOf: (item: T) => string; atOnce: number },
  work: (item: T) => Promise<unknown> | undefined,
): Promise<void> {
  const processEach = async (remaining: Iterable<T>): Promise<void> => {
    for (const item of remaining) await work(item);
  };
  const workers = [...Map.groupBy(items, keyOf).values()].flatMap((itemsOfKey) => {
    const remaining = itemsOfKey.values();
    return Array.from({ length: Math.min(atOnce, itemsOfKey.length) }, () => processEach(remaining));
  });
  await Promise.all(workers);
}
