/** RFC 8707: an app's resources are sent to the provider, and a service gets a token for one of them. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { status } from '../../support/broken-responses.ts';
import { getJson } from '../../support/gatehouse.ts';
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts';
import { advanceClock, advanceToNextMinute, resetClock } from '../../support/test-clock.ts';
import { until } from '../../support/until.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { attempt, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';
import { type Administrator, assertionOf, createAdministrator, exchange } from './service.ts';

const FILES = 'https://files.example.com/v1';
const REPORTS = 'urn:example:reports';
const [APP, PLAIN] = ['elsewhere', 'plain'];

let provider: HostileProvider;
let site: HostileSite;
let storage: StorageAccess;
let admin: Administrator;
/** The id of the relay token that was created last. */
let tokenId: string;
beforeAll(async () => {
  provider = await startHostileProvider();
  site = await startHostileSite({
    provider,
    apps: (hostile, url) => [hostile.app(url, { resources: [FILES, REPORTS] }), hostile.app(url, { id: PLAIN })],
    // Longer than the lifetime of this provider's access tokens.
    env: { SESSION_IDLE_SECONDS: '28800' },
  });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
});
afterAll(async () => {
  await storage.close();
  await site.close();
  await provider.close();
});
afterEach(() => {
  provider.reset();
  resetClock();
});

const resourcesOf = (text = '') => new URLSearchParams(text.replace(/^.*\?/, '')).getAll('resource');
/** `resource` and `scope` of each refresh so far. */
const refreshes = () =>
  provider.hitsOf('refresh').map(({ body }) => [...resourcesOf(body), new URLSearchParams(body).get('scope')]);

async function connected(name: string, app = APP) {
  provider.signInAs({ sub: name, name });
  const { agent, signedIn } = await attempt(site, { path: `/sign-in?app=${app}` });
  expect(signedIn).toBe(true);
  const { userId } = await sessionOf(site, agent);
  const { id, token } = await admin.createRelayToken({ apps: [APP, PLAIN], fullScope: true });
  tokenId = id;
  const ask = async (form: Record<string, string>) => {
    const assertion = await assertionOf(site, agent.cookies.header(site.url));
    const subject = { subject_token: assertion, subject_token_type: 'urn:ietf:params:oauth:token-type:jwt' };
    const response = await exchange(site, token, { ...subject, ...form });
    return { status: response.status, json: JSON.parse(response.body) as Record<string, string> };
  };
  const thread = () => getJson(agent, `${site.url}/threads/current?app=${app}`);
  return { ask, thread, stored: () => storage.readGrant(userId, app) };
}

test('sends all resources with the authorization request, the code and each refresh', async () => {
  const { thread } = await connected('all');
  expect(resourcesOf(provider.hitsOf('authorize')[0]?.url)).toEqual([FILES, REPORTS]);
  expect(resourcesOf(provider.hitsOf('token')[0]?.body)).toEqual([FILES, REPORTS]);
  advanceClock(3601);
  expect((await thread()).status).toBe(200);
  expect(refreshes()).toEqual([[FILES, REPORTS, null]]);
});

test('sends no resources for an app that declares none, and accepts its API base URL as its name', async () => {
  const { ask, stored } = await connected('plain', PLAIN);
  expect(provider.hits.flatMap(({ url, body }) => resourcesOf(url).concat(resourcesOf(body)))).toEqual([]);
  const { json } = await ask({ resource: `${provider.issuer}/api/1/threads` });
  expect(json.access_token).toBe((await stored()).accessToken);
  expect(provider.hitsOf('refresh')).toEqual([]);
});

test('R32 R112 refreshes for a token for one resource, and the grant keeps its access token and the new refresh token', async () => {
  const { ask, thread, stored } = await connected('one');
  const before = await stored();
  const { status: code, json } = await ask({ resource: FILES });
  expect([code, json.scope]).toEqual([200, 'openid profile offline_access']);
  expect(json.access_token).not.toBe(before.accessToken);
  expect(refreshes()).toEqual([[FILES, null]]);
  const after = await stored();
  expect([after.accessToken, after.refresh]).toEqual([before.accessToken, undefined]);
  expect(after.refreshToken).not.toBe(before.refreshToken);
  // Every granted scope, but for one resource of two.
  const scope = before.scopes.join(' ');
  const everyScope = await ask({ resource: REPORTS, scope });
  expect([everyScope.status, refreshes().at(-1)]).toEqual([200, [REPORTS, scope]]);
  expect(everyScope.json.access_token).not.toBe(before.accessToken);
  // This provider rotates strictly: the token that was sent first would be refused.
  advanceClock(3601);
  expect((await thread()).status).toBe(200);
});

