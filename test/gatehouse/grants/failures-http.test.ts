/**
 * R40 and R41 over HTTP: which responses end a connection, which are retried, and how often an unavailable provider is
 * called.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { FaultKind } from '../../../src/sandbox/faults.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { createAdministrator, exchange, relayThread } from '../relay/service.ts';
import { connectionsOf, openStorageOf, type StorageAccess, sessionOf } from './storage-access.ts';

let site: TestSite;
let storage: StorageAccess;
beforeAll(async () => {
  site = await startSite();
  storage = await openStorageOf(site);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});
afterEach(() => site.sandbox.faults.clear());

/** A second longer than the lifetime of an access token. */
const AFTER_EXPIRY_SECONDS = 61;
type Agent = Awaited<ReturnType<typeof signIn>>['agent'];
const getThread = (agent: Agent) => getJson(agent, `${site.url}/threads/current`);
const countTokenCalls = () => site.sandbox.requests.count('POST /token');
const failTokenEndpoint = (fault: FaultKind) =>
  site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', ...fault });
const healthOf = async (agent: Agent) => (await connectionsOf(site, agent))[0]?.health;

const faultOf = (status: number, body: string | object, headers = {}): FaultKind => ({
  kind: 'response',
  status,
  body,
  headers,
});
const HTML = { 'Content-Type': 'text/html' };

/** A name, the response of the token endpoint, and the cause of the unverified connection. */
const NOT_TERMINAL: [string, FaultKind, string][] = [
  ['401 invalid_client', faultOf(401, { error: 'invalid_client' }), 'app_refused'],
  ['401 unauthorized_client', faultOf(401, { error: 'unauthorized_client' }), 'app_refused'],
  ['400 unauthorized_client', faultOf(400, { error: 'unauthorized_client' }), 'unclear_refusal'],
  ['400 unsupported_grant_type', faultOf(400, { error: 'unsupported_grant_type' }), 'app_refused'],
  ['500 with HTML', { kind: 'error' }, 'provider_unavailable'],
  ['503 with JSON', { kind: 'unavailable' }, 'provider_unavailable'],
  ['500 that says invalid_grant', faultOf(500, { error: 'invalid_grant' }), 'provider_unavailable'],
  ['502 that says invalid_grant', faultOf(502, { error: 'invalid_grant' }), 'provider_unavailable'],
  ['429', faultOf(429, { error: 'slow_down' }, { 'Retry-After': '40' }), 'provider_limited'],
  ['429 that says invalid_grant', faultOf(429, { error: 'invalid_grant' }), 'provider_limited'],
  ['408 that says invalid_grant', faultOf(408, { error: 'invalid_grant' }), 'provider_unavailable'],
  ['400 with HTML', faultOf(400, '<h1>Bad request</h1>', HTML), 'provider_unavailable'],
  [
    '400 with HTML that mentions invalid_grant',
    faultOf(400, '<p>"error":"invalid_grant"</p>', HTML),
    'provider_unavailable',
  ],
  ['403 of a firewall', faultOf(403, '<h1>Blocked</h1>', HTML), 'provider_unavailable'],
  ['a reset before the headers', { kind: 'reset', when: 'before_headers' }, 'provider_unavailable'],
  ['a reset amid the body', { kind: 'reset', when: 'after_headers' }, 'provider_unavailable'],
  ['a truncated body', { kind: 'truncated' }, 'provider_unavailable'],
  ['noise', { kind: 'garbage' }, 'unusable_response'],
  ['200 MB', { kind: 'huge' }, 'unusable_response'],
  ['an unknown encoding', faultOf(200, {}, { 'Content-Encoding': 'compress' }), 'unusable_response'],
  ['200 with HTML', faultOf(200, '<h1>Maintenance</h1>', HTML), 'unusable_response'],
  ['200 with a list', faultOf(200, '[]', { 'Content-Type': 'application/json' }), 'unusable_response'],
  ['200 with an empty object', faultOf(200, {}), 'unusable_response'],
  ['200 that says invalid_grant', faultOf(200, { error: 'invalid_grant' }), 'unclear_refusal'],
  ['a redirect', faultOf(302, '', { Location: 'https://elsewhere.example/' }), 'provider_unavailable'],
  ['400 without a body', faultOf(400, ''), 'unclear_refusal'],
  ['400 invalid_request', faultOf(400, { error: 'invalid_request' }), 'unclear_refusal'],
  ['401 invalid_request', faultOf(401, { error: 'invalid_request' }), 'unclear_refusal'],
  ['403 invalid_code', faultOf(403, { error: 'invalid_code' }), 'unclear_refusal'],
  ['400 invalid_scope', faultOf(400, { error: 'invalid_scope' }), 'unclear_refusal'],
  ['400 with an error that is no text', faultOf(400, { error: { code: 'invalid_grant' } }), 'unclear_refusal'],
];

