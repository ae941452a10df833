/** Sealed values inside records: finds them anywhere in the text, counts them by key id, and seals them again. */
import { setTimeout as sleep } from 'node:timers/promises';
import { keys, kindOf } from './keys.ts';
import type { Sealer } from './sealed.ts';
import type { Store, WalkedRecord } from './store.ts';

/** Text that may be a sealed value; the sealer decides. */
const CANDIDATE = /eyJ[A-Za-z0-9_-]{1,509}\.\.[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{22}/g;

/** The ids of the keys that seal something in this record. */
export function kidsIn(sealer: Sealer, { key, value }: WalkedRecord): string[] {
  // The records that prove the keys are not resealed like others: each key has its own.
  if (key.startsWith(keys.keyCheck)) return [];
  const kids = (value.match(CANDIDATE) ?? []).map((sealed) => sealer.kidOf(sealed));
  return [...new Set(kids.filter((kid) => kid !== undefined))];
}

/**
 * The number of records by key id and kind. A record that two keys seal counts for both. Reads every record, so that no kind
 * can be forgotten.
 */
export async function countSealed(store: Store, sealer: Sealer) {
  const counts = new Map<string, Map<string, number>>();
  let since = performance.now();
  for await (const records of store.walk()) {
    for (const record of records) {
      for (const kid of kidsIn(sealer, record)) {
        const ofKid = counts.get(kid) ?? new Map<string, number>();
        counts.set(kid, ofKid.set(kindOf(record.key), (ofKid.get(kindOf(record.key)) ?? 0) + 1));
      }
    }
    // The embedded database never makes this wait. A pause as long as the work leaves half of the time to requests: without
    // it, the count of a million records makes the process so late that it refuses requests.
    await sleep(performance.now() - since);
    since = performance.now();
  }
  return counts;
}

export function sumOf(ofKid: ReadonlyMap<string, number> | undefined): number {
  return [...(ofKid?.values() ?? [])].reduce((sum, count) => sum + count, 0);
}

/** The record's text with every sealed value sealed by the first key. @throws SealError if one cannot be opened */
export async function resealedText(sealer: Sealer, { key, value }: WalkedRecord): Promise<string> {
  let text = value;
  for (const sealed of new Set(value.match(CANDIDATE) ?? [])) {
    const kid = sealer.kidOf(sealed);
    if (kid === undefined || kid === sealer.sealingKid) continue;
    text = text.replaceAll(sealed, await sealer.seal(await sealer.open(sealed, key), key));
  }
  return text;
}