test('R112 audits the resource of each token', async () => {
  const { ask } = await connected('audited');
  advanceToNextMinute();
  for (const resource of [FILES, REPORTS, FILES]) expect((await ask({ resource })).status).toBe(200);
  expect((await ask({ audience: APP })).status).toBe(200);
  const auditedResources = async () => {
    const { json } = await admin.call('GET', `/audit?event=relay_token.exchanged&actor=${tokenId}`);
    return (json.items as { facts: { resource?: string } }[]).map(({ facts }) => facts.resource);
  };
  await until(async () => (await auditedResources()).length >= 3);
  expect((await auditedResources()).toReversed()).toEqual([FILES, REPORTS, undefined]);
});

test('R31 concurrent requests share one refresh per resource and scopes, and later ones need none', async () => {
  const { ask } = await connected('many');
  provider.setModes({ refreshResponse: (body) => ({ ...body, scope: 'profile' }) });
  const request = { resource: REPORTS, scope: 'profile' };
  const responses = await Promise.all(Array.from({ length: 8 }, () => ask(request)));
  expect(new Set(responses.map(({ json }) => json.access_token)).size).toBe(1);
  expect((await ask(request)).json.access_token).toBe(responses[0]?.json.access_token);
  expect(refreshes()).toEqual([[REPORTS, 'profile']]);
  const different = [{ ...request, resource: FILES }, { resource: REPORTS }, { resource: FILES }, request];
  const others = await Promise.all(different.map(ask));
  expect(others.map(({ status: code }) => code)).toEqual([200, 200, 200, 200]);
  expect(new Set(others.map(({ json }) => json.access_token)).size).toBe(4);
  expect(refreshes()).toEqual(
    expect.arrayContaining([
      [FILES, 'profile'],
      [REPORTS, null],
    ]),
  );
});

test.each([
  ['another URL', 'https://elsewhere.example.com'],
  ['an additional slash', `${FILES}/`],
])('R112 responds with invalid_target to a resource that the app does not declare: %s', async (_name, resource) => {
  const { ask } = await connected('undeclared');
  for (const audience of [{}, { audience: APP }]) {
    expect(await ask({ ...audience, resource })).toMatchObject({ status: 400, json: { error: 'invalid_target' } });
  }
  expect(await ask({ audience: APP, resource: `${provider.issuer}/api` })).toMatchObject({
    json: { error: 'invalid_target' },
  });
  expect(provider.hitsOf('refresh')).toEqual([]);
});

test('requires an app or a resource if the relay token has two apps', async () => {
  const { ask } = await connected('either');
  const { status: code, json } = await ask({});
  expect([code, json.error, json.error_description]).toEqual([
    400,
    'invalid_target',
    expect.stringMatching(/^Name one connected app/),
  ]);
});

test('R112 responds with invalid_target if the provider refuses the resource, never with the token for all', async () => {
  const { ask, thread, stored } = await connected('refused');
  const before = await stored();
  provider.setModes({ responses: { refresh: status(400, { error: 'invalid_target' }) } });
  const { status: code, json } = await ask({ audience: APP, resource: FILES });
  expect([code, json.error]).toEqual([400, 'invalid_target']);
  expect(JSON.stringify(json)).not.toContain(before.accessToken);
  expect((await stored()).failure).toBeUndefined();
  expect((await thread()).status).toBe(200);
});

test('R101 refuses a refresh whose ID token has another subject, and the grant keeps its tokens', async () => {
  const { ask, stored } = await connected('mine');
  const before = await stored();
  provider.setModes({ claims: (claims) => ({ ...claims, sub: 'mallory' }) });
  const { status: code, json } = await ask({ resource: FILES });
  expect([code, json.access_token]).toEqual([503, undefined]);
  const { accessToken, refreshToken, failure } = await stored();
  expect([accessToken, refreshToken]).toEqual([before.accessToken, before.refreshToken]);
  expect(failure?.cause).toBe('unusable_response');
});

test('names the URL to connect if the user has no connection', async () => {
  const { ask } = await connected('unconnected', PLAIN);
  expect(await ask({ resource: FILES })).toMatchObject({
    status: 400,
    json: { error: 'invalid_target', connectUrl: `${site.url}/connections/${APP}` },
  });
});
