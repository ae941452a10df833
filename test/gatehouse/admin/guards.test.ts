/** R88 and R82: every route of the administration requires an administrator, and accepts tokens only in the header. */

import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { ADMIN_TOKEN_PREFIX } from '../../../src/gatehouse/admin-tokens/admin-tokens.ts';
import { sessionCookieName } from '../../../src/shared/sessions/browser-sessions.ts';
import { createOpaqueToken } from '../../../src/shared/storage/opaque-token.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ADMIN_ROUTES, type ListedRoute } from '../../support/routes.ts';
import { ACCEPT_HTML, ACCEPT_JSON, JSON_BODY, sendRequest } from '../../support/send-request.ts';
import { breakStore } from '../../support/store-fault.ts';
import { LONG_TIMEOUT } from '../../support/until.ts';

/** Well-formed, with a valid checksum, but unknown. */
const RELAY_TOKEN = 'gthr_00000000000000000000000000000000000000000000000000000000000000';

let site: TestSite;
let admin: { cookie: string; csrf: string };
let user: { cookie: string; csrf: string };
let readToken: string;
let writeToken: string;
beforeAll(async () => {
  site = await startSite({ env: { LOG_LEVEL: 'trace' } });
  [admin, user] = await Promise.all([session('admin@example.test'), session('user@example.test')]);
  [readToken, writeToken] = await Promise.all([adminToken('read'), adminToken('write')]);
});
afterAll(() => site.close());

async function session(login: string) {
  const { agent } = await signIn(site, login);
  const { json } = await getJson(agent, `${site.url}/session`);
  return { cookie: agent.cookies.header(site.url), csrf: String(json.csrfToken) };
}

async function adminToken(scope: 'read' | 'write', days = 1): Promise<string> {
  const expiresAt = new Date(Date.now() + days * 86_400_000).toISOString();
  const { body } = await sendRequest(`${site.url}/admin/api/admin-tokens`, {
    method: 'POST',
    headers: { cookie: admin.cookie, 'x-csrf-token': admin.csrf, ...JSON_BODY },
    body: JSON.stringify({ name: scope, scope, expiresAt }),
  });
  return JSON.parse(body).token;
}

const isApi = ({ pattern }: ListedRoute) => pattern.startsWith('/admin/api');
/** API calls that have a body but change nothing. */
const UNCHANGING_POSTS = ['/admin/api/policy/explain', '/admin/api/callback-urls', '/admin/api/route-patterns'];
const isUnchangingPost = ({ pattern }: ListedRoute) => UNCHANGING_POSTS.includes(pattern);
const visit = ({ method, path }: ListedRoute, headers: Record<string, string | string[]>) =>
  sendRequest(site.url + path, {
    method,
    headers: { ...JSON_BODY, ...headers },
    ...(method === 'POST' || method === 'PUT' ? { body: '{}' } : {}),
  });

test('the table has routes of the administration', () => {
  expect(ADMIN_ROUTES.length).toBeGreaterThan(80);
});

describe.each(ADMIN_ROUTES)('R65, R69 $method $pattern', (route) => {
  test('responds with 503 while the storage cannot be read, as JSON and as a page, without caching', async () => {
    const heal = breakStore();
    try {
      for (const accept of [ACCEPT_JSON, ACCEPT_HTML]) {
        const response = await visit(route, { ...accept, cookie: admin.cookie, 'x-csrf-token': admin.csrf });
        expect([response.status, response.headers['cache-control']]).toEqual([503, 'no-store']);
        expect(Number(response.headers['retry-after'])).toBeGreaterThan(0);
        expect(response.headers['set-cookie']).toBeUndefined();
      }
    } finally {
      heal();
    }
  });
});

test.each(ADMIN_ROUTES.filter(({ method }) => method === 'GET'))(
  'R69 a response of $method $pattern to an administrator is not cached',
  async (route) => {
    const { headers, status } = await visit(route, { ...ACCEPT_HTML, cookie: admin.cookie });
    expect(status).toBeLessThan(500);
    expect(headers['cache-control']).toBe('no-store');
  },
);

describe.each(ADMIN_ROUTES)('R88 $method $pattern', (route) => {
  test('requires a session', async () => {
    const page = await visit(route, ACCEPT_HTML);
    if (!isApi(route) && route.method === 'GET') {
      expect(page.status).toBe(303);
      expect(page.headers.location).toBe(`/sign-in?app=platform&return_to=${encodeURIComponent(route.path)}`);
    } else expect(page.status).toBe(401);
    expect((await visit(route, ACCEPT_JSON)).status).toBe(401);
    expect((await visit(route, { ...ACCEPT_JSON, 'x-csrf-token': user.csrf })).status).toBe(401);
  });

  test('refuses a user who is not an administrator', async () => {
    for (const accept of [ACCEPT_HTML, ACCEPT_JSON]) {
      const response = await visit(route, { ...accept, cookie: user.cookie, 'x-csrf-token': user.csrf });
      expect(response.status).toBe(403);
      if (accept === ACCEPT_JSON) expect(JSON.parse(response.body).code).toBe('not_allowed');
      // After signing in with another account, the user returns to the page.
      else if (!isApi(route) && route.method === 'GET')
        expect(response.body).toContain(`/sign-out?return_to=${encodeURIComponent(route.path)}"`);
    }
  });

  test('refuses relay tokens, even with an administrator’s session', async () => {
    const response = await visit(route, { ...ACCEPT_JSON, authorization: `Bearer ${RELAY_TOKEN}` });
    expect(response.status).toBe(401);
    if (isApi(route)) {
      expect(response.headers['www-authenticate']).toBe('Bearer error="invalid_token"');
      const withSession = {
        ...ACCEPT_JSON,
        authorization: `Bearer ${RELAY_TOKEN}`,
        cookie: admin.cookie,
        'x-csrf-token': admin.csrf,
      };
      expect((await visit(route, withSession)).status).toBe(401);
    }
  });

  test('accepts an admin token only in the API, and lets a read token change nothing', async () => {
    const response = await visit(route, { ...ACCEPT_JSON, authorization: `Bearer ${readToken}` });
    if (!isApi(route)) expect(response.status).toBe(401);
    else if (route.method === 'GET') expect([200, 404]).toContain(response.status);
    else if (isUnchangingPost(route)) expect(JSON.parse(response.body).code).toBe('invalid_request');
    else {
      expect(response.status).toBe(403);
      const detail = 'This admin token may only read. Create one with the scope "write".';
      expect(JSON.parse(response.body)).toMatchObject({ code: 'insufficient_scope', detail });
      expect(response.headers['www-authenticate']).toContain('error="insufficient_scope"');
    }
  });

  test('R66 requires the CSRF token for changes with a session', async () => {
    if (route.method === 'GET') return;
    const response = await visit(route, { ...ACCEPT_JSON, cookie: admin.cookie });
    expect([response.status, JSON.parse(response.body).code]).toEqual([403, 'csrf_failed']);
  });
});

