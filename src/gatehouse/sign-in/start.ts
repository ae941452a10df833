/** Starts a sign-in or consent: stores the pending request and its record, and builds the authorization URL. */

import type { ProviderHints } from '../../shared/http/provider-hints.ts';
import { type ConnectedApp, callbackUrlOf, isUsable } from '../../shared/provider/connected-app.ts';
import { deriveNonceAndVerifier } from '../../shared/provider/nonce-and-verifier.ts';
import type { SessionUser } from '../../shared/sessions/session.ts';
import { STEP_UP_SECONDS } from '../../shared/sessions/step-up.ts';
import type { AttemptLog, RequestInfo } from '../sign-in-record/attempt-log.ts';
import { type Fail, providerFailure } from './fail.ts';
import { nearestUrl } from './nearest-url.ts';
import type { FlowParts } from './parts.ts';
import { fingerprintOf, type PendingRequest } from './pending-requests.ts';
import { type RefusedReturn, refusedReturnText } from './refused-return.ts';

/** Only a signed-in user can connect an app. */
export type StartPurpose =
  | {
      purpose: 'sign_in';
      user: SessionUser | undefined;
      /** Requests the stronger sign-in that the administration requires, if this is its app. */
      stepUp: boolean;
    }
  | {
      purpose: 'connect';
      user: SessionUser;
      /** Id of the connect link. */
      link?: string;
      /** Local path of the page of the connect link. */
      linkPath?: string;
      /** An administrator tries the app: the browser goes to the record of the attempt. */
      trial?: boolean;
    };

/** What is to be started. */
export type StartInput = StartPurpose & {
  app: ConnectedApp;
  returnTo: string;
  /** The requested return address, if it is not allowed. */
  refused?: RefusedReturn | undefined;
  /** Registered scopes of the app; undefined for all of them. */
  scopes?: readonly string[] | undefined;
  hints: ProviderHints;
  /** Id of the attempt whose callback came again, which this one takes the place of. */
  startedOverFrom?: string | undefined;
};

export type StartRequest = StartInput & {
  info: RequestInfo;
  /** The secret under which the pending request is stored. */
  browserSecret: string;
  /** True if the browser secret has just been created. */
  isNewBrowser: boolean;
};

/** Returns a function that starts an attempt. It resolves with the authorization URL, or rejects with a SignInError. */
export function createStart(parts: FlowParts, fail: Fail) {
  const { provider, connections, pendingRequests, states, adminRule, events, clock, publicHref, recordUrl } = parts;

  return async (request: StartRequest, attemptLog: AttemptLog): Promise<string> => {
    const { app, purpose, user, browserSecret } = request;
    const { refused } = request;
    attemptLog.passed('started', refused ? `${app.id}; ${refusedReturnText(refused)}` : app.id);
    const trial = request.purpose === 'connect' && request.trial ? true : undefined;
    attemptLog.learn({ purpose, user, trial });
    const linkPath = 'linkPath' in request ? request.linkPath : undefined;
    const context = { appId: app.id, purpose, linkPath, returnTo: request.returnTo };
    if (app.disabled) throw fail('disabled_app', context);
    const redirectUri = callbackUrlOf(app.id, publicHref);
    const redirectDetail = describeRedirectUri(redirectUri, app.callbackUrls);
    if (!isUsable(app, publicHref)) throw fail('unusable_app', { ...context, facts: { seen: redirectDetail } });
    const state = states.create(clock());
    const admin = adminRule();
    const stepUp = request.purpose === 'sign_in' && request.stepUp && admin.acr !== undefined && app.id === admin.app;
    // From the grant, never from the request (R3).
    const demand = request.purpose === 'connect' ? await connections.demandOf(request.user.id, app) : undefined;
    const pendingRequest: PendingRequest = {
      ...(request.purpose === 'connect'
        ? { purpose, userId: request.user.id, link: request.link, linkPath: request.linkPath, demand, trial }
        : { purpose: request.purpose }),
      appId: app.id,
      appFingerprint: fingerprintOf(app),
      scopes: request.scopes,
      returnTo: trial ? recordUrl(attemptLog.newId) : request.returnTo,
      stepUp: stepUp || undefined,
      hints: Object.keys(request.hints).length > 0 ? request.hints : undefined,
      startedOverFrom: request.startedOverFrom,
      attempt: attemptLog.newId,
      startedAt: clock(),
    };
    const scopes = request.scopes ?? app.scopes;
    const { prompt: requestedPrompt, ...hints } = request.hints;
    // A step-up is for the account that is signed in.
    const prompt = stepUp ? undefined : requestedPrompt;
    const ownerNeedsConsent = (owner: string | undefined) =>
      connections.needsConsent(owner, app, scopes, purpose === 'connect');
    // With a prompt the user may choose another account, for which no refresh token is stored. A stored refresh token is
    // of the earlier sign-in, and so are the access tokens from it: they do not meet the demand.
    const needsConsent = async () =>
      (await ownerNeedsConsent(user?.id)) ||
      ((prompt !== undefined || demand !== undefined) && ownerNeedsConsent(undefined));
    const url = await provider
      .authorizationUrl(app, {
        redirectUri,
        scopes,
        prompt: await promptOf(app, prompt, needsConsent),
        hints,
        ...(stepUp ? { acrValues: admin.acr, maxAgeSeconds: STEP_UP_SECONDS } : demand),
        ...deriveNonceAndVerifier(browserSecret, state),
      })
      .catch((cause: unknown) => {
        throw fail(providerFailure(cause), { ...context, cause });
      });
    attemptLog.passed('sent', redirectDetail);
    const record = attemptLog.beginWrites({ state, startedAt: pendingRequest.startedAt, redirectUri });
    await pendingRequests.put(browserSecret, state, pendingRequest, {
      isNewBrowser: request.isNewBrowser,
      record,
    });
    events.signInStarted({ app: app.id, purpose, userId: user?.id });
    return url;
  };
}

/**
 * Returns the `prompt` of the app or, if it has none, `consent` if the user must consent again.
 * @param hint `login` or `select_account`, which replaces these values in the app's `prompt`
 */
async function promptOf(
  { prompt }: ConnectedApp,
  hint: ProviderHints['prompt'],
  needsConsent: () => Promise<boolean>,
): Promise<string | undefined> {
  const registered = prompt === 'off' ? [] : (prompt ?? ((await needsConsent()) ? ['consent'] : []));
  const otherValues = registered.filter((value) => value !== 'select_account' && value !== 'login');
  return (hint === undefined ? registered : [hint, ...otherValues]).join(' ');
}

/**
 * Compares the callback URL that is sent with the app’s list, which spares administrators a comparison by eye.
 * @returns the callback URL, and if the list lacks it, the most similar entry and the first difference
 */
export function describeRedirectUri(sent: string, callbackUrls: readonly string[]): string {
  if (callbackUrls.includes(sent)) return `${sent} is in the app’s list, character by character`;
  if (callbackUrls.length === 0) return `${sent} is sent, and the app’s list is empty`;
  return `${sent} is not in the app’s list; ${nearestUrl(sent, callbackUrls)}`;
}
