/** The proof, at start, that ENCRYPTION_KEYS are the keys this store was sealed with, and that none is missing. */

import { callKeyRoll } from './key-roll-call.ts';
import { keys } from './keys.ts';
import { allMembers } from './paging.ts';
import { StorageRefused } from './refused.ts';
import { agreeOnSchema } from './schema-version.ts';
import { SealError, type Sealer, type SealReason } from './sealed.ts';
import { countSealed, type SealCounts, sumOf } from './sealed-records.ts';
import type { Store } from './store.ts';

/** The store holds what these keys cannot open; the message says what to do. Start must refuse. */
export class WrongKeyError extends StorageRefused {
  readonly reason: SealReason;

  constructor(reason: SealReason, message: string, cause?: unknown) {
    super(message, cause);
    this.name = 'WrongKeyError';
    this.reason = reason;
  }
}

/** Sealed by the first key ever used, and again by `resealKeyCheck` when a rotation is complete. */
const STORE_SENTINEL = keys.keyCheck;
const CONTENT = 'gatehouse';

/**
 * Rejects with `WrongKeyError` when a sentinel cannot be opened, or a key that is missing still seals something; counts
 * only then, so that a start is quick. A missing sentinel is written, and the sealing key noted as one in use.
 * @param lost key ids whose records were given up: they are not asked for
 */
export async function checkKeyRing(store: Store, sealer: Sealer, lost: readonly string[] = []): Promise<void> {
  const inUse = await keysInUse(store);
  const missing = inUse.filter((kid) => !sealer.kids.includes(kid) && !lost.includes(kid));
  if (missing.length > 0) await retireUnused(store, sealer, missing);
  await checkSentinel(store, sealer, STORE_SENTINEL, lost);
  for (const kid of inUse.filter((held) => sealer.kids.includes(held))) {
    await checkSentinel(store, sealer, keys.keyCheckOf(kid));
  }
  await checkSentinel(store, sealer, keys.keyCheckOf(sealer.sealingKid));
  if (!inUse.includes(sealer.sealingKid)) await noteInUse(store, sealer.sealingKid);
}

/** True for a store that Gatehouse has never opened, or that has lost all it held. */
export async function isEmpty(store: Store): Promise<boolean> {
  return (await store.get(STORE_SENTINEL)) === undefined;
}

/** Makes a store that has come back empty one that these keys are checked against again. Answers whether it had to. */
export async function refoundIfEmpty(store: Store, sealer: Sealer): Promise<boolean> {
  if (!(await isEmpty(store))) return false;
  await checkKeyRing(store, sealer);
  await agreeOnSchema(store);
  return true;
}

/** The ids of keys that may still seal something. */
export function keysInUse(store: Store): Promise<string[]> {
  return allMembers(store, keys.keysInUse);
}

/** The id of the key that the store demands until a rotation is complete, whatever it seals. */
export async function demandedKey(store: Store, sealer: Sealer): Promise<string | undefined> {
  const sentinel = await store.get(STORE_SENTINEL);
  return sentinel && sealer.kidOf(sentinel.value);
}

/** The last step of a key rotation: from here on the store demands the key that seals now, and no longer the one before. */
export async function resealKeyCheck(store: Store, sealer: Sealer): Promise<void> {
  await store.write([{ put: STORE_SENTINEL, value: await sealer.seal(CONTENT, STORE_SENTINEL) }]);
  await noteInUse(store, sealer.sealingKid);
}

/** From here on the store can be opened without this key. */
export async function retireKey(store: Store, kid: string): Promise<void> {
  await store.write([{ delete: keys.keyCheckOf(kid) }]);
  await store.write([{ index: keys.keysInUse, remove: kid }]);
}

async function noteInUse(store: Store, kid: string): Promise<void> {
  await store.write([{ index: keys.keysInUse, add: kid, score: Date.now() }]);
}

/** Whoever dropped a key whose last record has gone may start; a record, or a process that may write one, refuses it. */
async function retireUnused(store: Store, sealer: Sealer, missing: readonly string[]): Promise<void> {
  const counts = await countSealed(store, sealer);
  for (const kid of missing) if (sumOf(counts.get(kid)) > 0) throw stillSeals(kid, counts);
  // That the store still demands that one is told by whoever opens its sentinel.
  const demanded = await demandedKey(store, sealer);
  const unused = missing.filter((kid) => kid !== demanded);
  const sealing = unused.length > 0 ? (await callKeyRoll(store)).map(({ seals }) => seals) : [];
  for (const kid of unused) {
    if (sealing.includes(kid)) throw new WrongKeyError('unknown_key', explainRunning(kid));
    await retireKey(store, kid);
  }
}

async function checkSentinel(store: Store, sealer: Sealer, key: string, lost: readonly string[] = []): Promise<void> {
  const value = (await store.get(key))?.value ?? (await writeSentinel(store, sealer, key));
  if (value === undefined || lost.includes(sealer.kidOf(value) ?? '')) return;
  try {
    await sealer.open(value, key);
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    throw new WrongKeyError(error.reason, explain(error.reason, sealer.kidOf(value)), error);
  }
}

/** Answers another process's sentinel when that one came first: then it is what has to be opened. */
async function writeSentinel(store: Store, sealer: Sealer, key: string): Promise<string | undefined> {
  const value = await sealer.seal(CONTENT, key);
  if (await store.write([{ put: key, value, ifVersion: 0 }])) return undefined;
  return (await store.get(key))?.value;
}

const PUT_BACK = 'Put the key back that was used before, anywhere in ENCRYPTION_KEYS.';

function stillSeals(kid: string, counts: SealCounts): WrongKeyError {
  const ofKid = counts.get(kid) ?? new Map<string, number>();
  const number = sumOf(ofKid).toLocaleString('en-GB');
  const kinds = [...ofKid].map(([kind, count]) => `${kind}: ${count.toLocaleString('en-GB')}`).join(', ');
  const message = `The key "${kid}", which ENCRYPTION_KEYS does not hold, still seals ${number} records (${kinds}). ${PUT_BACK} To be able to drop it, run: npm run gatehouse -- keys rotate. ${ifLost(kid)}`;
  return new WrongKeyError('unknown_key', message);
}

function explainRunning(kid: string): string {
  return `The key "${kid}", which ENCRYPTION_KEYS does not hold, is the one that a running process seals with. ${PUT_BACK} To drop it, start every process with another key first in the list, then run: npm run gatehouse -- keys rotate.`;
}

function ifLost(kid: string): string {
  return `If it is lost for good, run: npm run gatehouse -- keys forget ${kid}. The people concerned must then connect again.`;
}

function explain(reason: SealReason, kid: string | undefined): string {
  if (reason === 'unknown_key' && kid !== undefined)
    return `The store is sealed with the key "${kid}", which ENCRYPTION_KEYS does not hold. ${PUT_BACK} ${ifLost(kid)}`;
  if (kid !== undefined)
    return `The key "${kid}" of ENCRYPTION_KEYS is not the key of that id which sealed the store. ${PUT_BACK} If that one is lost for good, give the new key an id of its own, and run: npm run gatehouse -- keys forget ${kid}. The people concerned must then connect again.`;
  return 'The record that proves the encryption keys is damaged. Restore the store from a backup.';
}
