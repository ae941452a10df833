/** Owns what the answer to a refresh does to the grant, whatever has happened to the grant in the meantime. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { ProviderClient } from '../connected-apps/provider-client.ts';
import type { RefreshOutcome } from '../connected-apps/refresh-failure.ts';
import type { TokenAnswer } from '../connected-apps/token-answer.ts';
import type { Events } from '../observability/events.ts';
import type { Fence } from '../storage/lease.ts';
import { patiently } from '../storage/patience.ts';
import { type Grant, type Trouble, type TroubleCause, withTokens, withTrouble } from './grant.ts';
import type { GrantStore, StoredGrant } from './grant-store.ts';

/** One call to the provider: what it was made with, and what guards the writes that follow. */
export interface RefreshCall {
  app: ConnectedApp;
  /** As it was written before the call, its journal entry open. */
  grant: Grant;
  version: number;
  fence: Fence | undefined;
  /** An earlier call with the same token may have been answered, and the answer lost. */
  lost: boolean;
}

export interface RefreshOutcomes {
  /** Keeps a new refresh token before anything else of its answer is judged (R32, R38). Never rejects. */
  keepReceived(call: RefreshCall, refreshToken: string): Promise<void>;
  /** Answers the grant as it then stands. */
  settle(call: RefreshCall, outcome: RefreshOutcome): Promise<StoredGrant | undefined>;
  /**
   * After a call for a narrower access token: that one is handed out and never kept, only the new refresh token is.
   * Without a new refresh token the old one stays. @param brought undefined where nothing came
   */
  settleNarrowed(call: RefreshCall, brought?: Brought): Promise<StoredGrant | undefined>;
  /** Where there is nothing to refresh with. */
  withoutRefreshToken(call: RefreshCall, usable: boolean): Promise<StoredGrant | undefined>;
}

/** What the provider gave, and what is revoked where the grant is gone meanwhile (R43). */
type Brought = Partial<Pick<TokenAnswer, 'accessToken' | 'refreshToken'>>;

/** Reasons of a call that may have reached the provider although no answer came back whole. */
const UNANSWERED: ReadonlySet<string> = new Set(['timeout', 'connection', 'too_large', 'encoding', 'no_answer']);

/** How long what the provider gave is held on to while the store cannot take it. */
const STORE_PATIENCE_MILLISECONDS = 20_000;
const STORE_RETRY_MILLISECONDS = 200;

