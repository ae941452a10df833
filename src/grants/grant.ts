/** Owns what a grant is: its token set, when that is fresh or usable, and how healthy the connection is. Pure. */
import type { DpopKey } from '../connected-apps/dpop.ts';
import type { TokenAnswer } from '../connected-apps/token-answer.ts';

/** Why a connection is not well. `kind` decides what happens next, `cause` is a fixed word for pages and logs. */
export interface Trouble {
  /** `passing`: heals alone. `in_doubt`: refused in a way that is no proof. `reconnect_needed`: ended for good. */
  kind: 'passing' | 'in_doubt' | 'reconnect_needed';
  cause: TroubleCause;
  /** Milliseconds since the epoch, like every time in this file. */
  since: number;
  /** How often in a row. */
  failures: number;
  /** The provider is not asked again before. */
  retryAt: number;
}

export type TroubleCause =
  | 'grant_refused'
  | 'answer_lost'
  | 'access_ended'
  | 'access_token_refused'
  | 'unclear_refusal'
  | 'unusable_answer'
  | 'provider_unavailable'
  | 'app_refused'
  | 'unreadable';

/** The same in words for the person whose connection it is. */
export const TROUBLE_WORDS: Record<TroubleCause, string> = {
  grant_refused: 'The provider has ended this connection.',
  answer_lost: 'The last renewal of the access was interrupted, and the provider gives each renewal only once.',
  access_ended: 'The access that was granted has run out, and the provider gave nothing to renew it with.',
  access_token_refused: 'The platform no longer accepts the access that was granted.',
  unclear_refusal: 'The provider refused to renew the access and did not say clearly why.',
  unusable_answer: 'The provider gave an answer that cannot be used.',
  provider_unavailable: 'The provider could not be reached.',
  app_refused: 'The provider does not accept the registration of this app at the moment.',
  unreadable: 'What was kept of this connection cannot be read any more.',
};

export interface Grant {
  userId: string;
  appId: string;
  accessToken: string;
  /** What the access token is bound to (RFC 9449); absent for a bearer token. */
  dpopKey?: DpopKey | undefined;
  refreshToken: string | undefined;
  /** Kept as the hint that signing out at the provider needs. */
  idToken: string | undefined;
  scopes: string[];
  /** The account at the provider. */
  account: { subject?: string | undefined; name?: string | undefined; email?: string | undefined };
  obtainedAt: number;
  /** Undefined where the provider does not say: then a 401 tells that the access token is spent. */
  expiresAt: number | undefined;
  connectedAt: number;
  /** When its user signed in or consented last; absent in a grant of before that was noted. */
  consentedAt?: number | undefined;
  /** Its user chose these scopes among others: a later sign-in, which asks for all, does not widen them. */
  chosen?: boolean | undefined;
  trouble: Trouble | undefined;
  /** The journal: there while a refresh is under way, and after one whose answer never came. */
  refresh: OpenRefresh | undefined;
  /** When the refresh token ends; absent where the provider does not say. */
  refreshExpiresAt?: number | undefined;
  /** Whether the last refresh brought a new refresh token; undefined before the first. */
  rotates?: boolean;
  /** The fencing number of the refresh that brought the tokens: of two at the same time the later one counts. Absent after a sign-in. */
  refreshedBy?: number | undefined;
}

/**
 * True where a refresh token may be good for one use only: then a refresh whose answer never came may have spent it.
 * @param setting the app's own word, which counts before what was seen
 */
export function isSpentByUse(grant: Grant, setting: 'rotating' | 'reusable' | undefined): boolean {
  return setting === undefined ? grant.rotates !== false : setting === 'rotating';
}

export interface OpenRefresh {
  startedAt: number;
  /** What the provider gave, kept before the rest of its answer was judged. */
  received: string | undefined;
}

export type Health = 'active' | 'expiring' | 'in_doubt' | 'reconnect_needed';

const MARGIN_MILLISECONDS = 60_000;
const EXPIRING_MILLISECONDS = 600_000;
/** A person who comes by every few days should hear of it in time. */
const REFRESH_EXPIRING_MILLISECONDS = 3 * 86_400_000;
const BACK_OFF = {
  firstMilliseconds: 30_000,
  /** A provider that is back should be found soon; one that refuses without a reason is left alone for longer. */
  mostMilliseconds: { passing: 60_000, in_doubt: 600_000, reconnect_needed: 600_000 },
  mostAskedMilliseconds: 600_000,
};

/** True while the access token can be sent. */
export function isUsable(grant: Grant, now: number): boolean {
  return grant.expiresAt === undefined || now < grant.expiresAt;
}

