/** Token requests with parameters of the app, and responses that deviate from RFC 6749 section 5.1, over HTTP. */
import { describe, expect, test, vi } from 'vitest';
import type { TokenResponse } from '../../../src/shared/provider/token-response.ts';
import { type BrokenResponse, status } from '../../support/broken-responses.ts';
import { type Mode, NESTED_TOKENS, ODD_TOKEN_RESPONSES } from '../../support/hostile-modes.ts';
import { failureOf, REQUEST, useProtocol } from './protocol.ts';

const at = useProtocol();
const SCOPES = ['openid', 'profile', 'offline_access'];
const TOKENS = {
  accessToken: expect.stringMatching(/^[0-9a-f-]{36}$/),
  refreshToken: expect.stringMatching(/^[0-9a-f-]{36}$/),
  expiresInSeconds: 3600,
  claims: expect.objectContaining({ sub: 'user-1' }),
};

async function refreshed({ refreshToken = '' }: TokenResponse, mode: Mode, app = at.app) {
  at.provider.setModes(mode);
  const saveRefreshToken = vi.fn(async () => undefined);
  const outcome = await at.client.refresh(app, { refreshToken, saveRefreshToken });
  return { outcome, saved: saveRefreshToken.mock.calls.flat() as unknown[] };
}

describe('R26: a response is read in the format of the provider', () => {
  test.each(Object.entries(ODD_TOKEN_RESPONSES) as [string, Mode][])(
    '%s, at sign-in and at refresh',
    async (name, mode) => {
      const differs = name === 'tokens-with-nulls' ? { scopes: undefined, expiresInSeconds: undefined } : {};
      const expected = { ...TOKENS, scopes: SCOPES, ...differs };
      at.provider.setModes(mode);
      const first = await at.logIn();
      expect(first).toMatchObject(expected);
      const { outcome, saved } = await refreshed(first, mode);
      expect(outcome).toMatchObject({ kind: 'tokens', response: expected });
      expect(saved).toEqual([outcome.kind === 'tokens' && outcome.response.refreshToken]);
    },
  );

  test('nested tokens at the path that the app sets; a refresh may have them at the top', async () => {
    const app = at.appOf({ tokenPath: 'authed_user' });
    at.provider.setModes(NESTED_TOKENS);
    const first = await at.logIn(app);
    expect(first).toMatchObject({ ...TOKENS, scopes: SCOPES });
    expect((await refreshed(first, {}, app)).outcome).toMatchObject({ kind: 'tokens' });
  });

  test('an ID token that was not requested is ignored', async () => {
    const app = at.appOf({ scopes: ['profile', 'offline_access'], signIn: undefined });
    at.provider.setModes({ tokenResponse: (body) => ({ ...body, id_token: 'a.b.c' }) });
    const request = { ...REQUEST, scopes: app.scopes };
    const url = await at.client.authorizationUrl(app, request);
    const answer = await fetch(url, { redirect: 'manual' });
    const callback = new URL(answer.headers.get('location') ?? '');
    expect(await at.client.exchangeCode(app, callback, request)).toMatchObject({
      ...{ idToken: undefined, claims: undefined },
    });
  });

  test.each([
    ['x_refresh_token_expires_in', 8_726_400],
    ['refresh_token_expires_in', '86400'],
    ['refresh_expires_in', 1800],
  ])('%s is the lifetime of the refresh token', async (name, value) => {
    at.provider.setModes({ tokenResponse: (body) => ({ ...body, [name]: value }) });
    expect((await at.logIn()).refreshExpiresInSeconds).toBe(Number(value));
  });
});

