/** A client that is not Gatehouse goes the whole way: registers, signs in, refreshes, revokes, and reads with both kinds of token. */
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

let client: ForeignClient;
let admin: Awaited<ReturnType<typeof openConsole>>;

beforeAll(async () => {
  client = await startForeignClient({ initialAccessToken: INITIAL_ACCESS_TOKEN });
  admin = await openConsole(client);
});
afterAll(() => client.sandbox.close());

const secretOn = (body: string) => /class="secret".*?<code>([^<]+)</s.exec(body)?.[1] ?? '';

const registration = (metadata: Record<string, unknown>, initialAccessToken: string) =>
  oidc.dynamicClientRegistration(
    new URL(client.sandbox.issuer),
    { redirect_uris: [CALLBACK_URL], grant_types: ['authorization_code', 'refresh_token'], ...metadata } as never,
    undefined,
    { initialAccessToken, execute: [oidc.allowInsecureRequests, oidc.enableNonRepudiationChecks] },
  );

/** Sign-in, thread, refresh, thread, revocation, no thread. */
async function goTheWholeWay(as: oidc.Configuration): Promise<void> {
  const tokens = await client.signIn({ as });
  expect(tokens.claims()?.email).toBe('user@example.test');
  expect((await client.thread(tokens.access_token)).status).toBe(200);
  const renewed = await oidc.refreshTokenGrant(as, tokens.refresh_token ?? '');
  const answer = await client.thread(renewed.access_token);
  expect([answer.status, await answer.json()]).toEqual([200, expect.objectContaining({ html: expect.any(String) })]);
  await oidc.tokenRevocation(as, renewed.refresh_token ?? '');
  expect((await client.thread(renewed.access_token)).status).toBe(401);
}

describe('an app registered', () => {
  it('in the admin console goes the whole way', async () => {
    const form = await admin.open('/apps/new');
    // The boxes that are checked at first leave e-mail out.
    const typed = { name: 'Board', callbackUrls: CALLBACK_URL, postLogoutUrls: SIGNED_OUT_URL };
    const body = new URLSearchParams([
      ...(form.forms.find(({ names }) => names.includes('callbackUrls'))?.fields ?? []),
    ]);
    for (const [name, value] of Object.entries(typed)) body.set(name, value);
    body.append('scopes', 'email');
    const page = await admin.browser.request(`${client.sandbox.issuer}/console/apps`, { method: 'POST', body });
    const clientId = new URL(page.url).pathname.split('/').at(-1) ?? '';
    const as = new oidc.Configuration(client.config.serverMetadata(), clientId, secretOn(page.body));
    oidc.allowInsecureRequests(as);
    await goTheWholeWay(as);
    expect((await createBrowser().get((await client.begin('openid groups', {}, as)).url)).url).toContain(
      'invalid_scope',
    );
  });

  it('by dynamic registration goes the whole way, and shows in the console', async () => {
    const as = await registration({ client_name: 'Robot <made>' }, INITIAL_ACCESS_TOKEN);
    await goTheWholeWay(as);
    const list = (await admin.open('/apps')).body;
    expect(list).toContain('Robot &lt;made&gt;');
    expect(list).toContain('by dynamic registration');
    expect((await admin.open(`/apps/${as.clientMetadata().client_id}`)).body).not.toContain(
      String(as.clientMetadata().client_secret),
    );
  });

  it('RFC 7592 reads, changes and withdraws its own registration, and nobody else does', async () => {
    const as = await registration({ client_name: 'Managed' }, INITIAL_ACCESS_TOKEN);
    const { client_id, registration_client_uri, registration_access_token } = as.clientMetadata();
    const manage = (method: string, bearer: unknown, body?: object) =>
      fetch(String(registration_client_uri), {
        method,
        headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
    for (const stranger of ['guess', INITIAL_ACCESS_TOKEN]) {
      expect((await manage('DELETE', stranger)).status).toBe(401);
    }
    expect(await (await manage('GET', registration_access_token)).json()).toMatchObject({ client_name: 'Managed' });
    await admin.browser.submit(
      await admin.open(`/apps/${client_id}`),
      { accessTokenSeconds: '77' },
      { button: 'Save' },
    );
    const changes = { client_id, client_name: 'Renamed', redirect_uris: [CALLBACK_URL] };
    const changed = await manage('PUT', registration_access_token, changes);
    const { registration_access_token: next, ...renamed } = (await changed.json()) as Record<string, unknown>;
    expect([changed.status, renamed]).toMatchObject([200, { client_name: 'Renamed' }]);
    expect((await admin.open(`/apps/${client_id}`)).body).toMatch(/name="accessTokenSeconds"[^>]*value="77"/);
    expect((await manage('DELETE', registration_access_token)).status).toBe(401);
    const wild = await manage('PUT', next, { ...changes, redirect_uris: ['https://*.example.com/cb'] });
    expect(wild.status).toBe(400);
    expect((await manage('DELETE', next)).status).toBe(204);
    expect((await admin.open(`/apps/${client_id}`)).status).toBe(404);
  });

  it('with a token that the console made, shown once', async () => {
    const page = await admin.browser.submit(
      await admin.open('/registration'),
      {},
      { button: 'Make an initial access token' },
    );
    const token = secretOn(page.body);
    expect((await admin.open('/registration')).body).not.toContain(token);
    expect((await registration({}, token)).clientMetadata().client_id).toBeTruthy();
  });

  it('needs an initial access token', async () => {
    const register = (authorization?: string) =>
      fetch(`${client.sandbox.issuer}/register`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...(authorization ? { authorization } : {}) },
        body: JSON.stringify({ redirect_uris: [CALLBACK_URL] }),
      });
    expect((await register()).status).toBe(401);
    const guessed = await register('Bearer guess');
    expect([guessed.status, await guessed.json()]).toEqual([401, expect.objectContaining({ error: 'invalid_token' })]);
    expect(guessed.headers.get('www-authenticate')).toContain('error="invalid_token"');
  });

  it('is held to the same callback rules, each fault named', async () => {
    const uris = ['http://app.example.com/cb', 'https://*.example.com/cb'];
    const refused = await registration({ redirect_uris: uris }, INITIAL_ACCESS_TOKEN).catch((error: unknown) => error);
    expect(refused).toMatchObject({ error: 'invalid_redirect_uri' });
    expect((refused as oidc.ResponseBodyError).error_description).toMatch(
      /number 1 .*\(not_https\); .*number 2 .*\(wildcard\)/,
    );
  });
});

