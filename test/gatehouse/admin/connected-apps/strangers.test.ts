/**
 * R19, R46 and R88: a user who may change connected apps cannot impersonate users, or get secrets entered for another
 * host.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CLIENT_SECRET, sandboxApp, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { disconnect, openStorageOf, type StorageAccess, sessionOf } from '../../grants/storage-access.ts';
import { type ScriptedPlatform, startScriptedPlatform } from '../../platform/scripted-platform.ts';
import { type Administrator, createAdministrator, relayThread } from '../../relay/service.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let foreignHost: ScriptedPlatform;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  foreignHost = await startScriptedPlatform();
});
afterAll(async () => {
  await storage.close();
  await foreignHost.close();
  await site.close();
});

const secondApp = (changes: Record<string, unknown> = {}) =>
  sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET, ...changes });
const faultsOf = ({ json }: { json: Record<string, unknown> }) =>
  (json.errors as { pointer: string; rule: string }[] | undefined)?.map(({ pointer, rule }) => [pointer, rule]);
const foreignEndpoints = () => ({
  authorization: `${foreignHost.url}/auth`,
  token: `${foreignHost.url}/token`,
  jwks: `${foreignHost.url}/jwks`,
});
const versionOf = async (id: string) => (await admin.call('GET', `/connected-apps/${id}`)).json.version;

test('R19 refuses other keys for an issuer that users already sign in with', async () => {
  for (const changes of [
    { endpoints: foreignEndpoints() },
    { discoveryUrl: `${foreignHost.url}/.well-known/openid-configuration` },
    { endpoints: { jwks: `${foreignHost.url}/jwks` } },
  ]) {
    const refused = await admin.call('POST', '/connected-apps', secondApp(changes));
    expect([refused.status, faultsOf(refused)]).toEqual([400, [['#/issuer', 'issuer_taken']]]);
  }
  const connectOnly = secondApp({ endpoints: foreignEndpoints(), signIn: undefined });
  expect((await admin.call('POST', '/connected-apps', connectOnly)).status).toBe(201);
  const withSignIn = { ...connectOnly, signIn: { allow: 'everyone' }, version: await versionOf('second') };
  expect(faultsOf(await admin.call('PUT', '/connected-apps/second', withSignIn))).toEqual([
    ['#/issuer', 'issuer_taken'],
  ]);
  expect((await admin.call('DELETE', '/connected-apps/second')).status).toBe(204);
});

test('R19 refuses other keys for a tenant of an issuer template that users already sign in with', async () => {
  const [, host = '', tenant = ''] = /^(.*)\/([^/]+)$/.exec(`${site.sandbox.issuer}/ink`) ?? [];
  const template = {
    ...{ issuer: `${host}/{tenantid}`, discoveryUrl: `${host}/.well-known/openid-configuration` },
    signIn: { allow: { claim: 'tid', values: ['book', tenant] } },
  };
  expect((await admin.call('POST', '/connected-apps', secondApp(template))).status).toBe(201);
  const registerThird = (values: Record<string, unknown>) =>
    admin.call('POST', '/connected-apps', {
      ...secondApp(values),
      id: 'third',
      callbackUrls: [`${site.url}/oauth/callback/third`],
    });
  const plain = { issuer: `${host}/${tenant}`, endpoints: foreignEndpoints() };
  expect(faultsOf(await registerThird(plain))).toEqual([['#/issuer', 'issuer_taken']]);
  expect(faultsOf(await registerThird({ ...template, endpoints: foreignEndpoints() }))).toEqual([
    ['#/issuer', 'issuer_taken'],
  ]);
  expect((await registerThird({ ...plain, issuer: `${host}/unnamed` })).status).toBe(201);
  for (const id of ['second', 'third']) expect((await admin.call('DELETE', `/connected-apps/${id}`)).status).toBe(204);
});

test('R46 refresh tokens are not sent to hosts that were added later', async () => {
  expect((await admin.call('POST', '/connected-apps', secondApp())).status).toBe(201);
  await signIn(site, 'user@example.test', { path: '/sign-in?app=second' });
  for (const [changes, pointer] of [
    [{ endpoints: { revocation: `${foreignHost.url}/revoke` } }, '#/endpoints/revocation'],
    [{ discoveryUrl: `${foreignHost.url}/metadata`, signIn: undefined }, '#/discoveryUrl'],
  ] as const) {
    const moved = await admin.call('PUT', '/connected-apps/second', {
      ...secondApp(changes),
      version: await versionOf('second'),
    });
    expect(faultsOf(moved)).toEqual([[pointer, 'has_connections']]);
  }
  const onSameHost = { endpoints: { revocation: `${site.sandbox.issuer}/revoke` }, version: await versionOf('second') };
  expect((await admin.call('PUT', '/connected-apps/second', secondApp(onSameHost))).status).toBe(200);
});

test('R88 the API token of a service account is sent only to the host that it was entered for', async () => {
  const { agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform' });
  const { accessToken: apiToken } = await storage.readGrant((await sessionOf(site, agent)).userId);
  const created = await admin.call('POST', '/service-accounts', { name: 'Nightly', app: 'second', apiToken });
  const id = String(created.json.id);
  const { token } = await admin.createRelayToken({ users: 'none', apps: ['second'] });
  const call = () => relayThread(site, token, { 'gatehouse-service-account': id });
  expect([created.status, (await call()).status]).toEqual([201, 200]);

  const { agent: user } = await signIn(site, 'user@example.test', { path: '/sign-in?app=platform' });
  await disconnect(site, user, 'second');
  const movedApp = { ...secondApp({ apiBaseUrl: foreignHost.url }), version: await versionOf('second') };
  expect((await admin.call('PUT', '/connected-apps/second', movedApp)).status).toBe(200);
  const refused = await call();
  expect([refused.status, JSON.parse(refused.body)]).toMatchObject([
    403,
    { code: 'not_allowed', detail: expect.stringContaining('must enter its API token again') },
  ]);
  expect(foreignHost.requests.join('')).not.toContain(apiToken);

  const { version } = (await admin.call('GET', `/service-accounts/${id}`)).json;
  const entered = await admin.call('PUT', `/service-accounts/${id}`, { name: 'Nightly', apiToken, version });
  expect([entered.status, (await call()).status]).toEqual([200, 200]);
  expect(foreignHost.requests.join('')).toContain(apiToken);
});

test('R88 the audit trail has the origin of a webhook, and no secret part of its URL', async () => {
  const webhook = { url: `${foreignHost.url}/hook/canary-path?key=canary-key`, events: ['connection.created'] };
  const { json } = await admin.call('POST', '/webhooks', webhook);
  await admin.call('PUT', `/webhooks/${json.id}`, { ...webhook, disabled: false, version: json.version });
  const trail = JSON.stringify((await admin.call('GET', '/audit?limit=200')).json);
  expect(trail).toContain('webhook.changed');
  expect(trail).toContain(foreignHost.url);
  expect(trail).not.toContain('canary');
});

test('R86 refuses a card number in the name of an app, which would be sent to the provider', async () => {
  for (const name of ['Card 4111 1111 1111 1111', 'x4111111111111111']) {
    const refused = await admin.call('POST', '/connected-apps', { ...secondApp({ name }), id: 'third' });
    expect([refused.status, refused.json.errors]).toMatchObject([400, [{ pointer: '#/name', rule: 'card_number' }]]);
    expect(JSON.stringify(refused.json)).not.toContain(name);
    const changed = { ...secondApp({ name }), version: await versionOf('second') };
    expect(faultsOf(await admin.call('PUT', '/connected-apps/second', changed))).toEqual([['#/name', 'card_number']]);
  }
});
