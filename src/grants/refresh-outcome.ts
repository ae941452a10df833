/** Saves the outcome of a refresh to the grant, also where another write changed the grant meanwhile. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { ProviderClient } from '../connected-apps/provider-client.ts';
import type { RefreshOutcome } from '../connected-apps/refresh-failure.ts';
import type { TokenResponse } from '../connected-apps/token-response.ts';
import type { Events } from '../observability/events.ts';
import type { Fence } from '../storage/lease.ts';
import { patiently } from '../storage/patience.ts';
import { type Grant, type OpenRefresh, type Trouble, type TroubleCause, withTokens, withTrouble } from './grant.ts';
import type { GrantStore, StoredGrant } from './grant-store.ts';

/** One call to the provider: the grant that it sends, and the version and fence for the writes that follow. */
export interface RefreshCall {
  app: ConnectedApp;
  /** As stored before the call, with an open journal entry. */
  grant: Grant;
  version: number;
  fence: Fence | undefined;
  /** The journal entry of an earlier call with the same refresh token whose response was lost: it may have spent the token. */
  lostCall: OpenRefresh | undefined;
  /** The scopes of a narrowed access token, which is returned and not stored. */
  scopes?: readonly string[] | undefined;
}

export interface RefreshOutcomes {
  /** Saves a new refresh token to the journal before the rest of the response is checked (R32, R38). Never rejects. */
  saveReceivedToken(call: RefreshCall, refreshToken: string): Promise<void>;
  /** Saves the outcome and returns the grant as it is then stored. */
  settle(call: RefreshCall, outcome: RefreshOutcome): Promise<StoredGrant | undefined>;
  /** Records why a grant without a refresh token no longer works. */
  withoutRefreshToken(call: RefreshCall, usable: boolean): Promise<StoredGrant | undefined>;
}

/** The tokens of a response; they are revoked where the grant was disconnected meanwhile (R43). */
type ReceivedTokens = Partial<Pick<TokenResponse, 'accessToken' | 'refreshToken'>>;

/** Failures without a complete response: the call may have reached the provider, and may have spent the refresh token. */
const NO_RESPONSE: ReadonlySet<string> = new Set(['timeout', 'connection', 'too_large', 'encoding', 'no_answer']);

const SCOPE_REFUSALS: ReadonlySet<string> = new Set(['invalid_scope', 'invalid_request']);

/** How long to retry while the store is unavailable: the provider issues these tokens only once. */
const SAVE_RETRY_TIMEOUT_MS = 20_000;
const SAVE_RETRY_PAUSE_MS = 200;

interface SaveResult {
  saved: boolean;
  stored: StoredGrant | undefined;
}

