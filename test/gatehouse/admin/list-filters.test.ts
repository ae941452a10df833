/** What the pages of lists do with a filter that they do not know, and without any record. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Page, UserAgent } from '../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';

let site: TestSite;
let storage: StorageAccess;
let agent: UserAgent;
let admin: Administrator;
let webhook: string;
const emptyPages = new Map<string, Page>();

const CREATABLE = ['relay-tokens', 'service-accounts', 'webhooks'];
const LISTS = [...CREATABLE, 'admin-tokens', 'users', 'sessions', 'connections', 'connected-apps', 'sign-ins', 'audit'];
const open = (path: string) => agent.get(`${site.url}/admin/${path}`);

beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  ({ agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?return_to=/admin' }));
  for (const path of CREATABLE) emptyPages.set(path, await open(path));
  admin = await createAdministrator(site, storage);
  await admin.createRelayToken();
  const body = { url: `${site.sandbox.platformUrl}/hook`, events: ['connection.created'] };
  webhook = String((await admin.call('POST', '/webhooks', body)).json.id);
  await admin.call('POST', `/webhooks/${webhook}/test`);
  const { accessToken } = await storage.readGrant((await sessionOf(site, agent)).userId);
  await admin.call('POST', '/service-accounts', { name: 'Batch', app: 'platform', apiToken: accessToken });
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});

test.each(CREATABLE)('%s without a record: one button and a guide', (path) => {
  const { body = '', forms = [] } = emptyPages.get(path) ?? {};
  expect(body.match(new RegExp(`href="/admin/${path}/new"`, 'g'))).toHaveLength(1);
  expect(body).toMatch(/<a href="\/docs\/[a-z-]+[^"]*">(About|How)/);
  expect(forms.filter(({ action }) => action.endsWith('/admin/search/list'))).toEqual([]);
  expect(body).not.toContain('format=csv');
  expect(body).not.toContain('class="lead"');
});

/** The selects and the dates in the form of a list. */
const filtersOn = ({ body }: Page) =>
  [...body.matchAll(/<(?:select|input type="date") id="filter-(\w+)"/g)].map(([, name = '']) => name);

test.each([...LISTS, 'webhook'])('%s: each filter refuses a value that it does not know', async (list) => {
  const path = list === 'webhook' ? `webhooks/${webhook}` : list;
  const filters = filtersOn(await open(path));
  if (!['users', 'sessions', 'connected-apps'].includes(list)) expect(filters).not.toEqual([]);
  for (const name of filters) {
    for (const value of ['nope', '2026-99-99']) {
      const { status, body } = await open(`${path}?${name}=${value}`);
      expect([name, status]).toEqual([name, 400]);
      expect(body).toMatch(new RegExp(`id="filter-${name}"[^>]* aria-invalid="true" autofocus aria-describedby=`));
      expect(body).toMatch(/id="filter-faults".*(There is no such|Choose an entry|Use a date)/s);
      expect(body).toMatch(new RegExp(`value="${value}"`));
      expect(body).not.toMatch(/<tbody|No [a-z ]+ match/);
      // Ids and causes may be those of something that is deleted, so the API and the export find none of them.
      if (name === 'app' || name === 'cause') continue;
      expect((await open(`${path}?${name}=${value}&format=csv`)).status).toBe(400);
      const api = list === 'webhook' ? `webhooks/${webhook}/messages` : list;
      expect((await admin.call('GET', `/${api}?${name}=${value}`)).status).toBe(400);
    }
  }
});

test.each(['sign-ins', 'audit'])('%s: a range that ends before it begins is refused', async (list) => {
  const query = `${list}?from=2026-11-22&to=2026-11-21`;
  const { status, body } = await open(query);
  expect(status).toBe(400);
  expect(body).toMatch(/id="filter-to"[^>]* aria-invalid="true"/);
  expect(body).toContain('To (UTC): The range ends before it begins.');
  expect((await open(`${query}&format=csv`)).status).toBe(400);
  const { status: apiStatus, json } = await admin.call('GET', `/${query}`);
  expect([apiStatus, json.errors]).toEqual([400, [expect.objectContaining({ pointer: '#/to' })]]);
  expect((await open(`${list}?from=2026-11-21&to=2026-11-21`)).status).toBe(200);
});

test.each(['sign-ins', 'audit'])('%s: a cursor of a longer list leads to nothing outside the range', async (list) => {
  const after = Buffer.from(JSON.stringify([Date.now() * 2, ''])).toString('base64url');
  expect((await admin.call('GET', `/${list}?after=${after}`)).json.items).not.toEqual([]);
  expect((await admin.call('GET', `/${list}?after=${after}&to=2026-01-01`)).json).toEqual({ items: [] });
});

test('a filter that is known and matches nothing is no fault', async () => {
  for (const query of ['connections?health=unverified', 'sign-ins?app=platform&period=hour&outcome=failed']) {
    const { status, body } = await open(query);
    expect([status, body.match(/No [a-z-]+ match/)]).toEqual([200, expect.anything()]);
  }
});

test('a timeline refuses a kind that it does not know', async () => {
  const { status, body } = await open('connected-apps/platform/activity?kind=nope');
  expect([status, body]).toEqual([400, expect.stringContaining('There is no such kind of event.')]);
});
