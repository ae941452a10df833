/** The verification of a provider's JWTs, with one fault at a time. */
import { exportJWK, generateKeyPair, type JWTHeaderParameters, SignJWT } from 'jose';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import {
  createProviderJwts,
  type ProviderJwts,
  RefusedJwt,
  verifyIdToken,
} from '../../../src/shared/provider/provider-jwt.ts';
import type { ProviderMetadata } from '../../../src/shared/provider/provider-metadata.ts';
import { createSigningKeys } from '../../../src/shared/provider/signing-keys.ts';
import { useProtocol } from '../../gatehouse/connected-apps/protocol.ts';

const NOW = 1_800_000_000;
const protocol = useProtocol();

type Pair = Awaited<ReturnType<typeof generateKeyPair>>;
let pair: Pair;
let unknownPair: Pair;
let app: ConnectedApp;
let provider: ProviderMetadata;
let jwts: ProviderJwts;
beforeAll(async () => {
  [pair, unknownPair] = await Promise.all([generateKeyPair('RS256'), generateKeyPair('RS256')]);
});
beforeEach(async () => {
  app = protocol.app;
  provider = { issuer: app.issuer, jwks_uri: `${app.issuer}/jwks` };
  const jwk = { ...(await exportJWK(pair.publicKey)), kid: 'k1', alg: 'RS256' };
  protocol.provider.setModes({ jwks: () => [jwk] });
  jwts = createProviderJwts({
    metadata: { load: async () => provider, markStale: () => undefined },
    signingKeys: createSigningKeys({ outbound: protocol.outbound, monotonicClock: () => 0 }),
    clock: () => NOW * 1000,
  });
});

function sign(claims: object = {}, header: object = {}, key = pair.privateKey): Promise<string> {
  const validClaims = { iss: app.issuer, sub: 's1', aud: app.clientId, iat: NOW - 10, exp: NOW + 60 };
  return new SignJWT({ ...validClaims, ...claims })
    .setProtectedHeader({ alg: 'RS256', kid: 'k1', ...header } as JWTHeaderParameters)
    .sign(key);
}

const refusal = (verifying: Promise<unknown>) =>
  verifying.then(
    () => 'accepted',
    (error: unknown) => (error instanceof RefusedJwt ? { claim: error.claim, now: error.now } : error),
  );

describe('R98 an ID token is accepted', () => {
  test.each<[string, (clientId: string) => object, object]>([
    ['with valid claims', () => ({}), {}],
    ['with only our client ID in a list of audiences', (us) => ({ aud: [us] }), {}],
    ['with us as the authorized party', (us) => ({ azp: us }), {}],
    ['with another audience if we are the authorized party', (us) => ({ aud: [us, 'client-2'], azp: us }), {}],
    ['typed JWT', () => ({}), { typ: 'JWT' }],
    ['with the full media type', () => ({}), { typ: 'application/jwt' }],
    ['that expired within the tolerance', () => ({ exp: NOW - 29 }), {}],
    ['that becomes valid within the tolerance', () => ({ nbf: NOW + 29 }), {}],
    ['issued 60 seconds ahead of our clock', () => ({ iat: NOW + 60 }), {}],
    ['issued a year ago', () => ({ iat: NOW - 31_536_000 }), {}],
  ])('%s', async (_words, claims, header) => {
    expect(await verifyIdToken(jwts, app, await sign(claims(app.clientId), header))).toMatchObject({ sub: 's1' });
  });
});

