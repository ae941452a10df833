/** Issuer templates over HTTP: the client accepts tokens of named tenants only. */
import fc from 'fast-check';
import { decodeJwt, exportJWK, generateKeyPair } from 'jose';
import { beforeEach, describe, expect, test } from 'vitest';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import { acceptedIssuers } from '../../../src/shared/provider/issuer.ts';
import { createProviderJwts, RefusedJwt, verifyIdToken } from '../../../src/shared/provider/provider-jwt.ts';
import type { ProviderMetadata } from '../../../src/shared/provider/provider-metadata.ts';
import { createSigningKeys } from '../../../src/shared/provider/signing-keys.ts';
import { type Mode, signWith } from '../../support/hostile-modes.ts';
import { failureOf, useProtocol } from './protocol.ts';
import { BOOK, INK, STRANGE, templateApp, tenantIssuer, tenants } from './tenants.ts';

const protocol = useProtocol();
let app: ConnectedApp;
beforeEach(() => {
  app = protocol.appOf(templateApp(protocol.provider));
});

/** Makes users sign in at this tenant, with the deviations of the mode. */
const signInAtTenant = (tenant: string, mode: Mode = {}) => protocol.provider.setModes(tenants(tenant), mode);

describe('a sign-in', () => {
  test.each([INK, BOOK])('of a user of the named tenant %s has the issuer of the tenant', async (tenant) => {
    signInAtTenant(tenant);
    const { claims, idToken, accessToken } = await protocol.logIn(app);
    expect(claims).toMatchObject({ iss: tenantIssuer(protocol.provider, tenant), tid: tenant });
    expect(idToken).toEqual(expect.any(String));
    expect(accessToken).toEqual(expect.any(String));
    expect(protocol.provider.hitsOf('token')).toHaveLength(1);
  });

  test.each([INK, BOOK])('of %s succeeds without iss in the callback, if none is advertised', async (tenant) => {
    signInAtTenant(tenant, {
      ...tenants(tenant, { authorization_response_iss_parameter_supported: undefined }),
      callback: (parameters) => parameters.delete('iss'),
    });
    expect((await protocol.logIn(app)).claims?.tid).toBe(tenant);
    expect(protocol.provider.hitsOf('token')).toHaveLength(1);
  });

  test('of a user of another tenant is refused, even if its callback names a named tenant', async () => {
    signInAtTenant(STRANGE, { callback: (parameters) => parameters.set('iss', tenantIssuer(protocol.provider, BOOK)) });
    expect(await failureOf(protocol.logIn(app))).toEqual({ failure: 'invalid', reason: 'token_response_invalid' });
  });

  test.each<[string, (issuer: string) => string]>([
    ['a tenant that is not named', (issuer) => `${issuer}/${STRANGE}/v2.0`],
    ['the template itself', (issuer) => `${issuer}/{tenantid}/v2.0`],
    ['a named tenant and a slash', (issuer) => `${issuer}/${INK}/v2.0/`],
  ])('R13 whose callback names %s sends no code', async (_description, issOf) => {
    signInAtTenant(INK, { callback: (parameters) => parameters.set('iss', issOf(protocol.provider.issuer)) });
    expect(await failureOf(protocol.logIn(app))).toEqual({
      failure: 'invalid',
      reason: 'authorization_response_invalid',
    });
    expect(protocol.provider.hitsOf('token')).toEqual([]);
  });

  test('R13 is refused if its callback and its ID token name two different tenants', async () => {
    signInAtTenant(INK, { callback: (parameters) => parameters.set('iss', tenantIssuer(protocol.provider, BOOK)) });
    await expect(protocol.logIn(app)).rejects.toThrow();
  });

  test('R18 with another nonce is refused, for the first and the second tenant', async () => {
    for (const tenant of [INK, BOOK]) {
      const { claims: claimsOfTenant } = tenants(tenant);
      signInAtTenant(tenant, {
        claims: (claims, scene) => ({ ...claimsOfTenant?.(claims, scene), nonce: 'another' }),
      });
      expect(await failureOf(protocol.logIn(app))).toEqual({ failure: 'invalid', reason: 'token_response_invalid' });
    }
  });

  test('is refused without an ID token, and at a provider without keys', async () => {
    signInAtTenant(BOOK, { tokenResponse: ({ id_token: _, ...body }) => body });
    await expect(protocol.logIn(app)).rejects.toThrow();

    protocol.client = protocol.freshClient();
    signInAtTenant(BOOK, tenants(BOOK, { jwks_uri: undefined }));
    await expect(protocol.logIn(protocol.appOf(templateApp(protocol.provider)))).rejects.toThrow();
  });
});

