/** ID tokens that services show as proof of a user: each point that has to be right, one wrong at a time. */
import { exportJWK, generateKeyPair, type JWTHeaderParameters, SignJWT } from 'jose';
import { beforeAll, describe, expect, test } from 'vitest';
import type { ConnectedApp } from '../../src/connected-apps/connected-app.ts';
import { createIdTokens } from '../../src/connected-apps/id-token.ts';
import type { ProviderMetadataSource } from '../../src/connected-apps/provider-metadata.ts';
import type { SigningKeys } from '../../src/connected-apps/signing-keys.ts';

const ISSUER = 'https://provider.test';
const NOW = 1_800_000_000;
const APPS = [
  { id: 'elsewhere', issuer: 'https://other.test', clientId: 'client-1' },
  { id: 'platform', issuer: ISSUER, clientId: 'client-1' },
] as ConnectedApp[];

type Pair = Awaited<ReturnType<typeof generateKeyPair>>;
let pair: Pair;
let stranger: Pair;
let known: Record<string, unknown>;
let fetched: string[];
let idTokens: ReturnType<typeof createIdTokens>;
beforeAll(async () => {
  [pair, stranger] = await Promise.all([generateKeyPair('RS256'), generateKeyPair('RS256')]);
  known = { jwks_uri: `${ISSUER}/jwks` };
  fetched = [];
  const keys = [{ ...(await exportJWK(pair.publicKey)), kid: 'k1', alg: 'RS256' }];
  idTokens = createIdTokens({
    metadata: { load: async () => known } as unknown as ProviderMetadataSource,
    signingKeys: {
      fetch: async (url: string) => {
        fetched.push(url);
        return Response.json({ keys });
      },
    } as SigningKeys,
    clock: () => NOW * 1000,
  });
});

const GOOD = { iss: ISSUER, sub: 's1', aud: 'client-1', iat: NOW - 10, exp: NOW + 60 };
const sign = (claims: object = {}, header: object = {}, key = pair.privateKey) =>
  new SignJWT({ ...GOOD, ...claims })
    .setProtectedHeader({ alg: 'RS256', kid: 'k1', ...header } as JWTHeaderParameters)
    .sign(key);
const USER = { issuer: ISSUER, subject: 's1' };

describe('R23 is proof of its user', () => {
  test.each([
    ['as it should be', {}, {}],
    ['with a list of us alone as audience', { aud: ['client-1'] }, {}],
    ['with us as the party', { azp: 'client-1' }, {}],
    ['typed JWT', {}, { typ: 'JWT' }],
    ['that ended within the tolerance', { exp: NOW - 29 }, {}],
    ['that begins within the tolerance', { nbf: NOW + 29 }, {}],
  ])('%s', async (_what, claims, header) => {
    expect(await idTokens.verify(await sign(claims, header), APPS)).toEqual(USER);
    expect(fetched.at(-1)).toBe(`${ISSUER}/jwks`);
  });
});

describe('R23 proves nothing', () => {
  test.each([
    ['of another issuer', { iss: `${ISSUER}/` }, {}],
    ['for another client', { aud: 'client-2' }, {}],
    ['for another client as well', { aud: ['client-1', 'client-2'] }, {}],
    ['given to another party', { azp: 'client-2' }, {}],
    ['that ended', { exp: NOW - 31 }, {}],
    ['that begins later', { nbf: NOW + 31 }, {}],
    ['without an end', { exp: undefined }, {}],
    ['without a time of issue', { iat: undefined }, {}],
    ['without a subject', { sub: undefined }, {}],
    ['with an empty subject', { sub: '' }, {}],
    ['that is a logout token', { events: { 'http://schemas.openid.net/event/backchannel-logout': {} } }, {}],
    ['of another type', {}, { typ: 'at+jwt' }],
    ['of a key that nobody knows', {}, { kid: 'k2' }],
  ])('%s', async (_what, claims, header) => {
    expect(await idTokens.verify(await sign(claims, header), APPS)).toBeUndefined();
  });

  test('signed by a stranger, by nobody, changed, too long, or no token at all', async () => {
    const good = await sign();
    const [head = '', payload = '', signature = ''] = good.split('.');
    const none = Buffer.from(JSON.stringify({ alg: 'none' })).toString('base64url');
    const changed = Buffer.from(JSON.stringify({ ...GOOD, sub: 's2' })).toString('base64url');
    const tokens = [
      ...[await sign({}, {}, stranger.privateKey), `${none}.${payload}.`, `${head}.${changed}.${signature}`],
      ...[await sign({ filler: 'x'.repeat(20_000) }), `${head}.${payload}`, 'a.b.c', '', 'no token'],
    ];
    for (const token of tokens) expect(await idTokens.verify(token, APPS)).toBeUndefined();
    const crit = await sign({}, { crit: ['b64'], b64: true });
    expect(await idTokens.verify(crit, APPS)).toBeUndefined();
  });

  test('with an algorithm that the provider does not claim', async () => {
    known = { ...known, id_token_signing_alg_values_supported: ['ES256'] };
    expect(await idTokens.verify(await sign(), APPS)).toBeUndefined();
    known = { jwks_uri: `${ISSUER}/jwks` };
  });

  test('where the provider names no keys, or nobody signs in with an app of it: nothing is asked', async () => {
    fetched = [];
    known = {};
    expect(await idTokens.verify(await sign(), APPS)).toBeUndefined();
    known = { jwks_uri: `${ISSUER}/jwks` };
    expect(await idTokens.verify(await sign(), [])).toBeUndefined();
    expect(await idTokens.verify(await sign(), APPS.slice(0, 1))).toBeUndefined();
    expect(fetched).toEqual([]);
  });
});
