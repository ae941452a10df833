/** Owns the refreshing of one grant: one call to the provider at a time, and what each answer does to the grant. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { ProviderClient, RefreshOutcome, TokenAnswer } from '../connected-apps/provider-client.ts';
import type { Events } from '../observability/events.ts';
import {
  type Grant,
  isBackingOff,
  isRefreshDue,
  isUsable,
  type TroubleCause,
  withTokens,
  withTrouble,
} from './grant.ts';
import type { GrantStore, StoredGrant } from './grant-store.ts';

export interface RefreshRequest {
  userId: string;
  app: ConnectedApp;
  /** The access token that the platform refused (401): refresh even if it is not due, unless it was replaced since. */
  rejected?: string | undefined;
}

export interface Refresher {
  /**
   * Answers the grant as it stands once whatever was due is done; its `trouble` says what went wrong.
   * Callers at the same time for the same user and app share one refresh.
   */
  refresh(request: RefreshRequest): Promise<StoredGrant | undefined>;
  /** Resolves once no refresh is under way: what was sent is never given up (R90, F22). */
  settle(): Promise<void>;
}

interface UnderWay {
  /** What it was begun for. */
  rejected: string | undefined;
  result: Promise<StoredGrant | undefined>;
}

/** A token this new that is refused all the same will not be mended by yet another one. */
const JUST_REFRESHED_MILLISECONDS = 2_000;

