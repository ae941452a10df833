/**
 * Computes the grant that a consent creates: its scopes, and the refresh token that it keeps from an earlier grant.
 * Pure.
 */
import { isDeepStrictEqual } from 'node:util';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { isSameIssuer, issuerOf } from '../../shared/provider/issuer.ts';
import { type SignInDemand, unmetPart } from '../../shared/provider/sign-in-demand.ts';
import type { TokenResponse } from '../../shared/provider/token-response.ts';
import { registrationOf } from '../connected-apps/registration.ts';
import { type Grant, isUnchecked, mayNeedReconnect, withTokens } from './grant.ts';

export interface Consent {
  userId: string;
  app: ConnectedApp;
  response: TokenResponse;
  /** The requested scopes, which are granted if the response names none. */
  scopes: readonly string[];
  account: Grant['account'];
  /** The demand of the platform that the request was for, and that the response meets. */
  metDemand?: SignInDemand | undefined;
  /** True if the user chose the scopes. A sign-in requests all of them. */
  chosen?: boolean | undefined;
}

export const OFFLINE = 'offline_access';

/**
 * Returns the grant to store after a consent.
 * @param earlier the stored grant of the same user, registration and account
 * @param newId the id of the connection if there is no earlier grant
 * @param now milliseconds since the epoch
 */
export function consentedGrant(consent: Consent, earlier: Grant | undefined, newId: string, now: number): Grant {
  const { userId, app, response, scopes, account, chosen = false } = consent;
  const granted = grantedScopes(response, scopes, earlier);
  if (earlier && !chosen && isNarrower(earlier, granted)) {
    return { ...earlier, consentedAt: now };
  }
  const reusable = earlier && canKeepToken(earlier, granted, scopes) ? earlier : undefined;
  // A sign-in requests every scope. If no more scopes were granted, the user's choice stays.
  const keepsChoice = !chosen && earlier?.chosen === true && covers(earlier.scopes, granted);
  const base: Grant = {
    ...earlier,
    id: earlier?.id ?? newId,
    userId,
    appId: app.id,
    registration: registrationOf(app),
    accessToken: response.accessToken,
    // A provider may issue no refresh token for a second consent, so the earlier one is kept. After an interrupted
    // refresh, that is the token in the journal.
    refreshToken: reusable?.refresh?.received ?? reusable?.refreshToken,
    refreshExpiresAt: reusable?.refresh?.received === undefined ? reusable?.refreshExpiresAt : undefined,
    scopes: [...scopes],
    requestedScopes: keepsChoice ? earlier.requestedScopes : [...scopes],
    announcedScopes: keepsChoice ? earlier.announcedScopes : undefined,
    declinedScopes: keepsChoice ? earlier.declinedScopes : app.scopes.filter((scope) => !scopes.includes(scope)),
    account,
    obtainedAt: now,
    expiresAt: undefined,
    connectedAt: earlier?.connectedAt ?? now,
    consentedAt: now,
    chosen: chosen || keepsChoice,
    failure: undefined,
    demand: earlier?.demand && unmetDemand(earlier.demand, consent, now),
    refresh: undefined,
    rotates: undefined,
    refreshedBy: undefined,
  };
  return withTokens(base, { ...response, scopes: granted }, now, app.accessTokenLifetimeSeconds);
}

/** Returns the demand, unless these tokens meet it: also those of a sign-in that was for something else. */
function unmetDemand(
  demand: SignInDemand,
  { metDemand, response: { claims } }: Consent,
  now: number,
): SignInDemand | undefined {
  if (isDeepStrictEqual(demand, metDemand)) return undefined;
  const isShown = claims && demand.claims === undefined && !unmetPart(demand, claims, { requestedAt: now, now });
  return isShown ? undefined : demand;
}

/** Returns the requested scopes; for an imported grant, the granted ones. */
const requestedScopesOf = ({ requestedScopes, scopes }: Grant): readonly string[] => requestedScopes ?? scopes;

const covers = (scopes: readonly string[], others: readonly string[]) =>
  others.every((scope) => scopes.includes(scope));

/** True if the refresh token can be kept after this consent: it was not refused, and has no scope that was dropped. */
function canKeepToken(grant: Grant, granted: readonly string[], requested: readonly string[]): boolean {
  // A provider may leave `offline_access` out of its responses, so only the requests show whether it was dropped.
  const dropsOffline = requestedScopesOf(grant).includes(OFFLINE) && !requested.includes(OFFLINE);
  return !hasEnded(grant) && !dropsOffline && covers([...granted, OFFLINE], grant.scopes);
}

/**
 * True if the provider must ask the user for consent again, since no stored refresh token can be kept after this
 * request: a provider need not issue another one without a new consent.
 * @param isConnecting true if the user requested exactly these scopes, and may choose another account at the provider
 */
export function needsConsent(grant: Grant | undefined, scopes: readonly string[], isConnecting: boolean): boolean {
  // Some providers issue refresh tokens without `offline_access`.
  const hadToken = grant?.refreshToken !== undefined && !requestedScopesOf(grant).includes(OFFLINE);
  if (!scopes.includes(OFFLINE) && !(isConnecting && hadToken)) return false;
  if (grant?.refreshToken === undefined || hasEnded(grant) || !covers(scopes, requestedScopesOf(grant))) return true;
  const isAccountKnown = ACCOUNT_IDS.some((id) => grant.account[id] !== undefined);
  return isConnecting && !(isAccountKnown && covers([...grant.scopes, OFFLINE], scopes));
}

const hasEnded = ({ failure }: Grant) => failure?.kind === 'reconnect_needed';

/**
 * Returns the granted scopes. A provider that does not show the consent page again leaves `offline_access` out of its
 * response (OpenID Connect Core section 11), but the earlier refresh token stays valid.
 */
function grantedScopes(
  { scopes, refreshToken }: TokenResponse,
  requested: readonly string[],
  earlier: Grant | undefined,
) {
  const granted = scopes ?? requested;
  const isReusable = earlier?.refreshToken !== undefined && !hasEnded(earlier);
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
    !mayNeedReconnect(grant) &&
    granted.some((scope) => !scopes.includes(scope))
  );
}

const ACCOUNT_IDS = ['subject', 'accountId'] as const;

/** True if both accounts are known and the same. */
export function sameAccount(app: ConnectedApp, { account: earlier }: Grant, account: Grant['account']): boolean {
  const isSameId = ACCOUNT_IDS.some((id) => account[id] !== undefined && earlier[id] === account[id]);
  return isSameId && isSameIssuer(app, earlier, account);
}

/** Returns the account of a refreshed grant; if its import named none, the account of the ID token. */
export function accountAfter(app: ConnectedApp, grant: Grant, { claims }: TokenResponse): Grant['account'] {
  const { account } = grant;
  if (claims === undefined || account.subject !== undefined || !isUnchecked(grant)) return account;
  return { ...account, issuer: issuerOf(app, claims), subject: claims.sub };
}

/** True if both accounts are known and differ. */
export function isOtherAccount(app: ConnectedApp, grant: Grant, account: Grant['account']): boolean {
  const areKnown = ACCOUNT_IDS.some((id) => account[id] !== undefined && grant.account[id] !== undefined);
  return areKnown && !sameAccount(app, grant, account);
}
