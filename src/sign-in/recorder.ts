/** Owns what the record of a sign-in is told as it goes: where it came from, which step failed, and what was seen there. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import { idTokenFault, namedEmail } from '../connected-apps/id-token-fault.ts';
import { ProviderError } from '../connected-apps/provider-error.ts';
import { AppError } from '../errors.ts';
import type { SessionUser } from '../http/session-data.ts';
import type { Events, Origin } from '../observability/events.ts';
import { hashOf } from '../storage/keys.ts';
import { SignInError, type SignInFacts } from './failure.ts';
import type { KnownAttempt, SignInRecords } from './record.ts';
import { besidesOf, presumeAmong, presumeByBrowser } from './same-browser.ts';
import { differenceOf, FAILED_AT, type StepName, type Trace } from './steps.ts';
import type { Transaction } from './transaction.ts';

/** Of the request: what is on its error page, and from where it came. */
export interface Visit {
  reference: string;
  origin?: Origin | undefined;
  /** The browser in words. */
  browser?: string | undefined;
  browserId?: string | undefined;
  /** The browser is given that id with the answer. */
  isNewBrowser?: boolean | undefined;
}

/** The attempt whose start the transaction names. */
export type StartedAttempt = KnownAttempt & { startedAt: number };

export interface Recorder {
  /** @param facts `user`: who is signed in already */
  started(
    visit: Visit,
    trace: Trace,
    facts: { state: string; transaction: Transaction; user: SessionUser | undefined },
  ): Promise<void>;
  failed(
    visit: Visit,
    trace: Trace,
    facts: {
      app: string;
      purpose?: Transaction['purpose'] | undefined;
      state?: string | undefined;
      attempt?: StartedAttempt | undefined;
      user?: SessionUser | undefined;
      error: unknown;
    },
  ): Promise<void>;
  succeeded(
    visit: Visit,
    trace: Trace,
    facts: {
      app: string;
      state: string;
      attempt?: StartedAttempt | undefined;
      outcome: 'signed_in' | 'connected';
      userId: string | undefined;
      user?: SessionUser | undefined;
      /** The `acr` that the administration demanded, where it did. */
      steppedUp?: string | undefined;
    },
  ): Promise<void>;
  /** Begins to read the record of an attempt that is about to succeed. */
  readAhead: SignInRecords['readAhead'];
  /** True where the attempt of this state was begun by another browser than the one that came back. */
  isOtherBrowser(visit: Visit, state: string): Promise<boolean>;
}

export function createRecorder(parts: { records: SignInRecords; events: Events; clock: () => number }): Recorder {
  const { records, events, clock } = parts;

  const seenOf = ({ browser, browserId, origin }: Visit) => ({
    browser,
    browserHash: browserId === undefined ? undefined : hashOf(browserId),
    address: origin?.address,
  });
  const whoOf = (user: SessionUser | undefined) => ({ userId: user?.id, name: user?.name, email: user?.email });

  return {
    async started(visit, trace, { state, transaction, user }) {
      const { purpose, appId: app, redirectUri } = transaction;
      const { steps } = trace;
      const base = { app, purpose, startedAt: clock(), steps: [...steps], facts: { redirectUri }, ...whoOf(user) };
      await records.begin({ ...base, ...seenOf(visit), reference: visit.reference, state });
    },

    readAhead: records.readAhead,

    async failed(visit, trace, { app, purpose, state, attempt, user, error }) {
      const failure = error instanceof SignInError ? error.failure : 'internal';
      const outcome = failure === 'access_denied' || failure === 'not_permitted' ? 'refused' : 'failed';
      const facts = factsOf(error);
      noteFailure(trace, error, facts);
      const { reference, origin } = visit;
      // Neither the state nor the browser is known: anybody can send these at any rate, so nothing of it is kept (R54).
      const unsolicited = purpose === undefined && state === undefined && visit.browserId === undefined;
      const told = {
        app,
        ...(purpose ? { purpose } : {}),
        ...seenOf(visit),
        ...(user ? whoOf(user) : namedBy(error)),
        outcome,
        failure,
        endedAt: clock(),
      } as const;
      if (!unsolicited) {
        const id = await records.add(state, { ...told, steps: trace.steps, reference, facts }, attempt);
        if (id !== undefined && user === undefined) await presumeByBrowser(records, id);
      }
      const who = { userId: user?.id, userName: user?.email ?? user?.name };
      events.signInEnded({
        app,
        outcome,
        reason: failure,
        reference,
        origin,
        ...who,
        ...(unsolicited && { unsolicited }),
      });
    },

    async succeeded(visit, trace, { app, state, attempt, outcome, userId, user, steppedUp }) {
      const { reference, origin } = visit;
      const told = {
        app,
        ...whoOf(user),
        ...(userId ? { userId } : {}),
        outcome,
        failure: undefined,
        endedAt: clock(),
      };
      // Read while the record is written: there is hardly ever one.
      const besides = outcome === 'signed_in' && attempt && besidesOf(records, { ...attempt, ...seenOf(visit) });
      const id = await records.add(state, { ...told, steps: trace.steps, reference }, attempt);
      if (besides && id !== undefined) {
        await presumeAmong(records, { ...whoOf(user), ...attempt, id }, await besides);
      } else if (id !== undefined && outcome === 'signed_in') await presumeByBrowser(records, id);
      events.signInEnded({ app, outcome, userId, userName: user?.email ?? user?.name, steppedUp, origin });
    },

    async isOtherBrowser({ browser, browserId }, state) {
      const record = await records.byState(state).catch(() => undefined);
      if (!record) return false;
      if (browserId !== undefined && record.browserHash !== undefined) return hashOf(browserId) !== record.browserHash;
      return browser !== record.browser;
    },
  };
}

