/** The doctor against a provider with one fault at a time, over HTTP. */

import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { createAppCheck } from '../../../src/gatehouse/connected-apps/check.ts';
import { checkDiscovery } from '../../../src/gatehouse/connected-apps/check-discovery.ts';
import { CHECKS, type CheckName, type Finding } from '../../../src/gatehouse/connected-apps/finding.ts';
import { createObservations, type Observations } from '../../../src/gatehouse/connected-apps/observations.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import { createProviderMetadata } from '../../../src/shared/provider/provider-metadata.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { type BrokenResponse, status } from '../../support/broken-responses.ts';
import type { ModeName } from '../../support/hostile-provider.ts';
import { freePort } from '../../support/ports.ts';
import { useProtocol } from './protocol.ts';
import { INK, templateApp, tenants } from './tenants.ts';

const protocol = useProtocol();
let observations: Observations;
let doctorClock: () => number;

beforeEach(() => {
  doctorClock = Date.now;
  observations = createObservations({ store: protocol.store, clock: Date.now });
});

async function check(app: ConnectedApp = protocol.app): Promise<Finding[]> {
  const { outbound, client: provider } = protocol;
  const metadata = createProviderMetadata({ outbound, monotonicClock: () => performance.now(), random: () => 0.5 });
  const publicHref = 'https://gatehouse.example.com';
  const parts = { outbound, metadata, provider, observations, publicHref, clock: () => doctorClock() };
  const findings = await createAppCheck(parts).run(app);
  // Each finding is a sentence, and each problem has advice.
  for (const { check, result, detail, advice } of findings) {
    expect(detail, check).toMatch(/^\S.{8,}\.$/s);
    if (result === 'failed') expect(advice, check).toMatch(/^\S.{12,}\.$/s);
  }
  return findings;
}

async function findingOf(name: CheckName, app?: ConnectedApp): Promise<Finding | undefined> {
  return (await check(app)).find((finding) => finding.check === name);
}

/** Returns a finding of an app whose tokens were observed to be like this. */
async function findingAfter(observation: object, name: CheckName, app = protocol.app): Promise<Finding | undefined> {
  const key = keys.observation(protocol.app.id);
  await protocol.store.write([{ put: key, value: JSON.stringify({ at: Date.now(), ...observation }) }]);
  const finding = await findingOf(name, app);
  await protocol.store.write([{ delete: key }]);
  return finding;
}

