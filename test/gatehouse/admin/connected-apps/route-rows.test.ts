/** Routes in the form of a connected app: added, changed and removed without a script, and checked while typing. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { withoutEmptyRows } from '../../../../src/gatehouse/admin/connected-apps/route-rows.ts';
import type { Page, UserAgent } from '../../../support/browserless.ts';
import { APP_DEFAULTS, CLIENT_SECRET, getJson, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { openStorageOf, type StorageAccess } from '../../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../../relay/service.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent } = await signIn(site, 'admin@example.test'));
  const { status } = await admin.call('POST', '/connected-apps', {
    ...{ id: 'second', name: 'Second', issuer: site.sandbox.issuer, clientId: 'c', clientSecret: CLIENT_SECRET },
    ...{ scopes: ['openid', 'threads'], apiBaseUrl: site.sandbox.platformUrl },
    callbackUrls: [`${site.url}/oauth/callback/second`],
  });
  expect(status).toBe(201);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

const open = () => agent.get(`${site.url}/admin/connected-apps/second/settings`);

type Row = [name: string, method: string, path: string, query: string, scopes: string];

/** Sends the form with these rows, and with the other fields as they are. */
async function save(page: Page, rows: readonly Row[], fields: Record<string, string> = {}, removed: number[] = []) {
  const form = page.forms.find(({ names }) => names.includes('issuer'));
  if (!form) throw new Error(`No form on ${page.url}`);
  const body = new URLSearchParams(form.fields.filter(([name]) => !name.startsWith('route') && !(name in fields)));
  for (const [name, value] of Object.entries(fields)) body.append(name, value);
  for (const row of rows) {
    for (const [column, value] of row.entries()) {
      body.append(['routeName', 'routeMethod', 'routePath', 'routeQuery', 'routeScopes'][column] ?? '', value);
    }
  }
  for (const position of removed) body.append('routeRemoved', String(position));
  body.set('do', 'save');
  return agent.request(new URL(form.action, page.url).href, { method: 'POST', body, headers: { origin: site.url } });
}

const routes = async () =>
  (await getJson(agent, `${site.url}/admin/api/connected-apps/second`)).json.routes as Record<string, unknown>[];
const faultOf = ({ body }: Page, field: string) =>
  new RegExp(`id="${field}-fault">.*?</span><span>(.*?)</span>`, 's').exec(body)?.[1]?.trim();

const EMPTY: Row = ['', 'GET', '', '', ''];
const THREAD: Row = ['thread', 'GET', '/1/threads/{id}', 'fields  page', 'threads'];
const MESSAGE: Row = ['message', 'POST', '/1/threads/{id}/messages', '', ''];