describe('R32: the new refresh token of a refused response is saved', () => {
  const broken = { access_token: 'a\nb' };
  const written = (write: (body: Record<string, unknown>) => [string, string], code = 200): Mode => {
    const refresh: BrokenResponse = (res, { body }) => {
      const [type, text] = write({ ...JSON.parse(body), ...broken });
      res.writeHead(code, { 'content-type': type }).end(text);
    };
    return { responses: { refresh } };
  };
  const asForm = (body: Record<string, unknown>): [string, string] => [
    'application/x-www-form-urlencoded',
    new URLSearchParams(body as Record<string, string>).toString(),
  ];

  test.each<[string, Mode, object?]>([
    ['of a form', written(asForm)],
    ['of a form as plain text', written((body) => ['text/plain', asForm(body)[1]])],
    ['with status 201', written((body) => ['application/json', JSON.stringify(body)], 201)],
    ['nested', { refreshResponse: (body) => ({ data: { user: { ...body, ...broken } } }) }, { tokenPath: 'data.user' }],
  ])('%s', async (_words, mode, changes = {}) => {
    const app = at.appOf(changes as Record<string, unknown>);
    const { outcome, saved } = await refreshed(await at.logIn(app), mode, app);
    expect(outcome).toMatchObject({ kind: 'unusable', refreshToken: expect.stringMatching(/^[0-9a-f-]{36}$/) });
    expect(saved).toEqual([outcome.kind === 'unusable' && outcome.refreshToken]);
    at.provider.setModes();
    expect((await at.client.refresh(app, { refreshToken: String(saved[0]) })).kind).toBe('tokens');
  });
});

describe('a fault of a response is named', () => {
  test.each<[Mode, string]>([
    [{ tokenResponse: ({ access_token: _, ...body }) => body }, 'access_token'],
    [{ tokenResponse: (body) => ({ ...body, token_type: 'mac' }) }, 'token_type'],
    [{ tokenResponse: (body) => ({ ...body, token_type: 'DPoP' }) }, 'token_type'],
    [{ tokenResponse: (body) => ({ ...body, scope: 7 }) }, 'scope'],
    [{ responses: { token: status(200, '<h1>Hello</h1>') } }, 'access_token'],
  ])('%o: %s', async (mode, member) => {
    at.provider.setModes(mode);
    const error = await at.logIn().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ failure: 'invalid', reason: 'token_response_invalid', facts: { member } });
  });

  test.each<[number, unknown, object]>([
    [200, { ok: false, error: 'invalid_code' }, { failure: 'refused', reason: 'code_refused' }],
    [200, { error: 'bad_client_secret' }, { failure: 'misconfigured', reason: 'client_refused' }],
    [400, { error: 'invalid_client_id' }, { failure: 'misconfigured', reason: 'client_refused' }],
    [401, { error: 'access_denied' }, { failure: 'misconfigured', reason: 'client_refused' }],
    [401, '', { failure: 'misconfigured', reason: 'client_refused' }],
    [401, { error: 'invalid_grant' }, { failure: 'refused', reason: 'code_refused' }],
    [401, { error: 'invalid_request' }, { failure: 'refused', reason: 'code_refused' }],
    [400, { error: 'unsupported_grant_type' }, { failure: 'misconfigured', reason: 'flow_refused' }],
    [400, 'error=incorrect_client_credentials', { failure: 'misconfigured', reason: 'client_refused' }],
    [405, '', { failure: 'refused', reason: 'code_refused' }],
  ])('%s %j', async (code, body, failure) => {
    at.provider.setModes({ responses: { token: status(code, body) } });
    expect(await failureOf(at.logIn())).toEqual(failure);
  });
});

describe('R22: the error code of a provider', () => {
  const errorOf = async (error: unknown) => {
    at.provider.setModes({ responses: { token: status(400, { error }) } });
    const failure = (await at.logIn().catch((thrown: unknown) => thrown)) as { facts: { oauthError?: string } };
    return failure.facts.oauthError;
  };

  test('is repeated if RFC 6749 allows its characters, and no other text', async () => {
    for (const code of ['invalid_grant', 'BAD_REFRESH_TOKEN', 'x'.repeat(100)]) expect(await errorOf(code)).toBe(code);
    for (const odd of ['', 'a b', 'a"b', 'é', 'x'.repeat(101), 'no-4111111111111111', 7, ['invalid_grant'], null])
      expect(await errorOf(odd)).toBeUndefined();
  });

  test('is not repeated if it contains a sent secret', async () => {
    at.provider.setModes({ responses: { token: status(400, { error: 'no-s3cret' }) } });
    const failure = await at.logIn({ ...at.app, clientSecret: 's3cret' }).catch((thrown: unknown) => thrown);
    expect(failure).toMatchObject({ reason: 'code_refused', facts: { oauthError: undefined } });
    at.provider.setModes();
    const { refreshToken = '' } = await at.logIn();
    at.provider.setModes({ responses: { refresh: status(400, { error: refreshToken }) } });
    expect(await at.client.refresh(at.app, { refreshToken })).toEqual({
      kind: 'unclear_refusal',
      reason: 'status_400',
    });
  });
});

