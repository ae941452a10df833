/** Sign-in and consent, for the user and for the app. */
import * as oidc from 'openid-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  CALLBACK_URL,
  CLIENT,
  createBrowser,
  type ForeignClient,
  PASSWORD,
  scriptsOf,
  startForeignClient,
} from './foreign-client.ts';

let client: ForeignClient;

beforeAll(async () => {
  client = await startForeignClient();
});
afterAll(() => client.sandbox.close());

describe('signing in', () => {
  it('returns name, e-mail and groups in the ID token and at userinfo', async () => {
    const tokens = await client.signIn({ login: 'admin@example.test' });
    const expected = { name: 'Ada Moreau', email: 'admin@example.test', groups: ['gatehouse-admins'] };
    expect(tokens.claims()).toMatchObject({ ...expected, amr: ['pwd'] });

    const subject = tokens.claims()?.sub ?? '';
    expect(await oidc.fetchUserInfo(client.config, tokens.access_token, subject)).toMatchObject(expected);
    expect(tokens.access_token).not.toContain('.');
    expect(tokens.expires_in).toBe(60);
  });

  it('with lean ID tokens returns claims only at userinfo', async () => {
    const lean = await startForeignClient({ claimsInIdToken: false });
    const tokens = await lean.signIn();
    expect(tokens.claims()?.name).toBeUndefined();

    const userinfo = await oidc.fetchUserInfo(lean.config, tokens.access_token, tokens.claims()?.sub ?? '');
    expect(userinfo).toMatchObject({ name: 'Uma Okafor', email: 'user@example.test', groups: [] });

    await lean.sandbox.close();
  });

  it('signs ID tokens with ES256 for a client with that algorithm', async () => {
    const elliptic = await startForeignClient({ clients: [{ ...CLIENT, idTokenAlgorithm: 'ES256' }] });
    expect((await elliptic.signIn()).claims()?.sub).toBe('sbx-00u1');
    await elliptic.sandbox.close();
  });

  it('shows the form again after a wrong password, with a message and the entered login', async () => {
    const browser = createBrowser();
    const { url, finish } = await client.begin();
    const pageAfterWrongPassword = await browser.submit(await browser.get(url), {
      login: 'user@example.test',
      password: 'guess',
    });
    expect(pageAfterWrongPassword.status).toBe(422);
    expect(pageAfterWrongPassword.body).toContain('role="alert"');
    expect(pageAfterWrongPassword.body).not.toContain('guess');

    const consent = await browser.submit(pageAfterWrongPassword, { password: PASSWORD });
    const tokens = await finish(await browser.submit(consent, {}, { button: 'Allow' }));
    expect(tokens.claims()?.sub).toBe('sbx-00u1');
  });

  it('lasts in the same browser, and not in others', async () => {
    const browser = createBrowser();
    await client.signIn({ browser });
    const pageInSameBrowser = await browser.get((await client.begin()).url);
    expect(pageInSameBrowser.body).not.toContain('name="login"');

    const pageInOtherBrowser = await createBrowser().get((await client.begin()).url);
    expect(pageInOtherBrowser.body).toContain('name="login"');
  });

  it('R139 lasts while the browser signs in and out at another sandbox of the host', async () => {
    const other = await startForeignClient();
    const browser = createBrowser();
    const { url, finish } = await client.begin();
    const form = await browser.get(url);
    await other.signIn({ browser });
    const consent = await browser.submit(form, { login: 'user@example.test', password: PASSWORD });
    const tokens = await finish(await browser.submit(consent, {}, { button: 'Allow' }));
    expect(tokens.claims()?.sub).toBe('sbx-00u1');

    await browser.submit(await browser.get(`${other.sandbox.issuer}/sign-out`));
    for (const [{ begin }, isSignedIn] of [
      [client, true],
      [other, false],
    ] as const)
      expect((await browser.get((await begin()).url)).body.includes('name="login"')).toBe(!isSignedIn);
    await other.sandbox.close();
  });

  it('honours prompt=select_account and login_hint, and accepts ui_locales', async () => {
    const browser = createBrowser();
    await client.signIn({ browser });
    expect(client.config.serverMetadata().prompt_values_supported).toContain('select_account');

    const hints = { prompt: 'select_account consent', login_hint: 'second@example.test', ui_locales: 'de en' };
    const { url, finish } = await client.begin('openid profile email', hints);
    const login = await browser.get(url);
    expect(login.body).toMatch(/name="login"[^>]* value="second@example.test"/);

    const switching = await browser.submit(login, { password: PASSWORD });
    const consent = await browser.submit(switching, {}, { button: 'Switch' });
    const tokens = await finish(await browser.submit(consent, {}, { button: 'Allow' }));
    expect(tokens.claims()?.email).toBe('second@example.test');
  });

  it('returns access_denied to the app if it is cancelled', async () => {
    const browser = createBrowser();
    const page = await browser.submit(await browser.get((await client.begin()).url), {}, { button: 'Cancel' });
    expect(new URL(page.url).searchParams.get('error')).toBe('access_denied');
  });

  it('cannot be finished in another browser, nor twice', async () => {
    const browser = createBrowser();
    const page = await browser.get((await client.begin()).url);
    const stolen = await createBrowser().submit(page, { login: 'user@example.test', password: PASSWORD });
    expect(stolen.status).toBe(400);
    expect(stolen.body).toContain('start again');

    await browser.submit(page, {}, { button: 'Cancel' });
    expect((await browser.submit(page, { login: 'user@example.test', password: PASSWORD })).status).toBe(400);
  });

  it('has pages whose only script is that for Back, with a policy that allows forms to redirect to the app', async () => {
    const page = await createBrowser().get((await client.begin()).url);
    expect(scriptsOf(page)).toEqual(['back.js']);

    const policy = page.headers.get('content-security-policy');
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toContain('form-action');
    expect(page.body).toContain('Sandbox');

    const assets = [...page.body.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)].map(([, path]) => path);
    expect(assets).toHaveLength(4);
    for (const path of assets) {
      const { status, headers } = await fetch(client.sandbox.issuer + path);
      expect([status, headers.get('cache-control')]).toEqual([200, 'public, max-age=31536000, immutable']);
    }
  });
});

