/** Lists of the administration search all items, not only the current page. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { withCheckDigit } from '../../support/bins.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator, PERMISSIVE_POLICY } from '../relay/service.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
let apiToken: string;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent } = await signIn(site, 'admin@example.test'));
  // The sandbox's platform takes any access token as an API token.
  apiToken = (await storage.readGrant((await sessionOf(site, agent)).userId)).accessToken;
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

/** The lists, and the body of a request that creates an item with this name. */
const LISTS: [path: string, bodyOf: (name: string) => Record<string, unknown>][] = [
  ['relay-tokens', (name) => ({ ...PERMISSIVE_POLICY, name })],
  ['admin-tokens', (name) => ({ name, scope: 'read', expiresAt: new Date(Date.now() + 86_400_000).toISOString() })],
  ['service-accounts', (name) => ({ name, app: 'platform', apiToken })],
  ['webhooks', (name) => ({ url: `${site.sandbox.platformUrl}/${name}`, events: ['connection.created'] })],
];

test.each(LISTS)('%s: a search finds items that are older than a whole page of others', async (path, bodyOf) => {
  const needles = ['needle-1', 'needle-2', 'needle-3'];
  const hay = Array.from({ length: 52 }, (_, number) => `hay-${number}`);
  for (const name of [...needles, ...hay]) {
    expect((await admin.call('POST', `/${path}`, bodyOf(name))).status).toBe(201);
  }

  const found: unknown[] = [];
  let next = '';
  do {
    const { json } = await admin.call('GET', `/${path}?q=NEEDLE&limit=2${next}`);
    expect(json.items).not.toEqual([]);
    found.push(...(json.items as { name?: string; url?: string }[]).map(({ name, url }) => name ?? url));
    next = json.next === undefined ? '' : `&after=${encodeURIComponent(String(json.next))}`;
  } while (next !== '');
  const newestFirst = needles.toReversed();
  expect(found).toEqual(newestFirst.map((name) => expect.stringContaining(name)));
  expect((await admin.call('GET', `/${path}?q=straw`)).json).toEqual({ items: [] });

  const page = await agent.get(`${site.url}/admin/${path}?q=needle-1`);
  expect([page.body.includes('needle-1'), /rel="next"/.test(page.body)]).toEqual([true, false]);
  expect((await agent.get(`${site.url}/admin/${path}?q=straw`)).body).toMatch(/No [a-z ]+ match/);
});

test('the policy page offers every relay token', async () => {
  const { json } = await admin.call('GET', '/relay-tokens?limit=200');
  // A page of the list has at most 200.
  const missingCount = 201 - (json.items as unknown[]).length;
  for (let number = 0; number < missingCount; number += 1) await admin.createRelayToken({ name: `more-${number}` });

  expect((await agent.get(`${site.url}/admin/policy`)).body).toContain('>needle-1</option>');
});

test('a token pasted into the search of a list is in no URL, and is found by its first characters', async () => {
  const { json } = await admin.call('POST', '/relay-tokens', { ...PERMISSIVE_POLICY, name: 'pasted' });
  const token = String(json.token);
  const secret = token.slice(16);
  const card = withCheckDigit('400012345678901');
  for (const path of [
    ...['users', 'sessions', 'connections', 'connected-apps', 'relay-tokens', 'connect-links', 'service-accounts'],
    ...['webhooks', 'admin-tokens', 'sign-ins', 'audit'],
  ]) {
    // A list without a record has a search only if it was searched.
    const page = await agent.get(`${site.url}/admin/${path}?q=x`);
    for (const [typed, searched] of [
      [` Bearer ${token}`, token.slice(0, 16)],
      [`card ${card}`, 'card [digits removed]'],
    ] as const) {
      const found = await agent.submit(page, { q: typed });
      expect([found.status, found.url]).toEqual([
        200,
        `${site.url}/admin/${path}?${new URLSearchParams({ q: searched })}`,
      ]);
      for (const text of [...found.visited, found.body]) {
        expect(text).not.toContain(secret);
        expect(text).not.toContain(card);
      }
      expect(found.body).toContain(`value="${searched}"`);
      if (path === 'relay-tokens') expect(found.body.includes('>pasted<')).toBe(typed.includes(token));
    }
  }
});

test('a search keeps the other filters in the address, and redirects only to lists of the administration', async () => {
  const page = await agent.get(`${site.url}/admin/relay-tokens`);
  const filtered = await agent.submit(page, { q: 'needle', state: 'active' });
  expect(filtered.url).toBe(`${site.url}/admin/relay-tokens?q=needle&state=active`);
  const form = page.forms.find(({ action }) => action.endsWith('/admin/search/list'));
  const fields = new URLSearchParams([...(form?.fields ?? []), ['q', 'x']]);
  for (const list of ['https://elsewhere.test/admin/users', '//elsewhere.test/admin/users', '/connections', '']) {
    fields.set('list', list);
    const refused = await agent.request(`${site.url}${form?.action}`, { method: 'POST', body: fields, follow: false });
    expect([list, refused.status]).toEqual([list, 400]);
  }
});

test('a token in the address is in no link of the page', async () => {
  const { json } = await admin.call('POST', '/relay-tokens', { ...PERMISSIVE_POLICY, name: 'in a link' });
  const token = String(json.token);
  const page = await agent.get(`${site.url}/admin/relay-tokens?q=${token}`);
  expect([page.status, page.body.includes('in a link'), page.body.includes(token.slice(16))]).toEqual([
    200,
    true,
    false,
  ]);
});
