/** Verifies a provider's logout tokens (OpenID Connect Back-Channel Logout 1.0 sections 2.4 and 2.6). */
import type { JWTPayload } from 'jose';
import { isObject } from '../../shared/json.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { issuerOf } from '../../shared/provider/issuer.ts';
import {
  JWT_TOLERANCE_SECONDS,
  MAX_IAT_AHEAD_SECONDS,
  type ProviderJwts,
  RefusedJwt,
} from '../../shared/provider/provider-jwt.ts';

/** A logout token with a subject, a provider session, or both. */
export interface LogoutToken {
  issuer: string;
  jti: string;
  /** Seconds since the epoch, by the provider's clock. */
  issuedAt: number;
  subject: string | undefined;
  providerSession: string | undefined;
}

/** `fault`: a fixed text for logs and for the provider; it repeats nothing from the token. */
export type VerifiedLogoutToken = { token: LogoutToken } | { fault: string };

const MAX_AGE_SECONDS = 600;
/** The time from the first moment at which a logout token can be accepted to the last. */
export const LOGOUT_TOKEN_SECONDS = MAX_IAT_AHEAD_SECONDS + MAX_AGE_SECONDS + JWT_TOLERANCE_SECONDS;
const EVENT = 'http://schemas.openid.net/event/backchannel-logout';
const RULES = { type: 'logout+jwt', requiredClaims: ['iat', 'exp'], maxAgeSeconds: MAX_AGE_SECONDS };

/** @throws ProviderError if the provider's metadata or keys are unavailable */
export async function verifyLogoutToken(
  jwts: ProviderJwts,
  app: ConnectedApp,
  token: string,
): Promise<VerifiedLogoutToken> {
  try {
    return logoutTokenOf(app, await jwts.verify(app, token, RULES));
  } catch (error) {
    if (!(error instanceof RefusedJwt)) throw error;
    return {
      fault: 'The logout token was not recently signed by the provider for this app, or is of another type.',
    };
  }
}

function logoutTokenOf(app: ConnectedApp, claims: JWTPayload): VerifiedLogoutToken {
  const { jti, iat, sub, sid, events } = claims;
  if (!isText(jti)) return { fault: 'The logout token has no jti.' };
  // Back-Channel Logout 1.0 section 2.4: an ID token must not be accepted as a logout token.
  if ('nonce' in claims) return { fault: 'The logout token has a nonce.' };
  if (!isObject(events) || !isObject(events[EVENT])) return { fault: 'The logout token does not name the event.' };
  const names = [sub, sid].filter((name) => name !== undefined);
  if (names.length === 0 || !names.every(isText)) {
    return { fault: 'The logout token names neither a subject nor a session.' };
  }
  return {
    token: {
      issuer: issuerOf(app, claims),
      jti,
      issuedAt: iat ?? 0,
      subject: sub,
      providerSession: sid as string | undefined,
    },
  };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