describe('R3: parameters of the app', () => {
  test('are sent with the code and with the refresh token', async () => {
    const app = at.appOf({ tokenParameters: { resource: 'https://api.example.com', tenant: 'a b' } });
    const { refreshToken = '' } = await at.logIn(app);
    await at.client.refresh(app, { refreshToken, scopes: ['profile'] });
    for (const [endpoint, names] of [
      ['token', ['code', 'code_verifier', 'grant_type', 'redirect_uri', 'resource', 'tenant']],
      ['refresh', ['grant_type', 'refresh_token', 'resource', 'scope', 'tenant']],
    ] as const) {
      const sent = new URLSearchParams(at.provider.hitsOf(endpoint)[0]?.body);
      expect([...sent.keys()].toSorted()).toEqual(names);
      expect([sent.get('resource'), sent.get('tenant')]).toEqual(['https://api.example.com', 'a b']);
    }
    expect(at.provider.hitsOf('authorize')[0]?.url).not.toContain('resource');
  });

  test('RFC 8707: all resources of the app, or the requested one', async () => {
    const resources = ['https://api.example.com/', 'urn:example:reports'];
    const app = at.appOf({ resources, tokenParameters: { tenant: 'a b' } });
    const { refreshToken = '' } = await at.logIn(app);
    const next = await at.client.refresh(app, { refreshToken });
    const rotated = (next.kind === 'tokens' && next.response.refreshToken) || '';
    await at.client.refresh(app, { refreshToken: rotated, scopes: ['profile'], resource: 'urn:example:reports' });
    const [authorize] = at.provider.hitsOf('authorize');
    const bodies = [...at.provider.hitsOf('token'), ...at.provider.hitsOf('refresh')].map(({ body }) => body);
    const sent = [authorize?.url.split('?')[1], ...bodies].map((text) => new URLSearchParams(text));
    expect(sent.map((parameters) => parameters.getAll('resource'))).toEqual([
      resources,
      resources,
      resources,
      resources.slice(1),
    ]);
    expect(sent.map((parameters) => parameters.get('tenant'))).toEqual([null, 'a b', 'a b', 'a b']);
    expect(sent[3]?.get('scope')).toBe('profile');
  });

  test('RFC 8707: all resources of the app are in a pushed request', async () => {
    const resources = ['https://api.example.com/', 'urn:example:reports'];
    at.provider.setModes({
      metadata: (metadata) => ({ ...metadata, pushed_authorization_request_endpoint: `${metadata.issuer}/par` }),
    });
    // This provider refuses every push, and records it.
    await expect(at.client.authorizationUrl(at.appOf({ resources, par: 'required' }), REQUEST)).rejects.toThrow();
    const push = at.provider.hits.find(({ url }) => url === '/par');
    expect(new URLSearchParams(push?.body).getAll('resource')).toEqual(resources);
  });

  test('resource in the authorization request', async () => {
    const app = at.appOf({ parameters: { resource: 'https://api.example.com' } });
    await at.logIn(app);
    expect(
      new URL(at.provider.hitsOf('authorize')[0]?.url ?? '', at.provider.issuer).searchParams.get('resource'),
    ).toBe('https://api.example.com');
    expect(at.provider.hitsOf('token')[0]?.body).not.toContain('resource');
  });
});
