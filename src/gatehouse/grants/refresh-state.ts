/** What a stored grant says about refreshing it, and how long a refresh may hold its lease. Pure. */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { DAY_SECONDS } from '../../shared/time.ts';
import type { ReadableGrant, StoredGrant } from './grant.ts';
import { type Grant, hasUsableToken, isBackingOff, isRefreshDue, isUnchecked, spreadOf } from './grant.ts';

export interface RefreshRequest {
  userId: string;
  app: ConnectedApp;
  /** The access token that the platform refused (401): refresh even if none is due, unless it was replaced since. */
  rejected?: string | undefined;
  /** Refresh even if none is due where the journal has an open entry, so that the entry is closed. */
  closesJournal?: boolean;
  /** Refresh even if none is due where the grant has been idle since before this time. */
  idleSince?: number | undefined;
  /** Request an access token with only these scopes (RFC 6749 section 6). It is returned and never stored. */
  scopes?: readonly string[] | undefined;
  /** Request an access token for this resource alone (RFC 8707 section 2.2). It is returned and never stored. */
  resource?: string | undefined;
}

/** True for a request whose access token is not the grant's own. */
export function isNarrowed({ scopes, resource }: Pick<RefreshRequest, 'scopes' | 'resource'>): boolean {
  return scopes !== undefined || resource !== undefined;
}

/** If the platform refuses an access token younger than this, another refresh would not help. */
const JUST_REFRESHED_MS = 2_000;
/** No process holds an unsaved response for longer: the provider's deadline, and the retries of the store. */
const MAX_UNSAVED_MS = 90_000;

/** A process that lost the store reconnects within this time and saves the response that it holds. */
const RECONNECT_MS = 1_300;
const MIN_LEASE_MS = 4_000;

/** Times that follow from how long the store may take for a command. */
export interface RefreshTimes {
  /** How long after its last renewal the lease on a refresh ends. */
  leaseMilliseconds: number;
  /** How long a new holder of the lease waits for the last one to save its response. */
  reconnectMilliseconds: number;
}

/** A process whose writes take the full deadline keeps its lease, and saves its response before another one calls. */
export function refreshTimes(storageDeadlineMilliseconds: number): RefreshTimes {
  const reconnectMilliseconds = storageDeadlineMilliseconds + RECONNECT_MS;
  // The lease is renewed after a third of it, and that write too may take the full deadline.
  return { reconnectMilliseconds, leaseMilliseconds: Math.max(MIN_LEASE_MS, 1.5 * reconnectMilliseconds) };
}

/** The stored grant if the request needs a call to the provider now; otherwise undefined. */
export function ifDue(
  stored: StoredGrant | undefined,
  request: RefreshRequest,
  now: number,
): ReadableGrant | undefined {
  if (!stored || 'unreadable' in stored) return undefined;
  const { grant } = stored;
  const { rejected, closesJournal, idleSince } = request;
  if (grant.failure?.kind === 'reconnect_needed') return undefined;
  if (grant.refreshToken && isBackingOff(grant, now)) return undefined;
  if (isNarrowed(request)) return grant.refreshToken === undefined ? undefined : stored;
  const needsToken =
    isRefused(grant, rejected, now) || !hasUsableToken(grant, now) || isRefreshDue(grant, now, spreadOf(grant.userId));
  // A refresh token in the journal replaces the one in the grant, which is spent.
  const hasEntryToClose = grant.refresh && (closesJournal || grant.refresh.received !== undefined);
  const needsCheck = idleSince !== undefined && isIdle(grant, idleSince);
  return needsToken || hasEntryToClose || needsCheck ? stored : undefined;
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

/** True where the refresh token was last used before that time. An imported one is left to its import at first. */
export function isIdle(grant: Grant, since: number): boolean {
  return grant.refreshToken !== undefined && (isUnchecked(grant) ? grant.connectedAt : grant.obtainedAt) < since;
}

/** True where a request for an access token needs no refresh, or none is possible: then `ifDue` is not called. */
export function needsNoRefresh(
  stored: StoredGrant | undefined,
  rejected: string | undefined,
  now: number,
  userId: string,
): boolean {
  if (!stored || 'unreadable' in stored) return true;
  const { grant } = stored;
  if (grant.failure?.kind === 'reconnect_needed') return true;
  if (grant.accessToken === rejected || !hasUsableToken(grant, now)) return false;
  // The spread costs a hash of the user id, so it is computed only for a token that may be due.
  return !isRefreshDue(grant, now, 1) || !isRefreshDue(grant, now, spreadOf(userId));
}

/** True where the platform refused the access token of this grant, and a refresh may help. */
export function isRefused(grant: Grant, rejected: string | undefined, now: number): boolean {
  const age = now - grant.obtainedAt;
  // A clock that was set back must not make every token look new.
  const justRefreshed = age >= 0 && age < JUST_REFRESHED_MS;
  return rejected === grant.accessToken && !justRefreshed;
}

/** True where the journal does not say how the last call ended: another process may hold a response that it has not saved. */
export function mayHaveUnsavedResponse({ refresh, failure }: Grant, now: number): boolean {
  if (!refresh || refresh.received !== undefined) return false;
  // A failure that was saved since the call started has a later `retryAt` and means that no response came. The `retryAt` of
  // an older failure is earlier: until then no call starts.
  const hasEnded = failure !== undefined && failure.retryAt > refresh.startedAt;
  return !hasEnded && now - refresh.startedAt < MAX_UNSAVED_MS;
}
