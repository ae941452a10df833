/**
 * Counts lookups for administrators in memory, and adds the counts to the store every 10 s, or once it is available.
 */
import { keys } from '../../shared/storage/keys.ts';
import type { Store } from '../../shared/storage/store.ts';
import { DAY_SECONDS, isoTime } from '../../shared/time.ts';
import type { LookupOutcome } from './lookup.ts';

/** Times are ISO 8601. */
export interface ServiceHealth {
  lastResponseAt?: string;
  lastFailureAt?: string;
  /** The last failure: `timeout`, `connection`, `status`, `response`, `key_refused`, `paused`, `busy` or `limited`. */
  lastFailure?: string;
}

export interface TallyReport {
  /** UTC, YYYY-MM. */
  month: string;
  /** Distinct BINs of each request by outcome. */
  outcomes: Record<LookupOutcome, number>;
  cache: { hits: number; misses: number };
  service: ServiceHealth;
}

export interface BinTally {
  lookedUp(outcome: LookupOutcome, count: number): void;
  cacheRead(hit: boolean): void;
  serviceResponded(failure: string | undefined): void;
  /** Returns the counts of this month for all processes; up to 10 s old for the other processes. */
  report(): Promise<TallyReport>;
  /** The last success and the last failure of the lookup service. */
  health(): Promise<ServiceHealth>;
  close(): Promise<void>;
}

const OUTCOMES: readonly LookupOutcome[] = [
  ...(['dataset', 'service', 'cache', 'rules'] as const),
  ...(['bin_not_found', 'bin_quota_exhausted', 'bin_user_quota_exhausted', 'bin_service_unavailable'] as const),
];
const FLUSH_MS = 10_000;
const HIT = 'cache-hit';
const MISS = 'cache-miss';
const LIFETIME_SECONDS = 100 * DAY_SECONDS;

/**
 * @param parts `clock`: milliseconds since the epoch. `onLost`: called with the number of counts that could not be
 * stored
 *   before the process stops
 */
export function createBinTally(parts: {
  store: Store;
  clock: () => number;
  onLost?: (counts: number) => void;
}): BinTally {
  const { store, clock, onLost } = parts;
  /** Counts by the key of their counter. */
  const unwritten = new Map<string, number>();
  let health: ServiceHealth | undefined;
  const keyOf = (name: string) => keys.binLookups(isoTime(clock()).slice(0, 7), name);
  const addTo = (key: string, count: number) => void unwritten.set(key, (unwritten.get(key) ?? 0) + count);
  const add = (name: string, count: number) => addTo(keyOf(name), count);

  const writeCounts = async (): Promise<void> => {
    for (const [key, count] of [...unwritten]) {
      unwritten.delete(key);
      try {
        await store.increment(key, count, { lifetimeSeconds: LIFETIME_SECONDS });
      } catch {
        // The store is unavailable: this and the remaining counts are written later.
        addTo(key, count);
        return;
      }
    }
  };
  const writeHealth = async (): Promise<void> => {
    const changes = health;
    if (!changes) return;
    try {
      await saveHealth(store, changes);
      // Changes during the write are left for the next one.
      if (health === changes) health = undefined;
    } catch {
      // Written later.
    }
  };
  let writing: Promise<void> = Promise.resolve();
  /** Flushes run one after another, so that a report includes the counts of an earlier flush. Never rejects. */
  const flush = (): Promise<void> => {
    writing = writing.then(writeCounts).then(writeHealth);
    return writing;
  };
  const timer = setInterval(() => void flush(), FLUSH_MS).unref();
  const latestHealth = async () => ({ ...(await readHealth(store)), ...health });

  return {
    lookedUp: add,
    cacheRead: (hit) => add(hit ? HIT : MISS, 1),
    serviceResponded(failure) {
      const at = isoTime(clock());
      health = { ...health, ...(failure ? { lastFailureAt: at, lastFailure: failure } : { lastResponseAt: at }) };
    },
    async report() {
      await flush();
      const month = isoTime(clock()).slice(0, 7);
      const countOf = async (name: string) => (await store.counter(keyOf(name))) + (unwritten.get(keyOf(name)) ?? 0);
      const values = await Promise.all(OUTCOMES.map(async (outcome) => [outcome, await countOf(outcome)]));
      const [hits, misses, service] = await Promise.all([countOf(HIT), countOf(MISS), latestHealth()]);
      return { month, outcomes: Object.fromEntries(values), cache: { hits, misses }, service };
    },
    health: latestHealth,
    async close() {
      clearInterval(timer);
      await flush();
      const lostCounts = [...unwritten.values()].reduce((sum, count) => sum + count, 0);
      if (lostCounts > 0) onLost?.(lostCounts);
    },
  };
}

async function readHealth(store: Store): Promise<ServiceHealth> {
  const record = await store.get(keys.binServiceHealth);
  return record ? JSON.parse(record.value) : {};
}

async function saveHealth(store: Store, changes: ServiceHealth): Promise<void> {
  const value = JSON.stringify({ ...(await readHealth(store)), ...changes });
  await store.write([{ put: keys.binServiceHealth, value, lifetimeSeconds: LIFETIME_SECONDS }]);
}
