/** A grant: its tokens, whether they are usable or due for a refresh, and the health of the connection. Pure. */

import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import type { DpopKey } from '../../shared/provider/dpop.ts';
import type { SignInDemand } from '../../shared/provider/sign-in-demand.ts';
import type { TokenResponse } from '../../shared/provider/token-response.ts';
import type { SealError } from '../../shared/storage/sealed.ts';
import { DAY_MS } from '../../shared/time.ts';
import { isIssuedFor, type Registration } from '../connected-apps/registration.ts';
import type { FailureCause, RefreshFailure } from './refresh-failure.ts';

/** Times in milliseconds since the epoch. */
export interface Grant {
  /** The id of the connection. It stays the same while account and registration do (R118). */
  id: string;
  userId: string;
  appId: string;
  /** The registration that the tokens were issued for. */
  registration: Registration;
  /** Empty in an imported grant until its first refresh. */
  accessToken: string;
  /** The key that the access token is bound to (RFC 9449); absent for a bearer token. */
  dpopKey?: DpopKey | undefined;
  refreshToken: string | undefined;
  /** The granted scopes, as the provider names them. */
  scopes: string[];
  /** The requested scopes; absent from an imported grant, which another system requested. */
  requestedScopes?: string[] | undefined;
  /** The app's scopes that the request left out, because the user chose fewer. */
  declinedScopes?: string[] | undefined;
  /** Scopes that were added to the app later, and that were announced as missing. */
  announcedScopes?: string[] | undefined;
  /** The account at the provider. `accountId`: for an app without ID tokens, as its setting `account` finds it. */
  account: Partial<Record<'issuer' | 'subject' | 'name' | 'email' | 'accountId', string | undefined>>;
  /** The API base URL for this account, from the last token response that named one. */
  apiBaseUrl?: string | undefined;
  /** When the provider issued the access token. */
  obtainedAt: number;
  /** When the access token expires; undefined if the provider does not say. Then only a 401 shows that it has. */
  expiresAt: number | undefined;
  connectedAt: number;
  /** When the user last signed in or consented. */
  consentedAt: number;
  /** The user chose these scopes. A later sign-in, which requests all scopes, does not add any. */
  chosen?: boolean | undefined;
  failure: RefreshFailure | undefined;
  /** What the platform demands of the next sign-in. The connection works for calls that need less. */
  demand?: SignInDemand | undefined;
  /** The journal entry: present while a refresh is in flight, and after one whose response never arrived. */
  refresh: JournalEntry | undefined;
  /** When the refresh token expires; absent if the provider does not say. */
  refreshExpiresAt?: number | undefined;
  /** Whether the last refresh returned a new refresh token; undefined before the first. */
  rotates?: boolean | undefined;
  /**
   * The fencing number of the refresh that got the tokens: the higher of two concurrent refreshes wins. Absent after a
   * sign-in.
   */
  refreshedBy?: number | undefined;
  /**
   * How many refreshes, also for narrowed tokens, issued tokens or may have. At some providers each of them ends the
   * earlier access tokens (`endsEarlierTokens`).
   */
  issueCount?: number | undefined;
}

/**
 * `unreadable`: the record cannot be opened (wrong key, damaged, copied from another user). Only this connection is
 * lost.
 */
export type StoredGrant = ReadableGrant | { unreadable: SealError; version: number };

export interface ReadableGrant {
  grant: Grant;
  version: number;
}

/**
 * True if a refresh token may work only once: then a refresh whose response never arrived may have spent it.
 * @param setting the app's setting `refresh`, which overrides the behavior that earlier refreshes showed
 */
export function isSpentByUse(grant: Grant, setting: 'rotating' | 'reusable' | undefined): boolean {
  return setting === undefined ? grant.rotates !== false : setting === 'rotating';
}

/** Counts a refresh that issued tokens, or may have. */
export function withIssueCounted(grant: Grant): Grant {
  return { ...grant, issueCount: (grant.issueCount ?? 0) + 1 };
}

/** A call to the provider whose outcome is not stored yet. */
export interface JournalEntry {
  startedAt: number;
  /** The refresh token of the response, saved before the rest of the response is checked. */
  received: string | undefined;
}

export type Health = 'active' | 'expiring' | 'unverified' | 'reconnect_needed';

const MARGIN_MS = 60_000;
/** Without a refresh token, `expiring` begins this long before the access token expires. */
export const EXPIRING_MS = 600_000;
/** `expiring` begins this long before the refresh token expires: early enough for a user who visits every few days. */
const REFRESH_EXPIRING_MS = 3 * DAY_MS;
const BACK_OFF = {
  minMs: 30_000,
  /**
   * Short for an unavailable provider, so that its return is noticed soon; longer for refusals without a clear reason.
   */
  maxMs: { passing: 60_000, unverified: 600_000, reconnect_needed: 600_000 },
  maxRetryAfterMs: 600_000,
};

/** True for an imported grant whose refresh token has not worked yet. */
export function isUnchecked({ accessToken }: Grant): boolean {
  return accessToken === '';
}

/**
 * Returns the grant as this app may use it. A grant of another registration gets a failure that is never stored, so an
 * app that is changed back has its connections again.
 */
export function grantForApp(app: ConnectedApp, grant: Grant): Grant {
  if (isIssuedFor(grant.registration, app)) return grant;
  const since = grant.consentedAt;
  return {
    ...grant,
    failure: { kind: 'reconnect_needed', cause: 'registration_changed', since, failures: 0, retryAt: 0 },
  };
}

