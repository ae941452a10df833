/** Why the refresh of a grant failed: its kind and cause, and the texts for pages. */

/**
 * Why a refresh failed or the grant ended. `kind` decides what Gatehouse does next; `cause` is a fixed word for pages
 * and logs. Times in milliseconds since the epoch.
 */
export interface RefreshFailure {
  /**
   * `passing`: the refresh is retried. `unverified`: the refresh was refused, which does not prove that the grant has
   * ended. `reconnect_needed`: the grant has ended for good.
   */
  kind: 'passing' | 'unverified' | 'reconnect_needed';
  cause: FailureCause;
  /** The first failure of this kind. */
  since: number;
  /** Consecutive failures. */
  failures: number;
  /** The provider is not called again before this time. */
  retryAt: number;
  /** The platform had refused the access token before the refresh. */
  tokenRefused?: boolean | undefined;
  /** For administrators: the provider's error code, or a fixed word. */
  reason?: string | undefined;
}

export type FailureCause =
  | 'grant_refused'
  | 'lost_in_failover'
  | 'response_lost'
  | 'access_ended'
  | 'access_token_refused'
  | 'unclear_refusal'
  | 'unusable_response'
  | 'provider_unavailable'
  | 'provider_limited'
  | 'app_refused'
  | 'not_checked'
  | 'registration_changed'
  | 'unreadable';

/** The causes as sentences for pages. */
export const FAILURE_WORDS: Record<FailureCause, string> = {
  grant_refused: 'The provider has ended this connection.',
  lost_in_failover: 'The storage failed over, and probably lost the last renewal of the access.',
  response_lost: 'The last renewal of the access was interrupted, and the provider gives each renewal only once.',
  access_ended: 'The access has expired, and the provider issued no refresh token.',
  access_token_refused: 'The platform no longer accepts the access that was granted.',
  unclear_refusal: 'The provider refused to renew the access and did not say clearly why.',
  unusable_response: 'The provider sent a response that cannot be used.',
  provider_unavailable: 'The provider is not available.',
  provider_limited: 'The provider limits how often it may be called.',
  app_refused: 'The provider does not accept the registration of this app at the moment.',
  not_checked: 'The connection was imported, and its refresh token has not been tried yet.',
  registration_changed: 'The connection was made before this app moved to another provider, platform or client ID.',
  unreadable: 'The stored data of this connection cannot be read.',
};

const RECONNECT = 'Reconnect to use it again.';
const RETRY_OR_RECONNECT = 'Try again shortly, or reconnect.';
const FAILURE_ADVICE: Record<FailureCause, string> = {
  grant_refused: RECONNECT,
  lost_in_failover: RECONNECT,
  response_lost: RECONNECT,
  access_ended: RECONNECT,
  access_token_refused: RETRY_OR_RECONNECT,
  unclear_refusal: RETRY_OR_RECONNECT,
  unusable_response: RETRY_OR_RECONNECT,
  provider_unavailable: 'Try again shortly. If it lasts, reconnect.',
  provider_limited: 'Try again shortly.',
  app_refused: 'Try again later. An administrator must correct this first.',
  not_checked: RETRY_OR_RECONNECT,
  registration_changed: RECONNECT,
  unreadable: RECONNECT,
};

/** Returns the cause as a sentence for the user, with advice on what to do next. */
export const failureText = (cause: FailureCause): string => `${FAILURE_WORDS[cause]} ${FAILURE_ADVICE[cause]}`;
