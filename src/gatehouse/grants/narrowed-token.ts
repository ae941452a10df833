/**
 * Narrowed access tokens, by a refresh: fewer scopes than the grant (RFC 6749 section 6), or one resource (RFC 8707).
 * Cached.
 */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import type { TokenResponse } from '../../shared/provider/token-response.ts';
import { remembered } from '../../shared/remembered.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Store } from '../../shared/storage/store.ts';
import { registrationOf } from '../connected-apps/registration.ts';
import { BUSY_RETRY_SECONDS, isBusy } from './access-tokens.ts';
import type { StoredGrant } from './grant.ts';
import { type Grant, healthOf, isBackingOff } from './grant.ts';
import type { GrantStore } from './grant-store.ts';
import type { Refreshed, Refresher } from './refresh.ts';
import { isNarrowingRefusal } from './refresh-outcome.ts';

/** What is left out is not narrowed: all granted scopes, all resources of the app. */
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

interface CachedToken {
  result: Extract<NarrowedResult, { kind: 'narrowed' }>;
  /** A refresh with it, or with a later one, may have ended the access token. */
  refreshToken: string;
  /** A later consent may have withdrawn a scope. */
  consentedAt: number;
}

const MAX_CACHED = 1_000;
/** A caller needs some time to use the token. */
const MIN_LIFETIME_MS = 30_000;
/** Between two refreshes of one grant that one service causes, where each refresh ends the access tokens before it. */
const PAUSE_SECONDS = 30;

export interface NarrowedTokens {
  /** @param service id of the relay token that it is for */
  accessToken(userId: string, app: ConnectedApp, narrowing: Narrowing, service: string): Promise<NarrowedResult>;
}

/**
 * A cached token is returned until it expires. If the provider ends earlier access tokens with each refresh
 * (`endsEarlierTokens`), it counts only until the next refresh, and one service causes at most one refresh of one grant in
 * 30 s (R135): two services with different scopes would otherwise refresh with every call.
 */
export function createNarrowedTokens(parts: {
  grants: GrantStore;
  refresher: Refresher;
  store: Pick<Store, 'get' | 'write'>;
  clock: () => number;
}): NarrowedTokens {
  const { grants, refresher, store, clock } = parts;
  const cached = remembered<CachedToken>(MAX_CACHED);
  /** By service and narrowing: the same calls at the same time are one. */
  const inFlight = new Map<string, ReturnType<typeof fromRefresh>>();

  /** The seconds until this service may cause another refresh of this grant; 0 if it may now. */
  const secondsLeft = async (key: string): Promise<number> => {
    const since = await store.get(key);
    return since ? Math.max(1, Math.ceil(PAUSE_SECONDS - (clock() - Number(since.value)) / 1000)) : 0;
  };

  /** Notes that the service causes a refresh. False if it has caused one within the pause. */
  const beginPause = async (key: string): Promise<boolean> => {
    const note = { put: key, value: String(clock()), ifVersion: 0, lifetimeSeconds: PAUSE_SECONDS };
    return (await store.write([note])) !== undefined;
  };

  const fromRefresh = async (
    userId: string,
    app: ConnectedApp,
    { scopes, resource }: Narrowing,
    service: string,
  ): Promise<{ result: NarrowedResult; stored?: StoredGrant | undefined }> => {
    const request = { userId, app, scopes, resource, service };
    if (!app.endsEarlierTokens) {
      const refreshed = await refresher.attempt(request);
      return { result: resultOf(refreshed, scopes, app, clock()), stored: refreshed.stored };
    }
    const pause = keys.narrowing(userId, app.id, service);
    const grant = workingGrant(await grants.load(userId, app));
    const canRefresh = grant?.refreshToken !== undefined && !isBackingOff(grant, clock());
    if (canRefresh && !(await beginPause(pause))) {
      return { result: { kind: 'too_many', retryAfterSeconds: await secondsLeft(pause) } };
    }
    try {
      const refreshed = await refresher.attempt(request);
      const result = resultOf(refreshed, scopes, app, clock());
      // The provider's own limit is the one to name, and the longer wait the one to keep.
      const retryAfterSeconds = result.kind === 'unavailable' ? await secondsLeft(pause) : 0;
      return result.kind === 'unavailable' && retryAfterSeconds > result.retryAfterSeconds
        ? { result: { ...result, retryAfterSeconds } }
        : { result, stored: refreshed.stored };
    } catch (error) {
      if (canRefresh && isBusy(error)) await store.write([{ delete: pause }]);
      throw error;
    }
  };

  return {
    async accessToken(userId, app, narrowing, service) {
      const { scopes, resource } = narrowing;
      const key = JSON.stringify([userId, app.id, registrationOf(app), scopes?.toSorted(), resource]);
      const current = workingGrant(await grants.load(userId, app));
      const cachedToken = cached.get(key);
      const isFresh =
        cachedToken?.result.expiresAt !== undefined && cachedToken.result.expiresAt - clock() > MIN_LIFETIME_MS;
      if (isFresh && current && isTokenOf(current, cachedToken, app)) return cachedToken.result;
      const callKey = `${service} ${key}`;
      const call = inFlight.get(callKey) ?? fromRefresh(userId, app, narrowing, service);
      inFlight.set(callKey, call);
      try {
        const { result, stored } = await call;
        const { refreshToken, consentedAt } = workingGrant(stored) ?? {};
        if (result.kind === 'narrowed' && refreshToken !== undefined && consentedAt !== undefined)
          cached.set(key, { result, refreshToken, consentedAt });
        return result;
      } catch (error) {
        if (!isBusy(error)) throw error;
        return { kind: 'unavailable', isUnverified: false, retryAfterSeconds: BUSY_RETRY_SECONDS };
      } finally {
        inFlight.delete(callKey);
      }
    },
  };
}

/** Undefined if there is no grant, or a broken one, whose cached access tokens must not be returned. */
function workingGrant(stored: StoredGrant | undefined): Grant | undefined {
  const grant = stored && 'grant' in stored ? stored.grant : undefined;
  return grant?.failure?.kind === 'reconnect_needed' ? undefined : grant;
}

function isTokenOf(
  grant: Grant,
  { refreshToken, consentedAt }: CachedToken,
  { endsEarlierTokens }: ConnectedApp,
): boolean {
  return grant.consentedAt === consentedAt && (!endsEarlierTokens || grant.refreshToken === refreshToken);
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