test('R88 a refusal is audited with the user', async () => {
  await sendRequest(`${site.url}/admin/api/admin-tokens`, { headers: { ...ACCEPT_JSON, cookie: user.cookie } });
  await vi.waitFor(async () => {
    const response = await sendRequest(`${site.url}/admin/api/audit?event=admin.refused&limit=200`, {
      headers: { authorization: `Bearer ${readToken}` },
    });
    expect(JSON.parse(response.body).items).toContainEqual(
      expect.objectContaining({
        event: 'admin.refused',
        outcome: 'refused',
        code: 'not_allowed',
        actor: expect.objectContaining({ kind: 'user', name: 'user@example.test' }),
        // Refusals of one user are one entry a minute (R94).
        facts: expect.objectContaining({ route: expect.stringMatching(/^\/admin/) }),
      }),
    );
  }, LONG_TIMEOUT);
});

test('R84 guesses of admin tokens are limited by address, and a valid token keeps working', async () => {
  const list = `${site.url}/admin/api/admin-tokens`;
  const guess = () =>
    sendRequest(list, {
      headers: { ...ACCEPT_JSON, authorization: `Bearer ${createOpaqueToken(ADMIN_TOKEN_PREFIX).text}` },
    });
  let limited = await guess();
  // More than one minute's share, since a new minute may begin meanwhile.
  for (let guesses = 0; limited.status !== 429 && guesses < 250; guesses += 1) limited = await guess();
  expect([limited.status, JSON.parse(limited.body).code]).toEqual([429, 'rate_limited']);
  expect(Number(limited.headers['retry-after'])).toBeGreaterThan(0);
  expect((await sendRequest(list, { headers: { authorization: `Bearer ${readToken}` } })).status).toBe(200);
});

describe('R82 an admin token is accepted only in the header', () => {
  const list = () => `${site.url}/admin/api/admin-tokens`;

  test('in query, body and cookie it is ignored, and not logged', async () => {
    const responses = await Promise.all([
      sendRequest(`${list()}?access_token=${readToken}`),
      sendRequest(`${list()}?authorization=Bearer%20${readToken}`),
      sendRequest(list(), {
        headers: { cookie: `authorization=${readToken}; ${sessionCookieName(site.url)}=${readToken}` },
      }),
      sendRequest(list(), { method: 'POST', headers: JSON_BODY, body: JSON.stringify({ access_token: writeToken }) }),
    ]);
    expect(responses.map(({ status }) => status)).toEqual([401, 401, 401, 401]);
    expect(site.logs().join('')).not.toContain(readToken.slice(16));
    expect(site.logs().join('')).not.toContain(writeToken.slice(16));
  });

  test('is refused if sent twice, and a cookie is ignored', async () => {
    const twice = [`Bearer ${readToken}`, `Bearer ${readToken}`];
    expect((await sendRequest(list(), { headers: { authorization: twice } })).status).toBe(401);
    expect((await sendRequest(list(), { headers: { authorization: twice, cookie: admin.cookie } })).status).toBe(401);
    const withCookie = await sendRequest(list(), {
      method: 'POST',
      headers: { ...JSON_BODY, authorization: `Bearer ${readToken}`, cookie: admin.cookie, 'x-csrf-token': admin.csrf },
      body: '{}',
    });
    expect(withCookie.status).toBe(403);
  });

  test('needs no CSRF token', async () => {
    const response = await sendRequest(list(), {
      method: 'POST',
      headers: { ...JSON_BODY, authorization: `Bearer ${writeToken}` },
      body: '{}',
    });
    expect(response.status).toBe(400);
  });

  test.each([
    ['only a scheme', 'Bearer'],
    ['a scheme and a space', 'Bearer '],
    ['a broken escape', 'Bearer %E0%A4'],
    ['only a prefix', 'Bearer gtha_'],
    ['a wrong checksum', `Bearer gtha_${'x'.repeat(60)}`],
    ['another scheme', `Basic ${Buffer.from('a:b').toString('base64')}`],
    ['no scheme', 'gtha_x'],
    ['12,000 characters', `Bearer ${'a'.repeat(12_000)}`],
    ['characters outside ASCII', 'Bearer \u00fc\u00df'],
    ['commas', ', ,'],
    ['nothing', ''],
  ])('R83 a malformed Authorization is 401: %s', async (_name, authorization) => {
    const response = await sendRequest(list(), { headers: { authorization, cookie: admin.cookie } });
    expect(response.status).toBe(401);
  });
});
