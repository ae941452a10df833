/** Owns what proves an authorization request: nonce and PKCE verifier are kept nowhere, they follow from what the browser alone holds. */
import { createHmac } from 'node:crypto';

export interface AuthorizationProofs {
  /** RFC 6749, section 10.12: no other request has the same. */
  state: string;
  /** OpenID Connect Core 1.0, section 3.1.2.1. */
  nonce: string;
  /** RFC 7636, section 4.1: 43 characters. */
  codeVerifier: string;
}

/**
 * HMAC-SHA256 with the browser's secret over the state. Whoever reads our store has neither the secret, of which only a hash
 * is kept, nor the verifier; whoever sees the nonce in a URL learns nothing of the verifier.
 * @param browserSecret random, and in a cookie of that browser alone
 */
export function authorizationProofs(browserSecret: string, state: string): AuthorizationProofs {
  const derive = (purpose: string) =>
    createHmac('sha256', browserSecret).update(`${purpose}:${state}`).digest('base64url');
  return { state, nonce: derive('nonce'), codeVerifier: derive('verifier') };
}
