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
const APP = 'elsewhere';
/** An app without resources. */
const PLAIN = 'plain';

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

/** The parameters `resource` of a URL or a form. */
const resourcesOf = (urlOrForm = '') => new URLSearchParams(urlOrForm.replace(/^.*\?/, '')).getAll('resource');
/** `resource` and `scope` of each refresh so far. */
const listRefreshes = () =>
  provider.hitsOf('refresh').map(({ body }) => [...resourcesOf(body), new URLSearchParams(body).get('scope')]);

/** Signs a new user in with the app, and creates a relay token for the two apps. */
async function connectUser(name: string, app = APP) {
  provider.signInAs({ sub: name, name });
  const { agent, signedIn } = await attempt(site, { path: `/sign-in?app=${app}` });
  expect(signedIn).toBe(true);
  const { userId } = await sessionOf(site, agent);
  const { id, token } = await admin.createRelayToken({ apps: [APP, PLAIN], fullScope: true });
  tokenId = id;
  const exchangeFor = async (form: Record<string, string>) => {
    const assertion = await assertionOf(site, agent.cookies.header(site.url));
    const subject = { subject_token: assertion, subject_token_type: 'urn:ietf:params:oauth:token-type:jwt' };
    const response = await exchange(site, token, { ...subject, ...form });
    return { status: response.status, json: JSON.parse(response.body) as Record<string, string> };
  };
  const readThread = () => getJson(agent, `${site.url}/threads/current?app=${app}`);
  return { exchangeFor, readThread, readGrant: () => storage.readGrant(userId, app) };
}

test('sends all resources with the authorization request, the code and each refresh', async () => {
  const { readThread } = await connectUser('all');
  expect(resourcesOf(provider.hitsOf('authorize')[0]?.url)).toEqual([FILES, REPORTS]);
  expect(resourcesOf(provider.hitsOf('token')[0]?.body)).toEqual([FILES, REPORTS]);
  advanceClock(3601);
  expect((await readThread()).status).toBe(200);
  expect(listRefreshes()).toEqual([[FILES, REPORTS, null]]);
});

test('sends no resources for an app that declares none, and accepts its API base URL as its name', async () => {
  const { exchangeFor, readGrant } = await connectUser('plain', PLAIN);
  expect(provider.hits.flatMap(({ url, body }) => resourcesOf(url).concat(resourcesOf(body)))).toEqual([]);
  const { json } = await exchangeFor({ resource: `${provider.issuer}/api/1/threads` });
  expect(json.access_token).toBe((await readGrant()).accessToken);
  expect(provider.hitsOf('refresh')).toEqual([]);
});

test('R32 R112 a token for one resource takes a refresh, of which the grant stores only the new refresh token', async () => {
  const { exchangeFor, readThread, readGrant } = await connectUser('one');
  const grantBefore = await readGrant();
  const { status: responseStatus, json } = await exchangeFor({ resource: FILES });
  expect([responseStatus, json.scope]).toEqual([200, 'openid profile offline_access']);
  expect(json.access_token).not.toBe(grantBefore.accessToken);
  expect(listRefreshes()).toEqual([[FILES, null]]);
  const grantAfter = await readGrant();
  expect([grantAfter.accessToken, grantAfter.refresh]).toEqual([grantBefore.accessToken, undefined]);
  expect(grantAfter.refreshToken).not.toBe(grantBefore.refreshToken);

  // Every granted scope, but for only one of the two resources.
  const scope = grantBefore.scopes.join(' ');
  const everyScope = await exchangeFor({ resource: REPORTS, scope });
  expect([everyScope.status, listRefreshes().at(-1)]).toEqual([200, [REPORTS, scope]]);
  expect(everyScope.json.access_token).not.toBe(grantBefore.accessToken);

  // This provider refuses a refresh token that it has replaced.
  advanceClock(3601);
  expect((await readThread()).status).toBe(200);
});

