/** Service accounts: their API token is tried, sealed, used without a user, and never shown again. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { keys } from '../../../src/shared/storage/keys.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { CLIENT_SECRET, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_JSON, FORM_BODY, sendRequest } from '../../support/send-request.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, codeOf, createAdministrator, relayThread } from './service.ts';

const UNKNOWN_ACCOUNT = 'sa0123456789abcdef';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let adminBrowser: UserAgent;
/** The sandbox's platform accepts any access token as an API token. */
let apiToken: string;
let token: string;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 }, env: { RATE_LIMIT_PER_SESSION_PER_MINUTE: '40' } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent: adminBrowser } = await signIn(site, 'admin@example.test'));
  apiToken = (await storage.readGrant((await sessionOf(site, adminBrowser)).userId)).accessToken;
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

  const texts = [
    JSON.stringify(created.json),
    JSON.stringify((await admin.call('GET', `/service-accounts/${id}`)).json),
    JSON.stringify((await admin.call('GET', '/service-accounts')).json),
    JSON.stringify((await admin.call('GET', '/audit?limit=200')).json),
    (await adminBrowser.get(`${site.url}/admin/service-accounts`)).body,
    ...site.logs(),
  ];
  for await (const records of storage.store.walk()) texts.push(...records.map(({ value }) => value));
  expect(texts.filter((text) => text.includes(apiToken))).toEqual([]);
});

test('marks an API token that is older than 180 days until it is replaced', async () => {
  const created = await admin.call('POST', '/service-accounts', { name: 'Long ago', app: 'platform', apiToken });
  const id = String(created.json.id);
  const readPage = async () => (await adminBrowser.get(`${site.url}/admin/service-accounts`)).body;
  expect(await readPage()).not.toContain('</span>Old</span>');

  const key = keys.serviceAccount(id);
  const { sealer, store } = storage;
  const account = JSON.parse(await sealer.open((await store.get(key))?.value ?? '', key));
  account.tokenSetAt -= 190 * 86_400_000;
  await store.write([{ put: key, value: await sealer.seal(JSON.stringify(account), key) }]);
  expect(await readPage()).toContain('6 mo ago');
  expect(await readPage()).toContain('</span>Old</span>');

  const { version } = (await admin.call('GET', `/service-accounts/${id}`)).json;
  const replaced = await admin.call('PUT', `/service-accounts/${id}`, { name: 'Long ago', apiToken, version });
  expect(replaced.status).toBe(200);
  expect(await readPage()).not.toContain('</span>Old</span>');
});

test('does not store or show an API token that the platform refuses', async () => {
  const account = { name: 'Wrong', app: 'platform', apiToken: 'not-a-token-of-theirs' };
  const refused = await admin.call('POST', '/service-accounts', account);
  expect([refused.status, refused.json.errors]).toMatchObject([400, [{ pointer: '#/apiToken', rule: 'refused' }]]);
  const { csrfToken } = await sessionOf(site, adminBrowser);
  const page = await adminBrowser.request(`${site.url}/admin/service-accounts`, {
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
])('accepts or refuses a new API token by the status %i of the platform: rule %s', async (status, rule) => {
  const endFault = site.sandbox.faults.set({ listener: 'platform', kind: 'response', status, body: '' });
  const { status: createStatus, json } = await admin.call('POST', '/service-accounts', {
    name: 'Tried',
    app: 'platform',
    apiToken,
  });
  endFault();

  if (rule === undefined) {
    expect(createStatus).toBe(201);
    expect(json.name).toBe('Tried');
  } else {
    expect(createStatus).toBe(400);
    expect(json.errors).toMatchObject([{ pointer: '#/apiToken', rule }]);
  }
});

test('the pages show a refused API token next to its field, and ask for it again after another fault', async () => {
  const { id } = (await admin.call('POST', '/service-accounts', { name: 'Row', app: 'platform', apiToken })).json;
  const { csrfToken } = await sessionOf(site, adminBrowser);
  const send = (path: string, form: Record<string, string>) =>
    adminBrowser.request(`${site.url}/admin/service-accounts${path}`, {
      method: 'POST',
      headers: { accept: 'text/html' },
      body: new URLSearchParams({ _csrf: csrfToken, ...form }),
    });
  const { body } = await adminBrowser.get(`${site.url}/admin/service-accounts/${id}/replace`);
  const base = / name="base" value="([^"]+)"/.exec(body)?.[1] ?? '';
  const refused = await send(`/${id}/replace`, { apiToken: 'not-a-token-of-theirs', base });
  expect([refused.status, refused.body]).toEqual([400, expect.stringContaining('id="apiToken-fault"')]);
  expect(refused.body).toContain('Replace the API token of <bdi>Row</bdi>');
  expect(refused.body).not.toContain('not-a-token');
  const unnamed = await send('', { name: ' ', app: 'platform', apiToken: 'typed-but-not-sent-back' });
  expect([unnamed.status, unnamed.body]).toEqual([400, expect.stringContaining('Enter it again')]);
  expect(unnamed.body).not.toContain('typed-but-not-sent-back');
});

