/** Refreshing over HTTP: one token call for many requests, no token is lost, and no user gets data of another. */
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { CLIENT_SECRET, getJson, JSON_ONLY, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { until } from '../../support/until.ts';
import { connectionsOf, disconnect, openStorageOf, type StorageAccess, sessionOf } from './storage-access.ts';

let site: TestSite;
let storage: StorageAccess;
beforeAll(async () => {
  site = await startSite();
  storage = await openStorageOf(site);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});
afterEach(() => {
  vi.useRealTimers();
  site.sandbox.faults.clear();
});

/** A second longer than the lifetime of an access token. */
const AFTER_EXPIRY_SECONDS = 61;
const getThread = (agent: Awaited<ReturnType<typeof signIn>>['agent']) => getJson(agent, `${site.url}/threads/current`);
const countTokenCalls = () => site.sandbox.requests.count('POST /token');
const countPlatformCalls = () => site.sandbox.requests.count('GET /1/threads/current');

async function signInUser(login?: string) {
  const { agent } = await signIn(site, login);
  const { userId } = await sessionOf(site, agent);
  site.sandbox.requests.reset();
  return { agent, userId };
}

/** The provider processes the next token request, and sends its response only after `release`. */
function withholdTokenResponse() {
  let body: Record<string, string> | undefined;
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  site.sandbox.faults.set({
    listener: 'identity-provider',
    path: '/token',
    times: 1,
    kind: 'rewrite',
    change: async (response) => {
      body = response as Record<string, string>;
      await released;
      return response;
    },
  });
  return { untilProcessed: () => until(() => body !== undefined), release, body: () => body ?? {} };
}

async function isActive(token: string | undefined): Promise<boolean> {
  const response = await fetch(`${site.sandbox.issuer}/introspect`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`test-platform:${CLIENT_SECRET}`).toString('base64')}` },
    body: new URLSearchParams({ token: token ?? '' }),
  });
  return ((await response.json()) as { active: boolean }).active;
}

describe('concurrent requests', () => {
  test('R31: 50 requests with an expired token make 1 token call and get 50 successful responses', async () => {
    const { agent } = await signInUser();
    advanceClock(AFTER_EXPIRY_SECONDS);

    const responses = await Promise.all(Array.from({ length: 50 }, () => getThread(agent)));
    expect(responses.map(({ status }) => status)).toEqual(Array(50).fill(200));
    expect(countTokenCalls()).toBe(1);
    expect(countPlatformCalls()).toBe(50);
  });

  test('R31: 50 requests with a token that the platform refuses early make 1 token call, and all succeed', async () => {
    const { agent, userId } = await signInUser();
    advanceClock(10);
    await storage.changeGrant(userId, () => ({ accessToken: 'revoked-by-the-platform' }));

    const responses = await Promise.all(Array.from({ length: 50 }, () => getThread(agent)));
    expect(responses.map(({ status }) => status)).toEqual(Array(50).fill(200));
    expect(countTokenCalls()).toBe(1);
  });

  test('R33: of 200 requests of 3 users with expired tokens, each returns the thread of its own user', async () => {
    const logins = ['user@example.test', 'second@example.test', 'admin@example.test'];
    const users = await Promise.all(logins.map((login) => signInUser(login)));

    const threadsOfUsers = await Promise.all(
      users.map(async ({ agent }) => JSON.stringify((await getThread(agent)).json)),
    );
    expect(new Set(threadsOfUsers).size).toBe(3);

    site.sandbox.requests.reset();
    advanceClock(AFTER_EXPIRY_SECONDS);

    const threads = await Promise.all(
      Array.from({ length: 200 }, async (_, number) => {
        const agent = users[number % 3]?.agent;
        return agent && JSON.stringify((await getThread(agent)).json);
      }),
    );
    expect(threads).toEqual(Array.from({ length: 200 }, (_, number) => threadsOfUsers[number % 3]));
    expect(countTokenCalls()).toBe(3);
  });
});

describe('incomplete and broken responses', () => {
  test('R30: a response without a new refresh token keeps the old one', async () => {
    const { agent, userId } = await signInUser();
    const originalGrant = await storage.readGrant(userId);
    site.sandbox.faults.set({
      listener: 'identity-provider',
      path: '/token',
      kind: 'rewrite',
      change: ({ refresh_token: _, ...withoutRefreshToken }) => withoutRefreshToken,
    });
    advanceClock(AFTER_EXPIRY_SECONDS);

    expect((await getThread(agent)).status).toBe(200);

    const refreshedGrant = await storage.readGrant(userId);
    expect(refreshedGrant.refreshToken).toBe(originalGrant.refreshToken);
    expect(refreshedGrant.refreshToken).toBeTruthy();
    expect(refreshedGrant.accessToken).not.toBe(originalGrant.accessToken);
  });

  test.each([
    ['a bad ID token', (body: Record<string, unknown>) => ({ ...body, id_token: 'eyJhbGciOiJub25lIn0.e30.' })],
    ['no access token', ({ access_token: _, ...otherMembers }: Record<string, unknown>) => otherMembers],
    ['an unknown token type', (body: Record<string, unknown>) => ({ ...body, token_type: 'mac' })],
  ])('R32: the new refresh token of a response with %s is stored and used', async (_name, change) => {
    const { agent, userId } = await signInUser();
    let newRefreshToken: unknown;
    site.sandbox.faults.set({
      listener: 'identity-provider',
      path: '/token',
      times: 1,
      kind: 'rewrite',
      change(body) {
        newRefreshToken = body.refresh_token;
        return change(body);
      },
    });
    advanceClock(AFTER_EXPIRY_SECONDS);

    const refused = await getThread(agent);
    expect([refused.status, refused.json.code]).toEqual([503, 'provider_unavailable']);
    expect((await storage.readGrant(userId)).refreshToken).toBe(newRefreshToken);

    // The sandbox rotates refresh tokens strictly: another use of the first one would end the grant now.
    advanceClock(60);
    expect((await getThread(agent)).status).toBe(200);
  });

  test.each([[-5], [1e300], [0], ['soon'], [[60]]])(
    'R27, R32: an expires_in of %j sets no lifetime longer than a year',
    async (value) => {
      const { agent, userId } = await signInUser();
      site.sandbox.faults.set({
        listener: 'identity-provider',
        path: '/token',
        times: 1,
        kind: 'rewrite',
        change: (body) => ({ ...body, expires_in: value }),
      });
      advanceClock(AFTER_EXPIRY_SECONDS);

      expect((await getThread(agent)).status).toBe(200);

      const { expiresAt } = await storage.readGrant(userId);
      expect(expiresAt === undefined || expiresAt <= Date.now() + 366 * 86_400_000).toBe(true);
    },
  );
});

describe('a refresh in flight', () => {
  test('R37: uses newer tokens of another process after invalid_grant', async () => {
    const { agent, userId } = await signInUser();
    const { refreshToken } = await storage.readGrant(userId);
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', times: 1, kind: 'hold', until: released });
    advanceClock(AFTER_EXPIRY_SECONDS);
    const response = getThread(agent);
    await until(() => countTokenCalls() === 1);
    // Another process connects the same user again, and the old grant is revoked at the provider.
    await signIn(site);
    await fetch(`${site.sandbox.issuer}/revoke`, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(`test-platform:${CLIENT_SECRET}`).toString('base64')}` },
      body: new URLSearchParams({ token: refreshToken ?? '' }),
    });

    expect(await isActive(refreshToken)).toBe(false);

    release();
    expect((await response).status).toBe(200);
    expect((await connectionsOf(site, agent))[0]).toMatchObject({ health: 'active', cause: null });
  });

  test('R43: does not undo a disconnect, and its new token is revoked', async () => {
    const { agent, userId } = await signInUser();
    const withheld = withholdTokenResponse();
    advanceClock(AFTER_EXPIRY_SECONDS);
    const response = getThread(agent);
    await withheld.untilProcessed();
    const newAccessToken = withheld.body().access_token;

    expect(await isActive(newAccessToken)).toBe(true);

    // The first revocation fails, so only the revocation of the new token can end the grant at the provider.
    site.sandbox.faults.set({ listener: 'identity-provider', path: '/revoke', times: 1, kind: 'error' });
    expect(await disconnect(site, agent)).toMatchObject({ disconnected: true, revocation: 'pending' });

    withheld.release();
    const lateResponse = await response;
    expect([lateResponse.status, lateResponse.json.code]).toEqual([403, 'not_connected']);
    expect(await storage.grants.loadStored(userId, 'platform')).toBeUndefined();
    expect(site.sandbox.requests.count('POST /revoke')).toBe(2);
    expect(await isActive(newAccessToken)).toBe(false);
    expect((await getThread(agent)).json.code).toBe('not_connected');
  });

  test('F22: is finished and stored even if its caller disconnects', async () => {
    const { agent, userId } = await signInUser();
    const withheld = withholdTokenResponse();
    advanceClock(AFTER_EXPIRY_SECONDS);
    const callerAbort = new AbortController();
    const cookie = agent.cookies.header(site.url);
    const abortedCall = fetch(`${site.url}/threads/current`, { headers: { cookie }, signal: callerAbort.signal });
    await withheld.untilProcessed();
    callerAbort.abort();

    await expect(abortedCall).rejects.toThrow();

    withheld.release();
    await until(async () => (await storage.readGrant(userId)).refreshToken === withheld.body().refresh_token);
    site.sandbox.requests.reset();

    expect((await getThread(agent)).status).toBe(200);
    expect(countTokenCalls()).toBe(0);
    expect(site.logs().filter((line) => line.includes('"code":"platform_error"'))).toEqual([]);
  });

  test('R90: is finished and stored before the process stops', async () => {
    const { agent, userId } = await signInUser();
    const withheld = withholdTokenResponse();
    advanceClock(AFTER_EXPIRY_SECONDS);
    const callerAbort = new AbortController();
    const headers = { cookie: agent.cookies.header(site.url) };
    fetch(`${site.url}/threads/current`, { headers, signal: callerAbort.signal }).catch(() => undefined);
    await withheld.untilProcessed();
    callerAbort.abort();
    const restarted = site.restart();
    setTimeout(withheld.release, 300);
    await restarted;

    expect((await storage.readGrant(userId)).refreshToken).toBe(withheld.body().refresh_token);
    expect((await getThread(agent)).status).toBe(200);
  });
});

