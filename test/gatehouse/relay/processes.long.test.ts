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
import { skipWithout } from '../../support/missing.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';
import { repeatWhileStarved } from '../../support/starved.ts';
import { until } from '../../support/until.ts';
import { type Administrator, bearer, codeOf, createAdministrator, inventedToken, relayThread } from './service.ts';

const SERVICES = 20;
const USERS = 50;
const PER_USER = 5;
const PER_APP = 20;
/** The limits that the platform states and enforces below `/stated`. */
const STATED = { perUserPerMinute: 50, perUserPerHour: 750, perCompanyPerMinute: 600 };

/** Responds to each access token with its owner, and counts. Below `/stated` it states limits and enforces them. */
async function startEchoPlatform() {
  const tokens: string[] = [];
  const refused: string[] = [];
  const count = createRateLimits({ now: Date.now, limits: { ...STATED, response: '503' } });
  const server: Server = createServer((req, res) => {
    const token = req.headers.authorization?.slice('Bearer '.length) ?? '';
    tokens.push(token);
    if (req.url?.startsWith('/stated')) {
      const { headers, refusedWith } = count(token);
      for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
      if (refusedWith) {
        refused.push(token);
        res.writeHead(refusedWith).end('Over Rate Limit');
        return;
      }
    }
    res.setHeader('content-type', 'application/json');
    res.end(JSON.stringify({ owner: token.replace(/^at-/, '') }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, tokens, refused, close: () => server.close() };
}

const grantOf = (userId: string, app: ConnectedApp): Grant => ({
  ...{ id: newConnectionId(), userId, appId: app.id, registration: registrationOf(app) },
  ...{ accessToken: `at-${userId}`, refreshToken: undefined, scopes: ['read'] },
  ...{
    account: {},
    obtainedAt: Date.now(),
    expiresAt: Date.now() + 3_600_000,
    connectedAt: Date.now(),
    consentedAt: Date.now(),
  },
  ...{ failure: undefined, refresh: undefined },
});

describe.each<StoreKind>(['SQLite', 'Redis'])('on %s', (kind) => {
  let fleet: Fleet;
  let platform: Awaited<ReturnType<typeof startEchoPlatform>>;
  let admin: Administrator;
  let person: FleetUser;
  const missing = kind === 'Redis' ? missingRedis : undefined;
  const users = Array.from({ length: USERS }, (_none, at) => `u${String(at).padStart(22, '0')}`);

  beforeAll(async () => {
    if (missing) return;
    platform = await startEchoPlatform();
    fleet = await startFleet({
      kind,
      processes: 2,
      apps: (at) => {
        const another = (id: string, changes: Record<string, unknown>) =>
          sandboxApp(at, 'platform', {
            ...{ id, signIn: undefined, callbackUrls: [`${at.url}/oauth/callback/${id}`], apiBaseUrl: platform.url },
            ...changes,
          });
        return [
          sandboxApp(at, 'platform', { apiBaseUrl: platform.url }),
          another('limited', { rateLimit: { perUserPerMinute: PER_USER, perAppPerMinute: PER_APP } }),
          another('personal', { rateLimit: { perUserPerMinute: PER_USER } }),
          another('stated', { apiBaseUrl: `${platform.url}/stated` }),
        ];
      },
    });
    admin = await createAdministrator(fleet, fleet.storage);
    person = await fleet.signIn('user@example.test');
    const userStore = createUserStore({ store: fleet.storage.store, clock: Date.now });
    for (const id of users) {
      const user = { id, issuer: 'https://provider.test', subject: id, name: undefined, email: undefined };
      await retryWhileUnavailable(() => userStore.noteSignIn(user));
    }
    for (const id of ['limited', 'personal', 'stated', 'platform']) {
      const app = appOfFile(fleet.env, id);
      // Signing in has stored the person's own grant of the platform.
      const owners = id === 'platform' ? users : [...users, person.userId];
      for (const userId of owners)
        await retryWhileUnavailable(() => fleet.storage.grants.save(grantOf(userId, app), 0));
    }
  });
  afterAll(async () => {
    await fleet?.close();
    platform?.close();
  });

  test('R80 R82 neither store nor output holds a relay token, and a token created at one process works at the other', async (context) => {
    skipWithout(context, missing);
    const { id, token } = await admin.createRelayToken({ assertUser: true });
    const secret = token.slice(5 + id.length);
    const response = await relayThread(fleet.member(1), token, { 'gatehouse-user': users[0] ?? '' }, '?app=platform');
    expect([response.status, response.body]).toEqual([200, JSON.stringify({ owner: users[0] })]);
    const values: string[] = [];
    for await (const records of fleet.storage.store.walk()) values.push(...records.map(({ value }) => value));
    expect(values.filter((value) => value.includes(secret.slice(0, 43)))).toEqual([]);
    const inAddress = `/relay/threads/current?app=platform&access_token=${token}`;
    expect((await sendRequest(fleet.member(1).url + inAddress, { headers: ACCEPT_JSON })).status).toBe(401);
    expect(fleet.output()).not.toContain(secret);
  });

  test('R81 both processes refuse a token within a second after one has revoked it', async (context) => {
    skipWithout(context, missing);
    const { id, token } = await admin.createRelayToken({ assertUser: true });
    const statuses = () =>
      Promise.all(
        fleet.members.map(async (member) => {
          return (await relayThread(member, token, { 'gatehouse-user': users[0] ?? '' }, '?app=platform')).status;
        }),
      );
    expect(await statuses()).toEqual([200, 200]);
    expect((await admin.call('DELETE', `/relay-tokens/${id}`)).status).toBe(204);
    expect(await until(async () => (await statuses()).every((status) => status === 401))).toBeLessThan(1_000);
  });

  test('R81 both processes accept the new secret of a token immediately after one has rotated it', async (context) => {
    skipWithout(context, missing);
    const { id, token } = await admin.createRelayToken({ assertUser: true });
    let current = token;
    const statuses = () =>
      Promise.all(
        fleet.members.map(async (member) => {
          return (await relayThread(member, current, { 'gatehouse-user': users[0] ?? '' }, '?app=platform')).status;
        }),
      );
    for (let rotation = 0; rotation < 20; rotation += 1) {
      // Now both processes have the record with the secret that is about to be replaced.
      expect(await statuses()).toEqual([200, 200]);
      const { json } = await admin.call('POST', `/relay-tokens/${id}/rotate`, { overlapSeconds: 0 });
      current = String(json.token);
      expect(await statuses()).toEqual([200, 200]);
    }
  });

  test(`R33 ${SERVICES} services for ${USERS} users at 2 processes never receive another user's thread`, async (context) => {
    skipWithout(context, missing);
    const services = await Promise.all(
      Array.from({ length: SERVICES }, (_none, at) =>
        admin.createRelayToken({ name: `service ${at}`, assertUser: true }),
      ),
    );
    const calls = services.flatMap(({ token }, at) =>
      users.map((userId, place) => ({ token, userId, member: (at + place) % 2 })),
    );
    const wrong: unknown[] = [];
    const waiting = calls.values();
    const work = async () => {
      for (const { token, userId, member } of waiting) {
        const response = await relayThread(fleet.member(member), token, { 'gatehouse-user': userId }, '?app=platform');
        if (response.body !== JSON.stringify({ owner: userId })) wrong.push([userId, response.status, response.body]);
      }
    };
    await Promise.all(Array.from({ length: 16 }, work));
    expect(wrong).toEqual([]);
  });

  test('R109 pages that are read from both processes in turn list each connection once, without tokens', async (context) => {
    skipWithout(context, missing);
    const index = createConnectionIndex({ store: fleet.storage.store, clock: Date.now });
    const app = appOfFile(fleet.env, 'personal');
    for (const userId of users) await retryWhileUnavailable(() => index.update(grantOf(userId, app)));
    for (const allowed of ['all', users] as const) {
      const policy = { scopes: ['connections:read'], apps: ['personal'], assertUser: true, users: allowed };
      const { token } = await admin.createRelayToken(policy);
      const listed: string[] = [];
      let next: string | undefined;
      for (let at = 0; at === 0 || next !== undefined; at += 1) {
        const query = `?app=personal&limit=7${next === undefined ? '' : `&after=${next}`}`;
        const response = await sendRequest(`${fleet.member(at % 2).url}/relay/connections${query}`, {
          headers: bearer(token),
        });
        expect([response.status, response.body]).toEqual([200, expect.not.stringContaining('at-u')]);
        const page = JSON.parse(response.body) as { items: { user: string; health: string }[]; next?: string };
        listed.push(...page.items.map(({ user, health }) => `${user} ${health}`));
        next = page.next;
      }
      expect(listed.toSorted()).toEqual(users.map((user) => `${user} active`));
    }
  });

  /** Concurrent calls of a service, `each` for every user, at both processes in turn. */
  const bulk = (token: string, app: string, userIds: readonly string[], each: number) =>
    Promise.all(
      userIds.flatMap((userId) =>
        Array.from({ length: each }, (_none, at) =>
          repeatWhileStarved(() =>
            relayThread(fleet.member(at % 2), token, { 'gatehouse-user': userId }, `?app=${app}`),
          ),
        ),
      ),
    );
  const browser = async (app: string, at: number) =>
    (await repeatWhileStarved(() => fleet.get(fleet.member(at % 2), `/threads/current?app=${app}`, person))).status;

  test('an app’s limit is shared by both processes, and browsers get responses while a bulk job runs', async (context) => {
    skipWithout(context, missing);
    const { token } = await admin.createRelayToken({ apps: ['limited'], assertUser: true });
    const before = platform.tokens.length;
    const share = PER_APP - PER_APP / 5;
    const job = bulk(token, 'limited', users, 4);
    // A browser's call that came earlier would leave one call fewer to the services.
    await until(async () => platform.tokens.length - before >= share);
    const meanwhile = [await browser('limited', 0), await browser('limited', 1)];
    const responses = await job;
    expect(meanwhile).toEqual([200, 200]);
    const refused = responses.filter(({ status }) => status !== 200);
    // The codes are compared as well, so that a failure shows them.
    expect([responses.length - refused.length, new Set(refused.map(codeOf))]).toEqual([
      share,
      new Set(['upstream_rate_limited']),
    ]);
    for (const { headers } of refused) {
      expect(Number(headers['retry-after'])).toBeGreaterThan(0);
      expect(Number(headers['retry-after'])).toBeLessThanOrEqual(70);
    }
    expect([await browser('limited', 0), await browser('limited', 1), await browser('limited', 0)]).toEqual([
      200, 200, 429,
    ]);
    expect(platform.tokens.slice(before)).toHaveLength(PER_APP);
  });

  test('a user’s limit is shared by both processes', async (context) => {
    skipWithout(context, missing);
    const { token } = await admin.createRelayToken({ apps: ['personal'], assertUser: true });
    const before = platform.tokens.length;
    await bulk(token, 'personal', users.slice(0, 10), 12);
    const callsByToken = Map.groupBy(platform.tokens.slice(before), (accessToken) => accessToken);
    expect([...callsByToken.values()].map(({ length }) => length)).toEqual(
      Array.from({ length: 10 }, () => PER_USER - 1),
    );
  });

  test('limits that only the platform states are never exceeded, and leave a share to browsers', async (context) => {
    skipWithout(context, missing);
    const services = await Promise.all(
      Array.from({ length: SERVICES }, () => admin.createRelayToken({ apps: ['stated'], assertUser: true })),
    );
    const tokenOfUser = `at-${person.userId}`;
    const startedAt = performance.now();
    const before = platform.tokens.length;
    // All call for the same user, and continue after refusals.
    const job = services.map(async ({ token }, at) => {
      for (let count = 0; count < 80 / SERVICES + 2; count += 1) {
        const headers = { 'gatehouse-user': person.userId };
        await relayThread(fleet.member((at + count) % 2), token, headers, '?app=stated');
      }
    });
    const meanwhile = await browser('stated', 0);
    await Promise.all(job);
    const calls = platform.tokens.slice(before).filter((accessToken) => accessToken === tokenOfUser);
    expect(calls.length - 1).toBeLessThanOrEqual(STATED.perUserPerMinute * 0.8 + 1);
    expect(calls.length - 1).toBeGreaterThan(STATED.perUserPerMinute * 0.6);
    expect([meanwhile, await browser('stated', 1), platform.refused]).toEqual([200, 200, []]);
    // The limit for all users: together the services make twice as many calls.
    const callsPerUser = Math.ceil((2 * 0.8 * STATED.perCompanyPerMinute) / users.length / services.length);
    const first = platform.tokens.length;
    // In four parts: of more than 500 connections of one address, a process closes those that have sent nothing for a second.
    for (let at = 0; at < SERVICES; at += 5) {
      await Promise.all(services.slice(at, at + 5).map(({ token }) => bulk(token, 'stated', users, callsPerUser)));
    }
    const minutes = 1 + Math.floor((performance.now() - startedAt) / 60_000);
    expect(platform.tokens.length - first).toBeLessThanOrEqual(minutes * STATED.perCompanyPerMinute * 0.8);
    expect([await browser('stated', 0), platform.refused]).toEqual([200, []]);
  });

  test('all processes sign with one key, and accept each other’s assertions', async (context) => {
    skipWithout(context, missing);
    const keySet = async ({ url }: { url: string }) => {
      const read = () => sendRequest(`${url}/.well-known/jwks.json`, { headers: ACCEPT_JSON });
      // A slow machine may still be busy with the calls of the previous test.
      await until(async () => (await read()).status === 200);
      return (await read()).body;
    };
    const [first, second] = await Promise.all(fleet.members.map(keySet));
    expect(JSON.parse(first ?? '').keys.length).toBeGreaterThan(0);
    expect(first).toBe(second);
    const verified = await fleet.get(fleet.member(0), '/session/verify', person);
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
    skipWithout(context, missing);
    const guess = async (at: number) => (await relayThread(fleet.member(at), inventedToken(), {})).status;
    let minute = 0;
    let guesses = 0;
    let limited: readonly number[] = [];
    while (limited.some((status) => status !== 429) || limited.length === 0) {
      const now = Math.floor(Date.now() / 60_000);
      if (now !== minute) [minute, guesses] = [now, 0];
      limited = await Promise.all([guess(0), guess(1)]);
      guesses += limited.filter((status) => status === 401).length;
      // The other process sees the counts a moment later.
      if (guesses > 110) await new Promise((resolve) => setTimeout(resolve, 20));
      expect(guesses).toBeLessThan(200);
    }
    const { token } = await admin.createRelayToken({ assertUser: true });
    expect(
      (await relayThread(fleet.member(1), token, { 'gatehouse-user': users[0] ?? '' }, '?app=platform')).status,
    ).toBe(200);
  });
});
