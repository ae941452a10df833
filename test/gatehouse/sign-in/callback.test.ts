/** Callbacks by hostile browsers and hostile pages, over real HTTP against the shipped app. */

import { request } from 'node:http';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { SIGN_IN_FAILURES } from '../../../src/gatehouse/sign-in-record/failures.ts';
import { sessionCookieName } from '../../../src/shared/sessions/browser-sessions.ts';
import { createUserAgent, type UserAgent } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import { startHostileProvider } from '../../support/hostile-provider.ts';
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
  textOf,
} from './attempt.ts';

let site: HostileSite;

beforeAll(async () => {
  site = await startHostileSite({
    apps: (provider, url) => [provider.app(url), provider.app(url, { id: 'second' })],
  });
});
afterEach(() => {
  site.provider.reset();
  site.provider.signInAs({ sub: 'user-1', name: 'Ada Quill', email: 'ada@example.test' });
});
afterAll(() => site.close());

const START = '/sign-in?app=elsewhere';
const ANN = { sub: 'ann', name: 'Ann', email: 'ann@example.test' };
const BOB = { sub: 'bob', name: 'Bob', email: 'bob@example.test' };

/** Starts a sign-in, up to the provider's redirect. @returns the callback URL, which is not opened */
async function startSignIn(agent = createUserAgent(), path = START) {
  const { location } = await begin(site, { agent, path });
  return { agent, location, callback: await callbackFor(location) };
}

async function signInAs(user: typeof ANN): Promise<UserAgent> {
  site.provider.signInAs(user);
  const { agent, signedIn } = await attempt(site, { path: START });
  expect(signedIn).toBe(true);
  return agent;
}

async function startConnecting(agent: UserAgent, app = 'second', fields: object = {}): Promise<string> {
  const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent), ...fields });
  const page = await agent.request(`${site.url}/connections/${app}`, { method: 'POST', body, follow: false });
  return page.headers.get('location') ?? '';
}

async function readConnectedApps(agent: UserAgent): Promise<string[]> {
  const { items } = (await getJson(agent, `${site.url}/connections`)).json as { items: { app: string }[] };
  return items.map(({ app }) => app);
}

