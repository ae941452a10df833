/** The account page: registration at an OpenID provider, plans that an operator confirms, keys, and guards. */

import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { accountRoutes } from '../../src/bin-lookup-service/account-routes.ts';
import { type Account, createAccounts } from '../../src/bin-lookup-service/accounts.ts';
import { openBinServiceStore, readBinServiceSettings } from '../../src/bin-lookup-service/start.ts';
import { createOwnBinService } from '../../src/sandbox/own-bin-lookup-service.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { cookieName } from '../../src/shared/http/cookie-name.ts';
import { sharedAssets } from '../../src/shared/pages/assets.ts';
import { keys } from '../../src/shared/storage/keys.ts';
import type { Store } from '../../src/shared/storage/store.ts';
import { createUserAgent, type Page, type UserAgent } from '../support/browserless.ts';
import { signIn } from '../support/gatehouse.ts';
import { watchedLog } from '../support/log-watch.ts';
import { freePort } from '../support/ports.ts';
import { advanceClock, advanceToNextMinute } from '../support/test-clock.ts';
import { until } from '../support/until.ts';
import { type BinSite, command, settingsFor, startBinSite, startBinSiteWithAccounts, temporaryFolder } from './site.ts';

const PAYMENT_TOKEN = randomBytes(32).toString('base64url');

let site: BinSite & { sandbox: Sandbox };
beforeAll(async () => {
  site = await startBinSiteWithAccounts({ PLANS: 'small:50,large:5000:600:large@example.test', PAYMENT_TOKEN });
});
afterAll(() => site?.close());

const register = (login = 'user@example.test', agent?: UserAgent) =>
  signIn(site, login, { path: '/account/sign-in', ...(agent ? { agent } : {}) });
/** Signs in at the provider. @returns the URL of the callback, not yet opened, for a browser with this cookie */
async function callbackFor(login: string, secret: string | undefined): Promise<string> {
  const agent = createUserAgent({ stopAt: (url) => url.includes('/account/callback') });
  agent.cookies.set(site.url, cookieName('bin-lookup-service-tx-abcdef', site.url), secret);
  return (await register(login, agent)).page.url;
}
/** The random value of the browser's only cookie for pending sign-ins. */
function pendingCookieOf(agent: UserAgent): string | undefined {
  const cookies = agent.cookies.all().filter(({ name }) => name.startsWith('bin-lookup-service-tx-'));
  expect(cookies.length).toBeLessThan(2);
  return cookies[0]?.value;
}
const keyOn = (page: Page) => /data-copy-source>(gthb_[^<]+)</.exec(page.body)?.[1] ?? '';
const accountOn = (page: Page) => /Account <code>([^<]+)</.exec(page.body)?.[1] ?? '';
const orderOn = (page: Page) => /Your order of the plan \w+: <code>([^<]+)</.exec(page.body)?.[1] ?? '';
const lookUp = (key: string) => fetch(`${site.url}/45717360`, { headers: { authorization: `Bearer ${key}` } });

test('a user registers, gets a plan, looks up with a key and revokes it', async () => {
  const frontPage = await createUserAgent().get(`${site.url}/account`);
  expect(frontPage.body).toContain('Sign in with <bdi>Sandbox</bdi>');
  expect(frontPage.body).toContain('Plans for 50 or 5,000 requests a month');
  const { agent, page } = await register();
  expect(page.url).toBe(`${site.url}/account`);
  const id = accountOn(page);
  expect(page.body).toContain('You have no plan yet');

  const chosen = await agent.submit(page, { plan: 'small' }, { button: 'Choose' });
  expect(chosen.status).toBe(200);
  expect(chosen.body).toContain('Awaiting confirmation');
  const created = await agent.submit(chosen, { name: 'Shop <script>', networks: '' });
  const key = keyOn(created);
  expect(created.body).toContain('Shop &lt;script&gt;');
  expect((await lookUp(key)).status).toBe(403);

  const listed = await command(site.env, 'plan', 'requests', '--json');
  expect(JSON.parse(listed.out)).toMatchObject([
    { account: id, plan: 'small', order: orderOn(chosen), email: 'user@example.test' },
  ]);
  expect(orderOn(chosen)).toMatch(/^o[\w-]{12}$/);
  const confirmed = await command(site.env, 'plan', 'confirm', id);
  expect(confirmed).toMatchObject({ status: 0, out: `${id} has the plan small: 50 requests a month.\n` });
  expect(JSON.parse(confirmed.err)).toMatchObject({
    ...{ level: 30, msg: 'plan confirmed', account: id, plan: 'small', order: orderOn(chosen) },
  });
  expect((await command(site.env, 'plan', 'confirm', id)).status).toBe(1);

  await expect.poll(async () => (await lookUp(key)).status).toBe(200);
  const accountPage = await agent.get(`${site.url}/account`);
  expect(accountPage.body).toMatch(/<strong>1<\/strong> of 50 requests/);
  expect(accountPage.body).toMatch(/<meter min="0" max="50" value="1"/);

  const withAddresses = await agent.submit(
    accountPage,
    { networks: '198.51.100.0/24' },
    { button: 'Change addresses' },
  );
  expect(withAddresses.body).toContain('Works from: 198.51.100.0/24');
  await expect.poll(async () => (await lookUp(key)).status).toBe(403);

  const revoked = await agent.submit(withAddresses, {}, { button: 'Revoke' });
  expect(revoked.body).toContain('No keys yet');
  await expect.poll(async () => (await lookUp(key)).status).toBe(401);
});

