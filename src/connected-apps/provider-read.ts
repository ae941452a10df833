/** Reads documents of a provider, and caches what they hold while it is down. */
import type { Outbound } from '../outbound/outbound.ts';
import type { AnonymousCall } from '../outbound/upstream-gate.ts';
import { ProviderError } from './provider-error.ts';

const LIMITS = { deadlineMilliseconds: 5_000, maxBytes: 512 * 1024 };

/**
 * GETs without authentication.
 * @param anonymous where an anonymous request can cause it
 * @throws OutboundError
 */
export function fetchDocument(
  outbound: Outbound,
  url: string,
  { accept = 'application/json', anonymous }: { accept?: string; anonymous?: AnonymousCall } = {},
): Promise<Response> {
  return outbound.fetch(url, { headers: { accept }, anonymous }, LIMITS);
}

export interface ReadTimes {
  /** How old a value may be. */
  freshMs: number;
  /** How old it may be while it cannot be read again. */
  usableMs: number;
  /** The pause after a failed read. @param failures how many preceded it in a row */
  pauseMs(failures: number): number;
}

/**
 * Caches the value of each key: one read at a time, and the last value while it cannot be read again.
 * @param cache a `Map`, or a `WeakMap` for keys that are objects
 * @param monotonicClock milliseconds, independent of the system's time
 * @returns a function that throws ProviderError, during a pause with `retryAfterSeconds`
 */
export function cachedReads<Key, T>(
  cache: { get(key: Key): (() => Promise<T>) | undefined; set(key: Key, read: () => Promise<T>): unknown },
  read: (key: Key) => Promise<T>,
  times: ReadTimes,
  monotonicClock: () => number,
): (key: Key) => Promise<T> {
  return (key) => {
    const load = cache.get(key) ?? cachedRead(() => read(key), times, monotonicClock);
    cache.set(key, load);
    return load();
  };
}

function cachedRead<T>(
  read: () => Promise<T>,
  { freshMs, usableMs, pauseMs }: ReadTimes,
  monotonicClock: () => number,
): () => Promise<T> {
  let cached: { value: T; readAt: number } | undefined;
  let failed: { error: ProviderError; failures: number; retryAt: number } | undefined;
  let reading: Promise<T> | undefined;

  const readAgain = async (): Promise<T> => {
    try {
      const value = await read();
      cached = { value, readAt: monotonicClock() };
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

  return async () => {
    const now = monotonicClock();
    const isYoungerThan = (ms: number) => cached !== undefined && now - cached.readAt < ms;
    if (cached && isYoungerThan(freshMs)) return cached.value;
    const usable = isYoungerThan(usableMs) ? cached : undefined;
    if (!reading && failed && now < failed.retryAt) {
      if (usable) return usable.value;
      throw failed.error.retryIn(Math.ceil((failed.retryAt - now) / 1000));
    }
    reading ??= readAgain();
    return reading.catch((error: unknown) => (usable ? usable.value : Promise.reject(error)));
  };
}