describe('R7, R8: a callback without a pending request of the browser', () => {
  test('R7 is refused in another browser, and the code is not sent', async () => {
    const { agent, callback } = await startSignIn();
    const thief = createUserAgent();
    const { agent: otherBrowser } = await startSignIn();

    expectNamedCause(await thief.get(callback.href), SIGN_IN_FAILURES.cookie_missing.detail);
    expectNamedCause(await otherBrowser.get(callback.href), SIGN_IN_FAILURES.cookie_missing.detail);
    expect(await isSignedIn(site, thief)).toBe(false);
    expect(site.provider.hitsOf('token')).toEqual([]);

    // The browser that started the sign-in can still complete it.
    await agent.get(callback.href);
    expect(await isSignedIn(site, agent)).toBe(true);
  });

  test('R7 is refused with a forged browser cookie', async () => {
    const { agent, callback } = await startSignIn();
    const [cookie] = secretCookiesOf(agent);
    const { name, value } = cookie ?? { name: '', value: '' };
    const forgedValues = [
      value.slice(0, -1),
      value.split('.')[0] ?? '',
      `${value}x`,
      'a.b',
      '',
      '%E0%A4%A',
      'x'.repeat(4000),
    ];

    for (const forged of forgedValues) {
      const forger = createUserAgent();
      forger.cookies.set(site.url, name, forged);
      expect((await forger.get(callback.href)).status).toBe(400);
    }
    expect(site.provider.hitsOf('token')).toEqual([]);
  });

  test.each([
    ['no parameters', ''],
    ['no state', '?code=x'],
    ['an empty state', '?code=x&state='],
    ['a random state', '?code=x&state=abcdef'],
    ['a state like ours', `?code=x&state=${'A'.repeat(22)}.t0abcd.${'B'.repeat(22)}`],
    ['a long state', `?code=x&state=${'a'.repeat(6_000)}`],
    ['a state that is a list', '?code=x&state[]=a'],
    ['a state with NUL', '?code=x&state=%00'],
    ['broken percent signs', '?code=%E0%A4%A&state=%'],
    ['only an error', '?error=access_denied'],
    ['names of the object prototype', '?code=x&state=__proto__&__proto__=x&constructor=y'],
  ])('R8 is refused with %s', async (_parameters, query) => {
    const withoutCookies = createUserAgent();
    const { agent: withPendingRequest } = await begin(site, { path: START });

    for (const agent of [withoutCookies, withPendingRequest]) {
      const page = await agent.get(`${site.url}/oauth/callback/elsewhere${query}`);
      expect(page.status).toBe(400);
      expect(await isSignedIn(site, agent)).toBe(false);
    }
    expect(site.provider.hitsOf('token')).toEqual([]);
  });

  test('R8, R10 is refused as invented, not as expired, if its state has our format but no valid signature', async () => {
    const seconds = Math.floor(Date.now() / 1000).toString(36);
    const query = `?code=x&state=${'A'.repeat(22)}.${seconds}.${'B'.repeat(22)}`;

    for (const agent of [createUserAgent(), await signInAs(ANN)]) {
      const page = await agent.get(`${site.url}/oauth/callback/elsewhere${query}`);
      expectNamedCause(page, SIGN_IN_FAILURES.state_invented.detail);
    }
  });

  test('R8 is refused with 431 if its state has one megabyte', async () => {
    const status = await new Promise((resolve, reject) => {
      const { port } = new URL(site.url);
      const path = `/oauth/callback/elsewhere?code=x&state=${'a'.repeat(1_000_000)}`;
      request({ host: '127.0.0.1', port, path }, (res) => resolve(res.resume().statusCode))
        .on('error', reject)
        .end();
    });
    expect(status).toBe(431);
  });

  test('R8 is refused for an unknown app', async () => {
    const { agent, callback } = await startSignIn();
    for (const app of ['nobody', '%E0%A4%A', '..%2felsewhere', '__proto__']) {
      const page = await agent.get(`${site.url}/oauth/callback/${app}${callback.search}`);
      expect(page.status).toBeLessThan(500);
      expect(page.status).toBeGreaterThanOrEqual(400);
    }
    expect(site.provider.hitsOf('token')).toEqual([]);
  });

  test('does not redirect to the host of a request target in absolute form', async () => {
    const { agent, callback } = await startSignIn();
    const cookie = agent.cookies.header(site.url);
    const send = (path: string) =>
      new Promise<{ status: number | undefined; location: string | undefined }>((resolve, reject) => {
        const { host, port } = new URL(site.url);
        request({ host: '127.0.0.1', port, path, headers: { host, cookie } }, (res) =>
          resolve({ status: res.resume().statusCode, location: res.headers.location }),
        )
          .on('error', reject)
          .end();
      });

    for (const path of [
      'http://[::bad]/oauth/callback/elsewhere?code=x',
      '//evil.example.com/oauth/callback/elsewhere',
    ]) {
      expect((await send(path)).status).toBeLessThan(500);
    }

    const response = await send(`http://evil.example.com${callback.pathname}${callback.search}`);
    expect([303, 400, 404]).toContain(response.status);
    if (response.location) expect(response.location).not.toContain('evil');
  });
});

