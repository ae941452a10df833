/** The facts that a record keeps of an error: no secret, and no free text of the provider. */
import { idTokenFault, namedEmail } from '../connected-apps/id-token-fault.ts';
import { ProviderError } from '../connected-apps/provider-error.ts';
import { AppError } from '../errors.ts';
import { OutboundError } from '../outbound/outbound.ts';
import type { SignInFacts } from './failures.ts';
import { SignInError } from './sign-in-error.ts';
import type { StepName } from './steps.ts';

/** The form of OAuth's error codes (RFC 6749 section 4.1.2.1). Other text of a provider is not repeated (R22). */
const OAUTH_ERROR = /^[a-z_]{3,40}$/;

export function factsOf(error: unknown): SignInFacts {
  const known = error instanceof SignInError ? error.facts : {};
  const cause = error instanceof AppError ? error.cause : undefined;
  if (!(cause instanceof ProviderError)) return known;
  const { status, oauthError, cause: origin } = cause.facts;
  const isTokenRefused = cause.failure === 'invalid' && cause.reason === 'token_answer_invalid';
  return {
    ...known,
    status,
    reason: cause.reason,
    ...(origin instanceof OutboundError ? { call: { words: origin.message, advice: origin.advice } } : {}),
    oauthError: oauthError !== undefined && OAUTH_ERROR.test(oauthError) ? oauthError : undefined,
    ...(isTokenRefused ? idTokenFault(origin) : {}),
  };
}

/** The e-mail address in a refused ID token: it proves nothing, but administrators find the attempt by it. */
export function unprovenEmail(error: unknown): string | undefined {
  const cause = error instanceof AppError ? error.cause : undefined;
  return cause instanceof ProviderError ? namedEmail(cause.facts.cause) : undefined;
}

/** The detail of the failed step. */
export function detailOf({ seen, status, oauthError, reason, call, secondsAhead }: SignInFacts, step: StepName) {
  if (seen !== undefined) return seen;
  const parts = [
    status === undefined ? undefined : `status ${status}`,
    oauthError,
    call?.words ?? (['sent', 'token_endpoint', 'claims'].includes(step) ? reason : undefined),
    secondsAhead === undefined ? undefined : `our clock is ${secondsAhead} s ahead of the provider’s`,
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? undefined : parts.join(', ');
}
