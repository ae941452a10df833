/** Verifies all JWTs of a provider with the same rules: ID tokens, logout tokens, signed userinfo responses (R98). */
import { errors, type JWK, type JWTHeaderParameters, type JWTPayload, jwtVerify } from 'jose';
import type { ConnectedApp } from './connected-app.ts';
import { acceptedIssuers, isIssuerTemplate, issuerOfTenant } from './issuer.ts';
import { isGone } from './provider-error.ts';
import type { ProviderMetadataSource } from './provider-metadata.ts';
import { type SigningKeys, signingAlgorithms } from './signing-keys.ts';
import type { Claims } from './token-response.ts';

/** Rules in addition to those of every JWT: signature, algorithm, issuer, audience, times and type. */
export interface JwtRules {
  requiredClaims: readonly string[];
  /** A media type that `typ` may name in place of `JWT` (RFC 8725 section 3.11). */
  type?: string;
  /** The age is counted from `iat`. */
  maxAgeSeconds?: number;
  /** The metadata member that lists the algorithms; by default that of ID tokens. */
  algorithms?: 'userinfo_signing_alg_values_supported';
}

export interface ProviderJwts {
  /**
   * The claims of a JWT that this provider signed for this app.
   * @throws RefusedJwt
   * @throws ProviderError if the provider's metadata or keys are unavailable
   */
  verify(app: ConnectedApp, token: string, rules: JwtRules): Promise<JWTPayload>;
}

/** Has the facts from which a sign-in record names the failed check. */
export class RefusedJwt extends Error {
  /** The claim or header parameter that was refused; undefined if it was neither. */
  readonly claim: string | undefined;
  /** Not verified. */
  readonly claims: JWTPayload | undefined;
  /** By our clock, in seconds since the epoch. */
  readonly now: number | undefined;

  constructor(facts: { claim?: string; claims?: JWTPayload; now?: number; cause?: unknown }) {
    super(`JWT refused: ${facts.claim ?? 'form, key or signature'}`, { cause: facts.cause });
    this.name = 'RefusedJwt';
    this.claim = facts.claim;
    this.claims = facts.claims;
    this.now = facts.now;
  }
}

export const JWT_TOLERANCE_SECONDS = 30;
/** How far the provider's clock, which sets `iat`, may be ahead of ours. */
export const MAX_IAT_AHEAD_SECONDS = 60;

export function createProviderJwts(parts: {
  metadata: Pick<ProviderMetadataSource, 'load' | 'markStale'>;
  signingKeys: SigningKeys;
  clock: () => number;
}): ProviderJwts {
  const { metadata, signingKeys, clock } = parts;

  return {
    async verify(app, token, rules) {
      const provider = await metadata.load(app);
      if (!provider.jwks_uri) throw new RefusedJwt({});
      const jwksUrl = new URL(provider.jwks_uri).href;
      const keySet = await signingKeys.load(jwksUrl, app.id).finally(() => {
        // Even if the last keys can still be used.
        if (isGone(signingKeys.failure(jwksUrl))) metadata.markStale(app);
      });
      const now = Math.floor(clock() / 1000);
      // A key that cannot be imported throws errors that are not the library's.
      const { protectedHeader, payload } = await jwtVerify(token, keySet, {
        algorithms: signingAlgorithms(provider[rules.algorithms ?? 'id_token_signing_alg_values_supported']),
        issuer: acceptedIssuers(app),
        audience: app.clientId,
        requiredClaims: [...rules.requiredClaims],
        clockTolerance: JWT_TOLERANCE_SECONDS,
        currentDate: new Date(clock()),
      }).catch((cause: unknown) => {
        throw new RefusedJwt({ ...claimOf(app, cause), now, cause });
      });
      const isRefused =
        isIssuerTemplate(app.issuer) && !matchesTenant(app, protectedHeader, payload, keySet.jwks().keys);
      const claim = isRefused ? 'iss' : refusedClaim(app, protectedHeader, payload, { ...rules, now });
      if (claim !== undefined) throw new RefusedJwt({ claim, claims: payload, now });
      return payload;
    },
  };
}

/**
 * `sub` (OpenID Connect Core section 2), without control characters. If it could be empty, all users would be the same.
 */
export const SUBJECT = /^[\x20-\x7e]{1,255}$/;

/**
 * Verifies the ID token of a token response (OpenID Connect Core sections 3.1.3.7 and 12.2). @throws RefusedJwt,
 * ProviderError
 */
export async function verifyIdToken(jwts: ProviderJwts, app: ConnectedApp, token: string): Promise<Claims> {
  const claims = await jwts.verify(app, token, { requiredClaims: ['sub', 'iat', 'exp'] });
  const { sub } = claims;
  if (sub === undefined) throw new RefusedJwt({ claim: 'sub', claims });
  return { ...claims, sub };
}

/** Makes the checks that the library leaves out. @returns the claim or header parameter that fails a check */
function refusedClaim(
  app: ConnectedApp,
  { crit, typ }: JWTHeaderParameters,
  { aud, azp, iat, sub }: JWTPayload,
  { type: otherType, maxAgeSeconds, now }: JwtRules & { now: number },
): string | undefined {
  // The library knows one extension, `b64`, which JWTs must not use (RFC 7797 section 7).
  if (crit !== undefined) return 'crit';
  // The library does not check `typ`, so it may be of any JSON type.
  const type = String(typ ?? 'JWT')
    .toLowerCase()
    .replace(/^application\//, '');
  if (type !== 'jwt' && type !== otherType) return 'typ';
  if (sub !== undefined && !(typeof sub === 'string' && SUBJECT.test(sub))) return 'sub';
  // OpenID Connect Core section 3.1.3.7, points 3 to 5.
  if (azp !== undefined && azp !== app.clientId) return 'azp';
  if (azp === undefined && [aud].flat().some((audience) => audience !== app.clientId)) return 'aud';
  if (iat === undefined) return undefined;
  const isTooOld = maxAgeSeconds !== undefined && now - iat > maxAgeSeconds + JWT_TOLERANCE_SECONDS;
  return isTooOld || iat - now > MAX_IAT_AHEAD_SECONDS ? 'iat' : undefined;
}

/**
 * Checks that issuer and signing key belong to the token's tenant. A provider of many tenants may have keys that sign
 * for only one of them; the `issuer` member of such a key names it.
 */
function matchesTenant(
  { issuer: template }: ConnectedApp,
  { kid }: JWTHeaderParameters,
  { iss, tid }: JWTPayload,
  keys: readonly (JWK & { issuer?: unknown })[],
): boolean {
  if (typeof tid !== 'string' || iss !== issuerOfTenant(template, tid)) return false;
  const signers = keys.filter((key) => kid === undefined || key.kid === kid);
  return signers.every(({ issuer = template }) => issuerOfTenant(String(issuer), tid) === iss);
}

/** The claim is `tid` if the issuer is a tenant that the app does not name. */
function claimOf({ issuer }: ConnectedApp, error: unknown): { claim?: string; claims?: JWTPayload } {
  const isClaim = error instanceof errors.JWTClaimValidationFailed || error instanceof errors.JWTExpired;
  if (!isClaim) return {};
  const { claim, payload: claims } = error;
  const isOtherTenant = isIssuerTemplate(issuer) && claims.iss === issuerOfTenant(issuer, String(claims.tid));
  return { claim: claim === 'iss' && isOtherTenant ? 'tid' : claim, claims };
}