/** True while the access token can be sent. */
export function hasUsableToken(grant: Grant, now: number): boolean {
  return grant.expiresAt === undefined || now < grant.expiresAt;
}

/**
 * True once less than 60 s of the lifetime remain, or less than a tenth of it if that is shorter. The spread (up to a
 * quarter earlier) keeps grants that were created together from being refreshed together.
 * @param spread 0 to 1, always the same for one grant
 */
export function isRefreshDue(grant: Grant, now: number, spread: number): boolean {
  if (grant.expiresAt === undefined) return false;
  const margin = Math.min(MARGIN_MS, (grant.expiresAt - grant.obtainedAt) / 10);
  return now >= grant.expiresAt - margin * (1 + spread / 4);
}

/**
 * True while the provider must not be called again. A clock that was set back does not extend this beyond the longest
 * back-off.
 */
export function isBackingOff(grant: Grant, now: number): boolean {
  const remaining = (grant.failure?.retryAt ?? 0) - now;
  return remaining > 0 && remaining <= 1.25 * BACK_OFF.maxRetryAfterMs;
}

/** True if the user must reconnect, or may have to. */
export function mayNeedReconnect({ failure }: Grant): boolean {
  return failure !== undefined && failure.kind !== 'passing';
}

export function healthOf(grant: Grant, now: number): Health {
  const { failure } = grant;
  if (failure && failure.kind !== 'passing') return failure.kind;
  if (failure && (failure.tokenRefused || !hasUsableToken(grant, now))) return 'unverified';
  if (grant.refreshToken !== undefined) {
    const remaining = (grant.refreshExpiresAt ?? Number.POSITIVE_INFINITY) - now;
    return remaining < REFRESH_EXPIRING_MS ? 'expiring' : 'active';
  }
  if (!hasUsableToken(grant, now)) return 'reconnect_needed';
  return grant.expiresAt !== undefined && grant.expiresAt - now < EXPIRING_MS ? 'expiring' : 'active';
}

/**
 * Returns the grant after a token response. A refresh token, scopes (RFC 6749 section 6) or an API base URL that the
 * response leaves out stay as they were.
 * @param lifetimeSeconds the app's setting for providers that send no `expires_in`
 */
export function withTokens(
  grant: Grant,
  response: TokenResponse,
  now: number,
  lifetimeSeconds: number | undefined,
): Grant {
  const seconds = response.expiresInSeconds ?? lifetimeSeconds;
  return {
    ...grant,
    accessToken: response.accessToken,
    dpopKey: response.dpopKey,
    refreshToken: response.refreshToken ?? grant.refreshToken,
    refreshExpiresAt: refreshExpiryOf(grant, response, now),
    scopes: response.scopes ?? grant.scopes,
    apiBaseUrl: response.apiBaseUrl ?? grant.apiBaseUrl,
    obtainedAt: now,
    expiresAt: seconds === undefined ? undefined : now + seconds * 1000,
    failure: undefined,
  };
}

/** A new refresh token without a stated lifetime is taken not to expire; a retained one keeps its own expiry. */
function refreshExpiryOf(grant: Grant, response: TokenResponse, now: number): number | undefined {
  if (response.refreshExpiresInSeconds !== undefined) return now + response.refreshExpiresInSeconds * 1000;
  return response.refreshToken === undefined ? grant.refreshExpiresAt : undefined;
}

/**
 * Returns the grant after a failed refresh. The next call waits about 30 s, then 60 s; after a refusal without a clear
 * reason, up to 10 minutes (R41).
 * @param details `random`: 0 to 1, spreads the retries
 */
export function withFailure(
  grant: Grant,
  kind: RefreshFailure['kind'],
  cause: FailureCause,
  details: Pick<RefreshFailure, 'tokenRefused' | 'reason'> & {
    now: number;
    random: number;
    retryAfterSeconds?: number | undefined;
  },
): Grant {
  const failures = (grant.failure?.failures ?? 0) + 1;
  const maxWait = BACK_OFF.maxMs[kind];
  const wait = Math.min(maxWait, BACK_OFF.minMs * 2 ** (failures - 1)) * (0.75 + details.random / 2);
  const retryAfter = Math.min(BACK_OFF.maxRetryAfterMs, (details.retryAfterSeconds ?? 0) * 1000);
  const since = grant.failure?.kind === kind ? grant.failure.since : details.now;
  const failure: RefreshFailure = { kind, cause, since, failures, retryAt: details.now + Math.max(wait, retryAfter) };
  const tokenRefused = details.tokenRefused || grant.failure?.tokenRefused;
  const { reason } = details;
  return { ...grant, failure: { ...failure, ...(tokenRefused && { tokenRefused }), ...(reason && { reason }) } };
}

/**
 * Returns the token to revoke in order to end a grant: the newest refresh token, whose revocation ends the whole grant
 * at most providers; without a refresh token, the access token.
 */
export function revocationToken(tokens: Pick<Grant, 'accessToken' | 'refreshToken'> & Partial<Pick<Grant, 'refresh'>>) {
  const refreshToken = tokens.refresh?.received ?? tokens.refreshToken;
  return refreshToken === undefined
    ? ({ token: tokens.accessToken, hint: 'access_token' } as const)
    : ({ token: refreshToken, hint: 'refresh_token' } as const);
}

/** Returns a number between 0 and 1 that is constant for a user. */
export function spreadOf(userId: string): number {
  let hash = 0;
  for (const character of userId) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) % 65_536;
  return hash / 65_536;
}
