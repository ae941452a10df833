/** Operations that redirect a browser to another origin return the address as JSON if a script of a page calls them. */
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
let storage: StorageAccess;
let administrator: Administrator;
beforeAll(async () => {
  site = await startSite({
    env: { ADMIN_APP: 'platform' },
    apps: (urls) => [
      sandboxApp(urls, 'platform', { returnUrls: ['https://front.example/back'] }),
      sandboxApp(urls, 'second'),
    ],
  });
  storage = await openStorageOf(site);
  administrator = await createAdministrator(site, storage);
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});

interface SignedInUser {
  cookie: string;
  csrfToken: string;
  userId: string;
}

const SIGNED_OUT: SignedInUser = { cookie: '', csrfToken: '', userId: '' };

async function signInAs(login?: string): Promise<SignedInUser> {
  const { agent } = await signIn(site, login, { path: '/sign-in?app=platform' });
  return { ...(await sessionOf(site, agent)), cookie: agent.cookies.header(site.url) };
}

/** What `fetch` sends unless the page sets another `Accept`. */
const ANYTHING = { accept: '*/*' };
const accepts = [
  ['JSON', ACCEPT_JSON],
  ['anything, as fetch does by default', ANYTHING],
] as const;

const post = ({ cookie, csrfToken }: SignedInUser, path: string, headers: Record<string, string>, body?: object) =>
  sendRequest(site.url + path, {
    method: 'POST',
    headers: { cookie, 'x-csrf-token': csrfToken, ...(body && JSON_BODY), ...headers },
    ...(body && { body: JSON.stringify(body) }),
  });

/** Expects a response that a script can read, and returns its address. */
function expectAddress({ status, headers, body }: ReceivedResponse): URL {
  expect([status, headers['content-type']]).toEqual([200, 'application/json; charset=utf-8']);
  expect(headers.location).toBeUndefined();
  const { location, ...otherMembers } = JSON.parse(body);
  expect(otherMembers).toEqual({});
  return new URL(location);
}

async function createLinkFor({ userId }: SignedInUser): Promise<string> {
  const { token } = await administrator.createRelayToken({ assertUser: true });
  const created = await sendRequest(`${site.url}/relay/connect-links`, {
    method: 'POST',
    headers: { ...ACCEPT_JSON, ...JSON_BODY, authorization: `Bearer ${token}` },
    body: JSON.stringify({ userId, app: 'platform' }),
  });
  return new URL(JSON.parse(created.body).url).pathname;
}

describe.each(accepts)('a script that accepts %s gets the address', (_name, headers) => {
  test('of the authorization endpoint, when it connects an app', async () => {
    const user = await signInAs();
    const fields = { return_to: 'https://front.example/back', scope: 'openid profile', prompt: 'login' };
    const address = expectAddress(await post(user, '/connections/platform', headers, fields));
    expect(address.origin).toBe(site.sandbox.issuer);
    expect(address.searchParams.get('scope')).toBe('openid profile');
    expect(address.searchParams.get('prompt')).toBe('login');

    // The provider accepts the request, and redirects within its own origin.
    const redirect = await sendRequest(address.href);
    expect(new URL(redirect.headers.location ?? '', address).origin).toBe(site.sandbox.issuer);
  });

  test('of the authorization endpoint, when it connects an app by a connect link', async () => {
    const user = await signInAs();
    const address = expectAddress(await post(user, await createLinkFor(user), headers, { ui_locales: 'de' }));
    expect([address.origin, address.searchParams.get('ui_locales')]).toEqual([site.sandbox.issuer, 'de']);
  });

  test('of the authorization endpoint, when an administrator tries an app', async () => {
    const user = await signInAs('admin@example.test');
    const address = expectAddress(await post(user, '/admin/connected-apps/platform/try', headers));
    expect(address.origin).toBe(site.sandbox.issuer);
  });

  test('of the end-session endpoint, when the user signs out, and the session has ended', async () => {
    for (const path of ['/sign-out', '/sign-out/everywhere']) {
      const user = await signInAs();
      const response = await post(user, path, headers);
      const address = expectAddress(response);
      expect([address.origin, address.pathname]).toEqual([site.sandbox.issuer, '/sign-out']);
      expect(response.headers['set-cookie']).toContainEqual(expect.stringMatching(/^gatehouse\.\d+=;/));
      const session = await sendRequest(`${site.url}/session`, { headers: { cookie: user.cookie } });
      expect(JSON.parse(session.body)).toEqual({ signedIn: false });
    }
  });

  test('of the sign-in, when the user signs out to use another account', async () => {
    const address = expectAddress(await post(await signInAs(), '/sign-out?return_to=%2Fboard%3Fview%3D7', headers));
    expect(address.href).toBe(`${site.url}/sign-in?prompt=select_account&return_to=%2Fboard%3Fview%3D7`);
  });

  test('of the start page, when there is no session to end', async () => {
    for (const path of ['/sign-out', '/sign-out/everywhere'])
      expect(expectAddress(await post(SIGNED_OUT, path, headers)).href).toBe(`${site.url}/`);
  });
});

