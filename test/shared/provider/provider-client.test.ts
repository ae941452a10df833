/** The provider client with the hostile provider, over real HTTP. */
import { describe, expect, test, vi } from 'vitest';
import { failureOf, REDIRECT_URI, REQUEST, useProtocol } from '../../gatehouse/connected-apps/protocol.ts';
import { type BrokenResponse, status } from '../../support/broken-responses.ts';
import { BAD_ID_TOKENS, type Mode, type SigningKeys, signWith } from '../../support/hostile-modes.ts';
import { type ModeName, startHostileProvider } from '../../support/hostile-provider.ts';

const protocol = useProtocol();

describe('R22: client authentication', () => {
  test('client_secret_basic sends encoded credentials only in the Authorization header', async () => {
    expect(protocol.provider.clientSecret).toMatch(/a:b%\/\+ ü/);

    await protocol.logIn();
    const [hit] = protocol.provider.hitsOf('token');
    expect(hit?.headers.authorization).toMatch(/^Basic /);
    expect(hit?.body).not.toMatch(/client_secret/);
    expect(protocol.provider.hits.map(({ url }) => url).join()).not.toMatch(/secret|Basic/);
  });

  test('client_secret_post sends the secret in the body', async () => {
    await protocol.logIn(protocol.appOf({ tokenEndpointAuthMethod: 'client_secret_post' }));
    const [hit] = protocol.provider.hitsOf('token');
    expect(hit?.headers.authorization).toBeUndefined();
    expect(new URLSearchParams(hit?.body).get('client_secret')).toBe(protocol.provider.clientSecret);
  });

  test('none sends only the client ID', async () => {
    await protocol.logIn(protocol.appOf({ tokenEndpointAuthMethod: 'none', clientSecret: undefined }));
    const [hit] = protocol.provider.hitsOf('token');
    expect([hit?.headers.authorization, hit?.body.includes('client_secret')]).toEqual([undefined, false]);
    expect(hit?.body).toContain(`client_id=${protocol.provider.clientId}`);
  });

  test('does not escape common punctuation, for providers that do not decode the credentials', async () => {
    const otherProvider = await startHostileProvider({ clientId: 'client-id_1.a~b', clientSecret: 'se-cr_et.1~2*3' });
    otherProvider.setModes('basic-not-decoded');
    await expect(protocol.logIn(protocol.appOf({}, otherProvider))).resolves.toHaveProperty('accessToken');

    otherProvider.setModes();
    await expect(protocol.logIn(protocol.appOf({}, otherProvider))).resolves.toHaveProperty('accessToken');

    await otherProvider.close();
  });

  test('reports a wrong secret as a misconfigured registration', async () => {
    const appWithWrongSecret = { ...protocol.app, clientSecret: 'wrong' };
    expect(await failureOf(protocol.logIn(appWithWrongSecret))).toEqual({
      failure: 'misconfigured',
      reason: 'client_refused',
    });
  });
});