describe('R9, R10: a callback is used once', () => {
  test('R9 if it is opened 20 times at once, one token request is sent, and the other 19 start over', async () => {
    const { agent, callback } = await startSignIn();

    const pages = await Promise.all(Array.from({ length: 20 }, () => agent.get(callback.href, { follow: false })));
    expect(site.provider.hitsOf('token')).toHaveLength(1);
    expect(pages.map(({ status }) => status)).toEqual(Array(20).fill(303));

    const locations = pages.map(({ headers }) => headers.get('location'));
    expect(locations.filter((location) => location === '/')).toHaveLength(1);
    expect(locations.filter((location) => location?.startsWith(site.provider.issuer))).toHaveLength(19);
  });

  test('R10 opened again, it leads a signed-in user on, and a signed-out one to the provider', async () => {
    const { agent, callback } = await startSignIn();
    await agent.get(callback.href);

    const second = await agent.get(callback.href, { follow: false });
    expect([second.status, second.headers.get('location')]).toEqual([303, '/']);
    expect(await isSignedIn(site, agent)).toBe(true);

    agent.cookies.set(site.url, sessionCookieName(site.url), undefined);
    const third = await agent.get(callback.href, { follow: false });
    expect(third.headers.get('location')).toMatch(`${site.provider.issuer}/authorize`);
    expect(site.provider.hitsOf('token')).toHaveLength(1);
  });

  test('R6, R10 it expires after ten minutes, and the page says so', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const siteWithFakeClock = await startHostileSite({ provider: site.provider });
    const start = async () => {
      const { agent, location } = await begin(siteWithFakeClock);
      return { agent, callback: await callbackFor(location) };
    };
    const inTime = await start();
    const tooLate = await start();

    vi.setSystemTime(Date.now() + 599_000);
    await inTime.agent.get(inTime.callback.href);
    expect(await isSignedIn(siteWithFakeClock, inTime.agent)).toBe(true);

    site.provider.reset();
    vi.setSystemTime(Date.now() + 2_000);
    const page = await tooLate.agent.get(tooLate.callback.href);
    expect([page.status, page.url]).toEqual([200, `${siteWithFakeClock.url}/?ended=state_expired`]);
    expect(textOf(page.body)).toContain(SIGN_IN_FAILURES.state_expired.detail);
    expect(await isSignedIn(siteWithFakeClock, tooLate.agent)).toBe(false);
    expect(site.provider.hitsOf('token')).toEqual([]);
    vi.useRealTimers();
    await siteWithFakeClock.close();
  });

  test('R64 those of two tabs both succeed, even if the tab that started last finishes first', async () => {
    const agent = createUserAgent();
    const firstTab = await startSignIn(agent, `${START}&return_to=/connections`);
    const secondTab = await startSignIn(agent, `${START}&return_to=/problems/not_found`);

    const secondPage = await agent.get(secondTab.callback.href, { follow: false });
    const firstPage = await agent.get(firstTab.callback.href, { follow: false });
    expect(firstPage.headers.get('location')).toBe('/connections');
    expect(secondPage.headers.get('location')).toBe('/problems/not_found');
    expect(site.provider.hitsOf('token')).toHaveLength(2);
  });

  test('it succeeds at a provider that always responds to its first pending request', async () => {
    site.provider.setModes('first-pending-answered');
    const agent = createUserAgent();
    await startSignIn(agent);
    const { callback } = await startSignIn(agent);

    await agent.get(callback.href);
    expect(await isSignedIn(site, agent)).toBe(true);
  });
});

describe('R11: only the user who starts a connection can complete it', () => {
  test('a callback that another user opens in another browser connects nothing', async () => {
    const ann = await signInAs(ANN);
    const bob = await signInAs(BOB);
    site.provider.reset();
    const callback = await callbackFor(await startConnecting(ann));
    await bob.get(callback.href);
    expect(await readConnectedApps(ann)).toEqual(['elsewhere']);
    expect(await readConnectedApps(bob)).toEqual(['elsewhere']);
    expect(site.provider.hitsOf('token')).toEqual([]);
  });

  test('a callback is refused if another user has signed in with the same browser', async () => {
    const agent = await signInAs(ANN);
    const callback = await callbackFor(await startConnecting(agent));
    agent.cookies.set(site.url, sessionCookieName(site.url), undefined);
    site.provider.signInAs(BOB);
    expect((await attempt(site, { agent, path: START })).signedIn).toBe(true);
    site.provider.reset();
    expectNamedCause(await agent.get(callback.href), SIGN_IN_FAILURES.other_user.detail);
    expect(await readConnectedApps(agent)).toEqual(['elsewhere']);
    expect(site.provider.hitsOf('token')).toEqual([]);
  });

  test('a callback is refused if the user has signed out', async () => {
    const agent = await signInAs(ANN);
    const callback = await callbackFor(await startConnecting(agent));
    agent.cookies.set(site.url, sessionCookieName(site.url), undefined);
    site.provider.reset();
    expectNamedCause(await agent.get(callback.href), SIGN_IN_FAILURES.other_user.detail);
    expect(site.provider.hitsOf('token')).toEqual([]);
  });

  test('R70 a callback redirects to the connection, or to the local return path of the form', async () => {
    const agent = await signInAs(ANN);
    const connect = async (fields: object) => {
      const callback = await callbackFor(await startConnecting(agent, 'second', fields));
      const page = await agent.get(callback.href, { follow: false });
      return page.headers.get('location');
    };

    expect(await connect({})).toBe('/connections/second');
    expect(await connect({ return_to: '/sessions' })).toBe('/sessions');
    expect(await connect({ return_to: '//evil.example/' })).toBe('/connections/second');
  });

  test('a callback that the same user opens connects the app', async () => {
    const agent = await signInAs(ANN);
    const callback = await callbackFor(await startConnecting(agent));

    await agent.get(callback.href);
    expect((await readConnectedApps(agent)).toSorted()).toEqual(['elsewhere', 'second']);
  });
});

