/** Counts look-ups for administrators: in memory at first, and added to the store every 10 s for all processes. */
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import { DAY_SECONDS, isoTime } from '../time.ts';
import type { LookupOutcome } from './lookup.ts';

/** Times are ISO 8601. */
export interface ServiceHealth {
  lastAnswerAt?: string;
  lastFailureAt?: string;
  /** Of the last failure: `timeout`, `connection`, `status`, `answer`, `key_refused`, `paused` or `limited`. */
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
  /** For this month and all processes, without the last 10 s of the others. */
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

/** @param parts `clock`: milliseconds since the epoch */
export function createBinTally({ store, clock }: { store: Store; clock: () => number }): BinTally {
  const counts = new Map<string, number>();
  let health: ServiceHealth | undefined;
  const month = () => isoTime(clock()).slice(0, 7);
  const add = (name: string, count: number) => void counts.set(name, (counts.get(name) ?? 0) + count);

  const write = async (): Promise<void> => {
    const lifetimeSeconds = LIFETIME_SECONDS;
    for (const [name, count] of [...counts]) {
      counts.delete(name);
      // Only for display: counts that the store does not take are dropped.
      await store.increment(keys.binLookups(month(), name), count, { lifetimeSeconds }).catch(() => undefined);
    }
    const changes = health;
    health = undefined;
    if (changes) await saveHealth(store, changes);
  };
  let writing: Promise<void> = Promise.resolve();
  /** One after another, so that a report has what an earlier flush is still writing. */
  const flush = (): Promise<void> => {
    writing = writing.catch(() => undefined).then(write);
    return writing;
  };
  const timer = setInterval(() => void flush().catch(() => undefined), FLUSH_MS).unref();

  return {
    lookedUp: add,
    cacheRead: (hit) => add(hit ? HIT : MISS, 1),
    serviceResponded(failure) {
      const at = isoTime(clock());
      health = { ...health, ...(failure ? { lastFailureAt: at, lastFailure: failure } : { lastAnswerAt: at }) };
    },
    async report() {
      await flush();
      const of = (name: string) => store.counter(keys.binLookups(month(), name));
      const values = await Promise.all(OUTCOMES.map(async (outcome) => [outcome, await of(outcome)]));
      const [hits, misses, service] = await Promise.all([of(HIT), of(MISS), readHealth(store)]);
      return { month: month(), outcomes: Object.fromEntries(values), cache: { hits, misses }, service };
    },
    health: () => readHealth(store),
    async close() {
      clearInterval(timer);
      await flush().catch(() => undefined);
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
