/** Bans callers that continue after refusals, for a time. Refusals are counted for all processes together. */
import { remembered } from '../shared/remembered.ts';
import { keys } from '../shared/storage/keys.ts';
import type { Counters } from './counters.ts';

export interface Bans {
  /** Returns the remaining seconds of a ban that this process knows of; 0 if there is none. */
  secondsLeft(subject: string): number;
  /**
   * Counts a refusal. Returns the remaining seconds of the ban, which this refusal or another process may have started;
   * 0 if there is none. Never rejects.
   */
  countRefusal(subject: string): number | Promise<number>;
}

interface Entry {
  /** Milliseconds since the epoch. */
  bannedUntil: number;
  /** The number of refusals that are not in the store yet. */
  refusals: number;
  /** The time of the last report, from `performance.now()`. */
  reportedAt: number;
}

const REPORT_MS = 1_000;
const MAX_CACHED = 50_000;

/** @param parts `refusals` within `seconds` cause a ban for `seconds`; `clock`: milliseconds since the epoch */
export function createBans(parts: {
  counters: Counters;
  refusals: number;
  seconds: number;
  clock: () => number;
}): Bans {
  const { counters, refusals: maxRefusals, seconds, clock } = parts;
  const entries = remembered<Entry>(MAX_CACHED);
  const maxUnreported = Math.max(1, Math.floor(maxRefusals / 10));

  const entryOf = (subject: string): Entry => {
    const cached = entries.get(subject);
    if (cached) return cached;
    const entry = { bannedUntil: 0, refusals: 0, reportedAt: Number.NEGATIVE_INFINITY };
    entries.set(subject, entry);
    return entry;
  };

  const secondsLeftOf = (entry: Entry) => Math.max(0, Math.ceil((entry.bannedUntil - clock()) / 1000));

  /** The counter of a ban has its end, in seconds since the epoch. Its limit lets only the first process set it. */
  const report = async (subject: string, entry: Entry): Promise<number> => {
    const unreported = entry.refusals;
    entry.refusals = 0;
    entry.reportedAt = performance.now();
    const total = (await counters.increment(keys.planOveruse(subject), unreported, { lifetimeSeconds: seconds })) ?? 0;
    const until = Math.ceil(clock() / 1000) + seconds;
    const storedUntil =
      total < maxRefusals
        ? undefined
        : await counters.increment(keys.planBan(subject), until, { lifetimeSeconds: seconds, limit: until });
    entry.bannedUntil = (storedUntil ?? (await counters.counter(keys.planBan(subject)))) * 1000;
    return secondsLeftOf(entry);
  };

  return {
    secondsLeft(subject) {
      const entry = entries.get(subject);
      return entry === undefined || entry.bannedUntil === 0 ? 0 : secondsLeftOf(entry);
    },
    countRefusal(subject) {
      const entry = entryOf(subject);
      entry.refusals += 1;
      if (entry.refusals < maxUnreported && performance.now() - entry.reportedAt < REPORT_MS)
        return secondsLeftOf(entry);
      // If the store fails, there is no ban, but the request is still refused.
      return report(subject, entry).catch(() => 0);
    },
  };
}