describe('R12: a response is accepted only for the app that sent the request', () => {
  test('refuses a response at the callback of another app, uses up its state, and sends no code', async () => {
    const { agent, callback } = await startSignIn();
    const callbackOfOtherApp = callback.href.replace('/callback/elsewhere', '/callback/second');

    expectNamedCause(await agent.get(callbackOfOtherApp), SIGN_IN_FAILURES.other_app.detail);
    expectNamedCause(await agent.get(callback.href), SIGN_IN_FAILURES.other_app.detail);
    expect(site.provider.hitsOf('token')).toEqual([]);
  });

  test('sends the code of another app only to the provider of the state, which refuses it', async () => {
    const agent = createUserAgent();
    const { callback } = await startSignIn(agent);
    const { callback: callbackOfSecond } = await startSignIn(agent, '/sign-in?app=second');
    callback.searchParams.set('code', callbackOfSecond.searchParams.get('code') ?? '');

    expectNamedCause(await agent.get(callback.href), SIGN_IN_FAILURES.code_refused.detail);
    expect(await isSignedIn(site, agent)).toBe(false);
  });

  test('R12, R13 refuses the response of another app’s issuer, and sends no code', async () => {
    const otherProvider = await startHostileProvider({ clientId: 'other-client' });
    const siteWithTwoProviders = await startHostileSite({
      provider: site.provider,
      apps: (provider, url) => [
        provider.app(url),
        otherProvider.app(url, { id: 'second', clientSecret: { env: 'OTHER_SECRET' } }),
      ],
      env: { OTHER_SECRET: otherProvider.clientSecret },
    });
    try {
      for (const iss of ['its own', 'none'] as const) {
        const agent = createUserAgent();
        const first = await begin(siteWithTwoProviders, { agent, path: START });
        const second = await begin(siteWithTwoProviders, { agent, path: '/sign-in?app=second' });
        const callback = await callbackFor(first.location);
        const callbackOfSecond = await callbackFor(second.location);
        expect(callbackOfSecond.searchParams.get('iss')).toBe(otherProvider.issuer);
        callback.searchParams.set('code', callbackOfSecond.searchParams.get('code') ?? '');
        if (iss === 'its own') callback.searchParams.set('iss', otherProvider.issuer);
        else callback.searchParams.delete('iss');

        const page = await agent.get(callback.href);
        expect([iss, page.status]).toEqual([iss, 400]);
        expect([iss, site.provider.hitsOf('token'), otherProvider.hitsOf('token')]).toEqual([iss, [], []]);
        expect(await isSignedIn(siteWithTwoProviders, agent)).toBe(false);
      }
    } finally {
      await siteWithTwoProviders.close();
      await otherProvider.close();
    }
  });
});

