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

interface Press {
  /** The text of the notice that the next page shows. */
  notice: string;
  /** Default `success`. */
  tone?: string;
  fields?: Record<string, string>;
  /** The link that leads from the page to a question, whose button is then pressed. */
  questionLink?: string;
  /** Default: the same page. */
  nextPath?: string;
}

/** Presses a button, and expects the notice on the next page, but only once. */
async function press(path: string, button: string, options: Press): Promise<Page> {
  const { notice, tone = 'success', fields = {}, questionLink, nextPath = path } = options;
  let page = await open(path);
  if (questionLink !== undefined) page = await agent.follow(page, questionLink);

  const nextPage = await agent.submit(page, fields, { button });

  expect([nextPage.status, new URL(nextPage.url).pathname]).toEqual([200, `/admin/${nextPath}`]);
  expect(noticeOn(nextPage)).toEqual([tone, notice]);
  expect(noticeOn(await agent.get(nextPage.url))).toBeUndefined();
  return nextPage;
}

/** Signs in a user, who is then first in each list. */
async function signInNewest(login = 'user@example.test') {
  const { agent: userAgent } = await signIn(site, login);
  const { userId } = await sessionOf(site, userAgent);
  const isSignedIn = async () => (await getJson(userAgent, `${site.url}/session`)).json.signedIn === true;
  return { id: userId, isSignedIn };
}

test.each([
  {
    path: 'relay-tokens',
    item: 'relay token',
    create: async () => (await admin.createRelayToken()).id,
    action: 'revoke',
    button: 'Revoke relay token',
    notice: 'Relay token revoked. Every further call with it is refused.',
  },
  {
    path: 'admin-tokens',
    item: 'admin token',
    create: () => createItem('admin-tokens', { name: 'Gone', scope: 'read', expiresAt: TOMORROW }),
    action: 'revoke',
    button: 'Revoke admin token',
    notice: 'Admin token revoked. Every further call with it is refused.',
  },
  {
    path: 'service-accounts',
    item: 'service account',
    create: () => createItem('service-accounts', { name: 'Gone', app: 'platform', apiToken }),
    action: 'remove',
    button: 'Delete service account',
    notice: 'Service account deleted, with the API token.',
  },
  {
    path: 'webhooks',
    item: 'webhook',
    create: () => createItem('webhooks', { url: HOOK, events: ['connection.created'] }),
    action: 'remove',
    button: 'Delete webhook',
    notice: 'Webhook deleted. Pending messages are not sent.',
  },
])('$path: a $item is gone after it is removed', async ({ path, item, create, action, button, notice }) => {
  const id = await create();
  const question = `${path}/${id}/${action}`;
  expect((await open(question)).body).toContain('This cannot be undone.');
  expect((await admin.call('GET', `/${path}/${id}`)).status).toBe(200);

  await press(question, button, { nextPath: path, notice });

  const notFound = `There is no ${item} with this id.`;
  const { status, json } = await admin.call('GET', `/${path}/${id}`);
  expect([status, json.detail]).toEqual([404, notFound]);
  const secondDeletion = await admin.call('DELETE', `/${path}/${id}`);
  expect([secondDeletion.status, secondDeletion.json.detail]).toEqual([404, notFound]);
  expect((await open(question)).status).toBe(404);
});

async function createItem(path: string, body: object): Promise<unknown> {
  return (await admin.call('POST', `/${path}`, body)).json.id;
}

test('a service account is created with an API token, which can be replaced', async () => {
  const account = { name: 'Nightly', app: 'platform', apiToken };
  await press('service-accounts/new', 'Create service account', {
    fields: account,
    nextPath: 'service-accounts',
    notice: 'The platform accepted the API token. It is saved and never shown again.',
  });
  await press('service-accounts', 'Replace API token', {
    questionLink: 'Replace API token',
    fields: { apiToken },
    notice: 'The new API token is saved and used from now on.',
  });
  const withUnknownApp = await admin.call('POST', '/service-accounts', { ...account, app: 'nowhere' });
  expect([withUnknownApp.status, withUnknownApp.json.errors]).toMatchObject([
    400,
    [{ pointer: '#/app', rule: 'unknown_app' }],
  ]);
});