describe('an API token', () => {
  const make = async (fields: Record<string, string>) => {
    const page = await admin.browser.submit(await admin.open('/tokens'), { name: 'Nightly report', ...fields });
    return { page, token: secretOn(page.body) };
  };

  it('made in the console is shown once, reads a thread, tells its last use, and is revoked', async () => {
    const { page, token } = await make({ user: 'sbx-00u2', lifetime: 'day' });
    expect(token).toMatch(/^sbxt_[\w-]{43}$/);
    expect(page.body).toMatch(/Last used<\/dt><dd>\s*never/);
    const answer = await client.thread(token);
    expect([answer.status, await answer.json()]).toMatchObject([
      200,
      { thread: { author: { name: 'Sven Lindqvist' } } },
    ]);
    const later = await admin.browser.get(page.url);
    expect(later.body).not.toContain(token);
    expect(later.body).toMatch(/Last used<\/dt><dd>\s*<time/);
    expect((await admin.open('/tokens')).body).not.toContain(token);
    await admin.browser.submit(later, {}, { button: 'Revoke' });
    expect((await client.thread(token)).status).toBe(401);
  });

  it('can be for a service account, which cannot sign in', async () => {
    const users = await admin.open('/users');
    const added = await admin.browser.submit(users, {
      login: 'robot@example.test',
      name: 'Report robot',
      kind: 'service',
    });
    const { token } = await make({ user: new URL(added.url).pathname.split('/').at(-1) ?? '' });
    const current = await fetch(`${client.sandbox.platformUrl}/1/users/current`, {
      headers: { authorization: `Bearer ${token}` },
    });
    expect(await current.json()).toMatchObject({ name: 'Report robot', is_robot: true });
    expect((await client.thread(token)).status).toBe(200);
    const browser = createBrowser();
    const login = await browser.get((await client.begin(FULL_SCOPE)).url);
    const refused = await browser.submit(login, {
      login: 'robot@example.test',
      password: client.sandbox.accounts[0]?.password ?? '',
    });
    expect(refused.status).toBe(422);
  });

  it('is not made without name or for nobody', async () => {
    const { page } = await make({ name: '  ', user: 'nobody' });
    expect([page.status, page.body.includes('Enter a name.')]).toEqual([400, true]);
    expect((await make({ user: 'nobody' })).page.body).toContain('id="user-fault"');
  });
});
