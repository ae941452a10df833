/** Token requests with parameters of the app, and responses that deviate from RFC 6749 section 5.1, over HTTP. */
import { describe, expect, test, vi } from 'vitest';
import type { TokenResponse } from '../../../src/shared/provider/token-response.ts';
import { type BrokenResponse, status } from '../../support/broken-responses.ts';
import { type Mode, NESTED_TOKENS, ODD_TOKEN_RESPONSES } from '../../support/hostile-modes.ts';
import { failureOf, REQUEST, useProtocol } from './protocol.ts';

const protocol = useProtocol();
const SCOPES = ['openid', 'profile', 'offline_access'];
const TOKENS = {
  accessToken: expect.stringMatching(/^[0-9a-f-]{36}$/),
  refreshToken: expect.stringMatching(/^[0-9a-f-]{36}$/),
  expiresInSeconds: 3600,
  claims: expect.objectContaining({ sub: 'user-1' }),
};

/** Refreshes these tokens while the provider is in this mode. `savedTokens`: the refresh tokens saved at once */
async function refreshUnder({ refreshToken = '' }: TokenResponse, mode: Mode, app = protocol.app) {
  protocol.provider.setModes(mode);
  const saveRefreshToken = vi.fn(async () => undefined);
  const outcome = await protocol.client.refresh(app, { refreshToken, saveRefreshToken });
  return { outcome, savedTokens: saveRefreshToken.mock.calls.flat() as unknown[] };
}

describe('R26: a response is read in the format of the provider', () => {
  test.each(Object.entries(ODD_TOKEN_RESPONSES) as [string, Mode][])(
    '%s, at sign-in and at refresh',
    async (name, mode) => {
      const deviations = name === 'tokens-with-nulls' ? { scopes: undefined, expiresInSeconds: undefined } : {};
      const expected = { ...TOKENS, scopes: SCOPES, ...deviations };
      protocol.provider.setModes(mode);
      const signInTokens = await protocol.logIn();
      expect(signInTokens).toMatchObject(expected);

      const { outcome, savedTokens } = await refreshUnder(signInTokens, mode);
      expect(outcome).toMatchObject({ kind: 'tokens', response: expected });
      expect(savedTokens).toEqual([outcome.kind === 'tokens' && outcome.response.refreshToken]);
    },
  );

  test('nested tokens are read at the path that the app sets; a refresh may return them unnested', async () => {
    const app = protocol.appOf({ tokenPath: 'authed_user' });
    protocol.provider.setModes(NESTED_TOKENS);
    const signInTokens = await protocol.logIn(app);
    expect(signInTokens).toMatchObject({ ...TOKENS, scopes: SCOPES });
    expect((await refreshUnder(signInTokens, {}, app)).outcome).toMatchObject({ kind: 'tokens' });
  });

  test('an ID token that was not requested is ignored', async () => {
    const app = protocol.appOf({ scopes: ['profile', 'offline_access'], signIn: undefined });
    protocol.provider.setModes({ tokenResponse: (body) => ({ ...body, id_token: 'a.b.c' }) });
    const request = { ...REQUEST, scopes: app.scopes };
    const authorizationUrl = await protocol.client.authorizationUrl(app, request);
    const redirect = await fetch(authorizationUrl, { redirect: 'manual' });
    const callbackUrl = new URL(redirect.headers.get('location') ?? '');

    expect(await protocol.client.exchangeCode(app, callbackUrl, request)).toMatchObject({
      idToken: undefined,
      claims: undefined,
    });
  });

  test.each([
    ['x_refresh_token_expires_in', 8_726_400],
    ['refresh_token_expires_in', '86400'],
    ['refresh_expires_in', 1800],
  ])('%s is the lifetime of the refresh token', async (name, value) => {
    protocol.provider.setModes({ tokenResponse: (body) => ({ ...body, [name]: value }) });
    expect((await protocol.logIn()).refreshExpiresInSeconds).toBe(Number(value));
  });
});