test('a script that accepts JSON gets the address of a sign-in, and the cookie for its callback', async () => {
  const response = await sendRequest(`${site.url}/sign-in?app=platform&return_to=%2Fboard`, { headers: ACCEPT_JSON });
  const address = expectAddress(response);
  expect([address.origin, address.searchParams.get('redirect_uri')]).toEqual([
    site.sandbox.issuer,
    `${site.url}/oauth/callback/platform`,
  ]);
  expect(response.headers['set-cookie']).toHaveLength(1);
});

test('a script that names no app gets the address of the page that lets the user choose one', async () => {
  const readAddress = async (query: string) => {
    const response = await sendRequest(`${site.url}/sign-in${query}`, { headers: ACCEPT_JSON });
    return expectAddress(response).href;
  };

  expect(await readAddress('')).toBe(`${site.url}/sign-in`);
  expect(await readAddress('?return_to=%2Fboard%3Fview%3D7')).toBe(`${site.url}/sign-in?return_to=%2Fboard%3Fview%3D7`);
  // R86: a card number is not repeated.
  expect(await readAddress('?return_to=%2F4571736000000000')).toBe(`${site.url}/sign-in`);
});

test('a browser is redirected', async () => {
  const user = await signInAs();
  const form = { ...ACCEPT_HTML, ...FORM_BODY };
  const link = await createLinkFor(user);

  const responses = [
    await sendRequest(`${site.url}/sign-in?app=platform`, { headers: ACCEPT_HTML }),
    // A program such as curl sends this, too.
    await sendRequest(`${site.url}/sign-in?app=platform`, { headers: ANYTHING }),
    await post(user, '/connections/platform', form),
    await post(user, link, form),
    await post(user, '/sign-out', form),
  ];
  for (const { status, headers, body } of responses) {
    expect([status, new URL(headers.location ?? '').origin, body]).toEqual([303, site.sandbox.issuer, '']);
  }
});

test('a refusal is a problem document with its code, and not an address', async () => {
  for (const path of ['/connections/platform', '/connect/gthl_unknown', '/admin/connected-apps/platform/try']) {
    const { status, body } = await post(SIGNED_OUT, path, ACCEPT_JSON);
    expect([status, JSON.parse(body).code]).toEqual([401, 'sign_in_required']);
  }
  const user = await signInAs();
  const withoutToken = await post({ ...user, csrfToken: '' }, '/sign-out', ACCEPT_JSON);
  expect([withoutToken.status, JSON.parse(withoutToken.body).code]).toEqual([403, 'csrf_failed']);
  const misspelled = await post(user, '/connections/platform', ACCEPT_JSON, { returnTo: '/board' });
  expect([misspelled.status, JSON.parse(misspelled.body).code]).toEqual([400, 'invalid_request']);
  const unknownApp = await post(user, '/connections/none', ACCEPT_JSON);
  expect([unknownApp.status, JSON.parse(unknownApp.body).code]).toEqual([404, 'not_found']);
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
  // A script never calls the callback, since only the provider redirects to it.
  expect(redirectOnly).toEqual(['get /oauth/callback/{app}']);
});