export function createRefreshOutcomes(parts: {
  grants: GrantStore;
  provider: Pick<ProviderClient, 'revoke'>;
  events: Events;
  clock: () => number;
  random: () => number;
}): RefreshOutcomes {
  const { grants, provider, events, clock, random } = parts;

  const troubled = (grant: Grant, kind: Trouble['kind'], cause: TroubleCause, retryAfterSeconds?: number) =>
    withTrouble(grant, kind, cause, { now: clock(), random: random(), retryAfterSeconds });

  /**
   * Saves over the version of the call, and returns the new version; undefined where another write changed the grant.
   * A key rotation that only sealed it again is no change: the version is new, and the grant the same.
   */
  const save = async (call: RefreshCall, grant: Grant): Promise<number | undefined> => {
    for (let ifVersion = call.version; ; ) {
      const version = await grants.save(grant, ifVersion, call.fence);
      if (version !== undefined) return version;
      const stored = await grants.load(grant.userId, grant.appId);
      if (!stored || 'unreadable' in stored || stored.version === ifVersion) return undefined;
      if (JSON.stringify(stored.grant) !== JSON.stringify(call.grant)) return undefined;
      ifVersion = stored.version;
    }
  };

  /** Saves the grant, or loads the one that another process wrote first. */
  const saveOrLoad = async (call: RefreshCall, grant: Grant): Promise<SaveResult> => {
    const version = await save(call, grant);
    if (version === undefined) return { saved: false, stored: await grants.load(grant.userId, grant.appId) };
    if (grant.trouble?.kind === 'reconnect_needed') {
      events.connectionBroken({ userId: grant.userId, app: grant.appId, cause: grant.trouble.cause });
    }
    return { saved: true, stored: { grant, version } };
  };

  /**
   * Saves received tokens, also over a write that came in between, where that write left the same tokens or has those of an
   * earlier call. Newer tokens of another call stay (R36). Where the grant was disconnected meanwhile, the received tokens
   * are revoked (R43).
   */
  const saveTokens = async (
    call: RefreshCall,
    received: ReceivedTokens,
    change: (grant: Grant) => Grant,
  ): Promise<StoredGrant | undefined> => {
    let { saved, stored } = await retrySave(() => saveOrLoad(call, change(call.grant)));
    while (!saved && stored && 'grant' in stored && isOlder(stored.grant, call)) {
      const current = stored.grant;
      const sameAccess = current.accessToken === call.grant.accessToken || isOfEarlierCall(current, call);
      // A new consent that kept the refresh token has the newer access token, but that refresh token is spent.
      if (!sameAccess && received.refreshToken === undefined) break;
      const next = sameAccess
        ? change(current)
        : { ...withEntryClosed(call, current), refreshToken: received.refreshToken, rotates: true };
      // Unfenced: another process may hold the lease by now, but it works with older tokens than these.
      const unfenced: RefreshCall = { ...call, version: stored.version, fence: undefined };
      ({ saved, stored } = await retrySave(() => saveOrLoad(unfenced, next)));
    }
    if (!saved && !stored) {
      if (received.refreshToken) await provider.revoke(call.app, received.refreshToken, 'refresh_token');
      else if (received.accessToken) await provider.revoke(call.app, received.accessToken, 'access_token');
    }
    return stored;
  };

  const saveResponse = async (call: RefreshCall, response: TokenResponse) => {
    const now = clock();
    const lifetimeSeconds = call.app.accessTokenLifetimeSeconds;
    const rotates = response.refreshToken !== undefined;
    let healed = false;
    const stored = await saveTokens(call, response, (base) => {
      healed = base.trouble !== undefined && base.trouble.kind !== 'passing';
      const next = withTokens(withEntryClosed(call, base), response, now, lifetimeSeconds);
      return { ...next, rotates, refreshedBy: call.fence?.number };
    });
    if (healed && stored) events.connectionRecovered({ userId: call.grant.userId, app: call.app.id });
    return stored;
  };

  /** Saves a new refresh token and leaves the access token as it is. */
  const saveRefreshToken = (call: RefreshCall, received: ReceivedTokens) => {
    const { refreshToken } = received;
    const update = refreshToken === undefined ? {} : { refreshToken, rotates: true, refreshedBy: call.fence?.number };
    return saveTokens(call, received, (base) => ({ ...withEntryClosed(call, base), ...update }));
  };

  const refused = async (call: RefreshCall): Promise<StoredGrant | undefined> => {
    const stored = await grants.load(call.grant.userId, call.grant.appId);
    if (!stored || 'unreadable' in stored) return stored;
    const { refreshToken, accessToken, trouble } = stored.grant;
    // Another process may have used the refresh token a moment ago: then the grant holds newer tokens (R37).
    const isReplaced = refreshToken !== call.grant.refreshToken || accessToken !== call.grant.accessToken;
    // Of two refused calls, the first has already marked the grant and sent the event.
    if (isReplaced || trouble?.kind === 'reconnect_needed') return closeEntry(call, stored);
    const cause = call.lostCall ? 'answer_lost' : 'grant_refused';
    const ended = troubled(withEntryClosed(call, stored.grant), 'reconnect_needed', cause);
    return (await saveOrLoad({ ...call, version: stored.version }, ended)).stored;
  };

  /** The old refresh token may be spent, so the new one is saved although the rest of the response is dropped (R32). */
  const unusable = (call: RefreshCall, refreshToken: string | undefined) => {
    const update = refreshToken === undefined ? {} : { refreshToken, refreshedBy: call.fence?.number };
    return saveTokens(call, update, (base) =>
      troubled({ ...withEntryClosed(call, base), ...update }, 'passing', 'unusable_answer'),
    );
  };

  const saveTrouble = async (
    call: RefreshCall,
    kind: Trouble['kind'],
    cause: TroubleCause,
    retryAfterSeconds?: number,
  ) => {
    const grant = troubled(withEntrySettled(call, call.grant), kind, cause, retryAfterSeconds);
    const { saved, stored } = await saveOrLoad(call, grant);
    return saved ? stored : closeEntry(call, stored);
  };

  /** Closes the journal entry of a call that got a response, and leaves the rest as another process wrote it. */
  const closeEntry = async (call: RefreshCall, stored: StoredGrant | undefined): Promise<StoredGrant | undefined> => {
    if (!stored || 'unreadable' in stored) return stored;
    const closed = withEntryClosed(call, stored.grant);
    return closed === stored.grant ? stored : (await saveOrLoad({ ...call, version: stored.version }, closed)).stored;
  };

  return {
    async saveReceivedToken(call, refreshToken) {
      const startedAt = call.grant.refresh?.startedAt ?? clock();
      const received = { ...call.grant, refresh: { startedAt, received: refreshToken } };
      call.version = (await save(call, received).catch(() => undefined)) ?? call.version;
    },

    async settle(call, outcome) {
      switch (outcome.kind) {
        case 'tokens':
          return call.scopes ? saveRefreshToken(call, outcome.response) : saveResponse(call, outcome.response);
        case 'refused':
          return refused(call);
        case 'unusable':
          return unusable(call, outcome.refreshToken);
        case 'doubtful':
          if (call.scopes && isScopeRefusal(outcome))
            return saveTokens(call, {}, (base) => withEntrySettled(call, base));
          return saveTrouble(call, 'in_doubt', 'unclear_refusal');
        case 'app_fault':
          return saveTrouble(call, 'passing', 'app_refused');
        case 'unavailable': {
          // Without a response the journal entry stays open: the provider may have spent the refresh token.
          const { reason, retryAfterSeconds } = outcome;
          if (!NO_RESPONSE.has(reason)) return saveTrouble(call, 'passing', 'provider_unavailable', retryAfterSeconds);
          return (await saveOrLoad(call, troubled(call.grant, 'passing', 'provider_unavailable', retryAfterSeconds)))
            .stored;
        }
      }
    },

    async withoutRefreshToken(call, usable) {
      if (!usable) return saveTrouble(call, 'reconnect_needed', 'access_ended');
      // Only the platform refused it, which does not prove that the provider ended the grant.
      return saveTrouble(call, 'in_doubt', 'access_token_refused');
    },
  };
}

