/** Turns errors of openid-client into `ProviderError`. */
import * as client from 'openid-client';
import { isClientRefusal, oauthErrorOf } from './oauth-error.ts';
import { failedCall, ProviderError, retryFacts } from './provider-error.ts';
import type { ProviderReply } from './provider-reply.ts';
import type { Capture } from './token-response.ts';

/** A refused push usually means that a callback URL or scope is not registered at the provider. */
export function pushError(error: unknown, capture: Capture): ProviderError {
  const { status } = capture;
  if (status === undefined) return callError(error, { defaultReason: 'push_refused' });
  const facts = factsOf(capture, error);
  if (isTemporary(status)) return new ProviderError('unavailable', 'push_failed', facts);
  return new ProviderError('misconfigured', refusesClient(capture) ? 'client_refused' : 'push_refused', facts);
}

/** For a code exchange. The captured response has more facts than the library's error. */
export function exchangeError(error: unknown, capture: Capture): ProviderError {
  if (error instanceof client.AuthorizationResponseError) {
    return new ProviderError('refused', 'authorization_refused', {
      oauthError: oauthErrorOf(error.error),
      cause: error,
    });
  }
  const { status } = capture;
  if (status === undefined) return callError(error, { defaultReason: 'authorization_response_invalid' });
  // The token response was refused here, or the keys to verify it are unavailable.
  if (causeOf(error) instanceof ProviderError) return callError(error, { defaultReason: 'token_response_invalid' });
  const facts = factsOf(capture, error);
  if (isTemporary(status)) return new ProviderError('unavailable', 'token_endpoint_failed', facts);
  // Some providers refuse with status 200.
  if (status < 400 && !(capture.fault && capture.error))
    return new ProviderError('invalid', 'token_response_invalid', {
      ...facts,
      member: capture.fault,
      value: capture.faultyValue,
    });
  if (refusesClient(capture)) return new ProviderError('misconfigured', 'client_refused', facts);
  if (capture.error === 'unsupported_grant_type') return new ProviderError('misconfigured', 'flow_refused', facts);
  return new ProviderError('refused', 'code_refused', facts);
}

/**
 * RFC 6749 section 5.2 uses 401 for the client only; some providers also send it for a code, with an error that says
 * so.
 */
function refusesClient({ status, error }: Capture): boolean {
  if (isClientRefusal(error) || error === 'unauthorized_client') return true;
  return status === 401 && error !== 'invalid_grant' && error !== 'invalid_request';
}

const isTemporary = (status: number) => status === 429 || status >= 500;

function factsOf({ status = 0, error: oauthError, retryAfterSeconds: seconds, limited }: Capture, cause: unknown) {
  return { status, oauthError, retryAfterSeconds: isTemporary(status) ? seconds : undefined, limited, cause };
}

/** The error that the library wrapped. */
function causeOf(error: unknown): unknown {
  return error instanceof client.ClientError ? (error.cause ?? error) : error;
}

/** For a call without a captured response. `defaultReason`: the reason for an unknown error. */
export function callError(error: unknown, { defaultReason }: { defaultReason: string }): ProviderError {
  const failure = ProviderError.from(causeOf(error));
  return failure.reason === 'unreadable_response'
    ? new ProviderError('invalid', defaultReason, { cause: error })
    : failure;
}

/**
 * The parts of the provider's response that may be shown: the status, and the error code if it is valid.
 * @param token the token that was sent
 * @param now milliseconds since the epoch
 */
export function replyOf(error: unknown, token: string, now: number): ProviderReply {
  if (error instanceof client.ResponseBodyError)
    return { ...statusAndRetry(error.response, now), error: oauthErrorOf(error.error, [token]) };
  if (error instanceof client.WWWAuthenticateChallengeError) return { status: error.status };
  const cause = causeOf(error);
  if (cause instanceof Response) return statusAndRetry(cause, now);
  const failure = callError(error, { defaultReason: 'unreadable_response' });
  const { status, retryAfterSeconds } = failure.facts;
  return { status, retryAfterSeconds, error: failure.reason, detail: failedCall(failure)?.message };
}

const statusAndRetry = (response: Response, now: number): ProviderReply => ({
  status: response.status,
  retryAfterSeconds: retryFacts(response, now).retryAfterSeconds,
});

/** @param now milliseconds since the epoch */
export function userinfoError(error: unknown, now: number): ProviderError {
  const cause = causeOf(error);
  const response = cause instanceof Response ? cause : undefined;
  return response && isTemporary(response.status)
    ? new ProviderError('unavailable', 'userinfo_failed', {
        status: response.status,
        ...retryFacts(response, now),
        cause: error,
      })
    : callError(error, { defaultReason: 'userinfo_invalid' });
}
