/** Owns the course of a sign-in or consent: start, finish, sign out. Knows the protocol and nothing of Express. */
import type { AppStore } from '../connected-apps/app-store.ts';
import { type ConnectedApp, callbackUrlOf, isUsable } from '../connected-apps/connected-app.ts';
import type { Claims, ProviderClient, TokenAnswer } from '../connected-apps/provider-client.ts';
import { ProviderError } from '../connected-apps/provider-error.ts';
import type { Connections } from '../grants/connections.ts';
import type { ProviderSession, SessionUser } from '../http/session-record.ts';
import type { Events } from '../observability/events.ts';
import { SignInError, type SignInFailure } from './failure.ts';
import {
  type AdminRule,
  decidingClaims,
  FRIENDLY_CLAIMS,
  maySignIn,
  providerSessionOf,
  sessionUser,
} from './identity.ts';
import type { StateSigner } from './state.ts';
import { TRANSACTION_SECONDS, type Transaction, type Transactions } from './transaction.ts';

export interface StartRequest {
  app: ConnectedApp;
  browserId: string;
  returnTo: string;
  /** Who is signed in; for `connect` required. */
  userId: string | undefined;
  purpose: Transaction['purpose'];
  /** Of the request: it is on the error page and in the log. */
  reference: string;
  /** Of the app's registered scopes; all of them where left out. */
  scopes?: readonly string[] | undefined;
}

export interface FinishRequest {
  /** As in the path of the callback. */
  appId: string;
  browserId: string | undefined;
  /** The callback URL with all its parameters. */
  callback: URL;
  userId: string | undefined;
  reference: string;
}

export type Finished =
  | { kind: 'signed_in'; user: SessionUser; providerSession: ProviderSession; app: string; returnTo: string }
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

