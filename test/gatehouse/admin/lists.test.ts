/** Lists of sessions, connections and sign-ins with filters, and the responses for unknown ids. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newConnectionId } from '../../../src/gatehouse/grants/connection-ids.ts';
import { createConnectionIndex } from '../../../src/gatehouse/grants/connection-index.ts';
import type { RefreshFailure } from '../../../src/gatehouse/grants/grant.ts';
import { createGrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { CLIENT_SECRET, getJson, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
/** Ids: `ada` is connected with `second` only, `uma` with both apps. */
let uma: string;
let ada: string;
/** Of uma. */
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  const second = sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET });
  expect((await admin.call('POST', '/connected-apps', second)).status).toBe(201);
  const signedIn = async (login: string, app: string) => {
    ({ agent } = await signIn(site, login, { path: `/sign-in?app=${app}` }));
    return (await sessionOf(site, agent)).userId;
  };
  uma = await signedIn('user@example.test', 'platform');
  expect(await signedIn('user@example.test', 'second')).toBe(uma);
  const umas = agent;
  ada = await signedIn('admin@example.test', 'second');
  agent = umas;
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

type Item = Record<string, unknown>;
const list = async (path: string) => {
  const { status, json } = await admin.call('GET', `/${path}`);
  expect(status).toBe(200);
  return json.items as Item[];
};
/** As `USER.APP`. */
const placesOf = async (path: string) => (await list(path)).map(({ user, app }) => `${(user as Item).id}.${app}`);

describe('connections', () => {
  const failure = {
    kind: 'reconnect_needed',
    cause: 'grant_refused',
    since: Date.now(),
    failures: 1,
    retryAt: 0,
  } satisfies RefreshFailure;
  const all = () => [`${ada}.second`, `${uma}.second`, `${uma}.platform`];

  test('are filtered by app, by user, or by the users that match a search', async () => {
    expect(await placesOf('connections')).toEqual(all());
    expect(await placesOf('connections?app=second')).toEqual(all().slice(0, 2));
    expect(await placesOf('connections?app=')).toEqual(all());
    expect((await placesOf(`connections?user=${uma}`)).toSorted()).toEqual(all().slice(1).toSorted());
    expect(await placesOf(`connections?user=${uma}&app=platform`)).toEqual([`${uma}.platform`]);
    expect(await placesOf('connections?user=nobody')).toEqual([]);
    expect((await placesOf('connections?q=uma%20o')).toSorted()).toEqual(all().slice(1).toSorted());
    expect(await placesOf('connections?q=uma%20o&app=second')).toEqual([`${uma}.second`]);
    expect(await placesOf('connections?q=%20')).toEqual(all());
    expect(await placesOf('connections?limit=1')).toEqual(all().slice(0, 1));
  });

  test('are filtered by their current health, even if the index is outdated', async () => {
    const index = createConnectionIndex({ store: storage.store, clock: Date.now });
    const grant = await storage.readGrant(uma, 'platform');
    await index.update({ ...grant, failure });
    expect(await placesOf('connections?health=reconnect_needed')).toEqual([]);
    await storage.changeGrant(uma, () => ({ failure }), 'platform');
    const words = 'The provider has ended this connection.';
    expect(await list('connections?health=reconnect_needed')).toMatchObject([
      { app: 'platform', cause: 'grant_refused', causeWords: words, user: { id: uma, name: 'Uma Okafor' } },
    ]);
    expect(await placesOf('connections?health=reconnect_needed&app=second')).toEqual([]);
    expect(await placesOf('connections?health=unverified')).toEqual([]);
    expect(await placesOf(`connections?user=${uma}&health=reconnect_needed`)).toEqual([`${uma}.platform`]);
    await storage.changeGrant(uma, () => ({ failure: undefined }), 'platform');
    await index.update(grant);
  });

  test('are filtered by missing scopes', async () => {
    const { scopes, requestedScopes = [] } = await storage.readGrant(uma, 'platform');
    const without = (names: string[]) => names.filter((name) => name !== 'email');
    expect(await placesOf('connections?scopes=missing')).toEqual([]);
    await storage.changeGrant(
      uma,
      () => ({ scopes: without(scopes), requestedScopes: without(requestedScopes) }),
      'platform',
    );
    expect((await getJson(agent, `${site.url}/threads/current?app=platform`)).status).toBe(200);
    for (const more of ['', '&app=platform', `&user=${uma}`, '&q=uma%20o']) {
      expect(await list(`connections?scopes=missing${more}`)).toMatchObject([
        { user: { id: uma }, app: 'platform', health: 'active', missingScopes: ['email'] },
      ]);
    }
    expect(await placesOf('connections?scopes=missing&app=second')).toEqual([]);
    const { json } = await admin.call('GET', `/users/${uma}`);
    expect(JSON.stringify(json)).toContain('"missingScopes":["email"]');
    expect((await admin.call('GET', '/connections?scopes=other')).status).toBe(400);
    // Even if the index is outdated.
    await storage.changeGrant(uma, () => ({ scopes, requestedScopes, announcedScopes: undefined }), 'platform');
    expect(await placesOf('connections?scopes=missing')).toEqual([]);
    await createConnectionIndex({ store: storage.store, clock: Date.now }).update(
      await storage.readGrant(uma, 'platform'),
    );
  });

  test('R115 are filtered by missing scopes page by page', async () => {
    const { store, sealer } = storage;
    const index = createConnectionIndex({ store, clock: Date.now });
    const grants = createGrantStore({
      store,
      sealedJson: createSealedJson(sealer),
      clock: Date.now,
      connectionIndex: index,
    });
    const grant = await storage.readGrant(uma, 'platform');
    const names = Array.from({ length: 40 }, (_, at) => `many${String(at).padStart(2, '0')}`);
    for (const [at, userId] of names.entries()) {
      const lacks = at % 10 === 0 && { scopes: ['openid'], requestedScopes: ['openid'], announcedScopes: ['email'] };
      expect(
        await grants.save({ ...grant, id: newConnectionId(), userId, connectedAt: at, ...lacks }, 0),
      ).toBeDefined();
    }
    const pageOf = async (query: string) => (await admin.call('GET', `/connections?scopes=missing&${query}`)).json;
    const first = await pageOf('limit=3&app=platform');
    expect(first.items).toMatchObject(['many30', 'many20', 'many10'].map((id) => ({ user: { id } })));
    const second = await pageOf(`limit=3&app=platform&after=${encodeURIComponent(String(first.next))}`);
    expect([second.items, second.next]).toMatchObject([[{ user: { id: 'many00' } }], undefined]);
    for (const one of names) {
      const stored = await grants.loadStored(one, 'platform');
      if (stored) await grants.remove(one, 'platform', stored.version);
    }
  });

  test('name the account by address, name or subject', async () => {
    const { account } = await storage.readGrant(uma, 'platform');
    const shown = async (changed: object) => {
      await storage.changeGrant(uma, () => ({ account: changed }), 'platform');
      return (await admin.call('GET', `/connections/${uma}.platform`)).json.account;
    };
    expect(await shown({ email: 'e', name: 'n', subject: 's' })).toBe('e');
    expect(await shown({ name: 'n', subject: 's' })).toBe('n');
    expect(await shown({ subject: 's' })).toBe('s');
    expect(await shown({})).toBeNull();
    await storage.changeGrant(uma, () => ({ account }), 'platform');
  });
});

