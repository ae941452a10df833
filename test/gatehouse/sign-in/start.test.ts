/** Authorization requests of the shipped app, over HTTP. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { SIGN_IN_FAILURES } from '../../../src/gatehouse/sign-in-record/failures.ts';
import { deriveNonceAndVerifier } from '../../../src/shared/provider/nonce-and-verifier.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import { createUserAgent } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import type { ModeName } from '../../support/hostile-provider.ts';
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
    apps: (provider, url) => [
      provider.app(url),
      provider.app(url, { id: 'second' }),
      provider.app(url, { id: 'off', signIn: undefined, disabled: true }),
    ],
    env: { ADMIN_APP: 'elsewhere' },
  });
});
afterEach(() => site.provider.reset());
afterAll(() => site.close());

const START = '/sign-in?app=elsewhere';

const EXPECTED = () => ({
  client_id: site.provider.clientId,
  code_challenge: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
  code_challenge_method: 'S256',
  nonce: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
  prompt: 'consent',
  redirect_uri: `${site.url}/oauth/callback/elsewhere`,
  response_type: 'code',
  scope: 'openid profile offline_access',
  state: expect.stringMatching(/^[A-Za-z0-9_.-]{40,}$/),
});

describe('R1', () => {
  test('1,000 starts never repeat state, nonce or challenge, and send no secret', async () => {
    const seen = new Set<string>();
    for (let batch = 0; batch < 40; batch += 1) {
      const started = await Promise.all(Array.from({ length: 25 }, () => begin(site, { path: START })));
      for (const { asked, location } of started) {
        expect(Object.fromEntries(asked)).toEqual(EXPECTED());
        for (const name of ['state', 'nonce', 'code_challenge']) seen.add(`${name} ${asked.get(name)}`);
        expect(location).not.toContain('code_verifier');
        expect(location).not.toContain('secret');
      }
    }
    expect(seen.size).toBe(3_000);
  });
});

test('R44 the storage has neither state, nonce and verifier, nor the secret of the browser', async () => {
  const { agent, asked } = await begin(site, { path: START });
  const [browser = ''] = decodeURIComponent(secretCookiesOf(agent)[0]?.value ?? '').split('.');
  const store = await createSqliteStore({ directory: site.dataDirectory });
  let records = '';
  for await (const walked of store.walk()) records += JSON.stringify(walked);
  await store.close();
  expect(records).toContain('pending-requests:{');
  const { state, nonce, codeVerifier } = deriveNonceAndVerifier(browser, asked.get('state') ?? '');
  expect(nonce).toBe(asked.get('nonce'));
  for (const proof of [state, nonce, codeVerifier, browser]) {
    expect(proof.length).toBeGreaterThanOrEqual(32);
    expect(records).not.toContain(proof);
  }
});

describe('R2, R3, R4: parameters of the caller do not change the request', () => {
  test.each([
    'response_type=token',
    'response_type=code%20id_token&response_mode=fragment',
    'response_mode=form_post',
    'redirect_uri=https://evil.example.com&scope=admin&client_id=x&state=y&nonce=z&scope=b',
    'code_challenge_method=plain&code_challenge=abc',
    'request=x&request_uri=https://evil.example.com&claims={}&max_age=0&acr_values=x&id_token_hint=x',
    'scope=admin%20everything',
  ])('%s', async (query) => {
    const { asked } = await begin(site, { path: `${START}&${query}` });
    expect(Object.fromEntries(asked)).toEqual(EXPECTED());
    expect([...asked.keys()]).toHaveLength(new Set(asked.keys()).size);
  });

  test('the consent form selects registered scopes only', async () => {
    const { agent } = await attempt(site, { path: START });
    const csrf = await csrfTokenOf(site, agent);
    const connect = (fields: Record<string, string>) =>
      agent.request(`${site.url}/connections/elsewhere`, {
        method: 'POST',
        follow: false,
        body: new URLSearchParams({ _csrf: csrf, ...fields }),
      });
    const narrowed = await connect({ scope: 'profile', redirect_uri: 'https://evil.example.com', state: 'mine' });
    const asked = new URL(narrowed.headers.get('location') ?? '').searchParams;
    const { prompt: _, ...expected } = EXPECTED();
    expect(Object.fromEntries(asked)).toEqual({ ...expected, scope: 'openid profile' });
    for (const scope of ['admin', 'profile admin', 'openid,profile', 'profile\tadmin']) {
      expect((await connect({ scope })).status).toBe(400);
    }
  });

  test('no route accepts a password', async () => {
    const body = new URLSearchParams({ grant_type: 'password', username: 'a', password: 'b' });
    for (const path of ['/sign-in', '/oauth/callback/elsewhere', '/session', '/']) {
      const page = await createUserAgent().request(site.url + path, { method: 'POST', body });
      expect(page.status).toBe(path.startsWith('/oauth/callback') ? 400 : 405);
    }
    expect(site.provider.hits).toEqual([]);
  });
});

describe('prompt', () => {
  const promptsWith = async (changes: Record<string, unknown>) => {
    const one = await startHostileSite({
      apps: (provider, url) => [
        provider.app(url, { scopes: ['openid', 'profile'], ...changes }),
        provider.app(url, { id: 'files', scopes: ['read'], signIn: undefined, ...changes }),
      ],
    });
    const agent = createUserAgent();
    const signIn = (await begin(one, { agent })).asked.get('prompt');
    await attempt(one, { agent });
    const prompts = [signIn];
    for (let n = 0; n < 2; n += 1) {
      await agent.submit(await agent.get(`${one.url}/connections/files`), {}, { button: n ? 'Reconnect' : 'Connect' });
      prompts.push(new URL(one.provider.hitsOf('authorize').at(-1)?.url ?? '', one.url).searchParams.get('prompt'));
    }
    await one.close();
    return prompts;
  };

  test.each([
    // The account of the connection is unknown, so its refresh token could not be stored.
    ['left out: consent where a refresh token hangs on it', {}, [null, null, 'consent']],
    ['for offline_access', { scopes: ['openid', 'offline_access'] }, ['consent', 'consent', null]],
    ['a list', { prompt: ['select_account', 'consent'] }, Array(3).fill('select_account consent')],
    [
      'a list, of an app with offline_access',
      { prompt: ['login'], scopes: ['openid', 'offline_access'] },
      Array(3).fill('login'),
    ],
    ['off', { prompt: 'off', scopes: ['openid', 'offline_access'] }, [null, null, null]],
  ])('%s', async (_words, changes, prompts) => {
    expect(await promptsWith(changes)).toEqual(prompts);
  });

  test.each([
    ['off', null],
    [['select_account'], 'select_account'],
  ])('%j is replaced by the requirements of a stronger sign-in', async (prompt, sent) => {
    const env = { ADMIN_APP: 'elsewhere', ADMIN_ACR: 'mfa' };
    const one = await startHostileSite({ app: { prompt }, env });
    const { asked } = await begin(one, { path: `${START}&step_up=1` });
    await one.close();
    expect(['prompt', 'acr_values', 'max_age'].map((name) => asked.get(name))).toEqual([sent, 'mfa', '900']);
  });
});

describe('step_up', () => {
  const askedOf = async (at: HostileSite, path: string) => {
    const { asked } = await begin(at, { path });
    return ['acr_values', 'max_age'].map((name) => asked.get(name));
  };

  test('has no effect if the administration requires no stronger sign-in', async () => {
    expect(await askedOf(site, `${START}&step_up=1`)).toEqual([null, null]);
  });

  test('requests the stronger sign-in only at the app of the administration, with any value', async () => {
    const strict = await startHostileSite({
      provider: site.provider,
      apps: (provider, url) => [provider.app(url), provider.app(url, { id: 'second' })],
      env: { ADMIN_APP: 'elsewhere', ADMIN_ACR: 'mfa' },
    });
    expect(await askedOf(strict, `${START}&step_up=`)).toEqual(['mfa', '900']);
    expect(await askedOf(strict, START)).toEqual([null, null]);
    expect(await askedOf(strict, '/sign-in?app=second&step_up=1')).toEqual([null, null]);
    await strict.close();
  });
});

test('logs each start, with its purpose and the user who connects', async () => {
  const { agent } = await attempt(site, { path: START });
  const { user } = (await getJson(agent, `${site.url}/session`)).json as { user: { id: string } };
  const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });
  await agent.request(`${site.url}/connections/second`, { method: 'POST', body, follow: false });
  const started = site.logs().flatMap((line) => (line.includes('"sign-in started"') ? [JSON.parse(line)] : []));
  expect(started.slice(-2)).toMatchObject([
    { app: 'elsewhere', purpose: 'sign_in', requestId: expect.any(String) },
    { app: 'second', purpose: 'connect', userId: user.id },
  ]);
  expect(started.at(-2)).not.toHaveProperty('userId');
});

describe('R5', () => {
  test('each app has its own redirect URI, even at the same provider', async () => {
    const uris = await Promise.all(
      ['elsewhere', 'second'].map(async (app) =>
        (await begin(site, { path: `/sign-in?app=${app}` })).asked.get('redirect_uri'),
      ),
    );
    expect(uris).toEqual([`${site.url}/oauth/callback/elsewhere`, `${site.url}/oauth/callback/second`]);
  });
});

describe('R6', () => {
  /** The full number only with `FAULTS=long`: growth shows earlier. */
  const starts = process.env.FAULTS === 'long' ? 10_000 : 500;

  test('many starts with one cookie: the cookie does not grow, and 10 stay pending', async () => {
    const agent = createUserAgent();
    const first = await begin(site, { agent, path: START });
    const cookie = agent.cookies.header(site.url);
    let last = first;
    for (let batch = 0; batch < starts / 5; batch += 1) {
      const started = await Promise.all(Array.from({ length: 5 }, () => begin(site, { agent, path: START })));
      last = started.at(-1) ?? last;
    }
    const newest = [];
    for (let n = 0; n < 10; n += 1) newest.push(await begin(site, { agent, path: START }));
    expect(agent.cookies.header(site.url).length).toBe(cookie.length);
    expect(cookie.length).toBeLessThan(4096);
    // The ten newest succeed; the earlier ones were dropped.
    for (const { location } of newest) {
      const page = await agent.get((await callbackFor(location)).href, { follow: false });
      expect(page.status).toBe(303);
    }
    const other = createUserAgent();
    for (const { name, value } of secretCookiesOf(agent)) other.cookies.set(site.url, name, value);
    for (const { location } of [first, last]) {
      const page = await other.get((await callbackFor(location)).href);
      expect(page.url).toBe(`${site.url}/?ended=no_longer_pending`);
    }
  });
});