export function createSignInFlow(parts: {
  apps: AppStore;
  provider: ProviderClient;
  connections: Connections;
  transactions: Transactions;
  states: StateSigner;
  admin: AdminRule;
  events: Events;
  clock: () => number;
  randomToken: () => string;
  publicHref: string;
}): SignInFlow {
  const { apps, provider, connections, transactions, states, admin, events, clock, randomToken, publicHref } = parts;

  const fail = (
    failure: SignInFailure,
    facts: { appId?: string | undefined; purpose?: Transaction['purpose']; cause?: unknown } = {},
  ) => {
    const { appId, purpose, cause } = facts;
    const known = appId !== undefined && apps.find(appId);
    const step = known
      ? { label: 'Try again', url: tryAgain(known.id, purpose) }
      : { label: 'Go to the start page', url: `${publicHref}/` };
    const retryAfterSeconds = cause instanceof ProviderError ? cause.facts.retryAfterSeconds : undefined;
    const logDetail = cause instanceof ProviderError ? `${failure}: ${describe(cause)}` : failure;
    return new SignInError(failure, { cause, retryAfterSeconds, logDetail, step });
  };
  const tryAgain = (appId: string, purpose: Transaction['purpose'] = 'sign_in') =>
    purpose === 'connect' ? `${publicHref}/connections/${appId}` : `${publicHref}/sign-in?app=${appId}`;

  const start = async (request: StartRequest): Promise<string> => {
    const { app, purpose, userId } = request;
    if (!isUsable(app, publicHref)) throw fail('unusable_app', { appId: app.id, purpose });
    const state = states.create(clock());
    const transaction: Transaction = {
      purpose,
      appId: app.id,
      issuer: app.issuer,
      redirectUri: callbackUrlOf(app.id, publicHref),
      scopes: [...(request.scopes ?? app.scopes)],
      nonce: randomToken(),
      codeVerifier: randomToken(),
      returnTo: request.returnTo,
      userId,
    };
    const needsConsent =
      transaction.scopes.includes('offline_access') &&
      !(userId && (await connections.holdsRefreshToken(userId, app.id)));
    const url = await provider
      .authorizationUrl(app, { ...transaction, state, prompt: needsConsent ? 'consent' : undefined })
      .catch((cause: unknown) => {
        throw fail(providerFailure(cause), { appId: app.id, purpose, cause });
      });
    await transactions.put(request.browserId, state, transaction);
    events.signInStarted({ app: app.id, purpose, userId });
    return url;
  };

  /** Finds the transaction that this callback answers, or says why there is none. */
  const takeTransaction = async (request: FinishRequest, state: string): Promise<Transaction | 'already_done'> => {
    const madeAt = states.madeAt(state);
    if (madeAt === undefined) throw fail('state_invented');
    const taken = request.browserId === undefined ? undefined : await transactions.take(request.browserId, state);
    if (taken) return taken;
    if (request.userId !== undefined) return 'already_done';
    const again = { appId: request.appId };
    if (clock() - madeAt > TRANSACTION_SECONDS * 1000) throw fail('state_expired', again);
    throw fail(request.browserId === undefined ? 'cookie_missing' : 'state_used', again);
  };

  const exchange = async (app: ConnectedApp, callback: URL, state: string, transaction: Transaction) => {
    const facts = { appId: app.id, purpose: transaction.purpose };
    try {
      const answer = await provider.exchangeCode(app, callback, { ...transaction, state });
      return { answer, claims: await completeClaims(app, answer) };
    } catch (cause) {
      throw fail(providerFailure(cause), { ...facts, cause });
    }
  };

  /** The ID token's claims, and from userinfo those that it lacks; what the ID token says wins. */
  const completeClaims = async (app: ConnectedApp, answer: TokenAnswer): Promise<Claims | undefined> => {
    const { claims } = answer;
    if (!claims) return undefined;
    const lacks = (names: string[]) => names.some((name) => claims[name] === undefined);
    const decides = lacks(decidingClaims(app, admin));
    if (!decides && !lacks(FRIENDLY_CLAIMS)) return claims;
    const more = await provider.userinfo(app, answer.accessToken, claims.sub).catch((error: unknown) => {
      // A name is not worth a sign-in; another person's answer is no mere lack.
      if (decides || !(error instanceof ProviderError) || error.failure === 'invalid') throw error;
      return undefined;
    });
    return { ...more, ...claims };
  };

  const signIn = async (
    app: ConnectedApp,
    transaction: Transaction,
    answer: TokenAnswer,
    claims: Claims | undefined,
  ): Promise<Finished> => {
    if (!claims) throw fail('token_answer_refused', { appId: app.id });
    if (!maySignIn(app, claims)) throw fail('not_permitted', { appId: app.id });
    const user = sessionUser(app, claims, admin);
    await connections.make({ userId: user.id, app, answer, scopes: transaction.scopes, account: user });
    const providerSession = providerSessionOf(app.issuer, answer.claims ?? claims);
    return { kind: 'signed_in', user, providerSession, app: app.id, returnTo: transaction.returnTo };
  };

  const connect = async (
    app: ConnectedApp,
    transaction: Transaction,
    answer: TokenAnswer,
    claims: Claims | undefined,
  ): Promise<Finished> => {
    const account = claims ? sessionUser(app, claims, admin) : {};
    await connections.make({ userId: transaction.userId ?? '', app, answer, scopes: transaction.scopes, account });
    return { kind: 'connected', returnTo: transaction.returnTo };
  };

  const finish = async (request: FinishRequest): Promise<Finished> => {
    const state = singleState(request.callback, fail);
    const transaction = await takeTransaction(request, state);
    if (transaction === 'already_done') return { kind: 'already_done' };
    const { purpose } = transaction;
    const facts = { appId: transaction.appId, purpose };
    if (transaction.appId !== request.appId) throw fail('other_app', facts);
    const app = apps.find(transaction.appId);
    if (!app || app.issuer !== transaction.issuer) throw fail('registration_changed', facts);
    if (purpose === 'connect' && transaction.userId !== request.userId) throw fail('other_user', facts);
    const { answer, claims } = await exchange(
      app,
      callbackAt(transaction.redirectUri, request.callback),
      state,
      transaction,
    );
    return purpose === 'connect' ? connect(app, transaction, answer, claims) : signIn(app, transaction, answer, claims);
  };

  return {
    start: (request) => reported(events, request.app.id, request.reference, () => start(request)),
    finish: (request) => {
      // What stands in the path is anybody's text until it is an app's id.
      const appId = apps.find(request.appId)?.id ?? 'unknown';
      return reported(events, appId, request.reference, async () => {
        const finished = await finish(request);
        if (finished.kind !== 'already_done') {
          const userId = finished.kind === 'signed_in' ? finished.user.id : request.userId;
          events.signInEnded({ app: appId, outcome: finished.kind, userId });
        }
        return finished;
      });
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

/** Counts and logs a failure once, whatever step it comes from. */
async function reported<T>(events: Events, appId: string, reference: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    const reason = error instanceof SignInError ? error.failure : 'internal';
    const outcome = reason === 'access_denied' || reason === 'not_permitted' ? 'refused' : 'failed';
    events.signInEnded({ app: appId, outcome, reason, reference });
    throw error;
  }
}

const ONCE = ['code', 'state', 'iss', 'error', 'error_description', 'response'];

/** The state, once every parameter that matters was seen to be there at most once (R14). */
function singleState(callback: URL, fail: (failure: SignInFailure) => SignInError): string {
  if (ONCE.some((name) => callback.searchParams.getAll(name).length > 1)) throw fail('parameter_doubled');
  const state = callback.searchParams.get('state');
  if (!state) throw fail('state_missing');
  return state;
}

/** The callback's parameters at the redirect URI that was sent: the request's own host and path say nothing. */
function callbackAt(redirectUri: string, callback: URL): URL {
  const url = new URL(redirectUri);
  url.search = callback.search;
  return url;
}

function providerFailure(cause: unknown): SignInFailure {
  if (!(cause instanceof ProviderError)) return 'token_answer_refused';
  if (cause.failure === 'unavailable') return 'provider_unavailable';
  if (cause.failure === 'misconfigured') return 'misconfigured';
  if (cause.reason === 'authorization_refused') {
    return ['access_denied', 'consent_required'].includes(cause.facts.oauthError ?? '')
      ? 'access_denied'
      : 'provider_refused';
  }
  if (cause.reason === 'authorization_response_invalid') return 'answer_refused';
  return cause.failure === 'refused' ? 'code_refused' : 'token_answer_refused';
}

function describe({ reason, facts }: ProviderError): string {
  return [reason, facts.status, facts.endpoint].filter((part) => part !== undefined).join(' ');
}
