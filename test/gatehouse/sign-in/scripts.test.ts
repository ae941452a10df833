/** Operations that lead to another origin, called by a script of a page: the response has the address as JSON. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import {
  ACCEPT_HTML,
  ACCEPT_JSON,
  FORM_BODY,
  JSON_BODY,
  type ReceivedResponse,
  sendRequest,
} from '../../support/send-request.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';

let site: TestSite;
let desk: StorageAccess;
let administrator: Administrator;
beforeAll(async () => {
  site = await startSite({
    env: { ADMIN_APP: 'platform' },
    apps: (urls) => [
      sandboxApp(urls, 'platform', { returnUrls: ['https://front.example/back'] }),
      sandboxApp(urls, 'second'),
    ],
  });
  desk = await openStorageOf(site);
  administrator = await createAdministrator(site, desk);
});
afterAll(async () => {
  await desk?.close();
  await site?.close();
});

interface Person {
  cookie: string;
  csrfToken: string;
  userId: string;
}

async function signedIn(login?: string): Promise<Person> {
  const { agent } = await signIn(site, login, { path: '/sign-in?app=platform' });
  return { ...(await sessionOf(site, agent)), cookie: agent.cookies.header(site.url) };
}

/** What `fetch` sends unless the page sets another `Accept`. */
const ANYTHING = { accept: '*/*' };
const accepts = [
  ['JSON', ACCEPT_JSON],
  ['anything, as fetch does by default', ANYTHING],
] as const;

const post = ({ cookie, csrfToken }: Person, path: string, headers: Record<string, string>, body?: object) =>
  sendRequest(site.url + path, {
    method: 'POST',
    headers: { cookie, 'x-csrf-token': csrfToken, ...(body && JSON_BODY), ...headers },
    ...(body && { body: JSON.stringify(body) }),
  });

/** Expects a response that a script can read, and returns its address. */
function locationOf({ status, headers, body }: ReceivedResponse): URL {
  expect([status, headers['content-type'], headers.location]).toEqual([
    200,
    'application/json; charset=utf-8',
    undefined,
  ]);
  const { location, ...rest } = JSON.parse(body);
  expect(rest).toEqual({});
  return new URL(location);
}

async function linkFor({ userId }: Person): Promise<string> {
  const { token } = await administrator.createRelayToken({ assertUser: true });
  const created = await sendRequest(`${site.url}/relay/connect-links`, {
    method: 'POST',
    headers: { ...ACCEPT_JSON, ...JSON_BODY, authorization: `Bearer ${token}` },
    body: JSON.stringify({ user: userId, app: 'platform' }),
  });
  return new URL(JSON.parse(created.body).url).pathname;
}

describe.each(accepts)('a script that accepts %s gets the address', (_name, headers) => {
  test('of the authorization endpoint, when it connects an app', async () => {
    const person = await signedIn();
    const fields = { return_to: 'https://front.example/back', scope: 'openid profile', prompt: 'login' };
    const address = locationOf(await post(person, '/connections/platform', headers, fields));
    expect(address.origin).toBe(site.sandbox.issuer);
    expect(address.searchParams.get('scope')).toBe('openid profile');
    expect(address.searchParams.get('prompt')).toBe('login');
    // The address works in the window that has the cookie.
    const callback = await sendRequest(address.href);
    expect(new URL(callback.headers.location ?? '', address).origin).toBe(site.sandbox.issuer);
  });

  test('of the authorization endpoint, when it connects an app by a connect link', async () => {
    const person = await signedIn();
    const address = locationOf(await post(person, await linkFor(person), headers, { ui_locales: 'de' }));
    expect([address.origin, address.searchParams.get('ui_locales')]).toEqual([site.sandbox.issuer, 'de']);
  });

  test('of the authorization endpoint, when an administrator tries an app', async () => {
    const person = await signedIn('admin@example.test');
    const address = locationOf(await post(person, '/admin/connected-apps/platform/try', headers));
    expect(address.origin).toBe(site.sandbox.issuer);
  });

  test('of the end-session endpoint, when the user signs out, and the session has ended', async () => {
    for (const path of ['/sign-out', '/sign-out/everywhere']) {
      const person = await signedIn();
      const response = await post(person, path, headers);
      const address = locationOf(response);
      expect([address.origin, address.pathname]).toEqual([site.sandbox.issuer, '/sign-out']);
      expect(response.headers['set-cookie']).toContainEqual(expect.stringMatching(/^gatehouse\.\d+=;/));
      const session = await sendRequest(`${site.url}/session`, { headers: { cookie: person.cookie } });
      expect(JSON.parse(session.body)).toEqual({ signedIn: false });
    }
  });

  test('of the sign-in, when the user signs out to use another account', async () => {
    const address = locationOf(await post(await signedIn(), '/sign-out?return_to=%2Fboard%3Fview%3D7', headers));
    expect(address.href).toBe(`${site.url}/sign-in?prompt=select_account&return_to=%2Fboard%3Fview%3D7`);
  });

  test('of the start page, when there is no session to end', async () => {
    const nobody = { cookie: '', csrfToken: '', userId: '' };
    for (const path of ['/sign-out', '/sign-out/everywhere'])
      expect(locationOf(await post(nobody, path, headers)).href).toBe(`${site.url}/`);
  });
});

