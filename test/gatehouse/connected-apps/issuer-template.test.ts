/** Issuer templates over HTTP: the client accepts tokens of named tenants only. */
import fc from 'fast-check';
import { exportJWK, generateKeyPair } from 'jose';
import { beforeEach, describe, expect, test } from 'vitest';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import { acceptedIssuers } from '../../../src/shared/provider/issuer.ts';
import { createProviderJwts, RefusedJwt, verifyIdToken } from '../../../src/shared/provider/provider-jwt.ts';
import type { ProviderMetadata } from '../../../src/shared/provider/provider-metadata.ts';
import { createSigningKeys } from '../../../src/shared/provider/signing-keys.ts';
import { type Mode, signWith } from '../../support/hostile-modes.ts';
import { failureOf, useProtocol } from './protocol.ts';
import { BOOK, INK, STRANGE, templateApp, tenantIssuer, tenants } from './tenants.ts';

const at = useProtocol();
let app: ConnectedApp;
beforeEach(() => {
  app = at.appOf(templateApp(at.provider));
});

const use = (tenant: string, mode: Mode = {}) => at.provider.setModes(tenants(tenant), mode);

describe('a sign-in', () => {
  test.each([INK, BOOK])('of the named tenant %s has its issuer', async (tenant) => {
    use(tenant);
    const { claims, idToken, accessToken } = await at.logIn(app);
    expect(claims).toMatchObject({ iss: tenantIssuer(at.provider, tenant), tid: tenant });
    expect([idToken, accessToken]).toEqual([expect.any(String), expect.any(String)]);
    expect(at.provider.hitsOf('token')).toHaveLength(1);
  });

  test.each([INK, BOOK])('of %s succeeds without iss in the callback, if none is advertised', async (tenant) => {
    use(tenant, {
      ...tenants(tenant, { authorization_response_iss_parameter_supported: undefined }),
      callback: (parameters) => parameters.delete('iss'),
    });
    expect((await at.logIn(app)).claims?.tid).toBe(tenant);
    expect(at.provider.hitsOf('token')).toHaveLength(1);
  });

  test('of a tenant that is not named is refused, whatever its callback says', async () => {
    use(STRANGE, { callback: (parameters) => parameters.set('iss', tenantIssuer(at.provider, BOOK)) });
    expect(await failureOf(at.logIn(app))).toEqual({ failure: 'invalid', reason: 'token_response_invalid' });
  });

  test.each<[string, (issuer: string) => string]>([
    ['a tenant that is not named', (issuer) => `${issuer}/${STRANGE}/v2.0`],
    ['the template itself', (issuer) => `${issuer}/{tenantid}/v2.0`],
    ['a named tenant and a slash', (issuer) => `${issuer}/${INK}/v2.0/`],
  ])('R13 whose callback names %s sends no code', async (_words, iss) => {
    use(INK, { callback: (parameters) => parameters.set('iss', iss(at.provider.issuer)) });
    expect(await failureOf(at.logIn(app))).toEqual({ failure: 'invalid', reason: 'authorization_response_invalid' });
    expect(at.provider.hitsOf('token')).toEqual([]);
  });

  test('R13 whose callback names one named tenant and whose ID token is of another is refused', async () => {
    use(INK, { callback: (parameters) => parameters.set('iss', tenantIssuer(at.provider, BOOK)) });
    await expect(at.logIn(app)).rejects.toThrow();
  });

  test('R18 with another nonce is refused, for the first and the second tenant', async () => {
    for (const tenant of [INK, BOOK]) {
      const { claims } = tenants(tenant);
      use(tenant, { claims: (proper, scene) => ({ ...claims?.(proper, scene), nonce: 'another' }) });
      expect(await failureOf(at.logIn(app))).toEqual({ failure: 'invalid', reason: 'token_response_invalid' });
    }
  });

  test('without an ID token is refused, and so is one at a provider without keys', async () => {
    use(BOOK, { tokenResponse: ({ id_token: _, ...body }) => body });
    await expect(at.logIn(app)).rejects.toThrow();
    at.client = at.freshClient();
    use(BOOK, tenants(BOOK, { jwks_uri: undefined }));
    await expect(at.logIn(at.appOf(templateApp(at.provider)))).rejects.toThrow();
  });
});

