/** Registering an app at its provider and here in one step, with the dynamic registration of the sandbox (RFC 7591). */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { openConsole } from '../../../sandbox/foreign-client.ts';
import type { Page, UserAgent } from '../../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { freePort } from '../../../support/ports.ts';

const TOKEN = 'initial-access-token-of-this-test-0123456789';
let site: TestSite;
let agent: UserAgent;
let sandboxConsole: Awaited<ReturnType<typeof openConsole>>;
beforeAll(async () => {
  site = await startSite({ env: { ADMIN_APP: 'platform' }, sandbox: { initialAccessToken: TOKEN } });
  ({ agent } = await signIn(site, 'admin@example.test'));
  sandboxConsole = await openConsole(site);
});
afterAll(() => site.close());
afterEach(() => site.sandbox.faults.clear());

const countRegistrations = () => site.sandbox.requests.count('POST /register');

/** Submits the form with changed fields. */
async function submitForm(page: Page, button: string, fields: Record<string, string>): Promise<Page> {
  const form = page.forms.find(({ names }) => names.includes('issuer'));
  if (!form) throw new Error(`No form on ${page.url}`);
  const body = new URLSearchParams([...form.fields.filter(([name]) => !(name in fields)), ...Object.entries(fields)]);
  body.set('do', button);
  return agent.request(new URL(form.action, page.url).href, { method: 'POST', body, headers: { origin: site.url } });
}

/** Opens the form with the metadata of the provider. */
async function openForm(id: string): Promise<Page> {
  const empty = await agent.get(`${site.url}/admin/register-app`);
  expect(empty.body).not.toContain('Register at the provider');
  const page = await submitForm(empty, 'read_provider', { id, name: 'Made by itself', issuer: site.sandbox.issuer });
  expect(page.body).toContain('Register at the provider');
  return page;
}
const CHOSEN = { signIn: 'everyone', moreScopes: 'platform_read_only', initialAccessToken: TOKEN };

