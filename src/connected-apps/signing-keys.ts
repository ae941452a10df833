/** Owns the reading of a provider's signing keys: one call at a time, at most one a minute, and the last ones while none can be had (R24). */
import type { Outbound } from '../outbound/outbound.ts';
import { ProviderError } from './provider-error.ts';
import type { ProviderMetadata } from './provider-metadata.ts';

export interface SigningKeys {
  /**
   * The key set (RFC 7517 section 5) as an answer that can be read once.
   * @throws ProviderError `unavailable`, or `misconfigured` where the address policy refuses the URL
   */
  fetch(url: string): Promise<Response>;
}

/** An ID token with a key that nobody knows asks for the keys again; a minute keeps a provider from being asked for each. */
const FRESH_MILLISECONDS = 60_000;
/** How long the last keys count while the provider cannot be asked; beyond that nothing vouches for them. */
const USABLE_MILLISECONDS = 3_600_000;
const RETRY_MILLISECONDS = 5_000;
const LIMITS = { deadlineMilliseconds: 5_000, maxBytes: 512 * 1024 };

/** What a provider may sign with, whatever it advertises: never `none`, never a shared secret (R23). */
const SIGNING_ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];

/** Those that are advertised and allowed; all that are allowed where nothing is advertised, as with hand-set endpoints. */
export function signingAlgorithms({ id_token_signing_alg_values_supported: advertised }: ProviderMetadata): string[] {
  return Array.isArray(advertised)
    ? SIGNING_ALGORITHMS.filter((algorithm) => advertised.includes(algorithm))
    : SIGNING_ALGORITHMS;
}

interface Entry {
  text?: string;
  readAt: number;
  notBefore: number;
  lastError?: ProviderError;
  reading?: Promise<string> | undefined;
}

export function createSigningKeys(parts: { outbound: Outbound; clock: () => number }): SigningKeys {
  const { outbound, clock } = parts;
  const entries = new Map<string, Entry>();

  const read = async (url: string, entry: Entry): Promise<string> => {
    try {
      entry.text = await readKeys(outbound, url);
      entry.readAt = clock();
      return entry.text;
    } catch (error) {
      entry.lastError = ProviderError.from(error);
      entry.notBefore = clock() + RETRY_MILLISECONDS;
      throw entry.lastError;
    } finally {
      entry.reading = undefined;
    }
  };

  const load = async (url: string): Promise<string> => {
    const entry = entries.get(url) ?? { readAt: Number.NEGATIVE_INFINITY, notBefore: 0 };
    entries.set(url, entry);
    const age = clock() - entry.readAt;
    if (entry.text !== undefined && age >= 0 && age < FRESH_MILLISECONDS) return entry.text;
    if (!entry.reading && clock() >= entry.notBefore) entry.reading = read(url, entry);
    const usable = age < USABLE_MILLISECONDS ? entry.text : undefined;
    if (entry.reading) return entry.reading.catch((error: unknown) => usable ?? Promise.reject(error));
    if (usable !== undefined) return usable;
    throw entry.lastError ?? new ProviderError('unavailable', 'keys_unavailable');
  };

  return {
    fetch: async (url) => new Response(await load(url), { headers: { 'content-type': 'application/json' } }),
  };
}

async function readKeys(outbound: Outbound, url: string): Promise<string> {
  const answer = await outbound.fetch(url, { headers: { accept: 'application/json' } }, LIMITS);
  const unusable = new ProviderError('unavailable', 'keys_unavailable', { status: answer.status });
  if (answer.status !== 200) throw unusable;
  const text = await answer.text();
  if (!holdsKeys(text)) throw unusable;
  return text;
}

function holdsKeys(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && 'keys' in value && Array.isArray(value.keys);
  } catch {
    return false;
  }
}
