/** The protocol flow of a sign-in or connection, without Express: start, callback, and the end-session URL. */
import type { AppStore } from '../connected-apps/app-store.ts';
import { type ConnectedApp, callbackUrlOf } from '../connected-apps/connected-app.ts';
import { deriveNonceAndVerifier } from '../connected-apps/nonce-and-verifier.ts';
import type { ProviderClient } from '../connected-apps/provider-client.ts';
import type { AttemptLog, AttemptRecorder, RequestInfo } from '../sign-in-record/attempt-log.ts';
import { callbackAt, singleState } from './callback-url.ts';
import { completeClaims } from './claims.ts';
import { type Authorization, type CompletionParts, createCompletion, type SessionPort } from './completion.ts';
import { createFail, providerFailure } from './fail.ts';
import { sessionUser } from './identity.ts';
import { createStart, type StartParts, type StartRequest } from './start.ts';
import { registrationOf, TRANSACTION_SECONDS, type Transaction, type Transactions } from './transaction.ts';

export interface CallbackRequest {
  /** As in the path of the callback. */
  appId: string;
  /** The callback URL with all its parameters. */
  callback: URL;
  /** Of the signed-in user. */
  userId: string | undefined;
  info: RequestInfo;
  session: SessionPort;
}

export interface SignInFlow {
  /** @returns the URL of the authorization endpoint. @throws SignInError */
  start(start: StartRequest): Promise<string>;
  /**
   * @returns where the browser goes on, or undefined where a signed-in user opens a callback that was used before (R10)
   * @throws SignInError
   */
  finish(callback: CallbackRequest): Promise<string | undefined>;
  /** Where the provider ends its own session, or undefined where it cannot. @param idToken that began the session */
  endSessionUrl(appId: string, idToken: string | undefined): Promise<string | undefined>;
}

interface PendingRequest {
  transaction: Transaction;
  /** The browser's id that it was stored under. */
  pendingUnder: string;
}

export interface FlowParts extends StartParts, CompletionParts {
  apps: AppStore;
  provider: ProviderClient;
  connections: StartParts['connections'] & CompletionParts['connections'];
  recorder: AttemptRecorder;
  transactions: Transactions;
}

export function createSignInFlow(parts: FlowParts): SignInFlow {
  const { apps, provider, recorder, transactions, states, admin, clock, publicHref } = parts;
  const fail = createFail({ apps, publicHref });
  const start = createStart(parts, fail);
  const complete = createCompletion(parts, fail);

  const takePending = async (
    { appId, userId, info }: CallbackRequest,
    state: string,
    startedAt: number,
  ): Promise<PendingRequest | undefined> => {
    const { browserId, earlierBrowserId } = info;
    // The id before the sign-in counts only for a signed-in user: without a session it proves nothing (R103).
    const ids = userId === undefined ? [browserId] : [browserId, earlierBrowserId];
    for (const pendingUnder of ids.filter((id) => id !== undefined)) {
      const transaction = await transactions.take(pendingUnder, state);
      if (transaction) return { transaction, pendingUnder };
    }
    if (userId !== undefined) return undefined;
    if (clock() - startedAt > TRANSACTION_SECONDS * 1000) throw fail('state_expired', { appId });
    const otherBrowser = await recorder.isOtherBrowser(info, state);
    if (otherBrowser || browserId === undefined) throw fail('cookie_missing', { appId, facts: { otherBrowser } });
    throw fail('state_used', { appId });
  };

  /** The app as it was at the start, for the user who started. @throws SignInError */
  const startedApp = (transaction: Transaction, { appId, userId }: CallbackRequest): ConnectedApp => {
    const { purpose } = transaction;
    const about = { appId: transaction.appId, purpose };
    if (transaction.appId !== appId) throw fail('other_app', about);
    const app = apps.find(appId);
    if (!app || registrationOf(app) !== transaction.registration) throw fail('registration_changed', about);
    if (app.disabled) throw fail('disabled_app', about);
    if (transaction.purpose === 'connect' && transaction.userId !== userId) {
      throw fail('other_user', { ...about, signOutFirst: userId !== undefined });
    }
    return app;
  };

  /** Exchanges the code for tokens and verifies whom they are for. @throws SignInError */
  const authorize = async (
    app: ConnectedApp,
    { transaction, pendingUnder }: PendingRequest,
    { callback, state, log }: { callback: URL; state: string; log: AttemptLog },
  ): Promise<Authorization> => {
    const { purpose, scopes = app.scopes } = transaction;
    try {
      const proofs = deriveNonceAndVerifier(pendingUnder, state);
      const response = await provider.exchangeCode(app, callback, { scopes, ...proofs });
      log.passedUpTo(response.claims ? 'id_token_signature' : 'token_endpoint');
      // From here on the record names the user, even if userinfo fails the sign-in.
      if (purpose === 'sign_in' && response.claims) log.learn({ user: sessionUser(app, response.claims, admin) });
      const claims = await completeClaims({ provider, admin }, app, response);
      if (claims) log.passed('claims');
      return { app, transaction, pendingUnder, scopes, response, claims };
    } catch (cause) {
      throw fail(providerFailure(cause), { appId: app.id, purpose, cause });
    }
  };

  const finish = async (request: CallbackRequest, log: AttemptLog): Promise<string | undefined> => {
    log.passed('came_back');
    const state = singleState(request.callback, fail);
    const startedAt = states.madeAt(state);
    if (startedAt === undefined) throw fail('state_invented');
    log.learn({ state });
    const pending = await takePending(request, state, startedAt);
    if (!pending) return undefined;
    const { transaction } = pending;
    log.learn({ id: transaction.attempt, purpose: transaction.purpose });
    log.passedUpTo('cookie');
    const app = startedApp(transaction, request);
    const redirectUri = callbackUrlOf(app.id, publicHref);
    log.passed('redirect_uri', redirectUri);
    const callback = callbackAt(redirectUri, request.callback);
    const authorization = await authorize(app, pending, { callback, state, log });
    const { userId, session, info } = request;
    const { origin } = info;
    if (transaction.purpose === 'connect') {
      await complete.connection(authorization, { userId: transaction.userId, origin }, log);
    } else {
      await complete.signIn(authorization, { userId, session, origin }, log);
    }
    return transaction.returnTo;
  };

  return {
    start(request) {
      return recorder.record(request.app.id, request.info, (log) => start(request, log));
    },
    finish(request) {
      // The path can hold any text: the record names an app only where there is one.
      const appId = apps.find(request.appId)?.id ?? 'unknown';
      return recorder.record(appId, request.info, (log) => finish(request, log));
    },
    async endSessionUrl(appId, idToken) {
      const app = apps.find(appId);
      return app && provider.endSessionUrl(app, { idToken, returnTo: `${publicHref}/` });
    },
  };
}
