/** Relay tokens, limits and signing keys that several processes share, on both stores. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import { newConnectionId } from '../../../src/gatehouse/grants/connection-ids.ts';
import { createConnectionIndex } from '../../../src/gatehouse/grants/connection-index.ts';
import type { Grant } from '../../../src/gatehouse/grants/grant.ts';
import { createUserStore } from '../../../src/gatehouse/users/user-store.ts';
import { createRateLimits } from '../../../src/sandbox/rate-limits.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import { retryWhileUnavailable } from '../../../src/shared/storage/retry.ts';
import { appOfFile } from '../../support/apps.ts';
import { type Fleet, type FleetUser, type StoreKind, startFleet } from '../../support/fleet.ts';
import { sandboxApp } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { ACCEPT_JSON, type ReceivedResponse, sendRequest } from '../../support/send-request.ts';
import { repeatWhileStarved } from '../../support/starved.ts';
import { until } from '../../support/until.ts';
import { type Administrator, bearer, codeOf, createAdministrator, inventedToken, relayThread } from './service.ts';

const SERVICES = 20;
const USERS = 50;
const PER_USER = 5;
const PER_APP = 20;
/** The limits that the platform states and enforces below `/stated`. */
const STATED = { perUserPerMinute: 50, perUserPerHour: 750, perCompanyPerMinute: 600 };

/**
 * A platform that responds to each access token with its owner, and records the calls.
 * Below `/stated` it states limits and enforces them.
 */