describe('R18, R23: code exchange', () => {
  test.each(Object.keys(BAD_ID_TOKENS) as (keyof typeof BAD_ID_TOKENS)[])('%s', async (mode) => {
    protocol.provider.setModes(mode);
    expect(await failureOf(protocol.logIn())).toEqual({ failure: 'invalid', reason: 'token_response_invalid' });
  });

  test('with configured endpoints, accepts ES256 and EdDSA and rejects bad signatures', async () => {
    const appWithEndpoints = protocol.appOf({ endpoints: protocol.provider.endpointSettings() });
    for (const mode of ['id-token-es256', 'id-token-eddsa'] as const) {
      protocol.provider.setModes(mode);
      expect((await protocol.logIn(appWithEndpoints)).claims?.sub).toBe('user-1');
    }
    for (const mode of ['id-token-stranger-key', 'id-token-alg-none', 'id-token-hs256-public-key'] as const) {
      protocol.provider.setModes(mode);
      expect((await failureOf(protocol.logIn(appWithEndpoints))).failure).toBe('invalid');
    }
  });

  test('R8, R13: rejects a callback with another state or iss before sending a request', async () => {
    const validParameters = new URLSearchParams({
      code: 'a-code',
      state: REQUEST.state,
      iss: protocol.provider.issuer,
    });
    const changes: [string, string | undefined][] = [
      ['state', 'another'],
      ['state', undefined],
      ['iss', `${protocol.provider.issuer}/`],
      ['iss', undefined],
      ['code', undefined],
    ];
    for (const [name, value] of changes) {
      const callback = new URL(`${REDIRECT_URI}?${validParameters}`);
      if (value === undefined) callback.searchParams.delete(name);
      else callback.searchParams.set(name, value);
      expect(await failureOf(protocol.client.exchangeCode(protocol.app, callback, REQUEST))).toEqual({
        failure: 'invalid',
        reason: 'authorization_response_invalid',
      });
    }
    expect(protocol.provider.hitsOf('token')).toEqual([]);

    const validExchange = protocol.client.exchangeCode(
      protocol.app,
      new URL(`${REDIRECT_URI}?${validParameters}`),
      REQUEST,
    );
    expect(await failureOf(validExchange)).toEqual({ failure: 'refused', reason: 'code_refused' });
  });

  test('R25: does not send the code to a redirect target', async () => {
    for (const mode of ['token-redirect', 'token-redirect-307', 'token-redirect-301'] as const) {
      protocol.provider.setModes(mode);
      expect((await failureOf(protocol.logIn())).failure).toBe('invalid');
    }
    expect(protocol.provider.trapped).toEqual([]);
  });

  test.each<[ModeName, string, string]>([
    ['token-invalid-grant', 'refused', 'code_refused'],
    ['token-status-400', 'refused', 'code_refused'],
    ['token-status-404', 'refused', 'code_refused'],
    ['token-invalid-client', 'misconfigured', 'client_refused'],
    ['token-status-429', 'unavailable', 'token_endpoint_failed'],
    ['token-status-500', 'unavailable', 'token_endpoint_failed'],
    ['token-status-503', 'unavailable', 'token_endpoint_failed'],
    ['token-huge', 'unavailable', 'too_large'],
    ['token-reset', 'unavailable', 'connection'],
    ['token-reset-after-headers', 'unavailable', 'connection'],
    ['token-gzip-cut-off', 'unavailable', 'encoding'],
    ['token-unknown-encoding', 'unavailable', 'encoding'],
    ['token-refused-with-200', 'refused', 'code_refused'],
    ['token-wrong-secret-with-200', 'misconfigured', 'client_refused'],
    ['token-html', 'invalid', 'token_response_invalid'],
    ['token-truncated', 'invalid', 'token_response_invalid'],
    ['token-array', 'invalid', 'token_response_invalid'],
    ['token-empty', 'invalid', 'token_response_invalid'],
    ['jwks-status-500', 'unavailable', 'keys_unavailable'],
    ['jwks-redirect', 'unavailable', 'keys_unavailable'],
    ['jwks-html', 'unavailable', 'keys_unavailable'],
    ['jwks-null', 'unavailable', 'keys_unavailable'],
    ['jwks-huge', 'unavailable', 'too_large'],
    ['jwks-reset', 'unavailable', 'connection'],
  ])('%s: %s, %s', async (mode, failure, reason) => {
    protocol.provider.setModes(mode);
    expect(await failureOf(protocol.logIn())).toEqual({ failure, reason });
    expect(protocol.provider.hitsOf('token')).toHaveLength(1);
    expect(protocol.provider.trapped).toEqual([]);
  });
});

test('R133 a provider behind a CDN that compresses unasked is read: discovery, tokens, keys and userinfo', async () => {
  protocol.provider.setModes('discovery-gzip', 'token-gzip', 'jwks-gzip', 'userinfo-gzip');
  const response = await protocol.logIn();
  expect(response.claims?.sub).toBe('user-1');
  expect(await protocol.client.userinfo(protocol.app, response, 'user-1')).toMatchObject({ sub: 'user-1' });
});

