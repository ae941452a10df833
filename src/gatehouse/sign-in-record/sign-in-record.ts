/** Creates the sign-in record: what happened in each attempt, and why it failed. */
import type { Events } from '../../shared/observability/events.ts';
import type { ScheduledTask } from '../../shared/storage/scheduled-task.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { SignInRecord } from './attempt.ts';
import { type AttemptRecorder, createAttemptRecorder } from './attempt-log.ts';
import { causeOf, type SignInCause } from './cause.ts';
import { createRecordStore, type RecordStore } from './record-store.ts';

export interface SignInRecords {
  recorder: AttemptRecorder;
  store: RecordStore;
  scheduledTasks: readonly ScheduledTask[];

  /** Undefined for an attempt that succeeded, or that may still be under way. */
  causeOf(attempt: SignInRecord): SignInCause | undefined;
}

export function createSignInRecords(parts: {
  store: Store;
  events: Pick<Events, 'signInEnded'>;
  clock: () => number;
}): SignInRecords {
  const { events, clock } = parts;
  const store = createRecordStore({ store: parts.store, clock });
  return {
    recorder: createAttemptRecorder({ records: store, events, clock }),
    store,
    scheduledTasks: [{ name: 'trim-sign-ins', everyMilliseconds: 600_000, work: store.trim }],
    causeOf: (attempt) => causeOf(attempt, clock()),
  };
}
