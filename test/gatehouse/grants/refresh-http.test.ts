/** Refreshing over HTTP: one token call for many requests, no token is lost, and no user gets data of another. */
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { CLIENT_SECRET, getJson, JSON_ONLY, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { until } from '../../support/until.ts';
import { disconnect, openStorageOf, type StorageAccess, sessionOf } from './storage-access.ts';

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

const ENDED = 61;
const thread = (agent: Awaited<ReturnType<typeof signIn>>['agent']) => getJson(agent, `${site.url}/threads/current`);
const tokenCalls = () => site.sandbox.requests.count('POST /token');
const platformCalls = () => site.sandbox.requests.count('GET /1/threads/current');

async function signedIn(login?: string) {
  const { agent } = await signIn(site, login);
  const { userId } = await sessionOf(site, agent);
  site.sandbox.requests.reset();
  return { agent, userId };
}

/** Lets the provider process the call and then delays its response. */
function withheldAnswer() {
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
  return { made: () => until(() => body !== undefined), release, body: () => body ?? {} };
}

async function isActive(token: string | undefined): Promise<boolean> {
  const response = await fetch(`${site.sandbox.issuer}/introspect`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`test-platform:${CLIENT_SECRET}`).toString('base64')}` },
    body: new URLSearchParams({ token: token ?? '' }),
  });
  return ((await response.json()) as { active: boolean }).active;
}

describe('one refresh for all', () => {
  test('R31: 50 parallel requests on an expired token make 1 token call and get 50 successful responses', async () => {
    const { agent } = await signedIn();
    advanceClock(ENDED);
    const responses = await Promise.all(Array.from({ length: 50 }, () => thread(agent)));
    expect(responses.map(({ status }) => status)).toEqual(Array(50).fill(200));
    expect(tokenCalls()).toBe(1);
    expect(platformCalls()).toBe(50);
  });

  test('R31: the same for a token that the platform refuses before it expires', async () => {
    const { agent, userId } = await signedIn();
    advanceClock(10);
    await storage.changeGrant(userId, () => ({ accessToken: 'revoked-by-the-platform' }));
    const responses = await Promise.all(Array.from({ length: 50 }, () => thread(agent)));
    expect(responses.map(({ status }) => status)).toEqual(Array(50).fill(200));
    expect(tokenCalls()).toBe(1);
  });

  test('R33: of 200 requests of several users on expired tokens, none returns the thread of another user', async () => {
    const logins = ['user@example.test', 'second@example.test', 'admin@example.test'];
    const users = await Promise.all(logins.map((login) => signedIn(login)));
    const own = await Promise.all(users.map(async ({ agent }) => JSON.stringify((await thread(agent)).json)));
    expect(new Set(own).size).toBe(3);
    site.sandbox.requests.reset();
    advanceClock(ENDED);
    const mixed = await Promise.all(
      Array.from({ length: 200 }, async (_, at) => {
        const { agent } = users[at % 3] ?? { agent: undefined };
        return agent && JSON.stringify((await thread(agent)).json);
      }),
    );
    expect(mixed).toEqual(Array.from({ length: 200 }, (_, at) => own[at % 3]));
    expect(tokenCalls()).toBe(3);
  });
});

describe('incomplete and broken responses', () => {
  test('R30: a response without a new refresh token keeps the old one', async () => {
    const { agent, userId } = await signedIn();
    const before = await storage.readGrant(userId);
    site.sandbox.faults.set({
      listener: 'identity-provider',
      path: '/token',
      kind: 'rewrite',
      change: ({ refresh_token: _, ...rest }) => rest,
    });
    advanceClock(ENDED);
    expect((await thread(agent)).status).toBe(200);
    const after = await storage.readGrant(userId);
    expect(after.refreshToken).toBe(before.refreshToken);
    expect(after.refreshToken).toBeTruthy();
    expect(after.accessToken).not.toBe(before.accessToken);
  });

  test.each([
    ['a bad ID token', (body: Record<string, unknown>) => ({ ...body, id_token: 'eyJhbGciOiJub25lIn0.e30.' })],
    ['no access token', ({ access_token: _, ...rest }: Record<string, unknown>) => rest],
    ['an unknown token type', (body: Record<string, unknown>) => ({ ...body, token_type: 'mac' })],
  ])('R32: the new refresh token of a 200 with %s is stored and used', async (_name, change) => {
    const { agent, userId } = await signedIn();
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
    advanceClock(ENDED);
    const refused = await thread(agent);
    expect([refused.status, refused.json.code]).toEqual([503, 'provider_unavailable']);
    expect((await storage.readGrant(userId)).refreshToken).toBe(newRefreshToken);
    // The sandbox rotates strictly: the first refresh token would end the whole grant now.
    advanceClock(60);
    expect((await thread(agent)).status).toBe(200);
  });

  test.each([[-5], [1e300], [0], ['soon'], [[60]]])('R27, R32: expires_in %j does no harm', async (value) => {
    const { agent, userId } = await signedIn();
    site.sandbox.faults.set({
      listener: 'identity-provider',
      path: '/token',
      times: 1,
      kind: 'rewrite',
      change: (body) => ({ ...body, expires_in: value }),
    });
    advanceClock(ENDED);
    expect((await thread(agent)).status).toBe(200);
    const { expiresAt } = await storage.readGrant(userId);
    expect(expiresAt === undefined || expiresAt <= Date.now() + 366 * 86_400_000).toBe(true);
  });
});

describe('a token that was used or revoked elsewhere', () => {
  test('R37: after invalid_grant, the grant is read again, and newer tokens are used', async () => {
    const { agent, userId } = await signedIn();
    const { refreshToken } = await storage.readGrant(userId);
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', times: 1, kind: 'hold', until: released });
    advanceClock(ENDED);
    const waiting = thread(agent);
    await until(() => tokenCalls() === 1);
    // Another process connects the same user again, and the old grant is revoked at the provider.
    await signIn(site);
    await fetch(`${site.sandbox.issuer}/revoke`, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(`test-platform:${CLIENT_SECRET}`).toString('base64')}` },
      body: new URLSearchParams({ token: refreshToken ?? '' }),
    });
    expect(await isActive(refreshToken)).toBe(false);
    release();
    expect((await waiting).status).toBe(200);
    expect((await sessionOf(site, agent)).connections[0]).toMatchObject({ health: 'active', cause: null });
  });

  test('R43: a disconnect during a refresh takes effect, and the new token is revoked', async () => {
    const { agent, userId } = await signedIn();
    const withheld = withheldAnswer();
    advanceClock(ENDED);
    const waiting = thread(agent);
    await withheld.made();
    const fresh = withheld.body().access_token;
    expect(await isActive(fresh)).toBe(true);
    // The first revocation fails, so only the revocation of the new token can end the grant at the provider.
    site.sandbox.faults.set({ listener: 'identity-provider', path: '/revoke', times: 1, kind: 'error' });
    expect(await disconnect(site, agent)).toMatchObject({ disconnected: true, revocation: 'pending' });
    withheld.release();
    const late = await waiting;
    expect([late.status, late.json.code]).toEqual([403, 'not_connected']);
    expect(await storage.grants.loadStored(userId, 'platform')).toBeUndefined();
    expect(site.sandbox.requests.count('POST /revoke')).toBe(2);
    expect(await isActive(fresh)).toBe(false);
    expect((await thread(agent)).json.code).toBe('not_connected');
  });

  test('F22: a refresh whose caller disconnects is finished and stored', async () => {
    const { agent, userId } = await signedIn();
    const withheld = withheldAnswer();
    advanceClock(ENDED);
    const caller = new AbortController();
    const cookie = agent.cookies.header(site.url);
    const call = fetch(`${site.url}/threads/current`, { headers: { cookie }, signal: caller.signal });
    await withheld.made();
    caller.abort();
    await expect(call).rejects.toThrow();
    withheld.release();
    await until(async () => (await storage.readGrant(userId)).refreshToken === withheld.body().refresh_token);
    site.sandbox.requests.reset();
    expect((await thread(agent)).status).toBe(200);
    expect(tokenCalls()).toBe(0);
    expect(site.logs().filter((line) => line.includes('"code":"upstream_error"'))).toEqual([]);
  });

  test('R90: stopping waits for a refresh in flight', async () => {
    const { agent, userId } = await signedIn();
    const withheld = withheldAnswer();
    advanceClock(ENDED);
    const caller = new AbortController();
    const headers = { cookie: agent.cookies.header(site.url) };
    fetch(`${site.url}/threads/current`, { headers, signal: caller.signal }).catch(() => undefined);
    await withheld.made();
    caller.abort();
    const restarted = site.restart();
    setTimeout(withheld.release, 300);
    await restarted;
    expect((await storage.readGrant(userId)).refreshToken).toBe(withheld.body().refresh_token);
    expect((await thread(agent)).status).toBe(200);
  });
});

