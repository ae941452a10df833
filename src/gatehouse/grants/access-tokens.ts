/** Returns an access token for a user and app, or the reason why there is none. */

import { AppError } from '../../shared/errors.ts';
import { BUSY_RETRY_SECONDS } from '../../shared/outbound/outbound.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import type { DpopKey } from '../../shared/provider/dpop.ts';
import { type Grant, hasUsableToken, healthOf, type StoredGrant } from './grant.ts';
import type { GrantReading, GrantStore } from './grant-store.ts';
import type { MissingScopes } from './missing-scopes.ts';
import type { Refresher } from './refresh.ts';
import { needsToken } from './refresh-due.ts';
import type { FailureCause, RefreshFailure } from './refresh-failure.ts';
import type { InServiceShare } from './service-share.ts';

/** Expected failures are results; only errors of the storage are thrown. */
export type TokenResult =
  | {
      kind: 'token';
      accessToken: string;
      /** The key that the token is bound to (RFC 9449); undefined for a bearer token. */
      dpopKey: DpopKey | undefined;
      /** The granted scopes. */
      scopes: readonly string[];
      requestedScopes?: readonly string[] | undefined;
      /** When the user consented to the grant, in milliseconds since the epoch. */
      consentedAt: number;
      /** The API base URL of the grant. */
      apiBaseUrl?: string | undefined;
      /** The platform refused this token before, and it could not be refreshed. */
      wasRefused: boolean;
    }
  | { kind: 'not_connected' }
  | { kind: 'reconnect_needed'; cause: FailureCause }
  /** `isUnverified`: the health of the connection is `unverified`. */
  | { kind: 'unavailable'; cause: FailureCause; isUnverified: boolean; retryAfterSeconds: number };

export type Unavailable = Extract<TokenResult, { kind: 'unavailable' }>;

/** The platform refused a token that was just refreshed. */
type StillRefused = { kind: 'still_refused' };

const MAX_WAIT_MS = 2_000;

export interface TokenOptions {
  prefetched?: GrantReading | undefined;
  relayTokenId?: string | undefined;
}

export interface AccessTokens {
  /**
   * Returns an access token, and refreshes it first if that is due. If the provider is slow, returns a token that has
   * not expired, and the refresh continues in the background.
   * @param options `prefetched`: a read of the grant that was started with the request. `relayTokenId`: the relay token
   *   of the service that requests the access token; undefined for a user
   */
  get(userId: string, app: ConnectedApp, options?: TokenOptions): Promise<TokenResult>;

  /** Like `get`, after the platform refused a token (401): returns a newer one, after a refresh if none is stored. */
  getAnother(
    userId: string,
    app: ConnectedApp,
    rejected: string,
    options?: Pick<TokenOptions, 'relayTokenId'>,
  ): Promise<TokenResult | StillRefused>;

  /** Removes the recorded refusal once the platform has accepted the token. Never rejects. */
  clearRefusal(userId: string, appId: string, accessToken: string): Promise<void>;
}

export function createAccessTokens(parts: {
  grants: GrantStore;
  refresher: Refresher;
  inServiceShare: InServiceShare;
  missing: Pick<MissingScopes, 'announce'>;
  clock: () => number;
}): AccessTokens {
  const { grants, refresher, inServiceShare, missing, clock } = parts;

  const loadAndRefresh = async <Result extends { kind: string }>(
    userId: string,
    app: ConnectedApp,
    rejected: string | undefined,
    { prefetched, relayTokenId }: TokenOptions,
    toResult: (stored: StoredGrant | undefined, now: number, rejected: string | undefined) => Result,
  ): Promise<Result | Unavailable> => {
    const stored = await grants.load(userId, app, prefetched);
    await missing.announce(app, stored);
    const current = toResult(stored, clock(), rejected);
    if (!stored || 'unreadable' in stored || !needsToken(stored.grant, rejected, clock())) return current;
    const refreshedResult = inServiceShare(app, relayTokenId, () => refresher.refresh({ userId, app, rejected })).then(
      (inShare) => {
        if (inShare) return toResult(inShare.value, clock(), rejected);
        return current.kind === 'token' ? current : NO_SLOT;
      },
    );
    if (current.kind !== 'token') return refreshedResult;
    // Without the store no refresh can start, but a token that has not expired still works (F16).
    const currentIfNotStarted = (error: unknown): Result => {
      if (error instanceof AppError && error.code === 'storage_unavailable') return current;
      throw error;
    };
    return resultWithinWait(refreshedResult.catch(currentIfNotStarted), current);
  };

  return {
    get: (userId, app, options = {}) => loadAndRefresh(userId, app, undefined, options, resultOf),
    getAnother: (userId, app, rejected, options = {}) =>
      loadAndRefresh(userId, app, rejected, options, resultAfterRefusal),

    async clearRefusal(userId, appId, accessToken) {
      try {
        const stored = await grants.loadStored(userId, appId);
        if (!stored || 'unreadable' in stored || !isTokenRefused(stored.grant)) return;
        if (stored.grant.accessToken === accessToken)
          await grants.save(withoutTokenRefusal(stored.grant), stored.version);
      } catch {
        // The refusal stays recorded until the next accepted call.
      }
    },
  };
}

