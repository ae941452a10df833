/** Owns the judging of ID tokens that services show as proof of a user: issued for one of our sign-in apps, signed, and not ended. */
import { createLocalJWKSet, decodeJwt, type JSONWebKeySet, jwtVerify } from 'jose';
import type { ConnectedApp } from './connected-app.ts';
import type { ProviderMetadataSource } from './provider-metadata.ts';
import { type SigningKeys, signingAlgorithms } from './signing-keys.ts';

export interface IdTokens {
  /**
   * Issuer and subject of an ID token of one of these apps; undefined for any other text.
   * @throws ProviderError where the provider's metadata or keys cannot be had
   */
  verify(token: string, apps: readonly ConnectedApp[]): Promise<{ issuer: string; subject: string } | undefined>;
}

const LONGEST = 16_384;
const TOLERANCE_SECONDS = 30;

export function createIdTokens(parts: {
  metadata: ProviderMetadataSource;
  signingKeys: SigningKeys;
  clock: () => number;
}): IdTokens {
  const { metadata, signingKeys, clock } = parts;

  const verifyFor = async (token: string, app: ConnectedApp) => {
    const known = await metadata.load(app);
    if (!known.jwks_uri) return undefined;
    const keySet = (await (await signingKeys.fetch(new URL(known.jwks_uri).href)).json()) as JSONWebKeySet;
    const verified = await jwtVerify(token, createLocalJWKSet(keySet), {
      algorithms: signingAlgorithms(known),
      issuer: app.issuer,
      audience: app.clientId,
      requiredClaims: ['sub', 'iat', 'exp'],
      clockTolerance: TOLERANCE_SECONDS,
      currentDate: new Date(clock()),
    }).catch(() => undefined);
    if (!verified || verified.protectedHeader.crit) return undefined;
    const { sub, aud, azp, events } = verified.payload;
    // Another audience beside ours, or another party (OpenID Connect Core section 3.1.3.7); a logout token is none.
    const foreign = [aud].flat().some((one) => one !== app.clientId) || (azp !== undefined && azp !== app.clientId);
    const type = verified.protectedHeader.typ?.toLowerCase();
    if (foreign || events !== undefined || (type !== undefined && type !== 'jwt')) return undefined;
    return sub ? { issuer: app.issuer, subject: sub } : undefined;
  };

  return {
    async verify(token, apps) {
      if (token.length > LONGEST) return undefined;
      const claims = unverified(token);
      const audiences = [claims?.aud].flat();
      const app = apps.find(({ issuer, clientId }) => issuer === claims?.iss && audiences.includes(clientId));
      return app && verifyFor(token, app);
    },
  };
}

/** Only to find out which keys to verify with. */
function unverified(token: string) {
  try {
    return decodeJwt(token);
  } catch {
    return undefined;
  }
}
