/** Lists of sessions, connections and sign-ins with filters, and the responses for unknown ids. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newConnectionId } from '../../../src/gatehouse/grants/connection-ids.ts';
import { createConnectionIndex } from '../../../src/gatehouse/grants/connection-index.ts';
import { createGrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import type { RefreshFailure } from '../../../src/gatehouse/grants/refresh-failure.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { CLIENT_SECRET, getJson, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
/** The user id of Uma, who has connected both apps. */
let uma: string;
/** The user id of Ada, who has connected only `second`. */
let ada: string;
let agentOfUma: UserAgent;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  const second = sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET });
  expect((await admin.call('POST', '/connected-apps', second)).status).toBe(201);
  const connect = async (login: string, app: string) => {
    const { agent } = await signIn(site, login, { path: `/sign-in?app=${app}` });
    return { agent, userId: (await sessionOf(site, agent)).userId };
  };
  uma = (await connect('user@example.test', 'platform')).userId;
  const secondConnection = await connect('user@example.test', 'second');
  expect(secondConnection.userId).toBe(uma);
  agentOfUma = secondConnection.agent;
  ada = (await connect('admin@example.test', 'second')).userId;
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

type Item = Record<string, unknown>;
const readItems = async (path: string) => {
  const { status, json } = await admin.call('GET', `/${path}`);
  expect(status).toBe(200);
  return json.items as Item[];
};
/** Returns the connections of a list as `USER.APP`. */
const connectionsIn = async (path: string) =>
  (await readItems(path)).map(({ user, app }) => `${(user as Item).id}.${app}`);

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
    expect(await connectionsIn('connections')).toEqual(all());
    expect(await connectionsIn('connections?app=second')).toEqual(all().slice(0, 2));
    expect(await connectionsIn('connections?app=')).toEqual(all());
    expect((await connectionsIn(`connections?user=${uma}`)).toSorted()).toEqual(all().slice(1).toSorted());
    expect(await connectionsIn(`connections?user=${uma}&app=platform`)).toEqual([`${uma}.platform`]);
    expect(await connectionsIn('connections?user=nobody')).toEqual([]);
    expect((await connectionsIn('connections?q=uma%20o')).toSorted()).toEqual(all().slice(1).toSorted());
    expect(await connectionsIn('connections?q=uma%20o&app=second')).toEqual([`${uma}.second`]);
    expect(await connectionsIn('connections?q=%20')).toEqual(all());
    expect(await connectionsIn('connections?limit=1')).toEqual(all().slice(0, 1));
  });

  test('are filtered by their current health, even if the index is outdated', async () => {
    const index = createConnectionIndex({ store: storage.store, clock: Date.now });
    const grant = await storage.readGrant(uma, 'platform');
    await index.update({ ...grant, failure });
    expect(await connectionsIn('connections?health=reconnect_needed')).toEqual([]);
    await storage.changeGrant(uma, () => ({ failure }), 'platform');
    const words = 'The provider has ended this connection.';
    expect(await readItems('connections?health=reconnect_needed')).toMatchObject([
      { app: 'platform', cause: 'grant_refused', causeText: words, user: { id: uma, name: 'Uma Okafor' } },
    ]);
    expect(await connectionsIn('connections?health=reconnect_needed&app=second')).toEqual([]);
    expect(await connectionsIn('connections?health=unverified')).toEqual([]);
    expect(await connectionsIn(`connections?user=${uma}&health=reconnect_needed`)).toEqual([`${uma}.platform`]);
    await storage.changeGrant(uma, () => ({ failure: undefined }), 'platform');
    await index.update(grant);
  });

  test('are filtered by missing scopes', async () => {
    const { scopes, requestedScopes = [] } = await storage.readGrant(uma, 'platform');
    const withoutEmail = (names: string[]) => names.filter((name) => name !== 'email');
    expect(await connectionsIn('connections?scopes=missing')).toEqual([]);
    await storage.changeGrant(
      uma,
      () => ({ scopes: withoutEmail(scopes), requestedScopes: withoutEmail(requestedScopes) }),
      'platform',
    );
    expect((await getJson(agentOfUma, `${site.url}/threads/current?app=platform`)).status).toBe(200);
    for (const furtherFilter of ['', '&app=platform', `&user=${uma}`, '&q=uma%20o']) {
      expect(await readItems(`connections?scopes=missing${furtherFilter}`)).toMatchObject([
        { user: { id: uma }, app: 'platform', health: 'active', missingScopes: ['email'] },
      ]);
    }
    expect(await connectionsIn('connections?scopes=missing&app=second')).toEqual([]);
    const { json } = await admin.call('GET', `/users/${uma}`);
    expect(JSON.stringify(json)).toContain('"missingScopes":["email"]');
    expect((await admin.call('GET', '/connections?scopes=other')).status).toBe(400);
    // The filter uses the current scopes, even if the index is outdated.
    await storage.changeGrant(uma, () => ({ scopes, requestedScopes, announcedScopes: undefined }), 'platform');
    expect(await connectionsIn('connections?scopes=missing')).toEqual([]);
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
    const userIds = Array.from({ length: 40 }, (_, number) => `many${String(number).padStart(2, '0')}`);
    const withMissingScope = { scopes: ['openid'], requestedScopes: ['openid'], announcedScopes: ['email'] };
    for (const [number, userId] of userIds.entries()) {
      const isScopeMissing = number % 10 === 0;
      const created = await grants.save(
        {
          ...{ ...grant, id: newConnectionId(), userId, connectedAt: number },
          ...(isScopeMissing ? withMissingScope : {}),
        },
        0,
      );
      expect(created).toBeDefined();
    }

    const readPage = async (query: string) => (await admin.call('GET', `/connections?scopes=missing&${query}`)).json;
    const firstPage = await readPage('limit=3&app=platform');
    expect(firstPage.items).toMatchObject(['many30', 'many20', 'many10'].map((id) => ({ user: { id } })));
    const secondPage = await readPage(`limit=3&app=platform&after=${encodeURIComponent(String(firstPage.next))}`);
    expect([secondPage.items, secondPage.next]).toMatchObject([[{ user: { id: 'many00' } }], undefined]);

    for (const userId of userIds) {
      const stored = await grants.loadStored(userId, 'platform');
      if (stored) await grants.remove(userId, 'platform', stored.version);
    }
  });

  test('name the account by address, name or subject', async () => {
    const { account } = await storage.readGrant(uma, 'platform');
    const shownNameOf = async (changedAccount: object) => {
      await storage.changeGrant(uma, () => ({ account: changedAccount }), 'platform');
      return (await admin.call('GET', `/connections/${uma}.platform`)).json.account;
    };
    expect(await shownNameOf({ email: 'e', name: 'n', subject: 's' })).toBe('e');
    expect(await shownNameOf({ name: 'n', subject: 's' })).toBe('n');
    expect(await shownNameOf({ subject: 's' })).toBe('s');
    expect(await shownNameOf({})).toBeNull();
    await storage.changeGrant(uma, () => ({ account }), 'platform');
  });
});

