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
async function pending(agent = createUserAgent(), path = START) {
  const { location } = await begin(site, { agent, path });
  return { agent, location, callback: await callbackFor(location) };
}

async function signedInAs(person: typeof ANN): Promise<UserAgent> {
  site.provider.signInAs(person);
  const { agent, signedIn } = await attempt(site, { path: START });
  expect(signedIn).toBe(true);
  return agent;
}

async function startConnecting(agent: UserAgent, app = 'second', more: object = {}): Promise<string> {
  const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent), ...more });
  const page = await agent.request(`${site.url}/connections/${app}`, { method: 'POST', body, follow: false });
  return page.headers.get('location') ?? '';
}

async function connectedApps(agent: UserAgent): Promise<string[]> {
  const { connections } = (await getJson(agent, `${site.url}/session`)).json as { connections: { app: string }[] };
  return connections.map(({ app }) => app);
}

describe('R7, R8: a callback without a pending request of the browser', () => {
  test('R7 is refused in another browser, and the code is not sent', async () => {
    const { agent, callback } = await pending();
    const thief = createUserAgent();
    expectNamedCause(await thief.get(callback.href), SIGN_IN_FAILURES.cookie_missing.detail);
    const busy = (await pending()).agent;
    // Another browser with a pending request.
    expectNamedCause(await busy.get(callback.href), SIGN_IN_FAILURES.cookie_missing.detail);
    expect(await isSignedIn(site, thief)).toBe(false);
    expect(site.provider.hitsOf('token')).toEqual([]);
    // The browser that started it can still complete it.
    await agent.get(callback.href);
    expect(await isSignedIn(site, agent)).toBe(true);
  });

  test('R7 is refused with a forged browser cookie', async () => {
    const { agent, callback } = await pending();
    const [{ name, value } = { name: '', value: '' }] = secretCookiesOf(agent);
    for (const forged of [
      value.slice(0, -1),
      value.split('.')[0] ?? '',
      `${value}x`,
      'a.b',
      '',
      '%E0%A4%A',
      'x'.repeat(4000),
    ]) {
      const other = createUserAgent();
      other.cookies.set(site.url, name, forged);
      expect((await other.get(callback.href)).status).toBe(400);
    }
    expect(site.provider.hitsOf('token')).toEqual([]);
  });

  test.each([
    ['nothing at all', ''],
    ['no state', '?code=x'],
    ['empty state', '?code=x&state='],
    ['random state', '?code=x&state=abcdef'],
    ['a state like ours', `?code=x&state=${'A'.repeat(22)}.t0abcd.${'B'.repeat(22)}`],
    ['a long state', `?code=x&state=${'a'.repeat(6_000)}`],
    ['a state that is a list', '?code=x&state[]=a'],
    ['a state with NUL', '?code=x&state=%00'],
    ['broken percent signs', '?code=%E0%A4%A&state=%'],
    ['an error alone', '?error=access_denied'],
    ['prototype', '?code=x&state=__proto__&__proto__=x&constructor=y'],
  ])('R8 is refused with %s', async (_what, query) => {
    for (const agent of [createUserAgent(), (await begin(site, { path: START })).agent]) {
      const page = await agent.get(`${site.url}/oauth/callback/elsewhere${query}`);
      expect(page.status).toBe(400);
      expect(await isSignedIn(site, agent)).toBe(false);
    }
    expect(site.provider.hitsOf('token')).toEqual([]);
  });

  test('R8, R10 an unsigned state in our format is reported as forged, not as expired', async () => {
    const seconds = Math.floor(Date.now() / 1000).toString(36);
    const query = `?code=x&state=${'A'.repeat(22)}.${seconds}.${'B'.repeat(22)}`;
    for (const agent of [createUserAgent(), await signedInAs(ANN)]) {
      const page = await agent.get(`${site.url}/oauth/callback/elsewhere${query}`);
      expectNamedCause(page, SIGN_IN_FAILURES.state_invented.detail);
    }
  });

  test('R8 a state of one megabyte is refused with 431', async () => {
    const status = await new Promise((resolve, reject) => {
      const { port } = new URL(site.url);
      const path = `/oauth/callback/elsewhere?code=x&state=${'a'.repeat(1_000_000)}`;
      request({ host: '127.0.0.1', port, path }, (res) => resolve(res.resume().statusCode))
        .on('error', reject)
        .end();
    });
    expect(status).toBe(431);
  });

  test('R8 an unknown app is refused', async () => {
    const { agent, callback } = await pending();
    for (const app of ['nobody', '%E0%A4%A', '..%2felsewhere', '__proto__']) {
      const page = await agent.get(`${site.url}/oauth/callback/${app}${callback.search}`);
      expect(page.status).toBeLessThan(500);
      expect(page.status).toBeGreaterThanOrEqual(400);
    }
    expect(site.provider.hitsOf('token')).toEqual([]);
  });

  test('a request target in absolute form does not change host or path', async () => {
    const { agent, callback } = await pending();
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
  test('R9 20 at the same time send one token request, and one succeeds', async () => {
    const { agent, callback } = await pending();
    const pages = await Promise.all(Array.from({ length: 20 }, () => agent.get(callback.href, { follow: false })));
    expect(site.provider.hitsOf('token')).toHaveLength(1);
    expect(pages.map(({ status }) => status)).toEqual(Array(20).fill(303));
    const locations = pages.map(({ headers }) => headers.get('location'));
    expect(locations.filter((location) => location === '/')).toHaveLength(1);
    expect(locations.filter((location) => location?.startsWith(site.provider.issuer))).toHaveLength(19);
  });

  test('R10 a used callback leads a signed-in user on, and others to the provider again', async () => {
    const { agent, callback } = await pending();
    await agent.get(callback.href);
    const second = await agent.get(callback.href, { follow: false });
    expect([second.status, second.headers.get('location')]).toEqual([303, '/']);
    expect(await isSignedIn(site, agent)).toBe(true);
    agent.cookies.set(site.url, sessionCookieName(site.url), undefined);
    const third = await agent.get(callback.href, { follow: false });
    expect(third.headers.get('location')).toMatch(`${site.provider.issuer}/authorize`);
    expect(site.provider.hitsOf('token')).toHaveLength(1);
  });

  test('R6, R10 expires after ten minutes, and the page says so', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const slow = await startHostileSite({ provider: site.provider });
    const start = async () => {
      const { agent, location } = await begin(slow);
      return { agent, callback: await callbackFor(location) };
    };
    const inTime = await start();
    const tooLate = await start();
    vi.setSystemTime(Date.now() + 599_000);
    await inTime.agent.get(inTime.callback.href);
    expect(await isSignedIn(slow, inTime.agent)).toBe(true);
    site.provider.reset();
    vi.setSystemTime(Date.now() + 2_000);
    const page = await tooLate.agent.get(tooLate.callback.href);
    expect([page.status, page.url]).toEqual([200, `${slow.url}/?ended=state_expired`]);
    expect(textOf(page.body)).toContain(SIGN_IN_FAILURES.state_expired.detail);
    expect(await isSignedIn(slow, tooLate.agent)).toBe(false);
    expect(site.provider.hitsOf('token')).toEqual([]);
    vi.useRealTimers();
    await slow.close();
  });

  test('R64 two tabs both succeed, in any order', async () => {
    const agent = createUserAgent();
    const one = await pending(agent, `${START}&return_to=/connections`);
    const two = await pending(agent, `${START}&return_to=/problems/not_found`);
    const second = await agent.get(two.callback.href, { follow: false });
    const first = await agent.get(one.callback.href, { follow: false });
    expect([first, second].map(({ headers }) => headers.get('location'))).toEqual([
      '/connections',
      '/problems/not_found',
    ]);
    expect(site.provider.hitsOf('token')).toHaveLength(2);
  });

  test('succeeds at a provider that always responds to its first pending request', async () => {
    site.provider.setModes('first-pending-answered');
    const agent = createUserAgent();
    await begin(site, { agent, path: START }).then(({ location }) => callbackFor(location));
    const { callback } = await pending(agent);
    await agent.get(callback.href);
    expect(await isSignedIn(site, agent)).toBe(true);
  });
});

describe('R11: only the user who starts a connection can complete it', () => {
  test('a second user opens the callback of the first: nothing is connected', async () => {
    const ann = await signedInAs(ANN);
    const bob = await signedInAs(BOB);
    site.provider.reset();
    const callback = await callbackFor(await startConnecting(ann));
    await bob.get(callback.href);
    expect(await connectedApps(ann)).toEqual(['elsewhere']);
    expect(await connectedApps(bob)).toEqual(['elsewhere']);
    expect(site.provider.hitsOf('token')).toEqual([]);
  });

  test('a second user signs in with the same browser: the callback is refused', async () => {
    const agent = await signedInAs(ANN);
    const callback = await callbackFor(await startConnecting(agent));
    agent.cookies.set(site.url, sessionCookieName(site.url), undefined);
    site.provider.signInAs(BOB);
    expect((await attempt(site, { agent, path: START })).signedIn).toBe(true);
    site.provider.reset();
    expectNamedCause(await agent.get(callback.href), SIGN_IN_FAILURES.other_user.detail);
    expect(await connectedApps(agent)).toEqual(['elsewhere']);
    expect(site.provider.hitsOf('token')).toEqual([]);
  });

  test('the user signs out: the callback is refused', async () => {
    const agent = await signedInAs(ANN);
    const callback = await callbackFor(await startConnecting(agent));
    agent.cookies.set(site.url, sessionCookieName(site.url), undefined);
    site.provider.reset();
    expectNamedCause(await agent.get(callback.href), SIGN_IN_FAILURES.other_user.detail);
    expect(site.provider.hitsOf('token')).toEqual([]);
  });

  test('R70 redirects to the connection, or to the local return path of the form', async () => {
    const agent = await signedInAs(ANN);
    const landing = async (more: object) => {
      const callback = await callbackFor(await startConnecting(agent, 'second', more));
      return (await agent.get(callback.href, { follow: false })).headers.get('location');
    };
    expect(await landing({})).toBe('/connections/second');
    expect(await landing({ return_to: '/sessions' })).toBe('/sessions');
    expect(await landing({ return_to: '//evil.example/' })).toBe('/connections/second');
  });

  test('the user who started it connects', async () => {
    const agent = await signedInAs(ANN);
    await agent.get((await callbackFor(await startConnecting(agent))).href);
    expect((await connectedApps(agent)).toSorted()).toEqual(['elsewhere', 'second']);
  });
});

describe('R12: a response is accepted only for the app that sent the request', () => {
  test('refuses a response at the callback of another app, uses up its state, and sends no code', async () => {
    const { agent, callback } = await pending();
    const crossed = callback.href.replace('/callback/elsewhere', '/callback/second');
    expectNamedCause(await agent.get(crossed), SIGN_IN_FAILURES.other_app.detail);
    expectNamedCause(await agent.get(callback.href), SIGN_IN_FAILURES.other_app.detail);
    expect(site.provider.hitsOf('token')).toEqual([]);
  });

  test('sends the code of another app only to the provider of the state, which refuses it', async () => {
    const agent = createUserAgent();
    const x = await pending(agent);
    const y = await pending(agent, '/sign-in?app=second');
    x.callback.searchParams.set('code', y.callback.searchParams.get('code') ?? '');
    expectNamedCause(await agent.get(x.callback.href), SIGN_IN_FAILURES.code_refused.detail);
    expect(await isSignedIn(site, agent)).toBe(false);
  });

  test('R12, R13 refuses the response of another app’s issuer, and sends no code', async () => {
    const other = await startHostileProvider({ clientId: 'other-client' });
    const two = await startHostileSite({
      provider: site.provider,
      apps: (provider, url) => [
        provider.app(url),
        other.app(url, { id: 'second', clientSecret: { env: 'OTHER_SECRET' } }),
      ],
      env: { OTHER_SECRET: other.clientSecret },
    });
    try {
      for (const iss of ['its own', 'none'] as const) {
        const agent = createUserAgent();
        const x = await callbackFor((await begin(two, { agent, path: START })).location);
        const y = await callbackFor((await begin(two, { agent, path: '/sign-in?app=second' })).location);
        x.searchParams.set('code', y.searchParams.get('code') ?? '');
        expect(y.searchParams.get('iss')).toBe(other.issuer);
        if (iss === 'its own') x.searchParams.set('iss', other.issuer);
        else x.searchParams.delete('iss');
        const page = await agent.get(x.href);
        expect([iss, page.status]).toEqual([iss, 400]);
        expect([iss, site.provider.hitsOf('token'), other.hitsOf('token')]).toEqual([iss, [], []]);
        expect(await isSignedIn(two, agent)).toBe(false);
      }
    } finally {
      await two.close();
      await other.close();
    }
  });
});

describe('R15, R16: the response to a callback', () => {
  test('R15 does not contain texts of the provider, whether or not the state is genuine', async () => {
    site.provider.setModes('callback-script-error');
    const { agent, callback } = await pending();
    const wrong = new URL(callback);
    wrong.searchParams.set('state', 'wrong');
    for (const url of [wrong, callback]) {
      const page = await agent.get(url.href);
      expect(page.status).toBeGreaterThanOrEqual(400);
      expect(page.url).toBe(url.href);
      expect(page.body).not.toMatch(/alert\(/);
    }
    expectNamedCause(await agent.get(callback.href), SIGN_IN_FAILURES.provider_refused.detail);
  });

  test('R15 an error uses up its state, and a forged state uses up nothing', async () => {
    const { agent, callback } = await pending();
    const refused = new URL(callback);
    refused.searchParams.delete('code');
    refused.searchParams.set('error', 'access_denied');
    const invented = new URL(refused);
    invented.searchParams.set('state', 'invented');
    expectNamedCause(await agent.get(invented.href), SIGN_IN_FAILURES.state_invented.detail);
    const denied = await agent.get(refused.href);
    expectNamedCause(denied, SIGN_IN_FAILURES.access_denied.detail);
    const { title = 'none', advice = 'none' } = SIGN_IN_FAILURES.access_denied.page ?? {};
    for (const words of [title, advice, 'Nobody is at fault.']) expect(textOf(denied.body)).toContain(words);
    expectNamedCause(await agent.get(callback.href), SIGN_IN_FAILURES.access_denied.detail);
  });

  test('R15 an error with the iss of another issuer is refused like any response', async () => {
    site.provider.setModes('callback-access-denied');
    const { agent, callback } = await pending();
    callback.searchParams.set('iss', 'https://elsewhere.example.com');
    expectNamedCause(await agent.get(callback.href), SIGN_IN_FAILURES.authorization_response_refused.detail);
  });

  test('R16 is not cached, sends no referrer, loads nothing from elsewhere, and redirects to a URL without the code', async () => {
    const { agent, callback } = await pending();
    const good = await agent.get(callback.href, { follow: false });
    expect([good.status, good.headers.get('location')]).toEqual([303, '/']);
    agent.cookies.set(site.url, sessionCookieName(site.url), undefined);
    const bad = await agent.get(callback.href, { follow: false });
    for (const page of [good, bad]) {
      expect(page.headers.get('cache-control')).toContain('no-store');
      expect(page.headers.get('referrer-policy')).toBe('no-referrer');
    }
    const links = [...bad.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link = '']) => new URL(link, site.url));
    for (const { origin, search } of links) {
      expect(origin).toBe(site.url);
      expect(search).not.toContain('code=');
    }
    expect(bad.body).not.toContain(callback.searchParams.get('code'));
  });
});