describe('a payment system', () => {
  const confirm = (body: unknown, token = PAYMENT_TOKEN) =>
    fetch(`${site.url}/account/confirmations`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) },
      body: JSON.stringify(body),
    });

  test('confirms exactly the plan that was paid for, and may repeat the call', async () => {
    const { agent, page } = await register('second@example.test');
    const account = accountOn(page);
    expect(page.body).toContain('600 a minute');
    const orderPlan = async (plan: string) =>
      orderOn(await agent.submit(await agent.get(`${site.url}/account`), { plan }, { button: 'Choose' }));
    const replacedOrder = await orderPlan('small');
    const order = await orderPlan('large');
    for (const wrongOrder of [
      { plan: 'small', order },
      { plan: 'large', order: replacedOrder },
      { plan: 'small', order: replacedOrder },
    ])
      expect((await confirm({ account, ...wrongOrder })).status).toBe(409);
    for (let count = 0; count < 2; count += 1) {
      const confirmed = await confirm({ account, plan: 'large', order });
      expect([confirmed.status, await confirmed.json()]).toEqual([
        200,
        { account, plan: 'large', order, since: expect.any(String) },
      ]);
    }
    const logged = site.logs().filter((line) => line.includes('plan confirmed') && line.includes(account));
    expect(logged.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({ account, plan: 'large', order }),
    ]);
    const { body } = await agent.get(`${site.url}/account`);
    expect(body).toContain('of 5,000 requests');
    expect(body).toContain('mailto:large@example.test');
    expect(body).not.toContain('Your order of');
    expect((await confirm({ account, plan: 'small', order: replacedOrder })).status).toBe(409);
    expect((await command(site.env, 'plan', 'requests')).out).not.toContain(account);
    expect((await command(site.env, 'plan', 'end', account)).status).toBe(0);
  });

  test('does not confirm a later order by repeating an earlier call', async () => {
    const { agent, page } = await register('second@example.test');
    const account = accountOn(page);
    const firstOrder = orderOn(await agent.submit(page, { plan: 'small' }, { button: 'Choose' }));
    expect((await confirm({ account, plan: 'small', order: firstOrder })).status).toBe(200);
    const store = await openBinServiceStore(readBinServiceSettings(site.env));
    onTestFinished(() => store.close());
    const accounts = createAccounts({ store, clock: Date.now, randomBytes });
    const withLaterOrder = await accounts.requestPlan(account, { name: 'small', monthlyRequests: 70 });
    /** Repeats the first call, which must change nothing. @returns the account */
    const repeatFirstCall = async () => {
      const accountBefore = await accounts.find(account);
      const repeated = await confirm({ account, plan: 'small', order: firstOrder });
      expect([repeated.status, await repeated.json()]).toEqual([200, expect.objectContaining({ order: firstOrder })]);
      expect(await accounts.find(account)).toEqual(accountBefore);
      return accountBefore;
    };
    expect(await repeatFirstCall()).toEqual(withLaterOrder);
    expect((await confirm({ account, plan: 'small', order: withLaterOrder?.requested?.order })).status).toBe(200);
    expect((await repeatFirstCall())?.plan?.monthlyRequests).toBe(70);
    expect((await command(site.env, 'plan', 'end', account)).status).toBe(0);
  });

  test('an order that arrives while an earlier one is confirmed stays listed', async () => {
    const store = await openBinServiceStore(readBinServiceSettings(site.env));
    onTestFinished(() => store.close());
    const accounts = createAccounts({ store, clock: Date.now, randomBytes });
    const { id } = await accounts.register({ issuer: 'https://idp.example', subject: 'orders twice' });
    await accounts.requestPlan(id, { name: 'small', monthlyRequests: 1 });
    let withLaterOrder: Account | undefined;
    // The later order arrives between the read of the account and the write of the confirmation.
    const write: Store['write'] = async (writes, options) => {
      if (writes.some((entry) => 'remove' in entry))
        withLaterOrder ??= await accounts.requestPlan(id, { name: 'large', monthlyRequests: 2 });
      return store.write(writes, options);
    };
    await createAccounts({ store: { ...store, write }, clock: Date.now, randomBytes }).confirmPlan(id);
    expect(withLaterOrder?.requested?.name).toBe('large');
    expect((await accounts.requests()).filter((account) => account.id === id)).toEqual([withLaterOrder]);
    await accounts.endPlan(id);
    expect((await accounts.requests()).filter((account) => account.id === id)).toEqual([]);
  });

  test('listed orders that their account does not have are deleted after an hour', async () => {
    const store = await openBinServiceStore(readBinServiceSettings(site.env));
    onTestFinished(() => store.close());
    const accounts = createAccounts({ store, clock: Date.now, randomBytes });
    const { id } = await accounts.register({ issuer: 'https://idp.example', subject: 'has stale entries' });
    const current = await accounts.requestPlan(id, { name: 'small', monthlyRequests: 1 });
    const hourAgo = Date.now() - 3_600_000;
    for (const [order, score] of [
      ['ostale', hourAgo - 1_000],
      ['onew', hourAgo + 60_000],
    ] as const)
      await store.write([{ index: keys.planRequests, add: `${id} ${order}`, score }]);
    const requested = async () => (await accounts.requests()).filter((account) => account.id === id);
    expect(await requested()).toEqual([current]);
    const { items } = await store.page(keys.planRequests, { limit: 99 });
    const remaining = items.flatMap(({ member }) => (member.startsWith(id) ? [member.split(' ')[1]] : []));
    expect(remaining).toEqual(['onew', current?.requested?.order]);
    await accounts.endPlan(id);
  });

  test('must send its token, an account, a plan and an order', async () => {
    const order = { account: 'anobody', plan: 'small', order: 'onone' };
    for (const [token, challenge] of [
      ['', 'Bearer'],
      [`${PAYMENT_TOKEN}x`, 'Bearer error="invalid_token"'],
    ] as const) {
      const refused = await confirm(order, token);
      expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, challenge]);
    }
    expect((await confirm(order)).status).toBe(404);
    for (const body of [{}, [], { ...order, more: 1 }, { ...order, account: 1 }, { account: 'anobody', plan: 'small' }])
      expect((await confirm(body)).status).toBe(400);
    const { agent } = await register();
    const byUser = await agent.request(`${site.url}/account/confirmations`, {
      method: 'POST',
      body: new URLSearchParams(order),
    });
    expect(byUser.status).toBe(401);
  });

  test('can confirm while other callers from its address send wrong tokens', async () => {
    const order = { account: 'anobody', plan: 'small', order: 'onone' };
    const wrong = async () => (await confirm(order, 'wrong')).status;
    const statuses = await Promise.all(Array.from({ length: 210 }, wrong));
    expect(statuses).toContain(429);
    expect((await confirm(order)).status).toBe(404);
  });

  test('cannot confirm without PAYMENT_TOKEN, and no plans are offered without registration', async () => {
    const siteWithoutPayment = await startBinSite();
    const response = await fetch(`${siteWithoutPayment.url}/account/confirmations`, { method: 'POST', body: '{}' });
    expect(response.status).toBe(404);
    expect((await createUserAgent().get(`${siteWithoutPayment.url}/account`)).body).not.toContain('Plans for');
    await siteWithoutPayment.close();
  });
});