async function startEchoPlatform() {
  const tokens: string[] = [];
  const refusedTokens: string[] = [];
  const count = createRateLimits({ now: Date.now, limits: { ...STATED, response: '503' } });
  const server: Server = createServer((req, res) => {
    const token = req.headers.authorization?.slice('Bearer '.length) ?? '';
    tokens.push(token);
    if (req.url?.startsWith('/stated')) {
      const { headers, refusedWith } = count(token);
      for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
      if (refusedWith) {
        refusedTokens.push(token);
        res.writeHead(refusedWith).end('Over Rate Limit');
        return;
      }
    }
    res.setHeader('content-type', 'application/json');
    res.end(JSON.stringify({ owner: token.replace(/^at-/, '') }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, tokens, refusedTokens, close: () => server.close() };
}

const grantOf = (userId: string, app: ConnectedApp): Grant => ({
  id: newConnectionId(),
  userId,
  appId: app.id,
  registration: registrationOf(app),
  accessToken: `at-${userId}`,
  refreshToken: undefined,
  scopes: ['read'],
  account: {},
  obtainedAt: Date.now(),
  expiresAt: Date.now() + 3_600_000,
  connectedAt: Date.now(),
  consentedAt: Date.now(),
  failure: undefined,
  refresh: undefined,
});

describe.each<StoreKind>(['SQLite', 'Redis'])('on %s', (kind) => {
  let fleet: Fleet;
  let platform: Awaited<ReturnType<typeof startEchoPlatform>>;
  let admin: Administrator;
  let signedInUser: FleetUser;
  const missing = kind === 'Redis' ? missingRedis : undefined;
  const userIds = Array.from({ length: USERS }, (_, index) => `u${String(index).padStart(22, '0')}`);

  beforeAll(async () => {
    if (missing) return;
    platform = await startEchoPlatform();
    fleet = await startFleet({
      kind,
      processes: 2,
      apps: (urls) => {
        const platformApp = (id: string, changes: Record<string, unknown>) =>
          sandboxApp(urls, 'platform', {
            id,
            signIn: undefined,
            callbackUrls: [`${urls.url}/oauth/callback/${id}`],
            apiBaseUrl: platform.url,
            ...changes,
          });
        return [
          sandboxApp(urls, 'platform', { apiBaseUrl: platform.url }),
          platformApp('limited', { rateLimit: { perUserPerMinute: PER_USER, perAppPerMinute: PER_APP } }),
          platformApp('personal', { rateLimit: { perUserPerMinute: PER_USER } }),
          platformApp('stated', { apiBaseUrl: `${platform.url}/stated` }),
        ];
      },
    });
    admin = await createAdministrator(fleet, fleet.storage);
    signedInUser = await fleet.signIn('user@example.test');
    const userStore = createUserStore({ store: fleet.storage.store, clock: Date.now });
    for (const id of userIds) {
      const user = { id, issuer: 'https://provider.test', subject: id, name: undefined, email: undefined };
      await retryWhileUnavailable(() => userStore.noteSignIn(user));
    }
    for (const id of ['limited', 'personal', 'stated', 'platform']) {
      const app = appOfFile(fleet.env, id);
      // The sign-in has already stored the grant of the signed-in user for "platform".
      const owners = id === 'platform' ? userIds : [...userIds, signedInUser.userId];
      for (const userId of owners)
        await retryWhileUnavailable(() => fleet.storage.grants.save(grantOf(userId, app), 0));
    }
  });
  afterAll(async () => {
    await fleet?.close();
    platform?.close();
  });

  test('R80 R82 neither store nor output holds a relay token, and a token created at one process works at the other', async (context) => {
    skipIfMissing(context, missing);
    const { id, token } = await admin.createRelayToken({ assertUser: true });
    const secret = token.slice(5 + id.length);
    const response = await relayThread(fleet.member(1), token, { 'gatehouse-user': userIds[0] ?? '' }, '?app=platform');
    expect([response.status, response.body]).toEqual([200, JSON.stringify({ owner: userIds[0] })]);
    const values: string[] = [];
    for await (const records of fleet.storage.store.walk()) values.push(...records.map(({ value }) => value));
    expect(values.filter((value) => value.includes(secret.slice(0, 43)))).toEqual([]);
    const pathWithToken = `/relay/threads/current?app=platform&access_token=${token}`;
    expect((await sendRequest(fleet.member(1).url + pathWithToken, { headers: ACCEPT_JSON })).status).toBe(401);
    expect(fleet.output()).not.toContain(secret);
  });

  /** The statuses of both processes for a call with this relay token. */
  const statusesOf = (token: string) =>
    Promise.all(
      fleet.members.map(async (member) => {
        const response = await relayThread(member, token, { 'gatehouse-user': userIds[0] ?? '' }, '?app=platform');
        return response.status;
      }),
    );

  test('R81 both processes refuse a token within a second after one has revoked it', async (context) => {
    skipIfMissing(context, missing);
    const { id, token } = await admin.createRelayToken({ assertUser: true });
    expect(await statusesOf(token)).toEqual([200, 200]);
    expect((await admin.call('DELETE', `/relay-tokens/${id}`)).status).toBe(204);
    const isRefusedByBoth = async () => (await statusesOf(token)).every((status) => status === 401);
    expect(await until(isRefusedByBoth)).toBeLessThan(1_000);
  });

  test('R81 both processes accept the new secret of a token immediately after one has rotated it', async (context) => {
    skipIfMissing(context, missing);
    const { id, token } = await admin.createRelayToken({ assertUser: true });
    let currentToken = token;
    for (let rotations = 0; rotations < 20; rotations += 1) {
      // After this call, both processes have cached the record with the secret that is about to be replaced.
      expect(await statusesOf(currentToken)).toEqual([200, 200]);
      const { json } = await admin.call('POST', `/relay-tokens/${id}/rotate`, { overlapSeconds: 0 });
      currentToken = String(json.token);
      expect(await statusesOf(currentToken)).toEqual([200, 200]);
    }
  });

  test(`R33 ${SERVICES} services for ${USERS} users at 2 processes never receive another user's thread`, async (context) => {
    skipIfMissing(context, missing);
    const services = await Promise.all(
      Array.from({ length: SERVICES }, (_, index) =>
        admin.createRelayToken({ name: `service ${index}`, assertUser: true }),
      ),
    );
    const calls = services.flatMap(({ token }, serviceIndex) =>
      userIds.map((userId, userIndex) => ({ token, userId, process: (serviceIndex + userIndex) % 2 })),
    );
    const wrongResponses: unknown[] = [];
    // The workers share the iterator, so each call is made by one of them.
    const remainingCalls = calls.values();
    const makeCalls = async () => {
      for (const { token, userId, process } of remainingCalls) {
        const { status, body } = await relayThread(
          fleet.member(process),
          token,
          { 'gatehouse-user': userId },
          '?app=platform',
        );
        if (body !== JSON.stringify({ owner: userId })) wrongResponses.push([userId, status, body]);
      }
    };
    await Promise.all(Array.from({ length: 16 }, makeCalls));
    expect(wrongResponses).toEqual([]);
  });

  test('R109 pages that are read from both processes in turn list each connection once, without tokens', async (context) => {
    skipIfMissing(context, missing);
    const index = createConnectionIndex({ store: fleet.storage.store, clock: Date.now });
    const app = appOfFile(fleet.env, 'personal');
    for (const userId of userIds) await retryWhileUnavailable(() => index.update(grantOf(userId, app)));
    for (const allowedUsers of ['all', userIds] as const) {
      const policy = { scopes: ['connections:read'], apps: ['personal'], assertUser: true, users: allowedUsers };
      const { token } = await admin.createRelayToken(policy);
      const listed: string[] = [];
      let cursor: string | undefined;
      let pageNumber = 0;
      do {
        const query = `?app=personal&limit=7${cursor === undefined ? '' : `&after=${cursor}`}`;
        const response = await sendRequest(`${fleet.member(pageNumber % 2).url}/relay/connections${query}`, {
          headers: bearer(token),
        });
        expect([response.status, response.body]).toEqual([200, expect.not.stringContaining('at-u')]);
        const page = JSON.parse(response.body) as { items: { userId: string; health: string }[]; next?: string };
        listed.push(...page.items.map(({ userId, health }) => `${userId} ${health}`));
        cursor = page.next;
        pageNumber += 1;
      } while (cursor !== undefined);
      expect(listed.toSorted()).toEqual(userIds.map((user) => `${user} active`));
    }
  });

  /** Creates the tokens of two services, each of which may make half of the calls that services have. */
  const createTwoTokens = (app: string) =>
    Promise.all([1, 2].map(async () => (await admin.createRelayToken({ apps: [app], assertUser: true })).token));
  /** Makes concurrent calls of a service, as many for each of these users, at both processes in turn. */
  const callInBulk = (token: string, app: string, usersOfCalls: readonly string[], callsPerUser: number) =>
    Promise.all(
      usersOfCalls.flatMap((userId) =>
        Array.from({ length: callsPerUser }, (_, index) =>
          repeatWhileStarved(() =>
            relayThread(fleet.member(index % 2), token, { 'gatehouse-user': userId }, `?app=${app}`),
          ),
        ),
      ),
    );
  /** Reads a thread as the browser of the signed-in user, and returns the status. */
  const callFromBrowser = async (app: string, process: 0 | 1) => {
    const read = () => fleet.get(fleet.member(process), `/threads/current?app=${app}`, signedInUser);
    return (await repeatWhileStarved(read)).status;
  };

  test('an app’s limit is shared by both processes, and browsers get responses while bulk jobs run', async (context) => {
    skipIfMissing(context, missing);
    const tokens = await createTwoTokens('limited');
    const callsBefore = platform.tokens.length;
    const shareOfServices = PER_APP - PER_APP / 5;

    const bulkCalls = tokens.map((token) => callInBulk(token, 'limited', userIds, 4));
    // An earlier call of a browser would leave one call fewer to the services.
    await until(async () => platform.tokens.length - callsBefore >= shareOfServices);
    expect([await callFromBrowser('limited', 0), await callFromBrowser('limited', 1)]).toEqual([200, 200]);

    const responsesByToken = await Promise.all(bulkCalls);
    const isServed = ({ status }: ReceivedResponse) => status === 200;
    const refusals = responsesByToken.flat().filter((response) => !isServed(response));
    // Compared together, so that a failure of the first shows the codes.
    expect([
      responsesByToken.map((responses) => responses.filter(isServed).length),
      new Set(refusals.map(codeOf)),
    ]).toEqual([[shareOfServices / 2, shareOfServices / 2], new Set(['platform_rate_limited'])]);
    for (const { headers } of refusals) {
      expect(Number(headers['retry-after'])).toBeGreaterThan(0);
      expect(Number(headers['retry-after'])).toBeLessThanOrEqual(70);
    }
    expect([
      await callFromBrowser('limited', 0),
      await callFromBrowser('limited', 1),
      await callFromBrowser('limited', 0),
    ]).toEqual([200, 200, 429]);
    expect(platform.tokens.slice(callsBefore)).toHaveLength(PER_APP);
  });

  test('a user’s limit is shared by both processes', async (context) => {
    skipIfMissing(context, missing);
    const tokens = await createTwoTokens('personal');
    const callsBefore = platform.tokens.length;
    await Promise.all(tokens.map((token) => callInBulk(token, 'personal', userIds.slice(0, 10), 12)));

    const callsByToken = Map.groupBy(platform.tokens.slice(callsBefore), (accessToken) => accessToken);
    expect(callsByToken.size).toBe(10);
    // One call of each limit is left to browsers.
    for (const calls of callsByToken.values()) expect(calls).toHaveLength(PER_USER - 1);
  });

  test('limits that only the platform states are never exceeded, and leave a share to browsers', async (context) => {
    skipIfMissing(context, missing);
    const services = await Promise.all(
      Array.from({ length: SERVICES }, () => admin.createRelayToken({ apps: ['stated'], assertUser: true })),
    );
    const tokenOfUser = `at-${signedInUser.userId}`;
    const startedAt = performance.now();
    const callsBefore = platform.tokens.length;

    // The limit for one user: all services call for the same user, and continue after refusals.
    const serviceCalls = services.map(async ({ token }, serviceIndex) => {
      for (let calls = 0; calls < 80 / SERVICES + 2; calls += 1) {
        const headers = { 'gatehouse-user': signedInUser.userId };
        await relayThread(fleet.member((serviceIndex + calls) % 2), token, headers, '?app=stated');
      }
    });
    const statusOfBrowser = await callFromBrowser('stated', 0);
    await Promise.all(serviceCalls);

    const callsOfUser = platform.tokens.slice(callsBefore).filter((accessToken) => accessToken === tokenOfUser);
    const callsOfServices = callsOfUser.length - 1;
    expect(callsOfServices).toBeLessThanOrEqual(STATED.perUserPerMinute * 0.8 + 1);
    expect(callsOfServices).toBeGreaterThan(STATED.perUserPerMinute * 0.6);
    expect([statusOfBrowser, await callFromBrowser('stated', 1), platform.refusedTokens]).toEqual([200, 200, []]);

    // The limit for all users: together the services make twice as many calls as they may.
    const callsPerUser = Math.ceil((2 * 0.8 * STATED.perCompanyPerMinute) / userIds.length / services.length);
    const callsBeforeBulk = platform.tokens.length;
    // Five services at a time: if one address has more than 500 connections, a process closes those that have sent
    // nothing for a second.
    for (let start = 0; start < SERVICES; start += 5) {
      const fiveServices = services.slice(start, start + 5);
      await Promise.all(fiveServices.map(({ token }) => callInBulk(token, 'stated', userIds, callsPerUser)));
    }
    const minutes = 1 + Math.floor((performance.now() - startedAt) / 60_000);
    expect(platform.tokens.length - callsBeforeBulk).toBeLessThanOrEqual(minutes * STATED.perCompanyPerMinute * 0.8);
    expect([await callFromBrowser('stated', 0), platform.refusedTokens]).toEqual([200, []]);
  });

  test('all processes sign with one key, and accept each other’s assertions', async (context) => {
    skipIfMissing(context, missing);
    const readKeySet = async ({ url }: { url: string }) => {
      const read = () => sendRequest(`${url}/.well-known/jwks.json`, { headers: ACCEPT_JSON });
      // A slow machine may still be busy with the calls of the previous test.
      await until(async () => (await read()).status === 200);
      return (await read()).body;
    };
    const [keySet, keySetOfOther] = await Promise.all(fleet.members.map(readKeySet));
    expect(JSON.parse(keySet ?? '').keys.length).toBeGreaterThan(0);
    expect(keySet).toBe(keySetOfOther);

    const verified = await fleet.get(fleet.member(0), '/session/verify', signedInUser);
    const assertion = String(verified.headers['gatehouse-user-assertion']);
    const { token } = await admin.createRelayToken();
    const response = await relayThread(
      fleet.member(1),
      token,
      { 'gatehouse-user-assertion': assertion },
      '?app=platform',
    );
    expect(response.status).toBe(200);
  });

  test('R84 all processes share the limit of guesses', async (context) => {
    skipIfMissing(context, missing);
    const guess = async (process: 0 | 1) => (await relayThread(fleet.member(process), inventedToken(), {})).status;
    let minute = 0;
    let guesses = 0;
    let areBothLimited = false;
    while (!areBothLimited) {
      // The limit counts by the minute.
      const currentMinute = Math.floor(Date.now() / 60_000);
      if (currentMinute !== minute) {
        minute = currentMinute;
        guesses = 0;
      }
      const statuses = await Promise.all([guess(0), guess(1)]);
      guesses += statuses.filter((status) => status === 401).length;
      expect(guesses).toBeLessThan(200);
      areBothLimited = statuses.every((status) => status === 429);
      // The other process reads the counts a moment later.
      if (guesses > 110) await new Promise((resolve) => setTimeout(resolve, 20));
    }

    const { token } = await admin.createRelayToken({ assertUser: true });
    expect(
      (await relayThread(fleet.member(1), token, { 'gatehouse-user': userIds[0] ?? '' }, '?app=platform')).status,
    ).toBe(200);
  });
});
