/** Relay tokens: users by e-mail address in the form and by name on the page, and idle scopes. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createUserStore } from '../../../../src/gatehouse/users/user-store.ts';
import type { UserAgent } from '../../../support/browserless.ts';
import { CLIENT_SECRET, sandboxApp, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../../grants/storage-access.ts';
import { type Administrator, createAdministrator, PERMISSIVE_POLICY, relayThread } from '../../relay/service.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let administrator: UserAgent;
let csrfToken: string;
let userId: string;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent: administrator } = await signIn(site, 'admin@example.test'));
  ({ csrfToken } = await sessionOf(site, administrator));
  ({ userId } = await sessionOf(site, (await signIn(site)).agent));
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

/** The form as a browser sends it. */
const send = (path: string, form: Record<string, string>) =>
  administrator.request(`${site.url}/admin/relay-tokens${path}`, {
    method: 'POST',
    headers: { accept: 'text/html' },
    body: new URLSearchParams({ _csrf: csrfToken, ...form }),
  });
const FORM = {
  name: 'Reports',
  scopes: 'threads:read',
  apps: 'platform',
  users: 'listed',
  expiry: '30',
  assertUser: 'yes',
};
const faultsOn = (body: string) =>
  [...body.matchAll(/<li><a href="#listed">([^<]+)</g)].map(([, text = '']) => text.replaceAll('&#39;', "'"));

test('the form offers the routes of apps, keeps those that no app declares, and the page names them', async () => {
  const { id, json } = await admin
    .createRelayToken({ scopes: ['api:call'], routes: ['current-thread', 'gone'] })
    .then(async (token) => ({ ...token, json: (await admin.call('GET', `/relay-tokens/${token.id}`)).json }));
  expect(json.routes).toEqual(['current-thread', 'gone']);
  const page = await administrator.get(`${site.url}/admin/relay-tokens/${id}`);
  expect(page.body).toContain('<dt>Routes</dt><dd>current-thread, gone</dd>');
  const edit = await administrator.follow(page, 'Edit');
  expect(edit.body).toContain('Every route with GET');
  expect(edit.body).toContain('<bdi>current-thread · GET /1/threads/current</bdi>');
  expect(edit.body).toContain('<bdi>gone</bdi>');
  const saved = await administrator.submit(edit, { name: 'Renamed' }, { button: 'Save' });
  expect(saved.body).toContain('Renamed');
  expect((await admin.call('GET', `/relay-tokens/${id}`)).json.routes).toEqual(['current-thread', 'gone']);
  const again = await administrator.follow(saved, 'Edit');
  const reads = await administrator.submit(again, { routes: '*' }, { button: 'Save' });
  expect(reads.body).toContain('<dt>Routes</dt><dd>Every route with GET</dd>');
  expect((await admin.call('GET', `/relay-tokens/${id}`)).json.routes).toBe('reads');
});

