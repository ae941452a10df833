/** The refusal of a form whose session has ended leads to the sign-in, and from there back to the page of the form. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sessionCookieName } from '../../../src/shared/sessions/browser-sessions.ts';
import { createUserAgent, type Page } from '../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site.close());

const signInLinkOn = ({ body }: Page) => /href="([^"]*\/sign-in[^"]*)"/.exec(body)?.[1]?.replaceAll('&amp;', '&');

async function signedOutAgent() {
  const { agent } = await signIn(site);
  agent.cookies.set(site.url, sessionCookieName(site.url), undefined);
  return agent;
}

test.each([
  ['/connections/platform/disconnect', '/connections/platform?return_to=%2Fsessions'],
  ['/connections/platform', '/connections/platform'],
  ['/sessions/Nobodys-session_/end', '/sessions'],
  ['/bin', '/bin'],
  ['/account/delete', '/account/delete'],
  ['/admin/keys/rotate-signing', '/admin/keys'],
])('the refusal of a POST to %s leads to the sign-in and back to %s', async (action, path) => {
  const agent = await signedOutAgent();
  const headers = { referer: site.url + path };
  const body = new URLSearchParams({ _csrf: 'of-the-ended-session', note: 'a text' });

  const page = await agent.request(site.url + action, { method: 'POST', body, headers });
  expect(page.status).toBe(401);

  const link = new URL(signInLinkOn(page) ?? '');
  expect([link.pathname, link.searchParams.get('return_to')]).toEqual(['/sign-in', path]);
  expect(link.search).not.toContain('text');

  const { page: returned } = await signIn(site, undefined, { agent, path: link.pathname + link.search });
  expect(new URL(returned.url).pathname).toBe(new URL(path, site.url).pathname);
});

test.each([
  ['of another site', 'https://evil.example/connections'],
  ['that is missing', undefined],
])('a referrer %s is not used', async (_case, referrer) => {
  const agent = await signedOutAgent();
  const headers = referrer === undefined ? {} : { referer: new URL(referrer, site.url).href };
  const page = await agent.request(`${site.url}/connections/platform`, { method: 'POST', body: 'a=b', headers });
  expect([page.status, signInLinkOn(page)]).toEqual([401, `${site.url}/sign-in`]);
});

test.each([
  '/connections/platform/disconnect',
  '/connections/platform/disconnect/?a=b',
  '/sign-out',
  '/admin/keys/rotate-signing',
])('a referrer whose path only takes forms is not used: %s', async (path) => {
  const agent = await signedOutAgent();
  const headers = { referer: site.url + path };
  const page = await agent.request(`${site.url}/connections/platform`, { method: 'POST', body: 'a=b', headers });
  expect([page.status, signInLinkOn(page)]).toEqual([401, `${site.url}/sign-in`]);
});

test('a referrer of another program on the host is used', async () => {
  const agent = await signedOutAgent();
  const headers = { referer: `${site.url}/board` };
  const page = await agent.request(`${site.url}/connections/platform`, { method: 'POST', body: 'a=b', headers });
  expect([page.status, signInLinkOn(page)]).toEqual([401, `${site.url}/sign-in?return_to=%2Fboard`]);
});

test('a program gets the address of the sign-in without a return path', async () => {
  const { json } = await getJson(createUserAgent(), `${site.url}/threads/current`);
  expect(json.connectUrl).toBe(`${site.url}/sign-in`);
});
