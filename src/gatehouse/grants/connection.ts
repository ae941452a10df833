/** A connection: a grant as users and administrators see it. Pure. */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { DAY_SECONDS } from '../../shared/time.ts';
import { type Grant, grantForApp, type Health, healthOf, isUnchecked, type StoredGrant } from './grant.ts';
import type { FailureCause } from './refresh-failure.ts';

export interface Connection {
  /** Undefined if the grant cannot be read. */
  id: string | undefined;
  app: string;
  health: Health;
  cause: FailureCause | undefined;
  /** For administrators: the provider's error code, or a fixed word. */
  reason?: string | undefined;
  scopes: readonly string[];
  /** Undefined if they are not known. */
  requestedScopes: readonly string[] | undefined;
  /** Scopes of the app that the user did not choose. */
  declinedScopes?: readonly string[] | undefined;
  account: Grant['account'];
  /** The API base URL that the grant stores. */
  apiBaseUrl?: string | undefined;
  /** The platform demands a stronger or newer sign-in of the user. */
  needsStepUp?: boolean | undefined;
  /** Milliseconds since the epoch. */
  connectedAt: number | undefined;
  /** When the provider last issued an access token. */
  refreshedAt: number | undefined;
  /** When the provider last issued tokens, or ended the grant. */
  checkedAt?: number | undefined;
  /**
   * When the connection last worked, if that is more than two check intervals ago and its health is `active` or
   * `expiring`.
   */
  notCheckedSince?: number | undefined;
  lastUsedAt: number | undefined;
}

/**
 * Returns the connection of a grant.
 * @param context `app`: undefined if it no longer exists. `now`: in ms since the epoch. `checkSeconds`: the check
 *   interval
 */
export function connectionOfGrant(
  appId: string,
  stored: StoredGrant,
  context: { app: ConnectedApp | undefined; lastUsedAt: number | undefined; now: number; checkSeconds: number },
): Connection {
  const { app, lastUsedAt, now, checkSeconds } = context;
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
  const grant = app ? grantForApp(app, stored.grant) : stored.grant;
  const { id, scopes, requestedScopes, declinedScopes, account, apiBaseUrl, connectedAt, obtainedAt, failure } = grant;
  const health = healthOf(grant, now);
  const checkedAt = checkedAtOf(grant);
  const isWorking = health === 'active' || health === 'expiring';
  return {
    id,
    app: appId,
    health,
    // An expired grant without a refresh token gets its stored failure only when it is used.
    cause: failure?.cause ?? (health === 'reconnect_needed' ? 'access_ended' : undefined),
    reason: failure?.reason,
    scopes,
    requestedScopes,
    declinedScopes,
    account,
    apiBaseUrl,
    needsStepUp: grant.demand !== undefined,
    connectedAt,
    refreshedAt: isUnchecked(grant) ? undefined : obtainedAt,
    checkedAt,
    notCheckedSince: isWorking ? notCheckedSince({ connectedAt, checkedAt, lastUsedAt }, now, checkSeconds) : undefined,
    lastUsedAt,
  };
}

/** Returns when the provider last issued tokens for the grant, or ended it; undefined before the first time. */
export function checkedAtOf(grant: Grant): number | undefined {
  const { failure } = grant;
  // Gatehouse finds both causes without a call to the provider.
  const isFoundHere = failure?.cause === 'access_ended' || failure?.cause === 'registration_changed';
  if (failure?.kind === 'reconnect_needed' && !isFoundHere) return failure.since;
  return isUnchecked(grant) ? undefined : grant.obtainedAt;
}

/**
 * Returns when the connection was last known to work, if that is more than two check intervals ago; otherwise
 * undefined. The provider may have ended it since.
 * @param checkSeconds the check interval; if checks are off (0), a day is used
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
  const workedAt = Math.max(checkedAt ?? connectedAt, lastUsedAt);
  return now - workedAt > 2_000 * (checkSeconds || DAY_SECONDS) ? workedAt : undefined;
}