describe('R40: a response of the token endpoint', () => {
  test.each(NOT_TERMINAL)(
    '%s does not end the connection, which is unverified, says what to do, and recovers by itself',
    async (_name, fault, cause) => {
      const { agent } = await signIn(site);
      site.sandbox.requests.reset();
      failTokenEndpoint(fault);
      advanceClock(AFTER_EXPIRY_SECONDS);
      const { status, json, headers } = await getThread(agent);
      const connectUrl = `${site.url}/connections/platform`;
      const detail = expect.stringMatching(/Try again/);

      expect({ status, ...json }).toMatchObject({ status: 503, code: 'provider_unavailable', connectUrl, detail });
      expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(15);
      expect(Number(headers.get('retry-after'))).toBeLessThanOrEqual(60);
      expect(headers.get('proxy-status')).toMatch(/^gatehouse; error=/);
      expect((await connectionsOf(site, agent))[0]).toMatchObject({ health: 'unverified', cause });
      expect(countTokenCalls()).toBe(1);

      site.sandbox.faults.clear();
      advanceClock(Number(headers.get('retry-after')));

      expect((await getThread(agent)).status).toBe(200);
      expect(await healthOf(agent)).toBe('active');
    },
  );

  test('400 invalid_grant in JSON ends the connection, and the caller gets the cause and the URL to reconnect', async () => {
    const { agent } = await signIn(site);
    site.sandbox.requests.reset();
    failTokenEndpoint(faultOf(400, { error: 'invalid_grant' }));
    advanceClock(AFTER_EXPIRY_SECONDS);

    const { status, json } = await getThread(agent);
    expect({ status, ...json }).toMatchObject({
      status: 403,
      code: 'reconnect_needed',
      connectUrl: `${site.url}/connections/platform`,
      detail: expect.stringContaining('The provider has ended this connection.'),
    });
    expect((await connectionsOf(site, agent))[0]).toMatchObject({
      health: 'reconnect_needed',
      cause: 'grant_refused',
    });

    site.sandbox.faults.clear();
    advanceClock(1000);

    expect((await getThread(agent)).json.code).toBe('reconnect_needed');
    expect(countTokenCalls()).toBe(1);
  });

  test.each<[string, FaultKind, string]>([
    ['a 200', faultOf(200, { error: 'bad_refresh_token' }), 'bad_refresh_token'],
    ['a 403', faultOf(403, { error: 'unauthorized_client' }), 'unauthorized_client'],
    ['a wrong secret', faultOf(200, { ok: false, error: 'bad_client_secret' }), 'bad_client_secret'],
    ['a 503', { kind: 'unavailable' }, 'status_503 temporarily_unavailable'],
    ['no code', faultOf(400, ''), 'status_400'],
  ])('has an error code that administrators see, and users do not: %s', async (_description, fault, reason) => {
    const { agent } = await signIn(site);
    const admin = await createAdministrator(site, storage);
    failTokenEndpoint(fault);
    advanceClock(AFTER_EXPIRY_SECONDS);
    await getThread(agent);
    const { userId } = await sessionOf(site, agent);
    const { json } = await admin.call('GET', '/connections');
    const rows = json.items as { user: { id: string }; reason: string | null }[];

    expect(rows.find(({ user }) => user.id === userId)?.reason).toBe(reason);

    const audited = `/audit?event=refresh.failed&target=${userId}&limit=1`;
    await expect.poll(async () => (await admin.call('GET', audited)).json.items).toMatchObject([{ facts: { reason } }]);

    site.sandbox.faults.clear();
    const { agent: administrator } = await signIn(site, 'admin@example.test');

    const page = await administrator.get(`${site.url}/admin/users/${userId}`);
    expect(page.body).toContain(`(${reason})</span>`);
    expect(JSON.stringify(await connectionsOf(site, agent))).not.toContain(reason);
  });

  test('400 invalid_grant in JSON is followed by a working connection if the user reconnects', async () => {
    const { agent } = await signIn(site);
    failTokenEndpoint(faultOf(400, { error: 'invalid_grant' }));
    advanceClock(AFTER_EXPIRY_SECONDS);

    expect((await getThread(agent)).status).toBe(403);

    site.sandbox.faults.clear();
    const signInOfUser = await signIn(site);

    expect((await getThread(signInOfUser.agent)).status).toBe(200);
    expect(await healthOf(agent)).toBe('active');
  });

  test('401 invalid_client ends no connection of the app: all of them work once the app is corrected', async () => {
    const logins = ['user@example.test', 'second@example.test', 'admin@example.test'];
    const agents = await Promise.all(logins.map(async (loginName) => (await signIn(site, loginName)).agent));
    failTokenEndpoint(faultOf(401, { error: 'invalid_client' }));
    advanceClock(AFTER_EXPIRY_SECONDS);

    const responsesDuringRefusal = await Promise.all(agents.map(getThread));
    expect(responsesDuringRefusal.map(({ status }) => status)).toEqual([503, 503, 503]);

    site.sandbox.faults.clear();
    advanceClock(40);

    const responsesAfterCorrection = await Promise.all(agents.map(getThread));
    expect(responsesAfterCorrection.map(({ status }) => status)).toEqual([200, 200, 200]);
  });
});