describe('R17: a new session at sign-in', () => {
  test('replaces an earlier session and a fixed session id', async () => {
    const agent = await signedInAs(ANN);
    const before = agent.cookies.get(sessionCookieName(site.url));
    expect((await attempt(site, { agent, path: START })).signedIn).toBe(true);
    expect(agent.cookies.get(sessionCookieName(site.url))).not.toBe(before);
    const holder = createUserAgent();
    holder.cookies.set(site.url, sessionCookieName(site.url), before);
    expect(await isSignedIn(site, holder)).toBe(false);
    const fixed = createUserAgent();
    fixed.cookies.set(site.url, sessionCookieName(site.url), 's%3Afixed.abc');
    await attempt(site, { agent: fixed, path: START });
    expect(fixed.cookies.get(sessionCookieName(site.url))).not.toContain('fixed');
  });
});

describe('property: any order of any requests', () => {
  test('no user ever gets a session or connection that they did not start', async () => {
    type Step = { browser: 0 | 1; do: 'start' | 'connect' | 'open own' | 'open other' | 'forget session' };
    const steps = fc.array(
      fc.record<Step>({
        browser: fc.constantFrom(0, 1),
        do: fc.constantFrom('start', 'connect', 'open own', 'open other', 'forget session'),
      }),
      { minLength: 3, maxLength: 14 },
    );
    await fc.assert(
      fc.asyncProperty(steps, async (sequence) => {
        const people = [ANN, BOB];
        const browsers = [createUserAgent(), createUserAgent()];
        const callbacks: string[][] = [[], []];
        for (const step of sequence) {
          const agent = browsers[step.browser] as UserAgent;
          const own = callbacks[step.browser] ?? [];
          const foreign = callbacks[1 - step.browser] ?? [];
          site.provider.signInAs(people[step.browser] ?? ANN);
          if (step.do === 'start') own.push((await pending(agent)).callback.href);
          if (step.do === 'connect' && (await isSignedIn(site, agent)))
            own.push((await callbackFor(await startConnecting(agent))).href);
          const opened = step.do === 'open own' ? own.at(-1) : step.do === 'open other' ? foreign.at(-1) : undefined;
          if (opened) expect((await agent.get(opened)).status).not.toBe(500);
          if (step.do === 'forget session') agent.cookies.set(site.url, sessionCookieName(site.url), undefined);
        }
        for (const [n, agent] of browsers.entries()) {
          const { json } = await getJson(agent, `${site.url}/session`);
          if (json.signedIn) expect(json.user).toMatchObject({ subject: people[n]?.sub });
          const connections = (json.connections ?? []) as { account: string }[];
          for (const { account } of connections) expect(account).toBe(people[n]?.email);
        }
      }),
      { numRuns: 40 },
    );
  });
});
