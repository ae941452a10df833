/** Checks at the start that ENCRYPTION_KEYS are the keys with which the store was sealed, and that none is missing. */
import { keys } from './keys.ts';
import { allMembers } from './paging.ts';
import { StorageRefused } from './refused.ts';
import { SealError, type Sealer, type SealReason } from './sealed.ts';
import { countSealed, sumOf } from './sealed-records.ts';
import type { Store } from './store.ts';

/** A record that proves the keys: sealed by the first key ever used, and again by `resealKeyCheck` after a rotation. */
const STORE_SENTINEL = keys.keyCheck;
const CONTENT = 'gatehouse';

/**
 * Writes a missing sentinel and notes the sealing key as in use. Records are counted only if a key is missing, so that a
 * start is quick.
 * @param lost ids of keys whose records were given up: they may be missing
 * @throws StorageRefused if a key in use is missing, or a sentinel cannot be opened
 */
export async function checkKeyRing(store: Store, sealer: Sealer, lost: readonly string[] = []): Promise<void> {
  const read = async (key: string) => (await store.get(key))?.value ?? (await writeSentinel(store, sealer, key));
  await check(store, sealer, lost, read);
  await noteInUse(store, sealer.sealingKid);
}

/** Checks the same and writes nothing. @throws StorageRefused */
export function assertKeyRing(store: Store, sealer: Sealer): Promise<void> {
  return check(store, sealer, [], async (key) => (await store.get(key))?.value);
}

type ReadSentinel = (key: string) => Promise<string | undefined>;

async function check(store: Store, sealer: Sealer, lost: readonly string[], read: ReadSentinel): Promise<void> {
  const inUse = await keysInUse(store);
  const missing = inUse.find((kid) => !sealer.kids.includes(kid) && !lost.includes(kid));
  if (missing !== undefined) throw await keyMissing(store, sealer, missing);
  await checkSentinel(sealer, STORE_SENTINEL, await read(STORE_SENTINEL), lost);
  for (const kid of new Set([...inUse, sealer.sealingKid])) {
    const key = keys.keyCheckOf(kid);
    if (sealer.kids.includes(kid)) await checkSentinel(sealer, key, await read(key));
  }
}

/** True for a store that Gatehouse has never opened, or that has lost everything. */
export async function isEmpty(store: Store): Promise<boolean> {
  return (await store.get(STORE_SENTINEL)) === undefined;
}

/** The ids of keys that may still seal something. A start without one of them is refused. */
export function keysInUse(store: Store): Promise<string[]> {
  return allMembers(store, keys.keysInUse);
}

/** The ids of keys that `retireKey` was called with. */
export function keysReplaced(store: Store): Promise<string[]> {
  return allMembers(store, keys.keysReplaced);
}

/** When each of these keys was first used, in milliseconds since the epoch. */
export async function firstUses(store: Store): Promise<ReadonlyMap<string, number>> {
  const { items } = await store.page(keys.keysInUse, { limit: 500 });
  return new Map(items.map(({ member, score }) => [member, score]));
}

/** The last step of a key rotation: from now on the store demands the current sealing key in place of the former one. */
export async function resealKeyCheck(store: Store, sealer: Sealer): Promise<void> {
  await store.write([{ put: STORE_SENTINEL, value: await sealer.seal(CONTENT, STORE_SENTINEL) }]);
  await noteInUse(store, sealer.sealingKid);
}

/** From now on the store can be opened without this key. */
export async function retireKey(store: Store, kid: string): Promise<void> {
  await store.write([{ delete: keys.keyCheckOf(kid) }]);
  await store.write([{ index: keys.keysReplaced, add: kid, score: Date.now() }]);
  await store.write([{ index: keys.keysInUse, remove: kid }]);
}

async function noteInUse(store: Store, kid: string): Promise<void> {
  if ((await keysInUse(store)).includes(kid)) return;
  await store.write([{ index: keys.keysInUse, add: kid, score: Date.now() }]);
}

async function checkSentinel(
  sealer: Sealer,
  key: string,
  value: string | undefined,
  lost: readonly string[] = [],
): Promise<void> {
  if (value === undefined || lost.includes(sealer.kidOf(value) ?? '')) return;
  try {
    await sealer.open(value, key);
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    throw new StorageRefused(explain(error.reason, sealer.kidOf(value)), error);
  }
}

/** Returns another process's sentinel if that process was faster: then that one has to be opened. */
async function writeSentinel(store: Store, sealer: Sealer, key: string): Promise<string | undefined> {
  const value = await sealer.seal(CONTENT, key);
  if (await store.write([{ put: key, value, ifVersion: 0 }])) return undefined;
  return (await store.get(key))?.value;
}

const PUT_BACK = 'Put the key back that was used before, anywhere in ENCRYPTION_KEYS.';

async function keyMissing(store: Store, sealer: Sealer, kid: string): Promise<StorageRefused> {
  const counts = (await countSealed(store, sealer)).get(kid) ?? new Map<string, number>();
  const kinds = [...counts].map(([kind, count]) => `${kind}: ${count.toLocaleString('en-GB')}`).join(', ');
  const use =
    kinds === '' ? 'is still in use' : `still seals ${sumOf(counts).toLocaleString('en-GB')} records (${kinds})`;
  return new StorageRefused(
    `The key "${kid}", which ENCRYPTION_KEYS does not hold, ${use}. ${PUT_BACK} To be able to drop it, run: npm run gatehouse -- keys rotate. ${ifLost(kid)}`,
  );
}

function ifLost(kid: string): string {
  return `If it is lost for good, run: npm run gatehouse -- keys forget ${kid}. The users concerned must then connect again.`;
}

function explain(reason: SealReason, kid: string | undefined): string {
  if (reason === 'unknown_key' && kid !== undefined)
    return `The store is sealed with the key "${kid}", which ENCRYPTION_KEYS does not hold. ${PUT_BACK} ${ifLost(kid)}`;
  if (kid !== undefined)
    return `The key "${kid}" of ENCRYPTION_KEYS is not the key of that id which sealed the store. ${PUT_BACK} If that one is lost for good, give the new key an id of its own, and run: npm run gatehouse -- keys forget ${kid}. The users concerned must then connect again.`;
  return 'The record that proves the encryption keys is damaged. Restore the store from a backup.';
}
