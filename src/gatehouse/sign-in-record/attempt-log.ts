/** Records one request of a sign-in: the steps that it passes, what it learns, and how it ends. */
import type { Events, Origin } from '../../shared/observability/events.ts';
import { hashOf } from '../../shared/storage/keys.ts';
import type { Write } from '../../shared/storage/store.ts';
import { cutText } from '../../shared/text.ts';
import type { SignInPurpose, SignInRecord } from './attempt.ts';
import { detailOf, factsOf, unprovenEmail } from './failure-facts.ts';
import { failureOf, SIGN_IN_FAILURES, type SignInFailure } from './failures.ts';
import { attemptIdOf, type RecordReading, type RecordStore } from './record-store.ts';
import { SignInError } from './sign-in-error.ts';
import { STEP_NAMES, type Step, type StepName } from './steps.ts';

export interface RequestInfo {
  /** Shown on the error page. */
  reference: string;
  origin?: Origin | undefined;
  /** Name of the browser and the system, for display. */
  browser?: string | undefined;
  /** From the cookies, oldest first; of a start, the one under which its pending request is stored. */
  browserSecrets?: readonly string[] | undefined;
}

export interface AttemptFacts {
  /** Id of the attempt's record. */
  id?: string;
  state?: string;
  purpose?: SignInPurpose;
  user?: { id: string; name?: string | undefined; email?: string | undefined } | undefined;
  /** True if an administrator tries the app. */
  trial?: boolean | undefined;
  /** The `acr` that the administration requires and the ID token has. */
  steppedUp?: string;
  /** Made in the same write as the change of the attempt's record. */
  writes?: readonly Write[];
}

const MAX_DETAIL_LENGTH = 500;

/** Failures that only a provider, or a forger, causes. */
const MISCONFIGURED: ReadonlySet<string> = new Set<SignInFailure>(['error_without_state', 'form_post']);

/** Collects what happens in one request of a sign-in. */
export interface AttemptLog {
  /** The id of an attempt that begins with this request. */
  newId: string;

  passed(step: StepName, detail?: string): void;

  /** Passes all steps after the last one, up to and including this one: for checks that are made together. */
  passedUpTo(step: StepName): void;

  /** Adds facts for the record and the events, however the request ends. */
  learn(facts: AttemptFacts): void;

  /** Begins to read the record that `succeeded` will change. */
  prefetch(): void;

  /** See `RecordStore.beginWrites`. @param start `startedAt` in ms since the epoch */
  beginWrites(start: { state: string; startedAt: number; redirectUri: string }): readonly Write[];

  /** Records a success. Never rejects. */
  succeeded(outcome: 'signed_in' | 'connected', userId: string): Promise<void>;

  /** Records a failure after which the request continues; `runAndRecord` records one that ends it. Never rejects. */
  failed(error: unknown): Promise<void>;
}

export interface AttemptRecorder {
  /** Runs a request of a sign-in, and records its failure before it rejects. @param app id of the app, or `unknown` */
  runAndRecord<T>(app: string, request: RequestInfo, work: (log: AttemptLog) => Promise<T>): Promise<T>;

  /** Finds an attempt by its id. */
  find(attempt: string): Promise<SignInRecord | undefined>;

  /** Finds the attempt that began with this state. */
  findByState(state: string): Promise<SignInRecord | undefined>;
}

interface RecorderParts {
  records: Pick<RecordStore, 'beginWrites' | 'add' | 'prefetch' | 'find' | 'byState'>;
  events: Pick<Events, 'signInEnded'>;
  clock: () => number;
}

export function createAttemptRecorder(parts: RecorderParts): AttemptRecorder {
  return {
    async runAndRecord(app, request, work) {
      const log = openLog(parts, app, request);
      try {
        return await work(log);
      } catch (error) {
        await log.failed(error);
        throw error;
      }
    },

    find: (attempt) => parts.records.find(attempt),

    findByState: (state) => parts.records.byState(state).catch(() => undefined),
  };
}

/** Returns true if another browser started the attempt. */
export function isOtherBrowser(record: SignInRecord, { browser, browserSecrets = [] }: RequestInfo): boolean {
  if (browserSecrets.length === 0 || record.browserHash === undefined) return browser !== record.browser;
  return !browserSecrets.some((secret) => hashOf(secret) === record.browserHash);
}

