/** Connected apps by the admin API: R5, R50, R71, R79, R88, and changes in every process. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startGatehouse } from '../../../../src/gatehouse/start.ts';
import { createUserAgent } from '../../../support/browserless.ts';
import {
  APP_DEFAULTS,
  CLIENT_SECRET,
  getJson,
  sandboxApp,
  signIn,
  startSite,
  type TestSite,
} from '../../../support/gatehouse.ts';
import { freePort } from '../../../support/ports.ts';
import { ACCEPT_JSON, JSON_BODY, sendRequest } from '../../../support/send-request.ts';
import { until } from '../../../support/until.ts';

let site: TestSite;
let admin: { cookie: string; csrf: string };
beforeAll(async () => {
  site = await startSite();
  admin = await signInWithCsrf('admin@example.test');
});
afterAll(() => site.close());

async function signInWithCsrf(login: string) {
  const { agent } = await signIn(site, login, { path: '/sign-in?app=platform' });
  const { json } = await getJson(agent, `${site.url}/session`);
  return { cookie: agent.cookies.header(site.url), csrf: String(json.csrfToken) };
}

interface Answer {
  status: number;
  json: Record<string, unknown> & { errors?: { pointer: string; rule: string; detail: string }[] };
  headers: Record<string, unknown>;
}

async function call(method: string, path: string, body?: unknown, from = site.url): Promise<Answer> {
  const {
    status,
    headers,
    body: text,
  } = await sendRequest(`${from}/admin/api/connected-apps${path}`, {
    method,
    headers: { ...ACCEPT_JSON, ...JSON_BODY, cookie: admin.cookie, 'x-csrf-token': admin.csrf },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status, headers, json: text === '' ? {} : JSON.parse(text) };
}

const secondApp = (changes: Record<string, unknown> = {}) =>
  sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET, ...changes });

const otherApp = (id: string, changes: Record<string, unknown> = {}) => ({
  id,
  name: `App ${id}`,
  issuer: 'https://idp.example.com',
  clientId: 'c',
  clientSecret: 'a-client-secret-0123456789',
  scopes: ['openid'],
  callbackUrls: [`${site.url}/oauth/callback/${id}`],
  ...changes,
});

describe('an app is registered, used, changed and deleted', () => {
  test('R5 the response has its callback URL and everything except the secret', async () => {
    const { status, json, headers } = await call('POST', '', secondApp());
    expect(status).toBe(201);
    expect(headers.location).toBe(`${site.url}/admin/api/connected-apps/second`);
    expect(json).toMatchObject({
      id: 'second',
      source: 'administration',
      hasClientSecret: true,
      callbackUrl: `${site.url}/oauth/callback/second`,
      postLogoutRedirectUri: `${site.url}/`,
      backchannelLogoutUri: `${site.url}/oauth/backchannel-logout/second`,
      unusable: null,
      threadPath: '/1/threads/current',
      routes: [],
      connections: 0,
    });
    expect(Number.isInteger(json.version)).toBe(true);
    expect(JSON.stringify(json)).not.toContain(CLIENT_SECRET);
    const listed = await call('GET', '');
    expect((listed.json.items as { id: string; source: string }[]).map(({ id, source }) => [id, source])).toEqual([
      ['platform', 'file'],
      ['second', 'administration'],
    ]);
    expect((await call('GET', '?q=SECOND')).json.items).toHaveLength(1);
    expect((await call('GET', '?limit=1')).json).toMatchObject({ next: 'platform' });
    expect((await call('GET', '?limit=1&after=platform')).json.next).toBeUndefined();
  });

  test('users sign in with it at once, and none becomes an administrator', async () => {
    const { agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=second' });
    const { json } = await getJson(agent, `${site.url}/session`);
    expect(json).toMatchObject({ signedIn: true, user: { email: 'admin@example.test', admin: false } });
    expect((await agent.get(`${site.url}/admin`)).status).toBe(403);
    const withAppOfFile = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform' });
    expect((await getJson(withAppOfFile.agent, `${site.url}/session`)).json).toMatchObject({ user: { admin: true } });
  });

  test('a change requires the current version, and keeps an omitted secret', async () => {
    const { json: read } = await call('GET', '/second');
    const { clientSecret: _, ...app } = secondApp({ name: 'Renamed' });
    const changed = await call('PUT', '/second', { ...app, version: read.version });
    expect(changed).toMatchObject({ status: 200, json: { name: 'Renamed', hasClientSecret: true } });
    expect(changed.json.clientSecretSetAt).toBe(read.clientSecretSetAt);
    expect(changed.json.version).not.toBe(read.version);

    const outdated = await call('PUT', '/second', { ...app, name: 'Too late', version: read.version });
    expect([outdated.status, outdated.json.code]).toEqual([409, 'version_conflict']);
    const otherId = await call('PUT', '/second', { ...app, id: 'third', version: changed.json.version });
    expect([otherId.status, otherId.json.errors]).toMatchObject([400, [{ pointer: '#/id', rule: 'fixed' }]]);
    const unknownApp = await call('PUT', '/nowhere', { ...app, id: undefined, version: 1 });
    expect([unknownApp.status, unknownApp.json.detail]).toEqual([404, 'There is no connected app with this id.']);
    expect((await call('GET', '/second')).json.name).toBe('Renamed');
    await expect(signIn(site, 'user@example.test', { path: '/sign-in?app=second' })).resolves.toMatchObject({
      page: { status: 200 },
    });
  });

  test('one of twenty changes of the same version succeeds', async () => {
    const { json: read } = await call('GET', '/second');
    const { clientSecret: _, ...app } = secondApp();
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_one, number) =>
        call('PUT', '/second', { ...app, name: `Writer ${number}`, version: read.version }),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(409)]);
  });

  test('a kept secret and tokens of connections are sent to no other provider', async () => {
    const { json: read } = await call('GET', '/second');
    const { clientSecret: _, ...app } = secondApp();
    const refused = await call('PUT', '/second', {
      ...app,
      issuer: 'https://other.example.com',
      version: read.version,
    });
    expect(refused.status).toBe(400);
    expect(refused.json.errors?.map(({ pointer, rule }) => [pointer, rule])).toEqual([
      ['#/clientSecret', 'give_again'],
      ['#/issuer', 'has_connections'],
    ]);
    expect(refused.json.errors?.[1]?.detail).toMatch(/^2 users are connected/);
  });

  test('R88 a disabled app allows no sign-in and no call, and its page says so', async () => {
    const { agent } = await signIn(site, 'user@example.test', { path: '/sign-in?app=second' });
    const threads = `${site.url}/threads/current?app=second`;
    expect((await agent.get(threads, { headers: ACCEPT_JSON })).status).toBe(200);
    const { json: read } = await call('GET', '/second');
    const { clientSecret: _, ...app } = secondApp();
    const disabled = await call('PUT', '/second', { ...app, disabled: true, version: read.version });
    expect(disabled.json).toMatchObject({ disabled: true, unusable: expect.any(String) });
    expect((await agent.get(threads, { headers: ACCEPT_JSON })).status).toBe(404);
    expect((await createUserAgent().get(`${site.url}/sign-in?app=second`)).status).toBe(404);
    const page = await agent.get(`${site.url}/connections/second`);
    expect(page.body).toContain('An administrator has disabled this app');
    expect(page.forms.some(({ action }) => action.endsWith('/connections/second'))).toBe(false);
    for (const name of Object.keys(APP_DEFAULTS)) {
      const { [name]: _, ...without } = app as Record<string, unknown>;
      const refused = await call('PUT', '/second', { ...without, version: disabled.json.version });
      expect([refused.status, refused.json.errors]).toMatchObject([400, [{ pointer: `#/${name}` }]]);
    }
    expect((await call('GET', '/second')).json).toMatchObject({ disabled: true, version: disabled.json.version });
    const enabled = await call('PUT', '/second', { ...app, version: disabled.json.version });
    expect(enabled.json).toMatchObject({ unusable: null });
    expect((await agent.get(threads, { headers: ACCEPT_JSON })).status).toBe(200);
  });

  test('a sign-in fails if the app is disabled meanwhile', async () => {
    const agent = createUserAgent();
    const form = await agent.get(`${site.url}/sign-in?app=second`);
    const { json: read } = await call('GET', '/second');
    const { clientSecret: _, ...app } = secondApp();
    const disabled = await call('PUT', '/second', { ...app, disabled: true, version: read.version });
    let page = await agent.submit(form, { login: 'user@example.test', password: 'gatehouse-demo' });
    if (page.url.startsWith(site.sandbox.issuer)) page = await agent.submit(page, {}, { button: 'Allow' });
    expect([page.status, page.url.startsWith(site.url)]).toEqual([403, true]);
    expect((await getJson(agent, `${site.url}/session`)).json).toEqual({ signedIn: false });
    await call('PUT', '/second', { ...app, version: disabled.json.version });
  });

  test('it cannot be deleted while users are connected', async () => {
    const refused = await call('DELETE', '/second');
    expect([refused.status, refused.json.errors?.[0]?.rule]).toEqual([400, 'has_connections']);
    for (const login of ['admin@example.test', 'user@example.test']) {
      const { agent } = await signIn(site, login, { path: '/sign-in?app=second' });
      await agent.submit(await agent.get(`${site.url}/connections/second`), {}, { button: 'Disconnect' });
    }
    const { json: read } = await call('GET', '/second');
    expect(read.connections).toBe(0);
    expect((await call('DELETE', `/second?version=${Number(read.version) - 1}`)).status).toBe(409);
    expect((await call('DELETE', `/second?version=${read.version}`)).status).toBe(204);
    expect((await call('GET', '/second')).status).toBe(404);
    expect((await createUserAgent().get(`${site.url}/sign-in?app=second`)).status).toBe(404);
  });

  test('R88 each change has an audit entry with actor, target and address, and without the secret', async () => {
    const { body } = await sendRequest(`${site.url}/admin/api/audit?limit=200`, {
      headers: { ...ACCEPT_JSON, cookie: admin.cookie },
    });
    const entries = (JSON.parse(body).items as Record<string, unknown>[]).filter(({ target }) =>
      JSON.stringify(target ?? {}).includes('"second"'),
    );
    const events = new Set(entries.map(({ event }) => event));
    for (const event of ['created', 'changed', 'disabled', 'enabled', 'deleted'])
      expect(events).toContain(`connected_app.${event}`);
    const created = entries.find(({ event }) => event === 'connected_app.created');
    expect(created).toMatchObject({
      actor: { kind: 'administrator', name: 'admin@example.test' },
      address: '127.0.0.1',
      target: { kind: 'connected_app', id: 'second' },
    });
    expect(entries.filter(({ outcome }) => outcome === 'not_done').length).toBeGreaterThan(0);
    expect(body).not.toContain(CLIENT_SECRET);
  });
});

describe('refusals', () => {
  test('R71 callback URLs, each with the broken rule', async () => {
    const urls = [
      'https://*.example.com/cb',
      'https://a.example/cb#x',
      'http://a.example/cb',
      'https://u:p@a.example/cb',
      'https://a.example/../cb',
      'https://a.example\\cb',
      'https://a.example/c b',
      '/cb',
      'https://a.example/cb',
      'https://a.example/cb',
    ];
    const { status, json } = await call('POST', '', otherApp('refused', { callbackUrls: urls }));
    expect(status).toBe(400);
    expect(json.code).toBe('invalid_request');
    expect(json.errors?.map(({ pointer, rule }) => [pointer, rule])).toEqual([
      ['#/callbackUrls/0', 'wildcard'],
      ['#/callbackUrls/1', 'fragment'],
      ['#/callbackUrls/2', 'not_https'],
      ['#/callbackUrls/3', 'userinfo'],
      ['#/callbackUrls/4', 'dot_segments'],
      ['#/callbackUrls/5', 'backslash'],
      ['#/callbackUrls/6', 'control'],
      ['#/callbackUrls/7', 'not_absolute'],
      ['#/callbackUrls/9', 'duplicate'],
    ]);
  });

  test('R71 callback URLs can be checked without storing anything', async () => {
    const checkUrls = async (urls: string[]) => {
      const { status, body } = await sendRequest(`${site.url}/admin/api/callback-urls`, {
        method: 'POST',
        headers: { ...ACCEPT_JSON, ...JSON_BODY, cookie: admin.cookie, 'x-csrf-token': admin.csrf },
        body: JSON.stringify({ id: 'second', urls }),
      });
      return { status, json: JSON.parse(body) };
    };
    const good = `${site.url}/oauth/callback/second`;
    expect(await checkUrls(['https://*.example.com/cb', `${site.url}/oauth/callback/Second/`])).toMatchObject({
      status: 200,
      json: {
        faults: [
          { position: 0, rule: 'wildcard', detail: expect.stringContaining('Write out every callback URL') },
          {
            position: 1,
            rule: 'own_host',
            detail: expect.stringContaining(`Did you mean ${good}?`),
            suggestedUrl: good,
          },
        ],
      },
    });
    expect(await checkUrls([good])).toMatchObject({ status: 200, json: { faults: [] } });
    expect(await checkUrls(Array(51).fill(good))).toMatchObject({
      status: 400,
      json: { errors: [{ pointer: '#/urls' }] },
    });
  });

  test.each([
    ['an unknown field', { admin: true }, '#'],
    ['no scopes', { scopes: undefined }, '#/scopes'],
    ['a scope with a quote', { scopes: ['a"b'] }, '#/scopes/0'],
    ['an id with a slash', { id: '../x' }, '#/id'],
    ['the id of an app of the file', { id: 'platform', callbackUrls: ['https://a.example/cb'] }, '#/id'],
    ['a name of 10,000 characters', { name: 'W'.repeat(10_000) }, '#/name'],
    ['no secret, although one is required', { clientSecret: undefined }, '#/clientSecret'],
    ['sign-in without openid', { scopes: ['x'], signIn: { allow: 'everyone' } }, '#/scopes'],
    ['sign-in without the users that may sign in', { signIn: {} }, '#/signIn/allow'],
    ['prompt as a parameter', { parameters: { prompt: 'login' } }, '#/parameters/prompt'],
    ['a protocol parameter of the token request', { tokenParameters: { code: 'x' } }, '#/tokenParameters/code'],
    ['a protocol parameter', { parameters: { redirect_uri: 'x' } }, '#/parameters/redirect_uri'],
  ])('%s', async (_name, changes, pointer) => {
    const { status, json } = await call('POST', '', otherApp('refused', changes));
    expect([status, json.errors?.map((error) => error.pointer)]).toEqual([400, [pointer]]);
  });

  test('a claim that is probably meant as a path, in JSON and beside its field', async () => {
    const withClaim = (claim: string) => ({ signIn: { allow: { claim, values: ['staff'] } } });
    const { status, json } = await call('POST', '', otherApp('nested', withClaim('realm_access.roles')));
    expect([status, json.signInClaimWarning]).toEqual([201, expect.stringMatching(/: \/realm_access\/roles$/)]);
    const { agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform' });
    const page = async () => (await agent.get(`${site.url}/admin/connected-apps/nested/settings`)).body;
    expect(await page()).toContain('“realm_access.roles” is read as the name of one claim');
    const changed = { ...otherApp('nested', withClaim('/realm_access/roles')), ...APP_DEFAULTS, version: json.version };
    expect((await call('PUT', '/nested', changed)).json.signInClaimWarning).toBeNull();
    expect(await page()).not.toContain('is read as the name of one claim');
    await call('DELETE', '/nested');
  });

  test('R66 a form sent as JSON, and an invalid body', async () => {
    const headers = { ...ACCEPT_JSON, cookie: admin.cookie, 'x-csrf-token': admin.csrf };
    const form = { ...headers, 'content-type': 'application/x-www-form-urlencoded' };
    const url = `${site.url}/admin/api/connected-apps`;
    expect((await sendRequest(url, { method: 'POST', headers: form, body: 'id=x' })).status).toBe(400);
    expect((await sendRequest(url, { method: 'POST', headers: { ...headers, ...JSON_BODY }, body: '{' })).status).toBe(
      400,
    );
  });

  test('an app of the file cannot be changed or deleted', async () => {
    const { version: _, ...app } = otherApp('platform') as Record<string, unknown>;
    expect((await call('PUT', '/platform', { ...app, ...APP_DEFAULTS, version: 1 })).json.errors?.[0]?.rule).toBe(
      'from_file',
    );
    expect((await call('DELETE', '/platform')).json.errors?.[0]?.rule).toBe('from_file');
  });
});

describe('R79 addresses that must not be called', () => {
  test.each([
    ['a loopback address', 'https://127.1.2.3', 'private_address'],
    ['a private address', 'https://10.0.0.1', 'private_address'],
    ['an address in decimal', 'https://2130706434', 'private_address'],
    ['an IPv4 address in IPv6', 'https://[::ffff:10.0.0.1]', 'private_address'],
    ['the metadata address', 'https://169.254.169.254', 'forbidden_address'],
    ['plain http', 'http://idp.example.com', 'not_https'],
  ])('%s', async (_name, issuer, rule) => {
    const { status, json } = await call('POST', '', otherApp('refused', { issuer }));
    expect([status, json.errors]).toMatchObject([400, [{ pointer: '#/issuer', rule }]]);
  });

  test.each(['discoveryUrl', 'apiBaseUrl'])('by %s', async (field) => {
    const { json } = await call('POST', '', otherApp('refused', { [field]: 'https://192.168.0.1/x' }));
    expect(json.errors).toMatchObject([{ pointer: `#/${field}`, rule: 'private_address' }]);
  });

  test('by endpoints', async () => {
    const endpoints = { revocation: 'https://[fd00::1]/r' };
    const { json } = await call('POST', '', otherApp('refused', { endpoints }));
    expect(json.errors).toMatchObject([{ pointer: '#/endpoints/revocation', rule: 'private_address' }]);
  });
});

describe('several processes', () => {
  test('every process has a change within a second, without a restart', async () => {
    const [port, managementPort] = [await freePort(), await freePort()];
    const env = { ...site.env, PORT: String(port), MANAGEMENT_PORT: String(managementPort), PUBLIC_URL: site.url };
    const secondProcess = await startGatehouse(env, { write: () => undefined });
    const secondUrl = `http://127.0.0.1:${port}`;
    const signInStatus = async (url = secondUrl) =>
      (await sendRequest(`${url}/sign-in?app=second`, { headers: ACCEPT_JSON })).status;
    try {
      expect(await signInStatus()).toBe(404);
      const { json } = await call('POST', '', secondApp());
      expect(await until(async () => (await signInStatus()) === 200)).toBeLessThan(1_000);

      await call('DELETE', `/second?version=${json.version}`, undefined, secondUrl);
      expect(await until(async () => (await signInStatus(site.url)) === 404)).toBeLessThan(1_000);
    } finally {
      await secondProcess.close();
    }
  });

  test('a registered app survives a restart', async () => {
    await call('POST', '', otherApp('kept'));
    await site.restart();
    expect((await call('GET', '/kept')).json).toMatchObject({ name: 'App kept', hasClientSecret: true });
    expect((await call('DELETE', '/kept')).status).toBe(204);
  });
});
