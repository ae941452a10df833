/** Completes a sign-in or connection with the provider's tokens: who may sign in, the session, and the grant. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import { registrationOf } from '../connected-apps/registration.ts';
import type { Claims, TokenResponse } from '../connected-apps/token-response.ts';
import { AppError } from '../errors.ts';
import type { NewSession } from '../sessions/browser-sessions.ts';
import type { SessionUser } from '../sessions/session.ts';
import { isRecent } from '../sessions/step-up.ts';
import type { AttemptLog } from '../sign-in-record/attempt-log.ts';
import { SignInError } from '../sign-in-record/sign-in-error.ts';
import { keys } from '../storage/keys.ts';
import type { Fail } from './fail.ts';
import type { CallbackRequest, FlowParts } from './flow.ts';
import { acrOf, authTimeOf, maySignIn, providerSessionOf, sessionUser } from './identity.ts';
import type { Transaction } from './transaction.ts';

/** What the provider granted, verified. */
export interface Authorization {
  app: ConnectedApp;
  transaction: Transaction;
  /** The browser secret under which the pending request was stored. */
  pendingUnder: string;
  scopes: readonly string[];
  response: TokenResponse;
  /** Undefined without an ID token. */
  claims: Claims | undefined;
  /** The account's id without claims, by the app's setting `account`. */
  accountId: string | undefined;
}

/** The failure that the user sees where no connection was stored. */
const UNMADE = { link_ended: 'link_ended', user_gone: 'user_gone', app_gone: 'registration_changed' } as const;

/** The session of the browser that came back. */
export interface SessionPort {
  /**
   * Saves a new session under a new id, so that an earlier id opens nothing (R17).
   * @param pendingUnder the browser secret under which the pending request was stored
   */
  begin(session: NewSession, pendingUnder: string): Promise<void>;
  end(): Promise<void>;
}

