/** Owns access tokens with fewer scopes than the grant has: had by a refresh that names them, handed out, and never kept as the grant's own. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { ProviderClient } from '../connected-apps/provider-client.ts';
import type { RefreshOutcome } from '../connected-apps/refresh-failure.ts';
import type { TokenAnswer } from '../connected-apps/token-answer.ts';
import type { Events } from '../observability/events.ts';
import { remembered } from '../remembered.ts';
import { keys } from '../storage/keys.ts';
import type { Fence, Leases } from '../storage/lease.ts';
import { type Grant, isBackingOff, isSpentByUse } from './grant.ts';
import type { GrantStore, StoredGrant } from './grant-store.ts';
import type { Refresher } from './refresh.ts';
import type { RefreshCall, RefreshOutcomes } from './refresh-outcome.ts';

export type NarrowedResult =
  | { kind: 'narrowed'; accessToken: string; scopes: readonly string[]; expiresAt: number | undefined }
  /** The provider cannot: it has given no refresh token, refuses these scopes, or gives more than was asked for. */
  | { kind: 'unsupported' }
  /** The grant is not well: the vault says how. */
  | { kind: 'no_grant' }
  | { kind: 'unavailable'; retryAfterSeconds: number };

export interface NarrowedTokens {
  /** @param scopes some of those that were granted */
  accessToken(userId: string, app: ConnectedApp, scopes: readonly string[]): Promise<NarrowedResult>;
  /** Resolves once no call is under way: what was sent is never given up. */
  settle(): Promise<void>;
}

interface Known {
  result: Extract<NarrowedResult, { kind: 'narrowed' }>;
  /** A refresh after it may have ended it (many providers do that). */
  refreshToken: string | undefined;
}

const MOST_KEPT = 1_000;
/** One that ends sooner is of little use to whoever gets it. */
const LEAST_MILLISECONDS = 30_000;
const WAIT = { pauseMilliseconds: 50, mostMilliseconds: 10_000 };
const REFUSED_SCOPES = new Set(['invalid_scope', 'invalid_request']);

