/** Makes the records of sign-ins: what happened in each attempt, and why it failed. */
import type { Events } from '../../shared/observability/events.ts';
import type { Chore } from '../../shared/storage/chore.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { SignInRecord } from './attempt.ts';
import { createAttemptRecorder } from './attempt-log.ts';
import { causeOf } from './cause.ts';
import { createRecordStore } from './record-store.ts';
import { stepResults } from './steps.ts';

export type SignInRecords = ReturnType<typeof createSignInRecords>;

export function createSignInRecords(parts: { store: Store; events: Pick<Events, 'signInEnded'>; clock: () => number }) {
  const { store, events, clock } = parts;
  const records = createRecordStore({ store, clock });
  const { record, isOtherBrowser } = createAttemptRecorder({ records, events, clock });
  const { find, page, merged, forgetUser, trim } = records;
  const chores: readonly Chore[] = [{ name: 'trim-sign-ins', everyMilliseconds: 600_000, work: trim }];
  return {
    record,
    isOtherBrowser,
    find,
    page,
    merged,
    forgetUser,
    chores,
    /** Undefined for an attempt that succeeded, or that may still be under way. */
    causeOf: (attempt: SignInRecord) => causeOf(attempt, clock()),
    /** Every step of a sign-in, reached or not. */
    stepsOf: ({ steps }: SignInRecord) => stepResults(steps),
    /** Whether the reference of an error page is that of a sign-in. */
    isKnown: async (reference: string) => (await find(reference)) !== undefined,
  };
}
