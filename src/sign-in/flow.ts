/** Owns the course of a sign-in or consent: start, finish, sign out. Knows the protocol and nothing of Express. */
import type { AppStore } from '../connected-apps/app-store.ts';
import { type AuthorizationProofs, authorizationProofs } from '../connected-apps/authorization-proofs.ts';
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import { isSignInTooOld } from '../connected-apps/id-token-fault.ts';
import type { ProviderClient } from '../connected-apps/provider-client.ts';
import type { Claims, TokenAnswer } from '../connected-apps/token-answer.ts';
import type { Connections } from '../grants/connections.ts';
import type { ProviderSession, SessionUser } from '../http/session-data.ts';
import type { UserStore } from '../users/user-store.ts';
import { callbackAt, singleState } from './callback-url.ts';
import { completeClaims } from './claims.ts';
import { createFail, providerFailure } from './fail.ts';
import { acrOf, maySignIn, providerSessionOf, sessionUser } from './identity.ts';
import type { Recorder, StartedAttempt, Visit } from './recorder.ts';
import { createStart, type StartParts, type StartRequest } from './start.ts';
import { createTrace, type Trace } from './steps.ts';
import { TRANSACTION_SECONDS, type Transaction, type Transactions } from './transaction.ts';

export interface FinishRequest {
  /** As in the path of the callback. */
  appId: string;
  /** The callback URL with all its parameters. */
  callback: URL;
  userId: string | undefined;
  visit: Visit;
}

export type Finished =
  | {
      kind: 'signed_in';
      user: SessionUser;
      providerSession: ProviderSession;
      acr: string | undefined;
      app: string;
      returnTo: string;
      /** To be called once the session is made; it has to be ended where this rejects. @throws SignInError */
      complete(): Promise<void>;
    }
  | { kind: 'connected'; returnTo: string }
  /** A callback that was used before, opened again by somebody who is signed in: nothing to do but to go home (R10). */
  | { kind: 'already_done' };

export interface SignInFlow {
  /** Answers the URL of the authorization endpoint. @throws SignInError */
  start(request: StartRequest): Promise<string>;
  /** @throws SignInError */
  finish(request: FinishRequest): Promise<Finished>;
  /** Where the provider ends its own session, or undefined where it cannot. */
  endSessionUrl(appId: string, userId: string): Promise<string | undefined>;
}

/** What is known of a request as it goes on. */
interface Course {
  trace: Trace;
  state?: string;
  attempt?: StartedAttempt;
  user?: SessionUser | undefined;
  purpose?: Transaction['purpose'];
  /** The `acr` that was demanded and had. */
  steppedUp?: string;
}