describe('an app that registers itself', () => {
  test.each(['client_secret_basic', 'private_key_jwt'])(
    'by %s works at once, and receives sign-outs of the provider',
    async (method) => {
      const id = `made-${method.replaceAll('_', '-')}`;
      const apiBaseUrl = site.sandbox.platformUrl;
      const tokenEndpointAuthMethod = method;
      const page = await submitForm(await openForm(id), 'register_there', {
        ...CHOSEN,
        apiBaseUrl,
        tokenEndpointAuthMethod,
      });
      expect([page.status, new URL(page.url).pathname]).toEqual([200, `/admin/connected-apps/${id}/check`]);
      expect(page.body).toContain('registered at the provider and here. This is its first check.');
      const { json } = await getJson(agent, `${site.url}/admin/api/connected-apps/${id}`);
      expect(json).toMatchObject({ tokenEndpointAuthMethod, hasClientSecret: method === 'client_secret_basic' });

      const path = `/sign-in?app=${id}`;
      const user = await signIn(site, 'user@example.test', { path });
      expect(user.page.url).toBe(`${site.url}/`);
      expect((await getJson(user.agent, `${site.url}/threads/current?app=${id}`)).status).toBe(200);

      // Signing out at the provider also ends the session here, by back-channel logout.
      const signOutPage = await user.agent.get(`${site.sandbox.issuer}/sign-out`);
      await user.agent.submit(signOutPage, {}, { button: 'Sign out' });
      const isSignedIn = async () => (await getJson(user.agent, `${site.url}/session`)).json.signedIn;
      await expect.poll(isSignedIn).toBe(false);
    },
  );

  test('by the API requires the initial access token, which no response or entry repeats', async () => {
    const { csrfToken } = (await getJson(agent, `${site.url}/session`)).json;
    const newApp = {
      ...{ id: 'by-api', name: 'By API', issuer: site.sandbox.issuer, scopes: ['openid'] },
      callbackUrls: [`${site.url}/oauth/callback/by-api`],
    };
    const register = (body: object) =>
      agent.request(`${site.url}/admin/api/register-at-provider`, {
        method: 'POST',
        headers: { accept: 'application/json', 'content-type': 'application/json', 'x-csrf-token': String(csrfToken) },
        body: JSON.stringify(body),
      });
    const withoutToken = await register(newApp);
    expect([withoutToken.status, JSON.parse(withoutToken.body).errors[0].pointer]).toEqual([
      ...[400, '#/initialAccessToken'],
    ]);

    const closedPort = await register({ ...newApp, issuer: `https://127.0.0.1:${await freePort()}` });
    site.sandbox.faults.set({
      ...{ listener: 'identity-provider', path: '/.well-known/openid-configuration', kind: 'rewrite' },
      change: ({ registration_endpoint: _, ...metadata }) => metadata,
    });
    const notOffered = await register(newApp);
    site.sandbox.faults.clear();
    for (const [answer, detail] of [
      [closedPort, expect.stringContaining('refused the connection')],
      [notOffered, expect.stringMatching(/Register .* by hand/)],
    ] as const) {
      const { errors } = JSON.parse(answer.body);
      expect([answer.status, errors]).toEqual([400, [{ pointer: '#/issuer', rule: 'registration', detail }]]);
    }

    const registered = await register({ ...newApp, initialAccessToken: TOKEN });
    expect([registered.status, registered.headers.get('location')]).toEqual([
      ...[201, `${site.url}/admin/api/connected-apps/by-api`],
    ]);
    expect(registered.body).not.toContain(TOKEN);
    expect(JSON.parse(registered.body)).toMatchObject({
      ...{ clientId: expect.stringMatching(/./), clientSecretExpiresAt: null },
    });

    const { json } = await getJson(agent, `${site.url}/admin/api/audit?event=connected_app.registered&target=by-api`);
    const target = { kind: 'connected_app', id: 'by-api', name: 'By API' };
    const started = { target, facts: { issuer: site.sandbox.issuer } };
    // Newest first: the registration; then the refusal and the start of the one without a token.
    expect(json.items).toMatchObject([started, { ...started, outcome: 'not_done', code: 'invalid_request' }, started]);
    expect(JSON.stringify(json)).not.toContain(TOKEN);
    const auditPage = await agent.get(`${site.url}/admin/audit?event=connected_app.registered&target=by-api`);
    // The entry before the call does not claim success.
    expect(auditPage.body).toContain(
      'title="Registration at the provider started, not done: the request is not valid"',
    );
  });

  test('with a client secret that expires: shown, listed for attention, and replaced', async () => {
    const register = async (id: string, secondsToExpiry: number) => {
      site.sandbox.faults.set({
        ...{ listener: 'identity-provider', path: '/register', kind: 'response', status: 201 },
        body: {
          client_id: id,
          client_secret: 's',
          client_secret_expires_at: Math.floor(Date.now() / 1000) + secondsToExpiry,
        },
      });
      await submitForm(await openForm(id), 'register_there', CHOSEN);
      return (await agent.get(`${site.url}/admin/connected-apps/${id}`)).body;
    };
    const DAY_SECONDS = 86_400;
    expect(await register('ends-soon', 10 * DAY_SECONDS)).toContain('The client secret expires on');
    expect(await register('ends-late', 100 * DAY_SECONDS)).not.toContain('The client secret expires');
    expect(await register('ended', -1)).toContain('The client secret expired');
    const list = (await agent.get(`${site.url}/admin/connected-apps`)).body;
    expect([list.includes('Secret expires soon'), list.includes('Secret expired')]).toEqual([true, true]);
    const { json } = await getJson(agent, `${site.url}/admin/api/connected-apps/ends-late`);
    expect(Date.parse(String(json.clientSecretExpiresAt)) - Date.now()).toBeGreaterThan(99 * DAY_SECONDS * 1000);
    const openApp = () => agent.get(`${site.url}/admin/connected-apps/ends-soon/settings`);
    const renamed = await submitForm(await openApp(), 'save', { name: 'Renamed' });
    expect(renamed.body).toContain('The client secret expires on');
    const replaced = await submitForm(await openApp(), 'save', { clientSecret: 'another' });
    expect(replaced.body).not.toContain('The client secret expires');
  });
});

