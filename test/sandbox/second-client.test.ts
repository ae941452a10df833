/**
 * A client other than Gatehouse registers, signs in, refreshes, revokes, and reads a thread with an access token and with
 * an API token.
 */
import * as oidc from 'openid-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  CALLBACK_URL,
  createBrowser,
  type ForeignClient,
  FULL_SCOPE,
  openConsole,
  SIGNED_OUT_URL,
  startForeignClient,
} from './foreign-client.ts';

const INITIAL_ACCESS_TOKEN = 'initial-access-token-of-this-test-0123456789';

let setup: ForeignClient;
let admin: Awaited<ReturnType<typeof openConsole>>;

beforeAll(async () => {
  setup = await startForeignClient({ initialAccessToken: INITIAL_ACCESS_TOKEN });
  admin = await openConsole(setup);
});
afterAll(() => setup.sandbox.close());

const secretOn = (body: string) => /class="secret".*?<code>([^<]+)</s.exec(body)?.[1] ?? '';

const registration = (metadata: Record<string, unknown>, initialAccessToken: string) =>
  oidc.dynamicClientRegistration(
    new URL(setup.sandbox.issuer),
    { redirect_uris: [CALLBACK_URL], grant_types: ['authorization_code', 'refresh_token'], ...metadata } as never,
    undefined,
    { initialAccessToken, execute: [oidc.allowInsecureRequests, oidc.enableNonRepudiationChecks] },
  );

/** Signs in, reads the thread, refreshes, reads it again, revokes, and is refused. */
async function expectWholeFlow(appConfig: oidc.Configuration): Promise<void> {
  const tokens = await setup.signIn({ appConfig });
  expect(tokens.claims()?.email).toBe('user@example.test');
  expect((await setup.thread(tokens.access_token)).status).toBe(200);
  const renewed = await oidc.refreshTokenGrant(appConfig, tokens.refresh_token ?? '');
  const response = await setup.thread(renewed.access_token);
  expect([response.status, await response.json()]).toEqual([
    200,
    expect.objectContaining({ html: expect.any(String) }),
  ]);
  await oidc.tokenRevocation(appConfig, renewed.refresh_token ?? '');
  expect((await setup.thread(renewed.access_token)).status).toBe(401);
}

describe('registration', () => {
  it('in the admin console lets the app use the whole flow', async () => {
    const newAppPage = await admin.open('/apps/new');
    const input = { name: 'Board', callbackUrls: CALLBACK_URL, postLogoutUrls: SIGNED_OUT_URL };
    const body = new URLSearchParams([
      ...(newAppPage.forms.find(({ names }) => names.includes('callbackUrls'))?.fields ?? []),
    ]);
    for (const [name, value] of Object.entries(input)) body.set(name, value);
    // The preselected scopes do not include e-mail.
    body.append('scopes', 'email');
    const page = await admin.browser.request(`${setup.sandbox.issuer}/console/apps`, { method: 'POST', body });
    const clientId = new URL(page.url).pathname.split('/').at(-1) ?? '';
    const appConfig = new oidc.Configuration(setup.config.serverMetadata(), clientId, secretOn(page.body));
    oidc.allowInsecureRequests(appConfig);
    await expectWholeFlow(appConfig);
    // `groups` was not selected.
    const { url } = await setup.begin('openid groups', {}, appConfig);
    const refused = await createBrowser().get(url);
    expect(refused.url).toContain('invalid_scope');
  });

  it('by the app itself (RFC 7591) lets it use the whole flow, and the console lists it', async () => {
    const appConfig = await registration({ client_name: 'Robot <bot>' }, INITIAL_ACCESS_TOKEN);
    await expectWholeFlow(appConfig);

    const list = (await admin.open('/apps')).body;
    expect(list).toContain('Robot &lt;bot&gt;');
    expect(list).toContain('by dynamic registration');
    expect((await admin.open(`/apps/${appConfig.clientMetadata().client_id}`)).body).not.toContain(
      String(appConfig.clientMetadata().client_secret),
    );
  });

  it('lets the app, and no other caller, read, change and delete its registration (RFC 7592)', async () => {
    const appConfig = await registration({ client_name: 'Managed' }, INITIAL_ACCESS_TOKEN);
    const { client_id, registration_client_uri, registration_access_token } = appConfig.clientMetadata();
    const manage = (method: string, bearer: unknown, body?: object) =>
      fetch(String(registration_client_uri), {
        method,
        headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
    for (const wrongToken of ['guess', INITIAL_ACCESS_TOKEN]) {
      expect((await manage('DELETE', wrongToken)).status).toBe(401);
    }
    expect(await (await manage('GET', registration_access_token)).json()).toMatchObject({ client_name: 'Managed' });

    await admin.browser.submit(
      await admin.open(`/apps/${client_id}`),
      { accessTokenSeconds: '77' },
      { button: 'Save' },
    );
    const changes = { client_id, client_name: 'Renamed', redirect_uris: [CALLBACK_URL] };
    const changed = await manage('PUT', registration_access_token, changes);
    const { registration_access_token: newManagementToken, ...renamed } = (await changed.json()) as Record<
      string,
      unknown
    >;
    expect([changed.status, renamed]).toMatchObject([200, { client_name: 'Renamed' }]);
    expect((await admin.open(`/apps/${client_id}`)).body).toMatch(/name="accessTokenSeconds"[^>]*value="77"/);
    expect((await manage('DELETE', registration_access_token)).status).toBe(401);

    const refusedChange = await manage('PUT', newManagementToken, {
      ...changes,
      redirect_uris: ['https://*.example.com/cb'],
    });
    expect(refusedChange.status).toBe(400);
    expect((await manage('DELETE', newManagementToken)).status).toBe(204);
    expect((await admin.open(`/apps/${client_id}`)).status).toBe(404);
  });

  it('accepts an initial access token, which the console shows once', async () => {
    const page = await admin.browser.submit(
      await admin.open('/registration'),
      {},
      { button: 'Create an initial access token' },
    );
    const token = secretOn(page.body);
    expect((await admin.open('/registration')).body).not.toContain(token);
    expect((await registration({}, token)).clientMetadata().client_id).toBeTruthy();
  });

  it('is refused without an initial access token', async () => {
    const register = (authorization?: string) =>
      fetch(`${setup.sandbox.issuer}/register`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...(authorization ? { authorization } : {}) },
        body: JSON.stringify({ redirect_uris: [CALLBACK_URL] }),
      });
    expect((await register()).status).toBe(401);

    const guessed = await register('Bearer guess');
    expect([guessed.status, await guessed.json()]).toEqual([401, expect.objectContaining({ error: 'invalid_token' })]);
    expect(guessed.headers.get('www-authenticate')).toContain('error="invalid_token"');
  });

  it('is refused for invalid callback URLs, and the error names the fault of each', async () => {
    const uris = ['http://app.example.com/cb', 'https://*.example.com/cb'];
    const refused = await registration({ redirect_uris: uris }, INITIAL_ACCESS_TOKEN).catch((error: unknown) => error);
    expect(refused).toMatchObject({ error: 'invalid_redirect_uri' });
    expect((refused as oidc.ResponseBodyError).error_description).toMatch(
      /number 1 .*\(not_https\); .*number 2 .*\(wildcard\)/,
    );
  });
});

