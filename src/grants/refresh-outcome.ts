/** Owns what the answer to a refresh does to the grant, whatever has happened to the grant in the meantime. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { ProviderClient, RefreshOutcome, TokenAnswer } from '../connected-apps/provider-client.ts';
import { AppError } from '../errors.ts';
import type { Events } from '../observability/events.ts';
import type { Fence } from '../storage/lease.ts';
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
  /** Where there is nothing to refresh with. */
  withoutRefreshToken(call: RefreshCall, usable: boolean): Promise<StoredGrant | undefined>;
}

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

  /** Writes over the version that was read; where somebody else was faster, theirs is what counts. */
  const keep = async (call: RefreshCall, grant: Grant): Promise<{ kept: boolean; stored: StoredGrant | undefined }> => {
    const kept = await grants.save(grant, call.version, call.fence);
    const stored = await grants.load(grant.userId, grant.appId);
    if (kept && grant.trouble?.kind === 'reconnect_needed') {
      events.connectionBroken({ userId: grant.userId, app: grant.appId, cause: grant.trouble.cause });
    }
    return { kept, stored };
  };

  /**
   * Keeps what the provider gave for a token that may be spent now: also over a write that came in between, as long as
   * that one left the same tokens there. Newer tokens of somebody else count (R36), and a grant that was disconnected
   * meanwhile stays gone and what came is revoked (R43).
   */
  const keepBrought = async (
    call: RefreshCall,
    brought: { refreshToken?: string | undefined; accessToken?: string },
    change: (grant: Grant) => Grant,
  ): Promise<StoredGrant | undefined> => {
    let { kept, stored } = await patiently(() => keep(call, change(call.grant)));
    while (!kept && stored && 'grant' in stored && holdsSameTokens(stored.grant, call.grant)) {
      // The lease may be another's by now, but what came is newer than what that one works with.
      const again: RefreshCall = { ...call, version: stored.version, fence: undefined };
      const base = stored.grant;
      ({ kept, stored } = await patiently(() => keep(again, change(base))));
    }
    if (!kept && !stored) {
      if (brought.refreshToken) await provider.revoke(call.app, brought.refreshToken, 'refresh_token');
      else if (brought.accessToken) await provider.revoke(call.app, brought.accessToken, 'access_token');
    }
    return stored;
  };

  const keepTokens = (call: RefreshCall, answer: TokenAnswer) => {
    const now = clock();
    const lifetimeSeconds = call.app.accessTokenLifetimeSeconds;
    const rotates = answer.refreshToken !== undefined;
    return keepBrought(call, answer, (base) => ({
      ...withTokens(closed(base), answer, now, lifetimeSeconds),
      rotates,
    }));
  };

  const refused = async (call: RefreshCall): Promise<StoredGrant | undefined> => {
    // Somebody else may have used the token a moment ago: then theirs is the newer one (R37).
    const now = await grants.load(call.grant.userId, call.grant.appId);
    if (!now || 'unreadable' in now || now.grant.refreshToken !== call.grant.refreshToken) return now;
    const cause = call.lost ? 'answer_lost' : 'grant_refused';
    const ended = trouble(closed(call.grant), 'reconnect_needed', cause);
    return (await keep({ ...call, version: now.version }, ended)).stored;
  };

  /** The old refresh token may be spent, so a new one is kept although nothing else of the answer is (R32). */
  const unusable = (call: RefreshCall, refreshToken: string | undefined) => {
    const kept = refreshToken === undefined ? {} : { refreshToken };
    return keepBrought(call, kept, (base) => trouble({ ...closed(base), ...kept }, 'passing', 'unusable_answer'));
  };

  const note = async (call: RefreshCall, kind: Trouble['kind'], cause: TroubleCause) =>
    (await keep(call, trouble(closed(call.grant), kind, cause))).stored;

  return {
    async keepReceived(call, refreshToken) {
      const journal = { startedAt: clock(), received: refreshToken };
      const received = { ...call.grant, refresh: journal };
      const kept = await grants.save(received, call.version, call.fence).catch(() => false);
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
          const base = UNANSWERED.has(outcome.reason) ? call.grant : closed(call.grant);
          const waiting = trouble(base, 'passing', 'provider_unavailable', outcome.retryAfterSeconds);
          return (await keep(call, waiting)).stored;
        }
      }
    },

    async withoutRefreshToken(call, usable) {
      if (!usable) return note(call, 'reconnect_needed', 'access_ended');
      // The platform alone said no: that is no proof that the provider ended the grant.
      return note(call, 'in_doubt', 'access_token_refused');
    },
  };
}

function closed(grant: Grant): Grant {
  return { ...grant, refresh: undefined };
}

function holdsSameTokens(a: Grant, b: Grant): boolean {
  return a.refreshToken === b.refreshToken && a.accessToken === b.accessToken;
}

/** A store that is gone for a moment must not cost what the provider gives only once. */
async function patiently<T>(work: () => Promise<T>): Promise<T> {
  const until = performance.now() + STORE_PATIENCE_MILLISECONDS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const passing = error instanceof AppError && error.code === 'storage_unavailable';
      if (!passing || performance.now() > until) throw error;
      await sleep(STORE_RETRY_MILLISECONDS);
    }
  }
}