test('audits the service account of each call, but no unknown id', async () => {
  const { json } = await admin.call('POST', '/service-accounts', { name: 'Audited', app: 'platform', apiToken });
  const { token: auditedToken, id: tokenId } = await admin.createRelayToken({ users: 'none' });
  for (const account of [String(json.id), UNKNOWN_ACCOUNT]) {
    await relayThread(site, auditedToken, { 'gatehouse-service-account': account });
  }

  const readEntries = async () => {
    const { json: page } = await admin.call('GET', `/audit?actor=${tokenId}`);
    return page.items as { outcome: string; facts: { serviceAccount?: string } }[];
  };
  const readAccounts = async () =>
    (await readEntries()).map(({ outcome, facts }) => [outcome, facts.serviceAccount]).toSorted();
  await expect.poll(readAccounts).toEqual([
    ['refused', undefined],
    ['succeeded', json.id],
  ]);
  expect(JSON.stringify(await readEntries())).not.toContain(UNKNOWN_ACCOUNT);
});

test('refuses to move an account to another app', async () => {
  const created = await admin.call('POST', '/service-accounts', { name: 'Stays', app: 'platform', apiToken });
  const { id, version } = created.json;

  const withOtherApp = await admin.call('PUT', `/service-accounts/${id}`, { name: 'Moved', app: 'second', version });
  expect([withOtherApp.status, withOtherApp.json.errors]).toMatchObject([400, [{ pointer: '#/app', rule: 'fixed' }]]);

  const withSameApp = await admin.call('PUT', `/service-accounts/${id}`, { name: 'Stays', app: 'platform', version });
  expect([withSameApp.status, withSameApp.json.app]).toEqual([200, 'platform']);
});

test('R81 refuses an account that is unknown or of another app, and the policy test gives the same rule', async () => {
  const { json } = await admin.call('POST', '/service-accounts', { name: 'Asked', app: 'platform', apiToken });
  const id = String(json.id);
  const secondApp = sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET, signIn: undefined });
  expect((await admin.call('POST', '/connected-apps', secondApp)).status).toBe(201);
  const { token: tokenOfBothApps, id: relayToken } = await admin.createRelayToken({
    users: 'none',
    apps: ['platform', 'second'],
  });
  const call = { relayToken, scope: 'threads:read', address: '127.0.0.1' };
  for (const [account, app] of [
    [UNKNOWN_ACCOUNT, undefined],
    [UNKNOWN_ACCOUNT, 'platform'],
    [id, 'second'],
  ] as const) {
    const query = app === undefined ? '' : `?app=${app}`;
    const refused = await relayThread(site, tokenOfBothApps, { 'gatehouse-service-account': account }, query);
    expect([refused.status, codeOf(refused)]).toEqual([404, 'not_found']);

    const explainedCall = { ...call, serviceAccount: account, app };
    const { json: explanation } = await admin.call('POST', '/policy/explain', explainedCall);
    expect(explanation).toMatchObject({
      allowed: false,
      rule: 'serviceAccount',
      detail: JSON.parse(refused.body).detail,
    });
  }

  const { json: explanation } = await admin.call('POST', '/policy/explain', { ...call, serviceAccount: id });
  expect(explanation).toMatchObject({ allowed: true });
  expect(explanation).not.toHaveProperty('rule');
});

