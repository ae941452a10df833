/** R68 and R69: the headers of every response, whatever its status. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parsePublicUrl } from '../../../src/shared/config/rules.ts';
import { AT_ONCE, bindPorts, closeServer } from '../../../src/shared/http/listeners.ts';
import { sharedAssets } from '../../../src/shared/pages/assets.ts';
import { createRefusalPage } from '../../../src/shared/pages/refusal-page.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { freePort } from '../../support/ports.ts';
import { sendRaw } from '../../support/raw-http.ts';
import { ROUTES } from '../../support/routes.ts';
import {
  ACCEPT_HTML,
  ACCEPT_JSON,
  FORM_BODY,
  JSON_BODY,
  type ReceivedResponse,
  sendRequest,
} from '../../support/send-request.ts';
import { breakStore } from '../../support/store-fault.ts';

let site: TestSite;
let cookie: string;
let csrf: string;
beforeAll(async () => {
  site = await startSite();
  const { agent } = await signIn(site);
  cookie = agent.cookies.header(site.url);
  csrf = String((await getJson(agent, `${site.url}/session`)).json.csrfToken);
});
afterAll(() => site.close());

function expectSecurityHeaders({ headers }: Pick<ReceivedResponse, 'headers'>, name: string): void {
  const policy = String(headers['content-security-policy']);
  for (const directive of ["frame-ancestors 'none'", "object-src 'none'", "base-uri 'none'"]) {
    // The policy of a thread has `sandbox`, and `default-src` covers the rest.
    if (!policy.includes('sandbox')) expect(policy, name).toContain(directive);
  }
  expect(policy, name).toContain("default-src 'none'");
  expect(policy, name).toContain("frame-ancestors 'none'");
  expect(policy, name).not.toMatch(/form-action|unsafe|\*|https?:/);
  expect(headers['x-content-type-options'], name).toBe('nosniff');
  expect(headers['referrer-policy'], name).toMatch(/^(same-origin|no-referrer)$/);
  expect(headers['x-powered-by'], name).toBeUndefined();
  expect(headers['x-request-id'], name).toMatch(/^[0-9a-f-]{36}$/);
}

/** For each status, a request that gets it. */
function requestsByStatus(): Record<number, () => Promise<ReceivedResponse>> {
  const get = (path: string, headers: Record<string, string> = {}) => sendRequest(site.url + path, { headers });
  const post = (path: string, headers: Record<string, string>, body: string) =>
    sendRequest(site.url + path, { method: 'POST', headers: { ...ACCEPT_JSON, ...headers }, body });
  return {
    200: () => get('/', { cookie, ...ACCEPT_HTML }),
    302: () => sendRequest(`${site.url}/`, { headers: { ...ACCEPT_HTML, host: 'localhost' } }),
    303: () => get('/sign-in', ACCEPT_HTML),
    400: () => get('/bin/1', { cookie, ...ACCEPT_JSON }),
    401: () => get('/threads/current', ACCEPT_JSON),
    403: () => post('/bin', { cookie, ...JSON_BODY }, '{}'),
    404: () => get('/nothing', ACCEPT_HTML),
    405: () => sendRequest(`${site.url}/threads/current`, { method: 'DELETE' }),
    411: () => sendRequest(`${site.url}/bin`, { method: 'POST', headers: { 'transfer-encoding': 'chunked' } }),
    413: () => post('/bin', { cookie, ...JSON_BODY }, JSON.stringify({ bins: ['x'.repeat(70_000)] })),
    502: async () => {
      const clearFault = site.sandbox.faults.set({ listener: 'platform', kind: 'error' });
      return get('/threads/current', { cookie, ...ACCEPT_JSON }).finally(clearFault);
    },
    503: async () => {
      const heal = breakStore();
      return get('/session', { cookie }).finally(heal);
    },
  };
}

