/**
 * Narrowed access tokens, by a refresh: fewer scopes than the grant (RFC 6749 section 6), or one resource (RFC 8707).
 * Cached.
 */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import type { TokenResponse } from '../../shared/provider/token-response.ts';
import { remembered } from '../../shared/remembered.ts';
import { registrationOf } from '../connected-apps/registration.ts';
import type { StoredGrant } from './grant.ts';
import { type Grant, healthOf } from './grant.ts';
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
  /** `isUnverified`: the health of the connection is `unverified`. */
  | { kind: 'unavailable'; isUnverified: boolean; retryAfterSeconds: number };

interface CachedToken {
  result: Extract<NarrowedResult, { kind: 'narrowed' }>;
  /** Many providers revoke the access token when this refresh token is used again. */
  refreshToken: string;
  /** A later consent may have withdrawn a scope. */
  consentedAt: number;
}

const MAX_CACHED = 1_000;
/** A caller needs some time to use the token. */
const MIN_LIFETIME_MS = 30_000;

export interface NarrowedTokens {
  accessToken(userId: string, app: ConnectedApp, narrowing: Narrowing): Promise<NarrowedResult>;
}

export function createNarrowedTokens(parts: {
  grants: GrantStore;
  refresher: Refresher;
  clock: () => number;
}): NarrowedTokens {
  const { grants, refresher, clock } = parts;
  const cached = remembered<CachedToken>(MAX_CACHED);

  return {
    async accessToken(userId, app, { scopes, resource }) {
      const key = JSON.stringify([userId, app.id, registrationOf(app), scopes?.toSorted(), resource]);
      const current = workingGrant(await grants.load(userId, app));
      const cachedToken = cached.get(key);
      const isFresh =
        cachedToken?.result.expiresAt !== undefined && cachedToken.result.expiresAt - clock() > MIN_LIFETIME_MS;
      if (isFresh && current && isTokenOf(current, cachedToken)) return cachedToken.result;
      const refreshed = await refresher.attempt({ userId, app, scopes, resource });
      const result = resultOf(refreshed, scopes, app, clock());
      const { refreshToken, consentedAt } = workingGrant(refreshed.stored) ?? {};
      if (result.kind === 'narrowed' && refreshToken !== undefined && consentedAt !== undefined)
        cached.set(key, { result, refreshToken, consentedAt });
      return result;
    },
  };
}

/** Undefined if there is no grant, or a broken one, whose cached access tokens must not be returned. */
function workingGrant(stored: StoredGrant | undefined): Grant | undefined {
  const grant = stored && 'grant' in stored ? stored.grant : undefined;
  return grant?.failure?.kind === 'reconnect_needed' ? undefined : grant;
}

function isTokenOf(grant: Grant, { refreshToken, consentedAt }: CachedToken): boolean {
  return grant.refreshToken === refreshToken && grant.consentedAt === consentedAt;
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
