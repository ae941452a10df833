/** Owns the judging of a provider's logout tokens (OpenID Connect Back-Channel Logout 1.0 sections 2.4 and 2.6). */
import { createLocalJWKSet, type JSONWebKeySet, type JWTPayload, jwtVerify } from 'jose';
import type { ConnectedApp } from './connected-app.ts';
import type { ProviderMetadataSource } from './provider-metadata.ts';
import { type SigningKeys, signingAlgorithms } from './signing-keys.ts';

/** Names at least one of the two. */
export interface LogoutToken {
  jti: string;
  /** Seconds since the epoch, by the provider's clock. */
  issuedAt: number;
  subject: string | undefined;
  providerSession: string | undefined;
}

/** Fixed words for logs and for the provider's own people: nothing of the token is repeated. */
export type LogoutTokenFault =
  | 'The provider of this app has no keys to verify a logout token with.'
  | 'The logout token was not signed by the provider for this app just now, or is of another type.'
  | 'The logout token demands what is not understood here.'
  | 'The logout token names another audience as well.'
  | 'The logout token has no jti.'
  | 'The logout token has a nonce.'
  | 'The logout token does not name the event.'
  | 'The logout token names neither a subject nor a session.';

export interface LogoutTokens {
  /** @throws ProviderError where the provider's metadata or keys cannot be had */
  verify(app: ConnectedApp, token: string): Promise<{ token: LogoutToken } | { fault: LogoutTokenFault }>;
}

export const LOGOUT_TOKEN_SECONDS = { mostAge: 600, tolerance: 30 };
const EVENT = 'http://schemas.openid.net/event/backchannel-logout';

export function createLogoutTokens(parts: {
  metadata: ProviderMetadataSource;
  signingKeys: SigningKeys;
  clock: () => number;
}): LogoutTokens {
  const { metadata, signingKeys, clock } = parts;

  return {
    async verify(app, token) {
      const known = await metadata.load(app);
      if (!known.jwks_uri) return { fault: 'The provider of this app has no keys to verify a logout token with.' };
      const keySet = (await (await signingKeys.fetch(new URL(known.jwks_uri).href)).json()) as JSONWebKeySet;
      const verifying = (async () =>
        jwtVerify(token, createLocalJWKSet(keySet), {
          algorithms: signingAlgorithms(known),
          typ: 'logout+jwt',
          issuer: app.issuer,
          audience: app.clientId,
          maxTokenAge: LOGOUT_TOKEN_SECONDS.mostAge,
          clockTolerance: LOGOUT_TOKEN_SECONDS.tolerance,
          currentDate: new Date(clock()),
        }))();
      const verified = await verifying.catch(() => undefined);
      if (!verified) {
        return {
          fault: 'The logout token was not signed by the provider for this app just now, or is of another type.',
        };
      }
      if (verified.protectedHeader.crit) return { fault: 'The logout token demands what is not understood here.' };
      return judge(verified.payload, app.clientId);
    },
  };
}

function judge(claims: JWTPayload, clientId: string): { token: LogoutToken } | { fault: LogoutTokenFault } {
  const { aud, jti, iat, sub, sid, events } = claims;
  if (![aud].flat().every((one) => one === clientId)) {
    return { fault: 'The logout token names another audience as well.' };
  }
  if (!isText(jti)) return { fault: 'The logout token has no jti.' };
  // So that no ID token ever passes for one.
  if ('nonce' in claims) return { fault: 'The logout token has a nonce.' };
  if (!isObject(events) || !isObject(events[EVENT])) return { fault: 'The logout token does not name the event.' };
  const named = [sub, sid].filter((one) => one !== undefined);
  if (named.length === 0 || !named.every(isText)) {
    return { fault: 'The logout token names neither a subject nor a session.' };
  }
  return {
    token: { jti, issuedAt: iat ?? 0, subject: sub, providerSession: sid as string | undefined },
  };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
