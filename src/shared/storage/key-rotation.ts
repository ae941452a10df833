/** Key rotation while Gatehouse runs: reseals every record with the first key, and never overwrites a newer record. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../errors.ts';
import { keysInUse, resealKeyCheck, retireKey } from './key-check.ts';
import { kindOf, SEALED_KINDS } from './keys.ts';
import { retryWhileUnavailable } from './retry.ts';
import { SealError, type Sealer } from './sealed.ts';
import { countSealed, kidsIn, resealedText, sumOf } from './sealed-records.ts';
import type { KeyedRecord, Store } from './store.ts';

export interface RotationResult {
  resealed: number;
  /** The number of records of each kind that no key opens. They are not changed. */
  unreadable: ReadonlyMap<string, number>;
  /** Keys that no longer seal any record and can be removed. */
  retired: readonly string[];
}

/** Records that are resealed at once: few enough that a request waits only milliseconds for the database. */
const RESEALED_AT_ONCE = 32;
/** Each pass finds the records that other processes wrote with an older key during the previous pass. */
const MAX_PASSES = 10;

/**
 * Reseals every record with the first key, and retires the others. May be stopped at any time and run again: records
 * that the first key has sealed are skipped.
 * @param onProgress called after each batch with its number of records
 * @param assertAllUse called before any key is retired; it rejects if a process may still seal with another key
 * @throws AppError `storage_unavailable` once the store has been unavailable for a minute
 */
export async function rotateKeys(
  store: Store,
  sealer: Sealer,
  onProgress: (done: number) => void,
  assertAllUse: () => Promise<void> = async () => undefined,
): Promise<RotationResult> {
  const rotator = createRotator(store, sealer, onProgress);
  for (let pass = 1; pass <= MAX_PASSES; pass += 1) {
    if ((await retryWhileUnavailable(() => rotator.pass())) > 0) continue;
    await retryWhileUnavailable(assertAllUse);
    // A process may have sealed with an older key just before it responded or ended.
    if ((await retryWhileUnavailable(() => rotator.pass())) > 0) continue;
    await retryWhileUnavailable(() => resealKeyCheck(store, sealer));
    const kidsInUse = await retryWhileUnavailable(() => keysInUse(store));
    const retired = kidsInUse.filter((kid) => kid !== sealer.sealingKid);
    for (const kid of retired) await retryWhileUnavailable(() => retireKey(store, kid));
    return { resealed: rotator.resealed(), unreadable: rotator.unreadable(), retired };
  }
  const detail = 'Records are still being sealed with an older key: some process has it first in ENCRYPTION_KEYS.';
  throw new AppError('version_conflict', { detail });
}

function createRotator(store: Store, sealer: Sealer, onProgress: (done: number) => void) {
  /** The keys of records that no key opens. */
  const unreadable = new Set<string>();
  let resealed = 0;

  const isDue = (record: KeyedRecord) => kidsIn(sealer, record).some((kid) => kid !== sealer.sealingKid);

  const reseal = async (record: KeyedRecord): Promise<boolean> => {
    for (
      let current: KeyedRecord | undefined = record;
      current && isDue(current);
      current = await read(store, record.key)
    ) {
      const step = { put: current.key, value: await resealedText(sealer, current), ifVersion: current.version };
      // If the record has changed, its new version is read and checked again.
      if (await store.write([{ ...step, lifetimeSeconds: 'unchanged' }])) return true;
    }
    return false;
  };

  const resealIfReadable = async (record: KeyedRecord): Promise<number> => {
    try {
      return (await retryWhileUnavailable(() => reseal(record))) ? 1 : 0;
    } catch (error) {
      if (!(error instanceof SealError)) throw error;
      unreadable.add(record.key);
      return 0;
    }
  };

  return {
    resealed: () => resealed,
    unreadable() {
      const byKind = Map.groupBy(unreadable, kindOf);
      return new Map([...byKind].map(([kind, recordKeys]) => [kind, recordKeys.length]));
    },
    /** Returns the number of records that it resealed. */
    async pass(): Promise<number> {
      const earlierCount = resealed;
      for await (const records of store.walk()) {
        const dueRecords = records.filter((record) => isDue(record) && !unreadable.has(record.key));
        while (dueRecords.length > 0) {
          const batch = dueRecords.splice(0, RESEALED_AT_ONCE);
          const startedAt = performance.now();
          for (const count of await Promise.all(batch.map(resealIfReadable))) resealed += count;
          onProgress(batch.length);
          // A pause as long as the work leaves half of the time to requests.
          await sleep(performance.now() - startedAt);
        }
      }
      return resealed - earlierCount;
    },
  };
}

/**
 * Gives up a lost key, so that the store can be opened without it. Of the records that it sealed, those of the kinds
 * `deleted` in `SEALED_KINDS` are deleted. The others stay, so that their owners see that they cannot be read.
 */
export async function forgetKey(store: Store, sealer: Sealer, kid: string): Promise<void> {
  for await (const records of store.walk()) {
    for (const record of records) {
      if (SEALED_KINDS[kindOf(record.key)] !== 'deleted' || !kidsIn(sealer, record).includes(kid)) continue;
      await store.write([{ delete: record.key, ifVersion: record.version }]);
    }
  }
  await resealKeyCheck(store, sealer);
  await retireKey(store, kid);
}

/** Counts the records that a rotation would reseal. Retries while the store is unavailable. */
export async function countDue(store: Store, sealer: Sealer): Promise<number> {
  const counts = await retryWhileUnavailable(() => countSealed(store, sealer));
  counts.delete(sealer.sealingKid);
  return counts.values().reduce((total, kinds) => total + sumOf(kinds), 0);
}

async function read(store: Store, key: string): Promise<KeyedRecord | undefined> {
  const record = await store.get(key);
  return record && { key, ...record };
}
