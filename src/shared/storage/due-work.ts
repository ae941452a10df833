/** Works on the entries of an index when they are due, with a fair share for each receiver. */
import { setTimeout as sleep } from 'node:timers/promises';
import { createFairPool } from '../fair-pool.ts';
import { remembered } from '../remembered.ts';
import { encodeCursor } from './paging.ts';
import type { TaskTurn } from './scheduled-task.ts';
import type { Store } from './store.ts';

export interface DueWork {
  isDue(): Promise<boolean>;
  /**
   * Works until nothing is due, in one process at a time. While a receiver hangs, entries of other receivers are still
   * worked on as they become due.
   * @param turn turn of the scheduled task: once it is over, no more work is started, and this method waits for the
   *   running work
   */
  work(turn?: TaskTurn): Promise<void>;
}

const SLOTS = 50;
const MAX_SLOTS_PER_RECEIVER = 12;
/** Entries of one receiver in the pool: additional ones would only wait there. */
const MAX_ACTIVE_PER_RECEIVER = 50;
const BATCH = 200;
const MAX_CACHED_RECEIVERS = 10_000;
/** The pause before the index is read again, after a read that found work and after one that did not. */
const PAUSE_MS = { busy: 50, idle: 250 };
/**
 * An entry is not worked on again for this time: the index may still list it as due if the storage refused the write,
 * or if the index was read before the write.
 */
const REST_MS = 1_000;

/**
 * @param parts `index`: entries by the time when they are due, in milliseconds since the epoch. `receiverOf`: returns
 *   the key of the receiver of an entry. `work`: works on an entry, then removes it or gives it a later time, and
 *   resolves with true if the receiver responded as it should. It must check the time of the entry again, since another
 *   attempt may have ended after the index was read
 */
export function createDueWork(parts: {
  store: Pick<Store, 'page'>;
  index: string;
  clock: () => number;
  receiverOf: (member: string) => Promise<string>;
  work: (member: string) => Promise<boolean>;
}): DueWork {
  const { store, index, clock, receiverOf, work } = parts;
  const receivers = remembered<string>(MAX_CACHED_RECEIVERS);
  /** Entries that wait in the pool or are being worked on. */
  const active = new Set<string>();
  const restingUntil = new Map<string, number>();
  let batchCursor: string | undefined;

  const cachedReceiverOf = async (member: string): Promise<string> => {
    const receiver = receivers.get(member) ?? (await receiverOf(member));
    receivers.set(member, receiver);
    return receiver;
  };

  const pool = createFairPool({ slots: SLOTS, share: MAX_SLOTS_PER_RECEIVER });

  const workOn = async (member: string): Promise<boolean> => {
    try {
      return await work(member);
    } finally {
      active.delete(member);
      restingUntil.set(member, clock() + REST_MS);
    }
  };

  /** Adds entries to the pool and returns their number. */
  const addToPool = async (members: readonly string[]): Promise<number> => {
    const candidates = members.filter((member) => !active.has(member) && !restingUntil.has(member));
    const receiverKeys = await Promise.all(candidates.map(cachedReceiverOf));
    let count = 0;
    for (const [n, member] of candidates.entries()) {
      const receiver = receiverKeys[n] ?? '';
      if (active.has(member) || pool.load(receiver) >= MAX_ACTIVE_PER_RECEIVER) continue;
      active.add(member);
      count += 1;
      pool.add(receiver, () => workOn(member));
    }
    return count;
  };

  /**
   * Reads the entries that became due last, so that new entries do not wait behind the many of a failing receiver, and
   * then the next batch of all due entries. Returns the number of entries that were added to the pool.
   */
  const addDueEntries = async (): Promise<number> => {
    const now = clock();
    // If the clock was set back, `until` is further away than a rest can last.
    for (const [member, until] of restingUntil) {
      if (until <= now || until > now + REST_MS) restingUntil.delete(member);
    }
    const after = encodeCursor({ score: now + 1, member: '' });
    const newest = await store.page(index, { limit: BATCH, order: 'descending', after });
    const dueOf = (items: typeof newest.items) => items.filter(({ score }) => score <= now).map(({ member }) => member);
    const count = await addToPool(dueOf(newest.items).reverse());
    if (newest.next === undefined) return count;
    const batch = await store.page(index, { limit: BATCH, ...(batchCursor !== undefined && { after: batchCursor }) });
    const due = dueOf(batch.items);
    batchCursor = due.length === batch.items.length ? batch.next : undefined;
    return count + (await addToPool(due));
  };

  return {
    async isDue() {
      const { items } = await store.page(index, { limit: 1 });
      return items.some(({ score }) => score <= clock());
    },
    async work(turn) {
      try {
        while (!turn?.isOver()) {
          const count = await addDueEntries();
          if (count === 0 && pool.isIdle()) return;
          const pause = count > 0 ? PAUSE_MS.busy : PAUSE_MS.idle;
          await Promise.race([pool.idle(), sleep(pause, undefined, { ref: false })]);
        }
      } finally {
        await pool.stop();
        active.clear();
      }
    },
  };
}
