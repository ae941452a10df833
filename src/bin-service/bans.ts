/** Owns the temporary bans of those who keep calling although they are refused: counted and known over all processes. */
import { keys } from '../storage/keys.ts';
import type { Counters } from './counters.ts';

export interface Bans {
  /** Seconds of the ban that are left as far as this process knows; 0 for almost everybody. */
  secondsLeft(subject: string): number;
  /** Notes one refusal, and answers the seconds of the ban that it ended in, or that another process knew of. Never rejects. */
  noteRefusal(subject: string): number | Promise<number>;
}

interface Entry {
  /** Milliseconds since the epoch. */
  bannedUntil: number;
  /** Refusals that the store has not heard of. */
  refusals: number;
  /** Of `performance.now()`. */
  toldAt: number;
}

const TELL_MILLISECONDS = 1_000;
const MOST_REMEMBERED = 50_000;

/** @param parts `refusals`: so many within `seconds` make a ban of `seconds`; `clock`: milliseconds since the epoch */
export function createBans(parts: {
  counters: Counters;
  refusals: number;
  seconds: number;
  clock: () => number;
}): Bans {
  const { counters, refusals: most, seconds, clock } = parts;
  const entries = new Map<string, Entry>();
  const step = Math.max(1, Math.floor(most / 10));

  const entryOf = (subject: string): Entry => {
    const known = entries.get(subject);
    if (known) return known;
    if (entries.size >= MOST_REMEMBERED) entries.clear();
    const entry = { bannedUntil: 0, refusals: 0, toldAt: Number.NEGATIVE_INFINITY };
    entries.set(subject, entry);
    return entry;
  };

  const leftOf = (entry: Entry) => Math.max(0, Math.ceil((entry.bannedUntil - clock()) / 1000));

  /** The counter of a ban holds the second in which it ends: only the first process to ban sets it. */
  const tell = async (subject: string, entry: Entry): Promise<number> => {
    const news = entry.refusals;
    entry.refusals = 0;
    entry.toldAt = performance.now();
    const total = (await counters.increment(keys.planOveruse(subject), news, { lifetimeSeconds: seconds })) ?? 0;
    const until = Math.ceil(clock() / 1000) + seconds;
    const set =
      total < most
        ? undefined
        : await counters.increment(keys.planBan(subject), until, { lifetimeSeconds: seconds, limit: until });
    entry.bannedUntil = (set ?? (await counters.counter(keys.planBan(subject)))) * 1000;
    return leftOf(entry);
  };

  return {
    secondsLeft(subject) {
      const entry = entries.size === 0 ? undefined : entries.get(subject);
      return entry === undefined || entry.bannedUntil === 0 ? 0 : leftOf(entry);
    },
    noteRefusal(subject) {
      const entry = entryOf(subject);
      entry.refusals += 1;
      if (entry.refusals < step && performance.now() - entry.toldAt < TELL_MILLISECONDS) return leftOf(entry);
      // A store that is down bans nobody; the refusal stands all the same.
      return tell(subject, entry).catch(() => 0);
    },
  };
}