describe('R98 a signed userinfo response', () => {
  /** Signs in, and makes the userinfo endpoint sign these claims. */
  async function userinfo(claims: Record<string, unknown>, header: Record<string, unknown> = {}) {
    let keys: SigningKeys | undefined;
    const sign: Mode['sign'] = (idToken, scene) => {
      keys = scene.keys;
      return signWith(scene.keys.rs256, idToken);
    };
    const signed: BrokenResponse = async (res) => {
      const jwt = keys && (await signWith(keys.es256, claims, header));
      res.writeHead(200, { 'content-type': 'application/jwt; charset=utf-8' }).end(jwt);
    };
    protocol.provider.setModes({ sign, responses: { userinfo: signed } });
    const response = await protocol.logIn();
    return protocol.client.userinfo(protocol.app, response, 'user-1');
  }
  const validClaims = () => ({
    iss: protocol.provider.issuer,
    aud: protocol.provider.clientId,
    sub: 'user-1',
    email: 'ada@example.test',
  });

  test('is accepted if the provider signed it for this app', async () => {
    expect(await userinfo(validClaims())).toMatchObject({ sub: 'user-1', email: 'ada@example.test' });
  });

  test.each<[string, Record<string, unknown>, Record<string, unknown>]>([
    ['for another client', { aud: 'another-client' }, {}],
    ['by another issuer', { iss: 'https://elsewhere.example.com' }, {}],
    ['without an audience', { aud: undefined }, {}],
    ['of another subject', { sub: 'user-2' }, {}],
    ['that is an access token', {}, { typ: 'at+jwt' }],
    ['with a key that the provider does not publish', {}, { kid: 'nobody-knows' }],
  ])('is refused: %s', async (_words, claims, header) => {
    expect(await failureOf(userinfo({ ...validClaims(), ...claims }, header))).toEqual({
      failure: 'invalid',
      reason: 'userinfo_invalid',
    });
  });
});

describe('R98 a refresh response', () => {
  test.each<keyof typeof BAD_ID_TOKENS>([
    'id-token-wrong-iss',
    'id-token-wrong-azp-beside-our-aud',
    'id-token-iat-in-the-future',
    'id-token-typ-access-token',
    'id-token-stranger-key',
    'id-token-empty-sub',
  ])('with %s: its tokens are not used', async (mode) => {
    const onTokens = vi.fn();
    protocol.client = protocol.freshClient(onTokens);
    const { refreshToken = '' } = await protocol.logIn();
    protocol.provider.setModes(mode);
    const outcome = await protocol.client.refresh(protocol.app, { refreshToken });
    expect(outcome).toMatchObject({ kind: 'unusable', reason: 'token_response_invalid' });
    expect(onTokens.mock.calls).toEqual([[protocol.app, expect.objectContaining({ refreshToken }), undefined]]);
  });
});

describe('R26, R27: the lifetime in a token response', () => {
  const year = 31_536_000;
  test.each<[unknown, number | undefined]>([
    [3600, 3600],
    ['3600', 3600],
    [3599.9, 3599],
    [1e300, year],
    ['999999999999999', year],
    [year + 1, year],
    [0, undefined],
    [0.5, undefined],
    [-5, undefined],
    ['-5', undefined],
    ['NaN', undefined],
    ['1e3', undefined],
    ['', undefined],
    [[3600], undefined],
    [{ seconds: 5 }, undefined],
    [true, undefined],
    [null, undefined],
  ])('reads expires_in %j as %s', async (lifetime, seconds) => {
    protocol.provider.setModes({ tokenResponse: (body) => ({ ...body, expires_in: lifetime }) });
    expect((await protocol.logIn()).expiresInSeconds).toBe(seconds);
  });

  test('accepts JSON with another content type', async () => {
    protocol.provider.setModes('token-wrong-type');
    expect((await protocol.logIn()).expiresInSeconds).toBe(3600);
  });

  test('a missing scope means the requested scopes; extra spaces are ignored', async () => {
    protocol.provider.setModes('no-scope');
    expect((await protocol.logIn()).scopes).toBeUndefined();
    protocol.provider.setModes({ tokenResponse: (body) => ({ ...body, scope: ' openid  profile ' }) });
    expect((await protocol.logIn()).scopes).toEqual(['openid', 'profile']);
  });
});

