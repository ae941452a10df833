/** The search of the administration: each kind of record, without secrets in URLs. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createRecordStore } from '../../../../src/gatehouse/sign-in-record/record-store.ts';
import type { UserAgent } from '../../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { withoutRandomTexts } from '../../../support/random-texts.ts';
import { FORM_BODY, sendRequest } from '../../../support/send-request.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../../relay/service.ts';

interface SearchResult {
  q: string;
  groups: { kind: string; items: { id: string; name: string; exact: boolean; path: string }[]; more: boolean }[];
}

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
let user: { userId: string };
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent } = await signIn(site, 'admin@example.test'));
  user = await sessionOf(site, (await signIn(site, 'user@example.test')).agent);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

async function search(q: string): Promise<SearchResult> {
  const { status, json } = await admin.call('GET', `/search?q=${encodeURIComponent(q)}`);
  expect(status).toBe(200);
  return json as unknown as SearchResult;
}

/** Submits the search form of the header, and returns the resulting page, with the URLs that led to it. */
async function searchByForm(text: string): Promise<{ path: string; body: string; urls: string[] }> {
  const { csrfToken } = await sessionOf(site, agent);
  const headers = { ...FORM_BODY, cookie: agent.cookies.header(site.url), origin: site.url };
  const body = new URLSearchParams({ _csrf: csrfToken, search: text }).toString();
  const redirect = await sendRequest(`${site.url}/admin/search`, { method: 'POST', headers, body });
  expect(redirect.status).toBe(303);

  const location = String(redirect.headers.location);
  const page = await agent.get(new URL(location, site.url).href);
  return { path: page.url.replace(site.url, ''), body: page.body, urls: [location, page.url] };
}

/** The groups of a search that finds exactly this item. */
const exactly = (kind: string, item: Record<string, unknown>) => [
  { kind, items: [expect.objectContaining({ exact: true, ...item })], more: false },
];

test('finds a user by address, id, and the beginning of the name', async () => {
  const path = `/admin/users/${user.userId}`;
  for (const q of ['user@example.test', 'USER@example.test', user.userId]) {
    expect((await search(q)).groups).toEqual(exactly('user', { id: user.userId, path }));
    expect((await searchByForm(q)).path).toBe(path);
  }
  const byBeginning = await search(user.userId.slice(0, 8));
  expect(byBeginning.groups).toMatchObject([{ kind: 'user', items: [{ id: user.userId, exact: false }] }]);
  expect((await searchByForm(user.userId.slice(0, 8))).path).toBe(path);
});

test('finds a connection and a session by id', async () => {
  const path = `/admin/users/${user.userId}`;
  const { id } = await storage.readGrant(user.userId);
  for (const q of [id, `${user.userId}.platform`]) {
    const found = { id, name: 'Collaboration platform', path: `/admin/connections/${id}` };
    expect((await search(q)).groups).toEqual(exactly('connection', found));
    expect((await searchByForm(q)).path).toBe(found.path);
  }
  const { json } = await admin.call('GET', `/sessions?user=${user.userId}`);
  const [session] = json.items as { id: string }[];
  expect((await search(String(session?.id))).groups).toEqual(exactly('session', { id: session?.id, path }));
  expect((await searchByForm(String(session?.id))).path).toBe(path);
});

test('finds a connected app by id and name', async () => {
  const path = '/admin/connected-apps/platform';
  expect((await search('Collaboration Platform')).groups).toEqual(exactly('connected_app', { id: 'platform', path }));
  expect((await searchByForm('Collaboration platform')).path).toBe(path);
});

test('finds a sign-in or another error by the reference of the error page or the request id', async () => {
  const { json } = await admin.call('GET', '/sign-ins?q=user@example.test');
  const [record] = json.items as { id: string; references: string[] }[];
  const id = String(record?.id);
  expect((await search(String(record?.references.at(-1)))).groups).toEqual(exactly('sign_in', { id }));
  expect((await searchByForm(id)).path).toBe(`/admin/sign-ins/${id}`);

  const notFoundPage = await agent.get(`${site.url}/admin/relay-tokens/none`);
  const requestId = String(notFoundPage.headers.get('x-request-id'));
  const reference = requestId.slice(-8);
  for (const q of [reference, requestId]) {
    const [group] = (await search(q)).groups;
    expect(group).toMatchObject({ kind: 'sign_in', items: [{ id: reference, exact: true }] });
  }
  expect((await searchByForm(reference)).body).toContain(reference);
});

