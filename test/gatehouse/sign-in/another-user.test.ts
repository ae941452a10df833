/** R103: a callback never replaces another user's session, and a pending request does not survive a sign-out. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { SIGN_IN_FAILURES } from '../../../src/gatehouse/sign-in-record/failures.ts';
import { userIdOf } from '../../../src/gatehouse/users/user-id.ts';
import { sessionCookieName } from '../../../src/shared/sessions/browser-sessions.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import { createUserAgent, type Page, type UserAgent } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import {
  attempt,
  begin,
  callbackFor,
  csrfTokenOf,
  expectNamedCause,
  type HostileSite,
  isSignedIn,
  secretCookiesOf,
  startHostileSite,
} from './attempt.ts';

const START = '/sign-in?app=elsewhere';
const ANN = { sub: 'ann', email: 'ann@example.test', groups: ['gatehouse-admins'] };
const MALLORY = { sub: 'mallory', email: 'mallory@example.test' };

let site: HostileSite;
beforeAll(async () => {
  site = await startHostileSite({
    apps: (provider, url) => [provider.app(url), provider.app(url, { id: 'second', signIn: undefined })],
  });
});
afterEach(() => site.provider.reset());
afterAll(() => site.close());

/** The values of the cookies with the browser's secrets, by name. */
const secretsOf = (agent: UserAgent) =>
  Object.fromEntries(secretCookiesOf(agent).map(({ name, value }) => [name, value]));
/** Starts a sign-in that the provider confirms for this user. @returns the callback URL, which is not opened */
async function startAs(user: object, agent: UserAgent, path = START): Promise<string> {
  site.provider.signInAs(user as typeof ANN);
  const { location } = await begin(site, { agent, path });
  return (await callbackFor(location)).href;
}
async function signInAs(user: typeof ANN, agent = createUserAgent()): Promise<UserAgent> {
  site.provider.signInAs(user);
  expect((await attempt(site, { agent, path: START })).signedIn).toBe(true);
  return agent;
}
async function readEmail(agent: UserAgent): Promise<string | undefined> {
  const { json } = await getJson(agent, `${site.url}/session`);
  const user = json.user as { email?: string } | undefined;
  return user?.email;
}
const post = async (agent: UserAgent, path: string) =>
  agent.request(site.url + path, {
    method: 'POST',
    body: new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) }),
    follow: false,
  });

/** Starts a sign-in of an attacker with the cookies of the victim's browser. @returns its callback URL */
async function startAttackWith(cookies: Record<string, string>): Promise<string> {
  const attacker = createUserAgent();
  for (const [name, value] of Object.entries(cookies)) attacker.cookies.set(site.url, name, value);
  return startAs(MALLORY, attacker);
}

describe('R103 the cookie of pending requests', () => {
  test('changes at sign-in and is deleted at sign-out, so a callback of the old one signs nobody in', async () => {
    const agent = createUserAgent();
    await begin(site, { agent, path: START });
    const earlierSecrets = secretsOf(agent);
    const attackersCallback = await startAttackWith(earlierSecrets);

    await signInAs(ANN, agent);
    const currentSecrets = Object.values(secretsOf(agent));
    for (const secret of Object.values(earlierSecrets)) expect(currentSecrets).not.toContain(secret);

    await post(agent, '/sign-out');
    expect(secretsOf(agent)).toEqual({});
    expectNamedCause(await agent.get(attackersCallback), SIGN_IN_FAILURES.cookie_missing.detail);
    await begin(site, { agent, path: START });
    expectNamedCause(await agent.get(attackersCallback), SIGN_IN_FAILURES.cookie_missing.detail);
    expect(await isSignedIn(site, agent)).toBe(false);
  });

  test.each([
    ['its own page', {}, 'deleted'],
    ['a page of another site', { origin: 'https://evil.example' }, 'kept'],
    ['a page of the same site', { 'sec-fetch-site': 'same-site' }, 'kept'],
    ['a page without an origin', { origin: 'null' }, 'kept'],
  ])(
    'is deleted by a sign-out without a session only if its own page sent it: %s',
    async (_sender, headers, expected) => {
      const agent = await signInAs(ANN);
      const callback = await startAs(ANN, agent);
      agent.cookies.set(site.url, sessionCookieName(site.url), undefined);
      const secrets = secretsOf(agent);

      const signedOut = await agent.request(`${site.url}/sign-out`, { method: 'POST', headers, follow: false });
      expect([signedOut.status, secretsOf(agent)]).toEqual([303, expected === 'kept' ? secrets : {}]);
      if (expected === 'kept') return;
      expectNamedCause(await agent.get(callback), SIGN_IN_FAILURES.cookie_missing.detail);
      expect(await isSignedIn(site, agent)).toBe(false);
    },
  );

  test('from before the sign-in is useless without a session', async () => {
    const agent = createUserAgent();
    await begin(site, { agent, path: START });
    const attackersCallback = await startAttackWith(secretsOf(agent));
    await signInAs(ANN, agent);
    agent.cookies.set(site.url, sessionCookieName(site.url), undefined);

    expect((await agent.get(attackersCallback)).status).toBe(400);
    expect(await isSignedIn(site, agent)).toBe(false);
  });

  test('R64 lets five tabs that started before the sign-in all reach their return paths', async () => {
    const agent = createUserAgent();
    const paths = Array.from({ length: 5 }, (_, tab) => `/problems/not_found?tab=${tab}`);
    const callbacks: string[] = [];
    for (const path of paths) {
      const start = `${START}&return_to=${encodeURIComponent(path)}`;
      callbacks.push(await startAs(ANN, agent, start));
    }

    const locations: (string | null)[] = [];
    for (const callback of callbacks) {
      const page = await agent.get(callback, { follow: false });
      locations.push(page.headers.get('location'));
    }
    expect(locations).toEqual(paths);
    expect(await readEmail(agent)).toBe(ANN.email);
  });

  test('R64 does not keep a connection from completing if the same user signs in again meanwhile', async () => {
    const agent = await signInAs(ANN);
    const location = (await post(agent, '/connections/second')).headers.get('location') ?? '';
    const callback = (await callbackFor(location)).href;

    await signInAs(ANN, agent);
    const page = await agent.get(callback, { follow: false });
    expect(page.headers.get('location')).toBe('/connections/second');
  });
});

