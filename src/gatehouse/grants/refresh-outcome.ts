/** Saves how a refresh ended, even if another write changed the grant in between, and closes its journal entry. */
import type { Events } from '../../shared/observability/events.ts';
import { isUnreadable } from '../../shared/provider/provider-error.ts';
import type { RefreshOutcome } from '../../shared/provider/token-refresh.ts';
import type { TokenResponse } from '../../shared/provider/token-response.ts';
import type { Fence } from '../../shared/storage/lease.ts';
import { retryWhileUnavailable } from '../../shared/storage/retry.ts';
import { accountAfter, isOtherAccount } from './consent.ts';
import {
  type Grant,
  isUnchecked,
  mayNeedReconnect,
  type ReadableGrant,
  type StoredGrant,
  withFailure,
  withIssueCounted,
  withTokens,
} from './grant.ts';
import type { GrantStore } from './grant-store.ts';
import type { FailureCause, RefreshFailure } from './refresh-failure.ts';
import { isNarrowed, type RefreshCall, withEntryClosed, withLostEntryRestored } from './refresh-journal.ts';
import type { Revocations } from './revocations.ts';

/** The tokens of a response. They are revoked if the user disconnected in the meantime (R43). */
type ReceivedTokens = Partial<Pick<TokenResponse, 'accessToken' | 'refreshToken'>>;

/** Failures without a complete response: the call may have reached the provider and spent the refresh token. */
const NO_RESPONSE: ReadonlySet<string> = new Set(['timeout', 'connection', 'too_large', 'encoding', 'no_response']);

/** Error codes for refused scopes (RFC 6749 section 5.2) or a refused resource (RFC 8707 section 2). */
const NARROWING_REFUSALS: ReadonlySet<string> = new Set(['invalid_scope', 'invalid_target', 'invalid_request']);

/** The `reason` of an outcome whose ID token names another subject than the grant. */
export const OTHER_SUBJECT = 'other_subject';

/** How long to retry saving while the store is unavailable: the provider issues these tokens only once. */
const SAVE_RETRY_TIMEOUT_MS = 20_000;
const SAVE_RETRY_PAUSE_MS = 200;

/**
 * For this long after a failover of the storage, a refusal is attributed to it. Connections in use are refreshed within
 * this time.
 */
const FAILOVER_MS = 15 * 60_000;

type SaveResult = { saved: true; stored: ReadableGrant } | { saved: false; stored: StoredGrant | undefined };

export interface RefreshOutcomes {
  /**
   * Saves a new refresh token to the journal before the rest of the response is checked (R32, R38). Never rejects.
   * @returns the call with the grant as stored afterwards
   */
  saveReceivedToken(call: RefreshCall, refreshToken: string): Promise<RefreshCall>;

  /** Saves the outcome and returns the grant as stored afterwards. */
  saveOutcome(begun: RefreshCall, outcome: RefreshOutcome): Promise<StoredGrant | undefined>;

  /**
   * Saves why a grant without a refresh token no longer works.
   * @param usable true if the access token has not expired
   */
  saveNotRefreshable(call: RefreshCall, usable: boolean): Promise<StoredGrant | undefined>;
}

