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
  const response = (): string => {
    const holder: KeyHolder = { seals: sealer.sealingKid, opens: sealer.kids, schema: SCHEMA.version };
    return JSON.stringify(holder);
  };
  // If the store is down, the caller asks again.
  await store.subscribe(
    CHANNEL,
    (caller) => void store.publish(responsesTo(caller), response()).catch(() => undefined),
  );
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

/**
 * A process with another sealing key could not open the new records, or would go on sealing with the old key.
 * @throws AppError `version_conflict` if one runs
 */
export async function assertAllSealWith(store: Store, kid: string): Promise<void> {
  const behind = (await callKeyRoll(store)).filter(({ seals }) => seals !== kid).length;
  if (behind === 0) return;
  const who = behind === 1 ? 'A running process seals' : `${behind} running processes seal`;
  throw new AppError('version_conflict', {
    detail: `${who} with another key than "${kid}". Start every process with "${kid}" first in ENCRYPTION_KEYS, then run this again.`,
  });
}

function responsesTo(caller: string): string {
  return `${CHANNEL}:${caller}`;
}
