/** Owns whose an attempt probably was that failed before anybody was known: whoever signed in with the same browser soon before or after. */
import { isKnown, type SignInRecord } from './attempt.ts';
import type { SignInRecords } from './record.ts';

const HOUR_MILLISECONDS = 3_600_000;
const MOST_LOOKED_AT = 20;

type Ended = Omit<SignInRecord, 'app' | 'purpose' | 'steps' | 'references' | 'facts'>;

/** Begins to read the attempts beside that one. Never rejects. */
export const besidesOf = (
  records: SignInRecords,
  attempt: Pick<SignInRecord, 'id' | 'browserHash'>,
): Promise<SignInRecord[]> => records.besides(attempt, MOST_LOOKED_AT).catch(() => []);

/**
 * Lets an attempt that has just ended tell of those beside it, or the other way round. Never rejects: it is worth no sign-in.
 * @param id of the attempt
 */
export async function presumeByBrowser(records: SignInRecords, id: string): Promise<void> {
  const ended = await records.find(id).catch(() => undefined);
  if (ended) await presumeAmong(records, ended, await besidesOf(records, ended));
}

/** The same for whoever has read the others. Never rejects. @param besides those of the same browser */
export async function presumeAmong(
  records: SignInRecords,
  ended: Ended,
  besides: readonly SignInRecord[],
): Promise<void> {
  try {
    const near = besides.filter(
      (one) => one.id !== ended.id && Math.abs(one.startedAt - ended.startedAt) <= HOUR_MILLISECONDS,
    );
    if (isKnown(ended)) {
      const unknown = near.filter((one) => one.userId === undefined);
      await Promise.all(unknown.map((one) => records.presume(one.id, whoOf(ended))));
    } else {
      const known = near.find(isKnown);
      if (known) await records.presume(ended.id, whoOf(known));
    }
  } catch {
    // The record stays without a name.
  }
}

const whoOf = ({ userId, name, email }: Ended) => ({ userId, name, email });
