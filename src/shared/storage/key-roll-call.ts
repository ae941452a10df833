/**
 * Asks the running processes, through messages of the store, which keys they have and which schema version they write.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../errors.ts';
import { SCHEMA } from './keys.ts';
import type { Sealer } from './sealed.ts';
import type { Store } from './store.ts';

/** A running process. */
export interface KeyHolder {
  encryptsWith: string;
  decryptsWith: readonly string[];
  /** The schema version that it writes. */
  schema: number;
}

const CHANNEL = 'key-roll-call';
/** A message takes about 20 ms; a busy process may respond later. */
const WAIT_MS = 750;

/** Responds to roll calls for this process until the store is closed. */
export async function respondToKeyRollCall(store: Store, sealer: Sealer): Promise<void> {
  const response = (): string => {
    const holder: KeyHolder = { encryptsWith: sealer.sealingKid, decryptsWith: sealer.kids, schema: SCHEMA.version };
    return JSON.stringify(holder);
  };
  // If the store is unavailable, the caller repeats its call.
  await store.subscribe(
    CHANNEL,
    (caller) => void store.publish(responsesTo(caller), response()).catch(() => undefined),
  );
}

/**
 * Returns the running processes.
 * @throws AppError `storage_unavailable` if the store does not even deliver this process's own message in time
 */
export async function callKeyRoll(store: Store): Promise<KeyHolder[]> {
  const caller = randomUUID();
  const holders: KeyHolder[] = [];
  let isDelivered = false;
  const unsubscribe = await store.subscribe(responsesTo(caller), (text) => {
    if (text === caller) isDelivered = true;
    else holders.push(JSON.parse(text) as KeyHolder);
  });
  try {
    await store.publish(CHANNEL, caller);
    await store.publish(responsesTo(caller), caller);
    await sleep(WAIT_MS);
    // Without this check, a store that delivers nothing would look as if no process ran.
    if (!isDelivered) throw new AppError('storage_unavailable', { logDetail: 'The store delivers no messages' });
    return holders;
  } finally {
    await unsubscribe();
  }
}

/**
 * @throws AppError `version_conflict` if a running process has another sealing key: it could not open the new records,
 *   or would go on sealing with the old key
 */
export async function assertAllSealWith(store: Store, kid: string): Promise<void> {
  const count = (await callKeyRoll(store)).filter(({ encryptsWith }) => encryptsWith !== kid).length;
  if (count === 0) return;
  const subject = count === 1 ? 'A running process seals' : `${count} running processes seal`;
  throw new AppError('version_conflict', {
    detail: `${subject} with another key than "${kid}". Start every process with "${kid}" first in ENCRYPTION_KEYS, then run this again.`,
  });
}

function responsesTo(caller: string): string {
  return `${CHANNEL}:${caller}`;
}