/** The callback URL that is sent beside the entry of the app's list that is most like it. */
export function compareRedirectUri(sent: string, { callbackUrls }: ConnectedApp): { same: boolean; detail: string } {
  if (callbackUrls.includes(sent))
    return { same: true, detail: `${sent} is in the app’s list, character by character` };
  const [nearest] = [...callbackUrls].sort((left, right) => sharedLength(sent, right) - sharedLength(sent, left));
  if (nearest === undefined) return { same: false, detail: `${sent} is sent, and the app’s list is empty` };
  return {
    same: false,
    detail: `${sent} is not in the app’s list; nearest is ${nearest}: ${differenceOf(sent, nearest)}`,
  };
}

function sharedLength(left: string, right: string): number {
  const at = [...left].findIndex((character, place) => character !== right[place]);
  return at === -1 ? left.length : at;
}

/** Whom a refused ID token names: nothing vouches for it, so it only helps to find the attempt. */
function namedBy(error: unknown): { email?: string | undefined; presumed?: boolean } {
  const cause = error instanceof AppError ? error.cause : undefined;
  const email = cause instanceof ProviderError ? namedEmail(cause.facts.cause) : undefined;
  return email === undefined ? {} : { email, presumed: true };
}

/** Words of the protocol pass; anything else that a provider says is not repeated. */
const OAUTH_ERROR = /^[a-z_]{3,40}$/;

function factsOf(error: unknown): SignInFacts {
  const more = error instanceof SignInError ? error.facts : {};
  const cause = error instanceof AppError ? error.cause : undefined;
  if (!(cause instanceof ProviderError)) return more;
  const { status, oauthError } = cause.facts;
  const refusedToken = cause.failure === 'invalid' && cause.reason === 'token_answer_invalid';
  return {
    ...more,
    status,
    reason: cause.reason,
    oauthError: oauthError !== undefined && OAUTH_ERROR.test(oauthError) ? oauthError : undefined,
    ...(refusedToken ? idTokenFault(cause.facts.cause) : {}),
  };
}

/** What was passed before the step that failed, and that one. */
function noteFailure(trace: Trace, error: unknown, facts: SignInFacts): void {
  const { status, oauthError, reason, check, secondsAhead } = facts;
  const failure = error instanceof SignInError ? error.failure : undefined;
  if (failure === undefined) return;
  const sent = trace.steps.some(({ name }) => name === 'came_back');
  const step: StepName =
    failure === 'token_answer_refused' && check !== undefined
      ? (`id_token_${check}` as StepName)
      : sent || failure === 'unusable_app' || failure === 'disabled_app'
        ? FAILED_AT[failure]
        : 'sent';
  if (sent && step.startsWith('id_token')) trace.passAll('answer', beforeOf(step));
  if (sent && step === 'cookie') trace.passAll('state', 'state');
  if (sent && step === 'token_endpoint') trace.passAll('answer', 'answer');
  const seen = [
    status === undefined ? undefined : `status ${status}`,
    oauthError,
    step === 'token_endpoint' || step === 'sent' ? reason : undefined,
    secondsAhead === undefined ? undefined : `our clock is ${secondsAhead} s ahead of the provider’s`,
  ].filter((part) => part !== undefined);
  trace.fail(step, facts.seen ?? (seen.length === 0 ? undefined : seen.join(', ')));
}

function beforeOf(step: StepName): StepName {
  const order: StepName[] = [
    'token_endpoint',
    'id_token_form',
    'id_token_times',
    'id_token_issuer',
    'id_token_audience',
    'id_token_nonce',
    'id_token_signature',
  ];
  return order[Math.max(0, order.indexOf(step) - 1)] ?? 'token_endpoint';
}