test('the sandbox confirms orders automatically, and says so', async () => {
  const port = await freePort(3);
  const folder = temporaryFolder();
  const binService = createOwnBinService({ port });
  const sandbox = await startSandbox({ port, clients: [binService.client], binService: binService.listener });
  onTestFinished(async () => {
    await binService.close();
    await sandbox.close();
    folder.remove();
  });
  // This request waits until the service is open.
  const earlyResponse = fetch(`${sandbox.binServiceUrl}/424242`);
  await binService.open(sandbox, { directory: folder.path, logLevel: 'error', logDestination: watchedLog([]) });
  expect((await earlyResponse).headers.get('gatehouse-test-data')).toBe('true');
  const { agent, page } = await signIn({ url: sandbox.binServiceUrl }, 'user@example.test', {
    path: '/account/sign-in',
  });
  expect(page.body).toContain('confirmed automatically after 5 seconds');
  const ordered = await agent.submit(page, { plan: 'starter' }, { button: 'Choose' });
  expect(ordered.body).toContain('This demo takes no payment and confirms it in 5 seconds: then reload this page.');
  await until(async () => {
    const account = await agent.get(`${sandbox.binServiceUrl}/account`);
    return account.body.includes('of 100,000 requests');
  });
});

test('automatic confirmation of an order does not confirm a later one', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const confirmations: unknown[] = [];
  let orderCount = 0;
  const { choosePlan } = accountRoutes({
    accounts: {
      requestPlan: async (id: string, plan: object) => {
        orderCount += 1;
        return { id, requested: { ...plan, order: `o${orderCount}` } };
      },
      confirmPlan: async (...args: unknown[]) => void confirmations.push(args),
    },
    pages: { redirectAfter: (_req: unknown, _res: unknown, work: () => Promise<unknown>) => work() },
    plans: ['small', 'large'].map((name) => ({ name, monthlyRequests: 1 })),
    publicUrl: { href: '', origin: '' },
    confirmSeconds: 5,
  } as never);
  const choose = (plan: string) =>
    choosePlan({ body: { plan }, context: { session: { user: { id: 'a1' } } } } as never, {} as never, () => undefined);
  await choose('small');
  vi.advanceTimersByTime(3_000);
  await choose('large');
  vi.advanceTimersByTime(3_000);
  expect(confirmations).toEqual([['a1', { order: 'o1', plan: 'small' }]]);
  vi.advanceTimersByTime(2_000);
  expect(confirmations.slice(1)).toEqual([['a1', { order: 'o2', plan: 'large' }]]);
});