test('a refresh has the issuer of the tenant, sends the refresh token once, and refuses other tenants', async () => {
  use(BOOK);
  const { refreshToken = '' } = await at.logIn(app);
  const savedTokens: string[] = [];
  const saveRefreshToken = async (token: string) => void savedTokens.push(token);
  const outcome = await at.client.refresh(app, { refreshToken, saveRefreshToken });
  if (outcome.kind !== 'tokens') throw new Error(outcome.kind);
  expect(outcome.response.claims?.iss).toBe(tenantIssuer(at.provider, BOOK));
  expect([at.provider.hitsOf('refresh').length, savedTokens]).toEqual([1, [outcome.response.refreshToken]]);
  use(STRANGE);
  const refused = await at.client.refresh(app, { refreshToken: outcome.response.refreshToken ?? '', saveRefreshToken });
  expect(refused).toMatchObject({ kind: 'unusable', refreshToken: savedTokens[1] });
});

test('private_key_jwt has the token endpoint as audience, since the tenant is not known yet', async () => {
  const ours = at.appOf({ ...templateApp(at.provider), tokenEndpointAuthMethod: 'private_key_jwt' });
  use(INK);
  await at.logIn(ours).catch(() => undefined);
  const assertion = new URLSearchParams(at.provider.hitsOf('token')[0]?.body).get('client_assertion') ?? '';
  expect(JSON.parse(Buffer.from(assertion.split('.')[1] ?? '', 'base64url').toString()).aud).toBe(
    `${at.provider.issuer}/token`,
  );
});

