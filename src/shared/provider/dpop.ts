/** DPoP keys, and the proof for each use of an access token that is bound to one (RFC 9449). */
import { createHash, randomUUID } from 'node:crypto';
import { exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from 'jose';

/** The private key (ES256) of one grant, sealed together with its tokens. */
export type DpopKey = JWK;

const ALGORITHM = 'ES256';
/** The cache is keyed by the object, which lives as long as the opened grant. */
const privateKeys = new WeakMap<DpopKey, Promise<CryptoKey>>();

export async function makeDpopKey(): Promise<DpopKey> {
  const { privateKey } = await generateKeyPair(ALGORITHM, { extractable: true });
  return exportJWK(privateKey);
}

/** The key pair in the form that openid-client needs. */
export async function dpopKeyPair(key: DpopKey): Promise<{ publicKey: CryptoKey; privateKey: CryptoKey }> {
  const publicKey = (await importJWK(publicPart(key), ALGORITHM, { extractable: true })) as CryptoKey;
  return { publicKey, privateKey: await privateKeyOf(key) };
}

/**
 * The DPoP proof for one call (RFC 9449 section 4.2).
 * @param call the query and fragment of `url` are left out; `nonce` is the last one that the server sent (section 9)
 */
export async function dpopProof(
  key: DpopKey,
  call: { method: string; url: string; accessToken: string; nonce?: string | undefined },
): Promise<string> {
  const { origin, pathname } = new URL(call.url);
  const claims = {
    jti: randomUUID(),
    htm: call.method,
    htu: origin + pathname,
    ath: createHash('sha256').update(call.accessToken).digest('base64url'),
    ...(call.nonce === undefined ? {} : { nonce: call.nonce }),
  };
  return new SignJWT(claims)
    .setProtectedHeader({ alg: ALGORITHM, typ: 'dpop+jwt', jwk: publicPart(key) })
    .setIssuedAt()
    .sign(await privateKeyOf(key));
}

function privateKeyOf(key: DpopKey): Promise<CryptoKey> {
  const cached = privateKeys.get(key);
  if (cached) return cached;
  const privateKey = importJWK(key, ALGORITHM) as Promise<CryptoKey>;
  privateKeys.set(key, privateKey);
  return privateKey;
}

function publicPart({ kty = '', crv = '', x = '', y = '' }: DpopKey): JWK {
  return { kty, crv, x, y };
}