describe('R15, R16: the response to a callback', () => {
  test('R15 does not contain texts of the provider, whether or not the state is valid', async () => {
    site.provider.setModes('callback-script-error');
    const { agent, callback } = await startSignIn();
    const withInvalidState = new URL(callback);
    withInvalidState.searchParams.set('state', 'wrong');

    for (const url of [withInvalidState, callback]) {
      const page = await agent.get(url.href);
      expect(page.status).toBeGreaterThanOrEqual(400);
      expect(page.url).toBe(url.href);
      expect(page.body).not.toMatch(/alert\(/);
    }
    expectNamedCause(await agent.get(callback.href), SIGN_IN_FAILURES.provider_refused.detail);
  });

  test('R15 uses up the state if it is an error, and uses up nothing if the state is invented', async () => {
    const { agent, callback } = await startSignIn();
    const errorCallback = new URL(callback);
    errorCallback.searchParams.delete('code');
    errorCallback.searchParams.set('error', 'access_denied');
    const withInventedState = new URL(errorCallback);
    withInventedState.searchParams.set('state', 'invented');

    expectNamedCause(await agent.get(withInventedState.href), SIGN_IN_FAILURES.state_invented.detail);
    const denied = await agent.get(errorCallback.href);
    expectNamedCause(denied, SIGN_IN_FAILURES.access_denied.detail);
    const { title = 'none', advice = 'none' } = SIGN_IN_FAILURES.access_denied.page ?? {};
    for (const words of [title, advice]) expect(textOf(denied.body)).toContain(words);

    expectNamedCause(await agent.get(callback.href), SIGN_IN_FAILURES.access_denied.detail);
  });

  test('R15 is a refusal if an error has the iss of another issuer', async () => {
    site.provider.setModes('callback-access-denied');
    const { agent, callback } = await startSignIn();
    callback.searchParams.set('iss', 'https://elsewhere.example.com');
    expectNamedCause(await agent.get(callback.href), SIGN_IN_FAILURES.authorization_response_refused.detail);
  });

  test('R16 is not cached, sends no referrer, loads nothing from elsewhere, and redirects to a URL without the code', async () => {
    const { agent, callback } = await startSignIn();
    const redirect = await agent.get(callback.href, { follow: false });
    expect([redirect.status, redirect.headers.get('location')]).toEqual([303, '/']);
    agent.cookies.set(site.url, sessionCookieName(site.url), undefined);
    const secondRedirect = await agent.get(callback.href, { follow: false });
    for (const page of [redirect, secondRedirect]) {
      expect(page.headers.get('cache-control')).toContain('no-store');
      expect(page.headers.get('referrer-policy')).toBe('no-referrer');
    }
    const links = [...secondRedirect.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(
      ([, link = '']) => new URL(link, site.url),
    );
    for (const { origin, search } of links) {
      expect(origin).toBe(site.url);
      expect(search).not.toContain('code=');
    }
    expect(secondRedirect.body).not.toContain(callback.searchParams.get('code'));
  });
});

describe('R17: a new session at sign-in', () => {
  test('replaces an earlier session and a fixed session id', async () => {
    const agent = await signInAs(ANN);
    const cookieName = sessionCookieName(site.url);
    const earlierSession = agent.cookies.get(cookieName);
    expect((await attempt(site, { agent, path: START })).signedIn).toBe(true);
    expect(agent.cookies.get(cookieName)).not.toBe(earlierSession);

    const withEarlierSession = createUserAgent();
    withEarlierSession.cookies.set(site.url, cookieName, earlierSession);
    expect(await isSignedIn(site, withEarlierSession)).toBe(false);

    const withFixedSession = createUserAgent();
    withFixedSession.cookies.set(site.url, cookieName, 's%3Afixed.abc');
    await attempt(site, { agent: withFixedSession, path: START });
    expect(withFixedSession.cookies.get(cookieName)).not.toContain('fixed');
  });
});

describe('any order of any requests', () => {
  test('gives no user a session or connection that they did not start', async () => {
    type Step = {
      browser: 0 | 1;
      do: 'start' | 'connect' | 'open own callback' | 'open callback of other' | 'forget session';
    };
    const steps = fc.array(
      fc.record<Step>({
        browser: fc.constantFrom(0, 1),
        do: fc.constantFrom('start', 'connect', 'open own callback', 'open callback of other', 'forget session'),
      }),
      { minLength: 3, maxLength: 14 },
    );
    await fc.assert(
      fc.asyncProperty(steps, async (sequence) => {
        const users = [ANN, BOB];
        const browsers = [createUserAgent(), createUserAgent()];
        const callbacks: string[][] = [[], []];
        for (const step of sequence) {
          const agent = browsers[step.browser] as UserAgent;
          const ownCallbacks = callbacks[step.browser] ?? [];
          const otherCallbacks = callbacks[1 - step.browser] ?? [];
          let opened: string | undefined;

          site.provider.signInAs(users[step.browser] ?? ANN);
          if (step.do === 'start') ownCallbacks.push((await startSignIn(agent)).callback.href);
          if (step.do === 'connect' && (await isSignedIn(site, agent)))
            ownCallbacks.push((await callbackFor(await startConnecting(agent))).href);
          if (step.do === 'open own callback') opened = ownCallbacks.at(-1);
          if (step.do === 'open callback of other') opened = otherCallbacks.at(-1);
          if (opened) expect((await agent.get(opened)).status).not.toBe(500);
          if (step.do === 'forget session') agent.cookies.set(site.url, sessionCookieName(site.url), undefined);
        }

        for (const [n, agent] of browsers.entries()) {
          const { json } = await getJson(agent, `${site.url}/session`);
          if (!json.signedIn) continue;
          expect(json.user).toMatchObject({ subject: users[n]?.sub });
          const connections = (await getJson(agent, `${site.url}/connections`)).json.items as { account: string }[];
          for (const { account } of connections) expect(account).toBe(users[n]?.email);
        }
      }),
      { numRuns: 40 },
    );
  });
});
