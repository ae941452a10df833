/** Asks the running processes, by the store's messages, which keys they have and which version of the store they write. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../errors.ts';
import { SCHEMA } from './keys.ts';
import type { Sealer } from './sealed.ts';
import type { Store } from './store.ts';

/** A running process. */
export interface KeyHolder {
  seals: string;
  opens: readonly string[];
  /** The schema version that it writes. */
  schema: number;
}

const CHANNEL = 'key-roll-call';
/** Messages take some 20 ms; a busy process may take longer. */
const WAIT_MS = 750;

/** Lets this process respond until the store is closed. */
export async function answerKeyRollCall(store: Store, sealer: Sealer): Promise<void> {
  const holder: KeyHolder = { seals: sealer.sealingKid, opens: sealer.kids, schema: SCHEMA.version };
  const response = JSON.stringify(holder);
  // If the store is down, the caller asks again.
  await store.subscribe(CHANNEL, (caller) => void store.publish(responsesTo(caller), response).catch(() => undefined));
}

/**
 * Returns the processes that serve at this moment.
 * @throws AppError `storage_unavailable` if the store does not deliver even this process's own message in time
 */
export async function callKeyRoll(store: Store): Promise<KeyHolder[]> {
  const caller = randomUUID();
  const holders: KeyHolder[] = [];
  let delivered = false;
  const end = await store.subscribe(responsesTo(caller), (text) => {
    if (text === caller) delivered = true;
    else holders.push(JSON.parse(text) as KeyHolder);
  });
  try {
    await store.publish(CHANNEL, caller);
    await store.publish(responsesTo(caller), caller);
    await sleep(WAIT_MS);
    // Without responses it would seem that no process runs.
    if (!delivered) throw new AppError('storage_unavailable', { logDetail: 'The store delivers no messages' });
    return holders;
  } finally {
    await end();
  }
}

function responsesTo(caller: string): string {
  return `${CHANNEL}:${caller}`;
}
