/** Reads the user from verified claims: identity, permission to sign in, and whether the user is an administrator. */
import { isObject } from '../../shared/json.ts';
import { claimAt, isEmailClaim } from '../../shared/provider/claim-path.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { issuerOf } from '../../shared/provider/issuer.ts';
import type { ProviderClient } from '../../shared/provider/provider-client.ts';
import { ProviderError } from '../../shared/provider/provider-error.ts';
import type { Claims, TokenResponse } from '../../shared/provider/token-response.ts';
import type { ProviderSession, SessionUser } from '../../shared/sessions/session.ts';
import { hashOf } from '../../shared/storage/keys.ts';
import { cutText } from '../../shared/text.ts';
import type { ClaimObservation } from '../sign-in-record/claim-observation.ts';
import { userIdOf } from '../users/user-id.ts';
import { type ClaimRule, holds, holdsVerified, observe } from './claim-rule.ts';

export interface AdminRule extends ClaimRule {
  /** Id of the only app whose sign-ins can make a user an administrator. */
  app: string | undefined;
  /** The `acr` that the administration requires (step-up). */
  acr?: string | undefined;
}

/** Returns one id for each issuer and `sid` (OpenID Connect Back-Channel Logout 1.0 section 2.1). */
export function providerSessionIdOf(issuer: string, sid: string): string {
  return hashOf(JSON.stringify([issuer, sid]));
}

/** @param idToken claims of the ID token: userinfo has neither `sid` nor `iat` */
export function providerSessionOf(issuer: string, idToken: Claims): ProviderSession {
  const { sid, iat } = idToken;
  const hasSid = typeof sid === 'string' && sid !== '';
  return { ...(hasSid ? { id: providerSessionIdOf(issuer, sid) } : {}), issuedAt: Number(iat) };
}

/**
 * Returns the names of the claims that decide whether a user may sign in, and whether the user is an administrator.
 * @param claims of the ID token
 */
export function decidingClaims(app: ConnectedApp, admin: AdminRule, claims: Claims): string[] {
  const allow = app.signIn?.allow;
  const isListedAddress = isEmailClaim(admin.claim) && holds(claims, admin);
  const adminClaims = isListedAddress ? [admin.claim, 'email_verified'] : [admin.claim];
  return [...(typeof allow === 'object' ? [allow.claim] : []), ...(admin.app === app.id ? adminClaims : [])];
}

/** Claims that pages show. Many ID tokens lack them, and a sign-in succeeds without them. */
const DISPLAY_CLAIMS = ['name', 'email'];

/**
 * Returns the claims of the ID token. Those of userinfo are added if the ID token lacks one that is used.
 * @throws ProviderError
 */
export async function claimsWithUserinfo(
  { provider, admin }: { provider: Pick<ProviderClient, 'userinfo'>; admin: AdminRule },
  app: ConnectedApp,
  response: TokenResponse,
): Promise<Claims | undefined> {
  const { claims } = response;
  if (!claims) return undefined;
  const lacks = (names: string[]) => names.some((name) => claimAt(claims, name) === undefined);
  const lacksDecidingClaim = lacks(decidingClaims(app, admin, claims));
  if (!lacksDecidingClaim && !lacks(DISPLAY_CLAIMS)) return claims;
  const userinfo = await provider.userinfo(app, response, claims.sub).catch((error: unknown) => {
    // A sign-in succeeds without a name, but fails if userinfo is about another subject.
    if (lacksDecidingClaim || !(error instanceof ProviderError) || error.failure === 'invalid') throw error;
    return undefined;
  });
  return userinfo ? withUserinfo(claims, userinfo) : claims;
}

/** Adds what the ID token lacks, also within its objects. `email_verified` belongs to the address that it came with. */
function withUserinfo(idToken: Claims, userinfo: Record<string, unknown>): Claims {
  const claims = merged(idToken, userinfo);
  const verifying = [idToken, userinfo].find(
    ({ email, email_verified: verified }) => email === claims.email && (verified ?? null) !== null,
  );
  return { ...claims, sub: idToken.sub, email_verified: verifying?.email_verified };
}

/** Claims have a few levels: below these, an object is not completed. */
const MERGED_LEVELS = 5;

function merged(
  first: Record<string, unknown>,
  second: Record<string, unknown>,
  levels = MERGED_LEVELS,
): Record<string, unknown> {
  const completed = Object.entries(first).map(([name, value]) => {
    const other = Object.hasOwn(second, name) ? second[name] : undefined;
    return [
      name,
      isObject(value) && isObject(other) && levels > 1 ? merged(value, other, levels - 1) : (value ?? other),
    ];
  });
  return { ...second, ...Object.fromEntries(completed) };
}

export function maySignIn(app: ConnectedApp, claims: Claims): boolean {
  const allow = app.signIn?.allow;
  if (allow === undefined) return false;
  return allow === 'everyone' || holds(claims, allow);
}

/** Says why the app's rule for users excludes this one; undefined without a rule about a claim. */
export function whyNotPermitted(app: ConnectedApp, claims: Claims | undefined): ClaimObservation | undefined {
  const allow = app.signIn?.allow;
  return claims && typeof allow === 'object' ? observe(claims, allow) : undefined;
}

/** Says why this user is no administrator; undefined for an administrator, and at an app that makes none. */
export function whyNoAdministrator(app: ConnectedApp, claims: Claims, admin: AdminRule): ClaimObservation | undefined {
  return admin.app !== app.id || holdsVerified(claims, admin) ? undefined : observe(claims, admin);
}

export function sessionUser(app: ConnectedApp, claims: Claims, admin: AdminRule): SessionUser {
  const issuer = issuerOf(app, claims);
  return {
    id: userIdOf(issuer, claims.sub),
    issuer,
    subject: claims.sub,
    name: textOf(claims.name) ?? textOf(claims.preferred_username),
    email: textOf(claims.email),
    admin: admin.app === app.id && holdsVerified(claims, admin),
  };
}

/** @param idToken claims of the ID token */
export function acrOf(idToken: Claims | undefined): string | undefined {
  return textOf(idToken?.acr);
}

/** @param idToken claims of the ID token. Providers that do not know the time send no `auth_time`, or 0. */
export function authTimeOf(idToken: Claims | undefined): number | undefined {
  const time = Number(idToken?.auth_time);
  return time > 0 ? time : undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? cutText(value.trim(), 200) || undefined : undefined;
}