test('a refresh has the issuer of the tenant, sends the refresh token once, and refuses other tenants', async () => {
  signInAtTenant(BOOK);
  const { refreshToken = '' } = await protocol.logIn(app);
  const savedTokens: string[] = [];
  const saveRefreshToken = async (token: string) => void savedTokens.push(token);

  const outcome = await protocol.client.refresh(app, { refreshToken, saveRefreshToken });
  if (outcome.kind !== 'tokens') throw new Error(outcome.kind);
  expect(outcome.response.claims?.iss).toBe(tenantIssuer(protocol.provider, BOOK));
  expect(protocol.provider.hitsOf('refresh')).toHaveLength(1);
  expect(savedTokens).toEqual([outcome.response.refreshToken]);

  signInAtTenant(STRANGE);
  const refused = await protocol.client.refresh(app, {
    refreshToken: outcome.response.refreshToken ?? '',
    saveRefreshToken,
  });
  expect(refused).toMatchObject({ kind: 'unusable', refreshToken: savedTokens[1] });
});

test('private_key_jwt has the token endpoint as audience, since the tenant is not known yet', async () => {
  const appWithKey = protocol.appOf({ ...templateApp(protocol.provider), tokenEndpointAuthMethod: 'private_key_jwt' });
  signInAtTenant(INK);
  await protocol.logIn(appWithKey).catch(() => undefined);

  const [tokenRequest] = protocol.provider.hitsOf('token');
  const assertion = new URLSearchParams(tokenRequest?.body).get('client_assertion') ?? '';
  expect(decodeJwt(assertion).aud).toBe(`${protocol.provider.issuer}/token`);
});