/** The result for a service that gets no slot of the provider in time (R134). */
const NO_SLOT: Unavailable = {
  kind: 'unavailable',
  cause: 'provider_unavailable',
  isUnverified: false,
  retryAfterSeconds: BUSY_RETRY_SECONDS,
};

/** Resolves with the result, or with the fallback if the result takes too long. */
function resultWithinWait<Result>(result: Promise<Result>, fallback: Result): Promise<Result> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(fallback), MAX_WAIT_MS);
    result.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** True if the platform refused the access token, and it could not be refreshed. */
function isTokenRefused({ failure }: Grant): boolean {
  return failure?.cause === 'access_token_refused' || failure?.tokenRefused === true;
}

/** Removes the refusal. A failure with another cause stays, so that the provider is not called before its `retryAt`. */
function withoutTokenRefusal(grant: Grant): Grant {
  const { failure } = grant;
  const otherFailure = failure?.cause === 'access_token_refused' ? undefined : failure;
  return { ...grant, failure: otherFailure && { ...otherFailure, tokenRefused: undefined } };
}

function resultOf(stored: StoredGrant | undefined, now: number): TokenResult {
  if (!stored) return { kind: 'not_connected' };
  if ('unreadable' in stored) return { kind: 'reconnect_needed', cause: 'unreadable' };
  const { grant } = stored;
  if (grant.failure?.kind === 'reconnect_needed') return { kind: 'reconnect_needed', cause: grant.failure.cause };
  // A token that has not expired is used even if its refresh failed (R42).
  if (hasUsableToken(grant, now)) {
    const { accessToken, dpopKey, scopes, requestedScopes, consentedAt, apiBaseUrl } = grant;
    const wasRefused = isTokenRefused(grant);
    return { kind: 'token', accessToken, dpopKey, scopes, requestedScopes, consentedAt, apiBaseUrl, wasRefused };
  }
  // If no failure is stored, another process is still refreshing the grant.
  if (!grant.failure) {
    return { kind: 'unavailable', cause: 'provider_unavailable', isUnverified: false, retryAfterSeconds: 5 };
  }
  return resultOfFailure(grant, grant.failure, now);
}

function resultAfterRefusal(
  stored: StoredGrant | undefined,
  now: number,
  rejected: string | undefined,
): TokenResult | StillRefused {
  if (!stored || 'unreadable' in stored || stored.grant.accessToken !== rejected) return resultOf(stored, now);
  const { grant } = stored;
  return grant.failure ? resultOfFailure(grant, grant.failure, now) : { kind: 'still_refused' };
}

function resultOfFailure(grant: Grant, { kind, cause, retryAt }: RefreshFailure, now: number): TokenResult {
  if (kind === 'reconnect_needed' || cause === 'access_token_refused') return { kind: 'reconnect_needed', cause };
  const isUnverified = healthOf(grant, now) === 'unverified';
  return {
    kind: 'unavailable',
    cause,
    isUnverified,
    retryAfterSeconds: Math.max(1, Math.ceil((retryAt - now) / 1000)),
  };
}
