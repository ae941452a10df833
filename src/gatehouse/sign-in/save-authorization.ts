/** Saves what a callback brought: checks the user, then stores the session and grant of a sign-in, or a connection. */

import { AppError } from '../../shared/errors.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { unmetPart } from '../../shared/provider/sign-in-demand.ts';
import type { Claims, TokenResponse } from '../../shared/provider/token-response.ts';
import type { BrowserSecret, NewSession } from '../../shared/sessions/browser-sessions.ts';
import type { SessionUser } from '../../shared/sessions/session.ts';
import { wasRecentAtSignIn } from '../../shared/sessions/step-up.ts';
import { registrationOf } from '../connected-apps/registration.ts';
import type { GrantReading } from '../grants/grant-store.ts';
import type { AttemptLog } from '../sign-in-record/attempt-log.ts';
import { type ClaimObservation, observationWords } from '../sign-in-record/claim-observation.ts';
import type { SignInFacts } from '../sign-in-record/failures.ts';
import { SignInError } from '../sign-in-record/sign-in-error.ts';
import type { SignInWrites } from '../users/user-store.ts';
import type { Fail } from './fail.ts';
import {
  acrOf,
  authTimeOf,
  maySignIn,
  providerSessionOf,
  sessionUser,
  whyNoAdministrator,
  whyNotPermitted,
} from './identity.ts';
import type { CallbackRequest, FlowParts } from './parts.ts';
import type { PendingRequest } from './pending-requests.ts';

/** The verified result of the code exchange. */
export interface Authorization {
  app: ConnectedApp;
  pendingRequest: PendingRequest;
  /** The browser secret under which the pending request was stored. */
  browserSecret: BrowserSecret;
  scopes: readonly string[];
  response: TokenResponse;
  /** Undefined without an ID token. */
  claims: Claims | undefined;
  /** The account's id by the app's setting `account`, if there are no claims. */
  accountId: string | undefined;
}

/** The sign-in failure for each result of `connect` that stored no connection. */
const NOT_CONNECTED = {
  link_ended: 'link_ended',
  user_gone: 'user_gone',
  app_gone: 'registration_changed',
} as const;

export interface AuthorizationSaver {
  /** @throws SignInError */
  saveSignIn(authorization: Authorization, request: CallbackRequest, attemptLog: AttemptLog): Promise<void>;

  /** @throws SignInError */
  saveConnection(
    authorization: Authorization,
    pendingRequest: Extract<PendingRequest, { purpose: 'connect' }>,
    request: Pick<CallbackRequest, 'signInApp' | 'info'>,
    attemptLog: AttemptLog,
  ): Promise<void>;
}

function ruleFacts(observation: ClaimObservation | undefined): SignInFacts {
  return observation ? { observation, seen: observationWords(observation) } : {};
}

