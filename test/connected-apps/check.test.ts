/** The doctor against a provider that misbehaves in one way at a time, over real HTTP. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeEach, describe, expect, test } from 'vitest';
import { createAppCheck } from '../../src/connected-apps/check.ts';
import type { ConnectedApp } from '../../src/connected-apps/connected-app.ts';
import { CHECKS, type CheckName, type Finding } from '../../src/connected-apps/finding.ts';
import { createObservations, type Observations } from '../../src/connected-apps/observations.ts';
import { createProviderMetadata } from '../../src/connected-apps/provider-metadata.ts';
import { keys } from '../../src/storage/keys.ts';
import { type Answer, status } from '../support/hostile-answers.ts';
import type { ModeName } from '../support/hostile-provider.ts';
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
  // Whatever is found is a sentence, and what is wrong comes with what to do.
  for (const { check, result, detail, advice } of findings) {
    expect(detail, check).toMatch(/^\S.{8,}\.$/s);
    if (result === 'problem') expect(advice, check).toMatch(/^\S.{12,}\.$/s);
  }
  return findings;
}

async function found(name: CheckName, app?: ConnectedApp): Promise<Finding | undefined> {
  return (await check(app)).find((finding) => finding.check === name);
}

const results = (findings: Finding[]) => Object.fromEntries(findings.map((finding) => [finding.check, finding.result]));

describe('an app in order', () => {
  test('has one line for each check, in their order, and no problem', async () => {
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
    ['revocation-reset', 'problem', 'no response: connection'],
  ])('%s: revocation is told as %s, with what came back', async (mode, result, words) => {
    at.provider.set(mode);
    expect(await found('revocation')).toMatchObject({ result, detail: expect.stringContaining(words) });
  });

  test('every problem says what to do, and no line holds the secret', async () => {
    at.provider.set('discovery-wrong-issuer');
    const findings = await check();
    expect(findings.every(({ result, advice }) => result !== 'problem' || advice)).toBe(true);
    expect(JSON.stringify(findings)).not.toContain(at.provider.clientSecret);
  });

  test('what real people’s tokens showed is told after a sign-in and a refresh', async () => {
    at.client = at.freshClient(observations.record);
    const { refreshToken = '' } = await at.logIn();
    await at.client.refresh(at.app, { refreshToken });
    await expect
      .poll(() => observations.read(at.app.id))
      .toMatchObject({ refreshToken: true, expiresIn: true, rotates: true });
    expect(results(await check())).toMatchObject({ refresh_token: 'fine', rotation: 'fine', lifetime: 'fine' });
    expect(await found('rotation', at.appOf({ refresh: 'reusable' }))).toMatchObject({
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
  const finding = await found('rotation', at.appOf(refresh && { refresh }));
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
  const finding = await found('lifetime', at.appOf(set && { accessTokenLifetimeSeconds: set }));
  await at.store.write([{ delete: keys.observation(at.app.id) }]);
  const pointer = result === 'fine' ? undefined : '#/accessTokenLifetimeSeconds';
  expect([finding?.result, finding?.detail, finding?.pointer]).toEqual([
    result,
    expect.stringMatching(detail),
    pointer,
  ]);
});

describe('each fault is named where it lies', () => {
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
    at.provider.set(mode);
    expect(await found(name)).toMatchObject({ result: 'problem', pointer, advice: expect.stringMatching(/\w/) });
  });

  test.each([
    ['jwks-status-500', 'keys', /^The provider's keys cannot be read: keys unavailable, status 500\.$/],
    [
      'discovery-private-token-endpoint',
      'endpoints',
      /^The token_endpoint may not be called: the address policy refuses 10\.0\.0\.8:443 /,
    ],
  ] as const)('%s: with the reason', async (mode, name, detail) => {
    at.provider.set(mode);
    expect((await found(name))?.detail).toMatch(detail);
  });

  test('a provider that names no key set', async () => {
    at.provider.set({ metadata: ({ jwks_uri: _, ...metadata }) => metadata });
    expect(await found('keys')).toMatchObject({
      result: 'problem',
      detail: 'No key set is known, so no ID token can be verified.',
      pointer: '#/endpoints/jwks',
    });
  });

  test('the issuer that the provider gives itself is shown, so that it can be copied', async () => {
    at.provider.set('discovery-issuer-with-slash');
    expect((await found('issuer'))?.detail).toContain(`"${at.provider.issuer}/"`);
  });

  test('an issuer of many tenants is advised only with what makes it work', async () => {
    at.provider.set(tenants(INK));
    const discoveryUrl = `${at.provider.issuer}/.well-known/openid-configuration`;
    const advice = (await found('issuer'))?.advice ?? '';
    expect(advice).toContain('its own issuer');
    expect(advice).toContain(`discoveryUrl to ${discoveryUrl} and signIn to {"allow": {"claim": "tid"`);
    const template = at.appOf(templateApp(at.provider));
    expect(await found('issuer', template)).toMatchObject({
      result: 'fine',
      detail: expect.stringContaining('2 tenants'),
    });
    expect(await found('client_authentication', template)).toMatchObject({ result: 'fine' });
    expect(await found('issuer', { ...template, signIn: { allow: 'everyone' } })).toMatchObject({
      ...{ result: 'problem', pointer: '#/signIn' },
      advice: expect.stringContaining('{"allow": {"claim": "tid"'),
    });
  });

  test('an API at hosts of which token responses tell is not called without a token', async () => {
    const app = at.appOf({ apiBaseUrlFrom: { member: 'instance_url', hosts: ['.my.example.com'] } });
    expect(await found('platform', app)).toMatchObject({
      ...{ result: 'cannot_tell', detail: 'Each token response names its host in instance_url.' },
    });
    expect(at.provider.hitsOf('platform')).toEqual([]);
  });

  test('a wrong secret', async () => {
    expect(await found('client_authentication', { ...at.app, clientSecret: 'wrong' })).toMatchObject({
      result: 'problem',
      pointer: '#/clientSecret',
    });
  });

  test('a client that the provider authenticates by the other method: that one is to be set', async () => {
    const token: Answer = (res, context) => {
      const isBasic = res.req.headers.authorization !== undefined;
      status(isBasic ? 401 : 400, { error: isBasic ? 'invalid_client' : 'invalid_grant' })(res, context);
    };
    at.provider.set({ answers: { token } });
    expect(await found('client_authentication')).toMatchObject({
      ...{ result: 'problem', pointer: '#/tokenEndpointAuthMethod' },
      advice: 'It accepts them by client_secret_post: set tokenEndpointAuthMethod to that.',
    });
    expect(at.provider.hitsOf('token')).toHaveLength(2);
  });

  test.each([
    [401, 'invalid_client'],
    [200, 'incorrect_client_credentials'],
    [400, 'bad_client_secret'],
  ])('a wrong secret that the provider refuses with %i %s: its code is told', async (code, error) => {
    at.provider.set({ answers: { token: status(code, { error }) } });
    expect(await found('client_authentication')).toMatchObject({
      ...{ result: 'problem', pointer: '#/clientSecret' },
      detail: `The token endpoint does not accept the client ID with this secret (status ${code}, ${error}).`,
    });
  });

  test.each([
    [['openid', 'offline_access'], ['openid', 'profile'], /^Request the scope offline_access\.$/, '#/scopes'],
    [['openid', 'offline_access'], ['openid', 'offline_access'], /^Allow refresh tokens/, '#/parameters'],
    [['openid'], ['openid', 'profile'], /^Allow refresh tokens/, '#/parameters'],
    [undefined, ['openid', 'profile'], /^Allow refresh tokens/, '#/parameters'],
  ])('no refresh token from a provider with the scopes %j, asked for %j', async (listed, scopes, advice, pointer) => {
    const seen = { at: Date.now(), refreshToken: false, expiresIn: true };
    await at.store.write([{ put: keys.observation(at.app.id), value: JSON.stringify(seen) }]);
    at.provider.set({ metadata: (metadata) => ({ ...metadata, scopes_supported: listed }) });
    const finding = await found('refresh_token', at.appOf({ scopes }));
    await at.store.write([{ delete: keys.observation(at.app.id) }]);
    expect(finding).toMatchObject({ result: 'problem', advice: expect.stringMatching(advice), pointer });
  });

  test('no refresh token from a provider that states no lifetime: its access tokens may not expire', async () => {
    const seen = { at: Date.now(), refreshToken: false, expiresIn: false };
    await at.store.write([{ put: keys.observation(at.app.id), value: JSON.stringify(seen) }]);
    const finding = await found('refresh_token', at.app);
    await at.store.write([{ delete: keys.observation(at.app.id) }]);
    expect(finding).toMatchObject({ result: 'cannot_tell', detail: expect.stringContaining('may not expire') });
  });

  test('a refresh before any sign-in does not show whether sign-ins return a refresh token', async () => {
    const seen = { at: Date.now(), expiresIn: true, rotates: true };
    await at.store.write([{ put: keys.observation(at.app.id), value: JSON.stringify(seen) }]);
    const finding = await found('refresh_token', at.app);
    await at.store.write([{ delete: keys.observation(at.app.id) }]);
    expect(finding).toMatchObject({ result: 'cannot_tell', detail: expect.stringContaining('No user has signed in') });
  });

  test('a callback URL that is not on the list', async () => {
    const app = at.appOf({ callbackUrls: ['https://other.example.com/oauth/callback/elsewhere'] });
    expect(await found('callback_listed', app)).toMatchObject({ result: 'problem', pointer: '#/callbackUrls' });
  });

  test('a callback URL that is nearly the right one', async () => {
    const [own = ''] = at.app.callbackUrls;
    const { advice } = (await found('callback_listed', at.appOf({ callbackUrls: [`${own}/`] }))) ?? {};
    expect(advice).toBe(`${own}/ is not exactly the same: write ${own}, here and at the provider.`);
  });

  test('a callback URL that the provider refuses with a page of its own', async () => {
    const answer = await pageAt(400);
    const app = at.appOf({ endpoints: { ...at.provider.handSetEndpoints(), authorization: answer.url } });
    expect(await found('callback_registered', app)).toMatchObject({ result: 'problem', pointer: '#/callbackUrls' });
    answer.close();
  });

  test.each([
    [200, 'cannot_tell'],
    [400, 'problem'],
    [499, 'problem'],
    [500, 'cannot_tell'],
    [503, 'cannot_tell'],
  ] as const)('a page of its own with status %i: %s', async (status, result) => {
    const answer = await pageAt(status);
    const app = at.appOf({ endpoints: { ...at.provider.handSetEndpoints(), authorization: answer.url } });
    expect(await found('callback_registered', app)).toMatchObject({
      ...{ result, detail: expect.stringContaining(`status ${status}`) },
    });
    answer.close();
  });

  test('a refusal of the code that does not say why tells nothing of the client', async () => {
    at.provider.set('token-status-400');
    expect((await found('client_authentication'))?.result).not.toBe('fine');
  });

  test('a scope that the provider does not list', async () => {
    at.provider.set({ metadata: (metadata) => ({ ...metadata, scopes_supported: ['openid', 'profile'] }) });
    const finding = await found('scopes', at.appOf({ scopes: ['openid', 'profile', 'pofile'] }));
    expect(finding).toMatchObject({ result: 'cannot_tell', pointer: '#/scopes' });
    expect(finding?.detail).toMatch(/: pofile\.$/);
    expect(finding?.advice).toContain('misspelling');
  });

  test('a scope that it lists and refuses to this client: the callback URL is not what is wrong', async () => {
    at.provider.set('callback-invalid-scope');
    expect(await found('scopes')).toMatchObject({ result: 'problem' });
    expect(await found('callback_registered')).toMatchObject({ result: 'fine' });
  });

  test.each([
    ['invalid_request', 'problem', /PAR/],
    ['unauthorized_client', 'problem', /code flow/],
    ['request_not_supported', 'problem', /./],
    ['login_required', 'fine', /^$/],
    ['interaction_required', 'fine', /^$/],
    ['server_error', 'cannot_tell', /^$/],
  ])(
    'a request that comes back with %s: told as %s, and the callback URL is registered',
    async (error, result, advice) => {
      at.provider.set({ callback: (parameters) => parameters.set('error', error) });
      const request = await found('request');
      expect(request?.result).toBe(result);
      expect(request?.advice ?? '').toMatch(advice);
      expect(await found('callback_registered')).toMatchObject({ result: 'fine' });
    },
  );

  test('a provider without S256, and one that signs with shared secrets only', async () => {
    at.provider.set({
      metadata: (metadata) => ({
        ...metadata,
        code_challenge_methods_supported: ['plain'],
        id_token_signing_alg_values_supported: ['HS256', 'none'],
      }),
    });
    expect(results(await check())).toMatchObject({ pkce: 'problem', algorithms: 'problem' });
  });

  test('clocks that differ, in which direction and by how much', async () => {
    for (const [seconds, words] of [
      [-95, /^This clock is 9[4-6] s behind the provider's\.$/],
      [95, /^This clock is 9[4-6] s ahead of the provider's\.$/],
    ] as const) {
      clock = () => Date.now() + seconds * 1000;
      const finding = await found('clock');
      expect(finding?.result).toBe('problem');
      expect(finding?.detail).toMatch(words);
    }
    clock = () => Date.now() + 6_000;
    expect(await found('clock')).toMatchObject({
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
    expect(await found('discovery', at.appOf({ discoveryUrl }))).toMatchObject({
      result: 'problem',
      detail: expect.stringMatching(detail),
      pointer: '#/discoveryUrl',
    });
    server.close();
  });

  test('a platform that cannot be called, and one that does not know the path', async () => {
    const gone = await pageAt(200);
    gone.close();
    expect(await found('platform', at.appOf({ apiBaseUrl: new URL(gone.url).origin }))).toMatchObject({
      pointer: '#/apiBaseUrl',
    });
    const empty = await pageAt(404);
    expect(await found('platform', at.appOf({ apiBaseUrl: new URL(empty.url).origin }))).toMatchObject({
      pointer: '#/threadPath',
    });
    empty.close();
  });

  test('what was not tried is said to be so', async () => {
    at.provider.set('discovery-status-500');
    expect(results(await check())).toMatchObject({
      discovery: 'problem',
      keys: 'cannot_tell',
      client_authentication: 'cannot_tell',
    });
  });

  test.each(['huge', 'reset', 'truncated'] as const)(
    'discovery that ends in "%s" is a finding, no failure',
    async (way) => {
      at.provider.set(`discovery-${way}`);
      expect(await found('discovery')).toMatchObject({ result: 'problem' });
    },
  );
});

test('the doctor leaves nothing behind at the provider that could work', async () => {
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
