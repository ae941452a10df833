/**
 * Gets narrowed access tokens by a refresh: for fewer scopes than the grant has (RFC 6749 section 6), or for one
 * resource (RFC 8707). Caches them.
 */
import { BUSY_RETRY_SECONDS } from '../../shared/outbound/outbound.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import type { TokenResponse } from '../../shared/provider/token-response.ts';
import { rememberedOfEach } from '../../shared/remembered.ts';
import type { Store } from '../../shared/storage/store.ts';
import { registrationOf } from '../connected-apps/registration.ts';
import { type Grant, healthOf, isBackingOff, type StoredGrant } from './grant.ts';
import type { GrantStore } from './grant-store.ts';
import { createNarrowingPauses } from './narrowing-pause.ts';
import type { Refreshed, Refresher } from './refresh.ts';
import { mayHaveUnsavedResponse } from './refresh-journal.ts';
import { isNarrowingRefusal } from './refresh-outcome.ts';
import type { InServiceShare } from './service-share.ts';
import { createTurns } from './turns.ts';

/** Without `scopes`, the token has all granted scopes; without `resource`, it is for all resources of the app. */
export interface Narrowing {
  /** A subset of the granted scopes. */
  scopes?: readonly string[] | undefined;
  resource?: string | undefined;
}

export type NarrowedResult =
  | { kind: 'narrowed'; accessToken: string; scopes: readonly string[]; expiresAt: number | undefined }
  /**
   * The provider issued no refresh token, refuses these scopes or this resource, or grants more than were requested.
   */
  | { kind: 'unsupported' }
  /** The grant is missing or broken; `AccessTokens.get` says why. */
  | { kind: 'no_grant' }
  /** The service has caused a refresh of the grant within the last 30 s (R135). */
  | { kind: 'too_many'; retryAfterSeconds: number }
  /** `isUnverified`: the health of the connection is `unverified`. */
  | { kind: 'unavailable'; isUnverified: boolean; retryAfterSeconds: number };

interface CachedResult {
  /** The token, or that the provider issues none. */
  result: Extract<NarrowedResult, { kind: 'narrowed' | 'unsupported' }>;
  /** When the provider responded. If this is in the future, the clock was set back. */
  at: number;
  usableUntil: number;
  /** The consent of the grant at that time. A later consent may have withdrawn a scope. */
  consentedAt: number;
  /** The `issueCount` of the grant after the refresh. */
  issueCount: number | undefined;
}

/** The share of the memory for the cache: so large that one service does not evict the tokens of the others. */
const TOKENS_SHARE = 1 / 64;
/** A cached token with less time left is not returned: the caller needs some time to use it. */
const MIN_LIFETIME_MS = 30_000;
/** For this long the provider is not called again for a token that it refused. */
const REFUSED_MS = 300_000;

interface RefreshResult {
  result: NarrowedResult;
  calledProvider: boolean;
}

export interface NarrowedTokens {
  /**
   * Returns a cached access token, or gets one.
   * @param relayTokenId the relay token of the service that requests it
   */
  accessToken(userId: string, app: ConnectedApp, narrowing: Narrowing, relayTokenId: string): Promise<NarrowedResult>;
}

/**
 * A cached token is returned until it expires, and a refusal for five minutes. If the provider ends earlier access
 * tokens with each refresh (`endsEarlierTokens`), a cached token is valid only until the next refresh, and one service
 * may cause one refresh of a grant in 30 s (R135): otherwise two services with different scopes would refresh with
 * every call. At other providers, the refreshes of one grant by one service follow each other, so that services take
 * turns.
 */
