/** Saves how a refresh ended, also where another write changed the grant meanwhile, and closes its journal entry. */
import type { Events } from '../../shared/observability/events.ts';
import type { RefreshOutcome } from '../../shared/provider/token-refresh.ts';
import type { TokenResponse } from '../../shared/provider/token-response.ts';
import type { Fence } from '../../shared/storage/lease.ts';
import { retryWhileUnavailable } from '../../shared/storage/retry.ts';
import { accountAfter, isOtherAccount } from './consent.ts';
import {
  type FailureCause,
  type Grant,
  isBroken,
  isUnchecked,
  type ReadableGrant,
  type RefreshFailure,
  type StoredGrant,
  withFailure,
  withTokens,
} from './grant.ts';
import type { GrantStore } from './grant-store.ts';
import { isNarrowed, type RefreshCall, withEntryClosed, withLostEntryRestored } from './refresh-journal.ts';
import type { Revocations } from './revocations.ts';

/** The tokens of a response; they are revoked where the grant was disconnected meanwhile (R43). */
type ReceivedTokens = Partial<Pick<TokenResponse, 'accessToken' | 'refreshToken'>>;

/** Failures without a complete response: a call that was sent may have reached the provider, and may have spent the refresh token. */
const NO_RESPONSE: ReadonlySet<string> = new Set(['timeout', 'connection', 'too_large', 'encoding', 'no_response']);

/** Of the scopes (RFC 6749 section 5.2) or the resource (RFC 8707 section 2). */
const NARROWING_REFUSALS: ReadonlySet<string> = new Set(['invalid_scope', 'invalid_target', 'invalid_request']);

/** The reason of a response whose ID token names another subject than the grant. */
export const OTHER_SUBJECT = 'other_subject';

/** How long to retry while the store is unavailable: the provider issues these tokens only once. */
const SAVE_RETRY_TIMEOUT_MS = 20_000;
const SAVE_RETRY_PAUSE_MS = 200;

/** A refusal is put down to a failover of the storage for so long after it. Then a user in use has had the next refresh. */
const FAILOVER_MS = 15 * 60_000;

type SaveResult = { saved: true; stored: ReadableGrant } | { saved: false; stored: StoredGrant | undefined };

export interface RefreshOutcomes {
  /**
   * Saves a new refresh token to the journal before the rest of the response is checked (R32, R38). Never rejects.
   * @returns the call with the grant as it is then stored
   */
  saveReceivedToken(call: RefreshCall, refreshToken: string): Promise<RefreshCall>;

  /** Saves the outcome and returns the grant as it is then stored. */
  saveOutcome(opened: RefreshCall, outcome: RefreshOutcome): Promise<StoredGrant | undefined>;

  /** Records why a grant without a refresh token no longer works. @param usable whether its access token has not expired */
  withoutRefreshToken(call: RefreshCall, usable: boolean): Promise<StoredGrant | undefined>;
}