/** True where the provider refused the requested scopes, which says nothing about the grant. */
export function isScopeRefusal(outcome: RefreshOutcome): boolean {
  return outcome.kind === 'doubtful' && SCOPE_REFUSALS.has(outcome.reason);
}

function retrySave<T>(work: () => Promise<T>): Promise<T> {
  return patiently(work, SAVE_RETRY_TIMEOUT_MS, SAVE_RETRY_PAUSE_MS);
}

/** Closes the journal entry of this call. An entry of another process stays: its call may still get a response. */
function withEntryClosed({ grant: { refresh: ownEntry } }: RefreshCall, grant: Grant): Grant {
  const isOwn = grant.refresh && grant.refresh.startedAt === ownEntry?.startedAt;
  return isOwn ? { ...grant, refresh: undefined } : grant;
}

/**
 * Closes the journal entry after a response that says nothing about the refresh token. The entry of an earlier call whose
 * response was lost is restored: that call may have spent the token.
 */
function withEntrySettled(call: RefreshCall, grant: Grant): Grant {
  const closed = withEntryClosed(call, grant);
  return closed.refresh || grant.refreshToken !== call.grant.refreshToken
    ? closed
    : { ...closed, refresh: call.lostCall };
}

/** True where the tokens of this grant are older than those that the call received. */
function isOlder(grant: Grant, call: RefreshCall): boolean {
  return grant.refreshToken === call.grant.refreshToken || isOfEarlierCall(grant, call);
}

/** A process that lost its lease may save its response after the next holder has started with the same refresh token. */
function isOfEarlierCall({ refreshedBy }: Grant, { fence }: RefreshCall): boolean {
  return refreshedBy !== undefined && fence !== undefined && refreshedBy < fence.number;
}