describe('users by e-mail address', () => {
  test('the form accepts addresses and ids, the token stores ids, and the page shows names', async () => {
    const page = await send('', { ...FORM, listed: `User@Example.test, ${userId}\nuOfSomebodyToCome` });
    expect(page.status).toBe(200);
    const id = new URL(page.url).pathname.split('/').at(-1);
    const { json } = await admin.call('GET', `/relay-tokens/${id}`);
    // The list has the same words for scopes as the form.
    const list = await administrator.get(`${site.url}/admin/relay-tokens`);
    expect(list.body).toContain('<bdi>Read the current thread</bdi>');
    expect(json).toMatchObject({ users: [userId, 'uOfSomebodyToCome'], idleScopes: [] });
    const record = await administrator.follow(page, 'I have stored it');
    expect(record.body).toMatch(new RegExp(`/admin/users/${userId}"><bdi>user@example.test</bdi></a>`));
    expect(record.body).toMatch(/<code>uOfSomebodyToCome<\/code>.*Not signed in yet/);
    // The edit form has e-mail addresses again, and saving it changes no user.
    const form = await administrator.get(`${new URL(page.url).origin}${new URL(page.url).pathname}/edit`);
    expect(/<textarea id="listed"[^>]*>([^<]*)</.exec(form.body)?.[1]?.trim()).toBe(
      'user@example.test\nuOfSomebodyToCome',
    );
    const saved = await administrator.submit(form, {}, { button: 'Save' });
    expect(saved.status).toBe(200);
    expect((await admin.call('GET', `/relay-tokens/${id}`)).json.users).toEqual(json.users);
    const token = /data-copy-source>(gthr_[^<]+)</.exec(page.body)?.[1] ?? '';
    expect((await relayThread(site, token, { 'gatehouse-user': userId })).status).toBe(200);

    // The page that shows the secret has a line that asks for it.
    const [, line = ''] = /data-copy-source>(printf [^<]*)</.exec(page.body) ?? [];
    expect(line).toMatch(/\$RELAY_TOKEN.*Gatehouse-User: /);
    expect(line).not.toContain(token);
  });

  test('each entry that names no user is a fault, and the form keeps all entries', async () => {
    const listed = 'user@example.test\nnobody@example.test\nwhat/is/this\nuser@example';
    const refused = await send('', { ...FORM, listed });
    expect([refused.status, faultsOn(refused.body)]).toEqual([
      400,
      [
        expect.stringMatching(/^Entry 2: No user has this e-mail address/),
        expect.stringMatching(/^Entry 3: Enter e-mail addresses or ids/),
        expect.stringMatching(/^Entry 4: No user has this/),
      ],
    ]);
    expect(refused.body).toContain(listed);
  });

  test('a token of 1,000 users with the longest ids is saved by API and form, and one more is refused', async () => {
    const ids = Array.from({ length: 1_000 }, (_, n) => `u${n}`.padEnd(64, 'x'));
    const { id } = await admin.createRelayToken({ users: ids });
    const edit = await administrator.get(`${site.url}/admin/relay-tokens/${id}/edit`);
    const saved = await administrator.submit(edit, { name: 'Renamed' }, { button: 'Save' });
    expect([saved.status, (await admin.call('GET', `/relay-tokens/${id}`)).json]).toMatchObject([
      200,
      { name: 'Renamed', users: ids },
    ]);

    const refused = await send('', { ...FORM, listed: [...ids, 'more'].join('\n') });
    expect(faultsOn(refused.body)).toEqual(['Enter at most 1,000 users, or choose “All users”.']);
    const { status } = await admin.call('POST', '/relay-tokens', { ...PERMISSIVE_POLICY, users: [...ids, 'more'] });
    expect(status).toBe(400);
  });

  test.each(['none', 'all'])('refuses entered users with the choice %s', async (users) => {
    const refused = await send('', { ...FORM, users, listed: 'user@example.test' });
    expect(refused.status).toBe(400);
    expect(faultsOn(refused.body)).toEqual(['Choose “Chosen users”, or empty this list.']);
  });

  test('an address of several users is a fault with their ids, and the form shows ids', async () => {
    const namesake = { id: 'uTheOther', issuer: 'https://other.test', subject: 's', email: 'second@example.test' };
    const { agent } = await signIn(site, 'second@example.test');
    const { userId: secondId } = await sessionOf(site, agent);
    const users = createUserStore({ store: storage.store, clock: Date.now });
    await users.noteSignIn(namesake);
    const refused = await send('', { ...FORM, listed: 'second@example.test' });
    const [fault] = faultsOn(refused.body);
    expect([fault?.includes(secondId), fault?.includes(namesake.id)]).toEqual([true, true]);
    const page = await send('', { ...FORM, listed: secondId });
    const form = await administrator.get(`${new URL(page.url).origin}${new URL(page.url).pathname}/edit`);
    expect(/<textarea id="listed"[^>]*>([^<]*)</.exec(form.body)?.[1]?.trim()).toBe(secondId);
  });
});

