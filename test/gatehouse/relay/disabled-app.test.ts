/** While an app is disabled, no route returns its tokens or calls its provider or platform. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CLIENT_SECRET, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_JSON, type ReceivedResponse, sendRequest } from '../../support/send-request.ts';
import { until } from '../../support/until.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, assertionOf, createAdministrator, exchange, relayThread } from './service.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let cookie: string;
let token: string;
let subject: Record<string, string>;
let accountId: string;
let userId: string;
let accessToken: string;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  const registered = await admin.call('POST', '/connected-apps', secondApp());
  expect(registered.status).toBe(201);
  const { agent } = await signIn(site, 'user@example.test', { path: '/sign-in?app=second' });
  cookie = agent.cookies.header(site.url);
  ({ userId } = await sessionOf(site, agent));
  ({ accessToken } = await storage.readGrant(userId, 'second'));
  ({ token } = await admin.createRelayToken({ apps: ['second'], assertUser: true }));
  const assertion = await assertionOf(site, cookie);
  subject = { subject_token: assertion, subject_token_type: 'urn:ietf:params:oauth:token-type:jwt' };
  const created = await admin.call('POST', '/service-accounts', {
    name: 'Nightly',
    app: 'second',
    apiToken: accessToken,
  });
  accountId = String(created.json.id);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

const secondApp = (changes: Record<string, unknown> = {}) =>
  sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET, ...changes });

let wasEnabled = false;
async function setDisabled(disabled: boolean): Promise<void> {
  const readApp = async () => (await admin.call('GET', '/connected-apps/second')).json;
  // An app that was enabled is checked, which calls the provider, too.
  if (wasEnabled)
    await until(async () => ((await readApp()).lastCheck as { outdated: boolean } | null)?.outdated === false);
  wasEnabled = !disabled;
  const { version } = await readApp();
  const { clientSecret: _secret, ...app } = secondApp({ version, ...(disabled && { disabled }) });
  expect((await admin.call('PUT', '/connected-apps/second', app)).status).toBe(200);
}

/** Reads a thread through the relay. */
const callAsService = (headers: Record<string, string>, query = '') => relayThread(site, token, headers, query);
const ROUTES: [string, () => Promise<ReceivedResponse>][] = Object.entries({
  'the thread of a signed-in user': () =>
    sendRequest(`${site.url}/threads/current?app=second`, { headers: { ...ACCEPT_JSON, cookie } }),
  'the relay, for a proven user': () => callAsService({ 'gatehouse-user-assertion': subject.subject_token ?? '' }),
  'the relay, for a named user and app': () => callAsService({ 'gatehouse-user': userId }, '?app=second'),
  'the relay, for a service account': () => callAsService({ 'gatehouse-service-account': accountId }),
  'token exchange for an audience': () => exchange(site, token, { ...subject, audience: 'second' }),
  'token exchange for a resource': () => exchange(site, token, { ...subject, resource: site.sandbox.platformUrl }),
  'token exchange for fewer scopes': () => exchange(site, token, { ...subject, audience: 'second', scope: 'openid' }),
});

test.each(ROUTES)('refuses %s while the app is disabled', async (_name, call) => {
  expect((await call()).status).toBe(200);
  await setDisabled(true);
  site.sandbox.requests.reset();
  const { status, body } = await call();
  const received = (['identity-provider', 'platform'] as const).flatMap((listener) =>
    site.sandbox.requests.latest(listener),
  );
  await setDisabled(false);
  expect([400, 403, 404]).toContain(status);
  expect(body).not.toContain(accessToken);
  expect(body).not.toContain('access_token');
  expect(received).toEqual([]);
});

test('does not refresh an expired token while the app is disabled', async () => {
  await storage.changeGrant(userId, () => ({ expiresAt: Date.now() - 1_000 }), 'second');
  await setDisabled(true);
  site.sandbox.requests.reset();
  for (const [, call] of ROUTES) expect([400, 403, 404]).toContain((await call()).status);
  expect(site.sandbox.requests.count('POST /token')).toBe(0);
  await setDisabled(false);
});