/** Starts a server that runs until the end of the test, and returns its origin. */
async function serve(respond: RequestListener): Promise<string> {
  const server = createServer(respond).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const servePage = (status: number) =>
  serve((_req, res) => void res.writeHead(status, { 'content-type': 'text/html' }).end('<h1>no</h1>'));

const resultsOf = (findings: Finding[]) => Object.fromEntries(findings.map(({ check, result }) => [check, result]));

describe('the claim of the rule', () => {
  test.each([
    ['groups', 'passed', undefined],
    ['/realm_access/roles', 'passed', undefined],
    ['https://example.com/roles', 'passed', undefined],
    ['realm_access.roles', 'unknown', '/realm_access/roles.'],
    ['resource_access/gatehouse/roles', 'unknown', '/resource_access/gatehouse/roles.'],
  ])('%s: %s', async (claim, result, pointer) => {
    const finding = await findingOf('rule', protocol.appOf({ signIn: { allow: { claim, values: ['staff'] } } }));
    expect(finding).toMatchObject({ result });
    expect(finding?.advice?.endsWith(String(pointer))).toBe(pointer === undefined ? undefined : true);
  });
});

describe('an app without problems', () => {
  test('has one finding for each check, in order', async () => {
    const findings = await check();
    expect(findings.map((finding) => finding.check)).toEqual(Object.keys(CHECKS));
    expect(findings.filter(({ result }) => result === 'failed')).toEqual([]);
    expect(resultsOf(findings)).toMatchObject({
      callback_listed: 'passed',
      discovery: 'passed',
      tls: 'unknown',
      issuer: 'passed',
      clock: 'passed',
      keys: 'passed',
      algorithms: 'passed',
      pkce: 'passed',
      callback_registered: 'passed',
      client_authentication: 'passed',
      refresh_token: 'unknown',
      rotation: 'unknown',
      lifetime: 'unknown',
    });
  });

  test.each<[ModeName, Finding['result'], string]>([
    ['revocation-status-400', 'unknown', 'status 400'],
    ['revocation-status-503', 'failed', 'status 503'],
    ['revocation-redirect', 'failed', 'status 302'],
    ['revocation-reset', 'failed', ' closed the connection before its response was complete'],
  ])('%s: the result for revocation is %s, and its text names the response', async (mode, result, text) => {
    protocol.provider.setModes(mode);
    expect(await findingOf('revocation')).toMatchObject({ result, detail: expect.stringContaining(text) });
  });

  test('has advice for every problem, and never shows the secret', async () => {
    protocol.provider.setModes('discovery-wrong-issuer');
    const findings = await check();
    expect(findings.every(({ result, advice }) => result !== 'failed' || advice)).toBe(true);
    expect(JSON.stringify(findings)).not.toContain(protocol.provider.clientSecret);
  });

  test('has findings about tokens after a sign-in and a refresh', async () => {
    protocol.client = protocol.freshClient(observations.record);
    const { refreshToken = '' } = await protocol.logIn();
    await protocol.client.refresh(protocol.app, { refreshToken });
    await expect
      .poll(() => observations.read(protocol.app.id))
      .toMatchObject({ refreshToken: true, expiresIn: true, rotates: true });
    expect(resultsOf(await check())).toMatchObject({ refresh_token: 'passed', rotation: 'passed', lifetime: 'passed' });
    expect(await findingOf('rotation', protocol.appOf({ refresh: 'reusable' }))).toMatchObject({
      result: 'failed',
      pointer: '#/refresh',
    });
  });
});

test.each([
  [undefined, undefined, 'unknown', /refreshed yet/],
  [true, undefined, 'passed', /^Each refresh returns a new refresh token\.$/],
  [false, undefined, 'passed', /^Refresh tokens stay the same\.$/],
  [true, 'rotating', 'passed', /new refresh token\.$/],
  [false, 'reusable', 'passed', /the same\.$/],
  [true, 'reusable', 'failed', /set to "reusable"/],
  [false, 'rotating', 'failed', /^Refresh tokens stay the same\. The app is set to "rotating"\.$/],
] as const)('rotation observed: %s, and set to %s: %s', async (rotates, refresh, result, detail) => {
  // JSON leaves out a member that is undefined.
  const observation = { refreshToken: true, expiresIn: true, rotates };
  const finding = await findingAfter(observation, 'rotation', protocol.appOf(refresh && { refresh }));
  expect(finding).toMatchObject({ result, detail: expect.stringMatching(detail) });
});

test.each([
  [true, undefined, 'passed', /^Token responses state the lifetime/],
  [true, 600, 'passed', /^Token responses state the lifetime/],
  [false, 600, 'passed', /the setting of 600 s is used\.$/],
  [false, undefined, 'unknown', /only a 401 of the platform/],
  [undefined, undefined, 'unknown', /only a 401 of the platform/],
] as const)('expires_in observed: %s, and a lifetime of %s set: %s', async (expiresIn, setLifetime, result, detail) => {
  const app = protocol.appOf(setLifetime && { accessTokenLifetimeSeconds: setLifetime });
  const finding = await findingAfter({ refreshToken: true, expiresIn }, 'lifetime', app);

  expect(finding?.result).toBe(result);
  expect(finding?.detail).toMatch(detail);
  expect(finding?.pointer).toBe(result === 'passed' ? undefined : '#/accessTokenLifetimeSeconds');
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
    protocol.provider.setModes(mode);
    expect(await findingOf(name)).toMatchObject({ result: 'failed', pointer, advice: expect.stringMatching(/\w/) });
  });

  test.each([
    ['jwks-status-500', 'keys', /^The provider's keys cannot be read: keys unavailable, status 500\.$/],
    [
      'discovery-private-token-endpoint',
      'endpoints',
      /^The token_endpoint may not be called: the address policy refuses 10\.0\.0\.8:443 /,
    ],
  ] as const)('%s: with the reason', async (mode, name, detail) => {
    protocol.provider.setModes(mode);
    expect((await findingOf(name))?.detail).toMatch(detail);
  });

  test('a provider without a key set', async () => {
    protocol.provider.setModes({ metadata: ({ jwks_uri: _, ...metadata }) => metadata });
    expect(await findingOf('keys')).toMatchObject({
      result: 'failed',
      detail: 'No key set is known, so no ID token can be verified.',
      pointer: '#/endpoints/jwks',
    });
  });

  test('an issuer mismatch: shows the issuer of the provider', async () => {
    protocol.provider.setModes('discovery-issuer-with-slash');
    expect((await findingOf('issuer'))?.detail).toContain(`"${protocol.provider.issuer}/"`);
  });

  test('an issuer template: advises settings that work', async () => {
    protocol.provider.setModes(tenants(INK));
    const discoveryUrl = `${protocol.provider.issuer}/.well-known/openid-configuration`;
    const advice = (await findingOf('issuer'))?.advice ?? '';
    expect(advice).toContain('its own issuer');
    expect(advice).toContain(`discoveryUrl to ${discoveryUrl} and signIn to {"allow": {"claim": "tid"`);
    const template = protocol.appOf(templateApp(protocol.provider));

    expect(await findingOf('issuer', template)).toMatchObject({
      result: 'passed',
      detail: expect.stringContaining('2 tenants'),
    });
    expect(await findingOf('client_authentication', template)).toMatchObject({ result: 'passed' });
    expect(await findingOf('issuer', { ...template, signIn: { allow: 'everyone' } })).toMatchObject({
      result: 'failed',
      pointer: '#/signIn',
      advice: expect.stringContaining('{"allow": {"claim": "tid"'),
    });
  });

  test('an API host from token responses: is not called without a token', async () => {
    const app = protocol.appOf({ apiBaseUrlFrom: { member: 'instance_url', hosts: ['.my.example.com'] } });
    expect(await findingOf('platform', app)).toMatchObject({
      result: 'unknown',
      detail: 'Each token response names its host in instance_url.',
    });
    expect(protocol.provider.hitsOf('platform')).toEqual([]);
  });

  test('endpoints that are set by hand beside discovery, which names others', async () => {
    const endpoints = {
      jwks: `${protocol.provider.issuer}/keys`,
      revocation: `${protocol.provider.issuer}/revocation`,
    };
    expect(await findingOf('endpoints', protocol.appOf({ endpoints }))).toMatchObject({
      result: 'unknown',
      detail: expect.stringMatching(/than endpoints\.jwks, /),
      advice: expect.stringMatching(/^Remove endpoints\.jwks\./),
      pointer: '#/endpoints/jwks',
    });
  });

  test('a wrong secret', async () => {
    expect(await findingOf('client_authentication', { ...protocol.app, clientSecret: 'wrong' })).toMatchObject({
      result: 'failed',
      pointer: '#/clientSecret',
    });
  });

  test('a client that the provider authenticates by the other method: advises that method', async () => {
    const token: BrokenResponse = (res, context) => {
      const isBasic = res.req.headers.authorization !== undefined;
      const respond = isBasic ? status(401, { error: 'invalid_client' }) : status(400, { error: 'invalid_grant' });
      respond(res, context);
    };
    protocol.provider.setModes({ responses: { token } });
    expect(await findingOf('client_authentication')).toMatchObject({
      result: 'failed',
      pointer: '#/tokenEndpointAuthMethod',
      advice: 'The endpoint accepts client_secret_post: set tokenEndpointAuthMethod to that.',
    });
    expect(protocol.provider.hitsOf('token')).toHaveLength(2);
  });

  /** A token endpoint that takes the client's credentials only in this form, and says so with `refusal`. */
  const takingOnly =
    (isTaken: (authorization: string | undefined) => boolean, refusal: BrokenResponse): BrokenResponse =>
    (res, context) =>
      (isTaken(res.req.headers.authorization) ? status(400, { error: 'invalid_grant' }) : refusal)(res, context);
  const unencoded = () => {
    const { clientId, clientSecret } = protocol.provider;
    return `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`;
  };

  test.each<[string, BrokenResponse]>([
    ['401 invalid_client', status(401, { error: 'invalid_client' })],
    ['400 invalid_request', status(400, { error: 'invalid_request' })],
    ['400 unauthorized_client as a form', status(400, 'error=unauthorized_client')],
    ['403 with a page', status(403, '<h1>Forbidden</h1>')],
  ])('a provider that decodes no credentials and refuses encoded ones with %s: says so', async (_name, refusal) => {
    const isTaken = (authorization: string | undefined) => authorization === unencoded();
    protocol.provider.setModes({ responses: { token: takingOnly(isTaken, refusal) } });
    for (const tokenEndpointAuthMethod of ['client_secret_basic', 'client_secret_post']) {
      const app = protocol.appOf({ tokenEndpointAuthMethod });
      expect(await findingOf('client_authentication', app)).toMatchObject({
        result: 'failed',
        pointer: '#/clientSecret',
        advice: expect.stringMatching(/without the encoding of RFC 6749, section 2\.3\.1\. Replace the secret/),
      });
    }
    // No other address got the secret, and no text repeats it.
    const others = protocol.provider.hits.filter(({ endpoint }) => endpoint !== 'token' && endpoint !== 'revocation');
    expect(JSON.stringify(others)).not.toMatch(/Basic|client_secret/);
    expect(protocol.provider.trapped).toEqual([]);
  });

  test('a provider that wants the secret in the body and reports a faulty request: advises that method', async () => {
    const isTaken = (authorization: string | undefined) => authorization === undefined;
    const refusal = status(400, { error: 'invalid_request' });
    protocol.provider.setModes({ responses: { token: takingOnly(isTaken, refusal) } });
    expect(await findingOf('client_authentication')).toMatchObject({
      result: 'failed',
      advice: 'The endpoint accepts client_secret_post: set tokenEndpointAuthMethod to that.',
    });
  });

  test('a secret that needs no encoding is not tried without it', async () => {
    protocol.provider.setModes({ responses: { token: status(401, { error: 'invalid_client' }) } });
    await findingOf('client_authentication', { ...protocol.app, clientSecret: 'plain-secret_1.2' });
    expect(protocol.provider.hitsOf('token')).toHaveLength(2);
    protocol.provider.reset();
    protocol.provider.setModes({ responses: { token: status(401, { error: 'invalid_client' }) } });
    await findingOf('client_authentication', { ...protocol.app, clientId: 'a:b' });
    expect(protocol.provider.hitsOf('token')).toHaveLength(2);
  });

  test.each([
    [401, 'invalid_client'],
    [200, 'incorrect_client_credentials'],
    [400, 'bad_client_secret'],
  ])('a wrong secret refused with %i %s: shows the code', async (code, error) => {
    protocol.provider.setModes({ responses: { token: status(code, { error }) } });
    expect(await findingOf('client_authentication')).toMatchObject({
      result: 'failed',
      pointer: '#/clientSecret',
      detail: `The token endpoint does not accept the client ID with this secret (status ${code}, ${error}).`,
    });
  });

  test.each([
    [['openid', 'offline_access'], ['openid', 'profile'], /^Request the scope offline_access\.$/, '#/scopes'],
    [['openid', 'offline_access'], ['openid', 'offline_access'], /^Allow refresh tokens/, '#/parameters'],
    [['openid'], ['openid', 'profile'], /^Allow refresh tokens/, '#/parameters'],
    [undefined, ['openid', 'profile'], /^Allow refresh tokens/, '#/parameters'],
  ])('no refresh token from a provider with the scopes %j, requested %j', async (listed, scopes, advice, pointer) => {
    const observation = { refreshToken: false, expiresIn: true };
    protocol.provider.setModes({ metadata: (metadata) => ({ ...metadata, scopes_supported: listed }) });
    const finding = await findingAfter(observation, 'refresh_token', protocol.appOf({ scopes }));
    expect(finding).toMatchObject({ result: 'failed', advice: expect.stringMatching(advice), pointer });
  });

  test('no refresh token and no lifetime: the access tokens may not expire', async () => {
    const finding = await findingAfter({ refreshToken: false, expiresIn: false }, 'refresh_token');
    expect(finding).toMatchObject({ result: 'unknown', detail: expect.stringContaining('may not expire') });
  });

  test('a refresh before any sign-in does not show whether sign-ins return a refresh token', async () => {
    const finding = await findingAfter({ expiresIn: true, rotates: true }, 'refresh_token');
    expect(finding).toMatchObject({ result: 'unknown', detail: expect.stringContaining('No user has signed in') });
  });

  test('a callback URL that is not on the list', async () => {
    const app = protocol.appOf({ callbackUrls: ['https://other.example.com/oauth/callback/elsewhere'] });
    expect(await findingOf('callback_listed', app)).toMatchObject({ result: 'failed', pointer: '#/callbackUrls' });
  });

  /** The app, with the authorization endpoint at this address. */
  const appAuthorizingAt = (authorization: string) =>
    protocol.appOf({ endpoints: { ...protocol.provider.endpointSettings(), authorization } });

  test('a callback URL that the provider refuses with a page of its own', async () => {
    const app = appAuthorizingAt(`${await servePage(400)}/authorize`);
    expect(await findingOf('callback_registered', app)).toMatchObject({ result: 'failed', pointer: '#/callbackUrls' });
  });

  test.each([
    [200, 'unknown'],
    [304, 'unknown'],
    [400, 'failed'],
    [499, 'failed'],
    [500, 'unknown'],
    [503, 'unknown'],
  ] as const)('a page of the provider with status %i instead of a redirect: %s', async (status, result) => {
    const app = appAuthorizingAt(`${await servePage(status)}/authorize`);
    expect(await findingOf('callback_registered', app)).toMatchObject({
      result,
      detail: expect.stringContaining(`status ${status}`),
    });
  });

  test('a page of the provider with status 400 does not say which parameter is wrong', async () => {
    const app = appAuthorizingAt(`${await servePage(400)}/authorize`);
    expect(await findingOf('callback_registered', app)).toMatchObject({
      detail:
        'The provider refused the authorization request with status 400. The cause may be the callback URL, the client ID or another parameter.',
      advice: expect.stringMatching(/compare the scopes and the extra parameters/),
    });
  });

  test.each([413, 414, 431])('a request that is too long for the provider (%i) is told as that', async (status) => {
    const app = appAuthorizingAt(`${await servePage(status)}/authorize`);
    expect(await findingOf('callback_registered', app)).toMatchObject({ result: 'unknown' });
    expect(await findingOf('request', app)).toMatchObject({
      result: 'failed',
      detail: expect.stringMatching(new RegExp(`too long for the provider \\(\\d{3,} characters, status ${status}\\)`)),
      advice: expect.stringContaining('(PAR)'),
    });
  });

  test('R130 an authorization endpoint that closes an idle connection gets the request again', async () => {
    const ports: (number | undefined)[] = [];
    const served = new WeakSet<object>();
    const callback = protocol.app.callbackUrls[0] ?? '';
    const origin = await serve((req, res) => {
      ports.push(req.socket.remotePort);
      if (served.has(req.socket)) return void req.socket.destroy();
      served.add(req.socket);
      res.writeHead(302, { location: `${callback}?error=login_required` }).end();
    });
    const app = appAuthorizingAt(`${origin}/authorize`);
    expect(await findingOf('callback_registered', app)).toMatchObject({ result: 'passed' });
    expect(await findingOf('callback_registered', app)).toMatchObject({ result: 'passed' });
    const [first, second, third] = ports;
    expect([second === first, third === first, ports.length]).toEqual([true, false, 3]);
  });

  test('an unexplained refusal of the code says nothing about the client', async () => {
    protocol.provider.setModes('token-status-400');
    expect((await findingOf('client_authentication'))?.result).not.toBe('passed');
  });

  test('a scope that the provider does not list', async () => {
    protocol.provider.setModes({ metadata: (metadata) => ({ ...metadata, scopes_supported: ['openid', 'profile'] }) });
    const finding = await findingOf('scopes', protocol.appOf({ scopes: ['openid', 'profile', 'pofile'] }));
    expect(finding).toMatchObject({ result: 'unknown', pointer: '#/scopes' });
    expect(finding?.detail).toMatch(/: pofile\.$/);
    expect(finding?.advice).toContain('check the spelling');
  });

  test('a scope that the provider lists but refuses: the callback URL is not the cause', async () => {
    protocol.provider.setModes('callback-invalid-scope');
    expect(await findingOf('scopes')).toMatchObject({ result: 'failed' });
    expect(await findingOf('callback_registered')).toMatchObject({ result: 'passed' });
  });

  test.each([
    ['invalid_request', 'failed', /PAR/],
    ['unauthorized_client', 'failed', /code flow/],
    ['request_not_supported', 'failed', /./],
    ['login_required', 'passed', /^$/],
    ['interaction_required', 'passed', /^$/],
    ['server_error', 'unknown', /^$/],
  ])('a redirect with %s: the request is %s, and the callback URL is registered', async (error, result, advice) => {
    protocol.provider.setModes({ callback: (parameters) => parameters.set('error', error) });
    const request = await findingOf('request');
    expect(request?.result).toBe(result);
    expect(request?.advice ?? '').toMatch(advice);
    expect(await findingOf('callback_registered')).toMatchObject({ result: 'passed' });
  });

  test('a provider without S256 that signs only with shared secrets', async () => {
    protocol.provider.setModes({
      metadata: (metadata) => ({
        ...metadata,
        code_challenge_methods_supported: ['plain'],
        id_token_signing_alg_values_supported: ['HS256', 'none'],
      }),
    });
    expect(resultsOf(await check())).toMatchObject({ pkce: 'failed', algorithms: 'failed' });
  });

  test('clocks that differ: says in which direction and by how much', async () => {
    for (const [seconds, detail] of [
      [-95, /^This clock is 9[4-6] s behind the provider's\.$/],
      [95, /^This clock is 9[4-6] s ahead of the provider's\.$/],
    ] as const) {
      doctorClock = () => Date.now() + seconds * 1000;
      const finding = await findingOf('clock');
      expect(finding?.result).toBe('failed');
      expect(finding?.detail).toMatch(detail);
    }
    doctorClock = () => Date.now() + 6_000;
    expect(await findingOf('clock')).toMatchObject({
      result: 'passed',
      detail: expect.stringMatching(/^This clock is [567] s ahead/),
    });
  });

  test.each([
    [
      'document that is not JSON',
      200,
      '<p>Welcome</p>',
      /^Discovery responds with a document that is not provider metadata\.$/,
    ],
    ['document that is null', 200, 'null', /not provider metadata\.$/],
    ['document that is a string', 200, '"issuer"', /not provider metadata\.$/],
    ['document without an issuer', 200, '{"keys":[]}', /not provider metadata\.$/],
    ['document whose issuer is a number', 200, '{"issuer":5}', /not provider metadata\.$/],
    ['response of 404', 404, '{"issuer":"https://idp.example"}', /^Discovery responds with status 404\.$/],
    ['response of 500', 500, '', /^Discovery responds with status 500\.$/],
    ['redirect', 302, '', /^Discovery responds with status 302\. Redirects are not followed: /],
    ['redirect with status 300', 300, '', /status 300\. Redirects are not followed: /],
    ['redirect with status 399', 399, '', /status 399\. Redirects are not followed: /],
    ['response of 400', 400, '', /status 400\.$/],
  ])('a discovery %s', async (_description, status, body, detail) => {
    const origin = await serve((_req, res) => void res.writeHead(status).end(body));
    const app = protocol.appOf({ discoveryUrl: `${origin}/metadata` });
    expect(await findingOf('discovery', app)).toMatchObject({
      result: 'failed',
      detail: expect.stringMatching(detail),
      pointer: '#/discoveryUrl',
    });
  });

  test.each<[number, 'passed' | 'failed', string]>([
    [0, 'passed', 'The clocks agree.'],
    [1, 'passed', 'The clocks agree.'],
    [-1, 'passed', 'The clocks agree.'],
    [2, 'passed', "This clock is 2 s ahead of the provider's."],
    [-2, 'passed', "This clock is 2 s behind the provider's."],
    [20, 'passed', "This clock is 20 s ahead of the provider's."],
    [-20, 'passed', "This clock is 20 s behind the provider's."],
    [21, 'failed', "This clock is 21 s ahead of the provider's."],
    [-21, 'failed', "This clock is 21 s behind the provider's."],
  ])('a clock that is %i s ahead: %s', async (seconds, result, detail) => {
    const providerTime = Date.parse('2026-11-21T12:00:00Z');
    // The header is rounded down, by half a second on average.
    doctorClock = () => providerTime + 500 + seconds * 1000;
    respondToDiscoveryAt(new Date(providerTime).toUTCString());

    const finding = await findingOf('clock');

    expect([finding?.result, finding?.detail]).toEqual([result, detail]);
    expect(finding?.advice).toBe(
      result === 'failed'
        ? 'Synchronise the clock of this server (NTP): otherwise ID tokens seem expired or not yet valid.'
        : undefined,
    );
  });

  test('a response without a date says nothing about the clocks', async () => {
    respondToDiscoveryAt(undefined);
    expect(await findingOf('clock')).toEqual({
      check: 'clock',
      result: 'unknown',
      detail: 'The response of the provider has no date.',
    });
  });

  /** Lets discovery respond with this `Date` header, or without one. */
  function respondToDiscoveryAt(date: string | undefined): void {
    const discovery: BrokenResponse = (res, { body }) => {
      res.sendDate = false;
      if (date !== undefined) res.setHeader('date', date);
      res.writeHead(200, { 'content-type': 'application/json' }).end(body);
    };
    protocol.provider.setModes({ responses: { discovery } });
  }

  test.each([
    ['https://idp.example.com/token', 'passed', 'The connection is protected and the certificate is valid.'],
    [
      'http://127.0.0.1:9/token',
      'unknown',
      'The provider is called without TLS, which is allowed on this machine only.',
    ],
  ])('endpoints set by hand need no discovery; TLS is that of %s', async (token, result, detail) => {
    const app = protocol.appOf({ endpoints: { ...protocol.provider.endpointSettings() } });
    const appWithTokenEndpoint = { ...app, endpoints: { ...app.endpoints, token } };
    const { findings } = await checkDiscovery(
      { outbound: protocol.outbound, clock: doctorClock },
      appWithTokenEndpoint,
    );

    expect(findings).toEqual([
      { check: 'discovery', result: 'passed', detail: 'The endpoints are set by hand, so discovery is not needed.' },
      { check: 'tls', result, detail },
    ]);
    expect(protocol.provider.hits).toEqual([]);
    expect(await findingOf('issuer', app)).toMatchObject({
      result: 'unknown',
      detail: 'Without discovery, the registered issuer is used unchecked.',
    });
  });

  test('a provider without an endpoint for pushed requests', async () => {
    const findings = await check(protocol.appOf({ par: 'required' }));
    expect(findings.find((finding) => finding.check === 'callback_registered')).toEqual({
      check: 'callback_registered',
      result: 'unknown',
      detail: 'Not tried: fix the problem below first.',
    });
    expect(findings.find((finding) => finding.check === 'request')).toEqual({
      check: 'request',
      result: 'failed',
      detail: 'Requests must be pushed (PAR), but the provider names no endpoint for that.',
      advice: 'Set par to "auto", or ask the operator of the provider.',
      pointer: '#/par',
    });
  });

  test.each<[number, object, CheckName, Partial<Finding>]>([
    [
      400,
      { error: 'invalid_scope' },
      'scopes',
      {
        result: 'failed',
        detail: 'The provider refuses a scope of this app, and does not say which.',
        pointer: '#/scopes',
      },
    ],
    [
      400,
      { error: 'invalid_scope' },
      'callback_registered',
      { result: 'unknown', detail: 'The provider checked no further than the scopes.' },
    ],
    [
      400,
      { error: 'invalid_redirect_uri' },
      'callback_registered',
      {
        result: 'failed',
        pointer: '#/callbackUrls',
        detail:
          'The provider refused the pushed authorization request (push refused, status 400, invalid_redirect_uri).',
      },
    ],
    [
      400,
      { error: 'invalid_redirect_uri' },
      'request',
      { result: 'unknown', detail: 'Not tried: fix the problem above first.' },
    ],
    [
      503,
      {},
      'callback_registered',
      {
        result: 'unknown',
        detail: 'The authorization endpoint could not be called: push failed, status 503.',
      },
    ],
    [503, {}, 'request', { result: 'unknown', detail: 'The provider did not redirect to the callback URL.' }],
  ])('a pushed request that is refused with %i %j: %s', async (code, body, name, expected) => {
    const origin = await serve((_req, res) => {
      res.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
    protocol.provider.setModes({
      metadata: (metadata) => ({ ...metadata, pushed_authorization_request_endpoint: `${origin}/par` }),
    });
    expect(await findingOf(name, protocol.appOf({ par: 'required' }))).toMatchObject(expected);
  });

  test.each([
    ['a parameter', 'scope=files'],
    ['its description', 'error_description=Scope+%22files%22+and+%3Cb%3Eprofiles+are+not+allowed.'],
  ])('the scope that the provider refuses is named, from %s', async (_name, parameters) => {
    const [callback = ''] = protocol.app.callbackUrls;
    const location = `${callback}?error=invalid_scope&${parameters}`;
    const origin = await serve((_req, res) => void res.writeHead(303, { location }).end());
    const app = { ...appAuthorizingAt(`${origin}/authorize`), scopes: ['openid', 'profile', 'files'] };
    expect(await findingOf('scopes', app)).toEqual({
      check: 'scopes',
      result: 'failed',
      detail: 'The provider refuses this scope of the app: files.',
      advice: 'Remove the scope that this registration may not request, or allow it at the provider.',
      pointer: '#/scopes',
    });
  });

  test.each<[string, (callback: string) => string, Partial<Finding>]>([
    [
      'a page of the provider',
      () => 'https://idp.example.com/login',
      { result: 'unknown', detail: 'The provider redirects to a page of its own and reports no error.' },
    ],
    [
      'an address that only begins like the callback URL',
      (callback) => `${callback}-2?error=login_required`,
      { result: 'unknown', detail: 'The provider redirects to a page of its own and reports no error.' },
    ],
    [
      'the callback URL',
      (callback) => `${callback}?error=login_required`,
      { result: 'passed', detail: 'The provider redirects to the callback URL.' },
    ],
  ])('a redirect to %s', async (_description, targetOf, expected) => {
    const [callback = ''] = protocol.app.callbackUrls;
    let status = 303;
    const origin = await serve((_req, res) => void res.writeHead(status, { location: targetOf(callback) }).end());
    const app = appAuthorizingAt(`${origin}/authorize`);
    expect(await findingOf('callback_registered', app)).toMatchObject(expected);

    // With another status the header does not redirect.
    status = 200;
    expect((await findingOf('callback_registered', app))?.detail).toBe(
      'The provider responded with a page of its own (status 200).',
    );
  });

  test.each<[number, Partial<Finding>]>([
    [401, { result: 'passed', detail: 'The thread path exists and requires a token (401).' }],
    [403, { result: 'passed', detail: 'The thread path exists and requires a token (403).' }],
    [404, { result: 'failed', detail: 'The platform does not have this path (404).', pointer: '#/threadPath' }],
    [200, { result: 'unknown', detail: 'Without a token the platform responded with status 200.' }],
    [500, { result: 'unknown', detail: 'Without a token the platform responded with status 500.' }],
  ])('a platform that responds to a call without a token with %i', async (code, expected) => {
    const requests: unknown[] = [];
    const origin = await serve((req, res) => {
      requests.push({ url: req.url, authorization: req.headers.authorization });
      res.writeHead(code).end();
    });
    const app = protocol.appOf({ apiBaseUrl: `${origin}/api/`, threadPath: '/threads/1' });

    expect(await findingOf('platform', app)).toMatchObject(expected);

    expect(requests).toEqual([{ url: '/api/threads/1', authorization: undefined }]);
  });

  test('an app without an API has no platform to check', async () => {
    expect(await findingOf('platform', protocol.appOf({ apiBaseUrl: undefined }))).toBeUndefined();
  });

  test('a public client is checked without a secret', async () => {
    const app = protocol.appOf({ tokenEndpointAuthMethod: 'none', clientSecret: undefined });
    protocol.provider.setModes({ responses: { token: status(400, { error: 'invalid_grant' }) } });
    expect(await findingOf('client_authentication', app)).toEqual({
      check: 'client_authentication',
      result: 'passed',
      detail: 'The token endpoint knows the client ID; no secret is used.',
    });
    protocol.provider.setModes({ responses: { token: status(401, { error: 'invalid_client' }) } });
    expect(await findingOf('client_authentication', app)).toMatchObject({
      result: 'failed',
      pointer: '#/clientSecret',
    });
    // Without a secret there is no other method to try.
    expect(protocol.provider.hitsOf('token')).toHaveLength(2);
  });

  test('a provider that accepts a made-up code says nothing about the client', async () => {
    const app = protocol.appOf({ scopes: ['profile'], signIn: undefined });
    protocol.provider.setModes({ responses: { token: status(200, { access_token: 'at', token_type: 'bearer' }) } });
    expect(await findingOf('client_authentication', app)).toEqual({
      check: 'client_authentication',
      result: 'unknown',
      detail: 'The token endpoint gave no clear response: it accepted a made-up code.',
    });
  });

  test('an app without OpenID Connect needs no signing keys', async () => {
    const findings = await check(protocol.appOf({ scopes: ['profile'], signIn: undefined }));
    const names = findings.map((finding) => finding.check);
    expect(names).not.toContain('keys');
    expect(names).not.toContain('algorithms');
    expect(names).toContain('revocation');
  });

  test.each([
    [1, 'The provider publishes 1 key.'],
    [2, 'The provider publishes 2 keys.'],
  ])('%i published keys', async (count, detail) => {
    const response = await fetch(`${protocol.provider.issuer}/jwks`);
    const { keys: publishedKeys = [] } = (await response.json()) as { keys?: object[] };
    const jwks = Array.from({ length: count }, (_, index) => ({ ...publishedKeys[0], kid: `k${index}` }));
    protocol.provider.setModes({ jwks: () => jwks });
    expect(await findingOf('keys')).toEqual({ check: 'keys', result: 'passed', detail });
  });

  test('an endpoint that is not a URL', async () => {
    protocol.provider.setModes({ metadata: (metadata) => ({ ...metadata, token_endpoint: 5 }) });
    expect(await findingOf('endpoints')).toEqual({
      check: 'endpoints',
      result: 'failed',
      pointer: '#/endpoints',
      detail: 'The token_endpoint may not be called: endpoint refused.',
      advice: 'Endpoints must be https and public, or their host named in INTERNAL_HOSTS.',
    });
  });

  test('an issuer template with one named tenant', async () => {
    protocol.provider.setModes(tenants(INK));
    const template = templateApp(protocol.provider);
    const app = protocol.appOf({ ...template, signIn: { allow: { claim: 'tid', values: [INK] } } });
    expect((await findingOf('issuer', app))?.detail).toBe(
      'The provider names the registered issuer, and the app names one tenant.',
    );
  });

  test('a provider without a revocation endpoint', async () => {
    protocol.provider.setModes('no-revocation-endpoint');
    expect(await findingOf('revocation')).toEqual({
      check: 'revocation',
      result: 'unknown',
      pointer: '#/endpoints/revocation',
      detail: 'No revocation endpoint is known: disconnecting deletes the tokens only here.',
      advice: 'If the provider has one, set endpoints.revocation.',
    });
  });

  test('a platform that cannot be called, and one that does not know the path', async () => {
    const unreachable = `http://127.0.0.1:${await freePort()}`;
    expect(await findingOf('platform', protocol.appOf({ apiBaseUrl: unreachable }))).toMatchObject({
      pointer: '#/apiBaseUrl',
    });

    const platformWithoutPath = await servePage(404);
    expect(await findingOf('platform', protocol.appOf({ apiBaseUrl: platformWithoutPath }))).toMatchObject({
      pointer: '#/threadPath',
    });
  });

  test('marks checks that were not tried', async () => {
    protocol.provider.setModes('discovery-status-500');
    expect(resultsOf(await check())).toMatchObject({
      discovery: 'failed',
      keys: 'unknown',
      client_authentication: 'unknown',
    });
  });

  test.each(['huge', 'reset', 'truncated'] as const)(
    'a discovery response of the kind "%s" is a finding, not an exception',
    async (kind) => {
      protocol.provider.setModes(`discovery-${kind}`);
      expect(await findingOf('discovery')).toMatchObject({ result: 'failed' });
    },
  );
});

test('the doctor refreshes no token, and its authorization request lets the provider show no page', async () => {
  await check();

  const grantTypes = protocol.provider.hitsOf('token').map(({ body }) => new URLSearchParams(body).get('grant_type'));
  expect(grantTypes).toEqual(['authorization_code']);
  expect(protocol.provider.hitsOf('authorize').every(({ url }) => url.includes('prompt=none'))).toBe(true);
});
