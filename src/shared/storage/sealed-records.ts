/** Sealed values inside records: finds them anywhere in the text, counts them by key id, and seals them again. */
import { setTimeout as sleep } from 'node:timers/promises';
import { keys, kindOf } from './keys.ts';
import type { Sealer } from './sealed.ts';
import type { KeyedRecord, Store } from './store.ts';

/** Matches text that may be a sealed value. The sealer decides. */
const CANDIDATE = /eyJ[A-Za-z0-9_-]{1,509}\.\.[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{22}/g;

/** Returns the ids of the keys that sealed a value in this record. */
export function kidsIn(sealer: Sealer, { key, value }: KeyedRecord): string[] {
  // Each key has a record that proves it, which a rotation does not reseal.
  if (key.startsWith(keys.keyCheck)) return [];
  const kids = (value.match(CANDIDATE) ?? []).map((sealed) => sealer.kidOf(sealed));
  return [...new Set(kids.filter((kid) => kid !== undefined))];
}

/**
 * Counts records by key id and kind. A record with values of two keys counts for both. Reads every record, so that no
 * kind can be forgotten.
 */
export async function countSealed(store: Store, sealer: Sealer) {
  const counts = new Map<string, Map<string, number>>();
  let startedAt = performance.now();
  for await (const records of store.walk()) {
    for (const record of records) {
      for (const kid of kidsIn(sealer, record)) {
        const countsByKind = counts.get(kid) ?? new Map<string, number>();
        counts.set(kid, countsByKind.set(kindOf(record.key), (countsByKind.get(kindOf(record.key)) ?? 0) + 1));
      }
    }
    // Reads of the embedded database are synchronous. A pause as long as the work leaves half of the time to requests;
    // without it, counting a million records delays the process so much that it refuses requests.
    await sleep(performance.now() - startedAt);
    startedAt = performance.now();
  }
  return counts;
}

export function sumOf(countsByKind: ReadonlyMap<string, number> | undefined): number {
  return [...(countsByKind?.values() ?? [])].reduce((sum, count) => sum + count, 0);
}

/**
 * Returns the record's text with every value resealed by the first key.
 * @throws SealError if a value cannot be opened
 */
export async function resealedText(sealer: Sealer, { key, value }: KeyedRecord): Promise<string> {
  let text = value;
  for (const sealed of new Set(value.match(CANDIDATE) ?? [])) {
    const kid = sealer.kidOf(sealed);
    if (kid === undefined || kid === sealer.sealingKid) continue;
    text = text.replaceAll(sealed, await sealer.seal(await sealer.open(sealed, key), key));
  }
  return text;
}