export function createAuthorizationSaver(parts: FlowParts, fail: Fail): AuthorizationSaver {
  const { apps, provider, connections, users, adminRule, clock } = parts;

  /** Returns true for a user who was deleted, or is being deleted. */
  const isErasedUser = async (id: string): Promise<boolean> => {
    const user = await users.find(id);
    return user === undefined || user.erasingAt !== undefined;
  };

  /** Returns the failure of an unavailable storage or of a sign-out by the provider; otherwise the cause. */
  const saveFailureOf = (failure: 'session_not_saved' | 'connection_not_saved', cause: unknown): unknown => {
    if (cause instanceof SignInError) return cause;
    const code = cause instanceof AppError ? cause.code : undefined;
    // Saving a session fails with this code if the provider has signed the user out since it issued the ID token.
    if (code === 'sign_in_required') return fail('ended_by_provider', { cause });
    return code === 'storage_unavailable' ? fail(failure, { cause }) : cause;
  };

  /** Throws instead of redirecting to the provider again, which could go on forever. */
  const checkStepUp = (appId: string, acr: string | undefined, authTime: number | undefined): void => {
    if (acr !== adminRule().acr) throw fail('step_up_refused', { appId });
    if (authTime === undefined) throw fail('auth_time_missing', { appId });
    if (!wasRecentAtSignIn(authTime, clock())) throw fail('step_up_refused', { appId });
  };

  /**
   * Returns true if a different `sub` means a different account. A provider may identify a user by another `sub` for
   * each client (OpenID Connect Core section 8), so this holds only for the client that the user signed in with, or if
   * the provider's subjects are public.
   */
  const isComparable = async (
    app: ConnectedApp,
    account: SessionUser,
    { userId, signInApp }: { userId: string; signInApp: string | undefined },
  ): Promise<boolean> => {
    if (account.issuer !== (await users.find(userId))?.issuer) return false;
    const isSameClient = signInApp !== undefined && apps.find(signInApp)?.clientId === app.clientId;
    return isSameClient || provider.hasPublicSubjects(app).catch(() => false);
  };

  /** Discards the tokens of a user who is disabled or was deleted. @returns the failure to throw */
  const refusedUser = async (
    refusal: 'disabled' | 'gone',
    user: SessionUser,
    { app, response }: Authorization,
    attemptLog: AttemptLog,
  ): Promise<SignInError> => {
    const isErased = refusal === 'gone' && (await isErasedUser(user.id));
    await connections.discard(user.id, app, response, {}, { isErased }).catch(() => undefined);
    // The record must not name a user whose records have been deleted.
    if (isErased) attemptLog.learn({ user: undefined });
    return refusal === 'gone'
      ? fail('user_gone', { appId: app.id })
      : fail('not_permitted', { appId: app.id, facts: { disabled: true } });
  };

  /**
   * Saves the user, the list of sessions and the grant in one write: disabling or deleting the user either ends the
   * session and the grant, or makes this write fail. The session itself is saved last, so that no cookie opens it
   * before.
   */
  const saveSessionAndGrant = async (
    authorization: Authorization,
    { beginSession, info }: CallbackRequest,
    { session, firstWrites, grant }: { session: NewSession; firstWrites: SignInWrites; grant: GrantReading },
    attemptLog: AttemptLog,
  ): Promise<void> => {
    const { app, pendingRequest, browserSecret, scopes, response } = authorization;
    const { user } = session;
    const beginning = await beginSession(session, browserSecret).catch((cause: unknown) => {
      throw saveFailureOf('session_not_saved', cause);
    });
    let saveFailure: 'connection_not_saved' | 'session_not_saved' = 'connection_not_saved';
    try {
      const result = await connections.connect({
        userId: user.id,
        app,
        response,
        scopes,
        account: user,
        origin: info.origin,
        prefetched: grant,
        writesOfUser: async (isFirst) => {
          const userWrites = isFirst ? firstWrites : await users.signInWrites(user, pendingRequest.startedAt);
          if (typeof userWrites === 'string') return userWrites;
          const listing = await beginning.list();
          return { writes: [...userWrites.writes, listing.ofUser], beside: [listing.live, ...userWrites.lists] };
        },
      });
      if (result === 'user_disabled') throw await refusedUser('disabled', user, authorization, attemptLog);
      if (result === 'user_gone') throw await refusedUser('gone', user, authorization, attemptLog);
      if (result === 'app_gone') {
        // The user may have been deleted, too.
        const userWrites = await users.signInWrites(user, pendingRequest.startedAt).catch(() => undefined);
        if (typeof userWrites === 'string') throw await refusedUser(userWrites, user, authorization, attemptLog);
      }
      if (result !== 'connected') {
        await connections.discard(user.id, app, response).catch(() => undefined);
        throw fail(NOT_CONNECTED[result], { appId: app.id });
      }
      saveFailure = 'session_not_saved';
      await beginning.save();
    } catch (cause) {
      beginning.drop();
      throw saveFailureOf(saveFailure, cause);
    }
  };

  return {
    async saveSignIn(authorization, request, attemptLog) {
      const { app, pendingRequest, response, claims } = authorization;
      const appId = app.id;
      if (!claims) throw fail('token_response_refused', { appId });
      const user = sessionUser(app, claims, adminRule());
      attemptLog.learn({ user });
      if (request.user !== undefined && request.user.id !== user.id) {
        await connections.discard(user.id, app, response);
        throw fail('other_user_signed_in', { appId, signOutFirst: true });
      }
      if (!maySignIn(app, claims))
        throw fail('not_permitted', { appId, facts: ruleFacts(whyNotPermitted(app, claims)) });
      const acr = acrOf(response.claims);
      const authTime = authTimeOf(response.claims);
      const requiredAcr = adminRule().acr;
      if (pendingRequest.stepUp && requiredAcr !== undefined) {
        checkStepUp(appId, acr, authTime);
        attemptLog.learn({ steppedUp: requiredAcr });
      }
      const userReading = users.prefetch(user.id);
      const grant = connections.prefetch(user.id, appId);
      const firstWrites = await users.signInWrites(user, pendingRequest.startedAt, userReading);
      if (typeof firstWrites === 'string') throw await refusedUser(firstWrites, user, authorization, attemptLog);
      const noAdministrator = whyNoAdministrator(app, claims, adminRule());
      attemptLog.passed('permitted', noAdministrator && `no administrator: ${observationWords(noAdministrator)}`);
      attemptLog.prefetch();
      const providerSession = providerSessionOf(user.issuer, response.claims ?? claims);
      const { idToken: token } = response;
      const idToken = token === undefined ? undefined : { token, registration: registrationOf(app) };
      const session = { user, app: appId, providerSession, acr, authTime, idToken };
      await saveSessionAndGrant(authorization, request, { session, firstWrites, grant }, attemptLog);
      attemptLog.passed('session');
      attemptLog.passed('connection');
      await attemptLog.succeeded('signed_in', user.id);
    },

    async saveConnection(
      { app, scopes, response, claims, accountId },
      { userId, link, linkPath, demand, hints, trial, startedAt },
      { signInApp, info: { origin } },
      attemptLog,
    ) {
      const context = { appId: app.id, purpose: 'connect', linkPath } as const;
      const account = claims ? sessionUser(app, claims, adminRule()) : { accountId };
      const discard = () => connections.discard(userId, app, response, account);
      if (
        link &&
        'id' in account &&
        account.id !== userId &&
        (await isComparable(app, account, { userId, signInApp }))
      ) {
        await discard();
        throw fail('link_other_account', context);
      }
      if (demand) {
        const isOther =
          hints?.prompt !== 'select_account' && (await connections.isOfOtherAccount(userId, app, account));
        // Without an ID token, only the platform sees whether the sign-in suffices.
        const unmet = response.claims && unmetPart(demand, response.claims, { requestedAt: startedAt, now: clock() });
        if (isOther || unmet) {
          await discard();
          throw fail(isOther ? 'demand_other_account' : 'demand_not_met', { ...context, facts: { unmet } });
        }
      }
      if (trial && app.signIn) {
        if (!claims || !maySignIn(app, claims)) {
          await discard();
          throw fail('not_permitted', { ...context, facts: ruleFacts(whyNotPermitted(app, claims)) });
        }
        attemptLog.passed('permitted');
      }
      const result = await connections
        .connect<'gone'>({
          userId,
          app,
          response,
          scopes,
          account,
          chosen: true,
          metDemand: demand,
          link,
          origin,
          writesOfUser: async () => {
            const condition = await users.conditionFor(userId, startedAt);
            return condition ? { writes: [condition] } : 'gone';
          },
        })
        .catch((cause: unknown) => {
          throw saveFailureOf('connection_not_saved', cause);
        });
      if (result !== 'connected') {
        const isErased = result === 'user_gone' && (await isErasedUser(userId));
        await connections.discard(userId, app, response, account, { isErased });
        throw fail(NOT_CONNECTED[result], context);
      }
      attemptLog.passed('connection');
      await attemptLog.succeeded('connected', userId);
    },
  };
}
