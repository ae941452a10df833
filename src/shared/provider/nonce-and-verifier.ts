/** Derives the nonce and PKCE verifier of an authorization request from a secret in the browser: neither is stored. */
import { createHmac } from 'node:crypto';

/**
 * HMAC-SHA256 with the browser's secret over the state. The store holds only a hash of the secret, so a copy of the
 * store reveals no verifier; nor does the nonce in the authorization URL.
 * @param browserSecret random; only this browser's cookie holds it
 * @param state unique to the request (RFC 6749 section 10.12)
 * @returns the nonce (OpenID Connect Core section 3.1.2.1) and a verifier of 43 characters (RFC 7636 section 4.1)
 */
export function deriveNonceAndVerifier(browserSecret: string, state: string) {
  const derive = (purpose: string) =>
    createHmac('sha256', browserSecret).update(`${purpose}:${state}`).digest('base64url');
  return { state, nonce: derive('nonce'), codeVerifier: derive('verifier') };
}