describe('R42: the access token', () => {
  /** Changes the stored token to one of ten minutes that expires in 30 s, within the margin in which it is refreshed. */
  const enterMargin = (userId: string) => {
    const expiresAt = Date.now() + 30_000;
    return storage.changeGrant(userId, () => ({ obtainedAt: expiresAt - 600_000, expiresAt }));
  };

  test('is used within the margin while the refresh fails', async () => {
    const { agent, userId } = await signInUser();
    site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', kind: 'error' });
    await enterMargin(userId);

    for (let request = 1; request <= 5; request += 1) expect((await getThread(agent)).status).toBe(200);
    expect(countTokenCalls()).toBe(1);
  });

  test('is used within the margin, without a long wait, while the provider hangs', async () => {
    const { agent, userId } = await signInUser();
    const withheld = withholdTokenResponse();
    await enterMargin(userId);
    const took = startStopwatch();

    expect((await getThread(agent)).status).toBe(200);
    expect(took()).toBeLessThan(4_000);

    withheld.release();
  });

  test('is refreshed once after a 401, and the call is repeated', async () => {
    const { agent } = await signInUser();
    advanceClock(5);
    site.sandbox.faults.set({ listener: 'platform', times: 1, kind: 'response', status: 401, body: {} });

    expect((await getThread(agent)).status).toBe(200);
    expect([countTokenCalls(), countPlatformCalls()]).toEqual([1, 2]);
  });

  test('is refreshed only once if the platform responds with 401 each time', async () => {
    const { agent } = await signInUser();
    advanceClock(5);
    // The clock stands still: for the two seconds in which a token counts as new, even on a busy machine.
    vi.useFakeTimers({ toFake: ['Date'] });
    site.sandbox.faults.set({ listener: 'platform', kind: 'response', status: 401, body: {} });

    const { status, json } = await getThread(agent);
    expect([status, json.code]).toEqual([502, 'platform_error']);
    expect([countTokenCalls(), countPlatformCalls()]).toEqual([1, 2]);
    // The token is new, so another refresh would not help.
    expect((await getThread(agent)).status).toBe(502);
    expect([countTokenCalls(), countPlatformCalls()]).toEqual([1, 3]);
  });

  test('is refreshed after a 401 even if the clock was set back by an hour (F12)', async () => {
    const { agent, userId } = await signInUser();
    await storage.changeGrant(userId, () => ({
      obtainedAt: Date.now() + 3_600_000,
      expiresAt: Date.now() + 3_660_000,
    }));
    site.sandbox.faults.set({ listener: 'platform', times: 1, kind: 'response', status: 401, body: {} });

    expect((await getThread(agent)).status).toBe(200);
    expect(countTokenCalls()).toBe(1);
  });

  test('is not replaced after a 401 while the provider is unavailable', async () => {
    const { agent } = await signInUser();
    advanceClock(5);
    site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', kind: 'error' });
    site.sandbox.faults.set({ listener: 'platform', times: 1, kind: 'response', status: 401, body: {} });

    const { status, json, headers } = await getThread(agent);
    expect([status, json.code]).toEqual([503, 'provider_unavailable']);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  });
});

test('the time of the last use is stored for the pages, and deleted with the connection', async () => {
  const { agent, userId } = await signInUser('second@example.test');
  expect((await getThread(agent)).status).toBe(200);

  await until(async () => (await connectionsOf(site, agent))[0]?.lastUsedAt !== null);
  expect(await disconnect(site, agent)).toMatchObject({ revocation: 'revoked' });
  expect(await storage.grants.lastUse(userId, 'platform')).toBeUndefined();
  expect((await agent.get(`${site.url}/connections`, JSON_ONLY)).body).toBe('{"items":[]}');
});
