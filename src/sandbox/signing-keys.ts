/** The keys that sign ID tokens, given or generated at the start, generated at each rotation, and kept in memory. */
import { randomUUID } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';

const ALGORITHMS = ['RS256', 'ES256'] as const;

export interface SigningKeys {
  /** Private keys, for oidc-provider. */
  readonly jwks: { keys: JWK[] };
  /** Publishes new keys beside those that sign. */
  publishNext(): Promise<void>;
  /** Signs with the newest keys, and publishes only these. */
  useNext(): void;
  /** Changes claims and signs properly, so that only a check of the claims can find it. */
  changeClaims(idToken: string, changes: Record<string, unknown>): Promise<string>;
  /** Signs with a key that is not in the JWK set, so that only a signature check can find it. */
  signWithWrongKey(idToken: string): Promise<string>;
}

export interface SigningKey {
  jwk: JWK;
  privateKey: CryptoKey;
}

/** @param first the keys that sign until the first rotation, from `generateKeys` */
export function createSigningKeys(first: readonly SigningKey[]): SigningKeys {
  let current = first;
  let next: readonly SigningKey[] = [];

  return {
    get jwks() {
      return { keys: [...current, ...next].map(({ jwk }) => jwk) };
    },
    async publishNext() {
      next = await generateKeys();
    },
    useNext() {
      if (next.length > 0) current = next;
      next = [];
    },
    async changeClaims(idToken, changes) {
      const { kid } = decodeProtectedHeader(idToken);
      const key = current.find(({ jwk }) => jwk.kid === kid);
      if (key === undefined) throw new Error('The ID token names an unknown key.');
      return sign(idToken, changes, key.privateKey);
    },
    async signWithWrongKey(idToken) {
      const { privateKey } = await generateKeyPair(decodeProtectedHeader(idToken).alg ?? 'RS256');
      return sign(idToken, {}, privateKey);
    },
  };
}

/** One for each algorithm. */
export function generateKeys(): Promise<SigningKey[]> {
  return Promise.all(
    ALGORITHMS.map(async (alg) => {
      const { privateKey } = await generateKeyPair(alg, { extractable: true });
      return { jwk: { ...(await exportJWK(privateKey)), kid: randomUUID(), alg, use: 'sig' }, privateKey };
    }),
  );
}

function sign(idToken: string, changes: Record<string, unknown>, key: CryptoKey): Promise<string> {
  const { alg = 'RS256', ...rest } = decodeProtectedHeader(idToken);
  return new SignJWT({ ...decodeJwt(idToken), ...changes }).setProtectedHeader({ alg, ...rest }).sign(key);
}
