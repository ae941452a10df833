/** Verifies the ID tokens that a token endpoint issues (OpenID Connect Core sections 3.1.3.7 and 12.2). */
import type { ConnectedApp } from './connected-app.ts';
import { type ProviderJwts, RefusedJwt } from './provider-jwt.ts';
import type { Claims } from './token-response.ts';

/** @throws RefusedJwt, ProviderError */
export async function verifyIdToken(jwts: ProviderJwts, app: ConnectedApp, token: string): Promise<Claims> {
  const claims = await jwts.verify(app, token, { requiredClaims: ['sub', 'iat', 'exp'] });
  const { sub } = claims;
  // An empty subject would make all users of the provider the same one.
  if (typeof sub !== 'string' || sub === '') throw new RefusedJwt({ claim: 'sub', claims });
  return { ...claims, sub };
}
