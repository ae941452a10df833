/**
 * Owns the count of requests of a month: exact over any number of processes, and past Express's own cost. A process reserves
 * requests ahead in blocks, answers from them without asking the store, and gives back what nobody came for. What a crash
 * leaves reserved is lost to the caller, never to the limit.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { keys } from '../storage/keys.ts';
import type { Counters } from './counters.ts';
import { type Month, monthAt, monthOf, secondsLeft } from './month.ts';

export interface Taken {
  granted: boolean;
  /** As far as this process knows; what others have reserved counts as used. */
  remaining: number;
  resetSeconds: number;
  month: Month;
}

export interface Quota {
  /**
   * Takes one request of this month, at once where one is reserved. @param subject who is counted @param limit a month
   * Rejects with `storage_unavailable` where the store has to be asked and cannot answer.
   */
  take(subject: string, limit: number): Taken | Promise<Taken>;
  /** For pages: requests of this month so far, those included that a process has reserved just now. */
  used(subject: string): Promise<number>;
  /** Gives back all that is reserved. */
  close(): Promise<void>;
}

interface Entry {
  key: string;
  month: Month;
  limit: number;
  /** Reserved here and not taken yet. */
  held: number;
  /** The store's count when it was last heard of. */
  used: number;
  block: number;
  waiting: number;
  filling: Promise<void> | undefined;
  /** Times of `performance.now()`. */
  filledAt: number;
  takenAt: number;
  spentUntil: number;
}

// Longer than two months: a clock that goes back finds the month it left as it left it.
const LIFETIME_SECONDS = 100 * 24 * 3600;
const MOST_AHEAD = 2_048;
/** So much of what is left may one process reserve, so that others find something too. */
const SHARE = 32;
/** Whoever takes less at a time is served one write after the other. */
const LEAST_AHEAD = 8;
/** What nobody came for within this time is given back. */
const IDLE_MILLISECONDS = 100;
/** A block that lasts no longer is too small; one that lasts this long is large enough. */
const GROW_MILLISECONDS = 500;
const KEEP_MILLISECONDS = 5_000;
const SWEEP_MILLISECONDS = 50;
/** Before the first refusal: until other processes have given back what they hold. */
const PATIENCE = { rounds: 8, milliseconds: 75 };
/** A spent limit is believed this long; after that it may have been raised, or something given back. */
const SPENT_MILLISECONDS = 1_000;
const FORGET_MILLISECONDS = 60_000;
const MOST_ATTEMPTS = 8;