test('changes only the current version of an account, and refuses calls once it is deleted', async () => {
  const { json } = await admin.call('POST', '/service-accounts', { name: 'Old', app: 'platform', apiToken });
  const { id, version } = json as { id: string; version: number };
  const changed = await admin.call('PUT', `/service-accounts/${id}`, { name: 'New', version });
  expect([changed.status, changed.json.name]).toEqual([200, 'New']);
  const late = await admin.call('PUT', `/service-accounts/${id}`, { name: 'Late', version });
  expect([late.status, late.json.code]).toEqual([409, 'version_conflict']);
  const wrongToken = { name: 'New', version: changed.json.version, apiToken: 'not-a-token-of-theirs' };
  expect((await admin.call('PUT', `/service-accounts/${id}`, wrongToken)).status).toBe(400);

  expect((await relayThread(site, token, { 'gatehouse-service-account': id })).status).toBe(200);
  expect((await admin.call('DELETE', `/service-accounts/${id}`)).status).toBe(204);
  const afterDeletion = await relayThread(site, token, { 'gatehouse-service-account': id });
  expect([afterDeletion.status, codeOf(afterDeletion)]).toEqual([404, 'not_found']);
});

test('relay tokens and webhooks are created by form, and the pages show faults', async () => {
  const { csrfToken } = await sessionOf(site, adminBrowser);
  const submitForm = (path: string, form: [name: string, value: string][]) =>
    adminBrowser.request(`${site.url}/admin/${path}`, {
      method: 'POST',
      headers: { accept: 'text/html' },
      body: new URLSearchParams([['_csrf', csrfToken], ...form]),
    });
  const created = await submitForm('relay-tokens', [
    ['name', 'By form'],
    ['scopes', 'threads:read'],
    ['scopes', 'bin:read'],
    ['apps', 'platform'],
    ['users', 'all'],
    ['expiry', '30'],
  ]);
  expect([created.status, created.body]).toEqual([200, expect.stringMatching(/gthr_[0-9A-Za-z]{60}/)]);

  const faulty = await submitForm('relay-tokens', [
    ['name', 'Faulty'],
    ['users', 'all'],
    ['expiry', '0'],
    ['networks', '10.0.0.1/8'],
  ]);
  expect([faulty.status, faulty.body]).toEqual([400, expect.stringContaining('write 10.0.0.0/8')]);
  expect(faulty.body).toContain('at least one scope');

  const { json } = await admin.call('GET', '/relay-tokens?q=By%20form');
  const [{ id }] = json.items as [{ id: string }];
  const form = await adminBrowser.get(`${site.url}/admin/relay-tokens/${id}/rotate`);
  const rotated = await adminBrowser.submit(form, { overlapHours: '1' }, { button: 'Create new secret' });
  expect(rotated.body).toMatch(/gthr_[0-9A-Za-z]{60}/);
  const policyTest = await adminBrowser.get(
    `${site.url}/admin/policy?token=${id}&scope=token:exchange&app=platform&address=10.0.0.1`,
  );
  expect(policyTest.body).toContain('<code>scopes</code>');

  const createWebhook = (url: string) =>
    submitForm('webhooks', [
      ['url', url],
      ['events', 'connection.created'],
    ]);
  expect((await createWebhook('http://10.0.0.1/')).status).toBe(400);
  expect((await createWebhook(`${site.url}/hook`)).body).toContain('whsec_');

  expect((await submitForm(`relay-tokens/${id}/revoke`, [])).status).toBe(200);
});

test('R89 limits the calls of a session per minute, and says when to retry', async () => {
  const { agent } = await signIn(site);
  const headers = { ...ACCEPT_JSON, cookie: agent.cookies.header(site.url) };
  const readThread = () => sendRequest(`${site.url}/threads/current`, { headers });
  let response = await readThread();
  // A new minute, with a new limit, may begin during the loop.
  for (let calls = 1; response.status === 200 && calls <= 100; calls += 1) response = await readThread();
  expect([response.status, codeOf(response), response.headers['ratelimit-policy']]).toEqual([
    429,
    'rate_limited',
    '"session";q=40;w=60',
  ]);
  expect(Number(response.headers['retry-after'])).toBeGreaterThan(0);

  const binResponse = await sendRequest(`${site.url}/bin`, {
    method: 'POST',
    headers: { ...headers, ...FORM_BODY },
    body: 'bin=45717360',
  });
  expect(binResponse.status).toBe(429);
});