function openLog({ records, events, clock }: RecorderParts, app: string, request: RequestInfo): AttemptLog {
  const { reference, origin, browser, browserSecrets } = request;
  const browserSecret = browserSecrets?.at(-1);
  const source = { browser, browserHash: browserSecret && hashOf(browserSecret), address: origin?.address };
  const steps: Step[] = [];
  let facts: AttemptFacts = {};
  let reading: RecordReading | undefined;

  const add = (name: StepName, ok: boolean, detail?: string) => {
    steps.push({ name, at: clock(), ok, detail: detail && cutText(detail, MAX_DETAIL_LENGTH) });
  };
  const passedUpTo = (step: StepName) => {
    const last = steps.at(-1);
    for (const name of STEP_NAMES.slice(last ? positionOf(last.name) + 1 : 0, positionOf(step) + 1)) add(name, true);
  };
  const toRecordChanges = () => {
    const { purpose, user, id, trial, writes } = facts;
    const userFacts = { userId: user?.id, name: user?.name, email: user?.email };
    return {
      changes: { app, ...(purpose && { purpose }), trial, ...userFacts, steps, reference },
      attempt: id === undefined ? id : { id, reading, writes },
    };
  };
  const toEventFacts = () => ({ app, userId: facts.user?.id, userName: facts.user?.email ?? facts.user?.name, origin });

  const failed = async (error: unknown): Promise<void> => {
    const reason = error instanceof SignInError ? error.failure : 'internal';
    const errorFacts = factsOf(error);
    if (reason !== 'internal') {
      const cameBack = steps.some(({ name }) => name === 'came_back');
      const step = failedStep(failureOf(reason, errorFacts).failedAt, steps);
      if (cameBack && !isAfterExchange(step)) passedUpTo(previous(step));
      add(step, false, detailOf(errorFacts, step));
    }
    const outcome = reason !== 'internal' && SIGN_IN_FAILURES[reason].isRefusal ? 'refused' : 'failed';
    const { state, purpose, user } = facts;
    // Anyone can send any number of requests without a genuine state or browser secret: they leave no record (R54),
    // unless they are those of a provider with wrong settings, which are limited for each address (R95).
    const isUnsolicited = purpose === undefined && state === undefined && browserSecret === undefined;
    if (!isUnsolicited || (app !== 'unknown' && MISCONFIGURED.has(reason))) {
      const email = user ? undefined : unprovenEmail(error);
      const { changes, attempt } = toRecordChanges();
      const ending = { outcome, failure: reason, endedAt: clock(), facts: errorFacts } as const;
      await records.add(state, { ...changes, ...(email && { email, presumed: true }), ...source, ...ending }, attempt);
    }
    const ending = { outcome, reason, providerError: errorFacts.oauthError, reference } as const;
    events.signInEnded({ ...toEventFacts(), ...ending, ...(isUnsolicited && { unsolicited: true }) });
  };

  return {
    newId: attemptIdOf(reference),

    passed: (step, detail) => add(step, true, detail),

    passedUpTo,

    learn(newFacts) {
      facts = { ...facts, ...newFacts };
    },

    prefetch() {
      if (facts.id !== undefined) reading = records.prefetch(facts.id);
    },

    beginWrites({ redirectUri, ...start }) {
      const { changes } = toRecordChanges();
      return records.beginWrites({ purpose: 'unknown', ...changes, ...source, ...start, facts: { redirectUri } });
    },

    async succeeded(outcome, userId) {
      const { changes, attempt } = toRecordChanges();
      const ending = { outcome, failure: undefined, endedAt: clock() };
      await records.add(facts.state, { ...changes, userId, ...ending }, attempt);
      events.signInEnded({ ...toEventFacts(), userId, outcome, steppedUp: facts.steppedUp });
    },

    failed,
  };
}

/**
 * Returns the step that failed. The same failure of the provider client can occur before the browser is sent to the
 * provider, in the code exchange, and at userinfo.
 */
function failedStep(failedAt: StepName, steps: readonly Step[]): StepName {
  if (positionOf(failedAt) < positionOf('authorization_response') || isAfterExchange(failedAt)) return failedAt;
  const last = steps.at(-1)?.name ?? 'started';
  if (positionOf(last) < positionOf('came_back')) return 'sent';
  return positionOf(failedAt) > positionOf(last) ? failedAt : (STEP_NAMES[positionOf(last) + 1] ?? failedAt);
}

const positionOf = (step: StepName) => STEP_NAMES.indexOf(step);
const previous = (step: StepName) => STEP_NAMES[Math.max(0, positionOf(step) - 1)] ?? step;
const isAfterExchange = (step: StepName) => positionOf(step) > positionOf('id_token_signature');
