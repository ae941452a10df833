/** Counts of events by hour and by day: kept in memory, written together every few seconds, for all processes. */
import { changeJson } from '../storage/change-json.ts';
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import { DAY_MS, DAY_SECONDS, HOUR_MS, isoTime } from '../time.ts';

const TALLIED = [
  'sign_in.succeeded',
  'sign_in.refused',
  'sign_in.failed',
  'refresh.done',
  'refresh.failed',
  'relay.answered',
  'relay.failed',
  'relay.refused',
] as const;
export type Tallied = (typeof TALLIED)[number];

export interface TallySpan {
  /** The start of the hour or day, ISO 8601 in UTC. */
  at: string;
  counts: Partial<Record<Tallied, number>>;
}

const FLUSH_MS = 3_000;
const UNITS = {
  hour: { milliseconds: HOUR_MS, characters: 13, lifetimeSeconds: 3 * DAY_SECONDS },
  day: { milliseconds: DAY_MS, characters: 10, lifetimeSeconds: 40 * DAY_SECONDS },
} as const;
/** Where the store is so slow that every read overlaps a write, the last read counts. */
const MAX_READS = 3;

type Counts = TallySpan['counts'];

export type Tallies = ReturnType<typeof createTallies>;

export function createTallies({ store, clock }: { store: Store; clock: () => number }) {
  let unwritten = new Map<string, Counts>();
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();
  let closed = false;

  const nameOf = (unit: keyof typeof UNITS, at: number) => isoTime(at).slice(0, UNITS[unit].characters);

  /** Names of the current hour and day, cached because every relayed call is counted. */
  let named: { hour: number; names: readonly string[] } = { hour: Number.NaN, names: [] };
  const namesAt = (now: number): readonly string[] => {
    const hour = Math.floor(now / UNITS.hour.milliseconds);
    if (hour !== named.hour) named = { hour, names: [nameOf('hour', now), nameOf('day', now)] };
    return named.names;
  };

  const add = (name: string, counts: Counts): Promise<void> => {
    const { lifetimeSeconds } = name.length === UNITS.hour.characters ? UNITS.hour : UNITS.day;
    return changeJson<Counts>(store, { key: keys.tally(name), lifetimeSeconds }, {}, (stored) => added(stored, counts));
  };

  const flush = (): Promise<void> => {
    timer = undefined;
    const batch = unwritten;
    unwritten = new Map();
    writing = writing.then(async () => {
      for (const [name, counts] of batch) {
        // Kept for the next flush; a long outage costs one entry an hour.
        await add(name, counts).catch(() => unwritten.set(name, added(unwritten.get(name) ?? {}, counts)));
      }
      if (unwritten.size > 0) scheduleFlush();
    });
    return writing;
  };

  const scheduleFlush = (): void => {
    if (!closed) timer ??= setTimeout(() => void flush(), FLUSH_MS).unref();
  };

  const readSpans = (unit: keyof typeof UNITS, number: number): Promise<TallySpan[]> => {
    const { milliseconds } = UNITS[unit];
    const last = Math.floor(clock() / milliseconds) * milliseconds;
    const times = Array.from({ length: number }, (_one, place) => last - (number - 1 - place) * milliseconds);
    return Promise.all(
      times.map(async (at) => {
        const name = nameOf(unit, at);
        const stored = await store.get(keys.tally(name));
        const counts = stored ? (JSON.parse(stored.value) as Counts) : {};
        // Includes the counts that this process has not written yet.
        return { at: isoTime(at), counts: added(counts, unwritten.get(name) ?? {}) };
      }),
    );
  };

  return {
    /** Synchronous; never throws. */
    count(event: Tallied): void {
      for (const name of namesAt(clock())) {
        const counts = unwritten.get(name) ?? {};
        counts[event] = (counts[event] ?? 0) + 1;
        unwritten.set(name, counts);
      }
      scheduleFlush();
    },

    /** The last hours or days including the current one, oldest first. */
    async read(unit: keyof typeof UNITS, number: number): Promise<TallySpan[]> {
      for (let reading = 1; ; reading += 1) {
        const written = writing;
        await written;
        const spans = await readSpans(unit, number);
        // A write that started during the read may be counted twice or not at all.
        if (written === writing || reading === MAX_READS) return spans;
      }
    },

    /** Writes the remaining counts and stops. */
    async close(): Promise<void> {
      closed = true;
      clearTimeout(timer);
      await flush();
    },
  };
}

function added(left: Counts, right: Counts): Counts {
  const sum: Counts = { ...left };
  for (const what of TALLIED) {
    const more = right[what];
    if (more !== undefined) sum[what] = (sum[what] ?? 0) + more;
  }
  return sum;
}