describe('R21: userinfo', () => {
  const fetchUserinfo = async () => protocol.client.userinfo(protocol.app, await protocol.logIn(), 'user-1');

  test('is accepted only for the same subject', async () => {
    expect(await fetchUserinfo()).toMatchObject({ sub: 'user-1', name: 'Ada Quill' });
    for (const mode of ['userinfo-other-sub', 'userinfo-no-sub'] as const) {
      protocol.provider.setModes(mode);
      expect(await failureOf(fetchUserinfo())).toEqual({ failure: 'invalid', reason: 'userinfo_invalid' });
    }
  });

  test('is undefined without an endpoint', async () => {
    protocol.provider.setModes('no-userinfo-endpoint');
    expect(await fetchUserinfo()).toBeUndefined();
  });

  test.each<[ModeName, string]>([
    ['userinfo-huge', 'unavailable'],
    ['userinfo-reset', 'unavailable'],
    ['userinfo-redirect', 'invalid'],
    ['userinfo-html', 'invalid'],
    ['userinfo-array', 'invalid'],
    ['userinfo-status-401', 'invalid'],
    ['userinfo-status-503', 'unavailable'],
    ['userinfo-status-500', 'unavailable'],
    ['userinfo-status-429', 'unavailable'],
  ])('%s: %s', async (mode, failure) => {
    protocol.provider.setModes(mode);
    expect((await failureOf(fetchUserinfo())).failure).toBe(failure);
    expect(protocol.provider.trapped).toEqual([]);
  });
});

describe('the id of an account without ID tokens', () => {
  const idOf = async (body: unknown, account: object = { field: 'data.user.id' }, code = 200) => {
    const token = await protocol.logIn();
    protocol.provider.setModes({ responses: { userinfo: status(code, body) } });
    return protocol.client.accountId(protocol.appOf({ account }), token);
  };
  const unreadable = (failure: string, facts: object) => ({ failure, reason: 'account_unreadable', facts });

  test.each<[unknown, string]>([
    ['u-1', 'u-1'],
    [7, '7'],
    [0, '0'],
    [9_007_199_254_740_991, '9007199254740991'],
    ['x'.repeat(255), 'x'.repeat(255)],
  ])('%j is read as %s', async (id, read) => {
    expect(await idOf({ data: { user: { id } } })).toBe(read);
    expect(await idOf({ id }, { field: 'id' })).toBe(read);
  });

  test.each<[string, unknown]>([
    ['a number that is rounded', { data: { user: { id: 9_007_199_254_740_992 } } }],
    ['a number with a fraction', { data: { user: { id: 1.5 } } }],
    ['an empty text', { data: { user: { id: '' } } }],
    ['a blank text', { data: { user: { id: ' ' } } }],
    ['a text that is too long', { data: { user: { id: 'x'.repeat(256) } } }],
    ['an object', { data: { user: { id: {} } } }],
    ['a missing member', { data: { id: 'u-1' } }],
    ['null in the path', { data: null }],
    ['a text in the path', { data: 'user' }],
    ['no JSON', 'id=u-1'],
  ])('%s is not an id', async (_words, body) => {
    await expect(idOf(body)).rejects.toMatchObject(unreadable('invalid', { status: 200 }));
  });

  test('is not read from inherited members', async () => {
    await expect(idOf({}, { field: 'constructor.name' })).rejects.toMatchObject(unreadable('invalid', { status: 200 }));
  });

  test.each([
    [201, 'invalid'],
    [401, 'invalid'],
    [404, 'invalid'],
    [429, 'unavailable'],
    [499, 'invalid'],
    [500, 'unavailable'],
    [503, 'unavailable'],
  ])('status %i: %s', async (code, failure) => {
    const body = { data: { user: { id: 'u-1' } } };
    await expect(idOf(body, undefined, code)).rejects.toMatchObject(unreadable(failure, { status: code }));
  });

  test('is requested with the access token, at the URL of the app or the userinfo endpoint', async () => {
    const token = await protocol.logIn();
    const url = `${protocol.provider.issuer}/userinfo?fields=id`;
    for (const account of [{ field: 'sub' }, { field: 'sub', url }])
      expect(await protocol.client.accountId(protocol.appOf({ account }), token)).toBe('user-1');
    const hits = protocol.provider.hitsOf('userinfo');
    expect(hits.map((hit) => hit.url)).toEqual(['/userinfo', '/userinfo?fields=id']);

    const { authorization, accept } = hits[0]?.headers ?? {};
    expect([authorization, accept]).toEqual([`Bearer ${token.accessToken}`, 'application/json']);
    expect(await protocol.client.accountId(protocol.app, token)).toBeUndefined();
  });

  test('cannot be read without a URL, or if the provider cannot be called', async () => {
    const token = await protocol.logIn();
    protocol.client = protocol.freshClient();
    protocol.provider.setModes('no-userinfo-endpoint');
    const withField = protocol.appOf({ account: { field: 'sub' } });
    expect(await failureOf(protocol.client.accountId(withField, token))).toEqual({
      failure: 'invalid',
      reason: 'account_url_missing',
    });

    protocol.provider.setModes('userinfo-reset');
    expect(await failureOf(protocol.client.accountId(protocol.appOf({ account: { field: 'sub' } }), token))).toEqual({
      failure: 'unavailable',
      reason: 'connection',
    });
  });
});

