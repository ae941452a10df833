/** Owns the counts of look-ups that administrators see: gathered in memory, added to the store from time to time, of all processes together. */
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
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
  /** Different BINs of each request, by how they were answered. */
  outcomes: Record<LookupOutcome, number>;
  cache: { hits: number; misses: number };
  service: ServiceHealth;
}

export interface BinTally {
  answered(outcome: LookupOutcome, count: number): void;
  cacheAsked(hit: boolean): void;
  serviceAnswered(failure: string | undefined): void;
  /** Of this month, all processes together; what others have not added yet (10 s at most) is missing. */
  report(): Promise<TallyReport>;
  close(): Promise<void>;
}

const OUTCOMES: readonly LookupOutcome[] = [
  ...(['dataset', 'service', 'cache', 'rules'] as const),
  ...(['bin_not_found', 'bin_quota_exhausted', 'bin_service_unavailable'] as const),
];
const HIT = 'cache-hit';
const MISS = 'cache-miss';
const LIFETIME_SECONDS = 100 * 24 * 3600;

/** @param parts `clock`: milliseconds since the epoch */
export function createBinTally(parts: { store: Store; clock: () => number; flushMilliseconds?: number }): BinTally {
  const { store, clock } = parts;
  const counts = new Map<string, number>();
  let health: ServiceHealth | undefined;
  const month = () => new Date(clock()).toISOString().slice(0, 7);
  const add = (name: string, count: number) => void counts.set(name, (counts.get(name) ?? 0) + count);

  const flush = async (): Promise<void> => {
    const lifetimeSeconds = LIFETIME_SECONDS;
    for (const [name, count] of [...counts]) {
      counts.delete(name);
      // They are for eyes: what the store does not take is not worth a second count.
      await store.increment(keys.binLookups(month(), name), count, { lifetimeSeconds }).catch(() => undefined);
    }
    const news = health;
    health = undefined;
    if (news) await keepHealth(store, news);
  };
  const timer = setInterval(() => void flush().catch(() => undefined), parts.flushMilliseconds ?? 10_000).unref();

  return {
    answered: add,
    cacheAsked: (hit) => add(hit ? HIT : MISS, 1),
    serviceAnswered(failure) {
      const at = new Date(clock()).toISOString();
      health = { ...health, ...(failure ? { lastFailureAt: at, lastFailure: failure } : { lastAnswerAt: at }) };
    },
    async report() {
      await flush();
      const of = (name: string) => store.counter(keys.binLookups(month(), name));
      const values = await Promise.all(OUTCOMES.map(async (outcome) => [outcome, await of(outcome)]));
      const [hits, misses, service] = await Promise.all([of(HIT), of(MISS), readHealth(store)]);
      return { month: month(), outcomes: Object.fromEntries(values), cache: { hits, misses }, service };
    },
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

async function keepHealth(store: Store, news: ServiceHealth): Promise<void> {
  const value = JSON.stringify({ ...(await readHealth(store)), ...news });
  await store.write([{ put: keys.binServiceHealth, value, lifetimeSeconds: LIFETIME_SECONDS }]);
}
