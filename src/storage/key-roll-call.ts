/** The roll call of keys: which keys each running process has, and which version it stores, asked and answered through the store's messages. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { SCHEMA } from './keys.ts';
import type { Sealer } from './sealed.ts';
import type { Store } from './store.ts';

/** One running process. */
export interface KeyHolder {
  seals: string;
  opens: readonly string[];
  /** The version of what it stores. */
  schema: number;
}

const ASKED = 'key-roll-call';
/** Messages take some 20 ms; a process that is busy may take longer. */
const WAIT_MILLISECONDS = 750;

/** Lets this process answer; ends with the store. */
export async function answerKeyRollCall(store: Store, sealer: Sealer): Promise<void> {
  const holder: KeyHolder = { seals: sealer.sealingKid, opens: sealer.kids, schema: SCHEMA.version };
  const answer = JSON.stringify(holder);
  // Whoever asks hears nothing where the store is down, and asks again.
  await store.subscribe(ASKED, (asker) => void store.publish(answersTo(asker), answer).catch(() => undefined));
}

/** Answers the processes that serve at this moment. */
export async function callKeyRoll(store: Store): Promise<KeyHolder[]> {
  const asker = randomUUID();
  const holders: KeyHolder[] = [];
  const end = await store.subscribe(answersTo(asker), (answer) => holders.push(JSON.parse(answer) as KeyHolder));
  try {
    await store.publish(ASKED, asker);
    await sleep(WAIT_MILLISECONDS);
    return holders;
  } finally {
    await end();
  }
}

function answersTo(asker: string): string {
  return `${ASKED}:${asker}`;
}
