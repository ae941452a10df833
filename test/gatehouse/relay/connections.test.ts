/** `GET /relay/connections`: lists the state, without tokens, of the connections that the policy of the service covers. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Grant } from '../../../src/gatehouse/grants/grant.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { type ReceivedResponse, sendRequest } from '../../support/send-request.ts';
import { until } from '../../support/until.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, assertionOf, bearer, codeOf, createAdministrator, relayThread } from './service.ts';

interface ConnectionJson {
  userId: string;
  app: string;
  health: string;
  cause: string | null;
  connectUrl: string | null;
}

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let cookie: string;
/** The ids of three users. User 0 has connected both apps, the others only "platform". */
let userIds: string[];
beforeAll(async () => {
  site = await startSite({
    sandbox: { accessTokenSeconds: 3_600 },
    apps: (urls) => [sandboxApp(urls, 'platform'), sandboxApp(urls, 'second')],
  });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  const signInToPlatform = async (login: string) => {
    const { agent } = await signIn(site, login, { path: '/sign-in?app=platform' });
    return { agent, userId: (await sessionOf(site, agent)).userId };
  };
  const user0 = await signInToPlatform('user@example.test');
  const user1 = await signInToPlatform('second@example.test');
  const user2 = await signInToPlatform('admin@example.test');
  userIds = [user0.userId, user1.userId, user2.userId];
  await signIn(site, 'user@example.test', { agent: user0.agent, path: '/sign-in?app=second' });
  cookie = user0.agent.cookies.header(site.url);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

const TIME = /^20.*Z$/;
const list = (token: string, query = '', headers: Record<string, string> = {}): Promise<ReceivedResponse> =>
  sendRequest(`${site.url}/relay/connections${query}`, { headers: { ...bearer(token), ...headers } });
const connectionsOf = (response: ReceivedResponse): ConnectionJson[] => JSON.parse(response.body).items;
/** The app and the number of the user of each listed connection, such as "platform 0". */
const appsAndUsersOf = (response: ReceivedResponse) =>
  connectionsOf(response).map(({ userId, app }) => `${app} ${userIds.indexOf(userId)}`);
const createRelayToken = async (changes: Record<string, unknown> = {}) => {
  const policy = { scopes: ['connections:read'], apps: ['platform', 'second'], assertUser: true };
  return admin.createRelayToken({ ...policy, ...changes });
};

test('R109 shows the state of a connection, without tokens or the account', async () => {
  const { token } = await createRelayToken();
  const [user = ''] = userIds;
  const { id, accessToken, refreshToken = '' } = await storage.readGrant(user);
  const response = await list(token, `?user=${user}&app=platform`);
  expect([response.status, JSON.parse(response.body)]).toEqual([
    200,
    {
      items: [
        {
          id,
          userId: user,
          app: 'platform',
          health: 'active',
          cause: null,
          connectUrl: null,
          scopes: ['openid', 'profile', 'email', 'offline_access', 'platform_read_only'],
          missingScopes: [],
          stepUpRequired: false,
          connectedAt: expect.stringMatching(TIME),
          refreshedAt: expect.stringMatching(TIME),
          checkedAt: expect.stringMatching(TIME),
          notCheckedSince: null,
          // The start page, on which the sign-in ended, has read the thread.
          lastUsedAt: expect.stringMatching(TIME),
          apiBaseUrl: site.sandbox.platformUrl,
        },
      ],
    },
  ]);
  for (const secret of [accessToken, refreshToken, 'user@example.test']) expect(response.body).not.toContain(secret);
  expect(response.headers.ratelimit).toBeDefined();
});

test('names the URL to reconnect unless the connection is active and has every scope', async () => {
  const { token } = await createRelayToken();
  const [, user = ''] = userIds;
  const failure = (kind: 'unverified' | 'reconnect_needed', cause: 'response_lost' | 'grant_refused') => ({
    failure: { kind, cause, since: Date.now(), failures: 1, retryAt: 0 },
  });
  const states: [grant: Partial<Grant>, health: string, cause: string | null][] = [
    [failure('unverified', 'response_lost'), 'unverified', 'response_lost'],
    [failure('reconnect_needed', 'grant_refused'), 'reconnect_needed', 'grant_refused'],
    [{ failure: undefined, refreshExpiresAt: Date.now() + 3_600_000 }, 'expiring', null],
    // Active, but lacks scopes of the app.
    [{ refreshExpiresAt: undefined, scopes: ['openid'], requestedScopes: ['openid'] }, 'active', null],
  ];
  const { refreshExpiresAt, scopes, requestedScopes } = await storage.readGrant(user);
  for (const [changes, health, cause] of states) {
    await storage.changeGrant(user, () => changes);
    const [row] = connectionsOf(await list(token, `?user=${user}`));
    expect(row).toMatchObject({ health, cause, connectUrl: `${site.url}/connections/platform` });
  }
  await storage.changeGrant(user, () => ({ refreshExpiresAt, scopes, requestedScopes }));
  expect(connectionsOf(await list(token, `?user=${user}`))).toMatchObject([{ health: 'active', connectUrl: null }]);
});

test('R109 applies each rule of the policy to the call, as the policy test predicts', async () => {
  const [user = '', other = ''] = userIds;
  const refusedCalls = [
    [{ scopes: ['threads:read'] }, `?user=${user}`, 'scopes', 403, 'insufficient_scope'],
    [{ apps: ['platform'] }, '?app=second', 'apps', 403, 'insufficient_scope'],
    [{ networks: ['10.0.0.0/8'] }, `?user=${user}`, 'networks', 403, 'not_allowed'],
    [{ assertUser: false }, `?user=${user}`, 'assertUser', 403, 'not_allowed'],
    [{ assertUser: false }, '?app=platform', 'assertUser', 403, 'not_allowed'],
    [{ users: 'none' }, '?app=platform', 'users', 403, 'not_allowed'],
    [{ users: [other] }, `?user=${user}`, 'users', 403, 'not_allowed'],
    [{}, '?user=uAAAAAAAAAAAAAAAAAAAAAA', 'users', 404, 'not_found'],
  ] as const;
  for (const [policyChanges, query, rule, status, code] of refusedCalls) {
    const { id, token } = await createRelayToken(policyChanges);
    const response = await list(token, query);
    expect([response.status, codeOf(response), JSON.parse(response.body).detail]).toEqual([
      status,
      code,
      expect.stringContaining(`Rule ${rule}:`),
    ]);
    const { user: userId, app } = Object.fromEntries(new URLSearchParams(query));
    const call = { relayToken: id, scope: 'connections:read', address: '127.0.0.1', proof: 'none', userId, app };
    expect((await admin.call('POST', '/policy/explain', call)).json).toMatchObject({ allowed: false, rule });
  }
  expect((await list('gthr_unknown', '?app=platform')).status).toBe(401);
});

test('R109 lists only apps and users of the relay token, and no disabled user', async () => {
  const [user = '', other = '', third = ''] = userIds;
  const { token } = await createRelayToken();
  expect(appsAndUsersOf(await list(token, `?user=${user}`))).toEqual(['second 0', 'platform 0']);
  expect(appsAndUsersOf(await list(token, '?app=platform'))).toEqual(['platform 2', 'platform 1', 'platform 0']);
  const { token: ofOneApp } = await createRelayToken({ apps: ['platform'] });
  expect(appsAndUsersOf(await list(ofOneApp, `?user=${user}`))).toEqual(['platform 0']);
  expect(appsAndUsersOf(await list(ofOneApp))).toEqual(['platform 2', 'platform 1', 'platform 0']);
  const { token: ofTwoUsers } = await createRelayToken({ users: [other, user] });
  expect(appsAndUsersOf(await list(ofTwoUsers, '?app=platform')).toSorted()).toEqual(['platform 0', 'platform 1']);
  expect(appsAndUsersOf(await list(ofTwoUsers, '?app=second'))).toEqual(['second 0']);
  expect(appsAndUsersOf(await list(ofTwoUsers, `?user=${user}`))).toEqual(['second 0', 'platform 0']);
  expect(appsAndUsersOf(await list(ofTwoUsers, `?user=${other}&app=platform`))).toEqual(['platform 1']);

  await admin.call('POST', `/users/${third}/disable`);
  expect(appsAndUsersOf(await list(token, '?app=platform'))).toEqual(['platform 1', 'platform 0']);
  await admin.call('POST', `/users/${third}/enable`);
});

test('R109 a cursor reveals no app that the token may not use', async () => {
  const [user = ''] = userIds;
  const { token } = await createRelayToken({ apps: ['platform'] });
  const response = await list(token, `?user=${user}&limit=1`);
  expect([appsAndUsersOf(response), JSON.parse(response.body).next]).toEqual([['platform 0'], undefined]);
});

test('accepts a proven user without assertUser, and refuses a user who is named twice', async () => {
  const { id, token } = await createRelayToken({ assertUser: false });
  const assertion = await assertionOf(site, cookie);
  const provenUser = { 'gatehouse-user-assertion': assertion };
  expect(appsAndUsersOf(await list(token, '', provenUser))).toEqual(['second 0', 'platform 0']);
  expect(appsAndUsersOf(await list(token, '?app=second', provenUser))).toEqual(['second 0']);
  const responseForTwo = await list(token, `?user=${userIds[0]}`, provenUser);
  const detail = 'Send either the user id or Gatehouse-User-Assertion.';
  expect([responseForTwo.status, JSON.parse(responseForTwo.body).detail]).toEqual([400, detail]);
  const responseForForged = await list(token, '', { 'gatehouse-user-assertion': `${assertion.slice(0, -9)}AAAAAAAAA` });
  expect([responseForForged.status, codeOf(responseForForged)]).toEqual([403, 'not_allowed']);
  const readRefusals = async () => (await admin.call('GET', `/audit?event=relay.refused&actor=${id}`)).json.items;
  await expect
    .poll(readRefusals)
    .toMatchObject([{ outcome: 'refused', facts: { rule: 'userAssertion', scope: 'connections:read' } }]);
});

test.each(['all', 'listed'])(
  'lists each connection of %s users once over several pages, and refuses an invalid cursor',
  async (allowedUsers) => {
    const { token } = await createRelayToken({ users: allowedUsers === 'all' ? 'all' : userIds });
    const listed: string[] = [];
    let cursor: string | undefined;
    do {
      const response = await list(token, `?app=platform&limit=1${cursor === undefined ? '' : `&after=${cursor}`}`);
      expect(connectionsOf(response)).toHaveLength(1);
      listed.push(...appsAndUsersOf(response));
      cursor = JSON.parse(response.body).next;
    } while (cursor !== undefined);

    expect(listed.toSorted()).toEqual(['platform 0', 'platform 1', 'platform 2']);
    expect((await list(token, '?app=platform&after=x')).status).toBe(400);
  },
);

test('fills each page of a relay token for two users, since it does not page through the connections of others', async () => {
  const { token } = await createRelayToken({ users: [userIds[0], userIds[1]] });
  const page1 = await list(token, '?app=platform&limit=1');
  const page2 = await list(token, `?app=platform&limit=1&after=${JSON.parse(page1.body).next}`);
  expect([...appsAndUsersOf(page1), ...appsAndUsersOf(page2)].toSorted()).toEqual(['platform 0', 'platform 1']);
  expect(JSON.parse(page2.body).next).toBeUndefined();
});

test.each(['', '?limit=0', '?limit=201', '?user=a%20b', '?app=platform&colour=red', '?app=platform&app=second'])(
  'refuses a query that names neither user nor app, or has invalid parameters: %j',
  async (query) => {
    const { token } = await createRelayToken();
    const response = await list(token, query);
    expect([response.status, codeOf(response)]).toEqual([400, 'invalid_request']);
  },
);

test('audits the list once an hour, and does not count it as a use of the connection', async () => {
  const { id, token } = await createRelayToken({ scopes: ['connections:read', 'threads:read'] });
  const [user = ''] = userIds;
  await list(token, `?user=${user}&app=platform`);
  await list(token, `?user=${user}&app=platform`);

  const readEntries = async () => (await admin.call('GET', `/audit?actor=${id}`)).json.items as unknown[];
  await until(async () => (await readEntries()).length > 0);
  expect(await readEntries()).toMatchObject([
    { event: 'relay.used', outcome: 'succeeded', facts: { scope: 'connections:read', onceAnHour: true } },
  ]);

  await relayThread(site, token, { 'gatehouse-user': user }, '?app=platform');
  const readServices = async () =>
    JSON.parse((await storage.store.get(keys.relayUsesOf(user, 'platform')))?.value ?? '[]');
  await until(async () => (await readServices()).length > 0);
  expect(await readServices()).toMatchObject([{ id, count: 1 }]);
});