export function createRefreshOutcomes(parts: {
  grants: GrantStore;
  provider: ProviderClient;
  events: Events;
  clock: () => number;
  random: () => number;
}): RefreshOutcomes {
  const { grants, provider, events, clock, random } = parts;

  const trouble = (grant: Grant, kind: Trouble['kind'], cause: TroubleCause, retryAfterSeconds?: number) =>
    withTrouble(grant, kind, cause, { now: clock(), random: random(), retryAfterSeconds });

  /** Also where a key rotation has sealed the grant again meanwhile: then the version is another, and the grant the same. */
  const save = async (call: RefreshCall, grant: Grant): Promise<boolean> => {
    for (;;) {
      if (await grants.save(grant, call.version, call.fence)) return true;
      const now = await grants.load(grant.userId, grant.appId);
      if (!now || 'unreadable' in now || now.version === call.version) return false;
      if (JSON.stringify(now.grant) !== JSON.stringify(call.grant)) return false;
      call.version = now.version;
    }
  };

  /** Writes over the version that was read; where somebody else was faster, theirs is what counts. */
  const keep = async (call: RefreshCall, grant: Grant): Promise<{ kept: boolean; stored: StoredGrant | undefined }> => {
    const kept = await save(call, grant);
    const stored = await grants.load(grant.userId, grant.appId);
    if (kept && grant.trouble?.kind === 'reconnect_needed') {
      events.connectionBroken({ userId: grant.userId, app: grant.appId, cause: grant.trouble.cause });
    }
    return { kept, stored };
  };

  /**
   * Keeps what the provider gave for a token that may be spent now: also over a write that came in between, as long as
   * that one left the same tokens there, or has those of a call that was begun before this one. Newer tokens of somebody
   * else count (R36), and a grant that was disconnected meanwhile stays gone and what came is revoked (R43).
   */
  const keepBrought = async (
    call: RefreshCall,
    brought: Brought,
    change: (grant: Grant) => Grant,
  ): Promise<StoredGrant | undefined> => {
    let { kept, stored } = await untilKept(() => keep(call, change(call.grant)));
    while (!kept && stored && 'grant' in stored && isOlder(stored.grant, call)) {
      const base = stored.grant;
      const sameAccess = base.accessToken === call.grant.accessToken || isOfEarlierCall(base, call);
      // A new consent that left the refresh token as it was has the newer access token, but the refresh token is spent.
      if (!sameAccess && brought.refreshToken === undefined) break;
      const next = sameAccess
        ? change(base)
        : { ...closedBy(call, base), refreshToken: brought.refreshToken, rotates: true };
      // The lease may be another's by now, but what came is newer than what that one works with.
      const again: RefreshCall = { ...call, version: stored.version, fence: undefined };
      ({ kept, stored } = await untilKept(() => keep(again, next)));
    }
    if (!kept && !stored) {
      if (brought.refreshToken) await provider.revoke(call.app, brought.refreshToken, 'refresh_token');
      else if (brought.accessToken) await provider.revoke(call.app, brought.accessToken, 'access_token');
    }
    return stored;
  };

  const keepTokens = async (call: RefreshCall, answer: TokenAnswer) => {
    const now = clock();
    const lifetimeSeconds = call.app.accessTokenLifetimeSeconds;
    const rotates = answer.refreshToken !== undefined;
    let healed = false;
    const stored = await keepBrought(call, answer, (base) => {
      healed = base.trouble !== undefined && base.trouble.kind !== 'passing';
      const next = withTokens(closedBy(call, base), answer, now, lifetimeSeconds);
      return { ...next, rotates, refreshedBy: call.fence?.number };
    });
    if (healed && stored) events.connectionRecovered({ userId: call.grant.userId, app: call.app.id });
    return stored;
  };

  const refused = async (call: RefreshCall): Promise<StoredGrant | undefined> => {
    // Somebody else may have used the token a moment ago: then theirs is the newer one (R37).
    const now = await grants.load(call.grant.userId, call.grant.appId);
    if (!now || 'unreadable' in now) return now;
    const { refreshToken, accessToken } = now.grant;
    const isOther = refreshToken !== call.grant.refreshToken || accessToken !== call.grant.accessToken;
    // Of two that were refused one has told it already.
    if (isOther || now.grant.trouble?.kind === 'reconnect_needed') return closeLeft(call, now);
    const cause = call.lost ? 'answer_lost' : 'grant_refused';
    const ended = trouble(closedBy(call, now.grant), 'reconnect_needed', cause);
    return (await keep({ ...call, version: now.version }, ended)).stored;
  };

  /** The old refresh token may be spent, so a new one is kept although nothing else of the answer is (R32). */
  const unusable = (call: RefreshCall, refreshToken: string | undefined) => {
    const kept = refreshToken === undefined ? {} : { refreshToken, refreshedBy: call.fence?.number };
    return keepBrought(call, kept, (base) =>
      trouble({ ...closedBy(call, base), ...kept }, 'passing', 'unusable_answer'),
    );
  };

  const note = async (call: RefreshCall, kind: Trouble['kind'], cause: TroubleCause, retryAfterSeconds?: number) => {
    const { kept, stored } = await keep(call, trouble(closed(call.grant), kind, cause, retryAfterSeconds));
    return kept ? stored : closeLeft(call, stored);
  };

  /** A call that was answered leaves no entry open, whatever somebody else has written meanwhile. */
  const closeLeft = async (call: RefreshCall, stored: StoredGrant | undefined): Promise<StoredGrant | undefined> => {
    if (!stored || 'unreadable' in stored) return stored;
    const left = closedBy(call, stored.grant);
    return left === stored.grant ? stored : (await keep({ ...call, version: stored.version }, left)).stored;
  };

  return {
    async keepReceived(call, refreshToken) {
      const startedAt = call.grant.refresh?.startedAt ?? clock();
      const received = { ...call.grant, refresh: { startedAt, received: refreshToken } };
      const kept = await save(call, received).catch(() => false);
      // What follows is written over this version.
      const stored = kept ? await grants.load(call.grant.userId, call.grant.appId).catch(() => undefined) : undefined;
      if (stored && 'grant' in stored && stored.grant.refresh?.received === refreshToken) call.version = stored.version;
    },

    async settle(call, outcome) {
      switch (outcome.kind) {
        case 'tokens':
          return keepTokens(call, outcome.answer);
        case 'refused':
          return refused(call);
        case 'unusable':
          return unusable(call, outcome.refreshToken);
        case 'doubtful':
          return note(call, 'in_doubt', 'unclear_refusal');
        case 'app_fault':
          return note(call, 'passing', 'app_refused');
        case 'unavailable': {
          // Without an answer the entry stays open: nobody knows whether the provider has spent the token.
          const { reason, retryAfterSeconds } = outcome;
          if (!UNANSWERED.has(reason)) return note(call, 'passing', 'provider_unavailable', retryAfterSeconds);
          return (await keep(call, trouble(call.grant, 'passing', 'provider_unavailable', retryAfterSeconds))).stored;
        }
      }
    },

    settleNarrowed(call, brought = {}) {
      const { refreshToken } = brought;
      const kept = refreshToken === undefined ? {} : { refreshToken, rotates: true, refreshedBy: call.fence?.number };
      return keepBrought(call, brought, (base) => ({ ...closedBy(call, base), ...kept }));
    },

    async withoutRefreshToken(call, usable) {
      if (!usable) return note(call, 'reconnect_needed', 'access_ended');
      // The platform alone said no: that is no proof that the provider ended the grant.
      return note(call, 'in_doubt', 'access_token_refused');
    },
  };
}

/** A store that is gone for a moment must not cost what the provider gives only once. */
function untilKept<T>(work: () => Promise<T>): Promise<T> {
  return patiently(work, STORE_PATIENCE_MILLISECONDS, STORE_RETRY_MILLISECONDS);
}

function closed(grant: Grant): Grant {
  return { ...grant, refresh: undefined };
}

/** An entry of somebody else, who has taken over meanwhile, stays open: their call may be answered yet. */
function closedBy({ grant: { refresh: own } }: RefreshCall, grant: Grant): Grant {
  return grant.refresh && grant.refresh.startedAt === own?.startedAt ? closed(grant) : grant;
}

/** Whether these tokens are older than what the call brings. */
function isOlder(grant: Grant, call: RefreshCall): boolean {
  return grant.refreshToken === call.grant.refreshToken || isOfEarlierCall(grant, call);
}

/** A holder that lost its lease may write what it was given after the next one has begun with the same token. */
function isOfEarlierCall({ refreshedBy }: Grant, { fence }: RefreshCall): boolean {
  return refreshedBy !== undefined && fence !== undefined && refreshedBy < fence.number;
}
