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

/** The parameters of an authorization request of the app `elsewhere`. */
const expectedParameters = () => ({
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
  test('1,000 starts never repeat a state, nonce or challenge, and send no secret', async () => {
    const values = new Set<string>();
    for (let batch = 0; batch < 40; batch += 1) {
      const starts = await Promise.all(Array.from({ length: 25 }, () => begin(site, { path: START })));
      for (const { parameters, location } of starts) {
        expect(Object.fromEntries(parameters)).toEqual(expectedParameters());
        for (const name of ['state', 'nonce', 'code_challenge']) values.add(`${name} ${parameters.get(name)}`);
        expect(location).not.toContain('code_verifier');
        expect(location).not.toContain('secret');
      }
    }
    expect(values.size).toBe(3_000);
  });
});

test('R44 the storage contains neither state, nonce, verifier, nor the secret of the browser', async () => {
  const { agent, parameters } = await begin(site, { path: START });
  const cookie = decodeURIComponent(secretCookiesOf(agent)[0]?.value ?? '');
  const [browserSecret = ''] = cookie.split('.');

  const store = await createSqliteStore({ directory: site.dataDirectory });
  let records = '';
  for await (const record of store.walk()) records += JSON.stringify(record);
  await store.close();
  expect(records).toContain('pending-requests:{');

  const { state, nonce, codeVerifier } = deriveNonceAndVerifier(browserSecret, parameters.get('state') ?? '');
  expect(nonce).toBe(parameters.get('nonce'));
  for (const secret of [state, nonce, codeVerifier, browserSecret]) {
    expect(secret.length).toBeGreaterThanOrEqual(32);
    expect(records).not.toContain(secret);
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
    const { parameters } = await begin(site, { path: `${START}&${query}` });
    expect(Object.fromEntries(parameters)).toEqual(expectedParameters());
    expect([...parameters.keys()]).toHaveLength(new Set(parameters.keys()).size);
  });

  test('the consent form selects registered scopes only', async () => {
    const { agent } = await attempt(site, { path: START });
    const csrfToken = await csrfTokenOf(site, agent);
    const connect = (fields: Record<string, string>) =>
      agent.request(`${site.url}/connections/elsewhere`, {
        method: 'POST',
        follow: false,
        body: new URLSearchParams({ _csrf: csrfToken, ...fields }),
      });

    const page = await connect({ scope: 'profile', redirect_uri: 'https://evil.example.com', state: 'mine' });
    const parameters = new URL(page.headers.get('location') ?? '').searchParams;
    const { prompt: _, ...expected } = expectedParameters();
    expect(Object.fromEntries(parameters)).toEqual({ ...expected, scope: 'openid profile' });

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
  /** @returns the prompts of a sign-in and of two connections of an app without sign-in */
  const promptsWith = async (changes: Record<string, unknown>) => {
    const siteOfApps = await startHostileSite({
      apps: (provider, url) => [
        provider.app(url, { scopes: ['openid', 'profile'], ...changes }),
        provider.app(url, { id: 'files', scopes: ['read'], signIn: undefined, ...changes }),
      ],
    });
    const agent = createUserAgent();
    const { parameters } = await begin(siteOfApps, { agent });
    const prompts = [parameters.get('prompt')];
    await attempt(siteOfApps, { agent });
    for (const button of ['Connect', 'Reconnect']) {
      await agent.submit(await agent.get(`${siteOfApps.url}/connections/files`), {}, { button });
      const request = new URL(siteOfApps.provider.hitsOf('authorize').at(-1)?.url ?? '', siteOfApps.url);
      prompts.push(request.searchParams.get('prompt'));
    }
    await siteOfApps.close();
    return prompts;
  };

  test.each([
    // Without an account of the connection, a reconnect without a refresh token would lose the stored one.
    ['without a setting is sent only to keep a refresh token', {}, [null, null, 'consent']],
    [
      'of an app with offline_access requests consent',
      { scopes: ['openid', 'offline_access'] },
      ['consent', 'consent', null],
    ],
    ['set to a list is sent', { prompt: ['select_account', 'consent'] }, Array(3).fill('select_account consent')],
    [
      'set to a list is sent without consent, even with offline_access',
      { prompt: ['login'], scopes: ['openid', 'offline_access'] },
      Array(3).fill('login'),
    ],
    ['set to off is not sent', { prompt: 'off', scopes: ['openid', 'offline_access'] }, [null, null, null]],
  ])('%s', async (_rule, changes, prompts) => {
    expect(await promptsWith(changes)).toEqual(prompts);
  });

  test.each([
    ['off', null],
    [['select_account'], 'select_account'],
  ])('set to %j is sent as %j with the parameters of a stronger sign-in', async (prompt, sent) => {
    const env = { ADMIN_APP: 'elsewhere', ADMIN_ACR: 'mfa' };
    const siteWithStepUp = await startHostileSite({ app: { prompt }, env });
    const { parameters } = await begin(siteWithStepUp, { path: `${START}&step_up=1` });
    await siteWithStepUp.close();
    expect(['prompt', 'acr_values', 'max_age'].map((name) => parameters.get(name))).toEqual([sent, 'mfa', '900']);
  });
});

describe('step_up', () => {
  const readStepUpParameters = async (target: HostileSite, path: string) => {
    const { parameters } = await begin(target, { path });
    return ['acr_values', 'max_age'].map((name) => parameters.get(name));
  };

  test('has no effect if the administration requires no stronger sign-in', async () => {
    expect(await readStepUpParameters(site, `${START}&step_up=1`)).toEqual([null, null]);
  });

  test('requests the stronger sign-in only at the app of the administration, with any value', async () => {
    const siteWithStepUp = await startHostileSite({
      provider: site.provider,
      apps: (provider, url) => [provider.app(url), provider.app(url, { id: 'second' })],
      env: { ADMIN_APP: 'elsewhere', ADMIN_ACR: 'mfa' },
    });
    expect(await readStepUpParameters(siteWithStepUp, `${START}&step_up=`)).toEqual(['mfa', '900']);
    expect(await readStepUpParameters(siteWithStepUp, START)).toEqual([null, null]);
    expect(await readStepUpParameters(siteWithStepUp, '/sign-in?app=second&step_up=1')).toEqual([null, null]);
    await siteWithStepUp.close();
  });
});

test('logs each start, with its purpose and the user who connects', async () => {
  const { agent } = await attempt(site, { path: START });
  const { user } = (await getJson(agent, `${site.url}/session`)).json as { user: { id: string } };
  const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });
  await agent.request(`${site.url}/connections/second`, { method: 'POST', body, follow: false });

  const startLines = site.logs().filter((line) => line.includes('"sign-in started"'));
  const starts = startLines.map((line) => JSON.parse(line));
  expect(starts.slice(-2)).toMatchObject([
    { app: 'elsewhere', purpose: 'sign_in', requestId: expect.any(String) },
    { app: 'second', purpose: 'connect', userId: user.id },
  ]);
  expect(starts.at(-2)).not.toHaveProperty('userId');
});

