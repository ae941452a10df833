/** Keeps the keys that sign ID tokens in memory. Each rotation generates new keys. */
import { randomUUID } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';

const ALGORITHMS = ['RS256', 'ES256'] as const;

export interface SigningKeys {
  /** The private keys, for oidc-provider. */
  readonly jwks: { keys: JWK[] };
  /** Publishes new keys in addition to those that sign. */
  publishNext(): Promise<void>;
  /** Signs with the published new keys from now on, and publishes only these. */
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

/** @param initialKeys the keys, from `generateKeys`, that sign until the first rotation */
export function createSigningKeys(initialKeys: readonly SigningKey[]): SigningKeys {
  let currentKeys = initialKeys;
  let nextKeys: readonly SigningKey[] = [];

  return {
    get jwks() {
      return { keys: [...currentKeys, ...nextKeys].map(({ jwk }) => jwk) };
    },
    async publishNext() {
      nextKeys = await generateKeys();
    },
    useNext() {
      if (nextKeys.length > 0) currentKeys = nextKeys;
      nextKeys = [];
    },
    async changeClaims(idToken, changes) {
      const { kid } = decodeProtectedHeader(idToken);
      const key = currentKeys.find(({ jwk }) => jwk.kid === kid);
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