test('finds the sign-ins of an address that no user has', async () => {
  const records = createRecordStore({ store: storage.store, clock: Date.now });
  const email = 'refused@example.test';
  await records.add(undefined, { reference: '0a1b2c3d', email, presumed: true, endedAt: Date.now(), steps: [] });
  const [group, ...others] = (await search(email)).groups;
  expect([group, others]).toMatchObject([{ kind: 'sign_in', items: [{ id: '0a1b2c3d', exact: false }] }, []]);
  expect((await searchByForm(email)).path).toBe('/admin/sign-ins/0a1b2c3d');
});

test('finds an audit entry by its id and by its request id', async () => {
  const { json } = await admin.call('GET', '/audit?event=sign_in.succeeded&limit=1');
  const [entry] = json.items as { id: string; at: string; requestId: string; actor: { name: string } }[];
  const { groups } = await search(String(entry?.id));
  const hits = groups.find(({ kind }) => kind === 'audit_entry');
  const detail = expect.stringContaining(String(entry?.actor.name));
  expect(hits?.items).toMatchObject([{ id: entry?.id, name: 'Signed in', detail, exact: true }]);
  const page = await agent.get(`${site.url}${hits?.items[0]?.path}`);
  expect(page.body).toContain(entry?.requestId.slice(0, 8) ?? '');
  const refused = await sendRequest(`${site.url}/admin/api/users`, { headers: { authorization: 'Bearer gtha_wrong' } });
  const requestId = String(refused.headers['x-request-id']);
  await expect
    .poll(async () => (await search(requestId)).groups)
    .toMatchObject([{ kind: 'audit_entry', items: [{ name: 'Administration refused', exact: true }] }]);
});

test('finds what administrators create by id, name, and token prefix', async () => {
  const relayToken = await admin.createRelayToken({ name: 'report-builder' });
  const expiresAt = new Date(Date.now() + 86_400_000).toISOString();
  const { json: adminToken } = await admin.call('POST', '/admin-tokens', {
    name: 'dash-board',
    scope: 'read',
    expiresAt,
  });
  const url = `${site.sandbox.platformUrl}/billing-hook`;
  const { json: webhook } = await admin.call('POST', '/webhooks', { url, events: ['connection.created'] });
  const { accessToken: apiToken } = await storage.readGrant(user.userId);
  const body = { name: 'nightly-sync', app: 'platform', apiToken };
  const { json: account } = await admin.call('POST', '/service-accounts', body);
  const cases: [kind: string, id: unknown, name: string, path: string, furtherTexts: unknown[]][] = [
    [
      'relay_token',
      relayToken.id,
      'report-builder',
      `/admin/relay-tokens/${relayToken.id}`,
      [`gthr_${relayToken.id}`, relayToken.token],
    ],
    [
      'admin_token',
      adminToken.id,
      'dash-board',
      `/admin/admin-tokens?q=${adminToken.id}`,
      [`gtha_${adminToken.id}`, adminToken.token],
    ],
    ['webhook', webhook.id, url, `/admin/webhooks/${webhook.id}`, []],
    ['service_account', account.id, 'nightly-sync', `/admin/service-accounts?q=${account.id}`, []],
  ];
  for (const [kind, id, name, path, furtherTexts] of cases) {
    for (const q of [id, name, ...furtherTexts]) {
      expect((await search(String(q))).groups).toEqual(exactly(kind, { id, name, path }));
      expect((await searchByForm(String(q))).path).toBe(path);
    }
    expect((await search(name.slice(-6))).groups).toMatchObject([{ kind, items: [{ id, exact: false }] }]);
  }
});

