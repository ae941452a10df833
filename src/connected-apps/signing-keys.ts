/** Reads a provider's signing keys: one call at a time, at most every 10 seconds. The last keys stay in use while it is down (R24). */
import { createLocalJWKSet, type JWK } from 'jose';
import type { Outbound } from '../outbound/outbound.ts';
import { ProviderError } from './provider-error.ts';

export type KeySet = ReturnType<typeof createLocalJWKSet>;

export interface SigningKeys {
  /**
   * The keys of the set at this URL (RFC 7517 section 5), at most 10 seconds old, so that a key which the provider has
   * just started to use is found; up to an hour old while the set cannot be read.
   * @throws ProviderError `unavailable`, or `misconfigured` where the address policy refuses the URL
   */
  load(url: string): Promise<KeySet>;
}

/** Limits how often tokens with invented key ids make us call the provider. */
const FRESH_MS = 10_000;
/** How long the last keys are used while the provider is unavailable. */
const USABLE_MS = 3_600_000;
const RETRY_MS = 5_000;
const LIMITS = { deadlineMilliseconds: 5_000, maxBytes: 512 * 1024 };

/** Never `none` or a shared secret, whatever the provider advertises (R23). */
const SIGNING_ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];

/** The allowed algorithms that are advertised; all allowed ones where none are, as with hand-set endpoints. */
export function signingAlgorithms(advertised: unknown): string[] {
  return Array.isArray(advertised)
    ? SIGNING_ALGORITHMS.filter((algorithm) => advertised.includes(algorithm))
    : SIGNING_ALGORITHMS;
}

/** Times of the monotonic clock. */
interface Entry {
  keySet?: KeySet;
  readAt: number;
  notBefore: number;
  lastError?: ProviderError;
  reading?: Promise<KeySet> | undefined;
}

/** @param parts `monotonicClock`: milliseconds, independent of the system's time */
export function createSigningKeys(parts: { outbound: Outbound; monotonicClock: () => number }): SigningKeys {
  const { outbound, monotonicClock } = parts;
  const entries = new Map<string, Entry>();

  const read = async (url: string, entry: Entry): Promise<KeySet> => {
    try {
      entry.keySet = await readKeys(outbound, url);
      entry.readAt = monotonicClock();
      return entry.keySet;
    } catch (error) {
      entry.lastError = ProviderError.from(error);
      entry.notBefore = monotonicClock() + RETRY_MS;
      throw entry.lastError;
    } finally {
      entry.reading = undefined;
    }
  };

  return {
    async load(url) {
      const entry = entries.get(url) ?? { readAt: Number.NEGATIVE_INFINITY, notBefore: 0 };
      entries.set(url, entry);
      const age = monotonicClock() - entry.readAt;
      if (entry.keySet && age < FRESH_MS) return entry.keySet;
      if (!entry.reading && monotonicClock() >= entry.notBefore) entry.reading = read(url, entry);
      const usable = age < USABLE_MS ? entry.keySet : undefined;
      if (entry.reading) return entry.reading.catch((error: unknown) => usable ?? Promise.reject(error));
      if (usable) return usable;
      throw entry.lastError ?? new ProviderError('unavailable', 'keys_unavailable');
    },
  };
}

async function readKeys(outbound: Outbound, url: string): Promise<KeySet> {
  const response = await outbound.fetch(url, { headers: { accept: 'application/json' } }, LIMITS);
  const unusable = new ProviderError('unavailable', 'keys_unavailable', { status: response.status });
  if (response.status !== 200) throw unusable;
  const body: unknown = await response.json().catch(() => undefined);
  if (typeof body !== 'object' || body === null || !('keys' in body) || !Array.isArray(body.keys)) throw unusable;
  // RFC 7517 section 5: entries that cannot be used are ignored.
  return createLocalJWKSet({ keys: body.keys.filter(isObject) as JWK[] });
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
