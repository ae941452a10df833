/** Service accounts: their API token is tried, sealed, used without a user, and never shown again. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { keys } from '../../../src/shared/storage/keys.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { CLIENT_SECRET, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_JSON, FORM_BODY, sendRequest } from '../../support/send-request.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, codeOf, createAdministrator, relayThread } from './service.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let administrator: UserAgent;
/** The sandbox's platform accepts any access token as an API token. */
let apiToken: string;
let token: string;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 }, env: { RATE_LIMIT_PER_SESSION: '40' } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent: administrator } = await signIn(site, 'admin@example.test'));
  apiToken = (await storage.readGrant((await sessionOf(site, administrator)).userId)).accessToken;
  ({ token } = await admin.createRelayToken({ users: 'none' }));
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

test('seals an API token that the platform accepts, and uses it without a user', async () => {
  const created = await admin.call('POST', '/service-accounts', { name: 'Nightly', app: 'platform', apiToken });
  expect([created.status, created.json]).toMatchObject([201, { name: 'Nightly', app: 'platform' }]);
  const id = String(created.json.id);
  const thread = await relayThread(site, token, { 'gatehouse-service-account': id });
  expect([thread.status, JSON.parse(thread.body).thread.author.name]).toEqual([200, 'Ada Moreau']);
  const shown = [
    JSON.stringify(created.json),
    JSON.stringify((await admin.call('GET', `/service-accounts/${id}`)).json),
    JSON.stringify((await admin.call('GET', '/service-accounts')).json),
    JSON.stringify((await admin.call('GET', '/audit?limit=200')).json),
    (await administrator.get(`${site.url}/admin/service-accounts`)).body,
    ...site.logs(),
  ];
  for await (const records of storage.store.walk()) shown.push(...records.map(({ value }) => value));
  expect(shown.filter((text) => text.includes(apiToken))).toEqual([]);
});

test('marks an API token that is older than 180 days until it is replaced', async () => {
  const created = await admin.call('POST', '/service-accounts', { name: 'Long ago', app: 'platform', apiToken });
  const id = String(created.json.id);
  const open = async () => (await administrator.get(`${site.url}/admin/service-accounts`)).body;
  expect(await open()).not.toContain('</span>Old</span>');
  const key = keys.serviceAccount(id);
  const { sealer } = storage;
  const stored = JSON.parse(await sealer.open((await storage.store.get(key))?.value ?? '', key));
  stored.tokenSetAt -= 190 * 86_400_000;
  await storage.store.write([{ put: key, value: await sealer.seal(JSON.stringify(stored), key) }]);
  expect(await open()).toContain('6 mo ago');
  expect(await open()).toContain('</span>Old</span>');
  const { version } = (await admin.call('GET', `/service-accounts/${id}`)).json;
  expect((await admin.call('PUT', `/service-accounts/${id}`, { name: 'Long ago', apiToken, version })).status).toBe(
    200,
  );
  expect(await open()).not.toContain('</span>Old</span>');
});

test('does not store or show an API token that the platform refuses', async () => {
  const account = { name: 'Wrong', app: 'platform', apiToken: 'not-a-token-of-theirs' };
  const refused = await admin.call('POST', '/service-accounts', account);
  expect([refused.status, refused.json.errors]).toMatchObject([400, [{ pointer: '#/apiToken', rule: 'refused' }]]);
  const { csrfToken } = await sessionOf(site, administrator);
  const page = await administrator.request(`${site.url}/admin/service-accounts`, {
    method: 'POST',
    headers: { accept: 'text/html' },
    body: new URLSearchParams({ ...account, _csrf: csrfToken }),
  });
  expect([page.status, page.body]).toEqual([400, expect.stringContaining('does not accept this API token')]);
  expect(page.body).not.toContain(account.apiToken);
  expect(JSON.stringify((await admin.call('GET', '/service-accounts')).json)).not.toContain('Wrong');
});

test.each([
  [200, undefined],
  [204, undefined],
  [404, undefined],
  [429, undefined],
  [401, 'refused'],
  [403, 'refused'],
  [300, 'unreachable'],
  [400, 'unreachable'],
  [500, 'unreachable'],
])('judges an API token by the status %i of the platform: %s', async (status, rule) => {
  const heal = site.sandbox.faults.set({ listener: 'platform', kind: 'response', status, body: '' });
  const { status: createStatus, json } = await admin.call('POST', '/service-accounts', {
    name: 'Tried',
    app: 'platform',
    apiToken,
  });
  heal();
  const refused = [400, { errors: [{ pointer: '#/apiToken', rule }] }];
  expect([createStatus, json]).toMatchObject(rule === undefined ? [201, { name: 'Tried' }] : refused);
});

