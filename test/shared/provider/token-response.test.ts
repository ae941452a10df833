/** The facts captured from a raw response, and when tokens are bound to a key. */
import * as client from 'openid-client';
import { describe, expect, test, vi } from 'vitest';
import { type ConnectedApp, providerHostOf } from '../../../src/shared/provider/connected-app.ts';
import { makeDpopKey } from '../../../src/shared/provider/dpop.ts';
import type { ProviderJwts } from '../../../src/shared/provider/provider-jwt.ts';
import type { ProviderMetadata } from '../../../src/shared/provider/provider-metadata.ts';
import { requestTokens } from '../../../src/shared/provider/token-request.ts';
import { type Capture, captureResponse } from '../../../src/shared/provider/token-response.ts';

const NOW = Date.parse('2026-11-30T02:00:00Z');

const appOf = (changes: object = {}) =>
  ({
    id: 'platform',
    issuer: 'https://idp.test',
    clientId: 'c1',
    scopes: ['mail'],
    dpop: 'auto',
    ...changes,
  }) as ConnectedApp;

describe('a raw response', () => {
  const capture = async (body: string, init: ResponseInit = {}, captured: Capture = {}) => {
    const passed = await captureResponse(new Response(body, init), captured, NOW);
    return { captured, status: passed.status, text: await passed.text() };
  };
  const JSON_TYPE = { 'content-type': 'application/json' };

  test.each<[string | undefined, number | undefined]>([
    [undefined, undefined],
    ['7', 7],
    ['0.2', 1],
    ['3600', 3_600],
    ['3601', 3_600],
    ['Mon, 30 Nov 2026 02:00:40 GMT', 40],
    ['0', 1],
    ['-5', undefined],
    ['soon', undefined],
    ['Infinity', undefined],
  ])('with Retry-After %s must be retried after %s seconds', async (value, seconds) => {
    const headers = value === undefined ? undefined : { 'retry-after': value };
    expect((await capture('{}', { status: 503, ...(headers && { headers }) })).captured.retryAfterSeconds).toBe(
      seconds,
    );
  });

  test.each([
    ['bearer_token', '“bearer_token”'],
    ['bearer_token', '“bearer_token”', ''],
    // Some providers confuse members: what they got is not shown.
    ['my client secret', 'a text of 16 characters'],
    ['sent.token', 'a text of 10 characters'],
    ['the sent.token', 'a text of 14 characters'],
  ])('R22 with the token_type %s is described as %s', async (token_type, description, refresh_token?: string) => {
    const secrets = ['my client secret', 'sent.token', '', undefined];
    const { captured } = await capture(
      JSON.stringify({ access_token: 'at', refresh_token, token_type }),
      { headers: JSON_TYPE },
      { app: appOf(), secrets },
    );
    expect([captured.fault, captured.faultyValue]).toEqual(['token_type', description]);
  });

  test.each([
    ['{"error":"invalid_grant"}', true, 'invalid_grant'],
    ['{"error":"not a code"}', true, undefined],
    ['', true, undefined],
    ['  \n', true, undefined],
    ['[]', false, undefined],
    ['<p>no</p>', false, undefined],
  ])('%j: readable %s, error code %s', async (body, isReadable, error) => {
    const { captured, status, text } = await capture(body, { status: 400, headers: JSON_TYPE });
    expect(captured).toMatchObject({ status: 400, isReadable, error });
    expect([status, text]).toEqual([400, body]);
  });

  test('has no error code if the code repeats a secret of the request', async () => {
    const captured = { secrets: ['s3cret'] };
    expect((await capture('{"error":"no-s3cret"}', { status: 400 }, captured)).captured.error).toBeUndefined();
  });

  test.each([200, 201])('with status %i is read as tokens after its refresh token is saved', async (status) => {
    const saveRefreshToken = vi.fn(async () => undefined);
    const body = JSON.stringify({ access_token: 'at', refresh_token: 'rt', token_type: 'user', scope: 'a,b' });
    const init = { status, headers: JSON_TYPE };
    const { captured, text, status: passed } = await capture(body, init, { app: appOf(), saveRefreshToken });
    expect(JSON.parse(text)).toEqual({ access_token: 'at', refresh_token: 'rt', token_type: 'bearer', scope: 'a b' });
    expect([passed, captured.refreshToken, captured.fault, saveRefreshToken.mock.calls]).toEqual([
      200,
      'rt',
      undefined,
      [['rt']],
    ]);
  });

  test('with an invalid member names it, and its refresh token is still saved', async () => {
    const saveRefreshToken = vi.fn(async () => undefined);
    const body = JSON.stringify({ access_token: 7, refresh_token: 'rt' });
    const { captured, text } = await capture(body, { headers: JSON_TYPE }, { app: appOf(), saveRefreshToken });
    expect([captured.fault, captured.refreshToken, text]).toEqual(['access_token', 'rt', '{}']);
    expect(saveRefreshToken).toHaveBeenCalledOnce();
  });

  test('is passed on unchanged with another status, or for a request that is not for tokens', async () => {
    const body = JSON.stringify({ access_token: 'at', refresh_token: 'rt' });
    for (const [status, app] of [
      [202, appOf()],
      [400, appOf()],
      [201, undefined],
    ] as const) {
      const { captured, ...passed } = await capture(body, { status }, app ? { app } : {});
      expect(passed).toEqual({ status, text: body });
      expect([captured.refreshToken, captured.fault]).toEqual([undefined, undefined]);
    }
  });
});

