/** Buttons of the administration: each has its effect, and the next page shows one notice. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Page, UserAgent } from '../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';

const HOOK = 'http://127.0.0.1:1/hook';
const TOMORROW = new Date(Date.now() + 86_400_000).toISOString();
let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
let apiToken: string;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent } = await signIn(site, 'admin@example.test'));
  // The sandbox's platform takes any access token as an API token.
  apiToken = (await storage.readGrant((await sessionOf(site, agent)).userId)).accessToken;
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

const open = (path: string) => agent.get(`${site.url}/admin/${path}`);
const noticeOn = ({ body }: Page) =>
  /<div class="notice notice-(\w+)" role="status">.*?<p>([^<]*)<\/p>/s.exec(body)?.slice(1);

/** @param asked the link that leads from the page to a question, whose button is then pressed */
async function press(
  path: string,
  button: string,
  {
    fields = {},
    leadsTo = path,
    says,
    tone = 'success',
    asked,
  }: Record<'says', string> & {
    asked?: string;
    fields?: Record<string, string>;
    leadsTo?: string;
    tone?: string;
  },
): Promise<Page> {
  const from = asked === undefined ? await open(path) : await agent.follow(await open(path), asked);
  const page = await agent.submit(from, fields, { button });
  expect([page.status, new URL(page.url).pathname]).toEqual([200, `/admin/${leadsTo}`]);
  expect(noticeOn(page)).toEqual([tone, says]);
  expect(noticeOn(await agent.get(page.url))).toBeUndefined();
  return page;
}

/** Signs in a user, who is then first in each list. */
async function newest(login = 'user@example.test') {
  const { agent: other } = await signIn(site, login);
  const { userId } = await sessionOf(site, other);
  return { id: userId, isIn: async () => (await getJson(other, `${site.url}/session`)).json.signedIn === true };
}

test.each([
  [
    'relay-tokens',
    {},
    'revoke',
    'Revoke relay token',
    'Relay token revoked. Every further call with it is refused.',
    'relay token',
  ],
  [
    'admin-tokens',
    { name: 'Gone', scope: 'read', expiresAt: TOMORROW },
    ...['revoke', 'Revoke admin token', 'Admin token revoked. Every further call with it is refused.', 'admin token'],
  ],
  [
    'service-accounts',
    { name: 'Gone', app: 'platform' },
    ...['remove', 'Delete service account', 'Service account deleted, with the API token.', 'service account'],
  ],
  [
    'webhooks',
    { url: HOOK, events: ['connection.created'] },
    ...['remove', 'Delete webhook', 'Webhook deleted. Pending messages are not sent.', 'webhook'],
  ],
] as const)('%s: the one that is removed is gone', async (path, body, action, button, says, name) => {
  const secret = path === 'service-accounts' ? { apiToken } : {};
  const { id } =
    path === 'relay-tokens'
      ? await admin.createRelayToken()
      : (await admin.call('POST', `/${path}`, { ...body, ...secret })).json;
  expect((await open(`${path}/${id}/${action}`)).body).toContain('This cannot be undone.');
  expect((await admin.call('GET', `/${path}/${id}`)).status).toBe(200);
  await press(`${path}/${id}/${action}`, button, { leadsTo: path, says });
  const { status, json } = await admin.call('GET', `/${path}/${id}`);
  expect([status, json.detail]).toEqual([404, `There is no ${name} with this id.`]);
  const again = await admin.call('DELETE', `/${path}/${id}`);
  expect([again.status, again.json.detail]).toEqual([404, `There is no ${name} with this id.`]);
  expect((await open(`${path}/${id}/${action}`)).status).toBe(404);
});

test('an API token is entered, and replaced', async () => {
  const account = { name: 'Nightly', app: 'platform', apiToken };
  await press('service-accounts/new', 'Create service account', {
    fields: account,
    leadsTo: 'service-accounts',
    says: 'The platform accepted the API token. It is saved and never shown again.',
  });
  const says = 'The new API token is saved and used from now on.';
  await press('service-accounts', 'Replace API token', { asked: 'Replace API token', fields: { apiToken }, says });
  const nowhere = await admin.call('POST', '/service-accounts', { ...account, app: 'nowhere' });
  expect([nowhere.status, nowhere.json.errors]).toMatchObject([400, [{ pointer: '#/app', rule: 'unknown_app' }]]);
});

