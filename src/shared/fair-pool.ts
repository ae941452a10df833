/** Shares the places of background work among receivers, apps or providers: one that hangs delays its own work only. */

/** Resolves with whether the receiver did as it should. */
type Work = () => Promise<boolean>;

interface Share {
  waiting: Work[];
  running: number;
  /** How much may run at a time. */
  limit: number;
}

/** Work that takes longer leaves its place to others, and goes on. */
const PROMPT_MS = 2_000;

/**
 * Places become free as work ends, and are given to the keys in turn. The first work of a key runs alone. Each success
 * doubles what may run at a time for this key, up to its share; a failure sets it back to one. So a receiver that hangs
 * has one call at a time, which keeps a place for two seconds. Work must end by itself, at its deadline: this bounds the
 * work that goes on beyond the places.
 * @param options `places`: work that runs at a time; `share`: the part of a key
 */
export function createFairPool({ places, share }: { places: number; share: number }) {
  /** In the order of their turns. A key without work has no entry. */
  const shares = new Map<string, Share>();
  let taken = 0;
  let idle = Promise.withResolvers<void>();
  idle.resolve();

  const run = async (key: string, one: Share, work: Work): Promise<void> => {
    one.running += 1;
    taken += 1;
    let hasPlace = true;
    const leavePlace = () => {
      if (hasPlace) taken -= 1;
      hasPlace = false;
    };
    const timer = setTimeout(() => {
      leavePlace();
      startNext();
    }, PROMPT_MS);
    const isGood = await work().catch(() => false);
    clearTimeout(timer);
    leavePlace();
    one.running -= 1;
    one.limit = isGood ? Math.min(share, 2 * one.limit) : 1;
    if (one.running + one.waiting.length === 0) shares.delete(key);
    if (shares.size === 0) idle.resolve();
    startNext();
  };

  const startNext = (): void => {
    // A key that is set anew comes last in the order, and comes round again within this loop.
    for (const [key, one] of shares) {
      if (taken >= places) return;
      if (one.running >= one.limit) continue;
      const work = one.waiting.shift();
      if (!work) continue;
      shares.delete(key);
      shares.set(key, one);
      void run(key, one, work);
    }
  };

  return {
    /** Work that rejects counts as failed. */
    add(key: string, work: Work): void {
      if (shares.size === 0) idle = Promise.withResolvers<void>();
      const one = shares.get(key) ?? { waiting: [], running: 0, limit: 1 };
      shares.set(key, one);
      one.waiting.push(work);
      startNext();
    },
    /** How much of a key waits and runs. */
    load(key: string): number {
      const { waiting, running } = shares.get(key) ?? { waiting: [], running: 0 };
      return waiting.length + running;
    },
    isIdle: () => shares.size === 0,
    /** Resolves once nothing waits or runs. */
    idle: (): Promise<void> => idle.promise,
    /** Drops what waits, and resolves once nothing runs. */
    stop(): Promise<void> {
      for (const [key, one] of shares) {
        one.waiting = [];
        if (one.running === 0) shares.delete(key);
      }
      if (shares.size === 0) idle.resolve();
      return idle.promise;
    },
  };
}

/** Works on each item, at most `atOnce` of each key at a time, whatever others do. Rejects with the first failure. */
export async function workByKey<T>(
  items: readonly T[],
  { keyOf, atOnce }: { keyOf: (item: T) => string; atOnce: number },
  work: (item: T) => Promise<unknown> | undefined,
): Promise<void> {
  const inTurn = async (left: Iterable<T>): Promise<void> => {
    for (const item of left) await work(item);
  };
  const turns = [...Map.groupBy(items, keyOf).values()].flatMap((ofKey) => {
    const left = ofKey.values();
    return Array.from({ length: Math.min(atOnce, ofKey.length) }, () => inTurn(left));
  });
  await Promise.all(turns);
}
