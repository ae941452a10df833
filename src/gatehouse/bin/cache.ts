/** Caches responses of the BIN lookup service in the store, for all processes. */

import type { Bin } from '../../shared/bin/parse-bin.ts';
import { type BinRecord, isEmptyRecord } from '../../shared/bin/record.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Store } from '../../shared/storage/store.ts';
import { DAY_SECONDS } from '../../shared/time.ts';
import { recordFromResponse } from './response.ts';

/** `asOf`: date of the facts, YYYY-MM-DD (UTC). */
export type CacheEntry =
  | { found: true; record: BinRecord; asOf: string; digitsMatched: number; testData?: true }
  | { found: false };

/** `fresh`: false for a record that is only used while the service is unavailable. */
export type CachedResult = CacheEntry & { fresh: boolean };

export interface BinCache {
  get(bin: Bin): Promise<CachedResult | undefined>;
  put(bin: Bin, result: CacheEntry): Promise<void>;
}

const FRESH_SECONDS = 30 * DAY_SECONDS;
const LIFETIME_SECONDS = 180 * DAY_SECONDS;
const NOT_FOUND_SECONDS = DAY_SECONDS;

/** @param parts `clock`: milliseconds since the epoch */
export function createBinCache({ store, clock }: { store: Store; clock: () => number }): BinCache {
  return {
    async get(bin) {
      const stored = await store.get(keys.bin(bin));
      return stored && readCached(stored.value, clock());
    },
    async put(bin, result) {
      const lifetimeSeconds = result.found ? LIFETIME_SECONDS : NOT_FOUND_SECONDS;
      const freshUntil = clock() + FRESH_SECONDS * 1000;
      const value = JSON.stringify(result.found ? { ...result, freshUntil } : result);
      await store.write([{ put: keys.bin(bin), value, lifetimeSeconds }]);
    },
  };
}

/** Validates an entry, which another version of Gatehouse may have written. Returns undefined for an invalid one. */
function readCached(value: string, now: number): CachedResult | undefined {
  try {
    const { found, record, asOf, digitsMatched, testData, freshUntil } = JSON.parse(value);
    if (found === false) return { found, fresh: true };
    const valid = recordFromResponse(record);
    if (!valid || isEmptyRecord(valid) || typeof asOf !== 'string' || !Number.isInteger(digitsMatched))
      return undefined;
    const fresh = now < Number(freshUntil);
    return { found: true, record: valid, asOf, digitsMatched, ...(testData === true && { testData }), fresh };
  } catch {
    return undefined;
  }
}