test('shows the fault of a new API token next to its field, and asks to enter it again', async () => {
  const { id } = (await admin.call('POST', '/service-accounts', { name: 'Row', app: 'platform', apiToken })).json;
  const { csrfToken } = await sessionOf(site, administrator);
  const send = (path: string, form: Record<string, string>) =>
    administrator.request(`${site.url}/admin/service-accounts${path}`, {
      method: 'POST',
      headers: { accept: 'text/html' },
      body: new URLSearchParams({ _csrf: csrfToken, ...form }),
    });
  const refused = await send(`/${id}/replace`, { apiToken: 'not-a-token-of-theirs' });
  expect([refused.status, refused.body]).toEqual([400, expect.stringContaining('id="apiToken-fault"')]);
  expect(refused.body).toContain('Replace the API token of <bdi>Row</bdi>');
  expect(refused.body).not.toContain('not-a-token');
  const unnamed = await send('', { name: ' ', app: 'platform', apiToken: 'typed-but-not-sent-back' });
  expect([unnamed.status, unnamed.body]).toEqual([400, expect.stringContaining('Enter it again')]);
  expect(unnamed.body).not.toContain('typed-but-not-sent-back');
});

test('audits the service account of each call, but no unknown id', async () => {
  const { json } = await admin.call('POST', '/service-accounts', { name: 'Audited', app: 'platform', apiToken });
  const { token: watched, id: relayToken } = await admin.createRelayToken({ users: 'none' });
  for (const account of [String(json.id), 'sa0123456789abcdef']) {
    await relayThread(site, watched, { 'gatehouse-service-account': account });
  }
  const entries = async () => (await admin.call('GET', `/audit?actor=${relayToken}`)).json.items;
  const named = async () =>
    ((await entries()) as { outcome: string; facts: { serviceAccount?: string } }[])
      .map(({ outcome, facts }) => [outcome, facts.serviceAccount])
      .toSorted();
  await expect.poll(named).toEqual([
    ['answered', json.id],
    ['rule: serviceAccount', undefined],
  ]);
  expect(JSON.stringify(await entries())).not.toContain('sa0123456789abcdef');
});

test('refuses to move an account to another app', async () => {
  const { id, version } = (await admin.call('POST', '/service-accounts', { name: 'Stays', app: 'platform', apiToken }))
    .json;
  const moved = await admin.call('PUT', `/service-accounts/${id}`, { name: 'Moved', app: 'second', version });
  expect([moved.status, moved.json.errors]).toMatchObject([400, [{ pointer: '#/app', rule: 'fixed' }]]);
  const named = await admin.call('PUT', `/service-accounts/${id}`, { name: 'Stays', app: 'platform', version });
  expect([named.status, named.json.app]).toEqual([200, 'platform']);
});

test('R81 refuses an account that is unknown or of another app by the rule that the policy test names', async () => {
  const { json } = await admin.call('POST', '/service-accounts', { name: 'Asked', app: 'platform', apiToken });
  const id = String(json.id);
  const registered = sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET, signIn: undefined });
  expect((await admin.call('POST', '/connected-apps', registered)).status).toBe(201);
  const { token: anyApp, id: relayToken } = await admin.createRelayToken({
    users: 'none',
    apps: ['platform', 'second'],
  });
  const question = { relayToken, scope: 'threads:read', address: '127.0.0.1' };
  for (const [account, app] of [
    ['sa0123456789abcdef', undefined],
    ['sa0123456789abcdef', 'platform'],
    [id, 'second'],
  ] as const) {
    const query = app === undefined ? '' : `?app=${app}`;
    const refused = await relayThread(site, anyApp, { 'gatehouse-service-account': account }, query);
    expect([refused.status, codeOf(refused)]).toEqual([404, 'not_found']);
    const { json: explained } = await admin.call('POST', '/policy/explain', {
      ...question,
      serviceAccount: account,
      app,
    });
    expect(explained).toMatchObject({
      allowed: false,
      rule: 'serviceAccount',
      detail: JSON.parse(refused.body).detail,
    });
  }
  const { json: explained } = await admin.call('POST', '/policy/explain', { ...question, serviceAccount: id });
  expect(explained).toMatchObject({ allowed: true });
  expect(explained).not.toHaveProperty('rule');
});

