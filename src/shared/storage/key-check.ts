/** Checks at the start that ENCRYPTION_KEYS contains every key that sealed the store. */
import { keys } from './keys.ts';
import { allMembers } from './paging.ts';
import { StorageRefused } from './refused.ts';
import { SealError, type Sealer, type SealReason } from './sealed.ts';
import { countSealed, sumOf } from './sealed-records.ts';
import type { Store } from './store.ts';

/**
 * Proves at the start that the keys fit the data. The first key ever used seals it; `resealKeyCheck` seals it again
 * after a rotation.
 */
const STORE_SENTINEL = keys.keyCheck;
const CONTENT = 'gatehouse';

/**
 * Checks the keys, writes missing sentinels, and marks the sealing key as in use. Counts records only if a key is
 * missing, so that a start is quick.
 * @param lostKeys ids of keys that may be missing, because their records were given up
 * @throws StorageRefused if a key in use is missing, or a sentinel cannot be opened
 */
export async function checkKeyRing(store: Store, sealer: Sealer, lostKeys: readonly string[] = []): Promise<void> {
  const read = async (key: string) => (await store.get(key))?.value ?? (await writeSentinel(store, sealer, key));
  await check(store, sealer, lostKeys, read);
  await markInUse(store, sealer.sealingKid);
}

/** Like `checkKeyRing`, but writes nothing. @throws StorageRefused */
export function assertKeyRing(store: Store, sealer: Sealer): Promise<void> {
  return check(store, sealer, [], async (key) => (await store.get(key))?.value);
}

type ReadSentinel = (key: string) => Promise<string | undefined>;

async function check(store: Store, sealer: Sealer, lostKeys: readonly string[], read: ReadSentinel): Promise<void> {
  const kidsInUse = await keysInUse(store);
  const missingKid = kidsInUse.find((kid) => !sealer.kids.includes(kid) && !lostKeys.includes(kid));
  if (missingKid !== undefined) throw await missingKeyError(store, sealer, missingKid);
  await checkSentinel(sealer, STORE_SENTINEL, await read(STORE_SENTINEL), lostKeys);
  for (const kid of new Set([...kidsInUse, sealer.sealingKid])) {
    const key = keys.keyCheckOf(kid);
    if (sealer.kids.includes(kid)) await checkSentinel(sealer, key, await read(key));
  }
}

/** Returns true for a store that Gatehouse has never opened, or that has lost all data. */
export async function isEmpty(store: Store): Promise<boolean> {
  return (await store.get(STORE_SENTINEL)) === undefined;
}

/** Returns the ids of the keys with which records may still be sealed. A start without one of them is refused. */
export function keysInUse(store: Store): Promise<string[]> {
  return allMembers(store, keys.keysInUse);
}

/** Returns the ids of the keys for which `retireKey` was called. */
export function keysReplaced(store: Store): Promise<string[]> {
  return allMembers(store, keys.keysReplaced);
}

/** Returns when each key in use was first used, in milliseconds since the epoch. */
export async function firstUses(store: Store): Promise<ReadonlyMap<string, number>> {
  const { items } = await store.page(keys.keysInUse, { limit: 500 });
  return new Map(items.map(({ member, score }) => [member, score]));
}

/**
 * Does the last step of a key rotation: from then on, the store requires the current sealing key instead of the former
 * one.
 */
export async function resealKeyCheck(store: Store, sealer: Sealer): Promise<void> {
  await store.write([{ put: STORE_SENTINEL, value: await sealer.seal(CONTENT, STORE_SENTINEL) }]);
  await markInUse(store, sealer.sealingKid);
}

/** Retires a key, so that the store can be opened without it. */
export async function retireKey(store: Store, kid: string): Promise<void> {
  await store.write([{ delete: keys.keyCheckOf(kid) }]);
  await store.write([{ index: keys.keysReplaced, add: kid, score: Date.now() }]);
  await store.write([{ index: keys.keysInUse, remove: kid }]);
}

async function markInUse(store: Store, kid: string): Promise<void> {
  if ((await keysInUse(store)).includes(kid)) return;
  await store.write([{ index: keys.keysInUse, add: kid, score: Date.now() }]);
}

async function checkSentinel(
  sealer: Sealer,
  key: string,
  value: string | undefined,
  lostKeys: readonly string[] = [],
): Promise<void> {
  if (value === undefined || lostKeys.includes(sealer.kidOf(value) ?? '')) return;
  try {
    await sealer.open(value, key);
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    throw new StorageRefused(explain(error.reason, sealer.kidOf(value)), error);
  }
}

/** Returns undefined, or the sentinel that another process wrote first, which must then be checked. */
async function writeSentinel(store: Store, sealer: Sealer, key: string): Promise<string | undefined> {
  const value = await sealer.seal(CONTENT, key);
  if (await store.write([{ put: key, value, ifVersion: 0 }])) return undefined;
  return (await store.get(key))?.value;
}

const PUT_BACK_ADVICE = 'Put the former key back, anywhere in ENCRYPTION_KEYS.';

async function missingKeyError(store: Store, sealer: Sealer, kid: string): Promise<StorageRefused> {
  const counts = (await countSealed(store, sealer)).get(kid) ?? new Map<string, number>();
  const kinds = [...counts].map(([kind, count]) => `${kind}: ${count.toLocaleString('en-GB')}`).join(', ');
  const use =
    kinds === '' ? 'is still in use' : `still seals ${sumOf(counts).toLocaleString('en-GB')} records (${kinds})`;
  return new StorageRefused(
    `The key "${kid}", which ENCRYPTION_KEYS does not hold, ${use}. ${PUT_BACK_ADVICE} Before you drop it, run: npm run gatehouse -- keys rotate. ${lostKeyAdvice(kid)}`,
  );
}

function lostKeyAdvice(kid: string): string {
  return `If it is lost for good, run: npm run gatehouse -- keys forget ${kid}. The affected users must then connect again.`;
}

function explain(reason: SealReason, kid: string | undefined): string {
  if (reason === 'unknown_key' && kid !== undefined)
    return `The store is sealed with the key "${kid}", which ENCRYPTION_KEYS does not hold. ${PUT_BACK_ADVICE} ${lostKeyAdvice(kid)}`;
  if (kid !== undefined)
    return `The key "${kid}" in ENCRYPTION_KEYS is not the key with that id that sealed the store. ${PUT_BACK_ADVICE} If that key is lost for good, give the new key another id, and run: npm run gatehouse -- keys forget ${kid}. The affected users must then connect again.`;
  return 'The record that proves the encryption keys is damaged. Restore the storage from a backup.';
}