export function createNarrowedTokens(parts: {
  grants: GrantStore;
  provider: ProviderClient;
  refresher: Refresher;
  outcomes: RefreshOutcomes;
  leases: Leases;
  events: Events;
  clock: () => number;
}): NarrowedTokens {
  const { grants, provider, refresher, outcomes, leases, events, clock } = parts;
  const given = remembered<Known>(MOST_KEPT);
  /** Callers at the same time for the same user, app and scopes share one call. */
  const underWay = new Map<string, Promise<NarrowedResult>>();

  /** As every refresh is begun: written down before the call, so that a kill loses no token. */
  const open = async (
    app: ConnectedApp,
    grant: Grant,
    version: number,
    fence: Fence,
  ): Promise<RefreshCall | undefined> => {
    const started: Grant = { ...grant, refresh: { startedAt: clock(), received: undefined } };
    await grants.assertWritable();
    await grants.noteOpen(grant.userId, grant.appId);
    if (!(await grants.save(started, version, fence))) return undefined;
    const written = await grants.load(grant.userId, grant.appId);
    if (!written || 'unreadable' in written || written.grant.refresh?.startedAt !== started.refresh?.startedAt)
      return undefined;
    return { app, grant: written.grant, version: written.version, fence, lost: false };
  };

  /** Somebody else's entry that is open keeps the note. */
  const noteClosed = async ({ grant: { userId, appId } }: RefreshCall, stored: StoredGrant | undefined) => {
    if (stored && ('unreadable' in stored || stored.grant.refresh)) return;
    await grants.noteClosed(userId, appId).catch(() => undefined);
  };

  const settled = async (
    call: RefreshCall,
    outcome: RefreshOutcome,
    scopes: readonly string[],
  ): Promise<NarrowedResult> => {
    if (outcome.kind === 'tokens') {
      const stored = await outcomes.settleNarrowed(call, outcome.answer);
      await noteClosed(call, stored);
      return stored ? resultOf(outcome.answer, scopes, call.app, clock()) : { kind: 'no_grant' };
    }
    const scopesRefused = outcome.kind === 'doubtful' && REFUSED_SCOPES.has(outcome.reason);
    const stored = await (scopesRefused ? outcomes.settleNarrowed(call) : outcomes.settle(call, outcome));
    await noteClosed(call, stored);
    if (scopesRefused) return { kind: 'unsupported' };
    const retryAfterSeconds = 'retryAfterSeconds' in outcome ? (outcome.retryAfterSeconds ?? 5) : 30;
    return outcome.kind === 'refused' ? { kind: 'no_grant' } : { kind: 'unavailable', retryAfterSeconds };
  };

  const underLease = async (
    userId: string,
    app: ConnectedApp,
    scopes: readonly string[],
    fence: Fence,
  ): Promise<NarrowedResult | undefined> => {
    const stored = await grants.load(userId, app.id);
    if (!stored || 'unreadable' in stored || stored.grant.trouble?.kind === 'reconnect_needed')
      return { kind: 'no_grant' };
    const { grant, version } = stored;
    if (grant.refreshToken === undefined) return { kind: 'unsupported' };
    if (isBackingOff(grant, clock())) return { kind: 'unavailable', retryAfterSeconds: 30 };
    // What somebody who died has left open is settled first, and then it is looked at again.
    if (grant.refresh && (grant.refresh.received !== undefined || isSpentByUse(grant, app.refresh))) return undefined;
    const call = await open(app, grant, version, fence);
    if (!call) return undefined;
    const keep = (refreshToken: string) => outcomes.keepReceived(call, refreshToken);
    const outcome = await provider.refresh(app, {
      refreshToken: call.grant.refreshToken ?? grant.refreshToken,
      dpopKey: call.grant.dpopKey,
      keep,
      scopes,
    });
    const name = outcome.kind === 'tokens' ? 'refreshed' : outcome.kind;
    events.refreshEnded({ userId, app: app.id, outcome: name, reason: 'for a narrower token' });
    return settled(call, outcome, scopes);
  };

  const run = async (userId: string, app: ConnectedApp, scopes: readonly string[]): Promise<NarrowedResult> => {
    const giveUpAt = performance.now() + WAIT.mostMilliseconds;
    while (performance.now() < giveUpAt) {
      const held = await leases.hold(keys.refreshLease(userId, app.id), (fence) =>
        underLease(userId, app, scopes, fence),
      );
      if (held?.value) return held.value;
      if (held) await refresher.refresh({ userId, app, settling: true });
      else await sleep(WAIT.pauseMilliseconds);
    }
    return { kind: 'unavailable', retryAfterSeconds: 5 };
  };

  const find = async (
    name: string,
    userId: string,
    app: ConnectedApp,
    scopes: readonly string[],
  ): Promise<NarrowedResult> => {
    const stored = await grants.load(userId, app.id);
    const refreshToken = stored && 'grant' in stored ? stored.grant.refreshToken : undefined;
    const known = given.get(name);
    const fresh = known?.result.expiresAt !== undefined && known.result.expiresAt - clock() > LEAST_MILLISECONDS;
    if (known && fresh && refreshToken !== undefined && known.refreshToken === refreshToken) return known.result;
    const result = await run(userId, app, scopes);
    const after = await grants.load(userId, app.id);
    if (result.kind === 'narrowed' && after && 'grant' in after) {
      given.set(name, { result, refreshToken: after.grant.refreshToken });
    }
    return result;
  };

  return {
    accessToken(userId, app, scopes) {
      const name = JSON.stringify([userId, app.id, [...scopes].sort()]);
      const existing = underWay.get(name);
      if (existing) return existing;
      const result = find(name, userId, app, scopes).finally(() => underWay.delete(name));
      underWay.set(name, result);
      return result;
    },
    async settle() {
      await Promise.allSettled(underWay.values());
    },
  };
}

/** One that has more than was asked for is not narrower; where the answer is silent it is what was asked for (RFC 6749 section 5.1). */
function resultOf(answer: TokenAnswer, scopes: readonly string[], app: ConnectedApp, now: number): NarrowedResult {
  const got = answer.scopes ?? scopes;
  if (!got.every((scope) => scopes.includes(scope))) return { kind: 'unsupported' };
  const seconds = answer.expiresInSeconds ?? app.accessTokenLifetimeSeconds;
  const expiresAt = seconds === undefined ? undefined : now + seconds * 1000;
  return { kind: 'narrowed', accessToken: answer.accessToken, scopes: got, expiresAt };
}