describe('R32: the new refresh token of a refused response is saved', () => {
  type Body = Record<string, unknown>;
  const INVALID_ACCESS_TOKEN = { access_token: 'a\nb' };
  const toForm = (body: Body) => new URLSearchParams(body as Record<string, string>).toString();

  /** A refresh response with an invalid access token in this format. */
  const respondingWith = (contentType: string, serialize: (body: Body) => string, code = 200): Mode => {
    const refresh: BrokenResponse = (res, { body }) => {
      const text = serialize({ ...JSON.parse(body), ...INVALID_ACCESS_TOKEN });
      res.writeHead(code, { 'content-type': contentType }).end(text);
    };
    return { responses: { refresh } };
  };

  test.each<[string, Mode, object?]>([
    ['as a form', respondingWith('application/x-www-form-urlencoded', toForm)],
    ['as a form sent as plain text', respondingWith('text/plain', toForm)],
    ['with status 201', respondingWith('application/json', JSON.stringify, 201)],
    [
      'as nested tokens',
      { refreshResponse: (body) => ({ data: { user: { ...body, ...INVALID_ACCESS_TOKEN } } }) },
      { tokenPath: 'data.user' },
    ],
  ])('%s', async (_description, mode, appChanges = {}) => {
    const app = protocol.appOf(appChanges as Record<string, unknown>);
    const { outcome, savedTokens } = await refreshUnder(await protocol.logIn(app), mode, app);
    expect(outcome).toMatchObject({ kind: 'unusable', refreshToken: expect.stringMatching(/^[0-9a-f-]{36}$/) });
    expect(savedTokens).toEqual([outcome.kind === 'unusable' && outcome.refreshToken]);

    protocol.provider.setModes();
    const nextOutcome = await protocol.client.refresh(app, { refreshToken: String(savedTokens[0]) });
    expect(nextOutcome.kind).toBe('tokens');
  });
});

describe('a faulty token response at a sign-in', () => {
  test.each<[Mode, string]>([
    [{ tokenResponse: ({ access_token: _, ...body }) => body }, 'access_token'],
    [{ tokenResponse: (body) => ({ ...body, token_type: 'mac' }) }, 'token_type'],
    [{ tokenResponse: (body) => ({ ...body, token_type: 'DPoP' }) }, 'token_type'],
    [{ tokenResponse: (body) => ({ ...body, scope: 7 }) }, 'scope'],
    [{ responses: { token: status(200, '<h1>Hello</h1>') } }, 'access_token'],
  ])('names the faulty member: %o: %s', async (mode, member) => {
    protocol.provider.setModes(mode);
    const error = await protocol.logIn().catch((thrown: unknown) => thrown);
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
  ])('is classified by its status and error code: %s %j', async (code, body, failure) => {
    protocol.provider.setModes({ responses: { token: status(code, body) } });
    expect(await failureOf(protocol.logIn())).toEqual(failure);
  });
});

describe('R22: the error code of a provider', () => {
  const errorOf = async (error: unknown) => {
    protocol.provider.setModes({ responses: { token: status(400, { error }) } });
    const failure = (await protocol.logIn().catch((thrown: unknown) => thrown)) as { facts: { oauthError?: string } };
    return failure.facts.oauthError;
  };

  test('is repeated if it looks like an error code of RFC 6749; other text is not', async () => {
    for (const code of ['invalid_grant', 'BAD_REFRESH_TOKEN', 'x'.repeat(100)]) {
      expect(await errorOf(code)).toBe(code);
    }
    for (const text of ['', 'a b', 'a"b', 'é', 'x'.repeat(101), 'no-4111111111111111', 7, ['invalid_grant'], null]) {
      expect(await errorOf(text)).toBeUndefined();
    }
  });

  test('is not repeated if it contains a sent secret', async () => {
    protocol.provider.setModes({ responses: { token: status(400, { error: 'no-s3cret' }) } });
    const failure = await protocol
      .logIn({ ...protocol.app, clientSecret: 's3cret' })
      .catch((thrown: unknown) => thrown);
    expect(failure).toMatchObject({ reason: 'code_refused', facts: { oauthError: undefined } });

    protocol.provider.setModes();
    const { refreshToken = '' } = await protocol.logIn();
    protocol.provider.setModes({ responses: { refresh: status(400, { error: refreshToken }) } });
    expect(await protocol.client.refresh(protocol.app, { refreshToken })).toEqual({
      kind: 'unclear_refusal',
      reason: 'status_400',
    });
  });
});

