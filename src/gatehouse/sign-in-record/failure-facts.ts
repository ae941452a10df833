/** The facts about an error that a record stores: no secret, and no free text of the provider. */

import { AppError } from '../../shared/errors.ts';
import { OutboundError } from '../../shared/outbound/outbound.ts';
import { idTokenFault, unverifiedEmailIn } from '../../shared/provider/id-token-fault.ts';
import { oauthErrorOf } from '../../shared/provider/oauth-error.ts';
import { ProviderError } from '../../shared/provider/provider-error.ts';
import type { SignInFacts } from './failures.ts';
import { SignInError } from './sign-in-error.ts';
import type { StepName } from './steps.ts';

export function factsOf(error: unknown): SignInFacts {
  const facts = error instanceof SignInError ? error.facts : {};
  const cause = error instanceof AppError ? error.cause : undefined;
  if (!(cause instanceof ProviderError)) return facts;
  const { status, oauthError, member, value, host, cause: callError } = cause.facts;
  const isIdTokenRefused =
    cause.failure === 'invalid' && cause.reason === 'token_response_invalid' && member === undefined;
  return {
    ...facts,
    status,
    reason: cause.reason,
    ...(callError instanceof OutboundError ? { call: { words: callError.message, advice: callError.advice } } : {}),
    oauthError: oauthErrorOf(oauthError),
    member,
    value,
    host,
    ...(isIdTokenRefused ? idTokenFault(callError) : {}),
  };
}

/** Returns the e-mail address in a refused ID token: it proves nothing, but administrators find the attempt by it. */
export function unprovenEmail(error: unknown): string | undefined {
  const cause = error instanceof AppError ? error.cause : undefined;
  return cause instanceof ProviderError ? unverifiedEmailIn(cause.facts.cause) : undefined;
}

/** Returns the detail of the failed step. */
export function detailOf(
  { seen, status, oauthError, member, value, reason, call, secondsAhead }: SignInFacts,
  step: StepName,
) {
  if (seen !== undefined) return seen;
  const parts = [
    status === undefined ? undefined : `status ${status}`,
    oauthError,
    value === undefined ? member : `${member} ${value}`,
    call?.words ?? (['sent', 'token_endpoint', 'claims'].includes(step) ? reason : undefined),
    secondsAhead === undefined ? undefined : `our clock is ${secondsAhead} s ahead of the provider’s`,
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? undefined : parts.join(', ');
}
