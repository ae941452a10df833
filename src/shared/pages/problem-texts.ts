/** Texts for users in place of problem codes. */
import { type AppError, type Helper, PROBLEMS, type ProblemCode } from '../errors.ts';

export interface ProblemText {
  title: string;
  meaning: string;
  helper: Helper;
  /** A sentence that says what to do. `{wait}` stands for the time to wait. */
  advice: string;
  /** The only button; `path` is below the base path. */
  action: { label: string; path: '/' | '/sign-in' | '/connections' };
}

const HOME = { label: 'Go to the start page', path: '/' } as const;
const RETRY = { label: 'Try again from the start page', path: '/' } as const;
const CONNECTIONS = { label: 'See your connections', path: '/connections' } as const;

const PROBLEM_TEXTS: Readonly<Record<ProblemCode, ProblemText>> = {
  sign_in_required: {
    title: 'Please sign in',
    meaning: 'You are not signed in, or your sign-in has expired. That happens after a while, to protect you.',
    helper: 'you',
    advice: 'Sign in, then try again.',
    action: { label: 'Sign in', path: '/sign-in' },
  },
  relay_token_invalid: {
    title: 'The program’s key is not accepted',
    meaning: 'A program sent a request with a key that is wrong, has expired or was revoked.',
    helper: 'administrator',
    advice: 'If you run that program, ask the administrator for a new key. Otherwise, there is nothing to do.',
    action: HOME,
  },
  insufficient_scope: {
    title: 'The program’s key does not cover this',
    meaning: 'A program sent a request that its key does not allow.',
    helper: 'administrator',
    advice: 'If you run that program, ask the administrator for a key that covers it.',
    action: HOME,
  },
  csrf_failed: {
    title: 'We could not confirm that it was you',
    meaning:
      'The form you sent does not belong to your current sign-in. It may have been open for a long time, or sent from another page. Nothing was changed.',
    helper: 'you',
    advice: 'Go back to the form, reload that page, and send the form again.',
    action: HOME,
  },
  not_allowed: {
    title: 'You are not allowed to do this',
    meaning: 'Your account does not have permission for this.',
    helper: 'administrator',
    advice: 'If you think that you should have access, ask the operator of this service.',
    action: HOME,
  },
  step_up_required: {
    title: 'Please confirm that it is you',
    meaning: 'This needs a stronger sign-in than the one you have now.',
    helper: 'you',
    advice: 'Sign in again. You may be asked for a second factor, such as a code.',
    action: { label: 'Sign in again', path: '/sign-in' },
  },
  not_connected: {
    title: 'Your account is not connected yet',
    meaning: 'To show you this, we need your consent to access your account, and you have not given it yet.',
    helper: 'you',
    advice: 'Connect your account. You will see what you consent to before anything happens.',
    action: CONNECTIONS,
  },
  reconnect_needed: {
    title: 'Reconnect needed',
    meaning:
      'The provider no longer accepts our access to your account. It may have expired, or it may have been revoked there.',
    helper: 'you',
    advice: 'Reconnect your account. It takes a few moments, and you lose no data.',
    action: CONNECTIONS,
  },
  scopes_missing: {
    title: 'You have not allowed this yet',
    meaning: 'Your account is connected and works, but the permissions that you gave do not cover this.',
    helper: 'you',
    advice: 'Add the permission. You will see what you consent to, and your earlier permissions stay as they are.',
    action: CONNECTIONS,
  },
  invalid_bin: {
    title: 'These are not the first digits of a card',
    meaning: 'A lookup needs 6, 7 or 8 digits and nothing else. Your input was neither looked up nor stored.',
    helper: 'you',
    advice: 'Enter the first 6 to 8 digits, never a whole card number.',
    action: { label: 'Look up other digits', path: '/' },
  },
  bin_not_found: {
    title: 'Nothing is known about these digits',
    meaning: 'None of our sources knows a card that begins with these digits.',
    helper: 'you',
    advice: 'Check the digits. If they are right, the card is too new or too rare to be listed.',
    action: { label: 'Look up other digits', path: '/' },
  },
  bin_quota_exhausted: {
    title: 'Our lookups are used up',
    meaning: 'We have used all our calls to the BIN lookup service.',
    helper: 'administrator',
    advice: 'You can still look up digits that are in our own data. For others, try again in {wait}.',
    action: { label: 'Look up other digits', path: '/' },
  },
  bin_service_unavailable: {
    title: 'The BIN lookup service does not respond',
    meaning:
      'These digits are not in our own data, and the service that may know them cannot be reached at the moment.',
    helper: 'bin_service',
    advice: 'Try again in {wait}. Everything else works as usual.',
    action: RETRY,
  },
  platform_rate_limited: {
    title: 'The platform limits our requests',
    meaning: 'The platform received too many requests in a short time and refuses more for now.',
    helper: 'platform',
    advice: 'Try again in {wait}.',
    action: RETRY,
  },
  platform_error: {
    title: 'The platform did not respond properly',
    meaning: 'The platform cannot be reached, or we could not use its response.',
    helper: 'platform',
    advice: 'Try again in {wait}.',
    action: RETRY,
  },
  platform_timeout: {
    title: 'The platform took too long',
    meaning: 'The platform did not respond in time.',
    helper: 'platform',
    advice: 'Try again in {wait}.',
    action: RETRY,
  },
  app_misconfigured: {
    title: 'This app is not set up correctly',
    meaning: 'A setting of this app is missing or wrong on our side, so you were not sent to the sign-in provider.',
    helper: 'administrator',
    advice: 'Give an administrator the reference below. Trying again will not help.',
    action: HOME,
  },
  provider_error: {
    title: 'The sign-in at the provider failed',
    meaning: 'The sign-in provider refused our request, or we could not use its response.',
    helper: 'provider',
    advice: 'Try again. If it fails again, give an administrator the reference.',
    action: RETRY,
  },
  provider_unavailable: {
    title: 'The sign-in provider does not respond',
    meaning: 'The service that confirms who you are is not available at the moment. Your connection is not lost.',
    helper: 'provider',
    advice: 'Try again in {wait}.',
    action: RETRY,
  },
  storage_unavailable: {
    title: 'We cannot reach our database',
    meaning: 'The database with sign-ins and connections does not respond at the moment. No data is lost.',
    helper: 'administrator',
    advice: 'Try again in {wait}. If the problem persists, contact our support.',
    action: RETRY,
  },
  rate_limited: {
    title: 'Too many requests',
    meaning: 'More requests came in a short time than we allow. The limit protects the service for everyone.',
    helper: 'you',
    advice: 'Try again in {wait}.',
    action: RETRY,
  },
  invalid_request: {
    title: 'We could not process this request',
    meaning: 'Something in the address or in the form is missing or wrong.',
    helper: 'you',
    advice: 'Go to the start page and try from there.',
    action: HOME,
  },
  not_found: {
    title: 'This page does not exist',
    meaning: 'No page has this address. It may contain a typing error, or the page was removed.',
    helper: 'you',
    advice: 'Go to the start page and continue from there.',
    action: HOME,
  },
  method_not_allowed: {
    title: 'This address cannot be used like this',
    meaning: 'The address exists, but works in another way: it may be meant for a form.',
    helper: 'you',
    advice: 'Go to the start page and continue from there.',
    action: HOME,
  },
  length_required: {
    title: 'The message did not state its length',
    meaning: 'A program sent us a message without its length. We refuse such messages to protect the service.',
    helper: 'you',
    advice: 'Try again with a current browser. In a program of your own, send the length, too.',
    action: HOME,
  },
  version_conflict: {
    title: 'Someone else changed this first',
    meaning: 'Someone else changed this while you were editing. Your change was not saved.',
    helper: 'you',
    advice: 'Open the page again, check the current values, and repeat your change if it is still needed.',
    action: HOME,
  },
  unsupported_media_type: {
    title: 'This kind of data is not accepted here',
    meaning: 'A program sent data of a kind that we do not process.',
    helper: 'you',
    advice: 'In a program of your own, correct the kind of the data. Otherwise, there is nothing to do.',
    action: HOME,
  },
  too_large: {
    title: 'This is too large',
    meaning: 'The request is larger than we accept. We did not process it.',
    helper: 'you',
    advice: 'Send less at once.',
    action: HOME,
  },
  not_prefetched: {
    title: 'This page is not loaded ahead',
    meaning: 'Your browser tried to load this page before you opened it. That would already have had an effect.',
    helper: 'you',
    advice: 'Open the page again.',
    action: HOME,
  },
  overloaded: {
    title: 'We are overloaded',
    meaning: 'We receive more requests at the moment than we can handle, so we refuse some of them.',
    helper: 'administrator',
    advice: 'Wait a few seconds, then try again.',
    action: RETRY,
  },
  starting: {
    title: 'We are just starting',
    meaning: 'The service starts, and is not ready yet.',
    helper: 'administrator',
    advice: 'Wait a few seconds, then try again.',
    action: RETRY,
  },
  internal: {
    title: 'Something went wrong here',
    meaning: 'An unexpected error occurred. It is logged under the reference below.',
    helper: 'administrator',
    advice: 'Try again. If it happens again, give our support the reference.',
    action: RETRY,
  },
};