test('R56 a user is signed out, disabled, enabled and deleted', async () => {
  const { id, isSignedIn } = await signInNewest();
  const path = `users/${id}`;
  await press(`${path}/sign-out`, 'Sign out everywhere', {
    nextPath: path,
    notice: 'Signed out everywhere. Pages that are open in those browsers stop working.',
  });
  expect(await isSignedIn()).toBe(false);
  await press(`${path}/disable`, 'Disable user', {
    nextPath: path,
    notice: 'Disabled. All sessions have ended, and the user cannot sign in.',
  });
  await press(path, 'Enable user', { notice: 'Enabled. The user can sign in again.' });

  const question = await open(`${path}/delete`);
  expect(question.body).toContain('This revokes and deletes 1 connection,');
  for (const typed of ['', 'user@example.tes']) {
    const refused = await agent.submit(question, { typed }, { button: 'Delete user' });
    expect([refused.status, refused.body]).toEqual([
      400,
      expect.stringContaining('Type “user@example.test” to confirm.'),
    ]);
  }
  expect((await open(path)).status).toBe(200);
  await press(`${path}/delete`, 'Delete user', {
    fields: { typed: 'user@example.test' },
    nextPath: 'users',
    notice: 'All data about this user is deleted. Entries in the audit trail stay until they expire.',
  });
  expect((await open(path)).status).toBe(404);
});

test.each(['sessions', 'users'])('R56 ending a session on the page of %s leads back to that page', async (from) => {
  const { id, isSignedIn } = await signInNewest();
  const path = from === 'users' ? `users/${id}` : from;
  await press(path, 'End session', {
    questionLink: 'End session…',
    notice: 'The session has ended. Pages that are open in that browser stop working.',
  });
  expect(await isSignedIn()).toBe(false);
});

test.each(['connections', 'users'])(
  'R52 disconnecting a user on the page of %s leads back to that page',
  async (from) => {
    const { id } = await signInNewest();
    const path = from === 'users' ? `users/${id}` : from;
    const questionLink = 'Disconnect…';
    await press(path, 'Disconnect', {
      questionLink,
      notice: 'Disconnected. The provider has confirmed the revocation (status 200).',
    });

    await signInNewest();
    const heal = site.sandbox.faults.set({ listener: 'identity-provider', path: '/revoke', kind: 'unavailable' });
    await press(path, 'Disconnect', {
      questionLink,
      tone: 'info',
      notice:
        'Disconnected here. The revocation at the provider is pending and will be repeated until it is confirmed (status 503).',
    });
    heal();
  },
);

test('the next signing key is published', async () => {
  await press('keys', 'Publish the next key now', {
    notice:
      'The next signing key is published. It is used for signing from tomorrow on, so that every service has time to read it.',
  });
  // The button returns once that key signs.
  const { body } = await open('keys');
  expect(body).toContain('Published');
  expect(body).not.toContain('Publish the next key now');
});

test('R52 everyone is disconnected from an app after a confirmation, and the page shows the progress', async () => {
  await signInNewest();
  await signInNewest('second@example.test');
  const connections = await open('connections?app=platform');
  expect(connections.body).toContain('This app has 3 connections.');
  const question = await agent.follow(connections, 'Disconnect everyone…');
  const refused = await agent.submit(question, { typed: 'platform' }, { button: 'Disconnect all 3' });
  expect([refused.status, refused.body]).toEqual([400, expect.stringContaining('Type “Collaboration platform”')]);

  const page = await agent.submit(refused, { typed: 'Collaboration platform' }, { button: 'Disconnect all 3' });

  expect([page.status, page.url.split('&')[0]]).toEqual([200, `${site.url}/admin/connections?app=platform`]);
  const readPage = async () => (await open('connections?app=platform')).body;
  await expect.poll(readPage).toContain('Done: 3 of 3');
  expect(await readPage()).toMatch(/Confirmed by the provider: 3\. Pending: 0\. Not confirmed: 0\./);
  const { json } = await admin.call('GET', '/audit?event=connection.all_removed');
  expect(json.items).toMatchObject([{ target: { id: 'platform' }, facts: { connections: 3 } }]);
});
