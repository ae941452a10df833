/** Reads a provider's documents, with a cache that serves the last value while the provider is down. */
import type { Outbound, Peer } from '../outbound/outbound.ts';
import type { AnonymousCall } from '../outbound/outbound-gate.ts';
import { ProviderError } from './provider-error.ts';

const LIMITS = { deadlineMilliseconds: 5_000, maxBytes: 512 * 1024 };

/**
 * GETs without authentication.
 * @param app id of the connected app, if known
 * @param options `anonymous` if an anonymous request can cause the call; `statusDecides` as in `CallLimits`
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
  /** The maximum age of a value. */
  freshMs: number;
  /** The maximum age while reading it fails. */
  usableMs: number;
  /**
   * The pause after a failed read, unless the provider states a longer one.
   * @param failures the number of consecutive failures before it
   */
  pauseMs(failures: number): number;
}

export interface CachedReads<Key, T> {
  /**
   * @param app id of the connected app that a read is for
   * @throws ProviderError, with `retryAfterSeconds` during a pause
   */
  load(key: Key, app?: string): Promise<T>;
  /** Returns the last value, whatever its age, without reading. */
  peek(key: Key): T | undefined;
  /** Makes the next load read the value again, at most once in 10 seconds. */
  markStale(key: Key): void;
  /** Makes the next load of each value read it again. */
  markAllStale(): void;
  /** Why the last read of this key failed; undefined if it succeeded. */
  failure(key: Key): ProviderError | undefined;
}

/**
 * Caches the value of each key, with one read at a time; serves the last value while reading it fails.
 * @param cache a `Map`, or a `WeakMap` for keys that are objects
 * @param monotonicClock in milliseconds, independent of the system's time
 */
export function cachedReads<Key, T>(
  cache: { get(key: Key): CachedRead<T> | undefined; set(key: Key, read: CachedRead<T>): unknown },
  read: (key: Key, app: string | undefined) => Promise<T>,
  times: ReadTimes,
  monotonicClock: () => number,
): CachedReads<Key, T> {
  let allMarkedStaleAt = Number.NEGATIVE_INFINITY;
  return {
    load(key, app) {
      const cached = cache.get(key) ?? cachedRead((reader) => read(key, reader), times, monotonicClock);
      cache.set(key, cached);
      return cached.load(app, allMarkedStaleAt);
    },
    peek: (key) => cache.get(key)?.peek(),
    markStale: (key) => cache.get(key)?.markStale(),
    markAllStale() {
      allMarkedStaleAt = monotonicClock();
    },
    failure: (key) => cache.get(key)?.failure(),
  };
}

/** With a shorter interval, each request for something that the provider does not have could cause a read. */
const MIN_STALE_INTERVAL_MS = 10_000;

/** Limits the wait that a provider states, since nobody can sign in meanwhile. */
const MAX_RETRY_AFTER_MS = 600_000;

interface CachedRead<T> {
  /** @param notBefore a value that was read before this time is stale */
  load(app: string | undefined, notBefore: number): Promise<T>;
  peek(): T | undefined;
  markStale(): void;
  failure(): ProviderError | undefined;
}

function cachedRead<T>(
  read: (app: string | undefined) => Promise<T>,
  { freshMs, usableMs, pauseMs }: ReadTimes,
  monotonicClock: () => number,
): CachedRead<T> {
  let cached: { value: T; readAt: number; isStale: boolean } | undefined;
  let failed: { error: ProviderError; failures: number; retryAt: number } | undefined;
  let reading: Promise<T> | undefined;
  let markedStaleAt = Number.NEGATIVE_INFINITY;

  const refresh = async (app: string | undefined): Promise<T> => {
    const startedAt = monotonicClock();
    try {
      const value = await read(app);
      cached = { value, readAt: startedAt, isStale: false };
      failed = undefined;
      return value;
    } catch (thrown) {
      const error = ProviderError.from(thrown);
      const failures = failed?.failures ?? 0;
      const retryAfterMs = Math.min(MAX_RETRY_AFTER_MS, (error.facts.retryAfterSeconds ?? 0) * 1000);
      const retryAt = monotonicClock() + Math.max(pauseMs(failures), retryAfterMs);
      failed = { error, failures: failures + 1, retryAt };
      throw error;
    } finally {
      reading = undefined;
    }
  };

  return {
    async load(app, notBefore) {
      const now = monotonicClock();
      const isYoungerThan = (ms: number) => cached !== undefined && now - cached.readAt < ms;
      if (cached && !cached.isStale && cached.readAt > notBefore && isYoungerThan(freshMs)) return cached.value;
      const usable = isYoungerThan(usableMs) ? cached : undefined;
      if (!reading && failed && now < failed.retryAt) {
        if (usable) return usable.value;
        throw failed.error.retryIn(Math.ceil((failed.retryAt - now) / 1000));
      }
      reading ??= refresh(app);
      return reading.catch((error: unknown) => (usable ? usable.value : Promise.reject(error)));
    },
    peek: () => cached?.value,
    markStale() {
      const now = monotonicClock();
      if (!cached || now - markedStaleAt < MIN_STALE_INTERVAL_MS) return;
      markedStaleAt = now;
      cached.isStale = true;
    },
    failure: () => failed?.error,
  };
}