describe('R98 an ID token is refused', () => {
  test.each<[string, string | undefined, (us: string) => object, object]>([
    ['of another issuer', 'iss', () => ({ iss: 'https://other.test' }), {}],
    ['for another client', 'aud', () => ({ aud: 'client-2' }), {}],
    ['for us and another client', 'aud', (us) => ({ aud: [us, 'client-2'] }), {}],
    ['of another authorized party', 'azp', () => ({ azp: 'client-2' }), {}],
    ['of a list of authorized parties', 'azp', (us) => ({ azp: [us] }), {}],
    ['that expired', 'exp', () => ({ exp: NOW - 31 }), {}],
    ['that is not valid yet', 'nbf', () => ({ nbf: NOW + 31 }), {}],
    ['issued 61 seconds ahead of our clock', 'iat', () => ({ iat: NOW + 61 }), {}],
    ['without an expiry time', 'exp', () => ({ exp: undefined }), {}],
    ['without a time of issue', 'iat', () => ({ iat: undefined }), {}],
    ['without a subject', 'sub', () => ({ sub: undefined }), {}],
    ['with an empty subject', 'sub', () => ({ sub: '' }), {}],
    ['with a subject of 256 characters', 'sub', () => ({ sub: 'x'.repeat(256) }), {}],
    ['with a NUL in the subject', 'sub', () => ({ sub: 'a\0b' }), {}],
    ['with a line feed in the subject', 'sub', () => ({ sub: 'a\n' }), {}],
    ['with a subject that is not ASCII', 'sub', () => ({ sub: 'é' }), {}],
    ['of another type', 'typ', () => ({}), { typ: 'at+jwt' }],
    ['with a type that is not a string', 'typ', () => ({}), { typ: 5 }],
    ['that is a logout token', 'typ', () => ({}), { typ: 'logout+jwt' }],
    ['with a critical extension', 'crit', () => ({}), { crit: ['b64'], b64: true }],
    ['of a key that the provider does not publish', undefined, () => ({}), { kid: 'k2' }],
  ])('%s', async (_words, claim, claims, header) => {
    const token = await sign(claims(app.clientId), header);
    expect(await refusal(verifyIdToken(jwts, app, token))).toMatchObject({ claim });
  });

  test('if it is signed by another key, unsigned, changed, or not a JWT', async () => {
    const [head = '', payload = '', signature = ''] = (await sign()).split('.');
    const unsignedHeader = Buffer.from(JSON.stringify({ alg: 'none' })).toString('base64url');
    const changedPayload = Buffer.from(JSON.stringify({ iss: app.issuer, sub: 's2' })).toString('base64url');
    const forgedTokens = [
      await sign({}, {}, unknownPair.privateKey),
      `${unsignedHeader}.${payload}.`,
      `${head}.${changedPayload}.${signature}`,
    ];
    for (const token of [...forgedTokens, `${head}.${payload}`, 'a.b.c', '', 'no token']) {
      expect(await refusal(verifyIdToken(jwts, app, token))).toEqual({ claim: undefined, now: NOW });
    }
  });

  test('if the provider does not advertise its algorithm', async () => {
    provider = { ...provider, id_token_signing_alg_values_supported: ['ES256'] };
    expect(await refusal(verifyIdToken(jwts, app, await sign()))).toMatchObject({ claim: undefined });
  });

  test('if the provider publishes no keys', async () => {
    provider = { issuer: app.issuer };
    expect(await refusal(verifyIdToken(jwts, app, await sign()))).toMatchObject({ claim: undefined });
    expect(protocol.provider.hitsOf('jwks')).toEqual([]);
  });

  test.each([
    [{ kty: 'RSA', kid: 'k1' }],
    [{ kty: 'RSA', kid: 'k1', n: 5, e: [] }],
    [{ kty: 'RSA', kid: 'k1', key_ops: 'verify' }],
    [{ kty: 7, kid: 'k1' }],
  ])('if the key is invalid: %j', async (jwk) => {
    protocol.provider.setModes({ jwks: () => [jwk] });
    expect(await refusal(verifyIdToken(jwts, app, await sign()))).toMatchObject({ claim: undefined });
  });
});

test('R98 accepts a JWT up to its maximum age', async () => {
  const verify = async (iat: number) =>
    refusal(jwts.verify(app, await sign({ iat }), { requiredClaims: ['iat'], maxAgeSeconds: 600 }));
  expect(await verify(NOW - 630)).toBe('accepted');
  expect(await verify(NOW - 631)).toEqual({ claim: 'iat', now: NOW });
});
