/**
 * Counts a month's requests for all processes, exactly and fast. A process reserves requests in blocks, serves from
 * them without a call to the store, and releases what it did not use. After a crash the reserved requests count as
 * used.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { keys } from '../storage/keys.ts';
import { DAY_SECONDS } from '../time.ts';
import type { Counters } from './counters.ts';
import { type Month, monthAt, monthOf, secondsLeft } from './month.ts';

export interface Taken {
  granted: boolean;
  /** As far as this process knows. Requests reserved by other processes count as used. */
  remaining: number;
  resetSeconds: number;
  month: Month;
}

export interface Quota {
  /**
   * Takes one request of this month. Synchronous if one is reserved.
   * Rejects with `storage_unavailable` if the store is needed and fails.
   * @param limit requests in a month
   */
  take(subject: string, limit: number): Taken | Promise<Taken>;
  /** For pages: requests this month, including those reserved by a process. */
  used(subject: string): Promise<number>;
  /** Releases all reserved requests. */
  close(): Promise<void>;
}

interface Entry {
  key: string;
  month: Month;
  limit: number;
  /** Requests reserved here and not used yet. */
  reserved: number;
  /** The store's count when last read. */
  used: number;
  block: number;
  waiting: number;
  filling: Promise<void> | undefined;
  /** Times of `performance.now()`. */
  filledAt: number;
  takenAt: number;
  spentUntil: number;
}

// Longer than two months, so that a clock set back finds the count of the earlier month.
const LIFETIME_SECONDS = 100 * DAY_SECONDS;
const MAX_BLOCK = 2_048;
/** A process reserves at most a 32nd of the remaining requests, to leave some for other processes. */
const SHARE = 32;
/** Smaller blocks are not fetched in advance: each costs a wait for the write. */
const MIN_PREFETCHED_BLOCK = 8;
/** A block that has not been used for this long is released. */
const IDLE_MS = 100;
/** The block size doubles if a block lasts less than GROW_MS, and goes back to 1 if it lasts KEEP_MS. */
const GROW_MS = 500;
const KEEP_MS = 5_000;
const SWEEP_MS = 50;
/** Before the first refusal, to let other processes release unused requests. */
const RETRIES = { rounds: 8, milliseconds: 75 };
/** How long a spent limit is not read again. It may have been raised, or requests may have been released. */
const SPENT_MS = 1_000;
const FORGET_MS = 60_000;
const MAX_ATTEMPTS = 8;

/** @param parts `clock`: milliseconds since the epoch */
export function createQuota(parts: { counters: Counters; clock: () => number }): Quota {
  const { counters, clock } = parts;
  const entries = new Map<string, Entry>();
  const reserving = new Set<Entry>();
  let month = monthOf(clock());
  let sweptAt = performance.now();

  const keyOf = (subject: string) => keys.planUse(subject, month.id);

  const entryOf = (subject: string): Entry => {
    const current = entries.get(subject);
    if (current?.month === month) return current;
    const entry = newEntry(keyOf(subject), month);
    entries.set(subject, entry);
    return entry;
  };

  const resultOf = (entry: Entry, granted: boolean): Taken => {
    if (granted) {
      entry.reserved -= 1;
      entry.takenAt = performance.now();
      // Fetch the next block before this one is used up. If that fails, the next request fetches it and waits.
      if (entry.block > MIN_PREFETCHED_BLOCK && entry.reserved < entry.block / 2 && !entry.filling && !isSpent(entry))
        startFilling(entry).catch(() => undefined);
    }
    const remaining = Math.max(0, entry.limit - entry.used + entry.reserved);
    return { granted, remaining, resetSeconds: secondsLeft(entry.month, clock()), month: entry.month };
  };

  const reserve = async (entry: Entry, size: number): Promise<boolean> => {
    let count = size;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
      const options = { lifetimeSeconds: LIFETIME_SECONDS, limit: entry.limit };
      const value = await counters.increment(entry.key, count, options);
      if (value !== undefined) {
        entry.reserved += count;
        entry.used = value;
        reserving.add(entry);
        return true;
      }
      entry.used = await counters.counter(entry.key);
      const left = entry.limit - entry.used;
      if (left <= 0) return false;
      count = Math.min(count, left);
    }
    return false;
  };

  const fill = async (entry: Entry): Promise<void> => {
    const lasted = performance.now() - entry.filledAt;
    const maxBlock = Math.max(1, Math.min(MAX_BLOCK, Math.floor((entry.limit - entry.used) / SHARE)));
    entry.block = Math.min(maxBlock, nextBlock(entry.block, lasted));
    const isFirstRefusal = entry.spentUntil === 0;
    for (let round = 0; !(await reserve(entry, Math.max(entry.block, entry.waiting))); round += 1) {
      if (isFirstRefusal && round < RETRIES.rounds) {
        await sleep(RETRIES.milliseconds);
        continue;
      }
      entry.spentUntil = performance.now() + SPENT_MS;
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
        if (entry.reserved > 0) return resultOf(entry, true);
        if (isSpent(entry)) return resultOf(entry, false);
        await startFilling(entry);
      }
    } finally {
      entry.waiting -= 1;
    }
  };

  const release = async (entry: Entry): Promise<void> => {
    const unused = entry.reserved;
    entry.reserved = 0;
    entry.block = 1;
    entry.filledAt = Number.NEGATIVE_INFINITY;
    reserving.delete(entry);
    if (unused === 0) return;
    // If it fails, the requests count as used.
    const options = { lifetimeSeconds: LIFETIME_SECONDS };
    const value = await counters.increment(entry.key, -unused, options).catch(() => undefined);
    if (value !== undefined) entry.used = value;
  };

  const sweep = () => {
    const now = performance.now();
    for (const entry of reserving) if (now - entry.takenAt >= IDLE_MS) void release(entry);
    if (now - sweptAt < FORGET_MS) return;
    sweptAt = now;
    for (const [subject, entry] of entries) {
      const lastUsed = Math.max(entry.takenAt, entry.filledAt, entry.spentUntil);
      if (entry.reserved === 0 && !entry.filling && now - lastUsed > FORGET_MS) entries.delete(subject);
    }
  };
  const sweeping = setInterval(sweep, SWEEP_MS).unref();

  return {
    take(subject, limit) {
      month = monthAt(clock(), month);
      const entry = entryOf(subject);
      if (limit > entry.limit) entry.spentUntil = 0;
      entry.limit = limit;
      if (entry.reserved > 0) return resultOf(entry, true);
      return isSpent(entry) ? resultOf(entry, false) : wait(entry);
    },
    used(subject) {
      month = monthAt(clock(), month);
      return counters.counter(keyOf(subject));
    },
    async close() {
      clearInterval(sweeping);
      await Promise.all([...reserving].map(release));
    },
  };
}

function newEntry(key: string, month: Month): Entry {
  const counts = { limit: 0, reserved: 0, used: 0, block: 1, waiting: 0 };
  const times = { filledAt: Number.NEGATIVE_INFINITY, takenAt: 0, spentUntil: 0 };
  return { key, month, ...counts, ...times, filling: undefined };
}

/** Blocks of 1 for callers with few requests; for others each block is twice as large as the last. */
function nextBlock(block: number, lastedMs: number): number {
  if (lastedMs < Math.min(GROW_MS, block * IDLE_MS)) return block * 2;
  return lastedMs < KEEP_MS ? block : 1;
}

function isSpent({ spentUntil }: Entry): boolean {
  return spentUntil > 0 && performance.now() < spentUntil;
}