describe('a fault is shown next to the form, and nothing is registered here', () => {
  const expectFault = async (id: string, page: Page, words: string) => {
    expect(page.status).toBe(400);
    expect(page.body).toContain(words);
    expect(page.body).not.toContain(TOKEN);
    expect((await getJson(agent, `${site.url}/admin/api/connected-apps/${id}`)).status).toBe(404);
  };

  test('without the token that the provider requires', async () => {
    const page = await submitForm(await openForm('unnamed'), 'register_there', { ...CHOSEN, initialAccessToken: '' });
    await expectFault('unnamed', page, 'requires an initial access token');
    expect(page.body).toContain('Register at the provider');
  });

  test('with a token that is not valid in a header', async () => {
    const page = await submitForm(await openForm('blank'), 'register_there', {
      ...CHOSEN,
      initialAccessToken: 'to\u2019ken',
    });
    await expectFault('blank', page, 'Enter the token as the provider showed it, without spaces.');
  });

  test('R71 an app that cannot be stored here is not registered at the provider', async () => {
    const countBefore = countRegistrations();
    const callbackUrl = 'https://*.example.com/cb';
    await expectFault(
      'wild',
      await submitForm(await openForm('wild'), 'register_there', { ...CHOSEN, callbackUrl }),
      'Write out every',
    );
    const taken = await submitForm(await openForm('wild'), 'register_there', { ...CHOSEN, id: 'platform' });
    expect(taken.body).toContain('Another app has this id');
    expect(countRegistrations()).toBe(countBefore);
  });

  test.each([
    [
      'R79 a private address as its endpoint',
      'http://10.0.0.1/register',
      'the address policy refuses 10.0.0.1:80 (private_address)',
    ],
    [
      'R79 the metadata address',
      'http://169.254.169.254/register',
      'the address policy refuses 169.254.169.254:80 (forbidden_address)',
    ],
  ])('%s', async (_name, registration_endpoint, words) => {
    site.sandbox.faults.set({
      ...{ listener: 'identity-provider', path: '/.well-known/openid-configuration', kind: 'rewrite' },
      change: (metadata) => ({ ...metadata, registration_endpoint }),
    });
    await expectFault('inside', await submitForm(await openForm('inside'), 'register_there', CHOSEN), words);
  });

  test('a provider that cannot be called: with the cause and what to do', async () => {
    const port = await freePort();
    const cause = `The call to the provider failed: 127.0.0.1:${port} refused the connection (ECONNREFUSED). Check the port`;
    site.sandbox.faults.set({
      ...{ listener: 'identity-provider', path: '/.well-known/openid-configuration', kind: 'rewrite' },
      change: (metadata) => ({ ...metadata, registration_endpoint: `http://127.0.0.1:${port}/register` }),
    });
    const page = await openForm('refusing');
    await expectFault('refusing', await submitForm(page, 'register_there', CHOSEN), cause);
    const unread = await submitForm(page, 'read_provider', { issuer: `http://127.0.0.1:${port}` });
    expect(unread.body).toContain(cause);
  });

  test.each([
    ['a refusal', 400, { error: 'invalid_redirect_uri' }, 'does not accept the callback URLs'],
    ['no secret', 201, { client_id: 'x' }, 'issued no client secret'],
    ['noise', 201, [], 'not a client registration'],
  ])('%s', async (_name, status, body, words) => {
    const page = await openForm('refused');
    site.sandbox.faults.set({ listener: 'identity-provider', path: '/register', kind: 'response', status, body });
    await expectFault('refused', await submitForm(page, 'register_there', CHOSEN), words);
  });
});