describe('RFC 9449: binding tokens to a key', () => {
  const FAPI = { require_pushed_authorization_requests: true, dpop_signing_alg_values_supported: ['ES256'] };
  const request = async (
    app: object,
    server: object,
    response: object = { token_type: 'bearer' },
    dpopKey?: object,
  ) => {
    const connection = {
      app: appOf(app),
      server: { issuer: 'https://idp.test', ...server } as ProviderMetadata,
      configuration: new client.Configuration({ issuer: 'https://idp.test' }, 'c1'),
    };
    let isBound = false;
    const tokens = await requestTokens(connection, {
      jwts: { verify: async () => ({ sub: 's1' }) } as ProviderJwts,
      ...(dpopKey && { dpopKey }),
      async send({ DPoP }) {
        isBound = DPoP !== undefined;
        return { access_token: 'at', ...response } as never;
      },
    });
    return { isBound, tokens };
  };

  test.each<[string, object, boolean]>([
    ['off', FAPI, false],
    ['auto', {}, false],
    ['auto', FAPI, true],
    ['auto', { ...FAPI, require_pushed_authorization_requests: false }, false],
    ['auto', { ...FAPI, dpop_signing_alg_values_supported: ['RS256'] }, false],
    ['auto', { ...FAPI, dpop_signing_alg_values_supported: 'ES256' }, false],
  ])('with dpop %s at a provider with %j, a proof is sent: %s', async (dpop, server, isBound) => {
    const { isBound: sent, tokens } = await request({ dpop }, server);
    expect([sent, tokens.dpopKey]).toEqual([isBound, undefined]);
  });

  test('keeps the key of tokens that are already bound', async () => {
    const key = await makeDpopKey();
    const { isBound, tokens } = await request({ dpop: 'off' }, {}, { token_type: 'dpop' }, key);
    expect([isBound, tokens.dpopKey]).toEqual([true, key]);
  });

  test('rejects bearer tokens if the app requires binding', async () => {
    const { isBound, tokens } = await request({ dpop: 'required' }, {}, { token_type: 'dpop' });
    expect([isBound, tokens.dpopKey?.crv]).toEqual([true, 'P-256']);
    await expect(request({ dpop: 'required' }, {})).rejects.toMatchObject({
      failure: 'invalid',
      reason: 'token_not_bound',
    });
  });

  test('rejects a bound token if no proof was sent', async () => {
    await expect(request({ dpop: 'off' }, {}, { token_type: 'dpop' })).rejects.toMatchObject({
      failure: 'invalid',
      reason: 'token_response_invalid',
      facts: { member: 'token_type' },
    });
  });

  test('returns scopes, lifetimes, and the ID token only if it can be verified', async () => {
    const response = {
      token_type: 'bearer',
      refresh_token: 'rt',
      id_token: 'a.b.c',
      scope: 'a  b',
      expires_in: 60,
      refresh_token_expires_in: 900,
    };
    const { tokens } = await request({}, { jwks_uri: 'https://idp.test/jwks' }, response);
    expect(tokens).toMatchObject({
      accessToken: 'at',
      refreshToken: 'rt',
      idToken: 'a.b.c',
      claims: { sub: 's1' },
      scopes: ['a', 'b'],
      expiresInSeconds: 60,
      refreshExpiresInSeconds: 900,
    });

    const { tokens: unverified } = await request({}, {}, response);
    expect([unverified.idToken, unverified.claims]).toEqual([undefined, undefined]);

    const ofTenant = await request({ issuer: 'https://idp.test/{tenantid}' }, {}, response);
    expect(ofTenant.tokens.claims).toMatchObject({ sub: 's1' });
  });
});

test('the provider host is that of the configured token endpoint, or else of the issuer', () => {
  const issuer = 'https://idp.test:8443/tenant';
  expect(providerHostOf({ issuer, endpoints: undefined })).toBe('idp.test:8443');
  expect(providerHostOf({ issuer, endpoints: { token: 'https://tokens.test/t' } })).toBe('tokens.test');
  expect(providerHostOf({ issuer, endpoints: { jwks: 'https://keys.test/' } })).toBe('idp.test:8443');
});