describe('keys', () => {
  test('R50 R80 are shown once, and never stored or logged in the clear', async () => {
    const { agent, page } = await register('second@example.test');
    const created = await agent.submit(page, { name: 'once', networks: '' });
    const key = keyOn(created);
    expect(key).toMatch(/^gthb_/);
    expect(created.headers.get('cache-control')).toBe('no-store');
    const later = await agent.get(`${site.url}/account`);
    expect(later.body).not.toContain(key.slice(10, 40));
    expect(later.body).toContain(key.slice(-4));
    const files = readdirSync(site.env.DATA_DIR ?? '').map((name) => readFileSync(join(site.env.DATA_DIR ?? '', name)));
    expect(files.length).toBeGreaterThan(0);
    expect(files.every((file) => !file.includes(key.slice(10, 40)))).toBe(true);
    expect(site.logs().join()).not.toContain(key.slice(10, 40));
  });

  test('R106 are created once, even if the page is reloaded', async () => {
    const { agent, page } = await register('second@example.test');
    const created = await agent.submit(page, { name: 'single', networks: '' });
    expect(new URL(created.url).pathname).toBe('/account');
    expect(keyOn(created)).toMatch(/^gthb_/);
    const reloaded = await agent.get(created.url);
    expect([keyOn(reloaded), reloaded.body.match(/>single</g)?.length]).toEqual(['', 1]);
  });

  test('with faults are refused next to the field, and the input stays', async () => {
    const { agent, page } = await register('second@example.test');
    const withFaultyAddress = await agent.submit(page, { name: 'mine', networks: '10.0.0.0/8\n<b>' });
    expect(withFaultyAddress.status).toBe(400);
    expect(withFaultyAddress.body).toContain('“&lt;b&gt;” is not an address');
    expect(withFaultyAddress.body).toContain('value="mine"');
    expect(withFaultyAddress.body).toMatch(/aria-invalid="true"[^>]*>10\.0\.0\.0\/8/);
    const unnamed = await agent.submit(page, { name: ' ', networks: '' });
    expect(unnamed.body).toContain('Enter a name of 1 to 60 characters.');
    for (const { body } of [withFaultyAddress, unnamed]) expect(body).toMatch(/<title>Error: Your account/);
    expect(withFaultyAddress.body).toMatch(/<li><a href="#networks">Entry 2: “&lt;b&gt;”/);
    expect(withFaultyAddress.body.match(/<(?:input|textarea)[^>]* autofocus/g)).toEqual([
      expect.stringContaining('id="networks"'),
    ]);
    expect(unnamed.body.match(/<(?:input|textarea)[^>]* autofocus/g)).toEqual([expect.stringContaining('id="name"')]);
  });

  test('R106 are created once, even if the form is sent twice', async () => {
    const { agent, page } = await register('second@example.test');
    const both = await Promise.all([1, 2].map(() => agent.submit(page, { name: 'doubled', networks: '' })));
    expect(both.map(({ status }) => status)).toEqual([200, 200]);
    expect((await agent.get(`${site.url}/account`)).body.match(/>doubled</g)).toHaveLength(1);
  });

  test('show a fault of their addresses in the form of that key', async () => {
    const { agent, page } = await register('second@example.test');
    const created = await agent.submit(page, { name: 'bound', networks: '' });
    const refused = await agent.submit(created, { networks: 'here' }, { button: 'Change addresses' });
    const [, id] = /<li><a href="#(networks-[^"]+)">Entry 1: “here” is not an address/.exec(refused.body) ?? [];
    const [textarea = ''] = new RegExp(`<textarea[^>]* id="${id}"[^>]*>here<`).exec(refused.body) ?? [];
    expect(textarea).toMatch(/ aria-invalid="true"/);
    expect(textarea).toMatch(/ autofocus[ >]/);
    expect(refused.body.match(/aria-invalid/g)).toHaveLength(1);
  });

  test('have at most 50 addresses', async () => {
    const { agent, page } = await register('second@example.test');
    const addresses = (count: number) => Array.from({ length: count }, (_, at) => `198.51.100.${at}`).join('\n');
    const created = await agent.submit(page, { name: 'many', networks: addresses(50) });
    expect(created.body).toContain('Works from: 198.51.100.0');
    const more = await agent.submit(created, { name: 'more', networks: addresses(51) });
    expect([more.status, more.body.includes('Enter at most 50 addresses.')]).toEqual([400, true]);
    const changed = await agent.submit(created, { networks: addresses(51) }, { button: 'Change addresses' });
    expect([changed.status, changed.body.includes('Enter at most 50 addresses.')]).toEqual([400, true]);
  });

  test('of another account cannot be changed', async () => {
    const { agent, page } = await register('second@example.test');
    const created = await agent.submit(page, { name: 'theirs', networks: '' });
    const action = created.forms.find(({ action }) => action.endsWith('/revoke'))?.action ?? '';
    const { agent: otherAgent, page: otherPage } = await register('admin@example.test');
    const token = otherPage.forms[0]?.fields.find(([name]) => name === '_csrf')?.[1] ?? '';
    const body = new URLSearchParams({ _csrf: token });
    expect((await otherAgent.request(site.url + action, { method: 'POST', body })).status).toBe(404);
  });
});

