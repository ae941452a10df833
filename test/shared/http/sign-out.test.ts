/** Signing out: only by the user, immediate, final, and safe with concurrent requests. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createUserAgent, type UserAgent } from '../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_HTML, ACCEPT_JSON, FORM_BODY, sendRequest } from '../../support/send-request.ts';
import { breakStore } from '../../support/store-fault.ts';
import { until } from '../../support/until.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterEach(() => site.sandbox.faults.clear());
afterAll(() => site.close());

const sessionOf = async (cookie: string) =>
  JSON.parse((await sendRequest(`${site.url}/session`, { headers: { cookie } })).body);
const csrfOf = async (agent: UserAgent) => String((await getJson(agent, `${site.url}/session`)).json.csrfToken);

async function signedIn() {
  const { agent } = await signIn(site);
  return { agent, cookie: agent.cookies.header(site.url), csrf: await csrfOf(agent) };
}

const signOut = (cookie: string, csrf: string, query = '') =>
  sendRequest(`${site.url}/sign-out${query}`, {
    method: 'POST',
    headers: { cookie, ...FORM_BODY, ...ACCEPT_HTML },
    body: `_csrf=${csrf}`,
  });

describe('R57 sign-out', () => {
  test('needs a POST with the CSRF token: a GET and a cross-site POST change nothing', async () => {
    const { cookie, csrf } = await signedIn();
    expect((await sendRequest(`${site.url}/sign-out`, { headers: { cookie } })).status).toBe(405);
    expect(
      (await sendRequest(`${site.url}/sign-out?_csrf=${csrf}`, { method: 'POST', headers: { cookie } })).status,
    ).toBe(403);

    const foreign = await sendRequest(`${site.url}/sign-out`, {
      method: 'POST',
      headers: { cookie, ...FORM_BODY, origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' },
      body: `_csrf=${csrf}`,
    });
    expect(foreign.status).toBe(403);
    expect((await sessionOf(cookie)).signedIn).toBe(true);
  });

  test('ends the session, clears the cookie, and redirects to the provider with a hint', async () => {
    const { cookie, csrf } = await signedIn();
    const ended = await signOut(cookie, csrf);
    expect(ended.status).toBe(303);

    const target = new URL(ended.headers.location ?? '');
    expect(target.origin).toBe(site.sandbox.issuer);
    expect(target.searchParams.get('post_logout_redirect_uri')).toBe(`${site.url}/`);
    expect(target.searchParams.get('id_token_hint')).toMatch(/^ey/);

    const [line = ''] = ended.headers['set-cookie'] ?? [];
    expect(line).toMatch(/^gatehouse\.\d+=; Path=\/; Expires=Thu, 01 Jan 1970/);
    expect((await sessionOf(cookie)).signedIn).toBe(false);

    for (const path of ['/threads/current', '/bin/45717360']) {
      expect((await sendRequest(site.url + path, { headers: { cookie, ...ACCEPT_JSON } })).status).toBe(401);
    }
  });

  test('with a local return_to it ends only the session here, and redirects to a sign-in with another account', async () => {
    const { cookie, csrf } = await signedIn();
    const { status, headers } = await signOut(cookie, csrf, '?return_to=%2Fconnections%3Fa%3Db');
    expect([status, headers.location]).toEqual([
      303,
      `${site.url}/sign-in?prompt=select_account&return_to=%2Fconnections%3Fa%3Db`,
    ]);
    expect((await sessionOf(cookie)).signedIn).toBe(false);

    for (const foreignTarget of ['//evil.example/', 'https://evil.example/', '/\\evil.example']) {
      const other = await signedIn();
      const ended = await signOut(other.cookie, other.csrf, `?return_to=${encodeURIComponent(foreignTarget)}`);
      expect(new URL(ended.headers.location ?? '').origin).toBe(site.sandbox.issuer);
      expect(ended.headers.location).not.toContain('evil');
    }
  });

  test('without a session it redirects to the home page, or to a sign-in with another account', async () => {
    const response = await sendRequest(`${site.url}/sign-out`, {
      method: 'POST',
      headers: { ...FORM_BODY, ...ACCEPT_HTML },
      body: '',
    });
    expect([response.status, response.headers.location]).toEqual([303, '/']);
    const other = await signOut('', '', '?return_to=%2Fconnections');
    expect([other.status, other.headers.location]).toEqual([
      303,
      `${site.url}/sign-in?prompt=select_account&return_to=%2Fconnections`,
    ]);
  });

  test('redirects to the home page if the provider has no sign-out endpoint', async () => {
    const { cookie, csrf } = await signedIn();
    // The new process has not read the provider's metadata.
    await site.restart();
    site.sandbox.faults.set({ listener: 'identity-provider', kind: 'response', status: 500, body: {} });
    const ended = await signOut(cookie, csrf);
    expect([ended.status, ended.headers.location]).toEqual([303, '/']);
    expect((await sessionOf(cookie)).signedIn).toBe(false);

    // The failure is cached for some seconds.
    site.sandbox.faults.clear();
    await site.restart();
  });

  test('works immediately while the provider is down', async () => {
    const other = await startSite();
    try {
      const { agent } = await signIn(other);
      await other.restart();
      const { promise: restored, resolve: restore } = Promise.withResolvers<void>();
      other.sandbox.faults.set({ listener: 'identity-provider', kind: 'hold', until: restored });
      const cookie = agent.cookies.header(other.url);
      const { csrfToken } = JSON.parse((await sendRequest(`${other.url}/session`, { headers: { cookie } })).body);
      const ending = sendRequest(`${other.url}/sign-out`, {
        method: 'POST',
        headers: { cookie, ...FORM_BODY, ...ACCEPT_HTML },
        body: `_csrf=${csrfToken}`,
      });
      const session = async () => JSON.parse((await sendRequest(`${other.url}/session`, { headers: { cookie } })).body);
      await until(async () => !(await session()).signedIn);
      expect(await session()).toEqual({ signedIn: false });

      restore();
      expect((await ending).status).toBe(303);
    } finally {
      await other.close();
    }
  });

  test('R65 reports a failed write, and the user stays signed in', async () => {
    const { cookie, csrf } = await signedIn();
    const heal = breakStore();
    const refused = await signOut(cookie, csrf);
    heal();
    expect(refused.status).toBe(503);
    expect(refused.headers['set-cookie']).toBeUndefined();
    expect((await sessionOf(cookie)).signedIn).toBe(true);
  });
});

describe('R62 sign-out cannot be undone', () => {
  test('by a concurrent consent with the same session', async () => {
    const { agent, cookie, csrf } = await signedIn();
    const { calls: untilCalled, release } = holdTokenEndpoint();
    const slow = agent.request(`${site.url}/connections/platform`, {
      method: 'POST',
      body: new URLSearchParams({ _csrf: csrf }),
      headers: { origin: site.url },
    });
    await untilCalled();
    expect((await signOut(cookie, csrf)).status).toBe(303);

    release();
    await slow;
    expect((await sessionOf(cookie)).signedIn).toBe(false);
    expect((await getJson(agent, `${site.url}/session`)).json.signedIn).toBe(false);
  });

  test('by a concurrent sign-in: the old cookie stays invalid', async () => {
    const { agent, cookie, csrf } = await signedIn();
    const { calls, release } = holdTokenEndpoint();
    const slow = agent.get(`${site.url}/sign-in`);
    await calls();
    expect((await signOut(cookie, csrf)).status).toBe(303);

    release();
    await slow;
    expect((await sessionOf(cookie)).signedIn).toBe(false);
  });

  test('by slow requests that read with the session', async () => {
    const { cookie, csrf } = await signedIn();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const before = site.sandbox.requests.count('GET /1/threads/current', 'platform');
    site.sandbox.faults.set({ listener: 'platform', kind: 'hold', until: released });
    const slow = ['/', '/threads/current'].map((path) =>
      sendRequest(site.url + path, { headers: { cookie, ...ACCEPT_HTML } }),
    );
    await until(() => site.sandbox.requests.count('GET /1/threads/current', 'platform') === before + 2);
    await signOut(cookie, csrf);
    release();
    for (const response of await Promise.all(slow)) expect(response.headers['set-cookie']).toBeUndefined();
    expect((await sessionOf(cookie)).signedIn).toBe(false);
  });
});

/** Holds the response of the token endpoint until `release`. `calls` resolves once the endpoint was called. */
function holdTokenEndpoint() {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const before = site.sandbox.requests.count('POST /token');
  site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', kind: 'hold', until: released, times: 1 });
  const calls = () => until(() => site.sandbox.requests.count('POST /token') > before);
  return { calls, release };
}

test('two users in two browsers do not sign each other out', async () => {
  const first = await signedIn();
  const { agent: second } = await signIn(site, 'second@example.test', { agent: createUserAgent() });
  await signOut(first.cookie, first.csrf);
  expect((await getJson(second, `${site.url}/session`)).json.signedIn).toBe(true);
});
