/** Makes the records of sign-ins: what happened in each attempt, and why it failed. */
import type { Events } from '../observability/events.ts';
import type { Chore } from '../storage/chore.ts';
import type { Store } from '../storage/store.ts';
import type { SignInRecord } from './attempt.ts';
import { type AttemptRecorder, createAttemptRecorder } from './attempt-log.ts';
import { causeOf, type NamedCause } from './cause.ts';
import { createRecordStore, type RecordStore } from './record-store.ts';
import { type StepResult, stepResults } from './steps.ts';

export interface SignInRecords extends AttemptRecorder, Pick<RecordStore, 'find' | 'page' | 'forgetUser'> {
  /** Undefined for an attempt that succeeded, or that may still be under way. */
  causeOf(record: SignInRecord): NamedCause | undefined;
  /** Every step of a sign-in, reached or not. */
  stepsOf(record: SignInRecord): StepResult[];
  /** Whether the reference of an error page is that of a sign-in. */
  isKnown(reference: string): Promise<boolean>;
  chores: readonly Chore[];
}

export function createSignInRecords(parts: {
  store: Store;
  events: Pick<Events, 'signInEnded'>;
  clock: () => number;
}): SignInRecords {
  const { store, events, clock } = parts;
  const records = createRecordStore({ store, clock });
  const { record, isOtherBrowser } = createAttemptRecorder({ records, events, clock });
  const { find, page, forgetUser, trim } = records;
  return {
    record,
    isOtherBrowser,
    find,
    page,
    forgetUser,
    isKnown: async (reference) => (await find(reference)) !== undefined,
    causeOf: (attempt) => causeOf(attempt, clock()),
    stepsOf: ({ steps }) => stepResults(steps),
    chores: [{ name: 'trim-sign-ins', everyMilliseconds: 600_000, work: trim }],
  };
}