test('R56 a user is signed out, disabled, enabled and deleted', async () => {
  const { id, isIn } = await newest();
  const path = `users/${id}`;
  await press(`${path}/sign-out`, 'Sign out everywhere', {
    leadsTo: path,
    says: 'Signed out everywhere. Pages that are open in those browsers stop working at once.',
  });
  expect(await isIn()).toBe(false);
  const disabled = 'Disabled. All sessions have ended, and the user cannot sign in.';
  await press(`${path}/disable`, 'Disable user', { leadsTo: path, says: disabled });
  await press(path, 'Enable user', { says: 'Enabled. The user can sign in again.' });
  const asked = await open(`${path}/delete`);
  expect(asked.body).toContain('This revokes and deletes 1 connection,');
  for (const typed of ['', 'user@example.tes']) {
    const refused = await agent.submit(asked, { typed }, { button: 'Delete user' });
    expect([refused.status, refused.body]).toEqual([
      400,
      expect.stringContaining('Type “user@example.test” to confirm.'),
    ]);
  }
  expect((await open(path)).status).toBe(200);
  await press(`${path}/delete`, 'Delete user', {
    fields: { typed: 'user@example.test' },
    leadsTo: 'users',
    says: 'All data about this user is deleted. Entries in the audit trail stay until they expire.',
  });
  expect((await open(path)).status).toBe(404);
});

test.each(['sessions', 'users'])('R56 a session is ended from the page of %s, and the page stays', async (from) => {
  const { id, isIn } = await newest();
  const path = from === 'users' ? `users/${id}` : from;
  await press(path, 'End session', {
    asked: 'End session…',
    says: 'The session has ended. Pages that are open in that browser stop working at once.',
  });
  expect(await isIn()).toBe(false);
});

test.each(['connections', 'users'])(
  'R52 a user is disconnected from the page of %s, and the page stays',
  async (from) => {
    const { id } = await newest();
    const path = from === 'users' ? `users/${id}` : from;
    const asked = 'Disconnect…';
    await press(path, 'Disconnect', {
      asked,
      says: 'Disconnected. The provider has confirmed the revocation (status 200).',
    });
    await newest();
    const heal = site.sandbox.faults.set({ listener: 'identity-provider', path: '/revoke', kind: 'unavailable' });
    await press(path, 'Disconnect', {
      asked,
      tone: 'info',
      says: 'Disconnected here. The revocation at the provider is pending and will be repeated until it is confirmed (status 503).',
    });
    heal();
  },
);

test('the next signing key is published', async () => {
  await press('keys', 'Publish the next key now', {
    says: 'The next signing key is published. It is used for signing from tomorrow on, so that every service has time to read it.',
  });
  // The button appears again once that key signs.
  const { body } = await open('keys');
  expect(body).toContain('Published');
  expect(body).not.toContain('Publish the next key now');
});

test('R52 everyone is disconnected from an app after a confirmation, and the page shows the progress', async () => {
  await newest();
  await newest('second@example.test');
  const asked = await open('connections?app=platform');
  expect(asked.body).toContain('This app has 3 connections.');
  const question = await agent.follow(asked, 'Disconnect everyone…');
  const refused = await agent.submit(question, { typed: 'platform' }, { button: 'Disconnect all 3' });
  expect([refused.status, refused.body]).toEqual([400, expect.stringContaining('Type “Collaboration platform”')]);
  const page = await agent.submit(refused, { typed: 'Collaboration platform' }, { button: 'Disconnect all 3' });
  expect([page.status, page.url.split('&')[0]]).toEqual([200, `${site.url}/admin/connections?app=platform`]);
  const shown = async () => (await open('connections?app=platform')).body;
  await expect.poll(shown).toContain('Done: 3 of 3');
  expect(await shown()).toMatch(/Confirmed by the provider: 3\. Pending: 0\. Not confirmed: 0\./);
  const { json } = await admin.call('GET', '/audit?event=connection.all_removed');
  expect(json.items).toMatchObject([{ target: { id: 'platform' }, facts: { connections: 3 } }]);
});
