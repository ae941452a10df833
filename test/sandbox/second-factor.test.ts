/** The second factor, step-up, and the networks of an account. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAccounts } from '../../src/sandbox/accounts.ts';
import { createSecondFactor } from '../../src/sandbox/second-factor.ts';
import { codeAt, stepAt } from '../../src/sandbox/totp.ts';
import {
  createBrowser,
  type ForeignClient,
  openConsole,
  PASSWORD,
  scriptsOf,
  startForeignClient,
} from './foreign-client.ts';

const ADMIN = 'admin@example.test';

let client: ForeignClient;

beforeAll(async () => {
  client = await startForeignClient();
});
afterAll(() => client.sandbox.close());

const currentCode = () => client.sandbox.secondFactorCode(ADMIN) ?? '';
const beginWithMfa = (prompt: string) => client.begin('openid platform_read_only', { acr_values: 'mfa', prompt });

describe('codes', () => {
  it('match RFC 6238, appendix B', () => {
    // The secret of the RFC is the text 12345678901234567890.
    const secret = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ';
    const expected = {
      59: '287082',
      1111111109: '081804',
      1111111111: '050471',
      1234567890: '005924',
      2000000000: '279037',
    };
    for (const [seconds, code] of Object.entries(expected)) {
      expect(codeAt(secret, stepAt(Number(seconds) * 1000))).toBe(code);
    }
  });

  it('are accepted once each, and from a clock that is one step behind', () => {
    const clock = { ms: 1_800_000_000_000 };
    const accounts = createAccounts();
    const [account, other] = [accounts.byLogin(ADMIN), accounts.byLogin('user@example.test')];
    if (!account || !other) throw new Error('the built-in accounts are missing');
    const factor = createSecondFactor({ now: () => clock.ms });
    const first = factor.currentCode(account)?.code ?? '';
    expect(factor.accept(account, `${first.slice(0, 3)} ${first.slice(3)}`)).toBe(true);
    expect(factor.accept(account, first)).toBe(false);
    expect(factor.currentCode(account)?.code).not.toBe(first);

    const step = stepAt(clock.ms);
    expect(factor.accept(account, codeAt(account.totpSecret ?? '', step - 1))).toBe(true);
    expect(factor.accept(account, codeAt(account.totpSecret ?? '', step - 2))).toBe(false);
    expect(factor.currentCode(other)).toBeUndefined();
    expect(factor.accept(other, first)).toBe(false);
  });
});

describe('an app that requests the second factor', () => {
  it('gets acr and amr in the ID token after password and code', async () => {
    const browser = createBrowser();
    const { url, finish } = await beginWithMfa('consent');
    const codePage = await browser.submit(await browser.get(url), { login: ADMIN, password: PASSWORD });
    expect(codePage.body).toContain('Your second factor');

    const consent = await browser.submit(codePage, { code: currentCode() });
    const claims = (await finish(await browser.submit(consent, {}, { button: 'Allow' }))).claims();
    expect(claims).toMatchObject({ acr: 'mfa', amr: ['pwd', 'otp', 'mfa'] });
  });

  it('steps a session up with only the code, and only once', async () => {
    const browser = createBrowser();
    const tokensByPassword = await client.signIn({ browser, login: ADMIN, scope: 'openid platform_read_only' });
    expect(tokensByPassword.claims()).toMatchObject({ acr: 'pwd', amr: ['pwd'] });

    const { url, finish } = await beginWithMfa('');
    const page = await browser.get(url.replace(/&prompt=/, ''));
    expect([page.body.includes('name="code"'), page.body.includes('name="password"')]).toEqual([true, false]);
    expect((await finish(await browser.submit(page, { code: currentCode() }))).claims()?.acr).toBe('mfa');

    const laterRequest = await beginWithMfa('none');
    expect((await laterRequest.finish(await browser.get(laterRequest.url))).claims()?.acr).toBe('mfa');
  });

  it('gets acr=pwd for an account without a second factor', async () => {
    const browser = createBrowser();
    const { url, finish } = await beginWithMfa('consent');
    const consent = await browser.submit(await browser.get(url), { login: 'user@example.test', password: PASSWORD });
    expect((await finish(await browser.submit(consent, {}, { button: 'Allow' }))).claims()?.acr).toBe('pwd');
  });

  it('gets an error with prompt=none', async () => {
    const browser = createBrowser();
    await client.signIn({ browser, login: ADMIN });
    const page = await browser.get((await beginWithMfa('none')).url);
    expect(new URL(page.url).searchParams.get('error')).toBe('interaction_required');
  });
});

describe('the page for the code', () => {
  it('shows the current code, as does the home page', async () => {
    const browser = createBrowser();
    const page = await browser.submit(await browser.get((await beginWithMfa('consent')).url), {
      login: ADMIN,
      password: PASSWORD,
    });
    expect(page.body).toContain(`<code>${currentCode()}</code>`);
    expect(page.body).toContain('SANDBOXADMIN2345');
    expect(scriptsOf(page)).toEqual(['back.js']);
    expect((await browser.get(client.sandbox.issuer)).body).toContain(`<code>${currentCode()}</code>`);
  });

  it('asks again after a wrong code, and ends the sign-in after five', async () => {
    const browser = createBrowser();
    let page = await browser.submit(await browser.get((await beginWithMfa('consent')).url), {
      login: ADMIN,
      password: PASSWORD,
    });
    for (let wrong = 1; wrong < 5; wrong += 1) {
      page = await browser.submit(page, { code: '000000' });
      expect([page.status, page.body.includes('role="alert"')]).toEqual([422, true]);
    }
    const lastPage = await browser.submit(page, { code: '000000' });
    expect(new URL(lastPage.url).searchParams.get('error')).toBe('access_denied');
  });

  it('cannot be used before the password', async () => {
    const browser = createBrowser();
    const page = await browser.get((await beginWithMfa('consent')).url);
    const body = new URLSearchParams({ code: currentCode() });
    const response = await browser.request(`${page.url}/code`, { method: 'POST', body });
    expect(response.body).toContain('name="password"');
  });
});

it('the second factor is required at every sign-in with the setting always', async () => {
  const strictClient = await startForeignClient({ secondFactor: 'always' });
  const browser = createBrowser();
  const { url, finish } = await strictClient.begin();
  const page = await browser.submit(await browser.get(url), { login: ADMIN, password: PASSWORD });
  const consent = await browser.submit(page, { code: strictClient.sandbox.secondFactorCode(ADMIN) ?? '' });
  expect((await finish(await browser.submit(consent, {}, { button: 'Allow' }))).claims()?.acr).toBe('mfa');
  expect((await strictClient.signIn({ login: 'user@example.test' })).claims()?.acr).toBe('pwd');

  await strictClient.sandbox.close();
});

describe('networks of an account', () => {
  it('restrict its sign-in and existing sessions', async () => {
    const browser = createBrowser();
    await client.signIn({ browser, login: 'second@example.test' });
    const admin = await openConsole(client);
    const save = async (networks: string) => admin.browser.submit(await admin.open('/users/sbx-00u2'), { networks });
    expect((await save('192.0.2.0/24\nnonsense')).body).toContain('is not an address or a CIDR');

    await save('192.0.2.0/24');
    const loginPage = await browser.get((await client.begin()).url);
    expect(loginPage.body).toContain('name="password"');

    const refused = await browser.submit(loginPage, { login: 'second@example.test', password: PASSWORD });
    expect([refused.status, refused.body.includes('only from certain networks')]).toEqual([403, true]);

    await save('127.0.0.0/8');
    expect((await client.signIn({ browser, login: 'second@example.test' })).claims()?.sub).toBe('sbx-00u2');
  });
});

it('a user who signs in while another user is signed in must confirm the switch, without JavaScript', async () => {
  const browser = createBrowser();
  await client.signIn({ browser });
  const { url, finish } = await client.begin('openid', { prompt: 'login' });
  const login = { login: 'second@example.test', password: PASSWORD };
  const question = await browser.submit(await browser.get(url), login);
  expect(question.body).toContain('Switch accounts?');
  expect(scriptsOf(question)).toEqual(['back.js']);

  const consent = await browser.submit(question, {}, { button: 'Switch' });
  expect((await finish(await browser.submit(consent, {}, { button: 'Allow' }))).claims()?.sub).toBe('sbx-00u2');
});
