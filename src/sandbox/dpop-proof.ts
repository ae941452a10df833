/**
 * Checks DPoP proofs at the platform (RFC 9449 section 4.3): right request, token and key, and used only once.
 * jose verifies the signature. No package checks a proof beside an opaque access token: oauth4webapi 3.8.8 makes proofs, and
 * checks them only as a part of `validateJwtAccessToken`, without replays; oidc-provider's check belongs to its own endpoints.
 */
import { createHash } from 'node:crypto';
import { calculateJwkThumbprint, EmbeddedJWK, jwtVerify } from 'jose';

export const DPOP_ALGORITHMS = ['ES256', 'EdDSA', 'Ed25519', 'PS256', 'RS256'];

export interface ProofClaim {
  proof: string;
  method: string;
  /** Without the query. */
  url: string;
  token: string;
  keyThumbprint: string;
}

const WINDOW_SECONDS = 60;
const MAX_SEEN = 10_000;

export function createProofCheck({ now }: { now: () => number }): (claim: ProofClaim) => Promise<boolean> {
  const seen = new Set<string>();

  return async ({ proof, method, url, token, keyThumbprint }) => {
    const checked = await jwtVerify(proof, EmbeddedJWK, { algorithms: DPOP_ALGORITHMS, typ: 'dpop+jwt' }).catch(
      () => undefined,
    );
    if (checked?.protectedHeader.jwk === undefined) return false;
    const { htm, htu, ath, iat, jti } = checked.payload;
    const isForThisRequest =
      htm === method &&
      typeof htu === 'string' &&
      URL.parse(htu)?.href.split(/[?#]/)[0] === new URL(url).href &&
      ath === createHash('sha256').update(token).digest('base64url');
    const isRecent = typeof iat === 'number' && Math.abs(now() / 1000 - iat) <= WINDOW_SECONDS;
    if (!isForThisRequest || !isRecent || typeof jti !== 'string' || jti === '') return false;
    if ((await calculateJwkThumbprint(checked.protectedHeader.jwk)) !== keyThumbprint) return false;
    const proofId = `${keyThumbprint} ${jti}`;
    if (seen.has(proofId)) return false;
    seen.add(proofId);
    const [oldest] = seen;
    if (seen.size > MAX_SEEN && oldest !== undefined) seen.delete(oldest);
    return true;
  };
}
