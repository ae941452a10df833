/** API base URLs of connections: calls go to the instance of their user, and to no host that the app does not allow. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { UserAgent } from '../../support/browserless.ts';
import { getJson, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { until } from '../../support/until.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator, relayThread } from '../relay/service.ts';

const LOGINS = ['user@example.test', 'second@example.test'] as const;

/** The app allows this host, but INTERNAL_HOSTS does not name it. */
const NOT_INTERNAL = 'http://unnamed.localhost:3002';

/** An instance of the platform, with its own host name. */
interface Instance {
  url: string;
  hits: string[];
  server: Server;
}

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let instances: Instance[];
/** Returns the API base URL that a token response names for this account. */
let urlNamedFor: (subject: string) => unknown;

async function startInstance(): Promise<Instance> {
  const hits: string[] = [];
  const server = createServer((req, res) => {
    hits.push(String(req.url));
    const { authorization = '', accept = '' } = req.headers;
    fetch(site.sandbox.platformUrl + req.url, { headers: { authorization, accept } })
      .then(async (response) =>
        res.writeHead(response.status, { 'content-type': 'application/json' }).end(await response.text()),
      )
      .catch(() => res.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://localhost:${(server.address() as AddressInfo).port}`, hits, server };
}

beforeAll(async () => {
  instances = await Promise.all([startInstance(), startInstance()]);
  const hosts = instances.map(({ url }) => new URL(url).host);
  site = await startSite({
    env: { INTERNAL_HOSTS: '127.0.0.1,localhost' },
    sandbox: { accessTokenSeconds: 3_600 },
    apps: (urls) => [
      sandboxApp(urls, 'platform', {
        apiBaseUrlFrom: { member: 'instance_url', hosts: [...hosts, new URL(NOT_INTERNAL).host] },
      }),
      sandboxApp(urls, 'second', {}),
    ],
  });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  await useInstances();
});
afterAll(async () => {
  await storage.close();
  await site.close();
  for (const { server } of instances) server.close();
});
afterEach(useInstances);

function useInstances(): void {
  const [first, second] = instances;
  urlNamedFor = (subject) => (subject === 'sbx-00u1' ? first?.url : second?.url);
  for (const { hits } of instances) hits.length = 0;
  site.sandbox.faults.clear();
  site.sandbox.requests.reset();
  site.sandbox.faults.set({
    listener: 'identity-provider',
    path: '/token',
    kind: 'rewrite',
    change: ({ instance_url: _, ...body }) => ({ ...body, instance_url: urlNamedFor(subjectOf(body.id_token)) }),
  });
}

const subjectOf = (idToken: unknown) =>
  JSON.parse(Buffer.from(String(idToken).split('.')[1] ?? '', 'base64url').toString()).sub as string;
const signInAs = (login?: string, app = 'platform') => signIn(site, login, { path: `/sign-in?app=${app}` });
const threadOf = (agent: UserAgent, app = 'platform') => getJson(agent, `${site.url}/threads/current?app=${app}`);
const countHits = () => instances.map((instance) => instance.hits.length);
const userOf = async (agent: UserAgent) => (await sessionOf(site, agent)).userId;
const expireToken = (userId: string) => storage.changeGrant(userId, () => ({ expiresAt: Date.now() - 1 }));

test('R33 each user’s calls go to the user’s own instance, from the browser and through the relay, and the pages name it', async () => {
  const { token } = await admin.createRelayToken({ assertUser: true });
  for (const [index, login] of LOGINS.entries()) {
    const { agent } = await signInAs(login);
    const instance = instances[index];
    const otherInstance = instances[1 - index];
    for (const { hits } of instances) hits.length = 0;
    site.sandbox.requests.reset();

    expect((await threadOf(agent)).status).toBe(200);
    const relayed = await relayThread(site, token, { 'gatehouse-user': await userOf(agent) });
    expect(relayed.status).toBe(200);

    expect(instance?.hits).toHaveLength(2);
    expect(otherInstance?.hits).toHaveLength(0);
    expect(site.sandbox.requests.latest('platform')).toHaveLength(2);
    const { json } = await getJson(agent, `${site.url}/connections`);
    expect(json.items).toMatchObject([{ app: 'platform', apiBaseUrl: instance?.url }]);
    expect((await agent.get(`${site.url}/connections/platform`)).body).toContain(`<bdi>${instance?.url}</bdi>`);
  }
});

test('a response without the member keeps the URL, and a refresh with another URL replaces it', async () => {
  const { agent } = await signInAs();
  const userId = await userOf(agent);
  // The page after the sign-in has read the thread.
  for (const { hits } of instances) hits.length = 0;

  urlNamedFor = () => undefined;
  await expireToken(userId);
  expect((await threadOf(agent)).status).toBe(200);
  expect([(await storage.readGrant(userId)).apiBaseUrl, countHits()]).toEqual([instances[0]?.url, [1, 0]]);

  urlNamedFor = () => `${instances[1]?.url}/`;
  await expireToken(userId);
  expect((await threadOf(agent)).status).toBe(200);
  expect([(await storage.readGrant(userId)).apiBaseUrl, countHits()]).toEqual([instances[1]?.url, [1, 1]]);
});

test('R44 the URL is sealed with the grant', async () => {
  const { agent } = await signInAs();
  const { value } = (await storage.store.get(`grant:{${await userOf(agent)}}:platform`)) ?? {};
  expect(value).toMatch(/^[\w-]+\.[\w-]*\.[\w-]+\.[\w-]+\.[\w-]+$/);
});

test('R79 a host that the app does not allow refuses the sign-in; the cause names only member and host', async () => {
  urlNamedFor = () => 'https://acme.evil.example/secret-path';
  const { page } = await signInAs();
  expect([page.status, page.body]).toEqual([502, expect.stringContaining('could not be verified')]);
  const { json } = await admin.call('GET', '/sign-ins');
  const [latest] = json.items as { cause: { code: string; text: string; field: string } }[];
  expect(latest?.cause).toMatchObject({ code: 'api_host_refused', field: 'apiBaseUrlFrom' });
  expect(latest?.cause.text).toContain('acme.evil.example for the API in “instance_url”');
  const lines = site.logs().filter((line) => line.includes('acme.evil.example'));
  expect(lines.length).toBeGreaterThan(0);
  expect(JSON.stringify([json, lines])).not.toContain('secret-path');
});

test('R32 a refresh that names a host that is not allowed is refused, and the new refresh token is stored', async () => {
  const { agent } = await signInAs();
  const userId = await userOf(agent);
  const grantBefore = await storage.readGrant(userId);
  urlNamedFor = () => 'https://evil.example';
  await expireToken(userId);
  expect((await threadOf(agent)).status).toBe(503);
  const { apiBaseUrl, refreshToken, accessToken, failure } = await storage.readGrant(userId);
  expect([apiBaseUrl, accessToken, failure?.cause]).toEqual([
    grantBefore.apiBaseUrl,
    grantBefore.accessToken,
    'unusable_response',
  ]);
  expect(refreshToken).not.toBe(grantBefore.refreshToken);
  const readEntries = async () => JSON.stringify((await admin.call('GET', '/audit?event=refresh.failed')).json);
  await until(async () => (await readEntries()).includes('instance_url evil.example'));
});

test('R79 the address policy checks the URL on each call, and a refused call names the host', async () => {
  urlNamedFor = () => NOT_INTERNAL;
  const { agent } = await signInAs();
  expect((await threadOf(agent)).json.code).toBe('platform_error');
  expect(site.logs().some((line) => line.includes('refuses unnamed.localhost:3002 (not_https)'))).toBe(true);
  expect([site.sandbox.requests.latest('platform'), countHits()]).toEqual([[], [0, 0]]);
});

test('an app without the setting is called at its own URL, whatever token responses name', async () => {
  urlNamedFor = () => 'https://evil.example';
  const { agent } = await signInAs(LOGINS[0], 'second');
  expect((await threadOf(agent, 'second')).status).toBe(200);
  expect(countHits()).toEqual([0, 0]);
});
