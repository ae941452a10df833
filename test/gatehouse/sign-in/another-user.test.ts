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
const cookiesOf = (agent: UserAgent) =>
  Object.fromEntries(secretCookiesOf(agent).map(({ name, value }) => [name, value]));
async function pendingAs(person: object, agent: UserAgent, path = START): Promise<string> {
  site.provider.signInAs(person as typeof ANN);
  return (await callbackFor((await begin(site, { agent, path })).location)).href;
}
async function signInAs(person: typeof ANN, agent = createUserAgent()): Promise<UserAgent> {
  site.provider.signInAs(person);
  expect((await attempt(site, { agent, path: START })).signedIn).toBe(true);
  return agent;
}
const nameOf = async (agent: UserAgent) =>
  ((await getJson(agent, `${site.url}/session`)).json.user as { email?: string } | undefined)?.email;
const post = async (agent: UserAgent, path: string) =>
  agent.request(site.url + path, {
    method: 'POST',
    body: new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) }),
    follow: false,
  });

/** The callback of an attacker, who started a sign-in with the cookies of the victim's browser. */
async function linkWith(cookies: Record<string, string>): Promise<string> {
  const attacker = createUserAgent();
  for (const [name, value] of Object.entries(cookies)) attacker.cookies.set(site.url, name, value);
  return pendingAs(MALLORY, attacker);
}

describe('R103 the cookie of pending requests', () => {
  test('changes at sign-in and is deleted at sign-out, so a callback of the old one signs nobody in', async () => {
    const agent = createUserAgent();
    await begin(site, { agent, path: START });
    const before = cookiesOf(agent);
    const link = await linkWith(before);
    await signInAs(ANN, agent);
    for (const value of Object.values(before)) expect(Object.values(cookiesOf(agent))).not.toContain(value);
    await post(agent, '/sign-out');
    expect(cookiesOf(agent)).toEqual({});
    expectNamedCause(await agent.get(link), SIGN_IN_FAILURES.cookie_missing.detail);
    await begin(site, { agent, path: START });
    expectNamedCause(await agent.get(link), SIGN_IN_FAILURES.cookie_missing.detail);
    expect(await isSignedIn(site, agent)).toBe(false);
  });

  test.each([
    ['its own page', {}, ''],
    ['a page of another site', { origin: 'https://evil.example' }, 'kept'],
    ['a page of the same site', { 'sec-fetch-site': 'same-site' }, 'kept'],
    ['a page without an origin', { origin: 'null' }, 'kept'],
  ])(
    'is deleted by a sign-out without a session only if its own page sent it: %s',
    async (_whose, headers, expected) => {
      const agent = await signInAs(ANN);
      const link = await pendingAs(ANN, agent);
      agent.cookies.set(site.url, sessionCookieName(site.url), undefined);
      const before = cookiesOf(agent);
      const signedOut = await agent.request(`${site.url}/sign-out`, { method: 'POST', headers, follow: false });
      expect([signedOut.status, cookiesOf(agent)]).toEqual([303, expected === 'kept' ? before : {}]);
      if (expected === 'kept') return;
      expectNamedCause(await agent.get(link), SIGN_IN_FAILURES.cookie_missing.detail);
      expect(await isSignedIn(site, agent)).toBe(false);
    },
  );

  test('from before the sign-in is useless without a session', async () => {
    const agent = createUserAgent();
    await begin(site, { agent, path: START });
    const link = await linkWith(cookiesOf(agent));
    await signInAs(ANN, agent);
    agent.cookies.set(site.url, sessionCookieName(site.url), undefined);
    expect((await agent.get(link)).status).toBe(400);
    expect(await isSignedIn(site, agent)).toBe(false);
  });

  test('R64 five tabs that started before the sign-in all reach their return paths', async () => {
    const agent = createUserAgent();
    const paths = Array.from({ length: 5 }, (_, n) => `/problems/not_found?tab=${n}`);
    const callbacks: string[] = [];
    for (const path of paths)
      callbacks.push(await pendingAs(ANN, agent, `${START}&return_to=${encodeURIComponent(path)}`));
    const ends: (string | null)[] = [];
    for (const callback of callbacks) ends.push((await agent.get(callback, { follow: false })).headers.get('location'));
    expect(ends).toEqual(paths);
    expect(await nameOf(agent)).toBe(ANN.email);
  });

  test('R64 a connection completes even if the same user signs in again meanwhile', async () => {
    const agent = await signInAs(ANN);
    const location = (await post(agent, '/connections/second')).headers.get('location') ?? '';
    const callback = (await callbackFor(location)).href;
    await signInAs(ANN, agent);
    expect((await agent.get(callback, { follow: false })).headers.get('location')).toBe('/connections/second');
  });
});

describe('R103 the callback of a user who is not the signed-in one', () => {
  const referenceOn = (page: Page) => /data-copy-source>([^<]+)</.exec(page.body)?.[1] ?? 'none';
  const expectOffer = async (agent: UserAgent, page: Page) => {
    expect(page.headers.get('referrer-policy')).toBe('strict-origin');
    const signedOut = await agent.submit(page, {}, { button: 'Sign out' });
    expect(signedOut.visited[0]).toBe(`${site.url}/sign-out`);
    expect(await isSignedIn(site, agent)).toBe(false);
  };

  test('of a sign-in stores nothing, revokes the tokens, and offers to sign out', async () => {
    const agent = await signInAs(ANN);
    const callback = await pendingAs(MALLORY, agent);
    site.provider.reset();
    const page = await agent.get(callback);
    expectNamedCause(page, SIGN_IN_FAILURES.other_user_signed_in.detail);
    expect(await nameOf(agent)).toBe(ANN.email);
    expect(site.provider.hitsOf('token')).toHaveLength(1);
    await expect.poll(() => site.provider.hitsOf('revocation')).toHaveLength(1);
    const store = await createSqliteStore({ directory: site.dataDirectory });
    const mallory = userIdOf(site.provider.issuer, MALLORY.sub);
    expect(await store.get(keys.grant(mallory, 'elsewhere'))).toBeUndefined();
    expect(await store.get(keys.user(mallory))).toBeUndefined();
    await store.close();
    const { json } = await getJson(agent, `${site.url}/admin/api/sign-ins/${referenceOn(page)}`);
    expect(json).toMatchObject({ outcome: 'failed', cause: { name: 'other_user_signed_in' } });
    await expectOffer(agent, page);
  });

  test('does not wait for a revocation that hangs', async () => {
    const agent = await signInAs(ANN);
    const callback = await pendingAs({ sub: 'slow' }, agent);
    site.provider.setModes('revocation-hang');
    const took = startStopwatch();
    expectNamedCause(await agent.get(callback), SIGN_IN_FAILURES.other_user_signed_in.detail);
    expect(took()).toBeLessThan(5_000);
  });

  test('keeps an existing connection of that user', async () => {
    await signInAs(MALLORY as typeof ANN);
    const agent = await signInAs(ANN);
    const callback = await pendingAs(MALLORY, agent);
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
    expect(json).toMatchObject({ cause: { name: 'other_user' } });
    await expectOffer(agent, page);
  });

  test('does not concern a second sign-in of the same user', async () => {
    const agent = await signInAs(ANN);
    await signInAs(ANN, agent);
    expect(await nameOf(agent)).toBe(ANN.email);
  });
});