describe('R5', () => {
  test('each app has its own redirect URI, even at the same provider', async () => {
    for (const app of ['elsewhere', 'second']) {
      const { parameters } = await begin(site, { path: `/sign-in?app=${app}` });
      expect(parameters.get('redirect_uri')).toBe(`${site.url}/oauth/callback/${app}`);
    }
  });
});

describe('R6', () => {
  /** The full number runs only with `FAULTS=long`, since growth would show much earlier. */
  const starts = process.env.FAULTS === 'long' ? 10_000 : 500;

  test('many starts in one browser do not make its cookies longer, and only the newest 10 stay pending', async () => {
    const agent = createUserAgent();
    const first = await begin(site, { agent, path: START });
    const cookieHeader = agent.cookies.header(site.url);
    let lastDropped = first;
    for (let batch = 0; batch < starts / 5; batch += 1) {
      const batchOfStarts = await Promise.all(Array.from({ length: 5 }, () => begin(site, { agent, path: START })));
      lastDropped = batchOfStarts.at(-1) ?? lastDropped;
    }
    const newest = [];
    for (let n = 0; n < 10; n += 1) newest.push(await begin(site, { agent, path: START }));
    expect(agent.cookies.header(site.url).length).toBe(cookieHeader.length);
    expect(cookieHeader.length).toBeLessThan(4096);

    for (const { location } of newest) {
      const page = await agent.get((await callbackFor(location)).href, { follow: false });
      expect(page.status).toBe(303);
    }

    for (const { location } of [first, lastDropped]) {
      const page = await agent.get((await callbackFor(location)).href);
      expect(page.url).toBe(`${site.url}/?ended=no_longer_pending`);
    }
  });
});

