/** Declared routes in a browser and as a service: parameters, paging, a write, a conditional request, and consent. */
import { readFileSync, writeFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { bearer, createAdministrator } from '../gatehouse/relay/service.ts';
import { useBrowser } from '../support/browser.ts';
import { openSharedStorage } from '../support/fleet.ts';
import { completeProviderSignIn, jsonOf, navigateBy } from '../support/journey.ts';
import { JSON_BODY, type ReceivedResponse, sendRequest } from '../support/send-request.ts';
import { codeBlock, FRONT_ENDS, startFrontEnd } from './documented-front-end.ts';

const READ = 'platform_read_only';
const FULL = 'platform_full_access';
const SCOPES = ['openid', 'profile', 'email', 'offline_access', READ];
const READS = [
  { name: 'threads', method: 'GET', path: '/1/threads', query: ['limit', 'cursor'], scopes: [READ] },
  { name: 'thread', method: 'GET', path: '/1/threads/{id}', scopes: [READ] },
];
const MESSAGE = { name: 'message', method: 'POST', path: '/1/threads/{id}/messages', scopes: [FULL] };
const READ_ONLY = { scopes: SCOPES, routes: READS };
const READ_AND_WRITE = { scopes: [...SCOPES, FULL], routes: [...READS, MESSAGE] };
const MIB = 1024 * 1024;
const API = '/api/platform';

// The browser reports each refused call, and 304, as a resource that failed to load.
const REFUSED = /Failed to load resource: the server responded with a status of (304|4\d\d)/;
const openPage = useBrowser();

interface PageResponse {
  status: number;
  link: string | null;
  etag: string | null;
  // biome-ignore lint/suspicious/noExplicitAny: JSON of the platform
  body: any;
}

/** A page of the site. Its scripts are those of the document, and one that shows the status and headers of a call. */
const BOARD = `<!doctype html><title>Board</title><p id="state"></p><script type="module">
import * as gatehouse from './gatehouse.js';
const send = async (url, options) => {
  const response = await fetch(url, options);
  const text = await response.text();
  const [link, etag] = ['link', 'etag'].map((name) => response.headers.get(name));
  return { status: response.status, link, etag, body: text && JSON.parse(text) };
};
const sendChange = async (url, body, headers = { 'Content-Type': 'application/json' }, method = 'POST') => {
  const { csrfToken } = await gatehouse.callGatehouse('/session');
  return send(url, { method, headers: { 'X-CSRF-Token': csrfToken, ...headers }, body });
};
Object.assign(globalThis, gatehouse, { send, sendChange, isLoaded: true });
</script>`;

/** Starts a site whose page is signed in. */
async function openBoard(app: Record<string, unknown>) {
  const files = { 'public/board.html': BOARD, 'public/gatehouse.js': codeBlock('js gatehouse.js') };
  const { site, url } = await startFrontEnd(FRONT_ENDS.express, files, app);
  const page = await openPage({}, REFUSED);
  await page.goto(`${url}/gatehouse/sign-in?return_to=/board.html`);
  await completeProviderSignIn(page, { url });
  await isLoaded(page);
  const run = <Result = PageResponse>(code: string) => page.evaluate(code) as Promise<Result>;
  const get = (path: string, headers: Record<string, string> = {}) =>
    run(`send(${JSON.stringify(`/gatehouse${API}${path}`)}, { headers: ${JSON.stringify(headers)} })`);
  return { site, url, page, run, get };
}

type ServiceResponse = ReceivedResponse & { json: PageResponse['body'] };

/** Creates a service with a relay token. @returns the function that makes its calls for the user of the page */
async function createService({ site, page }: Awaited<ReturnType<typeof openBoard>>, routes: string | string[]) {
  const storage = await openSharedStorage(site.env);
  onTestFinished(() => storage.store.close());
  const { user } = await jsonOf(page, `${site.env.PUBLIC_URL}/session`);
  const admin = await createAdministrator({ url: site.env.PUBLIC_URL ?? '' }, storage);
  const { token } = await admin.createRelayToken({ scopes: ['api:call'], routes, assertUser: true });
  return async (method: string, target: string, headers = {}, body?: string): Promise<ServiceResponse> => {
    const response = await sendRequest(new URL(target, `${site.env.PUBLIC_URL}/`).href, {
      method,
      headers: { ...bearer(token), 'gatehouse-user': user.id, ...headers },
      ...(body === undefined ? {} : { body }),
    });
    return { ...response, json: response.body === '' ? undefined : JSON.parse(response.body) };
  };
}

const isLoaded = (page: Page) => page.waitForFunction('globalThis.isLoaded');

const linksOf = ({ link }: Pick<PageResponse, 'link'>): Record<string, string> =>
  Object.fromEntries([...(link ?? '').matchAll(/<([^>]+)>; *rel="(\w+)"/g)].map(([, target, rel]) => [rel, target]));

/** A message whose body has exactly this many bytes. */
function bodyOf(bytes: number): string {
  const empty = '{"text":"Long","padding":""}';
  return `${empty.slice(0, -2)}${'x'.repeat(bytes - empty.length)}"}`;
}

const TITLES = ['Spring launch: plan and open questions', 'Settlement report: run times', 'Launch team'];

test('R142 R144 a page reads with parameters, pages by Link, reads on a condition, and writes', async () => {
  const { site, url, run, get } = await openBoard(READ_AND_WRITE);
  const pagesFrom = async (page: PageResponse): Promise<PageResponse[]> => {
    const { next } = linksOf(page);
    if (next === undefined) return [page];
    expect(new URL(next, `${url}/board.html`).href).toContain(`${url}/gatehouse${API}/1/threads?`);
    return [page, ...(await pagesFrom(await run(`send(${JSON.stringify(next)})`)))];
  };
  const first = await get('/1/threads?limit=1');
  const pages = await pagesFrom(first);
  expect(pages.map(({ status, body }) => [status, body.threads.length, body.threads[0].title])).toEqual(
    TITLES.map((title) => [200, 1, title]),
  );
  const { prev } = linksOf(pages[1] ?? first);
  expect((await run(`send(${JSON.stringify(prev)})`)).body).toEqual(first.body);

  const { id } = first.body.threads[0];
  const thread = await get(`/1/threads/${id}`);
  expect(thread.body.html).toContain('Where we are');
  const unchanged = { 'If-None-Match': thread.etag ?? '' };
  expect(await get(`/1/threads/${id}`, unchanged)).toMatchObject({ status: 304, body: '' });

  const path = `${API}/1/threads/${id}/messages`;
  const sent = await run<PageResponse['body']>(`postToGatehouse('${path}', { text: 'A <message>' })`);
  expect(sent).toMatchObject({ thread_id: id, text: 'A <message>', author: { name: 'Uma Okafor' } });
  const changed = await get(`/1/threads/${id}`, unchanged);
  expect([changed.status, changed.body.html.endsWith('A &lt;message&gt;</p>')]).toEqual([200, true]);

  const messages = JSON.stringify(`/gatehouse${path}`);
  expect(await run(`sendChange(${messages}, ${JSON.stringify(bodyOf(MIB))})`)).toMatchObject({ status: 201 });
  site.sandbox.requests.reset();
  const tooLong = await run(`sendChange(${messages}, ${JSON.stringify(bodyOf(MIB + 1))})`);
  expect([tooLong.status, tooLong.body.code]).toEqual([413, 'too_large']);
  const forged = await run(
    `send(${messages}, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"text":"x"}' })`,
  );
  expect([forged.status, forged.body.code]).toEqual([403, 'csrf_failed']);
  expect(site.sandbox.requests.latest('platform')).toEqual([]);
});

test('R74 a page is refused everything else, with the reason, and without a call to the platform', async () => {
  const { site, run } = await openBoard(READ_AND_WRITE);
  const json = { 'Content-Type': 'application/json' };
  const refusals: [method: string, path: string, headers: Record<string, string>, status: number, detail: RegExp][] = [
    ['GET', '/1/threads/recent/all', {}, 404, /no route/],
    ['GET', '/1/users/current', {}, 404, /no route/],
    ['GET', '/1/threads/..%2Fusers', {}, 404, /segment/],
    ['DELETE', '/1/threads/THREAD1', {}, 405, /Allowed here: GET, HEAD/],
    ['POST', '/1/threads', json, 405, /Allowed here: GET, HEAD/],
    ['GET', '/1/threads?sort=title', {}, 400, /limit, cursor/],
    ['GET', '/1/threads?limit=1&limit=2', {}, 400, /once/],
    ['GET', '/1/threads/THREAD1?access_token=x', {}, 400, /no parameters/],
    ['POST', '/1/threads/THREAD1/messages', { 'Content-Type': 'text/plain' }, 415, /JSON/],
  ];
  site.sandbox.requests.reset();
  for (const [method, path, headers, status, detail] of refusals) {
    const body = headers['Content-Type'] === undefined ? 'undefined' : `'{"text":"x"}'`;
    const refused = await run(
      `sendChange('/gatehouse${API}${path}', ${body}, ${JSON.stringify(headers)}, '${method}')`,
    );
    expect([method, path, refused.status, refused.body.detail]).toEqual([
      method,
      path,
      status,
      expect.stringMatching(detail),
    ]);
  }
  expect(site.sandbox.requests.latest('platform')).toEqual([]);
});

test('R143 a missing scope leads to the consent, and back to the page, which then writes', async () => {
  const board = await openBoard(READ_ONLY);
  const { site, page, run, get } = board;
  const { id } = (await get('/1/threads')).body.threads[0];
  const write = `postToGatehouse('${API}/1/threads/${id}/messages', { text: 'Allowed' })`;
  expect(await run<unknown>(`${write}.catch(({ status, code }) => ({ status, code }))`)).toEqual({
    status: 404,
    code: 'not_found',
  });

  // An administrator declares the route, with a scope that the user has not been asked for.
  const file = site.env.CONNECTED_APPS_FILE ?? '';
  const apps = JSON.parse(readFileSync(file, 'utf8')) as object[];
  writeFileSync(file, JSON.stringify(apps.map((app) => ({ ...app, ...READ_AND_WRITE }))));
  await site.reload();
  site.sandbox.requests.reset();
  const refused = await run<{ status: number; code: string; connectUrl: string }>(
    `${write}.catch(({ status, code, connectUrl }) => ({ status, code, connectUrl }))`,
  );
  expect(refused).toMatchObject({ status: 403, code: 'scopes_missing' });
  const callAsService = await createService(board, ['message']);
  const writeAsService = () => callAsService('POST', `relay${API}/1/threads/${id}/messages`, JSON_BODY, '{"text":"x"}');
  const refusedAsService = await writeAsService();
  expect([refusedAsService.status, refusedAsService.json]).toEqual([
    403,
    expect.objectContaining({
      code: 'scopes_missing',
      connectUrl: `${site.env.PUBLIC_URL}/connections/platform?scope=${FULL}`,
    }),
  ]);
  expect(site.sandbox.requests.latest('platform')).toEqual([]);

  await page.goto(refused.connectUrl);
  await navigateBy(page, () => page.getByRole('button', { name: 'Add permissions' }).click());
  expect(await page.locator('main').innerText()).toContain('Create documents and messages');
  await navigateBy(page, () => page.getByRole('button', { name: 'Allow' }).click());
  await isLoaded(page);
  expect(new URL(page.url()).pathname).toBe('/board.html');
  expect(await run<unknown>(write)).toMatchObject({ text: 'Allowed' });
  expect((await writeAsService()).status).toBe(201);
});

test('R142 R144 a service reads with parameters, pages by Link, reads on a condition, and writes', async () => {
  const board = await openBoard(READ_AND_WRITE);
  const call = await createService(board, ['threads', 'thread', 'message']);
  const first = await call('GET', `relay${API}/1/threads?limit=2`);
  const { next = '' } = linksOf({ link: String(first.headers.link) });
  const second = await call('GET', next);
  const titlesOf = ({ json }: ServiceResponse) => json.threads.map(({ title }: { title: string }) => title);
  expect([titlesOf(first), titlesOf(second)]).toEqual([TITLES.slice(0, 2), TITLES.slice(2)]);

  const path = `relay${API}/1/threads/${first.json.threads[0].id}`;
  const unchanged = { 'if-none-match': String((await call('GET', path)).headers.etag) };
  expect((await call('GET', path, unchanged)).status).toBe(304);
  expect((await call('POST', `${path}/messages`, JSON_BODY, '{"text":"From a service"}')).status).toBe(201);
  expect((await call('GET', path, unchanged)).json.html).toContain('From a service');
  expect((await call('POST', `${path}/messages`, JSON_BODY, bodyOf(MIB))).status).toBe(201);
  expect((await call('POST', `${path}/messages`, JSON_BODY, bodyOf(MIB + 1))).status).toBe(413);

  const reader = await createService(board, 'reads');
  expect((await reader('GET', path)).status).toBe(200);
  const refused = await reader('POST', `${path}/messages`, JSON_BODY, '{"text":"x"}');
  expect([refused.status, refused.json.code]).toEqual([403, 'insufficient_scope']);
});
