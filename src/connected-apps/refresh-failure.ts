/** Owns how a refresh can end, and what a failed one means for a grant (R40). Pure. */
import type { DpopKey } from './dpop.ts';
import type { ProviderError } from './provider-error.ts';
import type { RawTokenAnswer, TokenAnswer } from './token-answer.ts';

export interface RefreshRequest {
  refreshToken: string;
  /** What the tokens are bound to so far. */
  dpopKey?: DpopKey | undefined;
  /** Asks for an access token with these alone (RFC 6749 section 6); all that were granted where left out. */
  scopes?: readonly string[] | undefined;
  /** Is given a new refresh token, and waited for, before the rest of the answer is judged. Must not reject. */
  keep?: ((refreshToken: string) => Promise<void>) | undefined;
}

/** How a refresh ended. Only `refused` may end a grant, and only once the vault was read again (R37, R40). */
export type RefreshOutcome =
  | { kind: 'tokens'; answer: TokenAnswer }
  | { kind: 'refused' }
  | { kind: 'app_fault'; reason: string }
  | { kind: 'doubtful'; reason: string }
  | { kind: 'unusable'; reason: string; refreshToken: string | undefined }
  | { kind: 'unavailable'; reason: string; retryAfterSeconds: number | undefined };

/**
 * By status and `error` alone: the library reports a body that timed out as one that could not be parsed (R40).
 * @param failure why there was no answer, where there was none
 */
export function refreshFailure(holder: RawTokenAnswer, failure: ProviderError): RefreshOutcome {
  const { status, error: oauthError } = holder;
  if (status === undefined) {
    if (failure.failure === 'misconfigured') return { kind: 'app_fault', reason: failure.reason };
    return { kind: 'unavailable', reason: failure.reason, retryAfterSeconds: failure.facts.retryAfterSeconds };
  }
  if (status === 200) {
    // The answer may be good, and the keys to verify it with away (F13).
    const reason = failure.failure === 'unavailable' ? failure.reason : 'token_answer_invalid';
    return { kind: 'unusable', reason, refreshToken: holder.refreshToken };
  }
  const refused = status >= 400 && status < 500 && status !== 429 && status !== 408;
  if (refused && oauthError === 'invalid_grant') return { kind: 'refused' };
  if (refused && isAppFault(oauthError)) return { kind: 'app_fault', reason: oauthError ?? 'client_refused' };
  if (refused && holder.json !== false) return { kind: 'doubtful', reason: oauthError ?? `status_${status}` };
  return { kind: 'unavailable', reason: `status_${status}`, retryAfterSeconds: holder.retryAfterSeconds };
}

/** The registration is refused, not the person's grant: it must not mark everybody's connection dead. */
export function isAppFault(oauthError: string | undefined): boolean {
  return (
    oauthError === 'invalid_client' || oauthError === 'unauthorized_client' || oauthError === 'unsupported_grant_type'
  );
}