describe('without a script', () => {
  test('a route is added, changed and removed, and stands on the page beside that of the current thread', async () => {
    const added = await save(await open(), [EMPTY, THREAD, EMPTY, MESSAGE]);
    expect([added.status, added.body]).toEqual([200, expect.stringContaining('Saved.')]);
    expect(await routes()).toEqual([
      { name: 'thread', method: 'GET', path: '/1/threads/{id}', query: ['fields', 'page'], scopes: ['threads'] },
      { name: 'message', method: 'POST', path: '/1/threads/{id}/messages', query: [], scopes: [] },
    ]);
    const { body } = await agent.get(`${site.url}/admin/connected-apps/second`);
    expect(body).toMatch(/<dt>current-thread<\/dt>\s*<dd>\s*<code>GET \/1\/threads\/current<\/code>/);
    expect(body).toMatch(/<dt>thread<\/dt>\s*<dd>\s*<code>GET \/1\/threads\/\{id\}<\/code>/);

    // The form returns what it shows.
    expect((await save(added, [THREAD, MESSAGE, EMPTY])).body).toContain('Saved.');
    const renamed = await save(await open(), [THREAD, ['write', 'PUT', '/1/threads/{id}/messages', '', ''], EMPTY]);
    expect(renamed.body).toContain('Saved.');
    expect((await routes()).map(({ name, method }) => `${method} ${name}`)).toEqual(['GET thread', 'PUT write']);

    const removed = await save(await open(), [THREAD, ['write', 'PUT', '/x', '', ''], EMPTY], {}, [0]);
    expect(removed.body).toContain('Saved.');
    expect((await routes()).map(({ name }) => name)).toEqual(['write']);
    const trail = await getJson(agent, `${site.url}/admin/api/audit?event=connected_app.changed&target=second`);
    const [latest, earlier] = (trail.json.items as { facts: object }[]).map(({ facts }) => facts);
    expect(latest).toEqual({ changed: ['routes'], routesChanged: ['write'], routesRemoved: ['thread'] });
    expect(earlier).toEqual({ changed: ['routes'], routesAdded: ['write'], routesRemoved: ['message'] });
    expect((await save(await open(), [EMPTY, EMPTY])).body).toContain('Saved.');
    expect(await routes()).toEqual([]);
  });

  test.each<[string, Row[], string, RegExp]>([
    ['no name', [['', 'GET', '/a', '', '']], 'routeName-0', /A name is 1 to 40/],
    ['a reserved name', [['current-thread', 'GET', '/a', '', '']], 'routeName-0', /is the name of the route/],
    [
      'a name that comes twice',
      [THREAD, ['thread', 'GET', '/a', '', '']],
      'routeName-1',
      /another route with the name/,
    ],
    ['no method', [['a', 'TRACE', '/a', '', '']], 'routeMethod-0', /./],
    ['no pattern', [['a', 'GET', '', '', '']], 'routePath-0', /Enter a path such as/],
    ['a traversal', [EMPTY, ['a', 'GET', '/a/../b', '', '']], 'routePath-0', /Enter a path such as/],
    ['a partial parameter', [THREAD, EMPTY, ['a', 'GET', '/a-{id}', '', '']], 'routePath-1', /Enter a path such as/],
    [
      'an ambiguous pattern',
      [THREAD, ['a', 'GET', '/1/threads/{x}', '', '']],
      'routePath-1',
      /The route &quot;thread&quot; matches/,
    ],
    [
      'the current thread',
      [['a', 'GET', '/1/threads/current', '', '']],
      'routePath-0',
      /&quot;current-thread&quot; matches/,
    ],
    ['a query parameter that is none', [['a', 'GET', '/a', 'a&b', '']], 'routeQuery-0', /A name of a parameter/],
    [
      'a scope that the app lacks',
      [['a', 'GET', '/a', '', 'mail']],
      'routeScopes-0',
      /The route &quot;a&quot; needs &quot;mail&quot;/,
    ],
  ])('%s is refused beside its field, and the rows stay', async (_what, rows, field, words) => {
    const page = await save(await open(), rows);
    expect(page.status).toBe(400);
    expect(faultOf(page, field)).toMatch(words);
    expect(page.body).toContain(`<li><a href="#${field}">`);
    expect(page.body.match(/ autofocus/g)).toHaveLength(1);
    const fields = page.forms.find(({ names }) => names.includes('issuer'))?.fields ?? [];
    const names = fields.filter(([name]) => name === 'routeName').map(([, value]) => value);
    const entered = rows.filter((row) => row !== EMPTY).map(([name]) => name);
    expect(names).toEqual([...entered, '', '']);
    expect(await routes()).toEqual([]);
  });

  test('too many routes are refused', async () => {
    const rows = Array.from({ length: 21 }, (_, index): Row => [`r${index}`, 'GET', `/r${index}`, '', '']);
    const page = await save(await open(), rows);
    expect([page.status, page.body]).toEqual([400, expect.stringContaining('<li><a href="#routeName">')]);
  });

  test('a scope that a route names cannot be removed, in the form and in the API', async () => {
    expect((await save(await open(), [THREAD])).status).toBe(200);
    const page = await save(await open(), [THREAD, EMPTY], { scope: 'openid' });
    expect([page.status, faultOf(page, 'routeScopes-0')]).toEqual([
      400,
      expect.stringContaining('The route &quot;thread&quot; needs &quot;threads&quot;'),
    ]);
    const { json } = await getJson(agent, `${site.url}/admin/api/connected-apps/second`);
    const { id, name, issuer, clientId, callbackUrls, apiBaseUrl, routes: declared, version } = json;
    const fields = { ...APP_DEFAULTS, id, name, issuer, clientId, callbackUrls, apiBaseUrl, routes: declared, version };
    const refused = await admin.call('PUT', '/connected-apps/second', { ...fields, scopes: ['openid'] });
    expect([refused.status, refused.json.errors]).toEqual([
      400,
      [{ pointer: '#/routes/0/scopes', rule: 'unknown_scope', detail: expect.stringContaining('The route "thread"') }],
    ]);
    expect((await save(await open(), [THREAD, EMPTY], { scope: 'openid' }, [0])).body).toContain('Saved.');
  });
});

