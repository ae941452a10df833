/** Owns the keys that sign ID tokens: made at each start, kept in memory, and never the same twice. */
import { randomUUID } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';

const ALGORITHMS = ['RS256', 'ES256'] as const;

export interface SigningKeys {
  /** Private keys, for oidc-provider. */
  readonly jwks: { keys: JWK[] };
  /** The same ID token with other claims, properly signed: a lie that only a claim check finds. */
  changeClaims(idToken: string, changes: Record<string, unknown>): Promise<string>;
  /** The same header and claims, signed by a key that is not ours: a lie that only a signature check finds. */
  signWithStrangerKey(idToken: string): Promise<string>;
}

export async function createSigningKeys(): Promise<SigningKeys> {
  const pairs = await Promise.all(
    ALGORITHMS.map(async (alg) => {
      const { privateKey } = await generateKeyPair(alg, { extractable: true });
      return { kid: randomUUID(), alg, privateKey };
    }),
  );
  const keys = await Promise.all(
    pairs.map(async ({ kid, alg, privateKey }) => ({ ...(await exportJWK(privateKey)), kid, alg, use: 'sig' })),
  );

  return {
    jwks: { keys },
    async changeClaims(idToken, changes) {
      const { kid } = decodeProtectedHeader(idToken);
      const pair = pairs.find((one) => one.kid === kid);
      if (pair === undefined) throw new Error('An ID token of the sandbox names a key that the sandbox does not have.');
      return sign(idToken, changes, pair.privateKey);
    },
    async signWithStrangerKey(idToken) {
      const { privateKey } = await generateKeyPair(decodeProtectedHeader(idToken).alg ?? 'RS256');
      return sign(idToken, {}, privateKey);
    },
  };
}

function sign(idToken: string, changes: Record<string, unknown>, key: CryptoKey): Promise<string> {
  const { alg = 'RS256', ...rest } = decodeProtectedHeader(idToken);
  return new SignJWT({ ...decodeJwt(idToken), ...changes }).setProtectedHeader({ alg, ...rest }).sign(key);
}
