/** The protocol flow of a sign-in or connection, without Express: start, callback, and the end-session URL. */

import { type ConnectedApp, callbackUrlOf } from '../../shared/provider/connected-app.ts';
import { deriveNonceAndVerifier } from '../../shared/provider/nonce-and-verifier.ts';
import type { TokenResponse } from '../../shared/provider/token-response.ts';
import type { BrowserSecret } from '../../shared/sessions/browser-sessions.ts';
import type { IssuedIdToken } from '../../shared/sessions/session.ts';
import { isIssuedFor, type Registration } from '../connected-apps/registration.ts';
import type { AttemptLog, RequestInfo } from '../sign-in-record/attempt-log.ts';
import { SignInError } from '../sign-in-record/sign-in-error.ts';
import { createFail, failureContextOf, providerFailure } from './fail.ts';
import { claimsWithUserinfo, sessionUser } from './identity.ts';
import { type CallbackEnd, createLateCallbacks } from './late-callbacks.ts';
import type { CallbackRequest, FlowParts } from './parts.ts';
import { fingerprintOf, type PendingRequest } from './pending-requests.ts';
import { type Authorization, createAuthorizationSaver } from './save-authorization.ts';
import { createStart, type StartRequest } from './start.ts';

interface TakenRequest {
  pendingRequest: PendingRequest;
  /** The browser secret under which the request was stored. */
  browserSecret: BrowserSecret;
  /** Its callback came before. */
  isSpent: boolean;
  /** It was found but not taken, because the browser secret proves nothing. */
  isUnproven: boolean;
}

/** The parameters of a response that came by POST. */
interface PostedResponse {
  appId: string;
  state: string | undefined;
  error: string | undefined;
  info: RequestInfo;
}

/** Each of these parameters may appear in a callback only once (R14). */
const CALLBACK_PARAMETERS = ['code', 'state', 'iss', 'error', 'error_description'];

export interface SignInFlow {
  /**
   * @returns the URL for the browser: the authorization endpoint, or the record of a failed trial
   * @throws SignInError
   */
  start(request: StartRequest): Promise<string>;

  /** @returns the URL for the browser, or the request to start again @throws SignInError */
  handleCallback(request: CallbackRequest): Promise<Exclude<CallbackEnd, { unrecorded: SignInError }>>;

  /** Records a response that came by POST, and takes no pending request: its cookies are missing (`SameSite=Lax`). */
  refusePost(response: PostedResponse): Promise<never>;

  /** Returns the provider's end-session URL, if it has one. @param idToken the ID token that the session began with */
  endSessionUrl(appId: string, idToken: IssuedIdToken | undefined): Promise<string | undefined>;
}