/** @param parts `clock`: milliseconds since the epoch */
export function createQuota(parts: { counters: Counters; clock: () => number }): Quota {
  const { counters, clock } = parts;
  const entries = new Map<string, Entry>();
  const holders = new Set<Entry>();
  let month = monthOf(clock());
  let sweptAt = performance.now();

  const keyOf = (subject: string) => keys.planUse(subject, month.id);

  const entryOf = (subject: string): Entry => {
    const known = entries.get(subject);
    if (known?.month === month) return known;
    const entry = newEntry(keyOf(subject), month);
    entries.set(subject, entry);
    return entry;
  };

  const answer = (entry: Entry, granted: boolean): Taken => {
    if (granted) {
      entry.held -= 1;
      entry.takenAt = performance.now();
      // The next block comes while this one lasts; where it does not come, whoever finds none asks again and is told.
      if (entry.block > LEAST_AHEAD && entry.held < entry.block / 2 && !entry.filling && !isSpent(entry))
        startFilling(entry).catch(() => undefined);
    }
    const remaining = Math.max(0, entry.limit - entry.used + entry.held);
    return { granted, remaining, resetSeconds: secondsLeft(entry.month, clock()), month: entry.month };
  };

  const reserve = async (entry: Entry, size: number): Promise<boolean> => {
    let ask = size;
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt += 1) {
      const options = { lifetimeSeconds: LIFETIME_SECONDS, limit: entry.limit };
      const value = await counters.increment(entry.key, ask, options);
      if (value !== undefined) {
        entry.held += ask;
        entry.used = value;
        holders.add(entry);
        return true;
      }
      entry.used = await counters.counter(entry.key);
      const left = entry.limit - entry.used;
      if (left <= 0) return false;
      ask = Math.min(ask, left);
    }
    return false;
  };

  const fill = async (entry: Entry): Promise<void> => {
    const lasted = performance.now() - entry.filledAt;
    const most = Math.max(1, Math.min(MOST_AHEAD, Math.floor((entry.limit - entry.used) / SHARE)));
    entry.block = Math.min(most, nextBlock(entry.block, lasted));
    const isFirstRefusal = entry.spentUntil === 0;
    for (let round = 0; !(await reserve(entry, Math.max(entry.block, entry.waiting))); round += 1) {
      if (isFirstRefusal && round < PATIENCE.rounds) {
        await sleep(PATIENCE.milliseconds);
        continue;
      }
      entry.spentUntil = performance.now() + SPENT_MILLISECONDS;
      return;
    }
    entry.spentUntil = 0;
    entry.filledAt = performance.now();
  };

  const startFilling = (entry: Entry): Promise<void> => {
    entry.filling ??= fill(entry).finally(() => {
      entry.filling = undefined;
    });
    return entry.filling;
  };

  const wait = async (entry: Entry): Promise<Taken> => {
    entry.waiting += 1;
    try {
      for (;;) {
        if (entry.held > 0) return answer(entry, true);
        if (isSpent(entry)) return answer(entry, false);
        await startFilling(entry);
      }
    } finally {
      entry.waiting -= 1;
    }
  };

  const giveBack = async (entry: Entry): Promise<void> => {
    const surplus = entry.held;
    entry.held = 0;
    entry.block = 1;
    entry.filledAt = Number.NEGATIVE_INFINITY;
    holders.delete(entry);
    if (surplus === 0) return;
    // Where it fails, the count errs on our side.
    const options = { lifetimeSeconds: LIFETIME_SECONDS };
    const value = await counters.increment(entry.key, -surplus, options).catch(() => undefined);
    if (value !== undefined) entry.used = value;
  };

  const sweep = () => {
    const now = performance.now();
    for (const entry of holders) if (now - entry.takenAt >= IDLE_MILLISECONDS) void giveBack(entry);
    if (now - sweptAt < FORGET_MILLISECONDS) return;
    sweptAt = now;
    for (const [subject, entry] of entries) {
      const lastUsed = Math.max(entry.takenAt, entry.filledAt, entry.spentUntil);
      if (entry.held === 0 && !entry.filling && now - lastUsed > FORGET_MILLISECONDS) entries.delete(subject);
    }
  };
  const sweeping = setInterval(sweep, SWEEP_MILLISECONDS).unref();

  return {
    take(subject, limit) {
      month = monthAt(clock(), month);
      const entry = entryOf(subject);
      if (limit > entry.limit) entry.spentUntil = 0;
      entry.limit = limit;
      if (entry.held > 0) return answer(entry, true);
      return isSpent(entry) ? answer(entry, false) : wait(entry);
    },
    used(subject) {
      month = monthAt(clock(), month);
      return counters.counter(keyOf(subject));
    },
    async close() {
      clearInterval(sweeping);
      await Promise.all([...holders].map(giveBack));
    },
  };
}

function newEntry(key: string, month: Month): Entry {
  const counts = { limit: 0, held: 0, used: 0, block: 1, waiting: 0 };
  const times = { filledAt: Number.NEGATIVE_INFINITY, takenAt: 0, spentUntil: 0 };
  return { key, month, ...counts, ...times, filling: undefined };
}

/** Whoever comes seldom costs one write and gives nothing back; whoever hurries gets twice as much each time. */
function nextBlock(block: number, lastedMilliseconds: number): number {
  if (lastedMilliseconds < Math.min(GROW_MILLISECONDS, block * IDLE_MILLISECONDS)) return block * 2;
  return lastedMilliseconds < KEEP_MILLISECONDS ? block : 1;
}

function isSpent({ spentUntil }: Entry): boolean {
  return spentUntil > 0 && performance.now() < spentUntil;
}
