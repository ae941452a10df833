/** Reads the user from verified claims: identity, permission to sign in, and whether the user is an administrator. */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { issuerOf } from '../../shared/provider/issuer.ts';
import type { ProviderClient } from '../../shared/provider/provider-client.ts';
import { ProviderError } from '../../shared/provider/provider-error.ts';
import type { Claims, TokenResponse } from '../../shared/provider/token-response.ts';
import type { ProviderSession, SessionUser } from '../../shared/sessions/session.ts';
import { hashOf } from '../../shared/storage/keys.ts';
import { cutText } from '../../shared/text.ts';
import { userIdOf } from '../users/user-id.ts';

export interface AdminRule {
  /** Id of the only app whose sign-ins can make a user an administrator. */
  app: string | undefined;
  claim: string;
  values: readonly string[];
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

/** Returns the names of the claims that decide whether a user may sign in, and whether the user is an administrator. */
export function decidingClaims(app: ConnectedApp, admin: AdminRule): string[] {
  const allow = app.signIn?.allow;
  return [...(typeof allow === 'object' ? [allow.claim] : []), ...(admin.app === app.id ? [admin.claim] : [])];
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
  const lacks = (names: string[]) => names.some((name) => claims[name] === undefined);
  const lacksDecidingClaim = lacks(decidingClaims(app, admin));
  if (!lacksDecidingClaim && !lacks(DISPLAY_CLAIMS)) return claims;
  const userinfo = await provider.userinfo(app, response, claims.sub).catch((error: unknown) => {
    // A sign-in succeeds without a name, but fails if userinfo is about another subject.
    if (lacksDecidingClaim || !(error instanceof ProviderError) || error.failure === 'invalid') throw error;
    return undefined;
  });
  return { ...userinfo, ...claims };
}

export function maySignIn(app: ConnectedApp, claims: Claims): boolean {
  const allow = app.signIn?.allow;
  if (allow === undefined) return false;
  return allow === 'everyone' || hasValue(claims, allow.claim, allow.values);
}

export function sessionUser(app: ConnectedApp, claims: Claims, admin: AdminRule): SessionUser {
  const issuer = issuerOf(app, claims);
  return {
    id: userIdOf(issuer, claims.sub),
    issuer,
    subject: claims.sub,
    name: textOf(claims.name) ?? textOf(claims.preferred_username),
    email: textOf(claims.email),
    admin: admin.app === app.id && hasValue(claims, admin.claim, admin.values),
  };
}

/** A claim is one string or a list of strings, compared character by character. */
function hasValue(claims: Claims, claim: string, values: readonly string[]): boolean {
  const value = Object.hasOwn(claims, claim) ? claims[claim] : undefined;
  return (Array.isArray(value) ? value : [value]).some((text) => typeof text === 'string' && values.includes(text));
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
