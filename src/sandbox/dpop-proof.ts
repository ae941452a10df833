/**
 * Checks DPoP proofs at the platform (RFC 9449 section 4.3): a proof is for one request, token and key, and valid once.
 * jose verifies the signature. No package checks a proof for an opaque access token: oauth4webapi 3.8.8 checks proofs
 * only in `validateJwtAccessToken`, and does not detect replays; oidc-provider checks them only at its own endpoints.
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
const MAX_USED_PROOFS = 10_000;

export function createProofCheck({ now }: { now: () => number }): (claim: ProofClaim) => Promise<boolean> {
  const usedProofs = new Set<string>();

  return async ({ proof, method, url, token, keyThumbprint }) => {
    const verified = await jwtVerify(proof, EmbeddedJWK, { algorithms: DPOP_ALGORITHMS, typ: 'dpop+jwt' }).catch(
      () => undefined,
    );
    if (verified?.protectedHeader.jwk === undefined) return false;
    const { htm, htu, ath, iat, jti } = verified.payload;
    const isForThisRequest =
      htm === method &&
      typeof htu === 'string' &&
      URL.parse(htu)?.href.split(/[?#]/)[0] === new URL(url).href &&
      ath === createHash('sha256').update(token).digest('base64url');
    const isRecent = typeof iat === 'number' && Math.abs(now() / 1000 - iat) <= WINDOW_SECONDS;
    if (!isForThisRequest || !isRecent || typeof jti !== 'string' || jti === '') return false;
    if ((await calculateJwkThumbprint(verified.protectedHeader.jwk)) !== keyThumbprint) return false;
    const proofId = `${keyThumbprint} ${jti}`;
    if (usedProofs.has(proofId)) return false;
    usedProofs.add(proofId);
    const [oldestProof] = usedProofs;
    if (usedProofs.size > MAX_USED_PROOFS && oldestProof !== undefined) usedProofs.delete(oldestProof);
    return true;
  };
}