const HELPER_TEXTS: Readonly<Record<Helper, string>> = {
  you: 'You can solve this yourself',
  administrator: 'An administrator of this service',
  provider: 'The operator of the sign-in provider',
  platform: 'The operator of the platform',
  bin_service: 'The operator of the BIN lookup service',
};

/** @param retryAfterSeconds replaces `{wait}` in `advice`; default: "a few minutes" */
export function problemText(code: ProblemCode, retryAfterSeconds?: number): ProblemText {
  const text = PROBLEM_TEXTS[code];
  const wait = retryAfterSeconds === undefined ? 'a few minutes' : `about ${waitText(retryAfterSeconds)}`;
  return { ...text, advice: text.advice.replace('{wait}', wait) };
}

function waitText(seconds: number): string {
  if (seconds < 90) return counted(Math.max(1, Math.ceil(seconds)), 'second');
  if (seconds < 90 * 60) return counted(Math.ceil(seconds / 60), 'minute');
  return seconds < 36 * 3600 ? counted(Math.ceil(seconds / 3600), 'hour') : counted(Math.ceil(seconds / 86_400), 'day');
}

const counted = (amount: number, unit: string): string => `${amount} ${unit}${amount === 1 ? '' : 's'}`;

/** Returns true for failures of Gatehouse and its storage. */
export function isOurFailure({ code, status, helper }: AppError): boolean {
  return status >= 500 && (helper ?? problemText(code).helper) === 'administrator';
}

/** Returns false for a refusal, a decision of the user, or a mistake in a request: nothing is broken. */
export function isBroken(code: ProblemCode, helper: Helper): boolean {
  return helper !== 'you' && (PROBLEMS[code].status >= 500 || helper === 'provider');
}

export const helperText = (helper: Helper): string => HELPER_TEXTS[helper];
