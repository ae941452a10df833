/** Decides whether a request needs a refresh of a grant. Pure. */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import {
  type Grant,
  hasUsableToken,
  isBackingOff,
  isRefreshDue,
  isUnchecked,
  type ReadableGrant,
  type StoredGrant,
  spreadOf,
} from './grant.ts';
import { isNarrowed } from './refresh-journal.ts';

export interface RefreshRequest {
  userId: string;
  app: ConnectedApp;
  /**
   * The access token that the platform refused (401). Refreshes even if none is due, unless the token was replaced
   * since.
   */
  rejected?: string | undefined;
  /** Refreshes a grant that has a journal entry even if none is due, so that the entry is removed. */
  closesJournal?: boolean;
  /** Refreshes a grant that has been idle since before this time, even if none is due. */
  idleSince?: number | undefined;
  /** Gets an access token with only these scopes (RFC 6749 section 6). It is returned and never stored. */
  scopes?: readonly string[] | undefined;
  /** Gets an access token for only this resource (RFC 8707 section 2.2). It is returned and never stored. */
  resource?: string | undefined;
}

/** If the platform refuses an access token younger than this, another refresh would not help. */
const JUST_REFRESHED_MS = 2_000;

/** Returns the stored grant if the request needs a call to the provider now; otherwise undefined. */
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
  // A refresh token in the journal replaces the one in the grant, which is spent.
  const hasEntryToClose = grant.refresh && (closesJournal || grant.refresh.received !== undefined);
  const needsCheck = idleSince !== undefined && isIdle(grant, idleSince);
  return needsToken(grant, rejected, now) || hasEntryToClose || needsCheck ? stored : undefined;
}

/**
 * True if a request for the access token needs a refresh: the token is refused or no longer usable, or will expire
 * soon.
 */
export function needsToken(grant: Grant, rejected: string | undefined, now: number): boolean {
  if (grant.failure?.kind === 'reconnect_needed') return false;
  if (isRefused(grant, rejected, now) || !hasUsableToken(grant, now)) return true;
  // The spread costs a hash of the user id, so it is computed only for a token that may be due.
  return isRefreshDue(grant, now, 1) && isRefreshDue(grant, now, spreadOf(grant.userId));
}

/** True if the refresh token was last used before that time. Importing a token counts as a use. */
export function isIdle(grant: Grant, since: number): boolean {
  return grant.refreshToken !== undefined && (isUnchecked(grant) ? grant.connectedAt : grant.obtainedAt) < since;
}

/** True if the platform refused the access token of this grant and a refresh may help. */
export function isRefused(grant: Grant, rejected: string | undefined, now: number): boolean {
  const age = now - grant.obtainedAt;
  // A clock that was set back must not make every token look new.
  const justRefreshed = age >= 0 && age < JUST_REFRESHED_MS;
  return rejected === grant.accessToken && !justRefreshed;
}
