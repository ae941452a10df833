/** "Try it": a declared route is opened with the administrator's own connection. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UserAgent } from '../../../support/browserless.ts';
import { sandboxApp, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';

const ROUTES = [
  { name: 'thread', method: 'GET', path: '/1/threads/{id}' },
  { name: 'threads', method: 'GET', path: '/1/threads', query: ['limit', 'cursor'] },
  { name: 'message', method: 'POST', path: '/1/threads/{id}/messages' },
];

let site: TestSite;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite({ apps: (running) => [sandboxApp(running, 'platform', { routes: ROUTES })] });
  ({ agent } = await signIn(site, 'admin@example.test'));
});
afterAll(() => site?.close());

const pathOf = (route: string) => `/admin/connected-apps/platform/routes/${route}`;
const open = (route: string) => agent.get(site.url + pathOf(route));

async function submit(route: string, fields: Record<string, string>) {
  const page = await open(route);
  const form = page.forms.find(({ action }) => action.endsWith(pathOf(route)));
  if (!form) throw new Error(`No form on ${page.url}`);
  const body = new URLSearchParams([...form.fields.filter(([name]) => name === '_csrf'), ...Object.entries(fields)]);
  return agent.request(site.url + pathOf(route), {
    method: 'POST',
    body,
    headers: { origin: site.url },
    follow: false,
  });
}

test('the page of an app leads to each of its routes with GET', async () => {
  const { body } = await agent.get(`${site.url}/admin/connected-apps/platform`);
  const links = [...body.matchAll(/href="[^"]*\/routes\/([^"]+)"/g)].map(([, name]) => name);
  expect(links).toEqual(['current-thread', 'thread', 'threads']);
});

test('the form opens the call with the connection of the administrator', async () => {
  const { status, headers } = await submit('threads', { query: '1' });
  expect([status, headers.get('location')]).toEqual([303, '/api/platform/1/threads?limit=1']);
  const response = await agent.get(`${site.url}${headers.get('location')}`);
  expect([response.status, JSON.parse(response.body)]).toEqual([
    200,
    expect.objectContaining({ threads: expect.any(Array) }),
  ]);
  const current = await submit('current-thread', {});
  expect(current.headers.get('location')).toBe('/api/platform/1/threads/current');
});

test.each([
  ['A B?#&=ü', '/api/platform/1/threads/A%20B%3F%23%26%3D%C3%BC'],
  ['@x:y', '/api/platform/1/threads/%40x%3Ay'],
])('the value %j is one segment of the path', async (parameter, location) => {
  expect((await submit('thread', { parameter })).headers.get('location')).toBe(location);
});

test.each([
  ['', 'Enter a value for id.'],
  ['../users', 'No route has such a path'],
  ['..', 'No route has such a path'],
  ['a/b', 'No route has such a path'],
  ['a;b', 'No route has such a path'],
])('R74 the value %j is refused beside its field, and no call is made', async (parameter, advice) => {
  const { status, headers } = await submit('thread', { parameter });
  expect(status).toBe(303);
  const page = await agent.get(new URL(headers.get('location') ?? '', site.url).href);
  expect([page.status, page.url]).toEqual([400, expect.stringContaining(pathOf('thread'))]);
  expect(page.body).toContain(advice);
  expect(page.body).toMatch(/id="parameter-0"[^>]*\s+aria-invalid="true"/);
});

test.each(['message', 'unknown', '__proto__'])('there is no page for the route %s', async (route) => {
  expect((await open(route)).status).toBe(404);
});