export function createSignInFlow(parts: FlowParts): SignInFlow {
  const {
    apps,
    provider,
    connections,
    recorder,
    pendingRequests,
    keptReturns,
    states,
    adminRule,
    publicHref,
    recordUrl,
  } = parts;
  const fail = createFail({ apps, publicHref });
  const startAttempt = createStart(parts, fail);
  const late = createLateCallbacks(parts, fail);

  const stateOf = ({ appId, callback: { searchParams } }: CallbackRequest): string => {
    const isRepeated = CALLBACK_PARAMETERS.some((name) => searchParams.getAll(name).length > 1);
    if (isRepeated) throw fail('parameter_doubled');
    const state = searchParams.get('state');
    if (state) return state;
    const error = searchParams.get('error');
    if (error) throw fail('error_without_state', { appId, facts: { oauthError: unprovenCodeOf(error) } });
    throw fail('state_missing');
  };

  /**
   * Finds and takes the request of this state. A secret from before the last sign-in takes one only with a session:
   * without a session it proves nothing (R103).
   */
  const takeRequest = async (
    { user, browserSecrets }: CallbackRequest,
    state: string,
  ): Promise<TakenRequest | undefined> => {
    for (const browserSecret of browserSecrets.toReversed()) {
      const { secret, isEarlier } = browserSecret;
      const isUnproven = isEarlier && user === undefined;
      const found = await (isUnproven ? pendingRequests.find(secret, state) : pendingRequests.take(secret, state));
      if (found) return { ...found, browserSecret, isUnproven };
    }
    return undefined;
  };

  /** Returns the app, if neither its registration nor the user has changed since the start. @throws SignInError */
  const startedApp = (pendingRequest: PendingRequest, { appId, user }: CallbackRequest): ConnectedApp => {
    const context = failureContextOf(pendingRequest);
    if (pendingRequest.appId !== appId) throw fail('other_app', context);
    const app = apps.find(appId);
    if (!app || fingerprintOf(app) !== pendingRequest.appFingerprint) throw fail('registration_changed', context);
    if (app.disabled) throw fail('disabled_app', context);
    if (pendingRequest.purpose === 'connect' && pendingRequest.userId !== user?.id) {
      throw fail('other_user', { ...context, signOutFirst: user !== undefined });
    }
    return app;
  };

  /** Reads the id of the account. If that fails, nothing is connected, and the tokens are revoked. */
  const accountOf = (app: ConnectedApp, pendingRequest: PendingRequest, response: TokenResponse) =>
    provider.accountId(app, response).catch(async (cause: unknown) => {
      if (pendingRequest.purpose === 'connect')
        await connections.discard(pendingRequest.userId, app, response).catch(() => undefined);
      throw cause;
    });

  /** Exchanges the code for tokens, verifies them, and reads the claims or the id of the account. */
  const authorize = async (
    app: ConnectedApp,
    { pendingRequest, browserSecret }: TakenRequest,
    { callback, state, attemptLog }: { callback: URL; state: string; attemptLog: AttemptLog },
  ): Promise<Authorization> => {
    const { scopes = app.scopes } = pendingRequest;
    const context = failureContextOf(pendingRequest);
    try {
      const response = await provider.exchangeCode(app, callback, {
        scopes,
        ...deriveNonceAndVerifier(browserSecret.secret, state),
      });
      attemptLog.passedUpTo(response.claims ? 'id_token_signature' : 'token_endpoint');
      // The record names the user from here on, even if the userinfo request fails.
      if (context.purpose === 'sign_in' && response.claims)
        attemptLog.learn({ user: sessionUser(app, response.claims, adminRule()) });
      const claims = await claimsWithUserinfo({ provider, admin: adminRule() }, app, response);
      const accountId = claims ? undefined : await accountOf(app, pendingRequest, response);
      if (claims || accountId !== undefined) attemptLog.passed('claims');
      return { app, pendingRequest, browserSecret, scopes, response, claims, accountId };
    } catch (cause) {
      throw fail(providerFailure(cause), { ...context, cause });
    }
  };

  /** Takes the pending request of this state, and saves what the provider authorized. */
  const takeAndSave = async (request: CallbackRequest, attemptLog: AttemptLog): Promise<CallbackEnd> => {
    attemptLog.passed('came_back');
    const state = stateOf(request);
    const startedAt = states.createdAt(state);
    if (startedAt === undefined) throw fail('state_invented');
    attemptLog.learn({ state });
    const takenRequest = await takeRequest(request, state);
    if (!takenRequest) return late.withoutRequest(request, { state, startedAt }, attemptLog);
    const { pendingRequest, isSpent, isUnproven } = takenRequest;
    if (isSpent) return late.repeated(pendingRequest, request);
    if (isUnproven) return late.afterSession(pendingRequest);
    attemptLog.learn({ id: pendingRequest.attempt, purpose: pendingRequest.purpose });
    attemptLog.learn({ writes: await keptReturns.writesFor(pendingRequest) });
    const returnTo = exchangeAndSave(request, takenRequest, state, attemptLog);
    const isTrial = pendingRequest.purpose === 'connect' && pendingRequest.trial;
    return {
      url: await (isTrial
        ? returnTo.catch((error) => trialFailed(error, pendingRequest.attempt, attemptLog))
        : returnTo),
    };
  };

  /** @returns the URL for the browser, once everything is stored */
  const exchangeAndSave = async (
    request: CallbackRequest,
    takenRequest: TakenRequest,
    state: string,
    attemptLog: AttemptLog,
  ): Promise<string> => {
    const { pendingRequest } = takenRequest;
    attemptLog.passedUpTo('cookie');
    const app = startedApp(pendingRequest, request);
    // Uses the callback URL that was sent, with the received parameters: host and path of the request prove nothing.
    const callback = new URL(callbackUrlOf(app.id, publicHref));
    attemptLog.passed('redirect_uri', callback.href);
    callback.search = request.callback.search;
    const authorization = await authorize(app, takenRequest, { callback, state, attemptLog });
    const { returnTo } = pendingRequest;
    // After a failure, a retry keeps the return path.
    const saver = createAuthorizationSaver(parts, (failure, context) => fail(failure, { returnTo, ...context }));
    if (pendingRequest.purpose === 'sign_in') await saver.saveSignIn(authorization, request, attemptLog);
    else await saver.saveConnection(authorization, pendingRequest, request, attemptLog);
    return returnTo;
  };

  /** @returns the URL of the record of the failed trial, in place of an error page. @throws other errors */
  const trialFailed = async (error: unknown, attempt: string, attemptLog: AttemptLog): Promise<string> => {
    if (!(error instanceof SignInError)) throw error;
    await attemptLog.failed(error);
    return recordUrl(attempt);
  };

  return {
    start: (request) =>
      recorder.runAndRecord(request.app.id, request.info, (attemptLog) => {
        const url = startAttempt(request, attemptLog);
        const isTrial = request.purpose === 'connect' && request.trial;
        return isTrial ? url.catch((error) => trialFailed(error, attemptLog.newId, attemptLog)) : url;
      }),

    async handleCallback(request) {
      // The path can hold any text, so the record names an app only if it exists.
      const appId = apps.find(request.appId)?.id ?? 'unknown';
      const result = await recorder.runAndRecord(appId, request.info, (attemptLog) => takeAndSave(request, attemptLog));
      if ('unrecorded' in result) throw result.unrecorded;
      return result;
    },

    refusePost: ({ appId, state, error, info }) =>
      recorder.runAndRecord(apps.find(appId)?.id ?? 'unknown', info, async (attemptLog) => {
        attemptLog.passed('came_back');
        if (state !== undefined && states.createdAt(state) !== undefined) attemptLog.learn({ state });
        throw fail('form_post', { appId, facts: { oauthError: unprovenCodeOf(error), seen: 'sent by POST' } });
      }),

    async endSessionUrl(appId, idToken) {
      const app = apps.find(appId);
      if (!app) return undefined;
      // An app whose provider has changed since does not get an ID token of the earlier one.
      const isForApp = idToken && isIssuedFor(idToken.registration as Registration, app);
      return provider.endSessionUrl(app, { idToken: isForApp ? idToken.token : undefined, returnTo: `${publicHref}/` });
    },
  };
}

/**
 * Returns an error code that nothing proves to come from the provider, for the page and the record: only in the form of
 * the registered ones, since any site can send a browser here.
 */
function unprovenCodeOf(error: string | undefined): string | undefined {
  return error !== undefined && /^[a-z][a-z0-9_]{0,49}$/.test(error) ? error : undefined;
}
