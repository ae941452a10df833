/** The start of a sign-in or consent: a pending request, its record, and the URL that the browser is sent to. */

import type { ProviderHints } from '../../shared/http/provider-hints.ts';
import { type ConnectedApp, callbackUrlOf, isUsable } from '../../shared/provider/connected-app.ts';
import { deriveNonceAndVerifier } from '../../shared/provider/nonce-and-verifier.ts';
import type { SessionUser } from '../../shared/sessions/session.ts';
import { STEP_UP_SECONDS } from '../../shared/sessions/step-up.ts';
import type { AttemptLog, RequestInfo } from '../sign-in-record/attempt-log.ts';
import { type Fail, providerFailure } from './fail.ts';
import type { FlowParts } from './parts.ts';
import { fingerprintOf, type PendingRequest } from './pending-requests.ts';

/** Only a signed-in user can connect an app. */
export type StartPurpose =
  /** @param stepUp asks for the stronger sign-in of the administration, which only its own app can give */
  | { purpose: 'sign_in'; user: SessionUser | undefined; stepUp: boolean }
  /**
   * @param link the id of the connect link that is used, and `linkPath` the local path of its page
   * @param trial an administrator tries the app: the attempt ends at its record
   */
  | { purpose: 'connect'; user: SessionUser; link?: string; linkPath?: string; trial?: boolean };

export type StartRequest = StartPurpose & {
  app: ConnectedApp;
  returnTo: string;
  info: RequestInfo & { browserSecret: string };
  /** The browser received its secret just now. */
  isNewBrowser: boolean;
  /** Of the app's registered scopes; all of them where left out. */
  scopes?: readonly string[] | undefined;
  hints: ProviderHints;
};

/** The start resolves with the URL of the authorization endpoint, and throws SignInError. */
export function createStart(parts: FlowParts, fail: Fail) {
  const { provider, connections, pendingRequests, states, admin, events, clock, publicHref, recordUrl } = parts;

  return async (request: StartRequest, log: AttemptLog): Promise<string> => {
    const { app, purpose, user, info } = request;
    log.passed('started', app.id);
    const trial = request.purpose === 'connect' && request.trial ? true : undefined;
    log.learn({ purpose, user, trial });
    const linkPath = 'linkPath' in request ? request.linkPath : undefined;
    const about = { appId: app.id, purpose, linkPath, returnTo: request.returnTo };
    if (app.disabled) throw fail('disabled_app', about);
    const redirectUri = callbackUrlOf(app.id, publicHref);
    const seen = describeRedirectUri(redirectUri, app.callbackUrls);
    if (!isUsable(app, publicHref)) throw fail('unusable_app', { ...about, facts: { seen } });
    const state = states.create(clock());
    const stepUp = request.purpose === 'sign_in' && request.stepUp && admin.acr !== undefined && app.id === admin.app;
    const pendingRequest: PendingRequest = {
      ...(request.purpose === 'connect'
        ? { purpose, userId: request.user.id, link: request.link, linkPath: request.linkPath, trial }
        : { purpose: request.purpose }),
      appId: app.id,
      appFingerprint: fingerprintOf(app),
      scopes: request.scopes,
      returnTo: trial ? recordUrl(log.newId) : request.returnTo,
      stepUp: stepUp || undefined,
      attempt: log.newId,
      startedAt: clock(),
    };
    const scopes = request.scopes ?? app.scopes;
    const { prompt: wanted, ...hints } = request.hints;
    // A step-up is for the account that is signed in.
    const prompt = stepUp ? undefined : wanted;
    const needs = (owner: string | undefined) => connections.needsConsent(owner, app, scopes, purpose === 'connect');
    // Of another account, no refresh token is stored.
    const needsConsent = async () => (await needs(user?.id)) || (prompt !== undefined && needs(undefined));
    const url = await provider
      .authorizationUrl(app, {
        redirectUri,
        scopes,
        prompt: await promptOf(app, prompt, needsConsent),
        hints,
        ...(stepUp ? { acrValues: admin.acr, maxAgeSeconds: STEP_UP_SECONDS } : {}),
        ...deriveNonceAndVerifier(info.browserSecret, state),
      })
      .catch((cause: unknown) => {
        throw fail(providerFailure(cause), { ...about, cause });
      });
    log.passed('sent', seen);
    const record = log.beginSteps({ state, startedAt: pendingRequest.startedAt, redirectUri });
    await pendingRequests.put(info.browserSecret, state, pendingRequest, {
      isNewBrowser: request.isNewBrowser,
      record,
    });
    events.signInStarted({ app: app.id, purpose, userId: user?.id });
    return url;
  };
}

/**
 * The app's own `prompt`; without one, `consent` where the user must consent anew.
 * @param hint how the user signs in, in place of the app's own way
 */
async function promptOf(
  { prompt }: ConnectedApp,
  hint: ProviderHints['prompt'],
  needsConsent: () => Promise<boolean>,
): Promise<string | undefined> {
  const own = prompt === 'off' ? [] : (prompt ?? ((await needsConsent()) ? ['consent'] : []));
  const others = own.filter((value) => value !== 'select_account' && value !== 'login');
  return (hint === undefined ? own : [hint, ...others]).join(' ');
}

/**
 * Compares the callback URL that is sent with the app’s list, so that no administrator has to compare them by eye.
 * @returns the callback URL, with the most similar entry of the list where it is not in it, and where they differ
 */
export function describeRedirectUri(sent: string, callbackUrls: readonly string[]): string {
  if (callbackUrls.includes(sent)) return `${sent} is in the app’s list, character by character`;
  const [nearest] = callbackUrls.toSorted((left, right) => sameLength(sent, right) - sameLength(sent, left));
  if (nearest === undefined) return `${sent} is sent, and the app’s list is empty`;
  return `${sent} is not in the app’s list; nearest is ${nearest}: ${differenceOf(sent, nearest)}`;
}

function differenceOf(sent: string, registered: string): string {
  const place = sameLength(sent, registered);
  const [left, right] = [sent, registered].map((url) => [...url][place]);
  const shown = (character: string | undefined) => (character === undefined ? 'its end' : `"${character}"`);
  return `character ${place + 1} is ${shown(left)} where the registered one has ${shown(right)}`;
}

/** How many characters are the same from the start. */
function sameLength(left: string, right: string): number {
  const characters = [...right];
  const place = [...left].findIndex((character, index) => character !== characters[index]);
  return place === -1 ? [...left].length : place;
}