describe('security', () => {
  test('R1 R3 each authorization request is new and uses S256, and query parameters cannot change it', async () => {
    const start = (query = '') =>
      fetch(`${site.url}/account/sign-in${query}`, { redirect: 'manual' }).then(
        (response) => new URL(response.headers.get('location') ?? ''),
      );
    const [first, second] = [await start(), await start('?state=x&redirect_uri=https://evil.example&scope=all')];
    for (const name of ['state', 'nonce', 'code_challenge']) {
      expect(first.searchParams.get(name)).toMatch(/^[A-Za-z0-9_-]{43}$/);
      expect(first.searchParams.get(name)).not.toBe(second.searchParams.get(name));
    }
    expect(second.searchParams.get('code_challenge_method')).toBe('S256');
    expect(second.searchParams.getAll('redirect_uri')).toEqual([`${site.url}/account/callback`]);
    expect(second.searchParams.get('scope')).toBe('openid profile email');
  });

  test('R7 R8 R9 a callback is valid once, in the browser that started the sign-in', async () => {
    const agent = createUserAgent({ stopAt: (url) => url.includes('/account/callback') });
    const { page } = await register('user@example.test', agent);
    expect(page.url).toContain('/account/callback?');
    expect((await createUserAgent().get(page.url)).status).toBe(400);
    const cookie = agent.cookies.header(page.url);
    const open = () => fetch(page.url, { redirect: 'manual', headers: { cookie } });
    const responses = await Promise.all(Array.from({ length: 8 }, open));
    expect(responses.filter(({ status }) => status === 303)).toHaveLength(1);
    expect(responses.filter(({ status }) => status === 400)).toHaveLength(7);
    for (const query of ['', '?state=', '?state=x&code=y', '?state=a&state=b', `?state=${'x'.repeat(5_000)}`]) {
      expect((await fetch(`${site.url}/account/callback${query}`, { headers: { cookie } })).status).toBe(400);
    }
  });

  test.each(['code', 'state', 'iss', 'error', 'error_description', 'response'])(
    'R14 a callback with %s twice is refused, and can be sent again without it',
    async (name) => {
      const agent = createUserAgent({ stopAt: (url) => url.includes('/account/callback') });
      const { page } = await register('user@example.test', agent);
      const headers = { cookie: agent.cookies.header(page.url) };
      const value = new URL(page.url).searchParams.get(name);
      const duplicated = new URL(page.url);
      for (const extra of value === null ? ['x', 'x'] : [value]) duplicated.searchParams.append(name, extra);
      expect((await fetch(duplicated, { redirect: 'manual', headers })).status).toBe(400);
      expect((await fetch(page.url, { redirect: 'manual', headers })).status).toBe(303);
    },
  );

  test('a sign-in that started more than 600 s ago leads to the start page, even if another started later', async () => {
    const agent = createUserAgent();
    const startSignIn = async () => {
      const redirect = await agent.get(`${site.url}/account/sign-in`, { follow: false });
      return redirect.headers.get('location') ?? '';
    };
    const expiredSignIn = await startSignIn();
    advanceClock(500);
    const laterSignIn = await startSignIn();
    advanceClock(101);
    const { page: over } = await signIn({ url: expiredSignIn }, 'user@example.test', { agent, path: '' });
    expect([over.status, over.url]).toEqual([200, `${site.url}/account?ended=sign-in`]);
    expect(over.body).toContain('That sign-in is over');
    expect(over.body).toContain('Sign in with');
    const { page } = await signIn({ url: laterSignIn }, 'user@example.test', { agent, path: '' });
    expect([page.status, page.url]).toEqual([200, `${site.url}/account`]);
  });

  test('R15 an error from the provider does not sign the user in', async () => {
    const agent = createUserAgent({ stopAt: (url) => url.startsWith(site.sandbox.issuer) });
    const page = await agent.get(`${site.url}/account/sign-in`);
    const state = new URL(page.url).searchParams.get('state');
    const iss = encodeURIComponent(site.sandbox.issuer);
    const refused = await agent.get(`${site.url}/account/callback?error=access_denied&state=${state}&iss=${iss}`);
    expect(refused.status).toBe(403);
    expect(refused.body).toContain('Try again');
    const again = await agent.get(refused.url);
    expect([again.status, again.body.includes('did not confirm the sign-in')]).toEqual([403, true]);
  });

  test('R64 sign-ins that start at once in a browser without cookies all end well', async () => {
    const agent = createUserAgent({ stopAt: (url) => url.includes('/account/callback') });
    const starts = await Promise.all(
      Array.from({ length: 10 }, () => agent.get(`${site.url}/account/sign-in`, { follow: false })),
    );
    const callbacks: string[] = [];
    for (const start of starts) {
      const url = start.headers.get('location') ?? '';
      callbacks.push((await signIn({ url }, 'user@example.test', { agent, path: '' })).page.url);
    }
    const cookie = agent.cookies.header(site.url);
    const open = (url: string) => fetch(url, { redirect: 'manual', headers: { cookie, accept: 'text/html' } });
    const responses = await Promise.all(callbacks.map(open));
    expect(responses.map(({ headers }) => headers.get('location'))).toEqual(
      Array.from({ length: 10 }, () => `${site.url}/account`),
    );
    // One cookie for the next sign-ins is enough.
    const signedIn = createUserAgent();
    for (const pair of cookie.split('; ')) signedIn.cookies.store(site.url, [`${pair}; Path=/`]);
    signedIn.cookies.store(site.url, responses[0]?.headers.getSetCookie() ?? []);
    expect(pendingCookieOf(signedIn)).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect((await signedIn.get(callbacks[1] ?? '')).url).toBe(`${site.url}/account`);
  });

  test('a sign-in that ten later ones of the browser have displaced leads to the start page', async () => {
    const agent = createUserAgent();
    const starts: string[] = [];
    for (let count = 0; count < 11; count += 1) {
      const start = await agent.get(`${site.url}/account/sign-in`, { follow: false });
      starts.push(start.headers.get('location') ?? '');
    }
    const { page } = await signIn({ url: starts[0] ?? '' }, 'user@example.test', { agent, path: '' });
    expect([page.url, page.body.includes('That sign-in is over')]).toEqual([`${site.url}/account?ended=sign-in`, true]);
    const { page: last } = await signIn({ url: starts[10] ?? '' }, 'user@example.test', { agent, path: '' });
    expect(last.url).toBe(`${site.url}/account`);
  });

  test('R41 a provider that limits its calls is named as that, with the time to wait', async () => {
    site.sandbox.faults.set({
      ...{ listener: 'identity-provider', path: '/token', kind: 'response', status: 429 },
      headers: { 'Retry-After': new Date(Date.now() + 300_000).toUTCString() },
      times: 1,
    });
    const { page } = await register();
    expect([page.status, page.body.includes('does not respond')]).toEqual([503, false]);
    expect(page.body).toContain('The sign-in provider is busy');
    expect(Math.abs(Number(page.headers.get('retry-after')) - 300)).toBeLessThan(60);
  });

  test('R10 a callback that is opened again after a refusal shows the same page, in its browser only', async () => {
    const refusals = [
      {
        fault: { kind: 'response', status: 429, headers: { 'Retry-After': '300' } },
        status: 503,
        words: 'provider is busy',
      },
      { fault: { kind: 'response', status: 503 }, status: 503, words: 'The sign-in provider does not respond' },
      {
        fault: { kind: 'response', status: 400, body: { error: 'invalid_grant' } },
        status: 502,
        words: 'The sign-in at the provider failed',
      },
    ] as const;
    for (const { fault, status, words } of refusals) {
      // An address may start 60 sign-ins a minute.
      advanceToNextMinute();
      site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', times: 1, ...fault });
      const { agent, page } = await register();
      expect([page.status, page.body]).toEqual([status, expect.stringContaining(words)]);
      // Later starts do not displace it, and it displaces none.
      for (let n = 0; n < 11; n += 1) await agent.get(`${site.url}/account/sign-in`, { follow: false });
      for (let n = 0; n < 2; n += 1) {
        const again = await agent.get(page.url);
        expect([again.status, again.body]).toEqual([status, expect.stringContaining(words)]);
      }
      expect((await createUserAgent().get(page.url)).body).not.toContain('provider is busy');
      const signedIn = await register('user@example.test', agent);
      expect(signedIn.page.url).toBe(`${site.url}/account`);
    }
  });

  test('R10 a callback of another account that is opened again says the same', async () => {
    advanceToNextMinute();
    const { agent } = await register();
    const callbackUrl = await callbackFor('second@example.test', pendingCookieOf(agent));
    for (let n = 0; n < 3; n += 1) {
      const page = await agent.get(callbackUrl);
      expect([page.status, page.body]).toEqual([400, expect.stringContaining('sign out, then sign in')]);
    }
  });

  test('R17 R53 each sign-in starts a new session, in a cookie that scripts cannot read', async () => {
    const agent = createUserAgent();
    const responses = [await register('user@example.test', agent), await register('user@example.test', agent)];
    expect(responses).toHaveLength(2);
    const oldCookie = agent.cookies.header(site.url);
    await register('user@example.test', agent);
    const newCookie = agent.cookies.header(site.url);
    expect(newCookie).not.toBe(oldCookie);
    const withOldCookie = await fetch(`${site.url}/account`, {
      headers: { cookie: oldCookie ?? '', accept: 'text/html' },
    });
    expect(await withOldCookie.text()).toContain('Sign in with');
    const start = await fetch(`${site.url}/account/sign-in`, { redirect: 'manual' });
    expect(start.headers.getSetCookie()[0]).toMatch(/; Path=\/; HttpOnly; SameSite=Lax$/);
  });

  test('R103 the cookie of pending sign-ins changes at sign-in and at sign-out', async () => {
    const agent = createUserAgent();
    const pendingCookie = () => pendingCookieOf(agent);
    await agent.get(`${site.url}/account/sign-in`, { follow: false });
    const cookieBefore = pendingCookie();
    const { page } = await register('user@example.test', agent);
    const cookieAfterSignIn = pendingCookie();
    expect(cookieAfterSignIn).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(cookieAfterSignIn).not.toBe(cookieBefore);
    const callbackUrl = await callbackFor('second@example.test', cookieAfterSignIn);
    await agent.submit(page, {}, { button: 'Sign out' });
    await agent.get(`${site.url}/account/sign-in`, { follow: false });
    expect(pendingCookie()).not.toBe(cookieAfterSignIn);
    expect((await agent.get(callbackUrl)).body).toContain('That sign-in is over');
    expect((await agent.get(`${site.url}/account`)).body).toContain('Sign in with');
  });

  test('R103 a sign-out without a session also clears the cookie of pending sign-ins', async () => {
    const agent = createUserAgent();
    await register('user@example.test', agent);
    const callbackUrl = await callbackFor('user@example.test', pendingCookieOf(agent));
    agent.cookies.set(site.url, cookieName('bin-lookup-service', site.url), undefined);
    const signedOut = await agent.request(`${site.url}/account/sign-out`, { method: 'POST', follow: false });
    expect([signedOut.status, pendingCookieOf(agent) ?? '']).toEqual([303, '']);
    expect((await agent.get(callbackUrl)).status).toBe(400);
  });

  test('R103 a callback of another account while signed in stores nothing, and asks to sign out', async () => {
    const otherAccount = accountOn((await register('second@example.test')).page);
    const { agent, page } = await register();
    const callbackUrl = await callbackFor('second@example.test', pendingCookieOf(agent));
    const cookies = agent.cookies.header(site.url);
    const store = await openBinServiceStore(readBinServiceSettings(site.env));
    onTestFinished(() => store.close());
    const stored = await store.get(keys.planAccount(otherAccount));
    expect(stored).toBeDefined();
    const refused = await agent.get(callbackUrl);
    expect([refused.status, refused.body.includes('sign out, then sign in')]).toEqual([400, true]);
    expect(agent.cookies.header(site.url)).toBe(cookies);
    expect(await store.get(keys.planAccount(otherAccount))).toEqual(stored);
    expect(accountOn(await agent.get(`${site.url}/account`))).toBe(accountOn(page));
  });

  test('R57 sign-out ends the session', async () => {
    const { agent, page } = await register();
    const cookie = agent.cookies.header(site.url);
    const signedOut = await agent.submit(page, {}, { button: 'Sign out' });
    expect(signedOut.body).toContain('Sign in with');
    const withOldCookie = await fetch(`${site.url}/account`, {
      headers: { cookie: cookie ?? '', accept: 'text/html' },
    });
    expect(await withOldCookie.text()).toContain('Sign in with');
  });

  test('R66 every change requires the CSRF token of the session and the right origin', async () => {
    const { agent, page } = await register();
    const token = page.forms[0]?.fields.find(([name]) => name === '_csrf')?.[1] ?? '';
    const paths = ['/account/plan', '/account/keys', '/account/keys/x/addresses', '/account/keys/x/revoke'];
    for (const path of [...paths, '/account/sign-out']) {
      const post = (fields: Record<string, string>, headers: Record<string, string> = {}) =>
        agent.request(site.url + path, { method: 'POST', body: new URLSearchParams(fields), headers, follow: false });
      expect((await post({ name: 'x', plan: 'small' })).status).toBe(403);
      expect((await post({ _csrf: token, plan: 'small' }, { origin: 'https://evil.example' })).status).toBe(403);
      expect((await post({ _csrf: token, plan: 'small' }, { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
      // A sign-out without a session still clears the cookies.
      const status = path === '/account/sign-out' ? 303 : 401;
      expect((await fetch(site.url + path, { method: 'POST', redirect: 'manual' })).status).toBe(status);
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
    const asset = await fetch(`${site.url}${sharedAssets().path}/bin-lookup-service.css`);
    expect(asset.headers.get('content-type')).toContain('text/css');
  });

  test('the root redirects browsers to the account page, and returns a problem document to programs', async () => {
    expect((await createUserAgent().get(`${site.url}/`)).url).toBe(`${site.url}/account`);
    expect((await fetch(`${site.url}/`)).status).toBe(404);
  });
});

test('R91 an address may start 60 sign-ins a minute; an IPv6 network of 64 bits counts as one address', async () => {
  const proxiedSite = await startBinSiteWithAccounts({ TRUSTED_PROXIES: '127.0.0.1' });
  onTestFinished(() => proxiedSite.close());
  advanceToNextMinute();
  const startSignIn = (address: string) =>
    fetch(`${proxiedSite.url}/account/sign-in`, { redirect: 'manual', headers: { 'x-forwarded-for': address } });
  for (const [address, addressOfSameCaller] of [
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2::1', '2001:db8:1:2:ffff::9'],
  ] as const) {
    const responses = await Promise.all(Array.from({ length: 60 }, () => startSignIn(address)));
    expect(responses.every(({ status }) => status === 303)).toBe(true);
    const refused = await startSignIn(addressOfSameCaller);
    expect([refused.status, refused.headers.getSetCookie()]).toEqual([429, []]);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await refused.json()).toMatchObject({ status: 429, code: 'rate_limited' });
  }
  for (const address of ['192.0.2.2', '2001:db8:1:3::1']) expect((await startSignIn(address)).status).toBe(303);
});

test('expired sessions are removed from the list soon after a start', async () => {
  const folder = temporaryFolder();
  const env = await settingsFor({ DATA_DIR: folder.path });
  const readList = async (store: Store) => (await store.page(keys.liveSessions, { limit: 9 })).items;
  const storeBeforeStart = await openBinServiceStore(readBinServiceSettings(env));
  // The record of this session no longer exists.
  await storeBeforeStart.write([
    { index: keys.liveSessions, add: 'hash-of-an-expired-session', score: Date.now() - 3_600_000 },
  ]);
  expect(await readList(storeBeforeStart)).toHaveLength(1);
  await storeBeforeStart.close();

  const service = await startBinSite(env);
  const storeAfterStart = await openBinServiceStore(readBinServiceSettings(env));
  try {
    await until(async () => (await readList(storeAfterStart)).length === 0);
  } finally {
    await storeAfterStart.close();
    await service.close();
    folder.remove();
  }
});