test.each<[unknown, boolean]>([
  [['public'], true],
  [['public', 'pairwise'], false],
  [['pairwise'], false],
  [[], false],
  ['public', false],
  [undefined, false],
])(
  'a provider with the subject types %j gives every client the same subject: %s',
  async (subject_types_supported, isPublic) => {
    protocol.provider.setModes({ metadata: (metadata) => ({ ...metadata, subject_types_supported }) });
    expect(await protocol.client.hasPublicSubjects(protocol.app)).toBe(isPublic);
  },
);

describe('revocation (RFC 7009)', () => {
  const revoke = async (...modes: ModeName[]) => {
    const { refreshToken = '' } = await protocol.logIn();
    protocol.provider.setModes(...modes);
    return protocol.client.revoke(protocol.app, refreshToken, 'refresh_token');
  };

  test('is confirmed if the provider confirms it', async () => {
    expect(await revoke()).toEqual({ outcome: 'revoked', reply: { status: 200 } });
    const [hit] = protocol.provider.hitsOf('revocation');
    expect(new URLSearchParams(hit?.body).get('token_type_hint')).toBe('refresh_token');
    expect(hit?.url).toBe('/revocation');
  });

  test.each<[ModeName, object]>([
    ['revocation-status-503', { status: 503, retryAfterSeconds: 9 }],
    ['revocation-status-400', { status: 400 }],
    ['revocation-status-401', { status: 401, error: 'invalid_request' }],
    ['revocation-invalid-client', { status: 401, error: 'invalid_client' }],
    ['revocation-redirect', { status: 302 }],
    ['revocation-redirect-307', { status: 307 }],
    ['revocation-reset', { error: 'connection', detail: expect.stringContaining('closed the connection') }],
  ])('%s: is unconfirmed, with the reply %o', async (mode, reply) => {
    expect(await revoke(mode)).toEqual({ outcome: 'unconfirmed', reply });
    expect(protocol.provider.trapped).toEqual([]);
  });

  test('R133 is confirmed by a 200, whatever the body', async () => {
    expect(await revoke('revocation-huge')).toEqual({ outcome: 'revoked', reply: { status: 200 } });
  });

  test('is unsupported without a revocation endpoint', async () => {
    protocol.client = protocol.freshClient();
    protocol.provider.setModes('no-revocation-endpoint');
    expect(await revoke()).toEqual({ outcome: 'unsupported' });
  });
});

