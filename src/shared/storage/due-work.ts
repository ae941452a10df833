/** Works on the entries of a list by the time when each is due, with a share for each receiver. */
import { setTimeout as sleep } from 'node:timers/promises';
import { createFairPool } from '../fair-pool.ts';
import { remembered } from '../remembered.ts';
import { encodeCursor } from './paging.ts';
import type { TaskTurn } from './scheduled-task.ts';
import type { Store } from './store.ts';

export interface DueWork {
  isDue(): Promise<boolean>;
  /**
   * Works until nothing is due, in one process at a time. A receiver that hangs is still waited for while entries of others are
   * worked on as they become due.
   * @param turn once it is over, nothing more is started, and this waits for what runs
   */
  work(turn?: TaskTurn): Promise<void>;
}

const PLACES = 50;
const SHARE = 12;
/** Of one receiver; more would only wait. */
const MAX_TAKEN = 50;
const BATCH = 200;
/** More receivers of entries are looked up again. */
const MAX_KNOWN = 10_000;
/** The pauses between two readings of the list: after one that found work, and after another one. */
const PAUSE_MS = { found: 50, nothing: 250 };
/** An entry rests after its work, since it may still be due: the storage refused the write, or the list was read before. */
const REST_MS = 1_000;

/**
 * @param parts `index`: entries by the time when they are due, in milliseconds since the epoch. `receiverOf`: a key of the
 *   receiver. `work`: removes the entry or gives it a later time. It resolves with whether the receiver did as it should. It
 *   checks the time of the entry again, since another attempt may have ended after the list was read
 */
export function createDueWork(parts: {
  store: Pick<Store, 'page'>;
  index: string;
  clock: () => number;
  receiverOf: (member: string) => Promise<string>;
  work: (member: string) => Promise<boolean>;
}): DueWork {
  const { store, index, clock, receiverOf, work } = parts;
  const receivers = remembered<string>(MAX_KNOWN);
  /** Entries that wait or run. */
  const taken = new Set<string>();
  /** Until when. */
  const resting = new Map<string, number>();
  let walkedTo: string | undefined;

  const knownReceiverOf = async (member: string): Promise<string> => {
    const receiver = receivers.get(member) ?? (await receiverOf(member));
    receivers.set(member, receiver);
    return receiver;
  };

  const pool = createFairPool({ slots: PLACES, share: SHARE });

  const workOn = async (member: string): Promise<boolean> => {
    try {
      return await work(member);
    } finally {
      taken.delete(member);
      resting.set(member, clock() + REST_MS);
    }
  };

  /** Returns how many of these entries will be worked on now. */
  const take = async (members: readonly string[]): Promise<number> => {
    const open = members.filter((member) => !taken.has(member) && !resting.has(member));
    const receiversOfOpen = await Promise.all(open.map(knownReceiverOf));
    let count = 0;
    for (const [at, member] of open.entries()) {
      const receiver = receiversOfOpen[at] ?? '';
      if (taken.has(member) || pool.load(receiver) >= MAX_TAKEN) continue;
      taken.add(member);
      count += 1;
      pool.add(receiver, () => workOn(member));
    }
    return count;
  };

  /**
   * Reads what has become due last, so that new entries do not wait for the many of a receiver that fails, and the next part of
   * all others. Returns how many entries will be worked on now.
   */
  const read = async (): Promise<number> => {
    const now = clock();
    // A clock that was set back lets nothing rest for longer.
    for (const [member, until] of resting) if (until <= now || until > now + REST_MS) resting.delete(member);
    const after = encodeCursor({ score: now + 1, member: '' });
    const newest = await store.page(index, { limit: BATCH, order: 'descending', after });
    const dueOf = (items: typeof newest.items) => items.filter(({ score }) => score <= now).map(({ member }) => member);
    const count = await take(dueOf(newest.items).reverse());
    if (newest.next === undefined) return count;
    const others = await store.page(index, { limit: BATCH, ...(walkedTo !== undefined && { after: walkedTo }) });
    const due = dueOf(others.items);
    walkedTo = due.length === others.items.length ? others.next : undefined;
    return count + (await take(due));
  };

  return {
    async isDue() {
      const { items } = await store.page(index, { limit: 1 });
      return items.some(({ score }) => score <= clock());
    },
    async work(turn) {
      try {
        while (!turn?.isOver()) {
          const count = await read();
          if (count === 0 && pool.isIdle()) return;
          const pause = count > 0 ? PAUSE_MS.found : PAUSE_MS.nothing;
          await Promise.race([pool.idle(), sleep(pause, undefined, { ref: false })]);
        }
      } finally {
        await pool.stop();
        taken.clear();
      }
    },
  };
}
