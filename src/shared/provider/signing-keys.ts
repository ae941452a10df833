/** Reads a provider's signing keys at most every 10 seconds; the last ones stay in use while it is down (R24). */
import { createLocalJWKSet, type JWK, type LocalJWKSet } from 'jose';
import { isObject } from '../json.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { HOUR_MS } from '../time.ts';
import { ProviderError, retryFacts } from './provider-error.ts';
import { cachedReads, fetchDocument, type ReadTimes } from './provider-read.ts';

export interface SigningKeys {
  /**
   * The keys of the set at this URL (RFC 7517 section 5). They are at most 10 seconds old, so a key that the provider has
   * just started to use is found, or up to an hour old while the set cannot be read.
   * @param app id of the connected app that the read is for
   * @throws ProviderError `unavailable`, or `misconfigured` if the address policy refuses the URL
   */
  load(url: string, app?: string): Promise<LocalJWKSet>;
  /** Why the last read of this URL failed; undefined if it succeeded. */
  failure(url: string): ProviderError | undefined;
}

/** With less than 10 seconds, each token with an invented key ID could cause a call to the provider. */
const TIMES: ReadTimes = { freshMs: 10_000, usableMs: HOUR_MS, pauseMs: () => 5_000 };

/** Never `none` or a shared secret, whatever the provider advertises (R23). */
const SIGNING_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];

/** The allowed algorithms that the provider advertises; all allowed ones if it advertises none. */
export function signingAlgorithms(advertised: unknown): string[] {
  return Array.isArray(advertised)
    ? SIGNING_ALGORITHMS.filter((algorithm) => advertised.includes(algorithm))
    : SIGNING_ALGORITHMS;
}

/** @param parts `monotonicClock` in milliseconds, independent of the system's time; `clock` since the epoch */
export function createSigningKeys(parts: {
  outbound: Outbound;
  clock?: () => number;
  monotonicClock: () => number;
}): SigningKeys {
  const { outbound, clock = Date.now, monotonicClock } = parts;
  const read = (url: string, app: string | undefined) => readKeys(outbound, url, app, clock);
  return cachedReads(new Map(), read, TIMES, monotonicClock);
}

async function readKeys(outbound: Outbound, url: string, app: string | undefined, clock: () => number) {
  const response = await fetchDocument(outbound, url, app);
  const unusable = new ProviderError('unavailable', 'keys_unavailable', {
    status: response.status,
    ...retryFacts(response, clock()),
  });
  if (response.status !== 200) throw unusable;
  const body: unknown = await response.json().catch(() => undefined);
  if (!isObject(body) || !Array.isArray(body.keys)) throw unusable;
  // RFC 7517 section 5: entries that cannot be used are ignored.
  return createLocalJWKSet({ keys: body.keys.filter(isObject) as JWK[] });
}
