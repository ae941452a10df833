/** The keys that sign ID tokens, generated at each start and kept in memory. */
import { randomUUID } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';

const ALGORITHMS = ['RS256', 'ES256'] as const;

export interface SigningKeys {
  /** Private keys, for oidc-provider. */
  readonly jwks: { keys: JWK[] };
  /** Changes claims and signs properly, so that only a check of the claims can find it. */
  changeClaims(idToken: string, changes: Record<string, unknown>): Promise<string>;
  /** Signs with a key that is not in the JWK set, so that only a signature check can find it. */
  signWithWrongKey(idToken: string): Promise<string>;
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
      if (pair === undefined) throw new Error('The ID token names an unknown key.');
      return sign(idToken, changes, pair.privateKey);
    },
    async signWithWrongKey(idToken) {
      const { privateKey } = await generateKeyPair(decodeProtectedHeader(idToken).alg ?? 'RS256');
      return sign(idToken, {}, privateKey);
    },
  };
}

function sign(idToken: string, changes: Record<string, unknown>, key: CryptoKey): Promise<string> {
  const { alg = 'RS256', ...rest } = decodeProtectedHeader(idToken);
  return new SignJWT({ ...decodeJwt(idToken), ...changes }).setProtectedHeader({ alg, ...rest }).sign(key);
}
