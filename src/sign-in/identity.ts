/** Owns what follows from verified claims: who somebody is here, whether they may sign in, and whether they administer. Pure. */
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { Claims } from '../connected-apps/token-answer.ts';
import type { ProviderSession, SessionUser } from '../http/session-data.ts';
import { hashOf } from '../storage/keys.ts';

export interface AdminRule {
  /** Id of the app that alone can make administrators. */
  app: string | undefined;
  claim: string;
  values: readonly string[];
  /** The `acr` that the administration demands (step-up). */
  acr?: string | undefined;
}

/** One id for each issuer and subject, never by e-mail address (R19). */
export function userIdOf(issuer: string, subject: string): string {
  return `u${hashOf(JSON.stringify([issuer, subject])).slice(0, 22)}`;
}

/** One id for each issuer and `sid` (OpenID Connect Back-Channel Logout 1.0 section 2.1). */
export function providerSessionIdOf(issuer: string, sid: string): string {
  return hashOf(JSON.stringify([issuer, sid]));
}

/** @param idToken claims of the ID token alone: userinfo knows nothing of this */
export function providerSessionOf(issuer: string, idToken: Claims): ProviderSession {
  const { sid, iat } = idToken;
  const named = typeof sid === 'string' && sid !== '';
  return { ...(named ? { id: providerSessionIdOf(issuer, sid) } : {}), issuedAt: Number(iat) };
}

/** The claims that decide who may sign in and who administers: without them nobody can. */
export function decidingClaims(app: ConnectedApp, admin: AdminRule): string[] {
  const allow = app.signIn?.allow;
  return [...(typeof allow === 'object' ? [allow.claim] : []), ...(admin.app === app.id ? [admin.claim] : [])];
}

/** The claims that make pages friendlier; like the deciding ones, many ID tokens lack them. */
export const FRIENDLY_CLAIMS = ['name', 'email'];

export function maySignIn(app: ConnectedApp, claims: Claims): boolean {
  const allow = app.signIn?.allow;
  if (allow === undefined) return false;
  return allow === 'everyone' || holds(claims, allow.claim, allow.values);
}

export function sessionUser(app: ConnectedApp, claims: Claims, admin: AdminRule): SessionUser {
  return {
    id: userIdOf(app.issuer, claims.sub),
    issuer: app.issuer,
    subject: claims.sub,
    name: text(claims.name) ?? text(claims.preferred_username),
    email: text(claims.email),
    admin: admin.app === app.id && holds(claims, admin.claim, admin.values),
  };
}

/** A claim may be one text or a list of them; compared character by character. */
function holds(claims: Claims, claim: string, values: readonly string[]): boolean {
  const held = Object.hasOwn(claims, claim) ? claims[claim] : undefined;
  return (Array.isArray(held) ? held : [held]).some((value) => typeof value === 'string' && values.includes(value));
}

/** @param idToken claims of the ID token alone, as for the session */
export function acrOf(idToken: Claims | undefined): string | undefined {
  return text(idToken?.acr);
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value.trim().slice(0, 200) : undefined;
}