describe('an unusable app', () => {
  test('R71 without its callback URL sends no request to its provider, and says whose fault it is', async () => {
    const broken = await startHostileSite({
      provider: site.provider,
      app: { callbackUrls: ['https://gatehouse.example.com/oauth/callback/elsewhere'] },
    });
    const { page, signedIn } = await attempt(broken);
    expect([page.status, signedIn, site.provider.hits]).toEqual([500, false, []]);
    expect(page.body).toContain('not in its registration');
    await broken.close();
  });
});

describe('an app that is unknown or disabled', () => {
  test('is not found for a sign-in, nor for a connection if it is unknown', async () => {
    const { agent } = await attempt(site, { path: START });
    const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });
    const connecting = await agent.request(`${site.url}/connections/nobody`, { method: 'POST', body });
    for (const [page, detail] of [
      [await agent.get(`${site.url}/sign-in?app=nobody`), 'There is no sign-in app with this id.'],
      [await agent.get(`${site.url}/sign-in?app=off`), 'There is no sign-in app with this id.'],
      [connecting, 'There is no connected app with this id.'],
    ] as const) {
      expect([page.status, textOf(page.body)]).toEqual([404, expect.stringContaining(detail)]);
    }
    expect(site.provider.hitsOf('authorize')).toHaveLength(1);
  });

  test('cannot be connected while it is disabled, and the page says so', async () => {
    const { agent } = await attempt(site, { path: START });
    const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });
    const page = await agent.request(`${site.url}/connections/off`, { method: 'POST', body });
    expectNamedCause(page, SIGN_IN_FAILURES.disabled_app.detail);
    expect(page.status).toBe(403);
    expect(page.body).toContain(`href="${site.url}/connections/off"`);
  });
});

