/** Owns the named causes of a sign-in that failed: each with its problem code and with words for the person. */
import { AppError, type ProblemCode, type WhoseFault } from '../errors.ts';

interface FailureFacts {
  code: ProblemCode;
  detail: string;
  whose: WhoseFault;
}

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
  },
  access_denied: {
    code: 'not_allowed',
    whose: 'yours',
    detail: 'You, or your organisation, did not agree to what was asked for.',
  },
  provider_refused: {
    code: 'upstream_error',
    whose: 'provider',
    detail: 'The identity provider refused this sign-in.',
  },
  code_refused: {
    code: 'upstream_error',
    whose: 'provider',
    detail: 'The identity provider did not accept its own answer when we turned it in.',
  },
  token_answer_refused: {
    code: 'upstream_error',
    whose: 'provider',
    detail: 'The identity provider vouched for you in a way that could not be verified.',
  },
  misconfigured: {
    code: 'upstream_error',
    whose: 'ours',
    detail:
      'This app is not set up correctly, so the identity provider turned us away. An administrator has to mend that.',
  },
  unusable_app: {
    code: 'upstream_error',
    whose: 'ours',
    detail:
      'The callback URL of this app is not in its registration, so nothing was sent to the provider. An administrator has to add it.',
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
} as const satisfies Record<string, FailureFacts>;

export type SignInFailure = keyof typeof SIGN_IN_FAILURES;

/** A sign-in that failed for a named cause. */
export class SignInError extends AppError {
  readonly failure: SignInFailure;

  constructor(
    failure: SignInFailure,
    options: {
      cause?: unknown;
      retryAfterSeconds?: number | undefined;
      logDetail?: string;
      step: { label: string; url: string };
    },
  ) {
    const { code, detail, whose } = SIGN_IN_FAILURES[failure];
    super(code, {
      detail,
      whose,
      cause: options.cause,
      logDetail: options.logDetail ?? failure,
      step: options.step,
      ...(options.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: options.retryAfterSeconds }),
    });
    this.name = 'SignInError';
    this.failure = failure;
  }
}
