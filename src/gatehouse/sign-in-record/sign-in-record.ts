/** Makes the records of sign-ins: what happened in each attempt, and why it failed. */
import type { Events } from '../../shared/observability/events.ts';
import type { Chore } from '../../shared/storage/chore.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { SignInRecord } from './attempt.ts';
import { type AttemptRecorder, createAttemptRecorder } from './attempt-log.ts';
import { causeOf, type NamedCause } from './cause.ts';
import { createRecordStore, type RecordStore } from './record-store.ts';
import { type StepResult, stepResults } from './steps.ts';

export interface SignInRecords extends AttemptRecorder, Pick<RecordStore, 'find' | 'page' | 'merged' | 'forgetUser'> {
  chores: readonly Chore[];

  /** Undefined for an attempt that succeeded, or that may still be under way. */
  causeOf(attempt: SignInRecord): NamedCause | undefined;

  /** Every step of a sign-in, reached or not. */
  stepsOf(attempt: Pick<SignInRecord, 'steps'>): StepResult[];

  /** Whether the reference of an error page is that of a sign-in. */
  isKnown(reference: string): Promise<boolean>;
}

export function createSignInRecords(parts: {
  store: Store;
  events: Pick<Events, 'signInEnded'>;
  clock: () => number;
}): SignInRecords {
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
    causeOf: (attempt) => causeOf(attempt, clock()),
    stepsOf: ({ steps }) => stepResults(steps),
    isKnown: async (reference) => (await find(reference)) !== undefined,
  };
}
