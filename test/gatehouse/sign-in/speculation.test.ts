/** R136: a page that a browser loads before its user opens it uses up, stores and displaces nothing. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createUserAgent, type UserAgent } from '../../support/browserless.ts';
import { ACCEPT_HTML, sendRequest } from '../../support/send-request.ts';
import { begin, callbackFor, csrfTokenOf, type HostileSite, isSignedIn, startHostileSite } from './attempt.ts';

let site: HostileSite;
beforeAll(async () => {
  site = await startHostileSite({
    app: { signIn: { allow: 'everyone' } },
    env: { ADMIN_APP: 'elsewhere', ADMIN_CLAIM: 'groups', ADMIN_VALUES: 'gatehouse-admins' },
  });
});
afterAll(() => site.close());

/** The headers that browsers send when they load a page before its user opens it. */
const SPECULATIVE: Record<string, string>[] = [
  { 'sec-purpose': 'prefetch' },
  { 'sec-purpose': 'prefetch;prerender' },
  { 'sec-purpose': 'prefetch;anonymous-client-ip' },
  { purpose: 'prefetch' },
  { 'x-moz': 'prefetch' },
];

const load = (url: string, headers: Record<string, string>, agent?: UserAgent) =>
  sendRequest(url, {
    headers: { ...ACCEPT_HTML, ...headers, ...(agent && { cookie: agent.cookies.header(site.url) }) },
  });

test.each(SPECULATIVE)(
  'R136 %o: a start is refused, sets no cookie, and displaces no pending request',
  async (headers) => {
    const { agent, location } = await begin(site, { path: '/sign-in' });
    for (const path of ['/sign-in', '/sign-in?app=elsewhere&step_up=1', '/sign-in?prompt=login&return_to=/sessions'])
      for (let n = 0; n < 4; n += 1) {
        const response = await load(site.url + path, headers, agent);
        expect([response.status, response.headers['set-cookie']]).toEqual([503, undefined]);
        expect(response.headers['cache-control']).toBe('no-store');
      }

    await agent.get((await callbackFor(location)).href);
    expect(await isSignedIn(site, agent)).toBe(true);
  },
);

test.each(SPECULATIVE)('R136 %o: a callback is refused, and the navigation after it signs in', async (headers) => {
  site.provider.reset();
  const { agent, location } = await begin(site, { path: '/sign-in?return_to=/sessions' });
  const callback = await callbackFor(location);
  expect(await load(callback.href, headers, agent)).toMatchObject({ status: 503 });
  expect(site.provider.hitsOf('token')).toEqual([]);

  const page = await agent.get(callback.href, { follow: false });
  expect([page.status, page.headers.get('location')]).toEqual([303, '/sessions']);
  expect(await isSignedIn(site, agent)).toBe(true);
});

test('R136 a page can be loaded ahead, but one with a notice that is shown once is refused and keeps the notice', async () => {
  site.provider.signInAs({ sub: 'ada', groups: ['gatehouse-admins'] } as never);
  const agent = createUserAgent();
  await agent.get(`${site.url}/sign-in`);
  const headers = { 'sec-purpose': 'prefetch;prerender' };
  expect(await load(`${site.url}/connections/elsewhere`, headers, agent)).toMatchObject({ status: 200 });
  const body = new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) });
  const disconnected = await agent.request(`${site.url}/connections/elsewhere/disconnect`, {
    method: 'POST',
    body,
    follow: false,
  });

  const pageWithNotice = disconnected.headers.get('location') ?? '';
  expect(await load(pageWithNotice, headers, agent)).toMatchObject({ status: 503 });
  expect((await agent.get(pageWithNotice)).body).toContain('role="');
});

test('R136 an export that is loaded ahead is refused', async () => {
  site.provider.signInAs({ sub: 'ada', groups: ['gatehouse-admins'] } as never);
  const agent = createUserAgent();
  await agent.get(`${site.url}/sign-in?return_to=/admin`);
  const exportUrl = `${site.url}/admin/users?format=csv`;
  expect(await load(exportUrl, {}, agent)).toMatchObject({ status: 200 });
  expect(await load(exportUrl, { 'sec-purpose': 'prefetch' }, agent)).toMatchObject({ status: 503 });
});
