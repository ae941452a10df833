/**
 * API base URLs of connections: calls of two users go to their own instances, and to no host that the app does not
 * allow.
 */
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

/** Allowed by the app, and not in INTERNAL_HOSTS. */
const UNNAMED = 'http://unnamed.localhost:3002';

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
/** The API base URL that token responses name, by the id of the account. */
let named: (subject: string) => unknown;

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
        apiBaseUrlFrom: { member: 'instance_url', hosts: [...hosts, new URL(UNNAMED).host] },
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
  named = (subject) => (subject === 'sbx-00u1' ? first?.url : second?.url);
  for (const { hits } of instances) hits.length = 0;
  site.sandbox.faults.clear();
  site.sandbox.requests.reset();
  site.sandbox.faults.set({
    ...{ listener: 'identity-provider', path: '/token', kind: 'rewrite' },
    change: ({ instance_url: _, ...body }) => ({ ...body, instance_url: named(subjectOf(body.id_token)) }),
  });
}

const subjectOf = (idToken: unknown) =>
  JSON.parse(Buffer.from(String(idToken).split('.')[1] ?? '', 'base64url').toString()).sub as string;
const signInAs = (login?: string, app = 'platform') => signIn(site, login, { path: `/sign-in?app=${app}` });
const threadOf = (agent: UserAgent, app = 'platform') => getJson(agent, `${site.url}/threads/current?app=${app}`);
const hits = () => instances.map((instance) => instance.hits.length);
const userOf = async (agent: UserAgent) => (await sessionOf(site, agent)).userId;
const expire = (userId: string) => storage.changeGrant(userId, () => ({ expiresAt: Date.now() - 1 }));

test('R33 each user’s calls go to the user’s own instance, from the browser and through the relay, and the pages name it', async () => {
  const agents = await Promise.all(LOGINS.map(async (login) => (await signInAs(login)).agent));
  const { token } = await admin.createRelayToken({ assertUser: true });
  for (const [at, agent] of agents.entries()) {
    const before = hits();
    expect((await threadOf(agent)).status).toBe(200);
    const relayed = await relayThread(site, token, { 'gatehouse-user': await userOf(agent) });
    expect(relayed.status).toBe(200);
    expect(hits().map((count, index) => count - (before[index] ?? 0))).toEqual(at === 0 ? [2, 0] : [0, 2]);
    const { json } = await getJson(agent, `${site.url}/connections`);
    expect(json.connections).toMatchObject([{ app: 'platform', apiBaseUrl: instances[at]?.url }]);
    expect((await agent.get(`${site.url}/connections/platform`)).body).toContain(`<bdi>${instances[at]?.url}</bdi>`);
  }
  const [first = 0, second = 0] = hits();
  expect(site.sandbox.requests.latest('platform')).toHaveLength(first + second);
});

test('a response without the member keeps the URL, and a refresh with another URL replaces it', async () => {
  const { agent } = await signInAs();
  const userId = await userOf(agent);
  // The page after the sign-in shows the thread.
  for (const instance of instances) instance.hits.length = 0;
  named = () => undefined;
  await expire(userId);
  expect((await threadOf(agent)).status).toBe(200);
  expect([(await storage.readGrant(userId)).apiBaseUrl, hits()]).toEqual([instances[0]?.url, [1, 0]]);
  named = () => `${instances[1]?.url}/`;
  await expire(userId);
  expect((await threadOf(agent)).status).toBe(200);
  expect([(await storage.readGrant(userId)).apiBaseUrl, hits()]).toEqual([instances[1]?.url, [1, 1]]);
});

test('R44 the URL is sealed with the grant', async () => {
  const { agent } = await signInAs();
  const { value } = (await storage.store.get(`grant:{${await userOf(agent)}}:platform`)) ?? {};
  expect(value).toMatch(/^[\w-]+\.[\w-]*\.[\w-]+\.[\w-]+\.[\w-]+$/);
});

test('R79 a host that the app does not allow refuses the sign-in; the cause names only member and host', async () => {
  named = () => 'https://acme.evil.example/secret-path';
  const { page } = await signInAs();
  expect([page.status, page.body]).toEqual([502, expect.stringContaining('could not be verified')]);
  const { json } = await admin.call('GET', '/sign-ins');
  const [latest] = json.items as { cause: { name: string; words: string; field: string } }[];
  expect(latest?.cause).toMatchObject({ name: 'api_host_refused', field: 'apiBaseUrlFrom' });
  expect(latest?.cause.words).toContain('acme.evil.example for the API in “instance_url”');
  const lines = site.logs().filter((line) => line.includes('acme.evil.example'));
  expect(lines.length).toBeGreaterThan(0);
  expect(JSON.stringify([json, lines])).not.toContain('secret-path');
});

test('R32 a refresh with such a host is refused too, and the new refresh token is stored', async () => {
  const { agent } = await signInAs();
  const userId = await userOf(agent);
  const before = await storage.readGrant(userId);
  named = () => 'https://evil.example';
  await expire(userId);
  expect((await threadOf(agent)).status).toBe(503);
  const { apiBaseUrl, refreshToken, accessToken, failure } = await storage.readGrant(userId);
  expect([apiBaseUrl, accessToken, failure?.cause]).toEqual([
    before.apiBaseUrl,
    before.accessToken,
    'unusable_response',
  ]);
  expect(refreshToken).not.toBe(before.refreshToken);
  const audited = async () => JSON.stringify((await admin.call('GET', '/audit?event=refresh.failed')).json);
  await until(async () => (await audited()).includes('instance_url evil.example'));
});

test('R79 the address policy checks the URL on each call, and a refused call names the host', async () => {
  named = () => UNNAMED;
  const { agent } = await signInAs();
  expect((await threadOf(agent)).json.code).toBe('upstream_error');
  expect(site.logs().some((line) => line.includes('refuses unnamed.localhost:3002 (not_https)'))).toBe(true);
  expect([site.sandbox.requests.latest('platform'), hits()]).toEqual([[], [0, 0]]);
});

test('an app without the setting is called at its own URL, whatever token responses name', async () => {
  named = () => 'https://evil.example';
  const { agent } = await signInAs(LOGINS[0], 'second');
  expect((await threadOf(agent, 'second')).status).toBe(200);
  expect(hits()).toEqual([0, 0]);
});