describe('R68 on every status', () => {
  test.each(Object.keys(requestsByStatus()).map(Number))('%i', async (status) => {
    const response = await requestsByStatus()[status]?.();
    expect(response?.status).toBe(status);
    if (response) expectSecurityHeaders(response, String(status));
    expect(response?.headers['strict-transport-security']).toBeUndefined();
  });

  test('500, which does not reveal its cause', async () => {
    const { default: express } = await import('express');
    const original = express.response.json;
    express.response.json = () => {
      // A system error has a code, and is still an internal error.
      throw Object.assign(new Error('secret internals of /etc/passwd'), { code: 'ENOENT' });
    };
    const response = await sendRequest(`${site.url}/session`, { headers: ACCEPT_JSON }).finally(() => {
      express.response.json = original;
    });
    expect(response.status).toBe(500);
    expectSecurityHeaders(response, '500');
    expect(response.body).not.toMatch(/secret|internals|passwd|at \w+/);
    expect(JSON.parse(response.body)).toMatchObject({ code: 'internal', title: 'Something went wrong here' });
  });

  test('431 and 400 of the parser, before any route', async () => {
    const responseToHugeHead = await sendRaw(
      site.url,
      `GET / HTTP/1.1\r\nHost: x\r\nX-Big: ${'y'.repeat(20_000)}\r\n\r\n`,
    );
    const broken = await sendRaw(site.url, 'GET / HTTP/9.9\r\nHost: x\r\n\r\n');
    expect([responseToHugeHead.status, broken.status]).toEqual([431, 400]);
    for (const { headers, rest } of [responseToHugeHead, broken]) {
      expectSecurityHeaders(
        { headers: Object.fromEntries([...headers].map(([name, values]) => [name, values.join(', ')])) },
        'raw',
      );
      expect(JSON.parse(rest)).toMatchObject({
        type: expect.stringMatching(/\/problems\//),
        instance: expect.stringMatching(/^urn:uuid:/),
      });
    }
  });

  test('pages have the type HTML in UTF-8, including the admin pages', async () => {
    const { agent } = await signIn(site, 'admin@example.test');
    for (const path of ['/', '/connections', '/sessions', '/admin', '/admin/users']) {
      const { status, headers } = await agent.get(site.url + path);
      expect([status, headers.get('content-type')], path).toEqual([200, 'text/html; charset=utf-8']);
    }
  });

  test('every route, as a page and as data, also with Cross-Origin-Opener-Policy', async () => {
    for (const { method, path } of ROUTES) {
      for (const accept of [ACCEPT_HTML, ACCEPT_JSON]) {
        const response = await sendRequest(site.url + path, { method, headers: { ...accept, ...FORM_BODY, cookie } });
        expectSecurityHeaders(response, `${method} ${path}`);
        expect(response.headers['cross-origin-opener-policy'], path).toBe('same-origin');
      }
    }
  });

  test.each([
    ['https: HSTS on every response', 'gatehouse.test', 'max-age=31536000'],
    ['https on a port of its own: short HSTS on every response', 'gatehouse.test:8443', 'max-age=300'],
  ])('%s', async (_name, host, hsts) => {
    const secure = await startSite({ env: { PUBLIC_URL: `https://${host}` } });
    try {
      const listener = `http://127.0.0.1:${secure.env.PORT}`;
      for (const path of ['/', '/nothing', '/threads/current', `${sharedAssets().path}/gatehouse.css`, '/sign-in']) {
        const { headers } = await sendRequest(listener + path, { headers: { host, ...ACCEPT_HTML } });
        expect(headers['strict-transport-security'], path).toBe(hsts);
      }
      const responseToLongTarget = await sendRequest(`${listener}/${'x'.repeat(9_000)}`);
      expect([responseToLongTarget.status, responseToLongTarget.headers['strict-transport-security']]).toEqual([
        414,
        hsts,
      ]);

      const broken = await sendRaw(listener, 'GET / HTTP/9.9\r\nHost: x\r\n\r\n');
      expect([broken.status, broken.headers.get('strict-transport-security')]).toEqual([400, [hsts]]);

      for (const path of ['/healthz', '/readyz', '/metrics', '/nothing', `/${'x'.repeat(9_000)}`]) {
        const { headers } = await sendRequest(secure.managementUrl + path);
        expect(headers, path).toMatchObject({
          'strict-transport-security': hsts,
          'content-security-policy': expect.stringContaining("default-src 'none'"),
          'x-content-type-options': 'nosniff',
          'referrer-policy': 'same-origin',
        });
      }
      const responseToUnreadableHead = await sendRaw(secure.managementUrl, 'GET / HTTP/9.9\r\nHost: x\r\n\r\n');
      expect([
        responseToUnreadableHead.status,
        responseToUnreadableHead.headers.get('strict-transport-security'),
      ]).toEqual([400, [hsts]]);
    } finally {
      await secure.close();
    }
  });

  test('https: HSTS and the other headers while the program still starts', async () => {
    const [port, managementPort] = [await freePort(), await freePort()];
    const { publicUrl } = parsePublicUrl('https://gatehouse.test');
    if (!publicUrl) throw new TypeError('The URL is valid.');
    const addressOf = (port: number) => ({ host: '127.0.0.1', port });
    const bound = await bindPorts(
      {
        listen: addressOf(port),
        management: addressOf(managementPort),
        publicUrl,
        trustedProxies: [],
      },
      createRefusalPage({ publicUrl, pages: { operatorName: 'Us', supportContact: undefined } }),
    );
    try {
      const { status, headers } = await sendRequest(`http://127.0.0.1:${managementPort}/readyz`);
      expect(status).toBe(503);
      expect(headers).toMatchObject({
        'strict-transport-security': 'max-age=31536000',
        'content-security-policy': expect.stringContaining("default-src 'none'"),
        'referrer-policy': 'same-origin',
        'cross-origin-opener-policy': 'same-origin',
      });
    } finally {
      await Promise.all(bound.map(({ server }) => closeServer(server, AT_ONCE)));
    }
  });

  test('an error instead of a relayed response is an error page, with the policy of pages', async () => {
    const clearFault = site.sandbox.faults.set({ listener: 'platform', kind: 'reset', when: 'before_headers' });
    const response = await sendRequest(`${site.url}/threads/current`, { headers: { ...ACCEPT_HTML, cookie } }).finally(
      clearFault,
    );
    expect(response.status).toBe(502);
    expect(response.headers['content-security-policy']).toContain("style-src 'self'");
  });
});

describe('R69 caches store no user data', () => {
  /** The documents of the API are the same for everyone. */
  const isPublic = (path: string) => path === '/openapi.json' || path === '/docs' || path.startsWith('/docs/');

  test.each(ROUTES)('$method $path', async ({ method, path }) => {
    for (const headers of [{ cookie, ...ACCEPT_HTML }, { cookie, ...ACCEPT_JSON }, ACCEPT_HTML, ACCEPT_JSON]) {
      const response = await sendRequest(site.url + path, {
        method,
        headers: { ...headers, ...FORM_BODY },
        ...(method === 'POST' ? { body: `bin=45717360&_csrf=${path === '/bin' ? csrf : ''}` } : {}),
      });
      if (isPublic(path)) {
        expect([response.headers['cache-control'], response.headers['set-cookie']]).toEqual(['no-cache', undefined]);
        continue;
      }
      expect(response.headers['cache-control']).toBe('no-store');
      expect(response.headers.etag === undefined || path.endsWith('/threads/current')).toBe(true);
    }
  });

  test('files of pages may be cached, and set no cookie', async () => {
    for (const file of ['gatehouse.css', 'pico.css', 'bin.js', 'icons/favicon.svg', 'flags/dk.svg']) {
      const response = await sendRequest(`${site.url}${sharedAssets().path}/${file}`, { headers: { cookie } });
      expect([response.status, response.headers['cache-control']]).toEqual([
        200,
        'public, max-age=31536000, immutable',
      ]);
      expect(response.headers['set-cookie']).toBeUndefined();
    }
    for (const path of [
      '/none.css',
      '/',
      '',
      '/..%2f..%2fpackage.json',
      '/../gatehouse.css',
      '/%00',
      '/.env',
      '/icons',
      '/flags/zz.svg',
      '/flags/DK.svg',
    ]) {
      const response = await sendRequest(site.url + sharedAssets().path + path);
      expect(response.status, path).toBeGreaterThanOrEqual(400);
      expect(response.status, path).toBeLessThan(500);
      expect(response.headers['cache-control'], path).toBe('no-store');
    }
    expect(
      (await sendRequest(`${site.url}${sharedAssets().path}/gatehouse.css`, { method: 'POST' })).headers.allow,
    ).toBe('GET, HEAD');
  });
});
