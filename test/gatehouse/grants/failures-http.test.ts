/**
 * R40 and R41 over HTTP: which responses end a connection, which are retried, and how often an unavailable provider is
 * called.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { FaultKind } from '../../../src/sandbox/faults.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { createAdministrator, exchange, relayThread } from '../relay/service.ts';
import { openStorageOf, type StorageAccess, sessionOf } from './storage-access.ts';

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

const ENDED = 61;
type Agent = Awaited<ReturnType<typeof signIn>>['agent'];
const thread = (agent: Agent) => getJson(agent, `${site.url}/threads/current`);
const tokenCalls = () => site.sandbox.requests.count('POST /token');
const failing = (fault: FaultKind) =>
  site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', ...fault });
const healthOf = async (agent: Agent) => (await sessionOf(site, agent)).connections[0]?.health;

const faultOf = (status: number, body: string | object, headers = {}): FaultKind => ({
  kind: 'response',
  status,
  body,
  headers,
});
const HTML = { 'Content-Type': 'text/html' };

/** Name, response of the token endpoint, and the cause while the connection is unverified. */
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

describe('R40: the end of a connection', () => {
  test.each(NOT_TERMINAL)(
    '%s does not: it is unverified, says what to do, and recovers by itself',
    async (_name, fault, cause) => {
      const { agent } = await signIn(site);
      site.sandbox.requests.reset();
      failing(fault);
      advanceClock(ENDED);
      const { status, json, headers } = await thread(agent);
      const connectUrl = `${site.url}/connections/platform`;
      const detail = expect.stringMatching(/Try again/);
      expect({ status, ...json }).toMatchObject({ status: 503, code: 'provider_unavailable', connectUrl, detail });
      expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(15);
      expect(Number(headers.get('retry-after'))).toBeLessThanOrEqual(60);
      expect(headers.get('proxy-status')).toMatch(/^gatehouse; error=/);
      expect((await sessionOf(site, agent)).connections[0]).toMatchObject({ health: 'unverified', cause });
      expect(tokenCalls()).toBe(1);

      site.sandbox.faults.clear();
      advanceClock(Number(headers.get('retry-after')));
      expect((await thread(agent)).status).toBe(200);
      expect(await healthOf(agent)).toBe('active');
    },
  );

  test('a JSON 400 invalid_grant ends the connection for good, and the response has the cause and the URL to reconnect', async () => {
    const { agent } = await signIn(site);
    site.sandbox.requests.reset();
    failing(faultOf(400, { error: 'invalid_grant' }));
    advanceClock(ENDED);
    const { status, json } = await thread(agent);
    expect({ status, ...json }).toMatchObject({
      status: 403,
      code: 'reconnect_needed',
      connectUrl: `${site.url}/connections/platform`,
      detail: expect.stringContaining('The provider has ended this connection.'),
    });
    expect((await sessionOf(site, agent)).connections[0]).toMatchObject({
      health: 'reconnect_needed',
      cause: 'grant_refused',
    });
    site.sandbox.faults.clear();
    advanceClock(1000);
    expect((await thread(agent)).json.code).toBe('reconnect_needed');
    expect(tokenCalls()).toBe(1);
  });

  test.each<[string, FaultKind, string]>([
    ['a 200', faultOf(200, { error: 'bad_refresh_token' }), 'bad_refresh_token'],
    ['a 403', faultOf(403, { error: 'unauthorized_client' }), 'unauthorized_client'],
    ['a wrong secret', faultOf(200, { ok: false, error: 'bad_client_secret' }), 'bad_client_secret'],
    ['a 503', { kind: 'unavailable' }, 'status_503 temporarily_unavailable'],
    ['no code', faultOf(400, ''), 'status_400'],
  ])('administrators see the provider’s own error code: %s', async (_words, fault, reason) => {
    const { agent } = await signIn(site);
    const admin = await createAdministrator(site, storage);
    failing(fault);
    advanceClock(ENDED);
    await thread(agent);
    const { userId } = await sessionOf(site, agent);
    const { json } = await admin.call('GET', '/connections');
    const rows = json.items as { user: { id: string }; reason: string | null }[];
    expect(rows.find(({ user }) => user.id === userId)?.reason).toBe(reason);
    const audited = `/audit?event=refresh.failed&target=${userId}&limit=1`;
    await expect.poll(async () => (await admin.call('GET', audited)).json.items).toMatchObject([{ facts: { reason } }]);
    site.sandbox.faults.clear();
    const { agent: administrator } = await signIn(site, 'admin@example.test');
    const page = await administrator.get(`${site.url}/admin/users/${userId}`);
    expect(page.body).toContain(` · ${reason}</span>`);
    expect(JSON.stringify((await sessionOf(site, agent)).connections)).not.toContain(reason);
  });

  test('reconnecting restores the connection', async () => {
    const { agent } = await signIn(site);
    failing(faultOf(400, { error: 'invalid_grant' }));
    advanceClock(ENDED);
    expect((await thread(agent)).status).toBe(403);
    site.sandbox.faults.clear();
    const again = await signIn(site);
    expect((await thread(again.agent)).status).toBe(200);
    expect(await healthOf(agent)).toBe('active');
  });

  test('a refusal of the app itself ends no connection: all of them work once the app is corrected', async () => {
    const logins = ['user@example.test', 'second@example.test', 'admin@example.test'];
    const agents = await Promise.all(logins.map(async (login) => (await signIn(site, login)).agent));
    failing(faultOf(401, { error: 'invalid_client' }));
    advanceClock(ENDED);
    const refused = await Promise.all(agents.map(thread));
    expect(refused.map(({ status }) => status)).toEqual([503, 503, 503]);
    site.sandbox.faults.clear();
    advanceClock(40);
    const healed = await Promise.all(agents.map(thread));
    expect(healed.map(({ status }) => status)).toEqual([200, 200, 200]);
  });
});