test('R40: an unverified connection is shown as working nowhere, and users and services get the URL to reconnect', async () => {
  const { agent } = await signIn(site);
  const { userId } = await sessionOf(site, agent);
  const administrator = await createAdministrator(site, storage);
  const { token } = await administrator.createRelayToken({ assertUser: true });
  failTokenEndpoint(faultOf(200, { error: 'bad_refresh_token' }));
  advanceClock(AFTER_EXPIRY_SECONDS);
  const relayResponse = JSON.parse((await relayThread(site, token, { 'gatehouse-user': userId })).body);
  const connectUrl = `${site.url}/connections/platform`;

  expect(relayResponse).toMatchObject({ status: 503, code: 'provider_unavailable', connectUrl });

  const subject = { subject_token: userId, subject_token_type: 'urn:gatehouse:token-type:user', audience: 'platform' };
  for (const scope of ['', 'openid']) {
    const exchangeResponse = await exchange(site, token, { ...subject, scope });
    expect([exchangeResponse.status, JSON.parse(exchangeResponse.body)]).toMatchObject([
      503,
      { error: 'temporarily_unavailable', error_description: expect.stringContaining(connectUrl), connectUrl },
    ]);
  }
  const expectedConnection = { app: 'platform', health: 'unverified', cause: 'unclear_refusal' };

  expect((await getJson(agent, `${site.url}/connections`)).json.items).toMatchObject([expectedConnection]);

  for (const path of ['/', '/connections', '/connections/platform']) {
    const { body } = await agent.get(`${site.url}${path}`);
    expect(body).toContain('Unverified');
    expect(body).not.toContain('Active');
    expect(body).toContain('did not say clearly why. Try again shortly, or reconnect.');
    expect(body).not.toContain('The sign-in provider does not respond');
  }
  const problemPage = await agent.get(`${site.url}/threads/current`, { headers: { accept: 'text/html' } });
  expect(problemPage.body).toContain('Your access could not be renewed');
  expect(problemPage.body).toContain(`href="${connectUrl}"`);

  const listByHealth = async (health: string) =>
    (await administrator.call('GET', `/connections?health=${health}`)).json.items as object[];
  expect(await listByHealth('unverified')).toMatchObject([{ user: { id: userId }, app: 'platform' }]);
  expect((await administrator.call('GET', '/overview')).json.connections).toMatchObject({ unverified: 1 });
});

describe('R41: a provider that is down', () => {
  test('gets few calls in a minute of many requests, and is called again once it is back', async () => {
    const { agent } = await signIn(site);
    site.sandbox.requests.reset();
    failTokenEndpoint({ kind: 'error' });
    advanceClock(AFTER_EXPIRY_SECONDS);
    const statuses = new Set<number>();
    for (let second = 0; second < 60; second += 1) {
      const responses = await Promise.all(Array.from({ length: 10 }, () => getThread(agent)));
      for (const { status } of responses) statuses.add(status);
      advanceClock(1);
    }

    expect([...statuses]).toEqual([503]);
    expect(countTokenCalls()).toBeGreaterThanOrEqual(2);
    expect(countTokenCalls()).toBeLessThanOrEqual(4);

    site.sandbox.faults.clear();
    advanceClock(75);

    expect((await getThread(agent)).status).toBe(200);
  });

  test('is not called before the time that it named', async () => {
    const { agent } = await signIn(site);
    site.sandbox.requests.reset();
    failTokenEndpoint({ kind: 'unavailable', retryAfterSeconds: 300 });
    advanceClock(AFTER_EXPIRY_SECONDS);

    // The seconds that remain when the response is sent, up to two after the refusal was stored.
    expect(['300', '299', '298']).toContain((await getThread(agent)).headers.get('retry-after'));

    advanceClock(290);
    expect((await getThread(agent)).status).toBe(503);
    expect(countTokenCalls()).toBe(1);

    site.sandbox.faults.clear();
    advanceClock(11);

    expect((await getThread(agent)).status).toBe(200);
  });

  test('is not called for each request that the platform refuses with 401', async () => {
    const { agent } = await signIn(site);
    site.sandbox.requests.reset();
    failTokenEndpoint({ kind: 'error' });
    site.sandbox.faults.set({ listener: 'platform', kind: 'response', status: 401, body: {} });
    advanceClock(5);
    for (let round = 0; round < 3; round += 1) {
      const responses = await Promise.all(Array.from({ length: 20 }, () => getThread(agent)));
      expect(new Set(responses.map(({ json }) => json.code))).toEqual(new Set(['provider_unavailable']));
    }

    expect(countTokenCalls()).toBe(1);
  });

  test('is called again in time even if the clock is set back (F12)', async () => {
    const { agent } = await signIn(site);
    failTokenEndpoint({ kind: 'error' });
    advanceClock(AFTER_EXPIRY_SECONDS);

    expect((await getThread(agent)).status).toBe(503);

    site.sandbox.faults.clear();
    const { userId } = await sessionOf(site, agent);
    await storage.changeGrant(userId, ({ failure }) => ({
      failure: failure && { ...failure, retryAt: Date.now() + 3_600_000 },
    }));

    expect((await getThread(agent)).status).toBe(200);
  });
});