describe('R3: parameters of the app', () => {
  test('are sent with the code and with the refresh token', async () => {
    const app = protocol.appOf({ tokenParameters: { resource: 'https://api.example.com', tenant: 'a b' } });
    const { refreshToken = '' } = await protocol.logIn(app);
    await protocol.client.refresh(app, { refreshToken, scopes: ['profile'] });

    const codeRequest = new URLSearchParams(protocol.provider.hitsOf('token')[0]?.body);
    const refreshRequest = new URLSearchParams(protocol.provider.hitsOf('refresh')[0]?.body);
    expect([...codeRequest.keys()].toSorted()).toEqual([
      'code',
      'code_verifier',
      'grant_type',
      'redirect_uri',
      'resource',
      'tenant',
    ]);
    expect([...refreshRequest.keys()].toSorted()).toEqual([
      'grant_type',
      'refresh_token',
      'resource',
      'scope',
      'tenant',
    ]);
    for (const request of [codeRequest, refreshRequest]) {
      expect(request.get('resource')).toBe('https://api.example.com');
      expect(request.get('tenant')).toBe('a b');
    }
    expect(protocol.provider.hitsOf('authorize')[0]?.url).not.toContain('resource');
  });

  test('RFC 8707: each request has all resources of the app, or the one that the call names', async () => {
    const resources = ['https://api.example.com/', 'urn:example:reports'];
    const app = protocol.appOf({ resources, tokenParameters: { tenant: 'a b' } });

    const { refreshToken = '' } = await protocol.logIn(app);
    const outcome = await protocol.client.refresh(app, { refreshToken });
    if (outcome.kind !== 'tokens') throw new Error(outcome.kind);
    const { refreshToken: rotatedToken = '' } = outcome.response;
    const resource = 'urn:example:reports';
    await protocol.client.refresh(app, { refreshToken: rotatedToken, scopes: ['profile'], resource });

    const { hitsOf, issuer } = protocol.provider;
    const authorizationRequest = new URL(hitsOf('authorize')[0]?.url ?? '', issuer).searchParams;
    const [codeRequest, refreshRequest, narrowRequest] = [...hitsOf('token'), ...hitsOf('refresh')].map(
      ({ body }) => new URLSearchParams(body),
    );
    expect(authorizationRequest.getAll('resource')).toEqual(resources);
    expect(codeRequest?.getAll('resource')).toEqual(resources);
    expect(refreshRequest?.getAll('resource')).toEqual(resources);
    expect(narrowRequest?.getAll('resource')).toEqual([resource]);
    expect(narrowRequest?.get('scope')).toBe('profile');

    expect(authorizationRequest.get('tenant')).toBeNull();
    for (const request of [codeRequest, refreshRequest, narrowRequest]) expect(request?.get('tenant')).toBe('a b');
  });

  test('RFC 8707: a pushed request has all resources of the app', async () => {
    const resources = ['https://api.example.com/', 'urn:example:reports'];
    protocol.provider.setModes({
      metadata: (metadata) => ({ ...metadata, pushed_authorization_request_endpoint: `${metadata.issuer}/par` }),
    });
    // This provider refuses every push, and records it.
    await expect(
      protocol.client.authorizationUrl(protocol.appOf({ resources, par: 'required' }), REQUEST),
    ).rejects.toThrow();
    const push = protocol.provider.hits.find(({ url }) => url === '/par');
    expect(new URLSearchParams(push?.body).getAll('resource')).toEqual(resources);
  });

  test('in the field parameters are sent only in the authorization request', async () => {
    const app = protocol.appOf({ parameters: { resource: 'https://api.example.com' } });
    await protocol.logIn(app);

    const [authorizationRequest] = protocol.provider.hitsOf('authorize');
    const sentParameters = new URL(authorizationRequest?.url ?? '', protocol.provider.issuer).searchParams;
    expect(sentParameters.get('resource')).toBe('https://api.example.com');
    expect(protocol.provider.hitsOf('token')[0]?.body).not.toContain('resource');
  });
});