export function createRefreshOutcomes(parts: {
  grants: GrantStore;
  /** Revokes a token that is in no stored grant. */
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

  const announce = (previous: Grant, next: Grant): void => {
    const { scopes, failure } = next;
    const ids = { userId: next.userId, app: next.appId, connection: next.id };
    const hasEnded = failure?.kind === 'reconnect_needed' && previous.failure?.kind !== 'reconnect_needed';
    if (hasEnded) events.reconnectNeeded({ ...ids, cause: failure.cause });
    // `audited`: the import wrote the audit entry when it stored the grant.
    if (isUnchecked(previous) && !isUnchecked(next)) events.connectionCreated({ ...ids, scopes, audited: true });
    else if (!failure && mayNeedReconnect(previous)) events.connectionRecovered(ids);
  };

  /** Replaces the version that was read. If another process wrote first, returns the grant that it wrote. */
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
      // An earlier attempt that timed out has written it after all.
      if (isSame(stored.grant, next)) return saved(stored.version);
      if (!isSame(stored.grant, read.grant)) return { saved: false, stored };
      // A key rotation has only sealed the grant again.
      ifVersion = stored.version;
    }
  };

  /**
   * Saves received tokens. If another process wrote a grant in between, they replace it only if it has the tokens that
   * this call sent, or tokens of an earlier call: newer tokens of another call stay (R36). If the user disconnected in
   * the meantime, or connected another account or client, the received tokens are revoked (R43). If the user connected
   * the same account again, they are left to expire: revoking one token of a user and client ends all of them at most
   * providers.
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
      const isSameAccess = current.accessToken === call.grant.accessToken || isOfEarlierCall(current, call);
      // After a new consent that kept the refresh token, the access token is newer, but the refresh token is spent.
      if (!isSameAccess && received.refreshToken === undefined) break;
      const next = isSameAccess
        ? change(current)
        : { ...withEntryClosed(call, current), refreshToken: received.refreshToken, rotates: true };
      // Without the fence: another process may hold the lease by now, but its tokens are older.
      ({ saved, stored } = await save(stored, next));
    }
    if (!saved && (!stored || isOtherGrant(stored, call))) {
      if (received.refreshToken) await revokeUnowned(call.app, received.refreshToken, 'refresh_token');
      else if (received.accessToken) await revokeUnowned(call.app, received.accessToken, 'access_token');
    }
    return stored;
  };

  const saveResponse = (call: RefreshCall, response: TokenResponse) => {
    const now = clock();
    const rotates = response.refreshToken !== undefined;
    return saveTokens(call, response, (grant) => {
      const closedGrant = withIssueCounted(withEntryClosed(call, grant));
      const next = withTokens(closedGrant, response, now, call.app.accessTokenLifetimeSeconds);
      const account = accountAfter(call.app, grant, response);
      return { ...next, account, rotates, refreshedBy: call.fence?.number };
    });
  };

  /** Saves a new refresh token, and leaves the access token as it is. */
  const saveRefreshToken = (call: RefreshCall, received: ReceivedTokens) => {
    const { refreshToken } = received;
    const update = refreshToken === undefined ? {} : { refreshToken, rotates: true, refreshedBy: call.fence?.number };
    return saveTokens(call, received, (grant) => withIssueCounted({ ...withEntryClosed(call, grant), ...update }));
  };

  /**
   * The old refresh token may be spent, so the new one is saved even though the rest of the response is dropped (R32).
   */
  const saveUnusable = (call: RefreshCall, refreshToken: string | undefined) => {
    const update = refreshToken === undefined ? {} : { refreshToken, refreshedBy: call.fence?.number };
    return saveTokens(call, update, (grant) =>
      failedGrant(
        call,
        withIssueCounted({ ...withEntryClosed(call, grant), ...update }),
        'passing',
        'unusable_response',
      ),
    );
  };

  /**
   * Deletes an imported grant whose refresh token belongs to another account. The tokens are not revoked, since that
   * would end every connection of the account at most providers.
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
    // If another process has just used the refresh token, the grant has newer tokens (R37).
    const isReplaced = refreshToken !== call.grant.refreshToken || accessToken !== call.grant.accessToken;
    // If two calls are refused, the first one has already marked the grant and sent the event.
    if (isReplaced || failure?.kind === 'reconnect_needed') return closeEntry(call, stored);
    const isLost = isLostInFailover(stored.grant, failedOverAt(), clock());
    const cause = call.lostEntry ? 'response_lost' : isLost ? 'lost_in_failover' : 'grant_refused';
    const endedGrant = failedGrant(call, withEntryClosed(call, stored.grant), 'reconnect_needed', cause);
    return (await saveOrLoad(stored, endedGrant, call.fence)).stored;
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

  /** Closes the journal entry of a call that got a response, and changes nothing else of the stored grant. */
  const closeEntry = async (call: RefreshCall, stored: StoredGrant | undefined): Promise<StoredGrant | undefined> => {
    if (!stored || 'unreadable' in stored) return stored;
    const closedGrant = withEntryClosed(call, stored.grant);
    return closedGrant === stored.grant ? stored : (await saveOrLoad(stored, closedGrant, call.fence)).stored;
  };

  return {
    async saveReceivedToken(call, refreshToken) {
      const startedAt = call.grant.refresh?.startedAt ?? clock();
      const grant = { ...call.grant, refresh: { startedAt, received: refreshToken } };
      const result = await saveOrLoad(call, grant, call.fence).catch(() => undefined);
      return result?.saved ? { ...call, ...result.stored } : call;
    },

    async saveOutcome(begun, outcome) {
      const call = 'reason' in outcome ? { ...begun, reason: outcome.reason } : begun;
      switch (outcome.kind) {
        case 'tokens':
          return isNarrowed(call) ? saveRefreshToken(call, outcome.response) : saveResponse(call, outcome.response);
        case 'refused':
          return saveRefusal(call);
        case 'unusable':
          if (outcome.reason === OTHER_SUBJECT && isUnchecked(call.grant)) return removeUnchecked(call);
          return saveUnusable(call, outcome.refreshToken);
        case 'unclear_refusal':
          if (isNarrowed(call) && isNarrowingRefusal(outcome))
            return saveTokens(call, {}, (grant) => withLostEntryRestored(call, grant));
          return saveFailure(call, 'unverified', 'unclear_refusal');
        case 'app_fault':
          return saveFailure(call, 'passing', 'app_refused');
        case 'unavailable': {
          const { reason, retryAfterSeconds, unsent, limited } = outcome;
          const cause = limited ? 'provider_limited' : causeOf(reason);
          if (unsent || !NO_RESPONSE.has(reason)) return saveFailure(call, 'passing', cause, retryAfterSeconds);
          // Without a response the journal entry stays: the provider may have spent the refresh token.
          const grant = failedGrant(call, call.grant, 'passing', cause, retryAfterSeconds);
          return (await saveOrLoad(call, grant, call.fence)).stored;
        }
      }
    },

    saveNotRefreshable(call, usable) {
      if (!usable) return saveFailure(call, 'reconnect_needed', 'access_ended');
      // Only the platform refused the token, which does not prove that the provider ended the grant.
      return saveFailure(call, 'unverified', 'access_token_refused');
    },
  };
}