describe('consent', () => {
  it('describes the access of the app', async () => {
    const browser = createBrowser();
    const login = await browser.get((await client.begin('openid platform_full_access')).url);
    const consent = await browser.submit(login, { login: 'user@example.test', password: PASSWORD });
    expect(consent.body).toContain('Allow Foreign client?');
    expect(consent.body).toContain(
      'Create documents and messages on the platform, and read all that you can read there',
    );
    expect(consent.body).not.toContain('platform_full_access');
    expect(consent.body).not.toContain('See your e-mail address');
  });

  it('returns access_denied to the app if it is denied', async () => {
    const browser = createBrowser();
    const { url, finish } = await client.begin();
    const consent = await browser.submit(await browser.get(url), { login: 'user@example.test', password: PASSWORD });
    const denied = await browser.submit(consent, {}, { button: 'Deny' });
    expect(denied.url.startsWith(CALLBACK_URL)).toBe(true);
    await expect(finish(denied)).rejects.toMatchObject({ error: 'access_denied' });
  });
});

describe('the authorization endpoint', () => {
  const requestWith = async (change: (params: URLSearchParams) => void) => {
    const url = new URL((await client.begin()).url);
    change(url.searchParams);
    return createBrowser().get(url.href);
  };

  it.each([
    `${CALLBACK_URL}/`,
    `${CALLBACK_URL}?x=1`,
    `${CALLBACK_URL}#x`,
    'http://127.0.0.1:9/CALLBACK',
    'http://localhost:9/callback',
    'http://127.0.0.1:10/callback',
    'http://127.0.0.1:9/x/../callback',
  ])('refuses the callback URL %s, without a redirect', async (uri) => {
    const page = await requestWith((params) => params.set('redirect_uri', uri));
    expect(page.status).toBe(400);
    expect(page.url.startsWith(client.sandbox.issuer)).toBe(true);
    expect(page.body).toContain('invalid_redirect_uri');
  });

  it('refuses a request without a callback URL, and one from an unknown client', async () => {
    expect((await requestWith((params) => params.delete('redirect_uri'))).status).toBe(400);
    expect((await requestWith((params) => params.set('client_id', 'nobody'))).status).toBe(400);
  });

  it('accepts PKCE only with S256', async () => {
    const plain = await requestWith((params) => params.set('code_challenge_method', 'plain'));
    expect(new URL(plain.url).searchParams.get('error')).toBe('invalid_request');
  });

  it('returns its issuer in the callback (RFC 9207)', async () => {
    expect(client.config.serverMetadata().authorization_response_iss_parameter_supported).toBe(true);
    const page = await requestWith((params) => params.set('prompt', 'none'));
    expect(new URL(page.url).searchParams.get('iss')).toBe(client.sandbox.issuer);
    expect(new URL(page.url).searchParams.get('error')).toBe('login_required');
  });
});
