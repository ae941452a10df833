/** Counts of events by five minutes, hour and day: counted in memory, and added to the store every few seconds. */
import type { EventListener } from '../../shared/observability/events.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Store } from '../../shared/storage/store.ts';
import { updateRecord } from '../../shared/storage/update-record.ts';
import { DAY_MS, DAY_SECONDS, HOUR_MS, isoTime } from '../../shared/time.ts';

const TALLIED = [
  'sign_in.succeeded',
  'sign_in.refused',
  'sign_in.failed',
  'refresh.succeeded',
  'refresh.failed',
  'relay.succeeded',
  'relay.failed',
  'relay.refused',
] as const;
export type Tallied = (typeof TALLIED)[number];

export interface TallyInterval {
  /** The start of the interval, ISO 8601 in UTC. */
  at: string;
  counts: Partial<Record<Tallied, number>>;
}

const FLUSH_MS = 3_000;
/** The overview compares the time that it shows with the time before, so each lifetime is more than twice that long. */
const UNITS = {
  minutes: { milliseconds: 300_000, characters: 16, lifetimeSeconds: DAY_SECONDS },
  hour: { milliseconds: HOUR_MS, characters: 13, lifetimeSeconds: 3 * DAY_SECONDS },
  day: { milliseconds: DAY_MS, characters: 10, lifetimeSeconds: 62 * DAY_SECONDS },
} as const;
export type TallyUnit = keyof typeof UNITS;
const UNIT_NAMES = Object.keys(UNITS) as TallyUnit[];
/** If the store is so slow that every read overlaps a write, the last read is used. */
const MAX_READS = 3;

type Counts = TallyInterval['counts'];

export interface Tallies {
  /** Synchronous; never throws. */
  count(event: Tallied): void;
  /** Returns the last intervals including the current one, oldest first. */
  read(unit: TallyUnit, number: number): Promise<TallyInterval[]>;
  /** Writes the remaining counts and stops. */
  close(): Promise<void>;
}

/** @param parts `onLost`: called with the number of counts that could not be stored before the process stops */
export function createTallies(parts: {
  store: Store;
  clock: () => number;
  onLost?: (counts: number) => void;
}): Tallies {
  const { store, clock, onLost } = parts;
  /** Counts by the unit and name of the interval. */
  let unwritten = new Map<string, { unit: TallyUnit; counts: Counts }>();
  /** The counts of the current five minutes, to which every relayed call adds. */
  let current: { slot: number; counts: Counts } = { slot: 0, counts: {} };
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();
  let closed = false;

  const nameOf = (unit: TallyUnit, at: number) => {
    const { milliseconds, characters } = UNITS[unit];
    return isoTime(Math.floor(at / milliseconds) * milliseconds).slice(0, characters);
  };

  const addUnwritten = (name: string, unit: TallyUnit, counts: Counts): void => {
    unwritten.set(name, { unit, counts: sumOf(unwritten.get(name)?.counts ?? {}, counts) });
  };

  /** Adds the current counts to those of each unit. */
  const gather = (): void => {
    const { slot, counts } = current;
    if (Object.keys(counts).length === 0) return;
    const at = slot * UNITS.minutes.milliseconds;
    for (const unit of UNIT_NAMES) addUnwritten(nameOf(unit, at), unit, counts);
    current = { slot, counts: {} };
  };

  const add = async (name: string, unit: TallyUnit, counts: Counts): Promise<void> => {
    const { lifetimeSeconds } = UNITS[unit];
    await updateRecord<Counts>(store, keys.tally(name), (stored = {}) => sumOf(stored, counts), { lifetimeSeconds });
  };

  const unwrittenOf = (unit: TallyUnit): number =>
    [...unwritten.values()]
      .filter((interval) => interval.unit === unit)
      .flatMap(({ counts }) => Object.values(counts))
      .reduce((sum, count) => sum + count, 0);

  const flush = (): Promise<void> => {
    timer = undefined;
    gather();
    const batch = unwritten;
    unwritten = new Map();
    writing = writing.then(async () => {
      let isDown = false;
      for (const [name, { unit, counts }] of batch) {
        // Counts are kept for the next flush: an outage takes memory for one interval every five minutes. After the first
        // failure, further writes would only wait until they time out, and delay a stop of the process.
        if (!isDown)
          isDown = await add(name, unit, counts).then(
            () => false,
            () => true,
          );
        if (isDown) addUnwritten(name, unit, counts);
      }
      if (unwritten.size > 0) scheduleFlush();
    });
    return writing;
  };

  const scheduleFlush = (): void => {
    if (!closed) timer ??= setTimeout(() => void flush(), FLUSH_MS).unref();
  };

  const readIntervals = (unit: TallyUnit, number: number): Promise<TallyInterval[]> => {
    const { milliseconds } = UNITS[unit];
    gather();
    const last = Math.floor(clock() / milliseconds) * milliseconds;
    const times = Array.from({ length: number }, (_, index) => last - (number - 1 - index) * milliseconds);
    return Promise.all(
      times.map(async (at) => {
        const name = nameOf(unit, at);
        const stored = await store.get(keys.tally(name));
        const counts = stored ? (JSON.parse(stored.value) as Counts) : {};
        // Includes the counts that this process has not written yet.
        return { at: isoTime(at), counts: sumOf(counts, unwritten.get(name)?.counts ?? {}) };
      }),
    );
  };

  return {
    count(event) {
      const slot = Math.floor(clock() / UNITS.minutes.milliseconds);
      if (slot !== current.slot) {
        gather();
        current = { slot, counts: {} };
      }
      current.counts[event] = (current.counts[event] ?? 0) + 1;
      scheduleFlush();
    },

    async read(unit, number) {
      for (let attempt = 1; ; attempt += 1) {
        const written = writing;
        await written;
        const intervals = await readIntervals(unit, number);
        // A write that started during the read may be counted twice or not at all.
        if (written === writing || attempt === MAX_READS) return intervals;
      }
    },

    async close() {
      closed = true;
      clearTimeout(timer);
      await flush();
      // Each unit counts every event, so the unit with the most unwritten counts has all that are lost.
      const lostCounts = Math.max(...UNIT_NAMES.map(unwrittenOf));
      if (lostCounts > 0) onLost?.(lostCounts);
    },
  };
}

function sumOf(left: Counts, right: Counts): Counts {
  const sum: Counts = { ...left };
  for (const event of TALLIED) {
    const count = right[event];
    if (count !== undefined) sum[event] = (sum[event] ?? 0) + count;
  }
  return sum;
}

/** Counts events for the overview. */
export function talliedEvents({ count }: Pick<Tallies, 'count'>): EventListener {
  return {
    signInEnded(facts) {
      const { outcome, unsolicited } = facts;
      if (unsolicited) return;
      count(outcome === 'refused' || outcome === 'failed' ? `sign_in.${outcome}` : 'sign_in.succeeded');
    },
    refreshEnded(facts) {
      count(facts.outcome === 'refreshed' ? 'refresh.succeeded' : 'refresh.failed');
    },
  };
}