export function createRefreshOutcomes(parts: {
  grants: GrantStore;
  /** Revokes a token that no stored grant holds. */
  revokeUnowned: Revocations['revokeUnowned'];
  events: Events;
  clock: () => number;
  random: () => number;
  /** When the storage last failed over (milliseconds since the epoch). */
  failedOverAt?: (() => number | undefined) | undefined;
}): RefreshOutcomes {
  const { grants, revokeUnowned, events, clock, random, failedOverAt = () => undefined } = parts;

  const failedGrant = (
    { rejected, reason }: RefreshCall,
    grant: Grant,
    kind: RefreshFailure['kind'],
    cause: FailureCause,
    retryAfterSeconds?: number,
  ) => {
    const tokenRefused = rejected === grant.accessToken;
    return withFailure(grant, kind, cause, { now: clock(), random: random(), retryAfterSeconds, tokenRefused, reason });
  };

  const announce = (before: Grant, next: Grant): void => {
    const { scopes, failure } = next;
    const of = { userId: next.userId, app: next.appId, connection: next.id };
    const hasEnded = failure?.kind === 'reconnect_needed' && before.failure?.kind !== 'reconnect_needed';
    if (hasEnded) events.reconnectNeeded({ ...of, cause: failure.cause });
    // The import has an audit entry, and may have ended before its refresh token was tried.
    if (isUnchecked(before) && !isUnchecked(next)) events.connectionCreated({ ...of, scopes, audited: true });
    else if (!failure && isBroken(before)) events.connectionRecovered(of);
  };

  /** Saves over the version that was read, or loads what another process wrote first. */
  const saveOrLoad = async (read: ReadableGrant, next: Grant, fence: Fence | undefined): Promise<SaveResult> => {
    const saved = (version: number): SaveResult => {
      announce(read.grant, next);
      return { saved: true, stored: { grant: next, version } };
    };
    let ifVersion = read.version;
    for (;;) {
      const version = await grants.save(next, ifVersion, { fence });
      if (version !== undefined) return saved(version);
      const stored = await grants.loadStored(next.userId, next.appId);
      if (!stored || 'unreadable' in stored || stored.version === ifVersion) return { saved: false, stored };
      // An earlier attempt that timed out was carried out after all.
      if (isSame(stored.grant, next)) return saved(stored.version);
      if (!isSame(stored.grant, read.grant)) return { saved: false, stored };
      // A key rotation has only sealed it again.
      ifVersion = stored.version;
    }
  };

  /**
   * Saves received tokens. If another process wrote in between, they replace what it wrote only if that has the tokens that
   * this call sent, or those of an earlier call: newer tokens of another call stay (R36). If the grant was disconnected or
   * replaced by one of another account or client meanwhile, the received tokens are revoked (R43). Beside a new connection of
   * the same account they are left to expire: to revoke one token of a user and client ends all of them at most providers.
   */
  const saveTokens = async (
    call: RefreshCall,
    received: ReceivedTokens,
    change: (grant: Grant) => Grant,
  ): Promise<StoredGrant | undefined> => {
    const save = (read: ReadableGrant, next: Grant, fence?: Fence) =>
      retryWhileUnavailable(() => saveOrLoad(read, next, fence), SAVE_RETRY_TIMEOUT_MS, SAVE_RETRY_PAUSE_MS);
    let { saved, stored } = await save(call, change(call.grant), call.fence);
    while (!saved && stored && 'grant' in stored && isOlder(stored.grant, call)) {
      const current = stored.grant;
      const sameAccess = current.accessToken === call.grant.accessToken || isOfEarlierCall(current, call);
      // A new consent that kept the refresh token has the newer access token, but that refresh token is spent.
      if (!sameAccess && received.refreshToken === undefined) break;
      const next = sameAccess
        ? change(current)
        : { ...withEntryClosed(call, current), refreshToken: received.refreshToken, rotates: true };
      // Unfenced: another process may hold the lease by now, but it works with older tokens than these.
      ({ saved, stored } = await save(stored, next));
    }
    if (!saved && (!stored || isOfOther(stored, call))) {
      if (received.refreshToken) await revokeUnowned(call.app, received.refreshToken, 'refresh_token');
      else if (received.accessToken) await revokeUnowned(call.app, received.accessToken, 'access_token');
    }
    return stored;
  };

  const saveResponse = (call: RefreshCall, response: TokenResponse) => {
    const now = clock();
    const rotates = response.refreshToken !== undefined;
    return saveTokens(call, response, (grant) => {
      const next = withTokens(withEntryClosed(call, grant), response, now, call.app.accessTokenLifetimeSeconds);
      const account = accountAfter(call.app, grant, response);
      return { ...next, account, rotates, refreshedBy: call.fence?.number };
    });
  };

  /** Saves a new refresh token and leaves the access token as it is. */
  const saveRefreshToken = (call: RefreshCall, received: ReceivedTokens) => {
    const { refreshToken } = received;
    const update = refreshToken === undefined ? {} : { refreshToken, rotates: true, refreshedBy: call.fence?.number };
    return saveTokens(call, received, (grant) => ({ ...withEntryClosed(call, grant), ...update }));
  };

  /** The old refresh token may be spent, so the new one is saved although the rest of the response is dropped (R32). */
  const saveUnusable = (call: RefreshCall, refreshToken: string | undefined) => {
    const update = refreshToken === undefined ? {} : { refreshToken, refreshedBy: call.fence?.number };
    return saveTokens(call, update, (grant) =>
      failedGrant(call, { ...withEntryClosed(call, grant), ...update }, 'passing', 'unusable_response'),
    );
  };

  /**
   * Deletes an imported grant whose refresh token is another account's. Its tokens are not revoked: at most providers that
   * would end every connection of that account.
   */
  const removeUnchecked = async ({ grant: { userId, appId } }: RefreshCall): Promise<StoredGrant | undefined> => {
    for (;;) {
      const stored = await grants.loadStored(userId, appId);
      if (!stored || 'unreadable' in stored || !isUnchecked(stored.grant)) return stored;
      if (await grants.remove(userId, appId, stored.version)) return undefined;
    }
  };

  const saveRefusal = async (call: RefreshCall): Promise<StoredGrant | undefined> => {
    const stored = await grants.loadStored(call.grant.userId, call.grant.appId);
    if (!stored || 'unreadable' in stored) return stored;
    const { refreshToken, accessToken, failure } = stored.grant;
    // Another process may have used the refresh token a moment ago: then the grant holds newer tokens (R37).
    const isReplaced = refreshToken !== call.grant.refreshToken || accessToken !== call.grant.accessToken;
    // Of two refused calls, the first has already marked the grant and sent the event.
    if (isReplaced || failure?.kind === 'reconnect_needed') return closeEntry(call, stored);
    const lost = isLostInFailover(stored.grant, failedOverAt(), clock()) ? 'lost_in_failover' : undefined;
    const cause = call.lostEntry ? 'response_lost' : (lost ?? 'grant_refused');
    const ended = failedGrant(call, withEntryClosed(call, stored.grant), 'reconnect_needed', cause);
    return (await saveOrLoad(stored, ended, call.fence)).stored;
  };

  const saveFailure = async (
    call: RefreshCall,
    kind: RefreshFailure['kind'],
    cause: FailureCause,
    retryAfterSeconds?: number,
  ) => {
    const grant = failedGrant(call, withLostEntryRestored(call, call.grant), kind, cause, retryAfterSeconds);
    const { saved, stored } = await saveOrLoad(call, grant, call.fence);
    return saved ? stored : closeEntry(call, stored);
  };

  /** Closes the journal entry of a call that got a response, and leaves the rest as another process wrote it. */
  const closeEntry = async (call: RefreshCall, stored: StoredGrant | undefined): Promise<StoredGrant | undefined> => {
    if (!stored || 'unreadable' in stored) return stored;
    const closed = withEntryClosed(call, stored.grant);
    return closed === stored.grant ? stored : (await saveOrLoad(stored, closed, call.fence)).stored;
  };

  return {
    async saveReceivedToken(call, refreshToken) {
      const startedAt = call.grant.refresh?.startedAt ?? clock();
      const grant = { ...call.grant, refresh: { startedAt, received: refreshToken } };
      const result = await saveOrLoad(call, grant, call.fence).catch(() => undefined);
      return result?.saved ? { ...call, ...result.stored } : call;
    },

    async saveOutcome(opened, outcome) {
      const call = 'reason' in outcome ? { ...opened, reason: outcome.reason } : opened;
      switch (outcome.kind) {
        case 'tokens':
          return isNarrowed(call) ? saveRefreshToken(call, outcome.response) : saveResponse(call, outcome.response);
        case 'refused':
          return saveRefusal(call);
        case 'unusable':
          if (outcome.reason === OTHER_SUBJECT && isUnchecked(call.grant)) return removeUnchecked(call);
          return saveUnusable(call, outcome.refreshToken);
        case 'doubtful':
          if (isNarrowed(call) && isNarrowingRefusal(outcome))
            return saveTokens(call, {}, (grant) => withLostEntryRestored(call, grant));
          return saveFailure(call, 'unverified', 'unclear_refusal');
        case 'app_fault':
          return saveFailure(call, 'passing', 'app_refused');
        case 'unavailable': {
          const { reason, retryAfterSeconds, unsent, limited } = outcome;
          const cause = limited ? 'provider_limited' : 'provider_unavailable';
          if (unsent || !NO_RESPONSE.has(reason)) return saveFailure(call, 'passing', cause, retryAfterSeconds);
          // Without a response the journal entry stays open: the provider may have spent the refresh token.
          const grant = failedGrant(call, call.grant, 'passing', 'provider_unavailable', retryAfterSeconds);
          return (await saveOrLoad(call, grant, call.fence)).stored;
        }
      }
    },

    withoutRefreshToken(call, usable) {
      if (!usable) return saveFailure(call, 'reconnect_needed', 'access_ended');
      // Only the platform refused it, which does not prove that the provider ended the grant.
      return saveFailure(call, 'unverified', 'access_token_refused');
    },
  };
}

