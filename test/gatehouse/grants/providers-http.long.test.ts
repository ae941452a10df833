/**
 * Providers that differ: no lifetime in their responses, no refresh token, no revocation; and the result of a
 * disconnect.
 */
import { afterEach, describe, expect, test } from 'vitest';
import { keys } from '../../../src/shared/storage/keys.ts';
import { getJson, type SiteOptions, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { connectionsOf, disconnect, openStorageOf, type StorageAccess, sessionOf } from './storage-access.ts';

let site: TestSite;
let storage: StorageAccess;
afterEach(async () => {
  await storage.close();
  await site.close();
});

type Json = Record<string, unknown>;
const getThread = (agent: Awaited<ReturnType<typeof signIn>>['agent']) => getJson(agent, `${site.url}/threads/current`);
const countCalls = () => ({
  token: site.sandbox.requests.count('POST /token'),
  platform: site.sandbox.requests.count('GET /1/threads/current'),
});

/** A site whose provider changes its responses at `path`, with a user who is signed in. */
async function signInWith(path: string, change: (body: Json) => object, options: SiteOptions = {}) {
  site = await startSite(options);
  storage = await openStorageOf(site);
  site.sandbox.faults.set({ listener: 'identity-provider', path, kind: 'rewrite', change });
  const { agent } = await signIn(site);
  const { userId } = await sessionOf(site, agent);
  site.sandbox.requests.reset();
  return { agent, userId };
}

const withoutLifetime = ({ expires_in: _, ...rest }: Json) => rest;
const withoutRefreshToken = ({ refresh_token: _, ...rest }: Json) => rest;

describe('a provider that does not say how long a token lasts', () => {
  test('a 401 of the platform shows that the token has expired: it is refreshed, and the call repeated', async () => {
    const { agent, userId } = await signInWith('/token', withoutLifetime);
    expect((await storage.readGrant(userId)).expiresAt).toBeUndefined();
    expect((await getThread(agent)).status).toBe(200);
    expect(countCalls()).toEqual({ token: 0, platform: 1 });

    advanceClock(61);
    expect((await getThread(agent)).status).toBe(200);
    expect(countCalls()).toEqual({ token: 1, platform: 3 });
  });

  test('accessTokenLifetimeSeconds sets the lifetime: the token is refreshed before the platform refuses it', async () => {
    const { agent, userId } = await signInWith('/token', withoutLifetime, { app: { accessTokenLifetimeSeconds: 30 } });
    const { expiresAt = 0, obtainedAt } = await storage.readGrant(userId);
    expect(expiresAt - obtainedAt).toBe(30_000);

    advanceClock(31);
    expect((await getThread(agent)).status).toBe(200);
    expect(countCalls()).toEqual({ token: 1, platform: 1 });
  });

  test('accessTokenLifetimeSeconds does not override the lifetime of the response', async () => {
    const { userId } = await signInWith('/token', (body) => body, { app: { accessTokenLifetimeSeconds: 30 } });
    const { expiresAt = 0, obtainedAt } = await storage.readGrant(userId);
    expect(expiresAt - obtainedAt).toBe(60_000);
  });
});

describe('a provider that says when the refresh token ends', () => {
  test.each([
    ['refresh_token_expires_in', 259_000, 'expiring'],
    ['refresh_expires_in', '259000', 'expiring'],
    ['refresh_token_expires_in', 300_000, 'active'],
    ['refresh_expires_in', 0, 'active'],
    ['refresh_token_expires_in', 'soon', 'active'],
  ])('%s %j: the connection is %s', async (member, value, health) => {
    const { agent } = await signInWith('/token', (body) => ({ ...body, [member]: value }));
    expect((await connectionsOf(site, agent))[0]?.health).toBe(health);
  });
});

describe('a provider that issues no refresh token', () => {
  test('the connection is expiring, works until it expires, and then needs reconnecting', async () => {
    const { agent, userId } = await signInWith('/token', withoutRefreshToken);
    expect((await connectionsOf(site, agent))[0]?.health).toBe('expiring');

    const expiresAt = Date.now() + 30_000;
    await storage.changeGrant(userId, () => ({ obtainedAt: expiresAt - 600_000, expiresAt }));

    expect((await getThread(agent)).status).toBe(200);

    advanceClock(31);
    // The connection needs reconnecting even before it is used.
    expect((await connectionsOf(site, agent))[0]).toMatchObject({
      health: 'reconnect_needed',
      cause: 'access_ended',
    });

    const { status, json } = await getThread(agent);
    expect([status, json.code]).toEqual([403, 'reconnect_needed']);
    expect((await connectionsOf(site, agent))[0]).toMatchObject({
      health: 'reconnect_needed',
      cause: 'access_ended',
    });
    expect(countCalls().token).toBe(0);
  });

  test('a 401 of the platform makes it unverified, and a successful response ends that', async () => {
    const { agent } = await signInWith('/token', (body) => withoutRefreshToken(withoutLifetime(body)));
    advanceClock(5);
    site.sandbox.faults.set({ listener: 'platform', times: 1, kind: 'response', status: 401, body: {} });

    const { status, json } = await getThread(agent);
    expect([status, json.code]).toEqual([403, 'reconnect_needed']);

    const readHealth = async () => (await connectionsOf(site, agent))[0]?.health;
    expect(await readHealth()).toBe('unverified');
    expect((await getThread(agent)).status).toBe(200);
    await expect.poll(readHealth).toBe('active');
    expect(countCalls().token).toBe(0);
  });

  test('disconnecting revokes the access token', async () => {
    const { agent } = await signInWith('/token', withoutRefreshToken);
    expect(await disconnect(site, agent)).toMatchObject({ revocation: 'revoked' });
    expect(site.sandbox.requests.count('POST /revoke')).toBe(1);
  });
});

describe('disconnecting deletes the grant and reports the result of the revocation', () => {
  const unchanged = (body: Json) => body;
  const cases: [string, object, (site: TestSite) => unknown][] = [
    ['revoked', { status: 200 }, () => undefined],
    [
      'pending',
      { status: 500 },
      ({ sandbox }) => sandbox.faults.set({ listener: 'identity-provider', path: '/revoke', kind: 'error' }),
    ],
    [
      'pending',
      { error: 'connection' },
      ({ sandbox }) => sandbox.faults.set({ listener: 'identity-provider', path: '/revoke', kind: 'reset' }),
    ],
  ];
  test.each(cases)('as %s, with the response of the provider: %o', async (outcome, provider, prepare) => {
    const { agent, userId } = await signInWith('/token', unchanged);
    prepare(site);
    await getThread(agent);
    const result = { app: 'platform', disconnected: true, revocation: outcome, providerResponse: provider };

    expect(await disconnect(site, agent)).toEqual({ ...result, id: expect.stringMatching(/^cn/) });
    expect(await storage.store.get(keys.grant(userId, 'platform'))).toBeUndefined();
    expect(await storage.store.get(keys.lastUse(userId, 'platform'))).toBeUndefined();
    expect(await storage.store.count(keys.grants(userId))).toBe(0);

    const { status, json } = await getThread(agent);
    expect([status, json.code]).toEqual([403, 'not_connected']);
    // When the user disconnects for the second time, there is no connection.
    expect(await disconnect(site, agent)).toEqual({
      ...result,
      id: null,
      disconnected: false,
      revocation: null,
      providerResponse: null,
    });
  });

  test('as unsupported if the provider has no revocation endpoint', async () => {
    const { agent } = await signInWith(
      '/.well-known/openid-configuration',
      ({ revocation_endpoint: _, ...rest }) => rest,
    );
    expect(await disconnect(site, agent)).toMatchObject({ disconnected: true, revocation: 'unsupported' });
    expect(site.sandbox.requests.count('POST /revoke')).toBe(0);
  });

  test('on the page, which offers to connect again', async () => {
    const { agent } = await signInWith('/token', unchanged);
    const page = await agent.get(`${site.url}/connections/platform`);

    const resultPage = await agent.submit(page, {}, { button: 'Disconnect' });
    expect(resultPage.url).toMatch(`${site.url}/connections/platform?done=`);
    expect(resultPage.body).toContain('The provider has confirmed that our access is withdrawn');
    expect(resultPage.forms.some(({ action }) => action.endsWith('/connections/platform'))).toBe(true);
  });
});
