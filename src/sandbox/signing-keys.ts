/** The keys that sign ID tokens, in memory. New keys are generated at each rotation. */
import { randomUUID } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';

const ALGORITHMS = ['RS256', 'ES256'] as const;

export interface SigningKeys {
  /** Private keys, for oidc-provider. */
  readonly jwks: { keys: JWK[] };
  /** Publishes new keys in addition to those that sign. */
  publishNext(): Promise<void>;
  /** Signs with the published new keys, and publishes only these. */
  useNext(): void;
  /** Changes claims and signs the token validly, so that only a check of the claims fails. */
  changeClaims(idToken: string, changes: Record<string, unknown>): Promise<string>;
  /** Signs with a key that is not in the JWK set, so that only the signature check fails. */
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

/** Generates one key for each algorithm. */
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