describe('R19: users', () => {
  test('are two with one e-mail address at two providers, and one after two sign-ins', async () => {
    const other = await startHostileSite();
    const ids: unknown[] = [];
    for (const one of [site, other]) {
      one.provider.signInAs({ sub: 'same-sub', email: 'same@example.test', name: 'Same' });
      for (let n = 0; n < 2; n += 1) {
        const { agent } = await attempt(one, { path: START });
        ids.push(((await getJson(agent, `${one.url}/session`)).json.user as { id: string }).id);
      }
    }
    expect(ids[0]).toBe(ids[1]);
    expect(ids[2]).toBe(ids[3]);
    expect(new Set(ids).size).toBe(2);
    await other.close();
  });

  test.each(['a@b@c.example', 'admin＠example.test', ' admin@example.test', 'ADMIN@example.test'])(
    'do not become an administrator or another user by an e-mail address like %s',
    async (email) => {
      site.provider.signInAs({ sub: `sub of ${email.replace('＠', '@@')}`, email, groups: 'gatehouse-admin' });
      const { agent } = await attempt(site, { path: START });
      const { user } = (await getJson(agent, `${site.url}/session`)).json as { user: { admin: boolean; id: string } };
      site.provider.signInAs({ sub: 'admin', email: 'admin@example.test', groups: ['gatehouse-admins'] });
      const admin = await attempt(site, { path: START });
      const known = (await getJson(admin.agent, `${site.url}/session`)).json as { user: typeof user };
      expect([user.admin, known.user.admin, user.id === known.user.id]).toEqual([false, true, false]);
    },
  );

  test('become administrators only through the app for administrators', async () => {
    site.provider.signInAs({ sub: 'admin', groups: ['gatehouse-admins'] });
    const { agent } = await attempt(site, { path: '/sign-in?app=second' });
    expect((await getJson(agent, `${site.url}/session`)).json).toMatchObject({
      signedIn: true,
      user: { admin: false },
    });
  });
});

