/** Owns the proof, at start, that ENCRYPTION_KEYS are the keys this store was sealed with. */

import { keys } from './keys.ts';
import { SealError, type Sealer, type SealReason } from './sealed.ts';
import type { Store } from './store.ts';

/** The store holds what these keys cannot open; the message says what to do. Start must refuse. */
export class WrongKeyError extends Error {
  readonly reason: SealReason;

  constructor(reason: SealReason, kid: string | undefined, cause: unknown) {
    super(explain(reason, kid), { cause });
    this.name = 'WrongKeyError';
    this.reason = reason;
  }
}

/** Sealed by the first key ever used, and again by `resealKeyCheck` when a rotation is complete. */
const STORE_SENTINEL = keys.keyCheck;
const CONTENT = 'gatehouse';

/**
 * Rejects with `WrongKeyError` when a sentinel cannot be opened; a missing one is written. The store's own sentinel keeps a
 * key in the list until rotation is complete; the sealing key's sentinel shows two processes with different keys of one id.
 */
export async function checkKeyRing(store: Store, sealer: Sealer): Promise<void> {
  await checkSentinel(store, sealer, STORE_SENTINEL);
  await checkSentinel(store, sealer, `${STORE_SENTINEL}:${sealer.sealingKid}`);
}

/** The last step of a key rotation: from here on the store demands the key that seals now, and no longer the one before. */
export async function resealKeyCheck(store: Store, sealer: Sealer): Promise<void> {
  await store.write([{ put: STORE_SENTINEL, value: await sealer.seal(CONTENT, STORE_SENTINEL) }]);
}

async function checkSentinel(store: Store, sealer: Sealer, key: string): Promise<void> {
  const value = (await store.get(key))?.value ?? (await writeSentinel(store, sealer, key));
  if (value === undefined) return;
  try {
    await sealer.open(value, key);
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    throw new WrongKeyError(error.reason, sealer.kidOf(value), error);
  }
}

/** Answers another process's sentinel when that one came first: then it is what has to be opened. */
async function writeSentinel(store: Store, sealer: Sealer, key: string): Promise<string | undefined> {
  const value = await sealer.seal(CONTENT, key);
  if (await store.write([{ put: key, value, ifVersion: 0 }])) return undefined;
  return (await store.get(key))?.value;
}

function explain(reason: SealReason, kid: string | undefined): string {
  const remedy =
    'Put the key back that was used before, anywhere in ENCRYPTION_KEYS. If it is lost for good, start with an empty store: everybody must then connect again.';
  if (reason === 'unknown_key')
    return `The store is sealed with the key "${kid}", which ENCRYPTION_KEYS does not hold. ${remedy}`;
  if (kid !== undefined)
    return `The key "${kid}" of ENCRYPTION_KEYS is not the key of that id which sealed the store. ${remedy}`;
  return 'The record that proves the encryption keys is damaged. Restore the store from a backup.';
}
