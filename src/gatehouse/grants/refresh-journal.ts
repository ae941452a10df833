/**
 * The journal of refreshes. Before each call to the provider, writes an entry to the grant, so that a kill during the
 * call leaves a trace.
 */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import type { Fence } from '../../shared/storage/lease.ts';
import { retryWhileUnavailable } from '../../shared/storage/retry.ts';
import { type Grant, isSpentByUse, type JournalEntry, type ReadableGrant, withIssueCounted } from './grant.ts';
import type { GrantStore } from './grant-store.ts';

/** One call to the provider: the grant that it sends, and the version and fence for the writes that follow. */
export interface RefreshCall {
  app: ConnectedApp;
  /** The stored grant, with its journal entry. */
  grant: Grant;
  version: number;
  fence: Fence | undefined;
  /** The entry of an earlier call whose response was lost: that call may have spent the same refresh token. */
  lostEntry: JournalEntry | undefined;
  /** The access token that the platform refused before the call. */
  rejected?: string | undefined;
  /** Why the call failed: the provider's error code, or a fixed word. */
  reason?: string | undefined;
  /** The scopes of the narrowed access token to get. It is returned and not stored. */
  scopes?: readonly string[] | undefined;
  /** The resource of the narrowed access token to get. */
  resource?: string | undefined;
}

/** True for a call that gets a narrowed access token, which is not stored. */
export function isNarrowed({ scopes, resource }: Pick<RefreshCall, 'scopes' | 'resource'>): boolean {
  return scopes !== undefined || resource !== undefined;
}

/** No process has an unsaved response for longer than the provider's deadline and the retries of the store together. */
const MAX_UNSAVED_MS = 90_000;
const REMOVE_TIMEOUT_MS = 10_000;
const REMOVE_PAUSE_MS = 100;

type CallRequest = Pick<RefreshCall, 'app' | 'rejected' | 'scopes' | 'resource'>;

export interface RefreshJournal {
  /** Writes the entry of a call. Returns undefined if another write changed the grant first. */
  writeEntry(request: CallRequest, stored: ReadableGrant, fence: Fence): Promise<RefreshCall | undefined>;
}

export function createRefreshJournal(grants: GrantStore, clock: () => number): RefreshJournal {
  const writeEntry = async (
    { app, rejected, scopes, resource }: CallRequest,
    stored: ReadableGrant,
    fence: Fence,
    startedAt: number,
  ): Promise<RefreshCall | undefined> => {
    const { userId, appId, refreshToken, refresh: earlierEntry } = stored.grant;
    // A refresh token that an earlier, interrupted refresh received is now the one to send.
    const receivedTokens =
      earlierEntry?.received === undefined ? {} : { refreshToken: earlierEntry.received, refreshedBy: fence.number };
    // The provider may have responded to the earlier call.
    const grantBefore = earlierEntry ? withIssueCounted(stored.grant) : stored.grant;
    const updatedGrant = { ...grantBefore, ...receivedTokens, refresh: { startedAt, received: undefined } };
    await grants.addUnfinishedRefresh(userId, appId);
    if (!(await grants.save(updatedGrant, stored.version, { fence }))) return undefined;
    // Loaded again, since the holder of an expired lease may have stored newer tokens and left this entry.
    const current = await grants.loadStored(userId, appId);
    if (!current || 'unreadable' in current || current.grant.refresh?.startedAt !== startedAt) return undefined;
    const { grant, version } = current;
    const isSameToken = earlierEntry?.received === undefined && grant.refreshToken === refreshToken;
    const lostEntry = isSameToken && isSpentByUse(stored.grant, app.refresh) ? earlierEntry : undefined;
    return { app, grant, version, fence, lostEntry, rejected, scopes, resource };
  };

  /**
   * Removes the entry of a call that was never sent, so that no process waits for its response. The entry of an earlier
   * call is restored, since that call may have got a response.
   */
  const removeEntry = async (originalGrant: Grant, startedAt: number): Promise<void> => {
    const restore = async () => {
      const stored = await grants.loadStored(originalGrant.userId, originalGrant.appId);
      if (!stored || 'unreadable' in stored || stored.grant.refresh?.startedAt !== startedAt) return;
      const refresh = stored.grant.refreshToken === originalGrant.refreshToken ? originalGrant.refresh : undefined;
      await grants.save({ ...stored.grant, refresh }, stored.version);
    };
    await retryWhileUnavailable(restore, REMOVE_TIMEOUT_MS, REMOVE_PAUSE_MS).catch(() => undefined);
  };

  return {
    async writeEntry(request, stored, fence) {
      const startedAt = clock();
      try {
        return await writeEntry(request, stored, fence, startedAt);
      } catch (error) {
        void removeEntry(stored.grant, startedAt);
        throw error;
      }
    },
  };
}

/** Closes the entry of this call. An entry of another process stays: its call may still get a response. */
export function withEntryClosed({ grant: { refresh: callEntry } }: RefreshCall, grant: Grant): Grant {
  const isEntryOfCall = grant.refresh && grant.refresh.startedAt === callEntry?.startedAt;
  return isEntryOfCall ? { ...grant, refresh: undefined } : grant;
}

/**
 * Closes the entry after a response that says nothing about the refresh token. The entry of an earlier call whose
 * response was lost is restored: that call may have spent the token.
 */
export function withLostEntryRestored(call: RefreshCall, grant: Grant): Grant {
  const closed = withEntryClosed(call, grant);
  return closed.refresh || grant.refreshToken !== call.grant.refreshToken
    ? closed
    : { ...closed, refresh: call.lostEntry };
}

/** True if the journal does not say how the last call ended: another process may have an unsaved response. */
export function mayHaveUnsavedResponse({ refresh, failure }: Grant, now: number): boolean {
  if (!refresh || refresh.received !== undefined) return false;
  // A failure whose `retryAt` is after the start of the call is the failure of this call, which got no response. An
  // older failure has an earlier `retryAt`, since no call starts before that time.
  const hasEnded = failure !== undefined && failure.retryAt > refresh.startedAt;
  return !hasEnded && now - refresh.startedAt < MAX_UNSAVED_MS;
}