test('changes only the current version of an account, and refuses calls once it is deleted', async () => {
  const { json } = await admin.call('POST', '/service-accounts', { name: 'Old', app: 'platform', apiToken });
  const { id, version } = json as { id: string; version: number };
  const changed = await admin.call('PUT', `/service-accounts/${id}`, { name: 'New', version });
  expect([changed.status, changed.json.name]).toEqual([200, 'New']);
  const late = await admin.call('PUT', `/service-accounts/${id}`, { name: 'Late', version });
  expect([late.status, late.json.code]).toEqual([409, 'version_conflict']);
  const bad = { name: 'New', version: changed.json.version, apiToken: 'another-wrong-one' };
  expect((await admin.call('PUT', `/service-accounts/${id}`, bad)).status).toBe(400);
  expect((await relayThread(site, token, { 'gatehouse-service-account': id })).status).toBe(200);
  expect((await admin.call('DELETE', `/service-accounts/${id}`)).status).toBe(204);
  const afterDeletion = await relayThread(site, token, { 'gatehouse-service-account': id });
  expect([afterDeletion.status, codeOf(afterDeletion)]).toEqual([404, 'not_found']);
});

test('creates relay tokens and webhooks by form, and the pages show faults', async () => {
  const { csrfToken } = await sessionOf(site, administrator);
  const post = (path: string, form: [string, string][]) =>
    administrator.request(`${site.url}/admin/${path}`, {
      method: 'POST',
      headers: { accept: 'text/html' },
      body: new URLSearchParams([['_csrf', csrfToken], ...form]),
    });
  const scopes: [string, string][] = [
    ['scopes', 'threads:read'],
    ['scopes', 'bin:read'],
  ];
  const form: [string, string][] = [
    ['name', 'By form'],
    ...scopes,
    ['apps', 'platform'],
    ['users', 'all'],
    ['days', '30'],
  ];
  const created = await post('relay-tokens', form);
  expect([created.status, created.body]).toEqual([200, expect.stringMatching(/gthr_[0-9A-Za-z]{60}/)]);
  const faulty = await post('relay-tokens', [
    ['name', 'Faulty'],
    ['users', 'all'],
    ['days', '0'],
    ['networks', '10.0.0.1/8'],
  ]);
  expect([faulty.status, faulty.body]).toEqual([400, expect.stringContaining('write 10.0.0.0/8')]);
  expect(faulty.body).toContain('at least one scope');
  const { json } = await admin.call('GET', '/relay-tokens?q=By%20form');
  const [{ id }] = json.items as [{ id: string }];
  const rotated = await post(`relay-tokens/${id}/rotate`, [['overlapHours', '1']]);
  expect(rotated.body).toMatch(/gthr_[0-9A-Za-z]{60}/);
  const policyTest = await administrator.get(
    `${site.url}/admin/policy?token=${id}&scope=token:exchange&app=platform&address=10.0.0.1`,
  );
  expect(policyTest.body).toContain('<code>scopes</code>');
  expect(
    (
      await post('webhooks', [
        ['url', 'http://10.0.0.1/'],
        ['events', 'connection.created'],
      ])
    ).status,
  ).toBe(400);
  expect(
    (
      await post('webhooks', [
        ['url', `${site.url}/hook`],
        ['events', 'connection.created'],
      ])
    ).body,
  ).toContain('whsec_');
  expect((await post(`relay-tokens/${id}/revoke`, [])).status).toBe(200);
});

test('R89 limits the calls of a session per minute, and says when to retry', async () => {
  const { agent } = await signIn(site);
  const headers = { ...ACCEPT_JSON, cookie: agent.cookies.header(site.url) };
  let calls = 0;
  let response = await sendRequest(`${site.url}/threads/current`, { headers });
  // A new minute may begin during the loop.
  for (; response.status === 200 && calls < 100; calls += 1)
    response = await sendRequest(`${site.url}/threads/current`, { headers });
  expect([response.status, codeOf(response), response.headers['ratelimit-policy']]).toEqual([
    429,
    'rate_limited',
    '"session";q=40;w=60',
  ]);
  expect(Number(response.headers['retry-after'])).toBeGreaterThan(0);
  const bin = await sendRequest(`${site.url}/bin`, {
    method: 'POST',
    headers: { ...headers, ...FORM_BODY },
    body: 'bin=45717360',
  });
  expect(bin.status).toBe(429);
});
