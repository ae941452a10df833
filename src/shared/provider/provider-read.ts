/** Reads documents of a provider, and caches what they hold while it is down. */
import type { Outbound, Peer } from '../outbound/outbound.ts';
import type { AnonymousCall } from '../outbound/upstream-gate.ts';
import { ProviderError } from './provider-error.ts';

const LIMITS = { deadlineMilliseconds: 5_000, maxBytes: 512 * 1024 };

/**
 * GETs without authentication.
 * @param app id of the connected app, where it is known
 * @param options `anonymous`: where an anonymous request can cause it. `statusDecides`: as in `CallLimits`
 * @throws OutboundError
 */
export function fetchDocument(
  outbound: Outbound,
  url: string,
  app: string | undefined,
  options: { accept?: string; anonymous?: AnonymousCall; peer?: Peer; statusDecides?: boolean } = {},
): Promise<Response> {
  const { accept = 'application/json', anonymous, peer, statusDecides = false } = options;
  return outbound.fetch(url, { peer, app, headers: { accept }, anonymous }, { ...LIMITS, statusDecides });
}

export interface ReadTimes {
  /** How old a value may be. */
  freshMs: number;
  /** How old it may be while it cannot be read again. */
  usableMs: number;
  /** The pause after a failed read. @param failures how many preceded it in a row */
  pauseMs(failures: number): number;
}

export interface CachedReads<Key, T> {
  /**
   * @param app id of the connected app for which it may read
   * @throws ProviderError, during a pause with `retryAfterSeconds`
   */
  load(key: Key, app?: string): Promise<T>;
  /** Has the value read again by the next load, at most once in 10 seconds. */
  doubt(key: Key): void;
  /** Has each value read again by its next load. */
  doubtAll(): void;
  /** Why the last read of this key failed; undefined where it did not. */
  failure(key: Key): ProviderError | undefined;
}

/**
 * Caches the value of each key: one read at a time, and the last value while it cannot be read again.
 * @param cache a `Map`, or a `WeakMap` for keys that are objects
 * @param monotonicClock milliseconds, independent of the system's time
 */
export function cachedReads<Key, T>(
  cache: { get(key: Key): CachedRead<T> | undefined; set(key: Key, read: CachedRead<T>): unknown },
  read: (key: Key, app: string | undefined) => Promise<T>,
  times: ReadTimes,
  monotonicClock: () => number,
): CachedReads<Key, T> {
  let allDoubtedAt = Number.NEGATIVE_INFINITY;
  return {
    load(key, app) {
      const cached = cache.get(key) ?? cachedRead((reader) => read(key, reader), times, monotonicClock);
      cache.set(key, cached);
      return cached.load(app, allDoubtedAt);
    },
    doubt: (key) => cache.get(key)?.doubt(),
    doubtAll() {
      allDoubtedAt = monotonicClock();
    },
    failure: (key) => cache.get(key)?.failure(),
  };
}

/** With less, each request for a thing that the provider does not have would cause a read. */
const MIN_DOUBT_MS = 10_000;

interface CachedRead<T> {
  /** @param notBefore a value that was read earlier is not fresh */
  load(app: string | undefined, notBefore: number): Promise<T>;
  doubt(): void;
  failure(): ProviderError | undefined;
}

function cachedRead<T>(
  read: (app: string | undefined) => Promise<T>,
  { freshMs, usableMs, pauseMs }: ReadTimes,
  monotonicClock: () => number,
): CachedRead<T> {
  let cached: { value: T; readAt: number; isDoubted: boolean } | undefined;
  let failed: { error: ProviderError; failures: number; retryAt: number } | undefined;
  let reading: Promise<T> | undefined;
  let doubtedAt = Number.NEGATIVE_INFINITY;

  const readAgain = async (app: string | undefined): Promise<T> => {
    const startedAt = monotonicClock();
    try {
      const value = await read(app);
      cached = { value, readAt: startedAt, isDoubted: false };
      failed = undefined;
      return value;
    } catch (thrown) {
      const error = ProviderError.from(thrown);
      const failures = failed?.failures ?? 0;
      failed = { error, failures: failures + 1, retryAt: monotonicClock() + pauseMs(failures) };
      throw error;
    } finally {
      reading = undefined;
    }
  };

  return {
    async load(app, notBefore) {
      const now = monotonicClock();
      const isYoungerThan = (ms: number) => cached !== undefined && now - cached.readAt < ms;
      if (cached && !cached.isDoubted && cached.readAt > notBefore && isYoungerThan(freshMs)) return cached.value;
      const usable = isYoungerThan(usableMs) ? cached : undefined;
      if (!reading && failed && now < failed.retryAt) {
        if (usable) return usable.value;
        throw failed.error.retryIn(Math.ceil((failed.retryAt - now) / 1000));
      }
      reading ??= readAgain(app);
      return reading.catch((error: unknown) => (usable ? usable.value : Promise.reject(error)));
    },
    doubt() {
      const now = monotonicClock();
      if (!cached || now - doubtedAt < MIN_DOUBT_MS) return;
      doubtedAt = now;
      cached.isDoubted = true;
    },
    failure: () => failed?.error,
  };
}