describe('R42: the access token', () => {
  /** 30 s before an access token of ten minutes expires, within the margin in which it is refreshed. */
  const enterMargin = (userId: string) => {
    const expiresAt = Date.now() + 30_000;
    return storage.changeGrant(userId, () => ({ obtainedAt: expiresAt - 600_000, expiresAt }));
  };

  test('is used within the margin while the refresh fails', async () => {
    const { agent, userId } = await signedIn();
    site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', kind: 'error' });
    await enterMargin(userId);
    for (let i = 0; i < 5; i += 1) expect((await thread(agent)).status).toBe(200);
    expect(tokenCalls()).toBe(1);
  });

  test('is used within the margin while the provider hangs, without a long wait', async () => {
    const { agent, userId } = await signedIn();
    const withheld = withheldAnswer();
    await enterMargin(userId);
    const took = startStopwatch();
    expect((await thread(agent)).status).toBe(200);
    expect(took()).toBeLessThan(4_000);
    withheld.release();
  });

  test('is refreshed once after a 401, and the call is repeated', async () => {
    const { agent } = await signedIn();
    advanceClock(5);
    site.sandbox.faults.set({ listener: 'platform', times: 1, kind: 'response', status: 401, body: {} });
    expect((await thread(agent)).status).toBe(200);
    expect([tokenCalls(), platformCalls()]).toEqual([1, 2]);
  });

  test('is refreshed at most once if the platform always responds with 401', async () => {
    const { agent } = await signedIn();
    advanceClock(5);
    // For two seconds, however long they take on a busy machine.
    vi.useFakeTimers({ toFake: ['Date'] });
    site.sandbox.faults.set({ listener: 'platform', kind: 'response', status: 401, body: {} });
    const { status, json } = await thread(agent);
    expect([status, json.code]).toEqual([502, 'upstream_error']);
    expect([tokenCalls(), platformCalls()]).toEqual([1, 2]);
    // The token is new, so another refresh would not help.
    expect((await thread(agent)).status).toBe(502);
    expect([tokenCalls(), platformCalls()]).toEqual([1, 3]);
  });

  test('is refreshed after a 401 even if the clock was set back by an hour (F12)', async () => {
    const { agent, userId } = await signedIn();
    await storage.changeGrant(userId, () => ({
      obtainedAt: Date.now() + 3_600_000,
      expiresAt: Date.now() + 3_660_000,
    }));
    site.sandbox.faults.set({ listener: 'platform', times: 1, kind: 'response', status: 401, body: {} });
    expect((await thread(agent)).status).toBe(200);
    expect(tokenCalls()).toBe(1);
  });

  test('is not replaced after a 401 while the provider is unavailable', async () => {
    const { agent } = await signedIn();
    advanceClock(5);
    site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', kind: 'error' });
    site.sandbox.faults.set({ listener: 'platform', times: 1, kind: 'response', status: 401, body: {} });
    const { status, json, headers } = await thread(agent);
    expect([status, json.code]).toEqual([503, 'provider_unavailable']);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  });
});

test('the time of the last use is stored for the pages, and deleted with the connection', async () => {
  const { agent, userId } = await signedIn('second@example.test');
  expect((await thread(agent)).status).toBe(200);
  await until(async () => (await sessionOf(site, agent)).connections[0]?.lastUsedAt !== null);
  expect(await disconnect(site, agent)).toMatchObject({ revocation: 'revoked' });
  expect(await storage.grants.lastUse(userId, 'platform')).toBeUndefined();
  expect((await agent.get(`${site.url}/connections`, JSON_ONLY)).body).toBe('{"connections":[]}');
});