/** True where the provider refused the requested scopes or resource, which says nothing about the grant. */
export function isNarrowingRefusal(outcome: RefreshOutcome): boolean {
  return outcome.kind === 'doubtful' && NARROWING_REFUSALS.has(outcome.reason);
}

/** True where the refused tokens were stored before a recent failover, which may have lost newer ones. */
function isLostInFailover({ obtainedAt }: Grant, failedOverAt: number | undefined, now: number): boolean {
  return failedOverAt !== undefined && obtainedAt <= failedOverAt && now - failedOverAt < FAILOVER_MS;
}

function isSame(grant: Grant, other: Grant): boolean {
  return JSON.stringify(grant) === JSON.stringify(other);
}

/** True where the tokens of this grant are older than those that the call received. */
function isOlder(grant: Grant, call: RefreshCall): boolean {
  return grant.refreshToken === call.grant.refreshToken || isOfEarlierCall(grant, call);
}

/** True where the stored grant does not end with the tokens of the call: it is of another account, or of another client. */
function isOfOther(stored: StoredGrant, { app, grant }: RefreshCall): boolean {
  if ('unreadable' in stored) return false;
  const { issuer, clientId } = stored.grant.registration;
  const isSameClient = issuer === app.issuer && clientId === app.clientId;
  return !isSameClient || isOtherAccount(app, stored.grant, grant.account);
}

/** A process that lost its lease may save its response after the next holder has started with the same refresh token. */
function isOfEarlierCall({ refreshedBy }: Grant, { fence }: RefreshCall): boolean {
  return refreshedBy !== undefined && fence !== undefined && refreshedBy < fence.number;
}