export function createSignInFlow(
  parts: Omit<StartParts, 'provider' | 'connections' | 'recorder' | 'transactions'> & {
    apps: AppStore;
    provider: ProviderClient;
    connections: Pick<Connections, 'readAhead' | 'make' | 'holdsRefreshToken' | 'idToken'>;
    users: Pick<UserStore, 'readAhead' | 'noteSignIn' | 'isDisabled'>;
    recorder: Recorder;
    transactions: Transactions;
  },
): SignInFlow {
  const { apps, provider, connections, users, recorder, transactions, states, admin, clock, publicHref } = parts;
  const fail = createFail({ apps, publicHref });
  const start = createStart(parts, fail);

  /** Finds the transaction that this callback answers, or says why there is none. */
  const takeTransaction = async (
    request: FinishRequest,
    state: string,
    madeAt: number | undefined,
  ): Promise<{ transaction: Transaction; proofs: AuthorizationProofs } | 'already_done'> => {
    const { browserId } = request.visit;
    if (madeAt === undefined) throw fail('state_invented');
    const transaction = browserId === undefined ? undefined : await transactions.take(browserId, state);
    if (browserId !== undefined && transaction) return { transaction, proofs: authorizationProofs(browserId, state) };
    if (request.userId !== undefined) return 'already_done';
    const again = { appId: request.appId };
    if (clock() - madeAt > TRANSACTION_SECONDS * 1000) throw fail('state_expired', again);
    const otherBrowser = await recorder.isOtherBrowser(request.visit, state);
    if (otherBrowser || browserId === undefined) throw fail('cookie_missing', { ...again, facts: { otherBrowser } });
    throw fail('state_used', again);
  };

  const exchange = async (
    app: ConnectedApp,
    { callback, proofs, course }: { callback: URL; proofs: AuthorizationProofs; course: Course },
    transaction: Transaction,
  ) => {
    const facts = { appId: app.id, purpose: transaction.purpose };
    try {
      const answer = await provider.exchangeCode(app, callback, { ...transaction, ...proofs });
      // Known from here on, whatever userinfo does to the sign-in.
      if (transaction.purpose === 'sign_in' && answer.claims) course.user = sessionUser(app, answer.claims, admin);
      return { answer, claims: await completeClaims({ provider, admin }, app, answer) };
    } catch (cause) {
      if (transaction.maxAgeSeconds !== undefined && isSignInTooOld(cause))
        throw fail('step_up_refused', { ...facts, cause });
      throw fail(providerFailure(cause), { ...facts, cause });
    }
  };

  const signIn = async (
    app: ConnectedApp,
    transaction: Transaction,
    answer: TokenAnswer,
    claims: Claims | undefined,
    { visit, course }: { visit: Visit; course: Course },
  ): Promise<Finished> => {
    if (!claims) throw fail('token_answer_refused', { appId: app.id });
    const user = sessionUser(app, claims, admin);
    course.user = user;
    const { trace } = course;
    if (!maySignIn(app, claims)) throw fail('not_permitted', { appId: app.id });
    const acr = acrOf(answer.claims);
    // Asking once more would lead here again.
    if (transaction.acrValues !== undefined) {
      if (acr !== transaction.acrValues) throw fail('step_up_refused', { appId: app.id });
      course.steppedUp = transaction.acrValues;
    }
    const disabled = () => fail('not_permitted', { facts: { disabled: true } });
    const known = users.readAhead(user.id);
    const ahead = connections.readAhead(user.id, app.id);
    if (await users.isDisabled(user.id, known)) throw disabled();
    trace.pass('permitted');
    const { scopes, returnTo } = transaction;
    // All at the same time, and while the session is made: the sign-in is complete once everything is kept.
    const noted = users.noteSignIn(user, known);
    const connected = connections
      .make({ userId: user.id, app, answer, scopes, account: user, origin: visit.origin, ahead })
      .then(() => trace.pass('connection'));
    const kept = Promise.all([noted, connected]);
    kept.catch(() => undefined);
    const providerSession = providerSessionOf(app.issuer, answer.claims ?? claims);
    const complete = async () => {
      const { attempt } = course;
      if (attempt) attempt.ahead = recorder.readAhead(attempt.id);
      // Once more, now that the session is listed: who was disabled since would otherwise keep it.
      const [isDisabled] = await Promise.all([users.isDisabled(user.id), kept]);
      if (isDisabled) throw disabled();
      trace.pass('session');
    };
    return { kind: 'signed_in', user, providerSession, acr, app: app.id, returnTo, complete };
  };

  const connect = async (
    app: ConnectedApp,
    transaction: Transaction,
    answer: TokenAnswer,
    claims: Claims | undefined,
    { visit, course }: { visit: Visit; course: Course },
  ): Promise<Finished> => {
    const account = claims ? sessionUser(app, claims, admin) : {};
    const { userId = '', scopes } = transaction;
    await connections.make({ userId, app, answer, scopes, account, chosen: true, origin: visit.origin });
    course.trace.pass('connection');
    return { kind: 'connected', returnTo: transaction.returnTo };
  };

  const finish = async (request: FinishRequest, course: Course): Promise<Finished> => {
    const { trace } = course;
    trace.pass('came_back');
    const state = singleState(request.callback, fail);
    // Only a state of ours leads to its record.
    const madeAt = states.madeAt(state);
    if (madeAt !== undefined) course.state = state;
    const taken = await takeTransaction(request, state, madeAt);
    if (taken === 'already_done') return { kind: 'already_done' };
    const { transaction, proofs } = taken;
    const { purpose } = transaction;
    course.purpose = purpose;
    if (transaction.attempt) course.attempt = { ...transaction.attempt };
    trace.passAll('state', 'cookie');
    const facts = { appId: transaction.appId, purpose };
    if (transaction.appId !== request.appId) throw fail('other_app', facts);
    const app = apps.find(transaction.appId);
    if (!app || app.issuer !== transaction.issuer) throw fail('registration_changed', facts);
    if (app.disabled) throw fail('disabled_app', facts);
    if (purpose === 'connect' && transaction.userId !== request.userId) throw fail('other_user', facts);
    trace.pass('redirect_uri', transaction.redirectUri);
    const { answer, claims } = await exchange(
      app,
      { callback: callbackAt(transaction.redirectUri, request.callback), proofs, course },
      transaction,
    );
    trace.passAll('answer', claims ? 'claims' : 'token_endpoint');
    const end = purpose === 'connect' ? connect : signIn;
    return end(app, transaction, answer, claims, { visit: request.visit, course });
  };

  /** Tells a failure once, whatever step it comes from. */
  const recorded = async <T>(app: string, visit: Visit, course: Course, run: () => Promise<T>): Promise<T> => {
    try {
      return await run();
    } catch (error) {
      const { trace, state, attempt, user, purpose } = course;
      await recorder.failed(visit, trace, { app, purpose, state, attempt, user, error });
      throw error;
    }
  };

  return {
    async start(request) {
      const { app, purpose, visit } = request;
      const course: Course = { trace: createTrace(clock), purpose, user: request.user };
      course.trace.pass('started', app.id);
      return recorded(app.id, visit, course, () => start(request, course.trace));
    },
    async finish(request) {
      const { visit } = request;
      // What stands in the path is anybody's text until it is an app's id.
      const appId = apps.find(request.appId)?.id ?? 'unknown';
      const course: Course = { trace: createTrace(clock) };
      const succeeded = async (outcome: 'signed_in' | 'connected', userId: string | undefined) => {
        const { trace, state = '', attempt, user, steppedUp } = course;
        await recorder.succeeded(visit, trace, { app: appId, state, attempt, outcome, userId, user, steppedUp });
      };
      const finished = await recorded(appId, visit, course, () => finish(request, course));
      if (finished.kind === 'connected') await succeeded('connected', request.userId);
      if (finished.kind !== 'signed_in') return finished;
      const complete = () => recorded(appId, visit, course, finished.complete);
      return {
        ...finished,
        async complete() {
          await complete();
          await succeeded('signed_in', finished.user.id);
        },
      };
    },
    async endSessionUrl(appId, userId) {
      const app = apps.find(appId);
      if (!app) return undefined;
      return provider.endSessionUrl(app, {
        idToken: await connections.idToken(userId, appId),
        returnTo: `${publicHref}/`,
      });
    },
  };
}