test('finds a webhook by its URL, without its secret in a URL or the audit trail', async () => {
  const secret = 'T0A1B2C3/B0A1B2C3/0123456789abcdefghijABCD';
  const url = `${site.sandbox.platformUrl}/slack/${secret}`;
  const { json: webhook } = await admin.call('POST', '/webhooks', { url, events: ['connection.created'] });
  const { path, urls } = await searchByForm(url);
  expect(path).toBe(`/admin/webhooks/${webhook.id}`);
  expect((await search(url)).groups).toMatchObject([{ kind: 'webhook', items: [{ id: webhook.id }] }]);

  const list = await agent.submit(await agent.get(`${site.url}/admin/webhooks`), { q: url });
  expect(list.body).toContain(`href="/admin/webhooks/${webhook.id}"`);
  const csv = await agent.follow(list, 'CSV');
  expect(csv.body).toContain(`"${webhook.id}"`);
  const { json } = await admin.call('GET', '/audit?event=list.exported&limit=1');
  expect(json.items).toMatchObject([{ facts: { q: `${site.sandbox.platformUrl}/slack` } }]);
  for (const text of [...urls, ...list.visited, csv.url, JSON.stringify(json), ...site.logs()])
    expect(text).not.toContain(secret);
});

test('finds a page of the administration by its name, if nothing else has that name', async () => {
  expect((await search('bin data')).groups).toEqual(
    exactly('page', { id: 'bin', name: 'BIN data', path: '/admin/bin' }),
  );
  expect((await searchByForm('BIN data')).path).toBe('/admin/bin');
  for (const words of ['Docs', 'api reference']) expect((await searchByForm(words)).path).toBe('/docs');
  await admin.createRelayToken({ name: 'calls webhooks' });
  expect((await searchByForm('webhooks')).path).toBe('/admin/webhooks');
  await admin.createRelayToken({ name: 'Webhooks' });
  expect((await searchByForm('webhooks')).path).toBe('/admin/search?q=webhooks');
});

test('a pasted token or card number appears in no URL, page or log', async () => {
  const { token } = await admin.createRelayToken({ name: 'pasted' });
  await admin.createRelayToken({ name: 'pasted as well' });
  // A token is a prefix of 5 characters, its id of 11, and its secret.
  const [prefix, id, secret] = [token.slice(0, 5), token.slice(5, 16), token.slice(16)];

  const known = await searchByForm(`Authorization: Bearer ${token}`);
  expect(known.path).toBe(`/admin/relay-tokens/${id}`);
  const unknown = await searchByForm(`${prefix}${'0'.repeat(11)}${secret}`);
  expect(unknown.body).toContain('No results.');
  const result = await search(token);
  expect(result.q).toBe(`${prefix}${id}`);
  // A link on another site can have the token in its URL.
  const linked = await agent.get(`${site.url}/admin/search?q=${token}`);
  const card = await searchByForm('4111 1111 1111 1111');

  const pages = [known.body, unknown.body, JSON.stringify(result), linked.body];
  const urls = [...known.urls, ...unknown.urls, linked.url];
  for (const text of [...pages, ...urls, ...site.logs()]) expect(text).not.toContain(secret);
  expect(withoutRandomTexts([...card.urls, card.body].join('\n'))).not.toMatch(/4111/);
});

test('shows at most five hits of a kind, with a link to the list', async () => {
  for (let number = 0; number < 7; number += 1) await admin.createRelayToken({ name: `many-${number}` });

  const { groups } = await search('many-');
  expect(groups).toMatchObject([{ kind: 'relay_token', more: true }]);
  expect(groups[0]?.items).toHaveLength(5);
  const { path, body } = await searchByForm('many-');
  expect(path).toBe('/admin/search?q=many-');
  expect(body).toContain('href="/admin/relay-tokens?q=many-"');
});

test('responds to searches without hits, without text, and by other users', async () => {
  expect(await search('no such thing')).toEqual({ q: 'no such thing', groups: [] });
  const { body } = await searchByForm('no such thing');
  expect(body).toContain('No results.');
  expect(body).toContain('href="/admin/audit?q=no%20such%20thing"');
  expect((await searchByForm('   ')).path).toBe('/admin/search?q=');
  expect(await search('')).toEqual({ q: '', groups: [] });

  const { agent: userAgent } = await signIn(site, 'user@example.test');
  expect((await getJson(userAgent, `${site.url}/admin/api/search?q=x`)).status).toBe(403);
  expect((await userAgent.get(`${site.url}/admin/search?q=x`)).status).toBe(403);
  expect((await sendRequest(`${site.url}/admin/api/search?q=x`)).status).toBe(401);
});