test('offers each sign-in app, and keeps the return path', async () => {
  const links = async (path: string) => {
    const { page } = await begin(site, { path });
    expect(page.status).toBe(200);
    expect(page.body).toContain('<title>Choose how to sign in');
    return [...page.body.matchAll(/href="([^"]*\/sign-in\?app=[^"]*)"/g)].map(([, link]) => link);
  };
  const ways = (query = '') =>
    ['elsewhere', 'second'].flatMap((app) => {
      const way = `${site.url}/sign-in?app=${app}${query}`;
      return [way, `${way}&amp;prompt=select_account`];
    });
  expect(await links('/sign-in')).toEqual(ways());
  expect(await links('/sign-in?return_to=%2Fconnections%3Fa%3Db')).toEqual(
    ways('&amp;return_to=%2Fconnections%3Fa%3Db'),
  );
  const hinted = ['elsewhere', 'second'].map(
    (app) => `${site.url}/sign-in?app=${app}&amp;login_hint=a%40b.test&amp;prompt=login`,
  );
  expect(await links('/sign-in?login_hint=a%40b.test&prompt=login')).toEqual(hinted);
  // The page does not repeat a card number.
  expect(await links('/sign-in?return_to=%2Fconnections%3Fcard%3D4111111111111111')).toEqual(ways());
  expect((await begin(site, { path: '/sign-in?app=nobody' })).page.status).toBe(404);
});

describe('who may sign in', () => {
  test('is decided by a claim, which is read from userinfo if the ID token lacks it', async () => {
    const staff = await startHostileSite({
      app: { signIn: { allow: { claim: 'groups', values: ['staff'] } } },
    });
    const tryAs = async (groups: unknown) => {
      staff.provider.signInAs({ sub: `in ${JSON.stringify(groups)}`, name: 'N', email: 'e@example.test', groups });
      const { agent, page } = await attempt(staff);
      return [page.status, await isSignedIn(staff, agent)];
    };
    staff.provider.setModes({ claims: ({ groups: _, ...claims }) => claims });
    expect(await tryAs(['guests', 'staff'])).toEqual([200, true]);
    expect(staff.provider.hitsOf('userinfo')).toHaveLength(1);
    expect(await tryAs('staff')).toEqual([200, true]);
    for (const groups of [['guests'], 'staff2', 'STAFF', [['staff']], { staff: true }, undefined, null, ['staff ']]) {
      expect(await tryAs(groups)).toEqual([403, false]);
    }
    await staff.close();
  });

  test('R21 userinfo is not called for claims of the ID token', async () => {
    site.provider.signInAs({ sub: 'user-1', name: 'Ada Quill', email: 'ada@example.test' });
    for (const path of [START, '/sign-in?app=second']) {
      site.provider.reset();
      const groups = path === START ? { groups: ['guests'] } : {};
      site.provider.setModes({ claims: (claims) => ({ ...claims, ...groups }) });
      expect((await attempt(site, { path })).signedIn).toBe(true);
      expect(site.provider.hitsOf('userinfo')).toEqual([]);
    }
  });

  test('R21 userinfo of another subject is refused', async () => {
    site.provider.setModes('id-token-without-name', 'userinfo-other-sub');
    const { page, signedIn } = await attempt(site, { path: START });
    expect([page.status, signedIn]).toEqual([502, false]);
    expect(site.provider.hitsOf('userinfo')).toHaveLength(1);
  });

  test('R21 if userinfo only has the name, a sign-in succeeds without it, but fails with that of another subject', async () => {
    const tryWith = async (mode: ModeName) => {
      site.provider.reset();
      site.provider.setModes('id-token-without-name', mode);
      const { agent, page, signedIn } = await attempt(site, { path: '/sign-in?app=second' });
      const { user } = (await getJson(agent, `${site.url}/session`)).json as { user?: { name: string | null } };
      return { status: page.status, signedIn, name: user?.name };
    };
    expect(await tryWith('userinfo-status-503')).toEqual({ status: 200, signedIn: true, name: null });
    expect(await tryWith('userinfo-reset')).toEqual({ status: 200, signedIn: true, name: null });
    for (const mode of ['userinfo-other-sub', 'userinfo-no-sub', 'userinfo-html'] as const) {
      expect(await tryWith(mode), mode).toEqual({ status: 502, signedIn: false, name: undefined });
    }
  });
});