describe('idle scopes', () => {
  const idleOf = async (changes: Record<string, unknown>) => {
    const { id } = await admin.createRelayToken(changes);
    const { json } = await admin.call('GET', `/relay-tokens/${id}`);
    return Object.fromEntries(
      (json.idleScopes as { scope: string; reason: string }[]).map(({ scope, reason }) => [scope, reason]),
    );
  };
  const NEED_APPS = ['threads:read', 'token:exchange', 'connections:read', 'connect_links:create', 'api:call'];
  beforeEach(() => admin.call('POST', `/users/${userId}/enable`));

  test.each([
    ['no app', { apps: [] }, NEED_APPS, /no connected app/],
    ['no user', { users: 'none' }, NEED_APPS, /no user/],
    ['users who are not there', { users: ['uNobody'] }, NEED_APPS, /None of its users/],
  ])('%s', async (_name, changes, scopes, reason) => {
    const idle = await idleOf(changes);
    expect(Object.keys(idle)).toEqual(scopes);
    for (const text of Object.values(idle)) expect(text).toMatch(reason);
  });

  test('a token for all users and an app, and a token for BIN lookups, have no idle scopes', async () => {
    expect(await idleOf({})).toEqual({});
    expect(await idleOf({ users: 'none', apps: [], scopes: ['bin:read'] })).toEqual({});
    expect(await idleOf({ routes: [] })).toEqual({ 'api:call': 'The token may call no route.' });
  });

  test('all scopes are idle without an enabled user or app, and none with one', async () => {
    const tokenForSecondApp = { users: [userId], apps: ['second'], scopes: ['threads:read'] };
    // The app does not exist yet.
    await expect(admin.createRelayToken(tokenForSecondApp)).rejects.toThrow('No relay token');

    await admin.call('POST', '/connected-apps', sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET }));
    const token = await admin.createRelayToken(tokenForSecondApp);
    const readReasons = async () =>
      ((await admin.call('GET', `/relay-tokens/${token.id}`)).json.idleScopes as { reason: string }[]).map(
        ({ reason }) => reason,
      );
    expect(await readReasons()).toEqual([]);
    await admin.call('POST', `/users/${userId}/disable`);
    expect(await readReasons()).toEqual([expect.stringContaining('None of its users')]);
    await admin.call('POST', `/users/${userId}/enable`);
    expect(await readReasons()).toEqual([]);
    expect((await admin.call('DELETE', '/connected-apps/second')).status).toBe(204);
    expect(await readReasons()).toEqual([expect.stringContaining('None of its connected apps is enabled')]);
  });

  test('a service account makes threads:read and api:call usable, but no other scope', async () => {
    const { accessToken } = await storage.readGrant((await sessionOf(site, (await signIn(site)).agent)).userId);
    const account = await admin.call('POST', '/service-accounts', {
      name: 'a',
      app: 'platform',
      apiToken: accessToken,
    });
    expect(Object.keys(await idleOf({ users: 'none' }))).toEqual(NEED_APPS.slice(1, -1));
    await admin.call('DELETE', `/service-accounts/${account.json.id}`);
    expect(Object.keys(await idleOf({ users: 'none' }))).toEqual(NEED_APPS);
  });

  test.each([
    ['apps', { name: 'Idle', scopes: 'threads:read', users: 'none', expiry: '30' }, 'Choose a connected app'],
    ['users', { ...FORM, name: 'Idle', scopes: 'token:exchange', users: 'none' }, 'Choose users'],
  ])('the form refuses a token that can do nothing without %s', async (field, form, advice) => {
    const refused = await send('', form);
    expect([refused.status, refused.body]).toEqual([400, expect.stringContaining(`<a href="#${field}">${advice}`)]);
    expect(refused.body).toContain(`id="${field}-fault"`);
    expect((await admin.call('GET', '/relay-tokens?q=Idle')).json.items).toEqual([]);
    const works = await send('', { ...form, name: 'BINs only', scopes: 'bin:read', users: 'none' });
    expect(works.status).toBe(200);
  });

  test('the page and the list show idle scopes of a token created by the API', async () => {
    const idle = await admin.createRelayToken({ name: 'Idle', apps: [], users: 'none', scopes: ['threads:read'] });
    const page = await administrator.get(`${site.url}/admin/relay-tokens/${idle.id}`);
    expect([page.status, page.body]).toEqual([200, expect.stringContaining('notice notice-warning')]);
    expect(page.body).not.toContain('RELAY_TOKEN');
    expect(page.body).toMatch(/This token can do nothing\.<\/strong>\s+The token may use no connected app\./);
    const list = await administrator.get(`${site.url}/admin/relay-tokens?q=Idle`);
    expect(list.body).toContain('Can do nothing');
    // If only some scopes are idle, the page names them.
    const partlyIdle = await admin.createRelayToken({ scopes: ['bin:read', 'threads:read'], users: 'none' });
    const { body } = await administrator.get(`${site.url}/admin/relay-tokens/${partlyIdle.id}`);
    expect(body).toMatch(
      /Scopes without effect: Read the current thread\.<\/strong>\s+The token may act for no user\./,
    );
  });
});
