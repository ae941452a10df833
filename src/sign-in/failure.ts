/** Owns the named causes of a sign-in that failed: each with its problem code and with words for the person. */

import { AppError, type PageWords, type ProblemCode, type WhoseFault } from '../errors.ts';

interface FailureFacts {
  code: ProblemCode;
  detail: string;
  whose: WhoseFault;
  words?: PageWords;
}

const NOT_SIGNED_IN = 'Signing in at the provider did not succeed';
const TELL =
  'Tell an administrator the reference below: it shows them what has to be mended. Trying again will not help.';
const ONCE_MORE = 'Try once more. If it happens again, tell an administrator the reference below.';

export const SIGN_IN_FAILURES = {
  parameter_doubled: {
    code: 'invalid_request',
    whose: 'provider',
    detail: 'The identity provider sent you back with an answer that says something twice, so it was not used.',
  },
  state_missing: {
    code: 'invalid_request',
    whose: 'nobody',
    detail: 'This address belongs to the middle of a sign-in and does not work on its own.',
  },
  state_invented: { code: 'invalid_request', whose: 'nobody', detail: 'This sign-in was not started here.' },
  state_expired: {
    code: 'invalid_request',
    whose: 'yours',
    detail: 'More than 10 minutes passed between starting to sign in and coming back.',
  },
  cookie_missing: {
    code: 'invalid_request',
    whose: 'yours',
    detail: 'This sign-in was started in another browser, or this browser does not keep our cookie.',
  },
  state_used: {
    code: 'invalid_request',
    whose: 'nobody',
    detail: 'This sign-in has been used already. That happens after going back in the browser.',
  },
  other_app: {
    code: 'invalid_request',
    whose: 'provider',
    detail: 'The answer came back for another app than the one that was asked, so it was not used.',
  },
  registration_changed: {
    code: 'invalid_request',
    whose: 'ours',
    detail: 'The settings of this app changed while you were at the identity provider.',
  },
  other_user: {
    code: 'invalid_request',
    whose: 'yours',
    detail: 'You are not signed in any more as the person who began to connect this app.',
  },
  answer_refused: {
    code: 'invalid_request',
    whose: 'provider',
    detail: 'The identity provider sent you back with an answer that could not be trusted, so it was not used.',
    words: { title: NOT_SIGNED_IN, nextStep: ONCE_MORE },
  },
  access_denied: {
    code: 'not_allowed',
    whose: 'nobody',
    detail: 'You, or your organisation, did not agree to what was asked for.',
    words: { title: 'Consent was not given', nextStep: 'Nothing was changed. Try again if you do want to agree.' },
  },
  provider_refused: {
    code: 'upstream_error',
    whose: 'provider',
    detail: 'The identity provider refused this sign-in.',
    words: { title: NOT_SIGNED_IN, nextStep: TELL },
  },
  code_refused: {
    code: 'upstream_error',
    whose: 'provider',
    detail: 'The identity provider did not accept its own answer when we turned it in.',
    words: { title: NOT_SIGNED_IN, nextStep: ONCE_MORE },
  },
  token_answer_refused: {
    code: 'upstream_error',
    whose: 'provider',
    detail: 'The identity provider vouched for you in a way that could not be verified.',
    words: { title: NOT_SIGNED_IN, nextStep: ONCE_MORE },
  },
  misconfigured: {
    code: 'upstream_error',
    whose: 'ours',
    detail:
      'This app is not set up correctly, so the identity provider turned us away. An administrator has to mend that.',
    words: { title: NOT_SIGNED_IN, nextStep: TELL },
  },
  disabled_app: {
    code: 'not_allowed',
    whose: 'nobody',
    detail: 'An administrator has disabled this app: nobody can sign in or connect with it at the moment.',
  },
  unusable_app: {
    code: 'upstream_error',
    whose: 'ours',
    detail:
      'The callback URL of this app is not in its registration, so nothing was sent to the provider. An administrator has to add it.',
    words: { title: NOT_SIGNED_IN, nextStep: TELL },
  },
  provider_unavailable: {
    code: 'provider_unavailable',
    whose: 'provider',
    detail: 'The identity provider does not answer at the moment.',
  },
  not_permitted: {
    code: 'not_allowed',
    whose: 'nobody',
    detail: 'Your account is not among those that may sign in here.',
  },
  step_up_refused: {
    code: 'step_up_required',
    whose: 'nobody',
    detail:
      'The identity provider did not ask you for the stronger proof that the administration needs, or you could not give it. Your account there may lack a second factor.',
  },
} as const satisfies Record<string, FailureFacts>;

export type SignInFailure = keyof typeof SIGN_IN_FAILURES;

/** What a cause may need. */
export interface SignInFacts {
  status?: number | undefined;
  oauthError?: string | undefined;
  reason?: string | undefined;
  check?: string | undefined;
  secondsAhead?: number | undefined;
  otherBrowser?: boolean | undefined;
  disabled?: boolean | undefined;
  redirectUri?: string | undefined;
  /** For the step that failed, where more is known than these. */
  seen?: string | undefined;
}

/** A sign-in that failed for a named cause. */
export class SignInError extends AppError {
  readonly failure: SignInFailure;
  /** For the record alone. */
  readonly facts: SignInFacts;

  constructor(
    failure: SignInFailure,
    options: {
      cause?: unknown;
      retryAfterSeconds?: number | undefined;
      logDetail?: string;
      step: { label: string; url: string };
      facts?: SignInFacts | undefined;
    },
  ) {
    const { code, detail, whose, words }: FailureFacts = SIGN_IN_FAILURES[failure];
    super(code, {
      ...{ detail, whose, words },
      cause: options.cause,
      logDetail: options.logDetail ?? failure,
      step: options.step,
      ...(options.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: options.retryAfterSeconds }),
    });
    this.name = 'SignInError';
    this.failure = failure;
    this.facts = options.facts ?? {};
  }
}