test('R56 sessions are filtered by user, or by the users that match a search', async () => {
  const users = async (path: string) => (await list(path)).map(({ user }) => (user as Item).id);
  expect(await users('sessions')).toEqual([ada, uma, uma]);
  expect(await users(`sessions?user=${uma}`)).toEqual([uma, uma]);
  expect(await users('sessions?user=nobody')).toEqual([]);
  expect(await users('sessions?q=uma%20o')).toEqual([uma, uma]);
  expect(await users('sessions?q=%20')).toEqual([ada, uma, uma]);
  const [item] = await list(`sessions?user=${ada}`);
  expect(item).toMatchObject({ app: 'second', address: '127.0.0.1', user: { email: 'admin@example.test' } });
});

test('a sign-in names its user, and marks a presumed user', async () => {
  const user = { id: uma, name: 'Uma Okafor', email: 'user@example.test', presumed: false };
  const items = await list('sign-ins?q=user@example.test');
  expect(items).toMatchObject([
    { app: 'second', outcome: 'signed_in', user, cause: null },
    { app: 'platform', outcome: 'signed_in', user },
  ]);
  expect(await list('sign-ins?failed=true')).toEqual([]);
  expect(await list('sign-ins?q=00000000')).toEqual([]);
});

test.each([
  ['GET', 'connections/nobody.platform', 'There is no such connection, or it has ended.'],
  ['GET', 'connections/nothing', 'There is no such connection, or it has ended.'],
  ['DELETE', 'connections/nobody.platform', 'There is no such connection, or it has ended.'],
  ['DELETE', 'sessions/nobody.0123456789abcdef', 'There is no such session, or it has ended.'],
  ['DELETE', 'sessions/nothing', 'There is no such session, or it has ended.'],
  ['GET', 'users/nobody', 'There is no user with this id.'],
  ['GET', 'sign-ins/00000000', 'There is no sign-in with this reference. Sign-ins are kept for 30 days.'],
  ['POST', 'connected-apps/nowhere/disconnect-everyone', 'There is no connected app with this id.'],
  [
    'GET',
    'connected-apps/second/disconnect-everyone',
    'Disconnecting all users from this app was not started within the last 30 days.',
  ],
])('%s %s is 404 and says what does not exist', async (method, path, detail) => {
  const { status, json } = await admin.call(method, `/${path}`);
  expect([status, json.detail]).toEqual([404, detail]);
});
