/** The doctor against a provider with one fault at a time, over HTTP. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeEach, describe, expect, test } from 'vitest';
import { createAppCheck } from '../../../src/gatehouse/connected-apps/check.ts';
import { checkDiscovery } from '../../../src/gatehouse/connected-apps/check-discovery.ts';
import { CHECKS, type CheckName, type Finding } from '../../../src/gatehouse/connected-apps/finding.ts';
import { createObservations, type Observations } from '../../../src/gatehouse/connected-apps/observations.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import { createProviderMetadata } from '../../../src/shared/provider/provider-metadata.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { type BrokenResponse, status } from '../../support/broken-responses.ts';
import type { ModeName } from '../../support/hostile-provider.ts';
import { useProtocol } from './protocol.ts';
import { INK, templateApp, tenants } from './tenants.ts';

const at = useProtocol();
let observations: Observations;
let clock = Date.now;

beforeEach(() => {
  clock = Date.now;
  observations = createObservations({ store: at.store, clock: Date.now });
});

async function check(app: ConnectedApp = at.app): Promise<Finding[]> {
  const { outbound, client: provider } = at;
  const metadata = createProviderMetadata({ outbound, monotonicClock: () => performance.now(), random: () => 0.5 });
  const publicHref = 'https://gatehouse.example.com';
  const parts = { outbound, metadata, provider, observations, publicHref, clock: () => clock() };
  const findings = await createAppCheck(parts).run(app);
  // Each finding is a sentence, and each problem has advice.
  for (const { check, result, detail, advice } of findings) {
    expect(detail, check).toMatch(/^\S.{8,}\.$/s);
    if (result === 'problem') expect(advice, check).toMatch(/^\S.{12,}\.$/s);
  }
  return findings;
}

async function findingOf(name: CheckName, app?: ConnectedApp): Promise<Finding | undefined> {
  return (await check(app)).find((finding) => finding.check === name);
}

const results = (findings: Finding[]) => Object.fromEntries(findings.map((finding) => [finding.check, finding.result]));

describe('an app without problems', () => {
  test('has one finding for each check, in order', async () => {
    const findings = await check();
    expect(findings.map((finding) => finding.check)).toEqual(Object.keys(CHECKS));
    expect(findings.filter(({ result }) => result === 'problem')).toEqual([]);
    expect(results(findings)).toMatchObject({
      ...{
        callback_listed: 'fine',
        discovery: 'fine',
        tls: 'cannot_tell',
        issuer: 'fine',
        clock: 'fine',
        keys: 'fine',
      },
      ...{ algorithms: 'fine', pkce: 'fine', callback_registered: 'fine', client_authentication: 'fine' },
      ...{ refresh_token: 'cannot_tell', rotation: 'cannot_tell', lifetime: 'cannot_tell' },
    });
  });

  test.each<[ModeName, Finding['result'], string]>([
    ['revocation-status-400', 'cannot_tell', 'status 400'],
    ['revocation-status-503', 'problem', 'status 503'],
    ['revocation-redirect', 'problem', 'status 302'],
    ['revocation-reset', 'problem', ' closed the connection before its response was complete'],
  ])('%s: revocation is %s, with the response', async (mode, result, words) => {
    at.provider.setModes(mode);
    expect(await findingOf('revocation')).toMatchObject({ result, detail: expect.stringContaining(words) });
  });

  test('has advice for every problem, and never shows the secret', async () => {
    at.provider.setModes('discovery-wrong-issuer');
    const findings = await check();
    expect(findings.every(({ result, advice }) => result !== 'problem' || advice)).toBe(true);
    expect(JSON.stringify(findings)).not.toContain(at.provider.clientSecret);
  });

  test('has findings about tokens after a sign-in and a refresh', async () => {
    at.client = at.freshClient(observations.record);
    const { refreshToken = '' } = await at.logIn();
    await at.client.refresh(at.app, { refreshToken });
    await expect
      .poll(() => observations.read(at.app.id))
      .toMatchObject({ refreshToken: true, expiresIn: true, rotates: true });
    expect(results(await check())).toMatchObject({ refresh_token: 'fine', rotation: 'fine', lifetime: 'fine' });
    expect(await findingOf('rotation', at.appOf({ refresh: 'reusable' }))).toMatchObject({
      result: 'problem',
      pointer: '#/refresh',
    });
  });
});

test.each([
  [undefined, undefined, 'cannot_tell', /refreshed yet/],
  [true, undefined, 'fine', /^Each refresh returns a new refresh token\.$/],
  [false, undefined, 'fine', /^Refresh tokens stay the same\.$/],
  [true, 'rotating', 'fine', /new refresh token\.$/],
  [false, 'reusable', 'fine', /the same\.$/],
  [true, 'reusable', 'problem', /set to "reusable"/],
  [false, 'rotating', 'problem', /^Refresh tokens stay the same\. The app is set to "rotating"\.$/],
] as const)('rotation seen: %s, set to %s: %s', async (rotates, refresh, result, detail) => {
  const seen = { at: Date.now(), refreshToken: true, expiresIn: true, ...(rotates === undefined ? {} : { rotates }) };
  await at.store.write([{ put: keys.observation(at.app.id), value: JSON.stringify(seen) }]);
  const finding = await findingOf('rotation', at.appOf(refresh && { refresh }));
  await at.store.write([{ delete: keys.observation(at.app.id) }]);
  expect(finding).toMatchObject({ result, detail: expect.stringMatching(detail) });
});

test.each([
  [true, undefined, 'fine', /^Token responses state the lifetime/],
  [true, 600, 'fine', /^Token responses state the lifetime/],
  [false, 600, 'fine', /the setting of 600 s is used\.$/],
  [false, undefined, 'cannot_tell', /only a 401 of the platform/],
  [undefined, undefined, 'cannot_tell', /only a 401 of the platform/],
] as const)('expires_in seen: %s, a lifetime of %s set: %s', async (expiresIn, set, result, detail) => {
  const seen = { at: Date.now(), refreshToken: true, ...(expiresIn === undefined ? {} : { expiresIn }) };
  await at.store.write([{ put: keys.observation(at.app.id), value: JSON.stringify(seen) }]);
  const finding = await findingOf('lifetime', at.appOf(set && { accessTokenLifetimeSeconds: set }));
  await at.store.write([{ delete: keys.observation(at.app.id) }]);
  const pointer = result === 'fine' ? undefined : '#/accessTokenLifetimeSeconds';
  expect([finding?.result, finding?.detail, finding?.pointer]).toEqual([
    result,
    expect.stringMatching(detail),
    pointer,
  ]);
});

describe('each fault has its finding', () => {
  const FAULTS: [ModeName, CheckName, string][] = [
    ['discovery-wrong-issuer', 'issuer', '#/issuer'],
    ['discovery-issuer-with-slash', 'issuer', '#/issuer'],
    ['discovery-status-404', 'discovery', '#/issuer'],
    ['discovery-http-token-endpoint', 'endpoints', '#/endpoints'],
    ['discovery-private-token-endpoint', 'endpoints', '#/endpoints'],
    ['discovery-no-token-endpoint', 'endpoints', '#/endpoints'],
    ['jwks-empty', 'keys', '#/endpoints/jwks'],
    ['jwks-status-500', 'keys', '#/endpoints/jwks'],
    ['callback-invalid-scope', 'scopes', '#/scopes'],
  ];
  test.each(FAULTS)('%s: %s', async (mode, name, pointer) => {
    at.provider.setModes(mode);
    expect(await findingOf(name)).toMatchObject({ result: 'problem', pointer, advice: expect.stringMatching(/\w/) });
  });

  test.each([
    ['jwks-status-500', 'keys', /^The provider's keys cannot be read: keys unavailable, status 500\.$/],
    [
      'discovery-private-token-endpoint',
      'endpoints',
      /^The token_endpoint may not be called: the address policy refuses 10\.0\.0\.8:443 /,
    ],
  ] as const)('%s: with the reason', async (mode, name, detail) => {
    at.provider.setModes(mode);
    expect((await findingOf(name))?.detail).toMatch(detail);
  });

  test('a provider without a key set', async () => {
    at.provider.setModes({ metadata: ({ jwks_uri: _, ...metadata }) => metadata });
    expect(await findingOf('keys')).toMatchObject({
      result: 'problem',
      detail: 'No key set is known, so no ID token can be verified.',
      pointer: '#/endpoints/jwks',
    });
  });

  test('an issuer mismatch: shows the issuer of the provider', async () => {
    at.provider.setModes('discovery-issuer-with-slash');
    expect((await findingOf('issuer'))?.detail).toContain(`"${at.provider.issuer}/"`);
  });

  test('an issuer template: advises settings that work', async () => {
    at.provider.setModes(tenants(INK));
    const discoveryUrl = `${at.provider.issuer}/.well-known/openid-configuration`;
    const advice = (await findingOf('issuer'))?.advice ?? '';
    expect(advice).toContain('its own issuer');
    expect(advice).toContain(`discoveryUrl to ${discoveryUrl} and signIn to {"allow": {"claim": "tid"`);
    const template = at.appOf(templateApp(at.provider));
    expect(await findingOf('issuer', template)).toMatchObject({
      result: 'fine',
      detail: expect.stringContaining('2 tenants'),
    });
    expect(await findingOf('client_authentication', template)).toMatchObject({ result: 'fine' });
    expect(await findingOf('issuer', { ...template, signIn: { allow: 'everyone' } })).toMatchObject({
      ...{ result: 'problem', pointer: '#/signIn' },
      advice: expect.stringContaining('{"allow": {"claim": "tid"'),
    });
  });

  test('an API host from token responses: is not called without a token', async () => {
    const app = at.appOf({ apiBaseUrlFrom: { member: 'instance_url', hosts: ['.my.example.com'] } });
    expect(await findingOf('platform', app)).toMatchObject({
      ...{ result: 'cannot_tell', detail: 'Each token response names its host in instance_url.' },
    });
    expect(at.provider.hitsOf('platform')).toEqual([]);
  });

  test('a wrong secret', async () => {
    expect(await findingOf('client_authentication', { ...at.app, clientSecret: 'wrong' })).toMatchObject({
      result: 'problem',
      pointer: '#/clientSecret',
    });
  });

  test('a client that the provider authenticates by the other method: advises that method', async () => {
    const token: BrokenResponse = (res, context) => {
      const isBasic = res.req.headers.authorization !== undefined;
      status(isBasic ? 401 : 400, { error: isBasic ? 'invalid_client' : 'invalid_grant' })(res, context);
    };
    at.provider.setModes({ responses: { token } });
    expect(await findingOf('client_authentication')).toMatchObject({
      ...{ result: 'problem', pointer: '#/tokenEndpointAuthMethod' },
      advice: 'The endpoint accepts client_secret_post: set tokenEndpointAuthMethod to that.',
    });
    expect(at.provider.hitsOf('token')).toHaveLength(2);
  });

  test.each([
    [401, 'invalid_client'],
    [200, 'incorrect_client_credentials'],
    [400, 'bad_client_secret'],
  ])('a wrong secret refused with %i %s: shows the code', async (code, error) => {
    at.provider.setModes({ responses: { token: status(code, { error }) } });
    expect(await findingOf('client_authentication')).toMatchObject({
      ...{ result: 'problem', pointer: '#/clientSecret' },
      detail: `The token endpoint does not accept the client ID with this secret (status ${code}, ${error}).`,
    });
  });

  test.each([
    [['openid', 'offline_access'], ['openid', 'profile'], /^Request the scope offline_access\.$/, '#/scopes'],
    [['openid', 'offline_access'], ['openid', 'offline_access'], /^Allow refresh tokens/, '#/parameters'],
    [['openid'], ['openid', 'profile'], /^Allow refresh tokens/, '#/parameters'],
    [undefined, ['openid', 'profile'], /^Allow refresh tokens/, '#/parameters'],
  ])('no refresh token from a provider with the scopes %j, requested %j', async (listed, scopes, advice, pointer) => {
    const seen = { at: Date.now(), refreshToken: false, expiresIn: true };
    await at.store.write([{ put: keys.observation(at.app.id), value: JSON.stringify(seen) }]);
    at.provider.setModes({ metadata: (metadata) => ({ ...metadata, scopes_supported: listed }) });
    const finding = await findingOf('refresh_token', at.appOf({ scopes }));
    await at.store.write([{ delete: keys.observation(at.app.id) }]);
    expect(finding).toMatchObject({ result: 'problem', advice: expect.stringMatching(advice), pointer });
  });

  test('no refresh token and no lifetime: the access tokens may not expire', async () => {
    const seen = { at: Date.now(), refreshToken: false, expiresIn: false };
    await at.store.write([{ put: keys.observation(at.app.id), value: JSON.stringify(seen) }]);
    const finding = await findingOf('refresh_token', at.app);
    await at.store.write([{ delete: keys.observation(at.app.id) }]);
    expect(finding).toMatchObject({ result: 'cannot_tell', detail: expect.stringContaining('may not expire') });
  });

  test('a refresh before any sign-in does not show whether sign-ins return a refresh token', async () => {
    const seen = { at: Date.now(), expiresIn: true, rotates: true };
    await at.store.write([{ put: keys.observation(at.app.id), value: JSON.stringify(seen) }]);
    const finding = await findingOf('refresh_token', at.app);
    await at.store.write([{ delete: keys.observation(at.app.id) }]);
    expect(finding).toMatchObject({ result: 'cannot_tell', detail: expect.stringContaining('No user has signed in') });
  });

  test('a callback URL that is not on the list', async () => {
    const app = at.appOf({ callbackUrls: ['https://other.example.com/oauth/callback/elsewhere'] });
    expect(await findingOf('callback_listed', app)).toMatchObject({ result: 'problem', pointer: '#/callbackUrls' });
  });

  test('a callback URL that is nearly the right one', async () => {
    const [own = ''] = at.app.callbackUrls;
    const { advice } = (await findingOf('callback_listed', at.appOf({ callbackUrls: [`${own}/`] }))) ?? {};
    expect(advice).toBe(`${own}/ is not exactly the same: write ${own}, here and at the provider.`);
  });

  test('a callback URL that the provider refuses with a page of its own', async () => {
    const answer = await pageAt(400);
    const app = at.appOf({ endpoints: { ...at.provider.endpointSettings(), authorization: answer.url } });
    expect(await findingOf('callback_registered', app)).toMatchObject({ result: 'problem', pointer: '#/callbackUrls' });
    answer.close();
  });

  test.each([
    [200, 'cannot_tell'],
    [304, 'cannot_tell'],
    [400, 'problem'],
    [499, 'problem'],
    [500, 'cannot_tell'],
    [503, 'cannot_tell'],
  ] as const)('a page of its own with status %i: %s', async (status, result) => {
    const answer = await pageAt(status);
    const app = at.appOf({ endpoints: { ...at.provider.endpointSettings(), authorization: answer.url } });
    expect(await findingOf('callback_registered', app)).toMatchObject({
      ...{ result, detail: expect.stringContaining(`status ${status}`) },
    });
    answer.close();
  });

  test('an unexplained refusal of the code says nothing about the client', async () => {
    at.provider.setModes('token-status-400');
    expect((await findingOf('client_authentication'))?.result).not.toBe('fine');
  });

  test('a scope that the provider does not list', async () => {
    at.provider.setModes({ metadata: (metadata) => ({ ...metadata, scopes_supported: ['openid', 'profile'] }) });
    const finding = await findingOf('scopes', at.appOf({ scopes: ['openid', 'profile', 'pofile'] }));
    expect(finding).toMatchObject({ result: 'cannot_tell', pointer: '#/scopes' });
    expect(finding?.detail).toMatch(/: pofile\.$/);
    expect(finding?.advice).toContain('check the spelling');
  });

  test('a scope that the provider lists but refuses: the callback URL is not the cause', async () => {
    at.provider.setModes('callback-invalid-scope');
    expect(await findingOf('scopes')).toMatchObject({ result: 'problem' });
    expect(await findingOf('callback_registered')).toMatchObject({ result: 'fine' });
  });

  test.each([
    ['invalid_request', 'problem', /PAR/],
    ['unauthorized_client', 'problem', /code flow/],
    ['request_not_supported', 'problem', /./],
    ['login_required', 'fine', /^$/],
    ['interaction_required', 'fine', /^$/],
    ['server_error', 'cannot_tell', /^$/],
  ])('a redirect with %s: the request is %s, and the callback URL is registered', async (error, result, advice) => {
    at.provider.setModes({ callback: (parameters) => parameters.set('error', error) });
    const request = await findingOf('request');
    expect(request?.result).toBe(result);
    expect(request?.advice ?? '').toMatch(advice);
    expect(await findingOf('callback_registered')).toMatchObject({ result: 'fine' });
  });

  test('a provider without S256, and one that signs with shared secrets only', async () => {
    at.provider.setModes({
      metadata: (metadata) => ({
        ...metadata,
        code_challenge_methods_supported: ['plain'],
        id_token_signing_alg_values_supported: ['HS256', 'none'],
      }),
    });
    expect(results(await check())).toMatchObject({ pkce: 'problem', algorithms: 'problem' });
  });

  test('clocks that differ: in which direction and by how much', async () => {
    for (const [seconds, words] of [
      [-95, /^This clock is 9[4-6] s behind the provider's\.$/],
      [95, /^This clock is 9[4-6] s ahead of the provider's\.$/],
    ] as const) {
      clock = () => Date.now() + seconds * 1000;
      const finding = await findingOf('clock');
      expect(finding?.result).toBe('problem');
      expect(finding?.detail).toMatch(words);
    }
    clock = () => Date.now() + 6_000;
    expect(await findingOf('clock')).toMatchObject({
      result: 'fine',
      detail: expect.stringMatching(/^This clock is [567] s ahead/),
    });
  });

  test.each([
    ['that is no JSON', 200, '<p>Welcome</p>', /^Discovery responds with a document that is not provider metadata\.$/],
    ['that is null', 200, 'null', /not provider metadata\.$/],
    ['that is a text', 200, '"issuer"', /not provider metadata\.$/],
    ['without an issuer', 200, '{"keys":[]}', /not provider metadata\.$/],
    ['whose issuer is a number', 200, '{"issuer":5}', /not provider metadata\.$/],
    ['that there is not', 404, '{"issuer":"https://idp.example"}', /^Discovery responds with status 404\.$/],
    ['that does not work', 500, '', /^Discovery responds with status 500\.$/],
    ['that lies elsewhere', 302, '', /^Discovery responds with status 302\. Redirects are not followed: /],
    ['of which there are several', 300, '', /status 300\. Redirects are not followed: /],
    ['that a cache has', 399, '', /status 399\. Redirects are not followed: /],
    ['that is refused', 400, '', /status 400\.$/],
  ])('discovery %s', async (_words, status, body, detail) => {
    const server = createServer((_req, res) => void res.writeHead(status).end(body)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const discoveryUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/metadata`;
    expect(await findingOf('discovery', at.appOf({ discoveryUrl }))).toMatchObject({
      result: 'problem',
      detail: expect.stringMatching(detail),
      pointer: '#/discoveryUrl',
    });
    server.close();
  });

  test.each<[number, 'fine' | 'problem', string]>([
    [0, 'fine', 'The clocks agree.'],
    [1, 'fine', 'The clocks agree.'],
    [-1, 'fine', 'The clocks agree.'],
    [2, 'fine', "This clock is 2 s ahead of the provider's."],
    [-2, 'fine', "This clock is 2 s behind the provider's."],
    [20, 'fine', "This clock is 20 s ahead of the provider's."],
    [-20, 'fine', "This clock is 20 s behind the provider's."],
    [21, 'problem', "This clock is 21 s ahead of the provider's."],
    [-21, 'problem', "This clock is 21 s behind the provider's."],
  ])('a clock that is %i s ahead: %s', async (seconds, result, detail) => {
    const providerTime = Date.parse('2026-11-21T12:00:00Z');
    // The header is rounded down, by half a second on average.
    clock = () => providerTime + 500 + seconds * 1000;
    const finding = await withDiscovery({ date: new Date(providerTime).toUTCString() }, () => findingOf('clock'));
    expect([finding?.result, finding?.detail]).toEqual([result, detail]);
    expect(finding?.advice).toBe(
      result === 'problem'
        ? 'Synchronise the clock of this server (NTP): otherwise ID tokens seem expired or not yet valid.'
        : undefined,
    );
  });

  test('a response without a date says nothing about the clocks', async () => {
    expect(await withDiscovery({ date: '' }, () => findingOf('clock'))).toEqual({
      ...{ check: 'clock', result: 'cannot_tell', detail: 'The response of the provider has no date.' },
    });
  });

  /** While discovery responds with these headers. */
  const withDiscovery = async <T>(headers: Record<string, string>, run: () => Promise<T>): Promise<T> => {
    const discovery: BrokenResponse = (res, { body }) => {
      if (headers.date === '') res.sendDate = false;
      const { date, ...others } = headers;
      res.writeHead(200, { 'content-type': 'application/json', ...(date && { date }), ...others }).end(body);
    };
    at.provider.setModes({ responses: { discovery } });
    return run();
  };

  test.each([
    ['https://idp.example.com/token', 'fine', 'The connection is protected and the certificate is valid.'],
    [
      'http://127.0.0.1:9/token',
      'cannot_tell',
      'The provider is called without TLS, which is allowed on this machine only.',
    ],
  ])('endpoints set by hand need no discovery; TLS is that of %s', async (token, result, detail) => {
    const app = at.appOf({ endpoints: { ...at.provider.endpointSettings() } });
    const byHand = { ...app, endpoints: { ...app.endpoints, token } };
    expect((await checkDiscovery({ outbound: at.outbound, clock }, byHand)).findings).toEqual([
      { check: 'discovery', result: 'fine', detail: 'The endpoints are set by hand, so discovery is not needed.' },
      { check: 'tls', result, detail },
    ]);
    expect(at.provider.hits).toEqual([]);
    expect(await findingOf('issuer', app)).toMatchObject({
      ...{ result: 'cannot_tell', detail: 'Without discovery, the registered issuer is used unchecked.' },
    });
  });

  test('a provider without an endpoint for pushed requests', async () => {
    const findings = await check(at.appOf({ par: 'required' }));
    expect(findings.find((one) => one.check === 'callback_registered')).toEqual({
      ...{ check: 'callback_registered', result: 'cannot_tell', detail: 'Not tried: fix the problem below first.' },
    });
    expect(findings.find((one) => one.check === 'request')).toEqual({
      ...{ check: 'request', result: 'problem' },
      detail: 'Requests must be pushed (PAR), but the provider names no endpoint for that.',
      advice: 'Set par to "auto", or ask the operator of the provider.',
      pointer: '#/par',
    });
  });

  test.each<[number, object, CheckName, Partial<Finding>]>([
    [
      ...([400, { error: 'invalid_scope' }, 'scopes'] as const),
      { result: 'problem', detail: 'The provider refuses the scopes that this app requests.', pointer: '#/scopes' },
    ],
    [
      ...([400, { error: 'invalid_scope' }, 'callback_registered'] as const),
      { result: 'cannot_tell', detail: 'The provider checked no further than the scopes.' },
    ],
    [
      ...([400, { error: 'invalid_redirect_uri' }, 'callback_registered'] as const),
      {
        ...{ result: 'problem', pointer: '#/callbackUrls' },
        detail:
          'The provider refused the pushed authorization request (push refused, status 400, invalid_redirect_uri).',
      },
    ],
    [
      ...([400, { error: 'invalid_redirect_uri' }, 'request'] as const),
      { result: 'cannot_tell', detail: 'Not tried: fix the problem above first.' },
    ],
    [
      ...([503, {}, 'callback_registered'] as const),
      {
        result: 'cannot_tell',
        detail: 'The authorization endpoint could not be called: push failed, status 503.',
      },
    ],
    [
      ...([503, {}, 'request'] as const),
      { result: 'cannot_tell', detail: 'The provider did not redirect to the callback URL.' },
    ],
  ])('a pushed request that is refused with %i %j: %s', async (code, body, name, expected) => {
    const server = createServer((_req, res) => {
      res.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const par = `http://127.0.0.1:${(server.address() as AddressInfo).port}/par`;
    at.provider.setModes({ metadata: (metadata) => ({ ...metadata, pushed_authorization_request_endpoint: par }) });
    expect(await findingOf(name, at.appOf({ par: 'required' }))).toMatchObject(expected);
    server.close();
  });

  test.each<[string, (callback: string) => string, Partial<Finding>]>([
    [
      'a page of the provider',
      () => 'https://idp.example.com/login',
      { result: 'cannot_tell', detail: 'The provider redirects to a page of its own and reports no error.' },
    ],
    [
      'an address that only begins like the callback URL',
      (callback) => `${callback}-2?error=login_required`,
      { result: 'cannot_tell', detail: 'The provider redirects to a page of its own and reports no error.' },
    ],
    [
      'the callback URL',
      (callback) => `${callback}?error=login_required`,
      { result: 'fine', detail: 'The provider redirects to the callback URL.' },
    ],
  ])('a redirect to %s', async (_words, target, expected) => {
    const [callback = ''] = at.app.callbackUrls;
    let code = 303;
    const server = createServer((_req, res) => void res.writeHead(code, { location: target(callback) }).end());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const authorization = `http://127.0.0.1:${(server.address() as AddressInfo).port}/authorize`;
    const app = at.appOf({ endpoints: { ...at.provider.endpointSettings(), authorization } });
    expect(await findingOf('callback_registered', app)).toMatchObject(expected);
    // With another status the header does not redirect.
    code = 200;
    expect((await findingOf('callback_registered', app))?.detail).toBe(
      'The provider responded with a page of its own (status 200).',
    );
    server.close();
  });

  test.each<[number, Partial<Finding>]>([
    [401, { result: 'fine', detail: 'The thread path exists and requires a token (401).' }],
    [403, { result: 'fine', detail: 'The thread path exists and requires a token (403).' }],
    [404, { result: 'problem', detail: 'The platform does not have this path (404).', pointer: '#/threadPath' }],
    [200, { result: 'cannot_tell', detail: 'Without a token the platform responded with status 200.' }],
    [500, { result: 'cannot_tell', detail: 'Without a token the platform responded with status 500.' }],
  ])('a platform that responds to a call without a token with %i', async (code, expected) => {
    const asked: unknown[] = [];
    const server = createServer((req, res) => {
      asked.push([req.url, req.headers.authorization]);
      res.writeHead(code).end();
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const apiBaseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/`;
    expect(await findingOf('platform', at.appOf({ apiBaseUrl, threadPath: '/threads/1' }))).toMatchObject(expected);
    expect(asked).toEqual([['/api/threads/1', undefined]]);
    server.close();
  });

  test('an app without an API has no platform to check', async () => {
    expect(await findingOf('platform', at.appOf({ apiBaseUrl: undefined }))).toBeUndefined();
  });

  test('a public client is checked without a secret', async () => {
    const app = at.appOf({ tokenEndpointAuthMethod: 'none', clientSecret: undefined });
    at.provider.setModes({ responses: { token: status(400, { error: 'invalid_grant' }) } });
    expect(await findingOf('client_authentication', app)).toEqual({
      ...{ check: 'client_authentication', result: 'fine' },
      detail: 'The token endpoint knows the client ID; no secret is used.',
    });
    at.provider.setModes({ responses: { token: status(401, { error: 'invalid_client' }) } });
    expect(await findingOf('client_authentication', app)).toMatchObject({
      result: 'problem',
      pointer: '#/clientSecret',
    });
    // Without a secret there is no other method to try.
    expect(at.provider.hitsOf('token')).toHaveLength(2);
  });

  test('a provider that accepts a made-up code says nothing about the client', async () => {
    const app = at.appOf({ scopes: ['profile'], signIn: undefined });
    at.provider.setModes({ responses: { token: status(200, { access_token: 'at', token_type: 'bearer' }) } });
    expect(await findingOf('client_authentication', app)).toEqual({
      ...{ check: 'client_authentication', result: 'cannot_tell' },
      detail: 'The token endpoint gave no clear response: it accepted a made-up code.',
    });
  });

  test('an app without OpenID Connect needs no signing keys', async () => {
    const names = (await check(at.appOf({ scopes: ['profile'], signIn: undefined }))).map((one) => one.check);
    expect(names).not.toContain('keys');
    expect(names).not.toContain('algorithms');
    expect(names).toContain('revocation');
  });

  test.each([
    [1, 'The provider publishes 1 key.'],
    [2, 'The provider publishes 2 keys.'],
  ])('%i published keys', async (count, detail) => {
    const { keys: published = [] } = (await (await fetch(`${at.provider.issuer}/jwks`)).json()) as { keys?: object[] };
    const jwks = Array.from({ length: count }, (_, n) => ({ ...published[0], kid: `k${n}` }));
    at.provider.setModes({ jwks: () => jwks });
    expect(await findingOf('keys')).toEqual({ check: 'keys', result: 'fine', detail });
  });

  test('an endpoint that is not a URL', async () => {
    at.provider.setModes({ metadata: (metadata) => ({ ...metadata, token_endpoint: 5 }) });
    expect(await findingOf('endpoints')).toEqual({
      ...{ check: 'endpoints', result: 'problem', pointer: '#/endpoints' },
      detail: 'The token_endpoint may not be called: endpoint refused.',
      advice: 'Endpoints must be https and public, or their host named in INTERNAL_HOSTS.',
    });
  });

  test('an issuer template with one named tenant', async () => {
    at.provider.setModes(tenants(INK));
    const template = templateApp(at.provider);
    const app = at.appOf({ ...template, signIn: { allow: { claim: 'tid', values: [INK] } } });
    expect((await findingOf('issuer', app))?.detail).toBe(
      'The provider names the registered issuer, and the app names one tenant.',
    );
  });

  test('a provider without a revocation endpoint', async () => {
    at.provider.setModes('no-revocation-endpoint');
    expect(await findingOf('revocation')).toEqual({
      ...{ check: 'revocation', result: 'cannot_tell', pointer: '#/endpoints/revocation' },
      detail: 'No revocation endpoint is known: disconnecting deletes the tokens only here.',
      advice: 'If the provider has one, set endpoints.revocation.',
    });
  });

  test('a platform that cannot be called, and one that does not know the path', async () => {
    const gone = await pageAt(200);
    gone.close();
    expect(await findingOf('platform', at.appOf({ apiBaseUrl: new URL(gone.url).origin }))).toMatchObject({
      pointer: '#/apiBaseUrl',
    });
    const empty = await pageAt(404);
    expect(await findingOf('platform', at.appOf({ apiBaseUrl: new URL(empty.url).origin }))).toMatchObject({
      pointer: '#/threadPath',
    });
    empty.close();
  });

  test('marks checks that were not tried', async () => {
    at.provider.setModes('discovery-status-500');
    expect(results(await check())).toMatchObject({
      discovery: 'problem',
      keys: 'cannot_tell',
      client_authentication: 'cannot_tell',
    });
  });

  test.each(['huge', 'reset', 'truncated'] as const)(
    'discovery that ends in "%s" is a finding, not an exception',
    async (way) => {
      at.provider.setModes(`discovery-${way}`);
      expect(await findingOf('discovery')).toMatchObject({ result: 'problem' });
    },
  );
});

test('the doctor refreshes nothing at the provider, and its authorization request shows no page', async () => {
  await check();
  const made = at.provider.hitsOf('token').map(({ body }) => new URLSearchParams(body).get('grant_type'));
  expect(made).toEqual(['authorization_code']);
  expect(at.provider.hitsOf('authorize').every(({ url }) => url.includes('prompt=none'))).toBe(true);
});

async function pageAt(status: number): Promise<{ url: string; close(): void }> {
  const server = createServer(
    (_req, res) => void res.writeHead(status, { 'content-type': 'text/html' }).end('<h1>no</h1>'),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/authorize`, close: () => void server.close() };
}