test('R40: an unverified connection is nowhere shown as working, and names where to reconnect, for services too', async () => {
  const { agent } = await signIn(site);
  const { userId } = await sessionOf(site, agent);
  const administrator = await createAdministrator(site, storage);
  const { token } = await administrator.createRelayToken({ assertUser: true });
  failing(faultOf(200, { error: 'bad_refresh_token' }));
  advanceClock(ENDED);
  const relayed = JSON.parse((await relayThread(site, token, { 'gatehouse-user': userId })).body);
  const connectUrl = `${site.url}/connections/platform`;
  expect(relayed).toMatchObject({ status: 503, code: 'provider_unavailable', connectUrl });
  const subject = { subject_token: userId, subject_token_type: 'urn:gatehouse:token-type:user', audience: 'platform' };
  for (const scope of ['', 'openid']) {
    const exchanged = await exchange(site, token, { ...subject, scope });
    expect([exchanged.status, JSON.parse(exchanged.body)]).toMatchObject([
      503,
      { error: 'temporarily_unavailable', error_description: expect.stringContaining(connectUrl), connectUrl },
    ]);
  }
  const own = { app: 'platform', health: 'unverified', cause: 'unclear_refusal' };
  expect((await getJson(agent, `${site.url}/connections`)).json.connections).toMatchObject([own]);
  for (const path of ['/', '/connections', '/connections/platform']) {
    const { body } = await agent.get(`${site.url}${path}`);
    expect(body).toContain('Unverified');
    expect(body).not.toContain('Active');
    expect(body).toContain('did not say clearly why. Try again shortly, or reconnect.');
    expect(body).not.toContain('The sign-in provider does not respond');
  }
  const problem = await agent.get(`${site.url}/threads/current`, { headers: { accept: 'text/html' } });
  expect(problem.body).toContain('Your access could not be renewed');
  expect(problem.body).toContain(`href="${connectUrl}"`);
  const listed = async (health: string) =>
    (await administrator.call('GET', `/connections?health=${health}`)).json.items as object[];
  expect(await listed('unverified')).toMatchObject([{ user: { id: userId }, app: 'platform' }]);
  expect((await administrator.call('GET', '/overview')).json.connections).toMatchObject({ unverified: 1 });
});

describe('R41: a provider that is down', () => {
  test('gets few calls in a minute of many requests, and its return is noticed within a minute', async () => {
    const { agent } = await signIn(site);
    site.sandbox.requests.reset();
    failing({ kind: 'error' });
    advanceClock(ENDED);
    const seen = new Set<number>();
    for (let second = 0; second < 60; second += 1) {
      const responses = await Promise.all(Array.from({ length: 10 }, () => thread(agent)));
      for (const { status } of responses) seen.add(status);
      advanceClock(1);
    }
    expect([...seen]).toEqual([503]);
    expect(tokenCalls()).toBeGreaterThanOrEqual(2);
    expect(tokenCalls()).toBeLessThanOrEqual(4);
    site.sandbox.faults.clear();
    advanceClock(75);
    expect((await thread(agent)).status).toBe(200);
  });

  test('is not called before the time that it named', async () => {
    const { agent } = await signIn(site);
    site.sandbox.requests.reset();
    failing({ kind: 'unavailable', retryAfterSeconds: 300 });
    advanceClock(ENDED);
    // The whole seconds that remain once the refusal is stored.
    expect(['300', '299', '298']).toContain((await thread(agent)).headers.get('retry-after'));
    advanceClock(290);
    expect((await thread(agent)).status).toBe(503);
    expect(tokenCalls()).toBe(1);
    site.sandbox.faults.clear();
    advanceClock(11);
    expect((await thread(agent)).status).toBe(200);
  });

  test('is not called for each request that the platform refuses with 401', async () => {
    const { agent } = await signIn(site);
    site.sandbox.requests.reset();
    failing({ kind: 'error' });
    site.sandbox.faults.set({ listener: 'platform', kind: 'response', status: 401, body: {} });
    advanceClock(5);
    for (let round = 0; round < 3; round += 1) {
      const responses = await Promise.all(Array.from({ length: 20 }, () => thread(agent)));
      expect(new Set(responses.map(({ json }) => json.code))).toEqual(new Set(['provider_unavailable']));
    }
    expect(tokenCalls()).toBe(1);
  });

  test('is called again in time even if the clock is set back (F12)', async () => {
    const { agent } = await signIn(site);
    failing({ kind: 'error' });
    advanceClock(ENDED);
    expect((await thread(agent)).status).toBe(503);
    site.sandbox.faults.clear();
    const { userId } = await sessionOf(site, agent);
    await storage.changeGrant(userId, ({ failure }) => ({
      failure: failure && { ...failure, retryAt: Date.now() + 3_600_000 },
    }));
    expect((await thread(agent)).status).toBe(200);
  });
});
