/** Owns the keys that access tokens can be bound to, and the proofs that go with each use of such a token (RFC 9449). */
import { createHash, randomUUID } from 'node:crypto';
import { exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from 'jose';

/** A private key (ES256) of one grant's own: it lies sealed with the tokens that are bound to it. */
export type DpopKey = JWK;

const ALGORITHM = 'ES256';
/** By the key object itself, which lives as long as the opened grant. */
const imported = new WeakMap<DpopKey, Promise<CryptoKey>>();

export async function makeDpopKey(): Promise<DpopKey> {
  const { privateKey } = await generateKeyPair(ALGORITHM, { extractable: true });
  return exportJWK(privateKey);
}

/** The form that the protocol library takes. */
export async function dpopKeyPair(key: DpopKey): Promise<{ publicKey: CryptoKey; privateKey: CryptoKey }> {
  const publicKey = (await importJWK(publicPart(key), ALGORITHM, { extractable: true })) as CryptoKey;
  return { publicKey, privateKey: await privateKeyOf(key) };
}

/**
 * The proof for one call with a bound token (RFC 9449 section 4.2).
 * @param call `url` without query and fragment counts; `nonce`: what that server asked for last (section 9)
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
  const known = imported.get(key);
  if (known) return known;
  const made = importJWK(key, ALGORITHM) as Promise<CryptoKey>;
  imported.set(key, made);
  return made;
}

function publicPart({ kty = '', crv = '', x = '', y = '' }: DpopKey): JWK {
  return { kty, crv, x, y };
}