describe('RFC 7592 a registration that cannot be stored here', () => {
  const REGISTER = { listener: 'identity-provider', method: 'POST', path: '/register' } as const;
  const clientsThere = async (): Promise<string> => (await sandboxConsole.open('/apps')).body;
  const withdrawals = async (appId: string) => {
    const path = `${site.url}/admin/api/audit?event=connected_app.deregistered&target=${appId}`;
    return (await getJson(agent, path)).json.items;
  };

  /** Another administrator takes the id while the provider responds. */
  async function registerTooLate(id: string): Promise<Page> {
    const page = await openForm(id);
    const gate = Promise.withResolvers<void>();
    site.sandbox.faults.set({ ...REGISTER, kind: 'hold', until: gate.promise, times: 1 });
    const countBefore = countRegistrations();
    const sent = submitForm(page, 'register_there', { ...CHOSEN, name: `Late ${id}` });
    await expect.poll(countRegistrations).toBe(countBefore + 1);
    const empty = await agent.get(`${site.url}/admin/register-app`);
    const faster = { id, name: 'Faster', issuer: site.sandbox.issuer, clientId: 'faster', clientSecret: 'faster' };
    expect(
      (await submitForm(empty, 'save', { ...faster, callbackUrl: `${site.url}/oauth/callback/${id}` })).status,
    ).toBe(200);
    gate.resolve();
    return sent;
  }

  test('is deleted at the provider, shown and audited', async () => {
    const page = await registerTooLate('raced');
    expect(page.status).toBe(400);
    expect(page.body).toContain('The registration at the provider was deleted.');
    expect(await clientsThere()).not.toContain('Late raced');
    const [entry, ...others] = (await withdrawals('raced')) as { outcome?: string; facts: { clientId: string } }[];
    expect([others, entry?.outcome]).toEqual([[], undefined]);
    expect(entry?.facts.clientId).toMatch(/./);
  });

  test('is named for deletion by hand if the provider does not delete it', async () => {
    site.sandbox.faults.set({
      listener: 'identity-provider',
      method: 'DELETE',
      kind: 'response',
      status: 503,
      body: {},
    });
    const page = await registerTooLate('stuck');
    const clientId = /with the client ID ([^:]+): delete it there by hand/.exec(page.body)?.[1] ?? 'not told';
    expect(await clientsThere()).toContain(clientId);
    expect(await withdrawals('stuck')).toMatchObject([{ outcome: 'not_done', facts: { clientId } }]);
  });

  test('is deleted if it cannot be used, such as without a required secret', async () => {
    site.sandbox.faults.set({ ...REGISTER, kind: 'rewrite', change: ({ client_secret: _, ...rest }) => rest });
    const page = await submitForm(await openForm('bare'), 'register_there', { ...CHOSEN, name: 'Bare one' });
    expect(page.body).toContain('issued no client secret');
    expect(await clientsThere()).not.toContain('Bare one');
  });

  test('R79 is not deleted at an address outside the provider', async () => {
    const called: string[] = [];
    const other = createServer((req, res) => {
      called.push(`${req.method} ${req.url}`);
      res.end();
    });
    other.listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const elsewhere = { registration_client_uri: `http://127.0.0.1:${port}/things/1` };
    site.sandbox.faults.set({
      ...{ ...REGISTER, kind: 'rewrite' },
      change: ({ client_secret: _, ...rest }) => ({ ...rest, ...elsewhere }),
    });
    const page = await submitForm(await openForm('lured'), 'register_there', { ...CHOSEN, name: 'Lured one' });
    other.close();
    expect(page.body).toContain('issued no client secret');
    expect(called).toEqual([]);
  });
});

test('R44 R88 the token is in no log, and the form keeps protections and limits', async () => {
  expect(site.logs().join('')).not.toContain(TOKEN);
  const page = await agent.get(`${site.url}/admin/connected-apps/by-api/settings`);
  const limits = { 'rateLimit-perUserPerMinute': '50', 'rateLimit-perAppPerMinute': '600' };
  const saved = await submitForm(page, 'save', { par: 'required', dpop: 'off', ...limits });
  expect(saved.body).toContain('Saved.');
  const { json } = await getJson(agent, `${site.url}/admin/api/connected-apps/by-api`);
  const rateLimit = { perUserPerMinute: 50, perAppPerMinute: 600 };
  expect(json).toMatchObject({ par: 'required', dpop: 'off', rateLimit });
  const faulty = await submitForm(saved, 'save', { 'rateLimit-perUserPerMinute': 'many' });
  expect([faulty.status, faulty.body.includes('rateLimit-perUserPerMinute-fault')]).toEqual([400, true]);
  const none = await submitForm(saved, 'save', { 'rateLimit-perUserPerMinute': '', 'rateLimit-perAppPerMinute': '' });
  expect(none.body).toContain('Saved.');
  expect((await getJson(agent, `${site.url}/admin/api/connected-apps/by-api`)).json.rateLimit).toBeUndefined();
});
