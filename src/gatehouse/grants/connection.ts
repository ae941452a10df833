/** A connection: a grant as users and administrators see it. Pure. */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { DAY_SECONDS } from '../../shared/time.ts';
import {
  type FailureCause,
  type Grant,
  type Health,
  healthOf,
  isUnchecked,
  type StoredGrant,
  seenBy,
} from './grant.ts';

export interface Connection {
  /** Undefined where the grant cannot be read. */
  id: string | undefined;
  app: string;
  health: Health;
  cause: FailureCause | undefined;
  /** For administrators: the provider's error code, or a fixed word. */
  reason?: string | undefined;
  scopes: readonly string[];
  /** Undefined where it is not known what was requested. */
  requestedScopes: readonly string[] | undefined;
  /** Scopes that the app had when the user chose fewer. */
  declinedScopes?: readonly string[] | undefined;
  account: Grant['account'];
  /** Of the grant, as it was stored. */
  apiBaseUrl?: string | undefined;
  /** Milliseconds since the epoch. */
  connectedAt: number | undefined;
  /** When the provider last issued an access token. */
  refreshedAt: number | undefined;
  /** When the provider last issued tokens, or ended the grant. */
  checkedAt?: number | undefined;
  /** Of one whose health says that it works: when that was last known, if that is too long ago to say so. */
  notCheckedSince?: number | undefined;
  lastUsedAt: number | undefined;
}

/** @param at `app`: undefined where it no longer exists. `now`: milliseconds since the epoch. `checkSeconds`: the interval of checks */
export function connectionOfGrant(
  appId: string,
  stored: StoredGrant,
  at: { app: ConnectedApp | undefined; lastUsedAt: number | undefined; now: number; checkSeconds: number },
): Connection {
  const { app, lastUsedAt, now, checkSeconds } = at;
  if ('unreadable' in stored) {
    return {
      id: undefined,
      app: appId,
      health: 'reconnect_needed',
      cause: 'unreadable',
      scopes: [],
      requestedScopes: undefined,
      account: {},
      connectedAt: undefined,
      refreshedAt: undefined,
      lastUsedAt,
    };
  }
  const grant = app ? seenBy(app, stored.grant) : stored.grant;
  const { id, scopes, requestedScopes, declinedScopes, account, apiBaseUrl, connectedAt, obtainedAt, failure } = grant;
  const health = healthOf(grant, now);
  const checkedAt = checkedAtOf(grant);
  const isWell = health === 'active' || health === 'expiring';
  return {
    id,
    app: appId,
    health,
    // An expired grant without a refresh token is marked only when it is used.
    cause: failure?.cause ?? (health === 'reconnect_needed' ? 'access_ended' : undefined),
    reason: failure?.reason,
    scopes,
    requestedScopes,
    declinedScopes,
    account,
    apiBaseUrl,
    connectedAt,
    refreshedAt: isUnchecked(grant) ? undefined : obtainedAt,
    checkedAt,
    notCheckedSince: isWell ? notCheckedSince({ connectedAt, checkedAt, lastUsedAt }, now, checkSeconds) : undefined,
    lastUsedAt,
  };
}

/** When the provider last issued tokens for the grant, or ended it; undefined before the first time. */
export function checkedAtOf(grant: Grant): number | undefined {
  const { failure } = grant;
  // These two are found without the provider.
  const isFoundHere = failure?.cause === 'access_ended' || failure?.cause === 'registration_changed';
  if (failure?.kind === 'reconnect_needed' && !isFoundHere) return failure.since;
  return isUnchecked(grant) ? undefined : grant.obtainedAt;
}

/**
 * When the connection was last known to work, if that is more than two check intervals ago; otherwise undefined. The provider
 * may have ended it since.
 * @param checkSeconds the interval; where there are no checks, a day takes its place
 */
export function notCheckedSince(
  {
    checkedAt,
    connectedAt = 0,
    lastUsedAt = 0,
  }: Partial<Record<'checkedAt' | 'connectedAt' | 'lastUsedAt', number | undefined>>,
  now: number,
  checkSeconds: number,
): number | undefined {
  const knownAt = Math.max(checkedAt ?? connectedAt, lastUsedAt);
  return now - knownAt > 2_000 * (checkSeconds || DAY_SECONDS) ? knownAt : undefined;
}