/**
 * True once less than 60 s, or a tenth of the lifetime where that is shorter, is left. The spread (up to a quarter earlier)
 * keeps grants that were made together from being refreshed together.
 * @param spread 0 to 1, the same for one grant at each call
 */
export function isRefreshDue(grant: Grant, now: number, spread: number): boolean {
  if (grant.expiresAt === undefined) return false;
  const margin = Math.min(MARGIN_MILLISECONDS, (grant.expiresAt - grant.obtainedAt) / 10);
  return now >= grant.expiresAt - margin * (1 + spread / 4);
}

/** True while the provider is not to be asked again. A clock that was set back does not make this longer than any back-off. */
export function isBackingOff(grant: Grant, now: number): boolean {
  const left = (grant.trouble?.retryAt ?? 0) - now;
  return left > 0 && left <= 1.25 * BACK_OFF.mostAskedMilliseconds;
}

/** Good for nothing before its user connects again, or before it is clear whether they have to. */
export function isBroken({ trouble }: Grant): boolean {
  return trouble !== undefined && trouble.kind !== 'passing';
}

/** How people see the grant. */
export function healthOf(grant: Grant, now: number): Health {
  if (grant.trouble && grant.trouble.kind !== 'passing') return grant.trouble.kind;
  if (grant.refreshToken !== undefined) {
    const left = (grant.refreshExpiresAt ?? Number.POSITIVE_INFINITY) - now;
    return left < REFRESH_EXPIRING_MILLISECONDS ? 'expiring' : 'active';
  }
  if (!isUsable(grant, now)) return 'reconnect_needed';
  return grant.expiresAt !== undefined && grant.expiresAt - now < EXPIRING_MILLISECONDS ? 'expiring' : 'active';
}

/**
 * The grant after a token answer. What the answer leaves out stays as it was: refresh token (RFC 6749 section 6),
 * scopes and ID token.
 * @param lifetimeSeconds the app's setting for providers that send no `expires_in`
 */
export function withTokens(grant: Grant, answer: TokenAnswer, now: number, lifetimeSeconds: number | undefined): Grant {
  const seconds = answer.expiresInSeconds ?? lifetimeSeconds;
  return {
    ...grant,
    accessToken: answer.accessToken,
    dpopKey: answer.dpopKey,
    refreshToken: answer.refreshToken ?? grant.refreshToken,
    refreshExpiresAt: refreshEnd(grant, answer, now),
    idToken: answer.idToken ?? grant.idToken,
    scopes: answer.scopes ?? grant.scopes,
    obtainedAt: now,
    expiresAt: seconds === undefined ? undefined : now + seconds * 1000,
    trouble: undefined,
  };
}

/** A new refresh token of which nothing is said has no known end; one that stays keeps its own. */
function refreshEnd(grant: Grant, answer: TokenAnswer, now: number): number | undefined {
  if (answer.refreshExpiresInSeconds !== undefined) return now + answer.refreshExpiresInSeconds * 1000;
  return answer.refreshToken === undefined ? grant.refreshExpiresAt : undefined;
}

/**
 * The grant after a failed refresh: the provider is asked again after about 30 s, then 60 s; where it refuses without
 * saying why the wait grows to 10 minutes (R41).
 * @param random 0 to 1
 */
export function withTrouble(
  grant: Grant,
  kind: Trouble['kind'],
  cause: TroubleCause,
  moment: { now: number; random: number; retryAfterSeconds?: number | undefined },
): Grant {
  const failures = (grant.trouble?.failures ?? 0) + 1;
  const most = BACK_OFF.mostMilliseconds[kind];
  const wait = Math.min(most, BACK_OFF.firstMilliseconds * 2 ** (failures - 1)) * (0.75 + moment.random / 2);
  const asked = Math.min(BACK_OFF.mostAskedMilliseconds, (moment.retryAfterSeconds ?? 0) * 1000);
  const since = grant.trouble?.kind === kind ? grant.trouble.since : moment.now;
  return { ...grant, trouble: { kind, cause, since, failures, retryAt: moment.now + Math.max(wait, asked) } };
}

/**
 * What is revoked to end the grant: the newest refresh token, which ends all of it at most providers; where there is none the
 * access token is all that can be.
 */
export function revocationToken(grant: Grant): { token: string; hint: 'refresh_token' | 'access_token' } {
  const refreshToken = grant.refresh?.received ?? grant.refreshToken;
  return refreshToken === undefined
    ? { token: grant.accessToken, hint: 'access_token' }
    : { token: refreshToken, hint: 'refresh_token' };
}

/** 0 to 1, always the same for one user. */
export function spreadOf(userId: string): number {
  let hash = 0;
  for (const character of userId) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) % 65_536;
  return hash / 65_536;
}
