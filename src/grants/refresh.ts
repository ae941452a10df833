/** Owns the refreshing of one grant: one call to the provider at a time, and what each answer does to the grant. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { ProviderClient, RefreshOutcome, TokenAnswer } from '../connected-apps/provider-client.ts';
import type { Events } from '../observability/events.ts';
import { type Grant, isRefreshDue, isUsable, type TroubleCause, withTokens, withTrouble } from './grant.ts';
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
  const underWay = new Map<string, Promise<StoredGrant | undefined>>();

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

  /** A grant that was disconnected meanwhile stays gone, and what the provider just gave is revoked (R43). */
  const keepTokens = async (app: ConnectedApp, grant: Grant, version: number, answer: TokenAnswer) => {
    const fresh = withTokens(grant, answer, clock(), app.accessTokenLifetimeSeconds);
    const { kept, stored } = await keep(fresh, version);
    if (!kept && !stored) {
      await provider.revoke(
        app,
        answer.refreshToken ?? answer.accessToken,
        answer.refreshToken ? 'refresh_token' : 'access_token',
      );
    }
    return stored;
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
        const refreshToken = outcome.refreshToken ?? grant.refreshToken;
        return (await keep(trouble({ ...grant, refreshToken }, 'passing', 'unusable_answer'), version)).stored;
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
    const refused = rejected === grant.accessToken && now - grant.obtainedAt >= JUST_REFRESHED_MILLISECONDS;
    const wanted = refused || !isUsable(grant, now) || isRefreshDue(grant, now, spreadOf(userId));
    if (!wanted || grant.trouble?.kind === 'reconnect_needed') return stored;
    if (grant.refreshToken === undefined) return withoutRefreshToken(grant, version, refused);
    if (grant.trouble && now < grant.trouble.retryAt) return stored;
    const outcome = await provider.refresh(app, grant.refreshToken);
    const reason = 'reason' in outcome ? outcome.reason : undefined;
    events.refreshEnded({
      userId,
      app: app.id,
      outcome: outcome.kind === 'tokens' ? 'refreshed' : outcome.kind,
      reason,
    });
    return settleOutcome(app, grant, version, outcome);
  };

  const refresh = async (request: RefreshRequest): Promise<StoredGrant | undefined> => {
    const key = JSON.stringify([request.userId, request.app.id]);
    const existing = underWay.get(key);
    if (!existing) {
      const running = run(request).finally(() => underWay.delete(key));
      underWay.set(key, running);
      return running;
    }
    const stored = await existing;
    // It may have begun before this token was refused, and found nothing due.
    const unchanged = stored && 'grant' in stored && stored.grant.accessToken === request.rejected;
    return unchanged ? refresh(request) : stored;
  };

  return {
    refresh,
    async settle() {
      while (underWay.size > 0) await Promise.allSettled(underWay.values());
    },
  };
}

/** 0 to 1, always the same for one user. */
export function spreadOf(userId: string): number {
  let hash = 0;
  for (const character of userId) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) % 65_536;
  return hash / 65_536;
}
