/** The grant that a consent creates: its scopes, and the refresh token that it takes over from an earlier grant. Pure. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import { isSameIssuer } from '../connected-apps/issuer.ts';
import type { TokenResponse } from '../connected-apps/token-response.ts';
import { type Grant, isBroken, withTokens } from './grant.ts';

export interface Consent {
  userId: string;
  app: ConnectedApp;
  response: TokenResponse;
  /** The requested scopes: granted where the response names none. */
  scopes: readonly string[];
  account: Grant['account'];
  /** The user chose the scopes; a sign-in requests all of them. */
  chosen?: boolean | undefined;
}

export const OFFLINE = 'offline_access';

/** @param earlier the stored grant of the same user, app and account. @param now milliseconds since the epoch */
export function consentedGrant(consent: Consent, earlier: Grant | undefined, now: number): Grant {
  const { userId, app, response, scopes, account, chosen = false } = consent;
  const granted = grantedBy(response, scopes, earlier);
  if (earlier && !chosen && isNarrower(earlier, granted)) {
    return { ...earlier, consentedAt: now };
  }
  const reusable = earlier && canLast(earlier, granted) ? earlier : undefined;
  const base: Grant = {
    ...earlier,
    userId,
    appId: app.id,
    accessToken: response.accessToken,
    // A provider may issue no refresh token for a second consent, so the earlier one is kept. After an interrupted refresh
    // that is the token in the journal.
    refreshToken: reusable?.refresh?.received ?? reusable?.refreshToken,
    refreshExpiresAt: reusable?.refresh?.received === undefined ? reusable?.refreshExpiresAt : undefined,
    scopes: [...scopes],
    account,
    obtainedAt: now,
    expiresAt: undefined,
    connectedAt: earlier?.connectedAt ?? now,
    consentedAt: now,
    chosen,
    failure: undefined,
    refresh: undefined,
    rotates: undefined,
    refreshedBy: undefined,
  };
  return withTokens(base, { ...response, scopes: granted }, now, app.accessTokenLifetimeSeconds);
}

/** True where the refresh token can be kept with new tokens: it was not refused, and covers no scope that was dropped. */
export function canLast({ failure, scopes }: Grant, granted: readonly string[]): boolean {
  return failure?.kind !== 'reconnect_needed' && scopes.every((scope) => granted.includes(scope));
}

/**
 * The granted scopes. A provider that does not ask for consent again leaves `offline_access` out of its response (OpenID
 * Connect Core section 11), but the earlier refresh token stays valid.
 */
function grantedBy({ scopes, refreshToken }: TokenResponse, requested: readonly string[], earlier: Grant | undefined) {
  const granted = scopes ?? requested;
  const isReusable = earlier?.refreshToken !== undefined && earlier.failure?.kind !== 'reconnect_needed';
  return isReusable && earlier.scopes.includes(OFFLINE) && refreshToken === undefined && requested.includes(OFFLINE)
    ? [...new Set([...granted, OFFLINE])]
    : [...granted];
}

/** True for a working grant whose user chose fewer scopes than these. */
function isNarrower(grant: Grant, granted: readonly string[]): boolean {
  const { chosen, scopes, refreshToken } = grant;
  return (
    chosen === true &&
    refreshToken !== undefined &&
    !isBroken(grant) &&
    granted.some((scope) => !scopes.includes(scope))
  );
}

export function sameAccount(app: ConnectedApp, grant: Grant, account: Grant['account']): boolean {
  // Without a subject the grant may belong to any account.
  const isSameSubject = account.subject !== undefined && grant.account.subject === account.subject;
  return isSameSubject && isSameIssuer(app, grant.account, account);
}