export function createRefresher(parts: {
  grants: GrantStore;
  provider: ProviderClient;
  events: Events;
  clock: () => number;
  random: () => number;
}): Refresher {
  const { grants, provider, events, clock, random } = parts;
  // Keyed by user and app together, so that nobody is ever answered with another's grant (R33).
  const underWay = new Map<string, UnderWay>();

  const trouble = (
    grant: Grant,
    kind: 'passing' | 'in_doubt' | 'reconnect_needed',
    cause: TroubleCause,
    retryAfterSeconds?: number,
  ) => withTrouble(grant, kind, cause, { now: clock(), random: random(), retryAfterSeconds });

  /** Writes over the version that was read; where somebody else was faster, theirs is what counts. */
  const keep = async (grant: Grant, version: number): Promise<{ kept: boolean; stored: StoredGrant | undefined }> => {
    const kept = await grants.save(grant, version);
    const stored = await grants.load(grant.userId, grant.appId);
    if (kept && grant.trouble?.kind === 'reconnect_needed') {
      events.connectionBroken({ userId: grant.userId, app: grant.appId, cause: grant.trouble.cause });
    }
    return { kept, stored };
  };

  /**
   * Keeps what the provider gave for a token that may be spent now: also over a write that came in between, as long as
   * that one left the same tokens there. Newer tokens of somebody else count, and a grant that was disconnected meanwhile
   * stays gone and what came is revoked (R43).
   */
  const keepBrought = async (
    app: ConnectedApp,
    spent: Grant,
    version: number,
    brought: { refreshToken?: string | undefined; accessToken?: string },
    change: (grant: Grant) => Grant,
  ): Promise<StoredGrant | undefined> => {
    let { kept, stored } = await keep(change(spent), version);
    while (!kept && stored && 'grant' in stored && holdsSameTokens(stored.grant, spent)) {
      ({ kept, stored } = await keep(change(stored.grant), stored.version));
    }
    if (!kept && !stored) {
      if (brought.refreshToken) await provider.revoke(app, brought.refreshToken, 'refresh_token');
      else if (brought.accessToken) await provider.revoke(app, brought.accessToken, 'access_token');
    }
    return stored;
  };

  const keepTokens = (app: ConnectedApp, grant: Grant, version: number, answer: TokenAnswer) => {
    const now = clock();
    return keepBrought(app, grant, version, answer, (base) =>
      withTokens(base, answer, now, app.accessTokenLifetimeSeconds),
    );
  };

  const settleOutcome = async (app: ConnectedApp, grant: Grant, version: number, outcome: RefreshOutcome) => {
    switch (outcome.kind) {
      case 'tokens':
        return keepTokens(app, grant, version, outcome.answer);
      case 'refused': {
        // Somebody else may have used the token a moment ago: then theirs is the newer one (R37).
        const now = await grants.load(grant.userId, grant.appId);
        if (!now || 'unreadable' in now || now.grant.refreshToken !== grant.refreshToken) return now;
        return (await keep(trouble(grant, 'reconnect_needed', 'grant_refused'), now.version)).stored;
      }
      case 'unusable': {
        // The old refresh token may be spent, so the new one is kept although nothing else of the answer is (R32).
        const { refreshToken } = outcome;
        const kept = refreshToken === undefined ? {} : { refreshToken };
        return keepBrought(app, grant, version, kept, (base) =>
          trouble({ ...base, ...kept }, 'passing', 'unusable_answer'),
        );
      }
      case 'doubtful':
        return (await keep(trouble(grant, 'in_doubt', 'unclear_refusal'), version)).stored;
      case 'app_fault':
        return (await keep(trouble(grant, 'passing', 'app_refused'), version)).stored;
      case 'unavailable':
        return (await keep(trouble(grant, 'passing', 'provider_unavailable', outcome.retryAfterSeconds), version))
          .stored;
    }
  };

  const withoutRefreshToken = async (
    grant: Grant,
    version: number,
    rejected: boolean,
  ): Promise<StoredGrant | undefined> => {
    const now = clock();
    if (!isUsable(grant, now)) return (await keep(trouble(grant, 'reconnect_needed', 'access_ended'), version)).stored;
    // The platform alone said no: that is no proof that the provider ended the grant.
    if (rejected) return (await keep(trouble(grant, 'in_doubt', 'access_token_refused'), version)).stored;
    return { grant, version };
  };

  const run = async ({ userId, app, rejected }: RefreshRequest): Promise<StoredGrant | undefined> => {
    const stored = await grants.load(userId, app.id);
    if (!stored || 'unreadable' in stored) return stored;
    const { grant, version } = stored;
    const now = clock();
    const age = now - grant.obtainedAt;
    // A clock that was set back must not make every token look new.
    const justRefreshed = age >= 0 && age < JUST_REFRESHED_MILLISECONDS;
    const refused = rejected === grant.accessToken && !justRefreshed;
    const wanted = refused || !isUsable(grant, now) || isRefreshDue(grant, now, spreadOf(userId));
    if (!wanted || grant.trouble?.kind === 'reconnect_needed') return stored;
    if (grant.refreshToken === undefined) return withoutRefreshToken(grant, version, refused);
    if (isBackingOff(grant, now)) return stored;
    const outcome = ofSameSubject(grant, await provider.refresh(app, grant.refreshToken));
    const reason = 'reason' in outcome ? outcome.reason : undefined;
    events.refreshEnded({
      userId,
      app: app.id,
      outcome: outcome.kind === 'tokens' ? 'refreshed' : outcome.kind,
      reason,
    });
    return settleOutcome(app, grant, version, outcome);
  };

  const joinOrStart = (request: RefreshRequest): UnderWay => {
    const key = JSON.stringify([request.userId, request.app.id]);
    const existing = underWay.get(key);
    if (existing) return existing;
    const result = run(request).finally(() => underWay.delete(key));
    const started = { rejected: request.rejected, result };
    underWay.set(key, started);
    return started;
  };

  const refresh = async (request: RefreshRequest): Promise<StoredGrant | undefined> => {
    const { rejected, result } = joinOrStart(request);
    const stored = await result;
    // It may have begun before this token was refused, and found nothing due.
    const unchanged = stored && 'grant' in stored && stored.grant.accessToken === request.rejected;
    return unchanged && rejected !== request.rejected ? joinOrStart(request).result : stored;
  };

  return {
    refresh,
    async settle() {
      while (underWay.size > 0) await Promise.allSettled([...underWay.values()].map(({ result }) => result));
    },
  };
}

/** An ID token of a refresh has to be about the same person (OpenID Connect Core section 12.2). */
function ofSameSubject(grant: Grant, outcome: RefreshOutcome): RefreshOutcome {
  const subject = outcome.kind === 'tokens' ? outcome.answer.claims?.sub : undefined;
  if (outcome.kind !== 'tokens' || subject === undefined || grant.account.subject === undefined) return outcome;
  if (subject === grant.account.subject) return outcome;
  return { kind: 'unusable', reason: 'other_subject', refreshToken: undefined };
}

function holdsSameTokens(a: Grant, b: Grant): boolean {
  return a.refreshToken === b.refreshToken && a.accessToken === b.accessToken;
}

/** 0 to 1, always the same for one user. */
export function spreadOf(userId: string): number {
  let hash = 0;
  for (const character of userId) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) % 65_536;
  return hash / 65_536;
}