describe('R103 the callback of a user who is not the signed-in one', () => {
  const referenceOn = (page: Page) => /data-copy-source>([^<]+)</.exec(page.body)?.[1] ?? 'none';
  const expectSignOutOffered = async (agent: UserAgent, page: Page) => {
    expect(page.headers.get('referrer-policy')).toBe('strict-origin');
    const signedOut = await agent.submit(page, {}, { button: 'Sign out' });
    expect(signedOut.visited[0]).toBe(`${site.url}/sign-out`);
    expect(await isSignedIn(site, agent)).toBe(false);
  };

  test('of a sign-in stores nothing, revokes the tokens, and offers to sign out', async () => {
    const agent = await signInAs(ANN);
    const callback = await startAs(MALLORY, agent);
    site.provider.reset();

    const page = await agent.get(callback);
    expectNamedCause(page, SIGN_IN_FAILURES.other_user_signed_in.detail);
    expect(await readEmail(agent)).toBe(ANN.email);
    expect(site.provider.hitsOf('token')).toHaveLength(1);

    await expect.poll(() => site.provider.hitsOf('revocation')).toHaveLength(1);

    const store = await createSqliteStore({ directory: site.dataDirectory });
    const userId = userIdOf(site.provider.issuer, MALLORY.sub);
    expect(await store.get(keys.grant(userId, 'elsewhere'))).toBeUndefined();
    expect(await store.get(keys.user(userId))).toBeUndefined();
    await store.close();

    const { json } = await getJson(agent, `${site.url}/admin/api/sign-ins/${referenceOn(page)}`);
    expect(json).toMatchObject({ outcome: 'failed', cause: { code: 'other_user_signed_in' } });
    await expectSignOutOffered(agent, page);
  });

  test('does not wait for a revocation that hangs', async () => {
    const agent = await signInAs(ANN);
    const callback = await startAs({ sub: 'slow' }, agent);
    site.provider.setModes('revocation-hang');

    const elapsed = startStopwatch();
    expectNamedCause(await agent.get(callback), SIGN_IN_FAILURES.other_user_signed_in.detail);
    expect(elapsed()).toBeLessThan(5_000);
  });

  test('revokes nothing if that user already has a connection', async () => {
    await signInAs(MALLORY as typeof ANN);
    const agent = await signInAs(ANN);
    const callback = await startAs(MALLORY, agent);
    site.provider.reset();
    expectNamedCause(await agent.get(callback), SIGN_IN_FAILURES.other_user_signed_in.detail);
    expect(site.provider.hitsOf('revocation')).toEqual([]);
  });

  test('of a connection sends no code, and offers to sign out', async () => {
    const agent = await signInAs(MALLORY as typeof ANN);
    const location = (await post(agent, '/connections/second')).headers.get('location') ?? '';
    const callback = (await callbackFor(location)).href;
    agent.cookies.set(site.url, sessionCookieName(site.url), undefined);
    await signInAs(ANN, agent);
    site.provider.reset();

    const page = await agent.get(callback);
    expectNamedCause(page, SIGN_IN_FAILURES.other_user.detail);
    expect(site.provider.hitsOf('token')).toEqual([]);
    const { json } = await getJson(agent, `${site.url}/admin/api/sign-ins/${referenceOn(page)}`);
    expect(json).toMatchObject({ cause: { code: 'other_user' } });
    await expectSignOutOffered(agent, page);
  });
});

test('R103 a second sign-in of the same user succeeds', async () => {
  const agent = await signInAs(ANN);
  await signInAs(ANN, agent);
  expect(await readEmail(agent)).toBe(ANN.email);
});
