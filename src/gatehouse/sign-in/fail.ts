/** The errors of the flow: a named failure with its next step for the user and its detail for the log. */

import { AppError } from '../../shared/errors.ts';
import { OutboundError } from '../../shared/outbound/outbound.ts';
import { providerHostOf } from '../../shared/provider/connected-app.ts';
import { idTokenFault } from '../../shared/provider/id-token-fault.ts';
import { ProviderError } from '../../shared/provider/provider-error.ts';
import type { CurrentApps } from '../connected-apps/current-apps.ts';
import { SIGN_IN_FAILURES, type SignInFacts, type SignInFailure } from '../sign-in-record/failures.ts';
import { SignInError } from '../sign-in-record/sign-in-error.ts';
import type { PendingRequest } from './pending-requests.ts';

export type Fail = (failure: SignInFailure, about?: FailureAbout) => SignInError;

interface FailureAbout {
  appId?: string | undefined;
  purpose?: PendingRequest['purpose'];
  /** Of the page of the connect link that is used. */
  linkPath?: string | undefined;
  /** Where the browser was to go on, so that another attempt leads there, too. */
  returnTo?: string | undefined;
  cause?: unknown;
  facts?: SignInFacts;
  /** Another user is signed in: the page offers to sign out. */
  signOutFirst?: boolean;
}

export function createFail({ apps, publicHref }: { apps: Pick<CurrentApps, 'find'>; publicHref: string }): Fail {
  const basePath = new URL(publicHref).pathname.replace(/\/$/, '');
  const nextStep = (failure: SignInFailure, about: FailureAbout) => {
    const { appId, purpose, linkPath, returnTo, signOutFirst } = about;
    const app = appId === undefined ? undefined : apps.find(appId);
    const usualPath = purpose === 'connect' ? `/connections/${appId}` : '/';
    const onward = returnTo === basePath + usualPath ? undefined : returnTo;
    const urlOf = (path: string, query: Record<string, string> = {}) => {
      const all = new URLSearchParams({ ...query, ...(onward !== undefined && { return_to: onward }) });
      return `${publicHref}${path}${all.size > 0 ? `?${all}` : ''}`;
    };
    const signInUrl = (query: Record<string, string>) => urlOf('/sign-in', query);
    const label = 'Use another account';
    const another = { label, url: signInUrl({ app: String(appId), prompt: 'select_account' }) };
    const other = app && failure === 'other_user_signed_in' ? another : undefined;
    if (signOutFirst) return { label: 'Sign out', url: `${publicHref}/sign-out`, isForm: true, other };
    if (!app || failure === 'link_ended') return { label: 'Go to the start page', url: `${publicHref}/` };
    if (linkPath !== undefined) {
      const { href } = new URL(linkPath, publicHref);
      if (failure === 'link_other_account') return { label, url: `${href}?prompt=select_account` };
      return { label: 'Open the link again', url: href };
    }
    if (purpose === 'connect') return { label: 'Try again', url: urlOf(`/connections/${app.id}`) };
    if (failure === 'not_permitted') return another;
    const stepUp = SIGN_IN_FAILURES[failure].code === 'step_up_required' ? { step_up: '1' } : undefined;
    const again = { label: 'Try again', url: signInUrl({ app: app.id, ...stepUp }) };
    if (failure !== 'access_denied') return again;
    // The account may be one of another app.
    return { ...again, other: { label, url: signInUrl({ prompt: 'select_account' }) } };
  };

  return (failure, about = {}) => {
    const { cause, facts = {}, signOutFirst } = about;
    const { seen, retryAfterSeconds } = causeFacts(cause);
    const app = about.appId === undefined ? undefined : apps.find(about.appId);
    return new SignInError(failure, {
      cause,
      facts,
      step: nextStep(failure, about),
      logDetail: seen === undefined ? failure : `${failure}: ${seen}`,
      retryAfterSeconds,
      call: app && cause instanceof ProviderError ? { app: app.id, host: providerHostOf(app) } : undefined,
      // Under the callback's `no-referrer`, the form would be sent with `Origin: null`. `strict-origin` sends the origin alone.
      headers: signOutFirst ? { 'Referrer-Policy': 'strict-origin' } : undefined,
    });
  };
}

/** The named failure of an error of the provider client. */
export function providerFailure(cause: unknown): SignInFailure {
  if (!(cause instanceof ProviderError)) return 'token_answer_refused';
  if (cause.failure === 'unavailable') return cause.facts.limited ? 'provider_limited' : 'provider_unavailable';
  if (cause.failure === 'misconfigured') return 'misconfigured';
  if (cause.reason === 'authorization_refused') {
    return ['access_denied', 'consent_required'].includes(cause.facts.oauthError ?? '')
      ? 'access_denied'
      : 'provider_refused';
  }
  if (cause.reason === 'authorization_response_invalid') return 'answer_refused';
  if (idTokenFault(cause.facts.cause).check === 'tenant') return 'not_permitted';
  if (cause.reason.startsWith('account_')) return 'account_unreadable';
  return cause.failure === 'refused' ? 'code_refused' : 'token_answer_refused';
}

function causeFacts(cause: unknown): { seen?: string | undefined; retryAfterSeconds?: number | undefined } {
  if (cause instanceof ProviderError)
    return { seen: describe(cause), retryAfterSeconds: cause.facts.retryAfterSeconds };
  return cause instanceof AppError ? { seen: cause.logDetail, retryAfterSeconds: cause.retryAfterSeconds } : {};
}

function describe({ reason, facts }: ProviderError): string {
  const failed = facts.cause instanceof OutboundError ? `(${facts.cause.message})` : undefined;
  const { check, secondsAhead } = reason === 'token_answer_invalid' ? idTokenFault(facts.cause) : {};
  const clocks = secondsAhead === undefined ? '' : `, this clock ${secondsAhead} s ahead`;
  const refused = check && check !== 'form' ? `(${check}${clocks})` : undefined;
  const { status, oauthError, endpoint, member, host } = facts;
  const parts = [reason, status, oauthError, endpoint, member, host, failed, refused];
  return parts.filter((part) => part !== undefined).join(' ');
}