export function createNarrowedTokens(parts: {
  grants: GrantStore;
  refresher: Refresher;
  inServiceShare: InServiceShare;
  store: Pick<Store, 'get' | 'write'>;
  clock: () => number;
}): NarrowedTokens {
  const { grants, refresher, inServiceShare, store, clock } = parts;
  const cached = rememberedOfEach<CachedResult>(TOKENS_SHARE);
  /** By service and narrowing: equal requests at the same time share one call. */
  const inFlight = new Map<string, Promise<NarrowedResult>>();
  const inTurn = createTurns();
  const pauseOf = createNarrowingPauses(store, clock);

  const refresh = async (
    userId: string,
    app: ConnectedApp,
    { scopes, resource }: Narrowing,
    cacheKey: string,
  ): Promise<RefreshResult> => {
    const refreshed = await refresher.attempt({ userId, app, scopes, resource });
    const result = resultOf(refreshed, scopes, app, clock());
    const grant = workingGrant(refreshed.stored);
    const isCacheable = result.kind === 'narrowed' || result.kind === 'unsupported';
    if (isCacheable && refreshed.outcome && grant?.refreshToken !== undefined) {
      const now = clock();
      const entry = {
        result,
        at: now,
        usableUntil: usableUntilOf(result, now),
        consentedAt: grant.consentedAt,
        issueCount: grant.issueCount,
      };
      const tokenLength = result.kind === 'narrowed' ? result.accessToken.length : 0;
      cached.set(cacheKey, entry, cacheKey.length + tokenLength);
    }
    return { result, calledProvider: refreshed.outcome !== undefined };
  };

  return {
    async accessToken(userId, app, narrowing, relayTokenId) {
      const { scopes, resource } = narrowing;
      const cacheKey = JSON.stringify([userId, app.id, registrationOf(app), scopes?.toSorted(), resource]);
      const pause = pauseOf(userId, app.id, relayTokenId);
      /** Returns the result that needs no call to the provider; undefined if one is needed. */
      const resultWithoutCall = async (): Promise<NarrowedResult | undefined> => {
        const stored = await grants.load(userId, app);
        const grant = workingGrant(stored);
        const cachedResult = cached.get(cacheKey);
        if (cachedResult && grant && isUsable(cachedResult, grant, app, clock())) return cachedResult.result;
        const mayCall = grant?.refreshToken !== undefined && !isBackingOff(grant, clock());
        return mayCall ? undefined : resultOf({ stored }, scopes, app, clock());
      };
      const work = () => refresh(userId, app, narrowing, cacheKey);
      const callInShare = () =>
        inServiceShare(app, relayTokenId, async (): Promise<NarrowedResult> => {
          // Other calls may have changed the grant while this one waited.
          const result = await resultWithoutCall();
          if (result) return result;
          const refreshed = app.endsEarlierTokens ? await pause.refresh(work) : await work();
          if (refreshed) return refreshed.result;
          return { kind: 'too_many', retryAfterSeconds: Math.max(1, await pause.secondsLeft()) };
        });
      const call = async (): Promise<NarrowedResult> => {
        const turnKey = JSON.stringify([userId, app.id, relayTokenId]);
        const inShare = app.endsEarlierTokens ? await callInShare() : (await inTurn(turnKey, callInShare))?.value;
        return inShare?.value ?? { kind: 'unavailable', isUnverified: false, retryAfterSeconds: BUSY_RETRY_SECONDS };
      };
      const callOnce = (): Promise<NarrowedResult> => {
        const callKey = `${relayTokenId} ${cacheKey}`;
        const resultInFlight = inFlight.get(callKey) ?? call().finally(() => inFlight.delete(callKey));
        inFlight.set(callKey, resultInFlight);
        return resultInFlight;
      };
      const result = (await resultWithoutCall()) ?? (await callOnce());
      if (result.kind !== 'unavailable' || !app.endsEarlierTokens) return result;
      return { ...result, retryAfterSeconds: Math.max(result.retryAfterSeconds, await pause.secondsLeft()) };
    },
  };
}

/** Returns undefined if there is no grant, or if it has ended: its cached access tokens must not be returned. */
function workingGrant(stored: StoredGrant | undefined): Grant | undefined {
  if (!stored || 'unreadable' in stored) return undefined;
  return stored.grant.failure?.kind === 'reconnect_needed' ? undefined : stored.grant;
}

/** A token whose expiry is not known is never returned again. */
function usableUntilOf(result: CachedResult['result'], now: number): number {
  return result.kind === 'unsupported' ? now + REFUSED_MS : (result.expiresAt ?? 0) - MIN_LIFETIME_MS;
}

function isUsable(
  { result, at, usableUntil, consentedAt, issueCount }: CachedResult,
  grant: Grant,
  { endsEarlierTokens }: ConnectedApp,
  now: number,
): boolean {
  if (grant.consentedAt !== consentedAt || now < at || now >= usableUntil) return false;
  if (result.kind === 'unsupported' || !endsEarlierTokens) return true;
  // An entry of the journal whose call has ended: the provider may have issued tokens.
  const mayHaveIssued = grant.refresh !== undefined && !mayHaveUnsavedResponse(grant, now);
  return grant.issueCount === issueCount && !mayHaveIssued;
}

function resultOf(
  { stored, outcome }: Refreshed,
  scopes: readonly string[] | undefined,
  app: ConnectedApp,
  now: number,
): NarrowedResult {
  const grant = workingGrant(stored);
  if (!grant) return { kind: 'no_grant' };
  const { refreshToken, failure } = grant;
  if (outcome?.kind === 'tokens') return narrowedBy(outcome.response, scopes ?? grant.scopes, app, now);
  if (refreshToken === undefined || (outcome && isNarrowingRefusal(outcome))) return { kind: 'unsupported' };
  const retryAt = failure?.retryAt ?? 0;
  const isUnverified = healthOf(grant, now) === 'unverified';
  return { kind: 'unavailable', isUnverified, retryAfterSeconds: Math.max(5, Math.ceil((retryAt - now) / 1000)) };
}

/** A response without `scope` grants what was requested (RFC 6749 section 5.1). */
function narrowedBy(
  response: TokenResponse,
  scopes: readonly string[],
  app: ConnectedApp,
  now: number,
): NarrowedResult {
  const granted = response.scopes ?? scopes;
  if (!granted.every((scope) => scopes.includes(scope))) return { kind: 'unsupported' };
  const seconds = response.expiresInSeconds ?? app.accessTokenLifetimeSeconds;
  const expiresAt = seconds === undefined ? undefined : now + seconds * 1000;
  return { kind: 'narrowed', accessToken: response.accessToken, scopes: granted, expiresAt };
}
