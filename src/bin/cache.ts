/** Owns the cache of what the BIN lookup service answered, shared by all processes through the store. */
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import type { Bin } from './bin.ts';
import { type BinRecord, isEmptyRecord, recordFromAnswer } from './record.ts';

/** `asOf`: the date on which the service gave the answer, YYYY-MM-DD (UTC). */
export type CachedAnswer = { found: true; record: BinRecord; asOf: string; digitsMatched: number } | { found: false };

export interface BinCache {
  get(bin: Bin): Promise<CachedAnswer | undefined>;
  put(bin: Bin, answer: CachedAnswer): Promise<void>;
}

const FOUND_SECONDS = 30 * 24 * 3600;
const NOT_FOUND_SECONDS = 24 * 3600;

export function createBinCache(store: Store): BinCache {
  return {
    async get(bin) {
      const stored = await store.get(keys.bin(bin));
      return stored && readCached(stored.value);
    },
    async put(bin, answer) {
      const lifetimeSeconds = answer.found ? FOUND_SECONDS : NOT_FOUND_SECONDS;
      await store.write([{ put: keys.bin(bin), value: JSON.stringify(answer), lifetimeSeconds }]);
    },
  };
}

/** What another version of Gatehouse may have written is read as warily as an answer; undefined is a miss. */
function readCached(value: string): CachedAnswer | undefined {
  try {
    const { found, record, asOf, digitsMatched } = JSON.parse(value);
    if (found === false) return { found };
    const read = recordFromAnswer(record);
    if (!read || isEmptyRecord(read) || typeof asOf !== 'string' || !Number.isInteger(digitsMatched)) return undefined;
    return { found: true, record: read, asOf, digitsMatched };
  } catch {
    return undefined;
  }
}
