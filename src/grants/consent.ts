/** Owns what a consent makes of a grant: the scopes it is good for, and what of an earlier one lasts. Pure. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { TokenAnswer } from '../connected-apps/token-answer.ts';
import { type Grant, isBroken, withTokens } from './grant.ts';

export interface Consent {
  userId: string;
  app: ConnectedApp;
  answer: TokenAnswer;
  /** What was asked for: granted where the answer names no scopes. */
  scopes: readonly string[];
  account: Grant['account'];
  /** The user chose the scopes, in place of being asked for all by a sign-in. */
  chosen?: boolean | undefined;
}

export const OFFLINE = 'offline_access';

/** @param earlier of the same user, app and account; @param now milliseconds since the epoch */
export function consentedGrant(consent: Consent, earlier: Grant | undefined, now: number): Grant {
  const { userId, app, answer, scopes, account, chosen = false } = consent;
  const granted = grantedBy(answer, scopes, earlier);
  if (earlier && !chosen && isNarrower(earlier, granted)) {
    return { ...earlier, idToken: answer.idToken ?? earlier.idToken, consentedAt: now };
  }
  const lasting = earlier && canLast(earlier, granted) ? earlier : undefined;
  const base: Grant = {
    userId,
    appId: app.id,
    accessToken: answer.accessToken,
    // A provider may give none the second time; a grant that was refused has none worth keeping.
    // What a refresh brought that nobody could end any more has taken the place of the one it was made with.
    refreshToken: lasting?.refresh?.received ?? lasting?.refreshToken,
    refreshExpiresAt: lasting?.refresh?.received === undefined ? lasting?.refreshExpiresAt : undefined,
    idToken: undefined,
    scopes: [...scopes],
    account,
    obtainedAt: now,
    expiresAt: undefined,
    connectedAt: earlier?.connectedAt ?? now,
    consentedAt: now,
    chosen,
    trouble: undefined,
    refresh: undefined,
  };
  return withTokens(base, { ...answer, scopes: granted }, now, app.accessTokenLifetimeSeconds);
}

/** A refresh token is worth keeping beside new tokens unless it was refused, or would bring back what was dropped. */
export function canLast({ trouble, scopes }: Grant, granted: readonly string[]): boolean {
  return trouble?.kind !== 'reconnect_needed' && scopes.every((scope) => granted.includes(scope));
}

/**
 * The scopes of what a code brought. A provider that asks for no consent anew leaves `offline_access` out, whoever asked for
 * it (OpenID Connect Core section 11): that ends no refresh token of the same user.
 */
function grantedBy({ scopes, refreshToken }: TokenAnswer, asked: readonly string[], earlier: Grant | undefined) {
  const given = scopes ?? asked;
  const isKept = earlier?.refreshToken !== undefined && earlier.trouble?.kind !== 'reconnect_needed';
  return isKept && earlier.scopes.includes(OFFLINE) && refreshToken === undefined && asked.includes(OFFLINE)
    ? [...new Set([...given, OFFLINE])]
    : [...given];
}

/** True for a well grant whose user has chosen fewer scopes than these. */
function isNarrower(grant: Grant, granted: readonly string[]): boolean {
  const { chosen, scopes, refreshToken } = grant;
  return (
    chosen === true &&
    refreshToken !== undefined &&
    !isBroken(grant) &&
    granted.some((scope) => !scopes.includes(scope))
  );
}

export function sameAccount(grant: Grant, account: Grant['account']): boolean {
  // Where the provider names nobody, it may be anybody's.
  return account.subject !== undefined && grant.account.subject === account.subject;
}