describe('sign-out at the provider', () => {
  const returnTo = 'https://gatehouse.example.com/';

  test('sends the ID token as a hint if there is one', async () => {
    const url = new URL((await protocol.client.endSessionUrl(protocol.app, { idToken: 'a.b.c', returnTo })) ?? '');
    expect(url.origin + url.pathname).toBe(`${protocol.provider.issuer}/end_session`);
    expect(Object.fromEntries(url.searchParams)).toEqual({
      client_id: protocol.provider.clientId,
      id_token_hint: 'a.b.c',
      post_logout_redirect_uri: returnTo,
    });
    expect(await protocol.client.endSessionUrl(protocol.app, { idToken: undefined, returnTo })).not.toContain(
      'id_token_hint',
    );
  });

  test.each([
    ['an ID token that just fits', 0, true],
    ['an ID token with one character too many', 1, false],
    ['an ID token of many groups', 9_000, false],
  ])('%s: its URL has at most 2,000 characters', async (_name, excess, isSent) => {
    const signOut = async (idToken: string | undefined) =>
      new URL((await protocol.client.endSessionUrl(protocol.app, { idToken, returnTo })) ?? '');
    const withoutHint = await signOut(undefined);
    const idToken = 'h'.repeat(2_000 - `${withoutHint.href}&id_token_hint=`.length + excess);
    const url = await signOut(idToken);
    expect(url.searchParams.get('id_token_hint')).toBe(isSent ? idToken : null);
    expect(url.href.length).toBeLessThanOrEqual(2_000);
    expect(url.searchParams.get('post_logout_redirect_uri')).toBe(returnTo);
  });

  test.each<[string, Record<string, string>, Record<string, string>]>([
    ['logout_uri=https%3A%2F%2Fgatehouse.example.com%2F', {}, { logout_uri: returnTo }],
    ['client_id=pool-client&logout_uri=a%20b', { client_id: 'pool-client' }, { logout_uri: 'a b' }],
    ['post_logout_redirect_uri=https%3A%2F%2Fgo.example%2F', { post_logout_redirect_uri: 'https://go.example/' }, {}],
    ['federated&tenant=7', {}, { federated: '', tenant: '7' }],
  ])('the endpoint that is set by hand wins over that of discovery, with its query %s', async (query, own, further) => {
    const endSession = `${protocol.provider.issuer}/logout?${query}`;
    const app = protocol.appOf({ endpoints: { endSession } });
    const { href } = new URL((await protocol.client.endSessionUrl(app, { idToken: 'a.b.c', returnTo })) ?? '');
    expect(href).toMatch(/\/logout\?/);
    expect([...new URL(href).searchParams].sort()).toEqual(
      Object.entries({
        client_id: protocol.provider.clientId,
        id_token_hint: 'a.b.c',
        post_logout_redirect_uri: returnTo,
        ...own,
        ...further,
      }).sort(),
    );
  });

  test('is skipped if it is switched off or unsupported, or the provider is down', async () => {
    expect(
      await protocol.client.endSessionUrl(protocol.appOf({ providerSignOut: false }), { idToken: undefined, returnTo }),
    ).toBeUndefined();

    protocol.provider.setModes('no-end-session-endpoint');
    expect(await protocol.client.endSessionUrl(protocol.appOf(), { idToken: undefined, returnTo })).toBeUndefined();

    protocol.provider.setModes('discovery-reset');
    expect(await protocol.client.endSessionUrl(protocol.appOf(), { idToken: undefined, returnTo })).toBeUndefined();
  });
});

describe('R1: the authorization request', () => {
  test.each([
    ['a short one', 'ada@example.test', true],
    ['one that makes the URL too long', 'é'.repeat(255), false],
  ])('has a hint only within 2,000 characters: %s', async (_name, hint, isSent) => {
    const app = protocol.appOf({ parameters: { audience: 'a'.repeat(400) } });
    const url = new URL(await protocol.client.authorizationUrl(app, { ...REQUEST, hints: { login_hint: hint } }));
    expect(url.searchParams.get('login_hint')).toBe(isSent ? hint : null);
    expect(url.href.length).toBeLessThanOrEqual(2_000);
    expect(url.searchParams.get('state')).toBe(REQUEST.state);
  });

  test('has each protocol parameter once', async () => {
    const url = new URL(
      await protocol.client.authorizationUrl(protocol.appOf({ parameters: { audience: 'api' } }), REQUEST),
    );
    expect(Object.fromEntries(url.searchParams)).toEqual({
      audience: 'api',
      client_id: protocol.provider.clientId,
      code_challenge: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
      code_challenge_method: 'S256',
      nonce: REQUEST.nonce,
      redirect_uri: REDIRECT_URI,
      response_type: 'code',
      scope: 'openid profile offline_access',
      state: REQUEST.state,
    });
    expect([...url.searchParams.keys()]).toHaveLength(9);
    expect(url.href).not.toContain(REQUEST.codeVerifier);
  });
});
