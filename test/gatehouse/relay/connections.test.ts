/** `GET /relay/connections`: lists the state, without tokens, of the connections that the policy of the service covers. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Grant } from '../../../src/gatehouse/grants/grant.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { type ReceivedResponse, sendRequest } from '../../support/send-request.ts';
import { until } from '../../support/until.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, assertionOf, bearer, codeOf, createAdministrator, relayThread } from './service.ts';

interface Row {
  user: string;
  app: string;
  health: string;
  cause: string | null;
  connectUrl: string | null;
}

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let cookie: string;
/** The ids of three users, the first of whom has connected both apps. */
let users: string[];
beforeAll(async () => {
  site = await startSite({
    sandbox: { accessTokenSeconds: 3_600 },
    apps: (at) => [sandboxApp(at, 'platform'), sandboxApp(at, 'second')],
  });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  users = [];
  for (const login of ['user@example.test', 'second@example.test', 'admin@example.test']) {
    const { agent } = await signIn(site, login, { path: '/sign-in?app=platform' });
    users.push((await sessionOf(site, agent)).userId);
    if (users.length > 1) continue;
    await signIn(site, login, { agent, path: '/sign-in?app=second' });
    cookie = agent.cookies.header(site.url);
  }
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

const TIME = /^20.*Z$/;
const list = (token: string, query = '', headers: Record<string, string> = {}): Promise<ReceivedResponse> =>
  sendRequest(`${site.url}/relay/connections${query}`, { headers: { ...bearer(token), ...headers } });
const rowsOf = (response: ReceivedResponse): Row[] => JSON.parse(response.body).items;
const placesOf = (response: ReceivedResponse) =>
  rowsOf(response).map(({ user, app }) => `${app} ${users.indexOf(user)}`);
const createRelayToken = async (changes: Record<string, unknown> = {}) => {
  const policy = { scopes: ['connections:read'], apps: ['platform', 'second'], assertUser: true };
  return admin.createRelayToken({ ...policy, ...changes });
};

test('R109 shows the state of a connection, without tokens or the account', async () => {
  const { token } = await createRelayToken();
  const [user = ''] = users;
  const { id, accessToken, refreshToken = '' } = await storage.readGrant(user);
  const response = await list(token, `?user=${user}&app=platform`);
  expect([response.status, JSON.parse(response.body)]).toEqual([
    200,
    {
      items: [
        {
          ...{ id, user, app: 'platform', health: 'active', cause: null, connectUrl: null },
          scopes: ['openid', 'profile', 'email', 'offline_access', 'platform_read_only'],
          missingScopes: [],
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
  const [, user = ''] = users;
  const failure = (kind: 'unverified' | 'reconnect_needed', cause: 'response_lost' | 'grant_refused') => ({
    failure: { kind, cause, since: Date.now(), failures: 1, retryAt: 0 },
  });
  const states: [Partial<Grant>, string, string | null][] = [
    [failure('unverified', 'response_lost'), 'unverified', 'response_lost'],
    [failure('reconnect_needed', 'grant_refused'), 'reconnect_needed', 'grant_refused'],
    [{ failure: undefined, refreshExpiresAt: Date.now() + 3_600_000 }, 'expiring', null],
    // Active, but lacks scopes of the app.
    [{ refreshExpiresAt: undefined, scopes: ['openid'], requestedScopes: ['openid'] }, 'active', null],
  ];
  const { refreshExpiresAt, scopes, requestedScopes } = await storage.readGrant(user);
  for (const [change, health, cause] of states) {
    await storage.changeGrant(user, () => change);
    const [row] = rowsOf(await list(token, `?user=${user}`));
    expect(row).toMatchObject({ health, cause, connectUrl: `${site.url}/connections/platform` });
  }
  await storage.changeGrant(user, () => ({ refreshExpiresAt, scopes, requestedScopes }));
  expect(rowsOf(await list(token, `?user=${user}`))).toMatchObject([{ health: 'active', connectUrl: null }]);
});

test('R109 applies each rule of the policy to the call, as the policy test predicts', async () => {
  const [user = '', other = ''] = users;
  const refused = [
    [{ scopes: ['threads:read'] }, `?user=${user}`, 'scopes', 403, 'insufficient_scope'],
    [{ apps: ['platform'] }, '?app=second', 'apps', 403, 'insufficient_scope'],
    [{ networks: ['10.0.0.0/8'] }, `?user=${user}`, 'networks', 403, 'not_allowed'],
    [{ assertUser: false }, `?user=${user}`, 'assertUser', 403, 'not_allowed'],
    [{ assertUser: false }, '?app=platform', 'assertUser', 403, 'not_allowed'],
    [{ users: 'none' }, '?app=platform', 'users', 403, 'not_allowed'],
    [{ users: [other] }, `?user=${user}`, 'users', 403, 'not_allowed'],
    [{}, '?user=uAAAAAAAAAAAAAAAAAAAAAA', 'users', 404, 'not_found'],
  ] as const;
  for (const [changes, query, rule, status, code] of refused) {
    const { id, token } = await createRelayToken(changes);
    const response = await list(token, query);
    expect([response.status, codeOf(response), JSON.parse(response.body).detail]).toEqual([
      status,
      code,
      expect.stringContaining(`Rule ${rule}:`),
    ]);
    const named = Object.fromEntries(new URLSearchParams(query));
    const question = { relayToken: id, scope: 'connections:read', address: '127.0.0.1', proof: 'none', ...named };
    expect((await admin.call('POST', '/policy/explain', question)).json).toMatchObject({ allowed: false, rule });
  }
  expect((await list('gthr_unknown', '?app=platform')).status).toBe(401);
});

test('R109 lists only apps and users of the relay token, and no disabled user', async () => {
  const [user = '', other = '', third = ''] = users;
  const { token } = await createRelayToken();
  expect(placesOf(await list(token, `?user=${user}`))).toEqual(['second 0', 'platform 0']);
  expect(placesOf(await list(token, '?app=platform'))).toEqual(['platform 2', 'platform 1', 'platform 0']);
  const { token: ofOneApp } = await createRelayToken({ apps: ['platform'] });
  expect(placesOf(await list(ofOneApp, `?user=${user}`))).toEqual(['platform 0']);
  expect(placesOf(await list(ofOneApp))).toEqual(['platform 2', 'platform 1', 'platform 0']);
  const { token: ofTwoUsers } = await createRelayToken({ users: [other, user] });
  expect(placesOf(await list(ofTwoUsers, '?app=platform')).toSorted()).toEqual(['platform 0', 'platform 1']);
  expect(placesOf(await list(ofTwoUsers, '?app=second'))).toEqual(['second 0']);
  expect(placesOf(await list(ofTwoUsers, `?user=${user}`))).toEqual(['second 0', 'platform 0']);
  expect(placesOf(await list(ofTwoUsers, `?user=${other}&app=platform`))).toEqual(['platform 1']);

  await admin.call('POST', `/users/${third}/disable`);
  expect(placesOf(await list(token, '?app=platform'))).toEqual(['platform 1', 'platform 0']);
  await admin.call('POST', `/users/${third}/enable`);
});

test('R109 a cursor reveals no app that the token may not use', async () => {
  const [user = ''] = users;
  const { token } = await createRelayToken({ apps: ['platform'] });
  const response = await list(token, `?user=${user}&limit=1`);
  expect([placesOf(response), JSON.parse(response.body).next]).toEqual([['platform 0'], undefined]);
});

test('accepts a proven user without assertUser, and refuses a user who is named twice', async () => {
  const { id, token } = await createRelayToken({ assertUser: false });
  const assertion = await assertionOf(site, cookie);
  const proven = { 'gatehouse-user-assertion': assertion };
  expect(placesOf(await list(token, '', proven))).toEqual(['second 0', 'platform 0']);
  expect(placesOf(await list(token, '?app=second', proven))).toEqual(['second 0']);
  const twice = await list(token, `?user=${users[0]}`, proven);
  const detail = 'Send either "user" or Gatehouse-User-Assertion.';
  expect([twice.status, JSON.parse(twice.body).detail]).toEqual([400, detail]);
  const forged = await list(token, '', { 'gatehouse-user-assertion': `${assertion.slice(0, -9)}AAAAAAAAA` });
  expect([forged.status, codeOf(forged)]).toEqual([403, 'not_allowed']);
  const refusals = async () => (await admin.call('GET', `/audit?event=relay.refused&actor=${id}`)).json.items;
  await expect.poll(refusals).toMatchObject([{ outcome: 'rule: userAssertion', facts: { scope: 'connections:read' } }]);
});

test.each(['all', 'listed'])(
  'lists each connection of %s users once over several pages, and refuses an invalid cursor',
  async (which) => {
    const { token } = await createRelayToken({ users: which === 'all' ? 'all' : users });
    const places: string[] = [];
    let after: string | undefined;
    do {
      const response = await list(token, `?app=platform&limit=1${after === undefined ? '' : `&after=${after}`}`);
      expect(rowsOf(response)).toHaveLength(1);
      places.push(...placesOf(response));
      after = JSON.parse(response.body).next;
    } while (after !== undefined);
    expect(places.toSorted()).toEqual(['platform 0', 'platform 1', 'platform 2']);
    expect((await list(token, '?app=platform&after=x')).status).toBe(400);
  },
);

test('fills each page of listed users, because it does not page through the connections of others', async () => {
  const { token } = await createRelayToken({ users: [users[0], users[1]] });
  const first = await list(token, '?app=platform&limit=1');
  const second = await list(token, `?app=platform&limit=1&after=${JSON.parse(first.body).next}`);
  expect([...placesOf(first), ...placesOf(second)].toSorted()).toEqual(['platform 0', 'platform 1']);
  expect(JSON.parse(second.body).next).toBeUndefined();
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
  const [user = ''] = users;
  for (let count = 0; count < 2; count += 1) await list(token, `?user=${user}&app=platform`);
  const audited = async () => (await admin.call('GET', `/audit?actor=${id}`)).json.items as unknown[];
  await until(async () => (await audited()).length > 0);
  expect(await audited()).toMatchObject([
    { event: 'relay.used', outcome: 'answered', facts: { scope: 'connections:read', onceAnHour: true } },
  ]);
  await relayThread(site, token, { 'gatehouse-user': user }, '?app=platform');
  const services = async () => JSON.parse((await storage.store.get(keys.relayUsesOf(user, 'platform')))?.value ?? '[]');
  await until(async () => (await services()).length > 0);
  expect(await services()).toMatchObject([{ id, count: 1 }]);
});
