/** The account page: registering at an OpenID provider, a plan that an operator confirms, keys shown once, and what guards it. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openBinServiceStore, readBinServiceSettings } from '../../src/bin-service/start.ts';
import { keys } from '../../src/storage/keys.ts';
import type { Store } from '../../src/storage/store.ts';
import { createUserAgent, type Page, type UserAgent } from '../support/browserless.ts';
import { signIn } from '../support/gatehouse.ts';
import { until } from '../support/until.ts';
import { type BinSite, command, settingsFor, startBinSite, startBinSiteWithAccounts, temporaryFolder } from './site.ts';

let site: BinSite & { sandbox: { issuer: string } };
beforeAll(async () => {
  site = await startBinSiteWithAccounts({ PLANS: 'small:50,large:5000' });
});
afterAll(() => site?.close());

const register = (login = 'user@example.test', agent?: UserAgent) =>
  signIn(site, login, { path: '/account/sign-in', ...(agent ? { agent } : {}) });
const keyOn = (page: Page) => /data-copy-source>(gthb_[^<]+)</.exec(page.body)?.[1] ?? '';
const accountOn = (page: Page) => /Account <code>([^<]+)</.exec(page.body)?.[1] ?? '';
const ask = (key: string) => fetch(`${site.url}/45717360`, { headers: { authorization: `Bearer ${key}` } });

test('from registering to a counted look-up, and to the end of the key', { timeout: 60_000 }, async () => {
  const front = await createUserAgent().get(`${site.url}/account`);
  expect(front.body).toContain('Sign in with <bdi>Sandbox</bdi>');
  const { agent, page } = await register();
  expect(page.url).toBe(`${site.url}/account`);
  const id = accountOn(page);
  expect(page.body).toContain('You have no plan yet');

  const chosen = await agent.submit(page, { plan: 'small' }, { button: 'Choose' });
  expect(chosen.status).toBe(200);
  expect(chosen.body).toContain('Waits to be confirmed');
  const made = await agent.submit(chosen, { name: 'Shop <script>', networks: '' });
  const key = keyOn(made);
  expect(made.body).toContain('Shop &lt;script&gt;');
  expect((await ask(key)).status).toBe(403);

  const listed = await command(site.env, 'plan', 'requests', '--json');
  expect(JSON.parse(listed.out)).toMatchObject([{ account: id, plan: 'small', email: 'user@example.test' }]);
  const confirmed = await command(site.env, 'plan', 'confirm', id);
  expect(confirmed).toMatchObject({ status: 0, out: `${id} has the plan small: 50 requests a month.\n` });
  expect((await command(site.env, 'plan', 'confirm', id)).status).toBe(1);

  await expect.poll(async () => (await ask(key)).status).toBe(200);
  const again = await agent.get(`${site.url}/account`);
  expect(again.body).toMatch(/<strong>1<\/strong> of 50 requests/);
  expect(again.body).toMatch(/<meter min="0" max="50" value="1"/);

  const bound = await agent.submit(again, { networks: '198.51.100.0/24' }, { button: 'Change the addresses' });
  expect(bound.body).toContain('Works from: 198.51.100.0/24');
  await expect.poll(async () => (await ask(key)).status).toBe(403);

  const revoked = await agent.submit(bound, {}, { button: 'Revoke' });
  expect(revoked.body).toContain('There is no key yet');
  await expect.poll(async () => (await ask(key)).status).toBe(401);
});

describe('keys', () => {
  test('R50 R80 are shown once, and kept nowhere in the clear', async () => {
    const { agent, page } = await register('second@example.test');
    const made = await agent.submit(page, { name: 'once', networks: '' });
    const key = keyOn(made);
    expect(key).toMatch(/^gthb_/);
    expect(made.headers.get('cache-control')).toBe('no-store');
    const later = await agent.get(`${site.url}/account`);
    expect(later.body).not.toContain(key.slice(10, 40));
    expect(later.body).toContain(key.slice(-4));
    const files = readdirSync(site.env.DATA_DIR ?? '').map((name) => readFileSync(join(site.env.DATA_DIR ?? '', name)));
    expect(files.length).toBeGreaterThan(0);
    expect(files.every((file) => !file.includes(key.slice(10, 40)))).toBe(true);
    expect(site.logs().join()).not.toContain(key.slice(10, 40));
  });

  test('with faults are refused beside the field, and what was typed stays', async () => {
    const { agent, page } = await register('second@example.test');
    const wrong = await agent.submit(page, { name: 'mine', networks: '10.0.0.0/8\n<b>' });
    expect(wrong.status).toBe(400);
    expect(wrong.body).toContain('“&lt;b&gt;” is no address');
    expect(wrong.body).toContain('value="mine"');
    expect(wrong.body).toMatch(/aria-invalid="true">10\.0\.0\.0\/8/);
    const unnamed = await agent.submit(page, { name: ' ', networks: '' });
    expect(unnamed.body).toContain('Give the key a name');
  });

  test('of another account cannot be touched', async () => {
    const { agent, page } = await register('second@example.test');
    const made = await agent.submit(page, { name: 'theirs', networks: '' });
    const action = made.forms.find(({ action: one }) => one.endsWith('/revoke'))?.action ?? '';
    const { agent: other, page: own } = await register('admin@example.test');
    const token = own.forms[0]?.fields.find(([name]) => name === '_csrf')?.[1] ?? '';
    const body = new URLSearchParams({ _csrf: token });
    expect((await other.request(site.url + action, { method: 'POST', body })).status).toBe(404);
  });
});

describe('what guards it', () => {
  test('R1 R3 the authorization request is fresh, S256, and nothing of it can be set from outside', async () => {
    const start = (query = '') =>
      fetch(`${site.url}/account/sign-in${query}`, { redirect: 'manual' }).then(
        (answer) => new URL(answer.headers.get('location') ?? ''),
      );
    const [one, other] = [await start(), await start('?state=x&redirect_uri=https://evil.example&scope=all')];
    for (const name of ['state', 'nonce', 'code_challenge']) {
      expect(one.searchParams.get(name)).toMatch(/^[A-Za-z0-9_-]{43}$/);
      expect(one.searchParams.get(name)).not.toBe(other.searchParams.get(name));
    }
    expect(other.searchParams.get('code_challenge_method')).toBe('S256');
    expect(other.searchParams.getAll('redirect_uri')).toEqual([`${site.url}/account/callback`]);
    expect(other.searchParams.get('scope')).toBe('openid profile email');
  });

  test('R7 R8 R9 a callback is good once, in the browser that began it', async () => {
    const agent = createUserAgent({ stopAt: (url) => url.includes('/account/callback') });
    const { page } = await register('user@example.test', agent);
    expect(page.url).toContain('/account/callback?');
    expect((await createUserAgent().get(page.url)).status).toBe(400);
    const cookie = agent.cookies.header(page.url);
    const open = () => fetch(page.url, { redirect: 'manual', headers: { cookie } });
    const answers = await Promise.all(Array.from({ length: 8 }, open));
    expect(answers.filter(({ status }) => status === 303)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(7);
    for (const query of ['', '?state=', '?state=x&code=y', '?state=a&state=b', `?state=${'x'.repeat(5_000)}`]) {
      expect((await fetch(`${site.url}/account/callback${query}`, { headers: { cookie } })).status).toBe(400);
    }
  });

  test('R15 a refusal of the provider signs nobody in', async () => {
    const agent = createUserAgent({ stopAt: (url) => url.startsWith(site.sandbox.issuer) });
    const page = await agent.get(`${site.url}/account/sign-in`);
    const state = new URL(page.url).searchParams.get('state');
    const iss = encodeURIComponent(site.sandbox.issuer);
    const refused = await agent.get(`${site.url}/account/callback?error=access_denied&state=${state}&iss=${iss}`);
    expect(refused.status).toBe(403);
    expect(refused.body).toContain('Try again');
  });

  test('R17 R53 the session is new with each sign-in, in a cookie that scripts cannot read', async () => {
    const agent = createUserAgent();
    const answers = [await register('user@example.test', agent), await register('user@example.test', agent)];
    expect(answers).toHaveLength(2);
    const before = agent.cookies.header(site.url);
    await register('user@example.test', agent);
    const after = agent.cookies.header(site.url);
    expect(after).not.toBe(before);
    const old = await fetch(`${site.url}/account`, { headers: { cookie: before ?? '', accept: 'text/html' } });
    expect(await old.text()).toContain('Sign in with');
    const start = await fetch(`${site.url}/account/sign-in`, { redirect: 'manual' });
    expect(start.headers.getSetCookie()[0]).toMatch(/; Path=\/; HttpOnly; SameSite=Lax$/);
  });

  test('R57 signing out ends the session here', async () => {
    const { agent, page } = await register();
    const cookie = agent.cookies.header(site.url);
    const left = await agent.submit(page, {}, { button: 'Sign out' });
    expect(left.body).toContain('Sign in with');
    const old = await fetch(`${site.url}/account`, { headers: { cookie: cookie ?? '', accept: 'text/html' } });
    expect(await old.text()).toContain('Sign in with');
  });

  test('R66 every change needs the session’s token and our own origin', async () => {
    const { agent, page } = await register();
    const token = page.forms[0]?.fields.find(([name]) => name === '_csrf')?.[1] ?? '';
    const paths = ['/account/plan', '/account/keys', '/account/keys/x/addresses', '/account/keys/x/revoke'];
    for (const path of [...paths, '/account/sign-out']) {
      const post = (fields: Record<string, string>, headers: Record<string, string> = {}) =>
        agent.request(site.url + path, { method: 'POST', body: new URLSearchParams(fields), headers, follow: false });
      expect((await post({ name: 'x', plan: 'small' })).status).toBe(403);
      expect((await post({ _csrf: token, plan: 'small' }, { origin: 'https://evil.example' })).status).toBe(403);
      expect((await post({ _csrf: token, plan: 'small' }, { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
      expect((await fetch(site.url + path, { method: 'POST', redirect: 'manual' })).status).toBe(401);
      expect((await fetch(site.url + path)).status).toBe(405);
    }
    expect((await agent.get(`${site.url}/account`)).body).toContain('Signed in as');
  });

  test('R68 R69 pages carry the strict headers', async () => {
    const { agent } = await register();
    for (const path of ['/account', '/account/nothing', '/account/callback']) {
      const { headers } = await agent.get(site.url + path);
      expect(headers.get('content-security-policy')).toContain("default-src 'none'; script-src 'self'");
      expect(headers.get('cache-control')).toBe('no-store');
      expect(headers.get('x-content-type-options')).toBe('nosniff');
    }
    const asset = await fetch(`${site.url}/assets/bin-service.css`);
    expect(asset.headers.get('content-type')).toContain('text/css');
  });

  test('a browser that asks for the root comes to the account page, a program learns what to ask for', async () => {
    expect((await createUserAgent().get(`${site.url}/`)).url).toBe(`${site.url}/account`);
    expect((await fetch(`${site.url}/`)).status).toBe(404);
  });
});

test('sessions that have ended by themselves leave the list of all, soon after a start', async () => {
  const folder = temporaryFolder();
  const env = await settingsFor({ DATA_DIR: folder.path });
  const listed = async (store: Store) => (await store.page(keys.liveSessions, { limit: 9 })).items;
  const before = await openBinServiceStore(readBinServiceSettings(env));
  // Its record is long gone.
  await before.write([{ index: keys.liveSessions, add: 'hash-of-one-that-ended', score: Date.now() - 3_600_000 }]);
  expect(await listed(before)).toHaveLength(1);
  await before.close();

  const service = await startBinSite(env);
  const after = await openBinServiceStore(readBinServiceSettings(env));
  try {
    await until(async () => (await listed(after)).length === 0);
  } finally {
    await after.close();
    await service.close();
    folder.remove();
  }
});
