/** The admin console: access, connected apps, users, and secrets that are shown once. */
import * as oidc from 'openid-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  CALLBACK_URL,
  createBrowser,
  type ForeignClient,
  openConsole,
  PASSWORD,
  scriptsOf,
  startForeignClient,
} from './foreign-client.ts';

let client: ForeignClient;
let admin: Awaited<ReturnType<typeof openConsole>>;

beforeAll(async () => {
  client = await startForeignClient();
  admin = await openConsole(client);
});
afterAll(() => client.sandbox.close());

const secretOn = (body: string) => /class="secret".*?<code>([^<]+)</s.exec(body)?.[1];

async function register(fields: Record<string, string>) {
  return admin.browser.submit(await admin.open('/apps/new'), { name: 'Board', callbackUrls: CALLBACK_URL, ...fields });
}

describe('the console', () => {
  it('requires an administrator and the second factor', async () => {
    const user = createBrowser();
    await client.signIn({ browser: user });
    const refused = await user.get(`${client.sandbox.issuer}/console/apps`);
    expect([refused.status, refused.body.includes('for administrators')]).toEqual([403, true]);

    const adminBrowser = createBrowser();
    await client.signIn({ browser: adminBrowser, login: 'admin@example.test' });
    const codePage = await adminBrowser.get(`${client.sandbox.issuer}/console/apps`);
    expect(codePage.body).toContain('name="code"');

    const consolePage = await adminBrowser.submit(codePage, {
      code: client.sandbox.secondFactorCode('admin@example.test') ?? '',
    });
    expect([new URL(consolePage.url).pathname, consolePage.status]).toEqual(['/console/apps', 200]);
  });

  it('refuses a form with a wrong CSRF token, or without a session', async () => {
    const url = `${client.sandbox.issuer}/console/apps`;
    const body = new URLSearchParams({ name: 'x', xsrf: 'x' });
    expect((await admin.browser.request(url, { method: 'POST', body })).status).toBe(403);
    expect((await createBrowser().request(url, { method: 'POST', body })).status).toBe(403);
  });

  it('preselects the usual scopes for a new app', async () => {
    const { body } = await admin.open('/apps/new');
    const chosen = [...body.matchAll(/name="scopes" value="([^"]+)"[^>]* checked/g)].map(([, scope]) => scope);
    expect(chosen).toEqual(expect.arrayContaining(['openid', 'profile', 'email', 'offline_access']));
    expect(chosen).not.toContain('platform_full_access');
  });

  it('has pages whose only script is that for Back, marked as sandbox', async () => {
    for (const path of ['', '/apps', '/apps/new', '/users', '/users/sbx-00u1', '/tokens', '/registration']) {
      const page = await admin.open(path);
      expect([path, page.status, scriptsOf(page)]).toEqual([path, 200, ['back.js']]);
      expect(page.body).toContain('<strong>Sandbox</strong>');
    }
    expect((await admin.open('/nothing')).status).toBe(404);
    expect((await admin.open('/apps/nobody')).status).toBe(404);
  });

  it('a browser gets a page for a 404, a program plain text', async () => {
    const url = `${client.sandbox.issuer}/nothing/here`;
    const notFound = await fetch(url, { headers: { accept: 'text/html,*/*' } });
    expect([notFound.status, notFound.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8']);
    expect(await notFound.text()).toContain('<strong>Sandbox</strong>');

    const program = await fetch(url, { headers: { accept: 'application/json' } });
    expect([program.status, await program.text()]).toEqual([404, 'Not Found']);
  });

  it('never redirects to another site after sign-in', async () => {
    for (const state of ['https://evil.example/', '//evil.example', '/console/../x', '/console\\x']) {
      const url = `${client.sandbox.issuer}/signed-in?${new URLSearchParams({ code: 'x', state })}`;
      expect((await fetch(url, { redirect: 'manual' })).headers.get('location')).toBe('/');
    }
  });
});

describe('a connected app', () => {
  it('is registered, its secret is shown once, and a new secret replaces it', async () => {
    const page = await register({});
    const clientId = new URL(page.url).pathname.split('/').at(-1) ?? '';
    const secret = secretOn(page.body) ?? '';
    expect(secret.length).toBeGreaterThan(40);

    const { authorization_endpoint, token_endpoint = '' } = client.config.serverMetadata();
    expect(page.body).toContain(`<code>${authorization_endpoint}</code>`);
    expect(page.body).toContain(`<code>${token_endpoint}</code>`);
    expect((await admin.browser.get(page.url)).body).not.toContain(secret);

    const refreshWith = (clientSecret: string) => {
      const config = new oidc.Configuration(
        client.config.serverMetadata(),
        clientId,
        {},
        oidc.ClientSecretBasic(clientSecret),
      );
      oidc.allowInsecureRequests(config);
      return oidc.refreshTokenGrant(config, 'unknown').catch(({ error, status }) => error ?? status);
    };
    expect(await refreshWith(secret)).toBe('invalid_grant');

    const pageWithNewSecret = await admin.browser.submit(
      await admin.browser.get(page.url),
      {},
      { button: 'Create a new secret' },
    );
    expect(await refreshWith(secret)).toBe(401);
    expect(await refreshWith(secretOn(pageWithNewSecret.body) ?? '')).toBe('invalid_grant');
  });

  it('has all faults of its callback URLs next to the field, with the input', async () => {
    const urls = ['http://app.example.com/cb', 'https://*.example.com/cb#x', 'https://a@b.example/../cb', '/cb', '/cb'];
    const page = await register({ callbackUrls: urls.join('\n'), name: 'Faulty <b>' });
    expect(page.status).toBe(400);

    for (const fault of [
      'Entry 1: must begin with https',
      '(not_https)',
      '(wildcard)',
      '(fragment)',
      '(userinfo)',
      '(dot_segments)',
      'Entry 4: is not an absolute URL',
      '(duplicate)',
    ])
      expect(page.body).toContain(fault);
    expect(page.body).toContain('value="Faulty &lt;b&gt;"');
    expect(page.body).toMatch(/aria-describedby="[^"]*callbackUrls-fault"/);
    expect(page.body).toMatch(/<title>Error: Register an app/);
    expect(page.body).toMatch(/<li><a href="#callbackUrls">Entry 1: /);
    expect(page.body.match(/<[^>]* autofocus/g)).toEqual([expect.stringContaining('id="callbackUrls"')]);
    expect((await admin.open('/apps')).body).not.toContain('Faulty');
  });

  it('has the entered settings, and its removal ends its tokens', async () => {
    const page = await register({ name: 'Short', accessTokenSeconds: '7' });
    const clientId = new URL(page.url).pathname.split('/').at(-1) ?? '';
    const auth = oidc.ClientSecretBasic(secretOn(page.body) ?? '');
    const appConfig = new oidc.Configuration(client.config.serverMetadata(), clientId, {}, auth);
    oidc.allowInsecureRequests(appConfig);
    const scope = 'openid platform_read_only offline_access';
    const tokens = await client.signIn({ appConfig, scope });
    expect([tokens.expires_in, (await client.thread(tokens.access_token)).status]).toEqual([7, 200]);

    const savedPage = await admin.browser.submit(
      await admin.browser.get(page.url),
      { accessTokenSeconds: '9' },
      { button: 'Save' },
    );
    expect(savedPage.status).toBe(200);
    expect((await client.signIn({ appConfig, scope })).expires_in).toBe(9);

    await admin.browser.submit(savedPage, {}, { button: 'Remove the app' });
    expect((await client.thread(tokens.access_token)).status).toBe(401);
    expect((await createBrowser().get((await client.begin(scope, {}, appConfig)).url)).status).toBe(400);
  });

  it('loses URLs that are cleared in the form, and gets a secret when it no longer uses keys', async () => {
    const pageOfKeyedApp = await register({
      method: 'private_key_jwt',
      jwksUri: 'http://127.0.0.1:9/jwks',
      backchannelLogoutUri: 'http://127.0.0.1:9/logout',
    });
    expect([secretOn(pageOfKeyedApp.body), pageOfKeyedApp.body.includes('127.0.0.1:9/logout')]).toEqual([
      undefined,
      true,
    ]);

    const changes = { method: 'client_secret_basic', jwksUri: '', backchannelLogoutUri: '' };
    const page = await admin.browser.submit(pageOfKeyedApp, changes, { button: 'Save' });
    expect(page.body).not.toMatch(/127\.0\.0\.1:9\/(jwks|logout)/);

    const clientId = new URL(page.url).pathname.split('/').at(-1) ?? '';
    const appConfig = new oidc.Configuration(client.config.serverMetadata(), clientId, secretOn(page.body));
    oidc.allowInsecureRequests(appConfig);
    const { access_token } = await client.signIn({ appConfig, scope: 'openid platform_read_only' });
    expect((await client.thread(access_token)).status).toBe(200);
    expect(secretOn((await admin.browser.get(page.url)).body)).toBeUndefined();
  });

  it('is not saved with invalid settings', async () => {
    const page = await register({
      accessTokenSeconds: '0',
      graceSeconds: '1.5',
      backchannelLogoutUri: 'ftp://x',
      method: 'private_key_jwt',
    });
    expect(page.status).toBe(400);
    for (const name of ['accessTokenSeconds', 'graceSeconds', 'backchannelLogoutUri']) {
      expect(page.body).toContain(`id="${name}-fault"`);
    }
  });
});

describe('users', () => {
  it('can sign in after an administrator adds them', async () => {
    const form = await admin.open('/users');
    const added = await admin.browser.submit(form, {
      login: 'Nia@Example.test',
      name: 'Nia Brandt',
      password: 'a longer one',
      groups: 'staff\nreaders',
    });
    expect(added.body).toContain('their own');
    expect(added.body).not.toContain('a longer one');

    const browser = createBrowser();
    const { url, finish } = await client.begin();
    const login = await browser.get(url);
    expect((await browser.submit(login, { login: 'nia@example.test', password: PASSWORD })).status).toBe(422);

    const consent = await browser.submit(login, { login: 'nia@example.test', password: 'a longer one' });
    const tokens = await finish(await browser.submit(consent, {}, { button: 'Allow' }));
    expect(tokens.claims()).toMatchObject({ name: 'Nia Brandt', groups: ['staff', 'readers'] });
    expect((await client.thread(tokens.access_token)).status).toBe(200);

    const duplicatePage = await admin.browser.submit(await admin.open('/users'), {
      login: 'nia@example.test',
      name: 'Other',
      password: '',
    });
    expect([duplicatePage.status, duplicatePage.body.includes('already has this address')]).toEqual([400, true]);
    expect(login.body).toContain('There is no sign-up');
  });

  it('lose session, tokens, refresh and sign-in at once when they are disabled', async () => {
    const browser = createBrowser();
    const tokens = await client.signIn({ browser, login: 'second@example.test' });
    const page = await admin.browser.submit(await admin.open('/users/sbx-00u2'), {}, { button: 'Disable' });
    expect(page.body).toContain('<strong>disabled</strong>');
    expect((await client.thread(tokens.access_token)).status).toBe(401);
    await expect(oidc.refreshTokenGrant(client.config, tokens.refresh_token ?? '')).rejects.toMatchObject({
      error: 'invalid_grant',
    });

    const loginPage = await browser.get((await client.begin()).url);
    expect((await browser.submit(loginPage, { login: 'second@example.test', password: PASSWORD })).status).toBe(422);

    await admin.browser.submit(page, {}, { button: 'Enable' });
    expect((await client.signIn({ login: 'second@example.test' })).access_token).toBeTruthy();
  });

  it('get a second factor from an administrator', async () => {
    const page = await admin.browser.submit(await admin.open('/users/sbx-00u1'), {}, { button: 'New second factor' });
    expect(page.body).toContain('otpauth://totp/Sandbox:user%40example.test?secret=');
    expect(client.sandbox.secondFactorCode('user@example.test')).toMatch(/^\d{6}$/);
  });

  it('cannot sign in if they are disabled between password and code', async () => {
    const login = 'user@example.test';
    const user = await admin.browser.submit(await admin.open('/users/sbx-00u1'), {}, { button: 'New second factor' });
    const browser = createBrowser();
    const loginPage = await browser.get((await client.begin('openid', { acr_values: 'mfa' })).url);
    const codePage = await browser.submit(loginPage, { login, password: PASSWORD });
    const disabled = await admin.browser.submit(user, {}, { button: 'Disable' });
    const page = await browser.submit(codePage, { code: client.sandbox.secondFactorCode(login) ?? '' });
    expect(page.body).toContain('name="password"');

    await admin.browser.submit(disabled, {}, { button: 'Enable' });
  });
});