describe('an unusable app', () => {
  test('R71 without its callback URL sends no request to its provider, and its page names the fault', async () => {
    const siteWithWrongUrl = await startHostileSite({
      provider: site.provider,
      app: { callbackUrls: ['https://gatehouse.example.com/oauth/callback/elsewhere'] },
    });
    const { page, signedIn } = await attempt(siteWithWrongUrl);
    expect([page.status, signedIn, site.provider.hits]).toEqual([500, false, []]);
    expect(page.body).toContain('not in its registration');
    await siteWithWrongUrl.close();
  });
});

describe('an app that is unknown or disabled', () => {
  test('is not found for a sign-in, nor for a connection if it is unknown', async () => {
    const { agent } = await attempt(site, { path: START });
    const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });

    const signInOfUnknown = await agent.get(`${site.url}/sign-in?app=nobody`);
    const signInOfDisabled = await agent.get(`${site.url}/sign-in?app=off`);
    const connectionOfUnknown = await agent.request(`${site.url}/connections/nobody`, { method: 'POST', body });
    for (const { page, detail } of [
      { page: signInOfUnknown, detail: 'There is no sign-in app with this id.' },
      { page: signInOfDisabled, detail: 'There is no sign-in app with this id.' },
      { page: connectionOfUnknown, detail: 'There is no connected app with this id.' },
    ]) {
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
  test('with the same subject and e-mail address are one at the same provider, and two at two providers', async () => {
    const otherSite = await startHostileSite();
    const signInAt = async (target: HostileSite) => {
      target.provider.signInAs({ sub: 'same-sub', email: 'same@example.test', name: 'Same' });
      const { agent } = await attempt(target, { path: START });
      const { user } = (await getJson(agent, `${target.url}/session`)).json as { user: { id: string } };
      return user.id;
    };

    const id = await signInAt(site);
    expect(await signInAt(site)).toBe(id);
    const otherId = await signInAt(otherSite);
    expect(await signInAt(otherSite)).toBe(otherId);
    expect(otherId).not.toBe(id);
    await otherSite.close();
  });

  test.each(['a@b@c.example', 'admin＠example.test', ' admin@example.test', 'ADMIN@example.test'])(
    'do not become an administrator or another user by an e-mail address like %s',
    async (email) => {
      site.provider.signInAs({ sub: `sub of ${email.replace('＠', '@@')}`, email, groups: 'gatehouse-admin' });
      const { agent } = await attempt(site, { path: START });
      const { user } = (await getJson(agent, `${site.url}/session`)).json as { user: { admin: boolean; id: string } };
      site.provider.signInAs({ sub: 'admin', email: 'admin@example.test', groups: ['gatehouse-admins'] });
      const { agent: adminAgent } = await attempt(site, { path: START });
      const admin = (await getJson(adminAgent, `${site.url}/session`)).json.user as typeof user;

      expect([user.admin, admin.admin, user.id === admin.id]).toEqual([false, true, false]);
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

test('the page to choose an app links each sign-in app, and passes on the return path and hints', async () => {
  const readLinks = async (path: string) => {
    const { page } = await begin(site, { path });
    expect(page.status).toBe(200);
    expect(page.body).toContain('<title>Choose how to sign in');
    return [...page.body.matchAll(/href="([^"]*\/sign-in\?app=[^"]*)"/g)].map(([, link]) => link);
  };
  const linksOfBothApps = (query = '') =>
    ['elsewhere', 'second'].flatMap((app) => {
      const link = `${site.url}/sign-in?app=${app}${query}`;
      return [link, `${link}&amp;prompt=select_account`];
    });

  expect(await readLinks('/sign-in')).toEqual(linksOfBothApps());
  expect(await readLinks('/sign-in?return_to=%2Fconnections%3Fa%3Db')).toEqual(
    linksOfBothApps('&amp;return_to=%2Fconnections%3Fa%3Db'),
  );

  const linksWithHints = ['elsewhere', 'second'].map(
    (app) => `${site.url}/sign-in?app=${app}&amp;login_hint=a%40b.test&amp;prompt=login`,
  );
  expect(await readLinks('/sign-in?login_hint=a%40b.test&prompt=login')).toEqual(linksWithHints);

  // The page does not repeat a card number.
  expect(await readLinks('/sign-in?return_to=%2Fconnections%3Fcard%3D4111111111111111')).toEqual(linksOfBothApps());
  expect((await begin(site, { path: '/sign-in?app=nobody' })).page.status).toBe(404);
});

describe('who may sign in', () => {
  test('is decided by a claim, which is read from userinfo if the ID token lacks it', async () => {
    const siteForStaff = await startHostileSite({
      app: { signIn: { allow: { claim: 'groups', values: ['staff'] } } },
    });
    const signInWith = async (groups: unknown) => {
      siteForStaff.provider.signInAs({
        sub: `in ${JSON.stringify(groups)}`,
        name: 'N',
        email: 'e@example.test',
        groups,
      });
      const { agent, page } = await attempt(siteForStaff);
      return [page.status, await isSignedIn(siteForStaff, agent)];
    };

    siteForStaff.provider.setModes({ claims: ({ groups: _, ...claims }) => claims });
    expect(await signInWith(['guests', 'staff'])).toEqual([200, true]);
    expect(siteForStaff.provider.hitsOf('userinfo')).toHaveLength(1);
    expect(await signInWith('staff')).toEqual([200, true]);
    for (const groups of [['guests'], 'staff2', 'STAFF', [['staff']], { staff: true }, undefined, null, ['staff ']]) {
      expect(await signInWith(groups)).toEqual([403, false]);
    }
    await siteForStaff.close();
  });

  test('R21 userinfo is not called for claims of the ID token', async () => {
    site.provider.signInAs({ sub: 'user-1', name: 'Ada Quill', email: 'ada@example.test' });
    const groupsOfAdminApp = { groups: ['guests'] };
    for (const [path, groups] of [
      [START, groupsOfAdminApp],
      ['/sign-in?app=second', {}],
    ] as const) {
      site.provider.reset();
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

  test('R21 if only userinfo has the name, a sign-in succeeds while it is unavailable, and fails if its response is invalid', async () => {
    const signInWith = async (mode: ModeName) => {
      site.provider.reset();
      site.provider.setModes('id-token-without-name', mode);
      const { agent, page, signedIn } = await attempt(site, { path: '/sign-in?app=second' });
      const { user } = (await getJson(agent, `${site.url}/session`)).json as { user?: { name: string | null } };
      return { status: page.status, signedIn, name: user?.name };
    };

    expect(await signInWith('userinfo-status-503')).toEqual({ status: 200, signedIn: true, name: null });
    expect(await signInWith('userinfo-reset')).toEqual({ status: 200, signedIn: true, name: null });
    for (const mode of ['userinfo-other-sub', 'userinfo-no-sub', 'userinfo-html'] as const) {
      expect(await signInWith(mode), mode).toEqual({ status: 502, signedIn: false, name: undefined });
    }
  });
});