describe('R98 the verifier', () => {
  const NOW = 1_800_000_000;
  let pair: Awaited<ReturnType<typeof generateKeyPair>>;

  const verifier = async (...keyMembers: Record<string, unknown>[]) => {
    pair ??= await generateKeyPair('ES256');
    const jwk = { ...(await exportJWK(pair.publicKey)), alg: 'ES256', kid: 'k1' };
    at.provider.setModes({ jwks: () => keyMembers.map((members) => ({ ...jwk, ...members })) });
    const provider: ProviderMetadata = { issuer: app.issuer, jwks_uri: `${at.provider.issuer}/jwks` };
    return createProviderJwts({
      metadata: { load: async () => provider, markStale: () => undefined },
      signingKeys: createSigningKeys({ outbound: at.outbound, monotonicClock: () => 0 }),
      clock: () => NOW * 1000,
    });
  };
  const sign = (claims: object) =>
    signWith(
      { alg: 'ES256', kid: 'k1', ...pair },
      { sub: 's1', aud: app.clientId, iat: NOW, exp: NOW + 60, ...claims },
    );
  const refusalOf = (verifying: Promise<unknown>) =>
    verifying.then(
      () => 'accepted',
      (error: unknown) => (error instanceof RefusedJwt ? error.claim : String(error)),
    );

  test.each<[string, (of: (tenant: string) => string) => object, string]>([
    ['of a named tenant', (of) => ({ iss: of(INK), tid: INK }), 'accepted'],
    ['of one that is not named', (of) => ({ iss: of(STRANGE), tid: STRANGE }), 'tid'],
    ['of a named one with the tid of another', (of) => ({ iss: of(INK), tid: BOOK }), 'iss'],
    ['of a named one with a tid that is not named', (of) => ({ iss: of(INK), tid: STRANGE }), 'iss'],
    ['of one that is not named with the tid of a named one', (of) => ({ iss: of(STRANGE), tid: INK }), 'iss'],
    ['without a tid', (of) => ({ iss: of(INK) }), 'iss'],
    ['with a list of tenants', (of) => ({ iss: of(INK), tid: [INK] }), 'iss'],
    ['without an issuer', () => ({ tid: INK }), 'iss'],
    ['of the template itself', (of) => ({ iss: of('{tenantid}'), tid: '{tenantid}' }), 'tid'],
    ['of a tenant in capitals', (of) => ({ iss: of(INK.toUpperCase()), tid: INK.toUpperCase() }), 'tid'],
    ['of a named one at another host', () => ({ iss: `https://evil.example/${INK}/v2.0`, tid: INK }), 'iss'],
    ['of a named one that has expired', (of) => ({ iss: of(INK), tid: INK, exp: NOW - 60 }), 'exp'],
    ['with a path in its tid', (of) => ({ iss: of(`${INK}/v2.0/..`), tid: `${INK}/v2.0/..` }), 'tid'],
    ['with a replacement pattern in its tid', (of) => ({ iss: of('$&'), tid: '$&' }), 'tid'],
  ])('for a token %s', async (_words, claims, result) => {
    const jwts = await verifier({});
    const token = await sign(claims((tenant) => tenantIssuer(at.provider, tenant)));
    expect(await refusalOf(verifyIdToken(jwts, app, token))).toBe(result);
  });

  test.each<[string, string | undefined, string]>([
    ['for every tenant', '{tenantid}', 'accepted'],
    ['for this tenant', INK, 'accepted'],
    ['for another tenant alone', BOOK, 'iss'],
    ['and does not say for whom', undefined, 'accepted'],
  ])('a key that signs %s', async (_words, tenant, result) => {
    const jwts = await verifier(tenant === undefined ? {} : { issuer: tenantIssuer(at.provider, tenant) });
    const token = await sign({ iss: tenantIssuer(at.provider, INK), tid: INK });
    expect(await refusalOf(verifyIdToken(jwts, app, token))).toBe(result);
  });

  test('a token of a tenant, signed with a key of that tenant, whose tid is that of another', async () => {
    const jwts = await verifier({ issuer: tenantIssuer(at.provider, INK) });
    const token = await sign({ iss: tenantIssuer(at.provider, INK), tid: BOOK });
    expect(await refusalOf(verifyIdToken(jwts, app, token))).toBe('iss');
  });

  const tenantId = fc.stringMatching(/^[A-Za-z0-9-]{1,64}$/);
  const anyTenant = fc.oneof(tenantId, fc.string({ maxLength: 20 }), fc.constantFrom(INK, BOOK, '$&', '$1', '..', ''));

  test('accepts a token exactly if its tid is a named tenant and its issuer is that of the tenant', async () => {
    const jwts = await verifier({});
    const of = (tenant: string) => tenantIssuer(at.provider, tenant);
    const cases = fc.record({
      values: fc.uniqueArray(tenantId, { minLength: 1, maxLength: 4 }),
      tid: anyTenant,
      of: anyTenant,
    });
    await fc.assert(
      fc.asyncProperty(cases, fc.nat(), fc.boolean(), async (drawn, pick, isNamed) => {
        const tid = isNamed ? (drawn.values[pick % drawn.values.length] ?? '') : drawn.tid;
        const iss = of(pick % 3 === 0 ? drawn.of : tid);
        const naming = { ...app, signIn: { allow: { claim: 'tid', values: drawn.values } } };
        const isGood = drawn.values.includes(tid) && iss === of(tid);
        expect((await refusalOf(verifyIdToken(jwts, naming, await sign({ iss, tid })))) === 'accepted').toBe(isGood);
      }),
      { numRuns: 150 },
    );
  });

  test('R20 without a template, refuses an issuer that is not equal byte for byte', async () => {
    const jwts = await verifier({});
    const issuer = `${at.provider.issuer}/realm`;
    const plain = { ...app, issuer };
    const near = fc.oneof(
      fc.string({ maxLength: 8 }).map((end) => issuer + end),
      fc.nat(issuer.length - 1).map((place) => issuer.slice(0, place) + issuer.slice(place + 1)),
      fc.constantFrom(issuer, `${issuer}/`, issuer.toUpperCase(), ` ${issuer}`, `${issuer}?`, '{tenantid}', ''),
    );
    await fc.assert(
      fc.asyncProperty(near, anyTenant, async (iss, tid) => {
        expect((await refusalOf(verifyIdToken(jwts, plain, await sign({ iss, tid })))) === 'accepted').toBe(
          iss === issuer,
        );
      }),
      { numRuns: 150 },
    );
  });
});

test('an app that names no tenant accepts no issuer', () => {
  for (const allow of ['everyone', { claim: 'groups', values: [INK] }] as const) {
    expect(acceptedIssuers({ ...app, signIn: { allow } as ConnectedApp['signIn'] })).toEqual([]);
  }
  expect(acceptedIssuers({ issuer: app.issuer })).toEqual([]);
});
