/** Creates the errors of the flow: a named failure with the button of its page and a detail for the log. */

import { AppError } from '../../shared/errors.ts';
import { OutboundError } from '../../shared/outbound/outbound.ts';
import { providerHostOf } from '../../shared/provider/connected-app.ts';
import { idTokenFault } from '../../shared/provider/id-token-fault.ts';
import { isUnreadable, ProviderError } from '../../shared/provider/provider-error.ts';
import type { CurrentApps } from '../connected-apps/current-apps.ts';
import { SIGN_IN_FAILURES, type SignInFacts, type SignInFailure } from '../sign-in-record/failures.ts';
import { SignInError } from '../sign-in-record/sign-in-error.ts';
import type { PendingRequest } from './pending-requests.ts';

export type Fail = (failure: SignInFailure, context?: FailureContext) => SignInError;

interface FailureContext {
  appId?: string | undefined;
  purpose?: PendingRequest['purpose'];
  /** Local path of the page of the connect link. */
  linkPath?: string | undefined;
  /** The return path, which a retry keeps. */
  returnTo?: string | undefined;
  cause?: unknown;
  facts?: SignInFacts;
  /** Another user is signed in: the page offers to sign out. */
  signOutFirst?: boolean;
  /** The reference of the page that is shown again. */
  reference?: string | undefined;
}

const USE_ANOTHER_ACCOUNT = 'Use another account';

export function createFail({ apps, publicHref }: { apps: Pick<CurrentApps, 'find'>; publicHref: string }): Fail {
  const basePath = new URL(publicHref).pathname.replace(/\/$/, '');
  const actionAfter = (failure: SignInFailure, context: FailureContext) => {
    const { appId, purpose, linkPath, returnTo, signOutFirst } = context;
    const app = appId === undefined ? undefined : apps.find(appId);
    const usualPath = purpose === 'connect' ? `/connections/${appId}` : '/';
    const returnPath = returnTo === basePath + usualPath ? undefined : returnTo;
    const urlOf = (path: string, query: Record<string, string> = {}) => {
      const search = new URLSearchParams({ ...query, ...(returnPath !== undefined && { return_to: returnPath }) });
      return `${publicHref}${path}${search.size > 0 ? `?${search}` : ''}`;
    };
    const signInUrl = (query: Record<string, string>) => urlOf('/sign-in', query);
    const chooseAccount = {
      label: USE_ANOTHER_ACCOUNT,
      url: signInUrl({ app: String(appId), prompt: 'select_account' }),
    };
    const alternative = app && failure === 'other_user_signed_in' ? chooseAccount : undefined;
    if (signOutFirst) return { label: 'Sign out', url: `${publicHref}/sign-out`, isForm: true, alternative };
    if (!app || failure === 'link_ended') return { label: 'Go to the start page', url: `${publicHref}/` };
    if (linkPath !== undefined) {
      const { href } = new URL(linkPath, publicHref);
      const otherAccount = { label: USE_ANOTHER_ACCOUNT, url: `${href}?prompt=select_account` };
      if (failure === 'link_other_account') return otherAccount;
      return { label: 'Open the link again', url: href, alternative: otherAccount };
    }
    if (purpose === 'connect') {
      const path = `/connections/${app.id}`;
      const otherAccount = { label: USE_ANOTHER_ACCOUNT, url: urlOf(path, { prompt: 'select_account' }) };
      return { label: 'Try again', url: urlOf(path), alternative: otherAccount };
    }
    if (failure === 'not_permitted') return chooseAccount;
    const stepUp = SIGN_IN_FAILURES[failure].code === 'step_up_required' ? { step_up: '1' } : undefined;
    const retry = { label: 'Try again', url: signInUrl({ app: app.id, ...stepUp }) };
    // The account of a user who did not consent may belong to another app.
    const others = failure === 'access_denied' ? signInUrl({ prompt: 'select_account' }) : chooseAccount.url;
    return { ...retry, alternative: { label: USE_ANOTHER_ACCOUNT, url: others } };
  };

  return (failure, context = {}) => {
    const { cause, facts = {}, signOutFirst, reference } = context;
    const { detail, retryAfterSeconds } = causeFacts(cause);
    const app = context.appId === undefined ? undefined : apps.find(context.appId);
    return new SignInError(failure, {
      cause,
      facts,
      action: actionAfter(failure, context),
      reference,
      logDetail: [failure, detail, facts.observation?.seen, reference && 'shown again']
        .filter((part) => part !== undefined)
        .join(': '),
      retryAfterSeconds,
      call: app && cause instanceof ProviderError ? { app: app.id, host: providerHostOf(app) } : undefined,
      // With the callback's `no-referrer`, the form would be sent with `Origin: null`. `strict-origin`
      // sends the origin.
      headers: signOutFirst ? { 'Referrer-Policy': 'strict-origin' } : undefined,
    });
  };
}

/** Returns the members of a pending request that every failure after the callback needs. */
export function failureContextOf(pendingRequest: PendingRequest) {
  const { appId, purpose, returnTo } = pendingRequest;
  return { appId, purpose, returnTo, linkPath: purpose === 'connect' ? pendingRequest.linkPath : undefined };
}

/** Returns the sign-in failure for an error of the provider client. */
export function providerFailure(cause: unknown): SignInFailure {
  if (!(cause instanceof ProviderError)) return 'token_response_refused';
  if (cause.failure === 'unavailable') {
    if (isUnreadable(cause.reason)) return 'provider_unreadable';
    return cause.facts.limited ? 'provider_limited' : 'provider_unavailable';
  }
  if (cause.failure === 'misconfigured') return 'misconfigured';
  if (cause.reason === 'authorization_refused') {
    return ['access_denied', 'consent_required'].includes(cause.facts.oauthError ?? '')
      ? 'access_denied'
      : 'provider_refused';
  }
  if (cause.reason === 'authorization_response_invalid') return 'authorization_response_refused';
  if (idTokenFault(cause.facts.cause).check === 'tenant') return 'not_permitted';
  if (cause.reason.startsWith('account_')) return 'account_unreadable';
  return cause.failure === 'refused' ? 'code_refused' : 'token_response_refused';
}

function causeFacts(cause: unknown): { detail?: string | undefined; retryAfterSeconds?: number | undefined } {
  if (cause instanceof ProviderError)
    return { detail: describe(cause), retryAfterSeconds: cause.facts.retryAfterSeconds };
  return cause instanceof AppError ? { detail: cause.logDetail, retryAfterSeconds: cause.retryAfterSeconds } : {};
}

function describe({ reason, facts }: ProviderError): string {
  const failedCall = facts.cause instanceof OutboundError ? `(${facts.cause.message})` : undefined;
  const { check, secondsAhead, seen } = reason === 'token_response_invalid' ? idTokenFault(facts.cause) : {};
  const clockWords = secondsAhead === undefined ? '' : `, this clock ${secondsAhead} s ahead`;
  const seenWords = seen === undefined ? '' : `: ${seen}`;
  const failedCheck = check && (check !== 'form' || seen) ? `(${check}${clockWords}${seenWords})` : undefined;
  const { status, oauthError, endpoint, member, value, host } = facts;
  const parts = [reason, status, oauthError, endpoint, member, value, host, failedCall, failedCheck];
  return parts.filter((part) => part !== undefined).join(' ');
}