test('the wizard takes routes, and keeps them while the form goes back', async () => {
  const start = await agent.get(`${site.url}/admin/register-app`);
  const form = (page: Page) => page.forms.find(({ names }) => names.includes('issuer'));
  const send = (page: Page, button: string, extra: [string, string][]) => {
    const replaced = new Set(extra.map(([name]) => name));
    const kept = form(page)?.fields.filter(([name]) => !replaced.has(name)) ?? [];
    const body = new URLSearchParams([...kept, ...extra, ['do', button]]);
    const url = new URL(form(page)?.action ?? '', page.url).href;
    return agent.request(url, { method: 'POST', body, headers: { origin: site.url } });
  };
  const second = await send(start, 'read_provider', [
    ['id', 'third'],
    ['name', 'Third'],
    ['issuer', site.sandbox.issuer],
  ]);
  const route: [string, string][] = [
    ['routeName', 'list'],
    ['routeMethod', 'GET'],
    ['routePath', '/1/threads'],
    ['routeQuery', 'limit cursor'],
    ['routeScopes', 'openid'],
  ];
  const back = await send(second, 'back', route);
  const again = await send(back, 'read_provider', []);
  expect(form(again)?.fields).toEqual(expect.arrayContaining(route));
  const done = await send(again, 'save', [
    ['clientId', 'c'],
    ['clientSecret', CLIENT_SECRET],
    ['apiBaseUrl', site.sandbox.platformUrl],
  ]);
  expect(done.status).toBe(200);
  const { json } = await getJson(agent, `${site.url}/admin/api/connected-apps/third`);
  expect(json.routes).toEqual([
    { name: 'list', method: 'GET', path: '/1/threads', query: ['limit', 'cursor'], scopes: ['openid'] },
  ]);
});

describe('the check while typing', () => {
  const check = async (paths: string[], threadPath?: string) => {
    const typed = paths.map((path, index) => ({ name: index === 0 ? '' : `r${index}`, method: 'GET', path }));
    const { status, json } = await admin.call('POST', '/route-patterns', { routes: typed, threadPath });
    expect(status).toBe(200);
    return json.faults as { position: number; detail: string }[];
  };

  test('accepts patterns before the routes have names', async () => {
    expect(await check(['/1/threads/{id}', '/1/threads', '/1/threads/drafts'])).toEqual([]);
  });

  test.each([
    'a',
    '/',
    '//',
    '/a/',
    '/a//b',
    '/..',
    '/%2e',
    '/a?b',
    '/a#b',
    '/{}',
    '/{a}{b}',
    '/x{a}',
    '/{a}/{a}',
    `/${'x'.repeat(200)}`,
  ])('says what is wrong with %s in the words of the form', async (path) => {
    const [fault] = await check(['/fine', path]);
    expect(fault?.position).toBe(1);
    const page = await save(await open(), [
      ['fine', 'GET', '/fine', '', ''],
      ['bad', 'GET', path, '', ''],
    ]);
    expect(faultOf(page, 'routePath-1')?.replaceAll('&quot;', '"')).toBe(fault?.detail);
  });

  test('finds patterns that match the same calls, also the path of the current thread', async () => {
    expect(await check(['/me', '/1/{x}', '/1/{y}'])).toEqual([
      { position: 2, detail: expect.stringContaining('"r1"') },
    ]);
    expect(await check(['/me'], '/me')).toEqual([{ position: 0, detail: expect.stringContaining('"current-thread"') }]);
  });
});

test('rows without text and rows to remove are left out, also if columns are shorter than others', () => {
  const values = {
    ...{ routeName: ['', 'a', 'b', ' '], routeMethod: ['GET', 'PUT'], routePath: ['', '/a', '/b'] },
    ...{ routeQuery: [], routeScopes: ['', '', '', '', 'late'], routeRemoved: ['1', '77', 'x'] },
  };
  expect(withoutEmptyRows(values)).toEqual({
    ...{ routeName: ['b', ''], routeMethod: ['', ''], routePath: ['/b', ''] },
    ...{ routeQuery: ['', ''], routeScopes: ['', 'late'], routeRemoved: [] },
  });
});