describe('an API token', () => {
  const createApiToken = async (fields: Record<string, string>) => {
    const page = await admin.browser.submit(await admin.open('/tokens'), { name: 'Nightly report', ...fields });
    return { page, token: secretOn(page.body) };
  };

  it('from the console is shown once, reads a thread, shows its last use, and can be revoked', async () => {
    const { page, token } = await createApiToken({ user: 'sbx-00u2', lifetime: 'day' });
    expect(token).toMatch(/^sbxt_[\w-]{43}$/);
    expect(page.body).toMatch(/Last used<\/dt><dd>\s*never/);

    const response = await setup.thread(token);
    expect([response.status, await response.json()]).toMatchObject([
      200,
      { thread: { author: { name: 'Sven Lindqvist' } } },
    ]);

    const pageAfterUse = await admin.browser.get(page.url);
    expect(pageAfterUse.body).not.toContain(token);
    expect(pageAfterUse.body).toMatch(/Last used<\/dt><dd>\s*<time/);
    expect((await admin.open('/tokens')).body).not.toContain(token);

    await admin.browser.submit(pageAfterUse, {}, { button: 'Revoke' });
    expect((await setup.thread(token)).status).toBe(401);
  });

  it('can be for a service account, which cannot sign in', async () => {
    const users = await admin.open('/users');
    const added = await admin.browser.submit(users, {
      login: 'robot@example.test',
      name: 'Report robot',
      kind: 'service',
    });
    const { token } = await createApiToken({ user: new URL(added.url).pathname.split('/').at(-1) ?? '' });
    const current = await fetch(`${setup.sandbox.platformUrl}/1/users/current`, {
      headers: { authorization: `Bearer ${token}` },
    });
    expect(await current.json()).toMatchObject({ name: 'Report robot', is_robot: true });
    expect((await setup.thread(token)).status).toBe(200);

    const browser = createBrowser();
    const login = await browser.get((await setup.begin(FULL_SCOPE)).url);
    const refused = await browser.submit(login, {
      login: 'robot@example.test',
      password: setup.sandbox.accounts[0]?.password ?? '',
    });
    expect(refused.status).toBe(422);
  });

  it('is not created without a name or for an unknown user', async () => {
    const { page } = await createApiToken({ name: '  ', user: 'nobody' });
    expect([page.status, page.body.includes('Enter a name.')]).toEqual([400, true]);
    expect((await createApiToken({ user: 'nobody' })).page.body).toContain('id="user-fault"');
  });
});
