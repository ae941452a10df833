/** The change of keys while Gatehouse runs: every sealed record is sealed again with the first key, never over a newer one. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../errors.ts';
import { keysInUse, resealKeyCheck, retireKey } from './key-check.ts';
import { kindOf, SEALED_KINDS } from './keys.ts';
import { patiently } from './patience.ts';
import { SealError, type Sealer } from './sealed.ts';
import { countSealed, kidsIn, resealedText } from './sealed-records.ts';
import type { Store, WalkedRecord } from './store.ts';

export interface RotationResult {
  resealed: number;
  /** Records that no key opens, by kind: they were left as they are, and fail for their owner alone. */
  unreadable: ReadonlyMap<string, number>;
  /** Keys that seal nothing any more and can be dropped. */
  retired: readonly string[];
}

/** Few enough that a request which waits for the same database is kept waiting for milliseconds. */
const SEALED_AT_ONCE = 32;
/** Each pass finds what the one before could not: records that were written by others under an older key meanwhile. */
const MAX_PASSES = 10;

/**
 * May be stopped at any moment, and begun again: what is sealed by the first key already is passed over.
 * Rejects with `AppError('storage_unavailable')` once the store has been away for a minute.
 * @param advance told of each number of records that are done
 * @param assertNobodyBehind rejects where somebody may still seal with another key; asked before any key is let go
 */
export async function rotateKeys(
  store: Store,
  sealer: Sealer,
  advance: (done: number) => void,
  assertNobodyBehind: () => Promise<void> = async () => undefined,
): Promise<RotationResult> {
  const rotator = createRotator(store, sealer, advance);
  for (let pass = 1; pass <= MAX_PASSES; pass += 1) {
    if ((await patiently(() => rotator.pass())) > 0) continue;
    await patiently(assertNobodyBehind);
    // Somebody may have sealed with an older key just before they were asked, or ended.
    if ((await patiently(() => rotator.pass())) > 0) continue;
    await patiently(() => resealKeyCheck(store, sealer));
    const inUse = await patiently(() => keysInUse(store));
    const retired = inUse.filter((kid) => kid !== sealer.sealingKid);
    for (const kid of retired) await patiently(() => retireKey(store, kid));
    return { resealed: rotator.resealed(), unreadable: tally(rotator.unreadable), retired };
  }
  const detail = 'Records are sealed with an older key again and again: some process still has it first in the list.';
  throw new AppError('version_conflict', { detail });
}

function createRotator(store: Store, sealer: Sealer, advance: (done: number) => void) {
  const unreadable = new Set<string>();
  let resealed = 0;

  const reseal = async (record: WalkedRecord): Promise<boolean> => {
    for (let now: WalkedRecord | undefined = record; now && isDue(now); now = await read(store, record.key)) {
      const step = { put: now.key, value: await resealedText(sealer, now), ifVersion: now.version };
      // Whoever wrote in between has the newer content: that is read, and judged again.
      if (await store.write([{ ...step, lifetimeSeconds: 'unchanged' }])) return true;
    }
    return false;
  };

  const isDue = (record: WalkedRecord) => kidsIn(sealer, record).some((kid) => kid !== sealer.sealingKid);

  const settle = async (record: WalkedRecord): Promise<number> => {
    try {
      return (await patiently(() => reseal(record))) ? 1 : 0;
    } catch (error) {
      if (!(error instanceof SealError)) throw error;
      unreadable.add(record.key);
      return 0;
    }
  };

  return {
    unreadable,
    resealed: () => resealed,
    /** Answers how many records it has changed. */
    async pass(): Promise<number> {
      let changed = 0;
      for await (const records of store.walk()) {
        const due = records.filter((record) => isDue(record) && !unreadable.has(record.key));
        while (due.length > 0) {
          const batch = due.splice(0, SEALED_AT_ONCE);
          const since = performance.now();
          const done = (await Promise.all(batch.map(settle))).reduce((sum, one) => sum + one, 0);
          changed += done;
          resealed += done;
          advance(batch.length);
          // As long a pause as the work took leaves the store to requests for half the time.
          await sleep(performance.now() - since);
        }
      }
      return changed;
    },
  };
}

/**
 * Gives up a key that is lost for good: the store can then be opened without it. What it sealed is deleted where nobody
 * misses it, and otherwise left, so that its owner sees that it cannot be read.
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

/** How many records are still to be sealed again; waits for a store that is away, as the rotation does. */
export async function countDue(store: Store, sealer: Sealer): Promise<number> {
  const counts = await patiently(() => countSealed(store, sealer));
  counts.delete(sealer.sealingKid);
  return [...counts.values()].flatMap((kinds) => [...kinds.values()]).reduce((sum, count) => sum + count, 0);
}

async function read(store: Store, key: string): Promise<WalkedRecord | undefined> {
  const record = await store.get(key);
  return record && { key, ...record };
}

function tally(recordKeys: ReadonlySet<string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const key of recordKeys) counts.set(kindOf(key), (counts.get(kindOf(key)) ?? 0) + 1);
  return counts;
}