export function createCompletion(parts: FlowParts, fail: Fail) {
  const { apps, provider, connections, users, admin, clock } = parts;

  /** Names the failure if the store was down or the provider has signed the user out; returns other errors as they are. */
  const unsaved = (failure: 'session_not_saved' | 'connection_not_saved', cause: unknown): unknown => {
    if (cause instanceof SignInError) return cause;
    const code = cause instanceof AppError ? cause.code : undefined;
    // From saving the session: the provider has signed the user out since it issued the ID token.
    if (code === 'sign_in_required') return fail('ended_by_provider', { cause });
    return code === 'storage_unavailable' ? fail(failure, { cause }) : cause;
  };

  /** A refusal here cannot redirect to the provider once more: that would loop. */
  const checkStepUp = (appId: string, acr: string | undefined, authTime: number | undefined): void => {
    if (acr !== admin.acr) throw fail('step_up_refused', { appId });
    if (authTime === undefined) throw fail('auth_time_missing', { appId });
    if (!isRecent(authTime, clock())) throw fail('step_up_refused', { appId });
  };

  /**
   * True where the user would have this id, too, if the account were theirs. A provider may know a user by another `sub` for
   * each client (OpenID Connect Core section 8), so another `sub` shows another account only for the client that the user
   * signed in with, or where all are public.
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

  return {
    /** @throws SignInError */
    async signIn(authorization: Authorization, request: CallbackRequest, log: AttemptLog): Promise<void> {
      const { app, transaction, pendingUnder, scopes, response, claims } = authorization;
      const { userId, session, info } = request;
      const appId = app.id;
      if (!claims) throw fail('token_answer_refused', { appId });
      const user = sessionUser(app, claims, admin);
      log.learn({ user });
      if (userId !== undefined && userId !== user.id) {
        await connections.discard(user.id, app, response);
        throw fail('other_user_signed_in', { appId, signOutFirst: true });
      }
      if (!maySignIn(app, claims)) throw fail('not_permitted', { appId });
      const acr = acrOf(response.claims);
      const authTime = authTimeOf(response.claims);
      if (transaction.stepUp && admin.acr !== undefined) {
        checkStepUp(appId, acr, authTime);
        log.learn({ steppedUp: admin.acr });
      }
      const userReading = users.prefetch(user.id);
      const grantReading = connections.prefetch(user.id, appId);
      if (await users.isDisabled(user.id, userReading)) {
        await connections.discard(user.id, app, response).catch(() => undefined);
        const isErasing = (await users.find(user.id))?.erasingAt !== undefined;
        throw isErasing ? fail('user_gone', { appId }) : fail('not_permitted', { appId, facts: { disabled: true } });
      }
      log.passed('permitted');
      const providerSession = providerSessionOf(user.issuer, response.claims ?? claims);
      const { idToken: token } = response;
      const idToken = token === undefined ? undefined : { token, registration: registrationOf(app) };
      await session
        .begin({ user, app: appId, providerSession, acr, authTime, idToken }, pendingUnder)
        .catch((cause: unknown) => {
          throw unsaved('session_not_saved', cause);
        });
      log.passed('session');
      try {
        // Judged again by this write, now that the session is listed: if the user was disabled or deleted after the first check
        // and before that, the list of sessions to end did not hold this one yet.
        const noted = await users.noteSignIn(user, transaction.startedAt, userReading);
        if (noted === 'disabled' || noted === 'gone') {
          await connections.discard(user.id, app, response).catch(() => undefined);
          throw noted === 'gone'
            ? fail('user_gone', { appId })
            : fail('not_permitted', { appId, facts: { disabled: true } });
        }
        log.prefetch();
        // Last, so that a sign-in that fails at an earlier step leaves the earlier grant as it was.
        const made = await connections.make({
          userId: user.id,
          app,
          response,
          scopes,
          account: user,
          origin: info.origin,
          prefetched: grantReading,
          admit: (first) =>
            first
              ? Promise.resolve({ exists: keys.user(user.id), version: noted.version })
              : users.admit(user.id, transaction.startedAt, { isSigningIn: true }),
        });
        if (made !== 'made') {
          await connections.discard(user.id, app, response).catch(() => undefined);
          throw fail(UNMADE[made], { appId });
        }
        log.passed('connection');
      } catch (cause) {
        // A failed sign-in leaves no session. The failure is reported also where the session could not be ended.
        await session.end().catch(() => undefined);
        throw unsaved('connection_not_saved', cause);
      }
      await log.succeeded('signed_in', user.id);
    },

    /** @throws SignInError */
    async connection(
      { app, scopes, response, claims, accountId }: Authorization,
      { userId, link, linkPath, trial, startedAt }: Extract<Transaction, { purpose: 'connect' }>,
      { signInApp, info: { origin } }: Pick<CallbackRequest, 'signInApp' | 'info'>,
      log: AttemptLog,
    ): Promise<void> {
      const about = { appId: app.id, purpose: 'connect', linkPath } as const;
      const account = claims ? sessionUser(app, claims, admin) : { accountId };
      const discard = () => connections.discard(userId, app, response, account);
      if (
        link &&
        'id' in account &&
        account.id !== userId &&
        (await isComparable(app, account, { userId, signInApp }))
      ) {
        await discard();
        throw fail('link_other_account', about);
      }
      if (trial && app.signIn) {
        if (!claims || !maySignIn(app, claims)) {
          await discard();
          throw fail('not_permitted', about);
        }
        log.passed('permitted');
      }
      const made = await connections
        .make({
          userId,
          app,
          response,
          scopes,
          account,
          chosen: true,
          link,
          origin,
          admit: () => users.admit(userId, startedAt),
        })
        .catch((cause: unknown) => {
          throw unsaved('connection_not_saved', cause);
        });
      if (made !== 'made') {
        await discard();
        throw fail(UNMADE[made], about);
      }
      log.passed('connection');
      await log.succeeded('connected', userId);
    },
  };
}