test('R56 sessions are filtered by user, or by the users that match a search', async () => {
  const usersIn = async (path: string) => (await readItems(path)).map(({ user }) => (user as Item).id);
  expect(await usersIn('sessions')).toEqual([ada, uma, uma]);
  expect(await usersIn(`sessions?user=${uma}`)).toEqual([uma, uma]);
  expect(await usersIn('sessions?user=nobody')).toEqual([]);
  expect(await usersIn('sessions?q=uma%20o')).toEqual([uma, uma]);
  expect(await usersIn('sessions?q=%20')).toEqual([ada, uma, uma]);
  const [sessionOfAda] = await readItems(`sessions?user=${ada}`);
  expect(sessionOfAda).toMatchObject({ app: 'second', address: '127.0.0.1', user: { email: 'admin@example.test' } });
});

test('a sign-in names its user, and marks a presumed user', async () => {
  const user = { id: uma, name: 'Uma Okafor', email: 'user@example.test', presumed: false };
  const items = await readItems('sign-ins?q=user@example.test');
  expect(items).toMatchObject([
    { app: 'second', outcome: 'signed_in', user, cause: null },
    { app: 'platform', outcome: 'signed_in', user },
  ]);
  expect(await readItems('sign-ins?outcome=unsuccessful')).toEqual([]);
  expect(await readItems('sign-ins?q=00000000')).toEqual([]);
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
