/** Owns what the library's errors mean: which failure of a provider, of its answer or of an app's settings each of them is. */
import * as client from 'openid-client';
import { ProviderError } from './provider-error.ts';
import type { ProviderSaid } from './provider-said.ts';
import { isAppFault } from './refresh-failure.ts';
import type { RawTokenAnswer } from './token-answer.ts';

/** A refused push shows what else only a page of the provider would: a callback URL or scope that is not registered there. */
export function pushError(error: unknown, holder: RawTokenAnswer): ProviderError {
  if (holder.status === undefined) return callError(error, 'push_refused');
  const facts = { status: holder.status, oauthError: holder.error, cause: error };
  if (holder.status === 429 || holder.status >= 500) {
    return new ProviderError('unavailable', 'push_failed', { ...facts, retryAfterSeconds: holder.retryAfterSeconds });
  }
  return new ProviderError('misconfigured', isAppFault(holder.error) ? 'client_refused' : 'push_refused', facts);
}

/** Of an exchange of a code: what the holder saw of the raw answer tells more than the library's error. */
export function exchangeError(error: unknown, holder: RawTokenAnswer): ProviderError {
  if (error instanceof client.AuthorizationResponseError) {
    return new ProviderError('refused', 'authorization_refused', { oauthError: error.error, cause: error });
  }
  if (holder.status === undefined) return callError(error, 'authorization_response_invalid');
  // The token answer came and was refused here, or the keys to verify it with did not come.
  if (causeOf(error) instanceof ProviderError) return callError(error, 'token_answer_invalid');
  const facts = { status: holder.status, oauthError: holder.error, cause: error };
  if (holder.status === 429 || holder.status >= 500) {
    return new ProviderError('unavailable', 'token_endpoint_failed', {
      ...facts,
      retryAfterSeconds: holder.retryAfterSeconds,
    });
  }
  if (isAppFault(holder.error)) return new ProviderError('misconfigured', 'client_refused', facts);
  if (holder.status >= 400) return new ProviderError('refused', 'code_refused', facts);
  return new ProviderError('invalid', 'token_answer_invalid', facts);
}

/** What lies behind the library's own wrapping. */
function causeOf(error: unknown): unknown {
  return error instanceof client.ClientError ? (error.cause ?? error) : error;
}

/** An error of a call that has no raw token answer. */
export function callError(error: unknown, otherwise: string): ProviderError {
  const failure = ProviderError.from(causeOf(error));
  return failure.reason === 'unreadable_answer' ? new ProviderError('invalid', otherwise, { cause: error }) : failure;
}

/** What the provider answered, as far as may be shown: a status, and a code if it looks like one. */
export function saidIn(error: unknown): ProviderSaid {
  if (error instanceof client.ResponseBodyError)
    return { status: error.status, error: KNOWN_CODE.exec(error.error)?.[0] };
  if (error instanceof client.WWWAuthenticateChallengeError) return { status: error.status };
  const cause = causeOf(error);
  if (cause instanceof Response) return { status: cause.status };
  const { reason, facts } = callError(error, 'unreadable_answer');
  return { status: facts.status, error: reason };
}

/** A provider may write anything where its error code belongs. */
const KNOWN_CODE = /^[a-z_]{1,40}$/;

export function userinfoError(error: unknown): ProviderError {
  const cause = causeOf(error);
  const status = cause instanceof Response ? cause.status : 0;
  return status === 429 || status >= 500
    ? new ProviderError('unavailable', 'userinfo_failed', { status, cause: error })
    : callError(error, 'userinfo_invalid');
}