test('R112 audits the resource of each token', async () => {
  const { exchangeFor } = await connectUser('audited');
  advanceToNextMinute();
  // The second token for FILES within a minute has no entry of its own.
  for (const resource of [FILES, REPORTS, FILES]) expect((await exchangeFor({ resource })).status).toBe(200);
  expect((await exchangeFor({ audience: APP })).status).toBe(200);
  const auditedResources = async () => {
    const { json } = await admin.call('GET', `/audit?event=relay_token.exchanged&actor=${tokenId}`);
    return (json.items as { facts: { resource?: string } }[]).map(({ facts }) => facts.resource);
  };
  await until(async () => (await auditedResources()).length >= 3);
  expect((await auditedResources()).toReversed()).toEqual([FILES, REPORTS, undefined]);
});

test('R31 concurrent requests share one refresh per resource and scopes, and later ones need none', async () => {
  const { exchangeFor } = await connectUser('many');
  provider.setModes({ refreshResponse: (body) => ({ ...body, scope: 'profile' }) });

  const request = { resource: REPORTS, scope: 'profile' };
  const responses = await Promise.all(Array.from({ length: 8 }, () => exchangeFor(request)));
  expect(new Set(responses.map(({ json }) => json.access_token)).size).toBe(1);
  expect((await exchangeFor(request)).json.access_token).toBe(responses[0]?.json.access_token);
  expect(listRefreshes()).toEqual([[REPORTS, 'profile']]);

  const differentRequests = [{ ...request, resource: FILES }, { resource: REPORTS }, { resource: FILES }, request];
  const differentResponses = await Promise.all(differentRequests.map(exchangeFor));
  expect(differentResponses.map(({ status: responseStatus }) => responseStatus)).toEqual([200, 200, 200, 200]);
  expect(new Set(differentResponses.map(({ json }) => json.access_token)).size).toBe(4);
  expect(listRefreshes()).toEqual(
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
  const { exchangeFor } = await connectUser('undeclared');
  for (const audience of [{}, { audience: APP }]) {
    expect(await exchangeFor({ ...audience, resource })).toMatchObject({
      status: 400,
      json: { error: 'invalid_target' },
    });
  }
  expect(await exchangeFor({ audience: APP, resource: `${provider.issuer}/api` })).toMatchObject({
    json: { error: 'invalid_target' },
  });
  expect(provider.hitsOf('refresh')).toEqual([]);
});

test('requires an app or a resource if the relay token has two apps', async () => {
  const { exchangeFor } = await connectUser('either');
  const { status: responseStatus, json } = await exchangeFor({});
  expect([responseStatus, json.error, json.error_description]).toEqual([
    400,
    'invalid_target',
    expect.stringMatching(/^Name one connected app/),
  ]);
});

test('R112 responds with invalid_target, and never with the stored access token, if the provider refuses the resource', async () => {
  const { exchangeFor, readThread, readGrant } = await connectUser('refused');
  const grantBefore = await readGrant();
  provider.setModes({ responses: { refresh: status(400, { error: 'invalid_target' }) } });
  const { status: responseStatus, json } = await exchangeFor({ audience: APP, resource: FILES });
  expect([responseStatus, json.error]).toEqual([400, 'invalid_target']);
  expect(JSON.stringify(json)).not.toContain(grantBefore.accessToken);
  expect((await readGrant()).failure).toBeUndefined();
  expect((await readThread()).status).toBe(200);
});

test('R101 refuses a refresh whose ID token has another subject, and the grant keeps its tokens', async () => {
  const { exchangeFor, readGrant } = await connectUser('mine');
  const grantBefore = await readGrant();
  provider.setModes({ claims: (claims) => ({ ...claims, sub: 'mallory' }) });
  const { status: responseStatus, json } = await exchangeFor({ resource: FILES });
  expect([responseStatus, json.access_token]).toEqual([503, undefined]);
  const { accessToken, refreshToken, failure } = await readGrant();
  expect([accessToken, refreshToken]).toEqual([grantBefore.accessToken, grantBefore.refreshToken]);
  expect(failure?.cause).toBe('unusable_response');
});

test('names the URL to connect if the user has no connection', async () => {
  const { exchangeFor } = await connectUser('unconnected', PLAIN);
  expect(await exchangeFor({ resource: FILES })).toMatchObject({
    status: 400,
    json: { error: 'invalid_target', connectUrl: `${site.url}/connections/${APP}` },
  });
});