/** True if the provider refused only the requested scopes or resource: the grant may still work. */
export function isNarrowingRefusal(outcome: RefreshOutcome): boolean {
  return outcome.kind === 'unclear_refusal' && NARROWING_REFUSALS.has(outcome.reason);
}

/** True if the refused tokens were stored before a recent failover, which may have lost newer ones. */
function isLostInFailover({ obtainedAt }: Grant, failedOverAt: number | undefined, now: number): boolean {
  return failedOverAt !== undefined && obtainedAt <= failedOverAt && now - failedOverAt < FAILOVER_MS;
}

const causeOf = (reason: string) => (isUnreadable(reason) ? 'unusable_response' : 'provider_unavailable');

function isSame(a: Grant, b: Grant): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** True if the tokens of this grant are older than those that the call received. */
function isOlder(grant: Grant, call: RefreshCall): boolean {
  return grant.refreshToken === call.grant.refreshToken || isOfEarlierCall(grant, call);
}

/** True if the stored grant has another account or client, so that revoking the tokens of the call does not end it. */
function isOtherGrant(stored: StoredGrant, { app, grant }: RefreshCall): boolean {
  if ('unreadable' in stored) return false;
  const { issuer, clientId } = stored.grant.registration;
  const isSameClient = issuer === app.issuer && clientId === app.clientId;
  return !isSameClient || isOtherAccount(app, stored.grant, grant.account);
}

/** True if the tokens are of an earlier call: a process that lost its lease may save its response late. */
function isOfEarlierCall({ refreshedBy }: Grant, { fence }: RefreshCall): boolean {
  return refreshedBy !== undefined && fence !== undefined && refreshedBy < fence.number;
}
