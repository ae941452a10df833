/** Owns how often what happened, by hour and by day: counted in memory, written together every few seconds, the same for all processes. */
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';

export const TALLIED = [
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
  /** The beginning of the hour or day, ISO 8601 in UTC. */
  at: string;
  counts: Partial<Record<Tallied, number>>;
}

export interface Tallies {
  /** Never waits and never fails. */
  count(what: Tallied): void;
  /** The last so many hours or days, the present one included, oldest first. */
  read(unit: 'hour' | 'day', number: number): Promise<TallySpan[]>;
  /** Writes what was counted, and counts no more. */
  close(): Promise<void>;
}

const FLUSH_MILLISECONDS = 3_000;
const UNITS = {
  hour: { milliseconds: 3_600_000, characters: 13, lifetimeSeconds: 3 * 86_400 },
  day: { milliseconds: 86_400_000, characters: 10, lifetimeSeconds: 40 * 86_400 },
} as const;
/** Of processes that write at once each comes through in its turn. */
const MOST_ATTEMPTS = 20;
/** A store that takes seconds to answer may be written to during each reading: then the last one has to do. */
const MOST_READINGS = 3;

type Counts = TallySpan['counts'];

export function createTallies({ store, clock }: { store: Store; clock: () => number }): Tallies {
  let waiting = new Map<string, Counts>();
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();
  let closed = false;

  const nameOf = (unit: keyof typeof UNITS, at: number) => new Date(at).toISOString().slice(0, UNITS[unit].characters);

  /** Of the hour and the day; worked out once an hour, since every relayed call counts. */
  let named: { hour: number; names: readonly string[] } = { hour: Number.NaN, names: [] };
  const namesAt = (now: number): readonly string[] => {
    const hour = Math.floor(now / UNITS.hour.milliseconds);
    if (hour !== named.hour) named = { hour, names: [nameOf('hour', now), nameOf('day', now)] };
    return named.names;
  };

  const add = async (name: string, counts: Counts): Promise<void> => {
    const { lifetimeSeconds } = name.length === UNITS.hour.characters ? UNITS.hour : UNITS.day;
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt += 1) {
      const stored = await store.get(keys.tally(name));
      const sum = added(stored ? (JSON.parse(stored.value) as Counts) : {}, counts);
      const put = {
        put: keys.tally(name),
        value: JSON.stringify(sum),
        ifVersion: stored?.version ?? 0,
        lifetimeSeconds,
      };
      if (await store.write([put])) return;
    }
  };

  const flush = (): Promise<void> => {
    timer = undefined;
    const batch = waiting;
    waiting = new Map();
    writing = writing.then(async () => {
      for (const [name, counts] of batch) {
        // A store that is down for a while costs no counts, and no memory either: there are only so many hours.
        await add(name, counts).catch(() => waiting.set(name, added(waiting.get(name) ?? {}, counts)));
      }
      if (waiting.size > 0) plan();
    });
    return writing;
  };

  const plan = (): void => {
    if (!closed) timer ??= setTimeout(() => void flush(), FLUSH_MILLISECONDS).unref();
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
        // What this process has not written yet counts as well.
        return { at: new Date(at).toISOString(), counts: added(counts, waiting.get(name) ?? {}) };
      }),
    );
  };

  return {
    count(what) {
      for (const name of namesAt(clock())) {
        const counts = waiting.get(name) ?? {};
        counts[what] = (counts[what] ?? 0) + 1;
        waiting.set(name, counts);
      }
      plan();
    },

    async read(unit, number) {
      for (let reading = 1; ; reading += 1) {
        const written = writing;
        await written;
        const spans = await readSpans(unit, number);
        // What began to be written meanwhile may be in neither place, or in both.
        if (written === writing || reading === MOST_READINGS) return spans;
      }
    },

    async close() {
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