describe('R98 the verifier', () => {
  const NOW = 1_800_000_000;
  let pair: Awaited<ReturnType<typeof generateKeyPair>>;

  /** Returns a verifier for a provider with one key. @param keyMembers further members of that key in its key set */
  const createVerifier = async (keyMembers: Record<string, unknown> = {}) => {
    pair ??= await generateKeyPair('ES256');
    const jwk = { ...(await exportJWK(pair.publicKey)), alg: 'ES256', kid: 'k1', ...keyMembers };
    protocol.provider.setModes({ jwks: () => [jwk] });
    const provider: ProviderMetadata = { issuer: app.issuer, jwks_uri: `${protocol.provider.issuer}/jwks` };
    return createProviderJwts({
      metadata: { load: async () => provider, markStale: () => undefined },
      signingKeys: createSigningKeys({ outbound: protocol.outbound, monotonicClock: () => 0 }),
      clock: () => NOW * 1000,
    });
  };
  const sign = (claims: object) =>
    signWith(
      { alg: 'ES256', kid: 'k1', ...pair },
      { sub: 's1', aud: app.clientId, iat: NOW, exp: NOW + 60, ...claims },
    );
  /** "accepted", or the claim for which the token was refused. */
  const resultOf = async (verification: Promise<unknown>) => {
    try {
      await verification;
      return 'accepted';
    } catch (error) {
      return error instanceof RefusedJwt ? error.claim : String(error);
    }
  };

  interface TokenCase {
    readonly token: string;
    /** The tenant whose issuer the token names. */
    readonly issuerOf?: string;
    readonly claims: object;
    readonly result: string;
  }
  test.each<TokenCase>([
    { token: 'of a named tenant', issuerOf: INK, claims: { tid: INK }, result: 'accepted' },
    { token: 'of another tenant', issuerOf: STRANGE, claims: { tid: STRANGE }, result: 'tid' },
    { token: 'of a named tenant with the tid of another', issuerOf: INK, claims: { tid: BOOK }, result: 'iss' },
    { token: 'of a named tenant with an unnamed tid', issuerOf: INK, claims: { tid: STRANGE }, result: 'iss' },
    { token: 'of an unnamed tenant with a named tid', issuerOf: STRANGE, claims: { tid: INK }, result: 'iss' },
    { token: 'without a tid', issuerOf: INK, claims: {}, result: 'iss' },
    { token: 'with a list as tid', issuerOf: INK, claims: { tid: [INK] }, result: 'iss' },
    { token: 'without an issuer', claims: { tid: INK }, result: 'iss' },
    { token: 'of the template itself', issuerOf: '{tenantid}', claims: { tid: '{tenantid}' }, result: 'tid' },
    {
      token: 'of a tenant in capitals',
      issuerOf: INK.toUpperCase(),
      claims: { tid: INK.toUpperCase() },
      result: 'tid',
    },
    {
      token: 'of a named tenant at another host',
      claims: { iss: `https://evil.example/${INK}/v2.0`, tid: INK },
      result: 'iss',
    },
    { token: 'that has expired', issuerOf: INK, claims: { tid: INK, exp: NOW - 60 }, result: 'exp' },
    {
      token: 'with a path in its tid',
      issuerOf: `${INK}/v2.0/..`,
      claims: { tid: `${INK}/v2.0/..` },
      result: 'tid',
    },
    { token: 'with a replacement pattern in its tid', issuerOf: '$&', claims: { tid: '$&' }, result: 'tid' },
  ])('for a token $token: $result', async ({ issuerOf, claims, result }) => {
    const jwts = await createVerifier();
    const iss = issuerOf === undefined ? {} : { iss: tenantIssuer(protocol.provider, issuerOf) };
    const token = await sign({ ...iss, ...claims });
    expect(await resultOf(verifyIdToken(jwts, app, token))).toBe(result);
  });

  test.each<[string, string | undefined, string]>([
    ['for every tenant', '{tenantid}', 'accepted'],
    ['for this tenant', INK, 'accepted'],
    ['only for another tenant', BOOK, 'iss'],
    ['and names no tenant', undefined, 'accepted'],
  ])('for a token of a key that signs %s', async (_description, tenant, result) => {
    const jwts = await createVerifier(tenant === undefined ? {} : { issuer: tenantIssuer(protocol.provider, tenant) });
    const token = await sign({ iss: tenantIssuer(protocol.provider, INK), tid: INK });
    expect(await resultOf(verifyIdToken(jwts, app, token))).toBe(result);
  });

  test('refuses a token that a tenant signs with its key if the tid is that of another tenant', async () => {
    const jwts = await createVerifier({ issuer: tenantIssuer(protocol.provider, INK) });
    const token = await sign({ iss: tenantIssuer(protocol.provider, INK), tid: BOOK });
    expect(await resultOf(verifyIdToken(jwts, app, token))).toBe('iss');
  });

  const tenantId = fc.stringMatching(/^[A-Za-z0-9-]{1,64}$/);
  const anyTenant = fc.oneof(tenantId, fc.string({ maxLength: 20 }), fc.constantFrom(INK, BOOK, '$&', '$1', '..', ''));

  test('accepts a token exactly if its tid is a named tenant and its issuer is that of the tenant', async () => {
    const jwts = await createVerifier();
    const issuerOf = (tenant: string) => tenantIssuer(protocol.provider, tenant);
    const namedTenants = fc.uniqueArray(tenantId, { minLength: 1, maxLength: 4 });
    const tenantsOfToken = (named: string[]) =>
      fc.record({
        tid: fc.oneof(fc.constantFrom(...named), anyTenant),
        issuerTenant: fc.option(anyTenant, { freq: 1 }),
      });
    const cases = namedTenants.chain((named) => fc.tuple(fc.constant(named), tenantsOfToken(named)));
    await fc.assert(
      fc.asyncProperty(cases, async ([named, { tid, issuerTenant }]) => {
        const iss = issuerOf(issuerTenant ?? tid);
        const appOfTenants = { ...app, signIn: { allow: { claim: 'tid', values: named } } };

        const result = await resultOf(verifyIdToken(jwts, appOfTenants, await sign({ iss, tid })));

        const isOfNamedTenant = named.includes(tid) && iss === issuerOf(tid);
        expect(result === 'accepted').toBe(isOfNamedTenant);
      }),
      { numRuns: 150 },
    );
  });

  test('R20 without a template, refuses an issuer that is not equal byte for byte', async () => {
    const jwts = await createVerifier();
    const issuer = `${protocol.provider.issuer}/realm`;
    const appWithoutTemplate = { ...app, issuer };
    const similarIssuer = fc.oneof(
      fc.string({ maxLength: 8 }).map((end) => issuer + end),
      fc.nat(issuer.length - 1).map((place) => issuer.slice(0, place) + issuer.slice(place + 1)),
      fc.constantFrom(issuer, `${issuer}/`, issuer.toUpperCase(), ` ${issuer}`, `${issuer}?`, '{tenantid}', ''),
    );
    await fc.assert(
      fc.asyncProperty(similarIssuer, anyTenant, async (iss, tid) => {
        const result = await resultOf(verifyIdToken(jwts, appWithoutTemplate, await sign({ iss, tid })));
        expect(result === 'accepted').toBe(iss === issuer);
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
