/** Owns the cache of what the BIN lookup service answered, shared by all processes through the store. */
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import type { Bin } from './bin.ts';
import { type BinRecord, isEmptyRecord, recordFromAnswer } from './record.ts';

/** `asOf`: the date on which the service gave the answer, YYYY-MM-DD (UTC). */
export type RememberedAnswer =
  | { found: true; record: BinRecord; asOf: string; digitsMatched: number }
  | { found: false };

/** `fresh`: false for what is only good enough while the service cannot be asked. */
export type CachedAnswer = RememberedAnswer & { fresh: boolean };

export interface BinCache {
  get(bin: Bin): Promise<CachedAnswer | undefined>;
  put(bin: Bin, answer: RememberedAnswer): Promise<void>;
}

const DAY_SECONDS = 24 * 3600;
const FRESH_SECONDS = 30 * DAY_SECONDS;
const KEPT_SECONDS = 180 * DAY_SECONDS;
const NOT_FOUND_SECONDS = DAY_SECONDS;

/** @param parts `clock`: milliseconds since the epoch */
export function createBinCache({ store, clock }: { store: Store; clock: () => number }): BinCache {
  return {
    async get(bin) {
      const stored = await store.get(keys.bin(bin));
      return stored && readCached(stored.value, clock());
    },
    async put(bin, answer) {
      const lifetimeSeconds = answer.found ? KEPT_SECONDS : NOT_FOUND_SECONDS;
      const freshUntil = clock() + FRESH_SECONDS * 1000;
      const value = JSON.stringify(answer.found ? { ...answer, freshUntil } : answer);
      await store.write([{ put: keys.bin(bin), value, lifetimeSeconds }]);
    },
  };
}

/** What another version of Gatehouse may have written is read as warily as an answer; undefined is a miss. */
function readCached(value: string, now: number): CachedAnswer | undefined {
  try {
    const { found, record, asOf, digitsMatched, freshUntil } = JSON.parse(value);
    if (found === false) return { found, fresh: true };
    const read = recordFromAnswer(record);
    if (!read || isEmptyRecord(read) || typeof asOf !== 'string' || !Number.isInteger(digitsMatched)) return undefined;
    return { found: true, record: read, asOf, digitsMatched, fresh: now < Number(freshUntil) };
  } catch {
    return undefined;
  }
}