test('a script that accepts JSON gets the address of a sign-in, and the cookie for its callback', async () => {
  const response = await sendRequest(`${site.url}/sign-in?app=platform&return_to=%2Fboard`, { headers: ACCEPT_JSON });
  const address = locationOf(response);
  expect([address.origin, address.searchParams.get('redirect_uri')]).toEqual([
    site.sandbox.issuer,
    `${site.url}/oauth/callback/platform`,
  ]);
  expect(response.headers['set-cookie']).toHaveLength(1);
});

test('a script that names no app gets the address of the page that lets the user choose one', async () => {
  const address = async (query: string) =>
    locationOf(await sendRequest(`${site.url}/sign-in${query}`, { headers: ACCEPT_JSON })).href;
  expect(await address('')).toBe(`${site.url}/sign-in`);
  expect(await address('?return_to=%2Fboard%3Fview%3D7')).toBe(`${site.url}/sign-in?return_to=%2Fboard%3Fview%3D7`);
  // R86: a card number is not repeated.
  expect(await address('?return_to=%2F4571736000000000')).toBe(`${site.url}/sign-in`);
});

test('a browser is redirected', async () => {
  const person = await signedIn();
  const form = { ...ACCEPT_HTML, ...FORM_BODY };
  const link = await linkFor(person);
  const starts = [
    await sendRequest(`${site.url}/sign-in?app=platform`, { headers: ACCEPT_HTML }),
    // A program such as curl accepts anything.
    await sendRequest(`${site.url}/sign-in?app=platform`, { headers: ANYTHING }),
    await post(person, '/connections/platform', form),
    await post(person, link, form),
    await post(person, '/sign-out', form),
  ];
  for (const { status, headers, body } of starts) {
    expect([status, new URL(headers.location ?? '').origin, body]).toEqual([303, site.sandbox.issuer, '']);
  }
});

test('a refusal is a problem document with its code, and not an address', async () => {
  const nobody = { cookie: '', csrfToken: '', userId: '' };
  for (const path of ['/connections/platform', '/connect/gthl_unknown', '/admin/connected-apps/platform/try']) {
    const { status, body } = await post(nobody, path, ACCEPT_JSON);
    expect([status, JSON.parse(body).code]).toEqual([401, 'sign_in_required']);
  }
  const person = await signedIn();
  const withoutToken = await post({ ...person, csrfToken: '' }, '/sign-out', ACCEPT_JSON);
  expect([withoutToken.status, JSON.parse(withoutToken.body).code]).toEqual([403, 'csrf_failed']);
  const misspelt = await post(person, '/connections/platform', ACCEPT_JSON, { returnTo: '/board' });
  expect([misspelt.status, JSON.parse(misspelt.body).code]).toEqual([400, 'invalid_request']);
  const unknown = await post(person, '/connections/none', ACCEPT_JSON);
  expect([unknown.status, JSON.parse(unknown.body).code]).toEqual([404, 'not_found']);
});

test('every documented operation that redirects a browser has a response for scripts, too', async () => {
  const { paths } = JSON.parse((await sendRequest(`${site.url}/openapi.json`)).body) as {
    paths: Record<string, Record<string, { responses: Record<string, { content?: object }> }>>;
  };
  const redirectOnly = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations)
      .filter(([, { responses }]) => '303' in responses && !('application/json' in (responses[200]?.content ?? {})))
      .map(([method]) => `${method} ${path}`),
  );
  // Only the provider leads to the callback.
  expect(redirectOnly).toEqual(['get /oauth/callback/{app}']);
});
