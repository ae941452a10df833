/** A refresh at the provider: the request, its outcomes, and what a failure means for the grant (R40). Pure. */
import type { DpopKey } from './dpop.ts';
import { isClientRefusal } from './oauth-error.ts';
import type { ProviderError } from './provider-error.ts';
import type { Capture, TokenResponse } from './token-response.ts';

export interface TokenRefresh {
  refreshToken: string;
  /** The key that the tokens are bound to. */
  dpopKey?: DpopKey | undefined;
  /** Requests an access token with only these scopes (RFC 6749 section 6); by default all granted ones. */
  scopes?: readonly string[] | undefined;
  /**
   * Requests an access token for only this resource (RFC 8707 section 2.2); by default for all resources of the app.
   */
  resource?: string | undefined;
  /** Saves a new refresh token; awaited before the rest of the response is checked. Must not reject. */
  saveRefreshToken?: ((refreshToken: string) => Promise<void>) | undefined;
}

/** Only `refused` may end a grant, and only after the stored grant was read again (R37, R40). */
export type RefreshOutcome =
  | { kind: 'tokens'; response: TokenResponse }
  | { kind: 'refused' }
  | { kind: 'app_fault'; reason: string }
  | { kind: 'unclear_refusal'; reason: string }
  | { kind: 'unusable'; reason: string; refreshToken: string | undefined }
  | Unavailable;

interface Unavailable {
  kind: 'unavailable';
  reason: string;
  retryAfterSeconds: number | undefined;
  /** The request did not reach the provider. */
  unsent?: true;
  /** The provider refused the call because of its rate limit. */
  limited?: true;
}

/**
 * Classified by status and `error` only: the library reports a body that timed out as one that cannot be parsed (R40).
 * @param failure the reason if there was no response
 */
export function refreshFailure(capture: Capture, failure: ProviderError): RefreshOutcome {
  const { status, error: oauthError } = capture;
  if (status === undefined) {
    if (failure.failure === 'misconfigured') return { kind: 'app_fault', reason: failure.reason };
    const { retryAfterSeconds, limited } = failure.facts;
    return {
      kind: 'unavailable',
      reason: failure.reason,
      retryAfterSeconds,
      ...(!capture.isSent && { unsent: true }),
      ...(limited && { limited }),
    };
  }
  const isSuccess = status >= 200 && status < 300;
  // Some providers refuse with a status of success. Such a refusal never ends a grant.
  const isRefusal = isSuccess
    ? oauthError !== undefined && capture.refreshToken === undefined
    : status >= 400 && status < 500 && status !== 429 && status !== 408;
  if (isSuccess && !isRefusal) {
    // The response may be valid while the keys to verify it are unavailable (F13).
    const { member, host } = failure.facts;
    const refused =
      failure.reason === 'api_base_url_refused' ? [failure.reason, member, host].filter(Boolean).join(' ') : oauthError;
    const reason = failure.failure === 'unavailable' ? failure.reason : (refused ?? 'token_response_invalid');
    return { kind: 'unusable', reason, refreshToken: capture.refreshToken };
  }
  const isReadable = capture.isReadable !== false;
  if (isRefusal && !isSuccess && isReadable && oauthError === 'invalid_grant') return { kind: 'refused' };
  if (isRefusal && isAppFault(status, oauthError)) return { kind: 'app_fault', reason: oauthError ?? 'client_refused' };
  if (isRefusal && (isReadable || oauthError))
    return { kind: 'unclear_refusal', reason: oauthError ?? `status_${status}` };
  const reason = [`status_${status}`, oauthError].filter(Boolean).join(' ');
  const { retryAfterSeconds, limited } = capture;
  return { kind: 'unavailable', reason, retryAfterSeconds, ...(limited && { limited }) };
}

/**
 * The provider refuses the client, not the grant, so no connection may be marked as ended. `unauthorized_client` counts
 * only with 401, the status of failed client authentication (RFC 6749 section 5.2): with another status, some providers
 * send it for a grant that has ended.
 */
function isAppFault(status: number, oauthError: string | undefined): boolean {
  if (oauthError === 'unauthorized_client') return status === 401;
  return isClientRefusal(oauthError) || oauthError === 'unsupported_grant_type';
}
