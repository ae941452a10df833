/** The page of one connection in the administration. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RefreshFailure } from '../../../../src/gatehouse/grants/refresh-failure.ts';
import type { UserAgent } from '../../../support/browserless.ts';
import { CLIENT_SECRET, sandboxApp, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { until } from '../../../support/until.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../../grants/storage-access.ts';
import { type Administrator, createAdministrator, relayThread } from '../../relay/service.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
let uma: string;

beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  await admin.call('POST', '/connected-apps', sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET }));
  ({ userId: uma } = await sessionOf(
    site,
    (await signIn(site, 'user@example.test', { path: '/sign-in?app=platform' })).agent,
  ));
  await signIn(site, 'user@example.test', { path: '/sign-in?app=second' });
  ({ agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform&return_to=/admin' }));
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

const open = (path: string) => agent.get(`${site.url}${path}`);
const pathOf = async (app: string) => {
  const { body } = await open(`/admin/connections?app=${app}&q=uma`);
  return /<th scope="row"><a href="([^"]+)"/.exec(body)?.[1] ?? 'none';
};

test('a row of the list leads to it, by an id that stays', async () => {
  const path = await pathOf('platform');
  const { id } = await storage.readGrant(uma, 'platform');
  expect(path).toBe(`/admin/connections/${id}`);
  expect((await open(path)).status).toBe(200);
  expect((await open(`/admin/connections/${uma}.platform`)).body).toContain(`>${id}</code>`);
});

test('it has the user, the app, the scopes, and only what happened to it', async () => {
  const path = await pathOf('platform');
  const { body } = await open(path);
  expect(body).toContain('<h1><bdi>Uma Okafor</bdi>, <bdi>Collaboration platform</bdi></h1>');
  for (const part of [`/admin/users/${uma}"`, '/admin/connected-apps/platform"', 'platform_read_only'])
    expect(body).toContain(part);
  expect(body).toContain('Consented to Collaboration platform');
  expect(body).not.toContain('Collaboration second');
  expect(body).not.toContain('Copy reconnect link');
});

test('it has the services that used it, and the page of another connection has not', async () => {
  const { id, token } = await admin.createRelayToken({ assertUser: true });
  expect((await relayThread(site, token, { 'gatehouse-user': uma })).status).toBe(200);
  const path = await pathOf('platform');
  // Uses are written every two seconds.
  await until(async () => (await open(path)).body.includes('Services that used it'));
  expect((await open(path)).body).toMatch(
    new RegExp(`/admin/relay-tokens/${id}"><bdi>reports</bdi></a></dt><dd>Once,`),
  );
  expect((await open(await pathOf('second'))).body).not.toContain('Services that used it');
});

test('a connection that needs reconnecting has its cause, and the link for the user', async () => {
  const failure: RefreshFailure = {
    kind: 'reconnect_needed',
    cause: 'grant_refused',
    since: Date.now(),
    reason: 'invalid_grant',
    failures: 1,
    retryAt: 0,
  };
  await storage.changeGrant(uma, () => ({ failure }), 'second');
  const { body } = await open(await pathOf('second'));
  expect(body).toContain('The provider has ended this connection. (invalid_grant)');
  expect(body).toContain(`${site.url}/connections/second`);
  const { body: list } = await open('/admin/connections?app=second&q=uma');
  expect(list).toMatch(/href="[^"]+#reconnect">Copy reconnect link/);
});

test('it ends the connection, which then has no page', async () => {
  const path = await pathOf('second');
  const page = await open(path);
  const question = await agent.get(new URL(/href="([^"]+\/end)"/.exec(page.body)?.[1] ?? '', site.url).href);
  await agent.submit(question, {}, { button: 'Disconnect' });
  expect((await open(path)).status).toBe(404);
  expect((await open('/admin/connections/nobody.platform')).status).toBe(404);
});
