/** `GET /session/verify` as Traefik and Caddy call it: with the browser's headers, and its method and path in others. */
import { Agent } from 'node:http';
import { decodeJwt } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { sendRaw } from '../../support/raw-http.ts';
import { ACCEPT_HTML, ACCEPT_JSON, JSON_BODY, sendRequest } from '../../support/send-request.ts';
import { sessionOf } from '../grants/storage-access.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
});
afterAll(() => site.close());

const verify = (headers: Record<string, string>) =>
  sendRequest(`${site.url}/session/verify?audience=reports`, {
    headers: {
      'x-forwarded-method': 'POST',
      'x-forwarded-uri': '/reports/new',
      'x-forwarded-proto': 'http',
      'x-forwarded-host': new URL(site.url).host,
      'x-forwarded-for': '198.51.100.7',
      ...headers,
    },
  });

test.each([
  ['page of another host', { ...ACCEPT_HTML, host: 'gatehouse:3000' }, 'text/html'],
  ['form of another host', { ...ACCEPT_HTML, ...JSON_BODY, origin: 'https://reports.example.com' }, 'text/html'],
  ['request for data', ACCEPT_JSON, 'application/problem+json'],
])(
  'verifies a %s with an assertion about the signed-in user, or responds 401 in the requested format',
  async (_name, headers, form) => {
    const { agent } = await signIn(site);
    const { userId } = await sessionOf(site, agent);
    const good = await verify({ ...headers, cookie: agent.cookies.header(site.url) });
    expect([good.status, good.body]).toEqual([200, '']);
    const claims = decodeJwt(String(good.headers['gatehouse-user-assertion']));
    expect(claims).toMatchObject({ sub: userId, aud: 'reports', iss: site.url });

    const none = await verify(headers);
    expect(none.status).toBe(401);
    expect(none.headers['content-type']).toContain(form);
    expect(none.headers['gatehouse-user-assertion']).toBeUndefined();
  },
);

describe("R77 headers of the user's connection, and of the page that sent the request, have no effect", () => {
  test.each([
    ['a frame', { 'sec-fetch-dest': 'iframe', 'sec-fetch-mode': 'navigate', 'sec-fetch-site': 'same-origin' }],
    ['an embedded object', { 'sec-fetch-dest': 'object', 'sec-fetch-mode': 'navigate', 'sec-fetch-site': 'same-site' }],
    [
      'an image on another site',
      { 'sec-fetch-dest': 'image', 'sec-fetch-mode': 'no-cors', 'sec-fetch-site': 'cross-site' },
    ],
    [
      'a script of another site',
      { 'sec-fetch-dest': 'empty', 'sec-fetch-mode': 'cors', 'sec-fetch-site': 'cross-site' },
    ],
    ['a preloaded page', { 'sec-purpose': 'prefetch', 'sec-fetch-mode': 'navigate', 'sec-fetch-site': 'none' }],
    ['expectations, ranges and conditions', { expect: '100-continue', range: 'bytes=0-1', 'if-none-match': '*' }],
    ['a WebSocket', { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' }],
    ['a WebSocket and HTTP/2', { connection: 'Upgrade, HTTP2-Settings', upgrade: 'websocket, h2c' }],
    ['another protocol', { connection: 'upgrade', upgrade: 'TLS/1.0, IRC/6.9' }],
    ['trailers', { connection: 'TE', te: 'trailers' }],
    [
      'an old proxy',
      { 'keep-alive': 'timeout=5', 'proxy-connection': 'keep-alive', 'proxy-authorization': 'Basic eA==' },
    ],
  ])('%s', async (_name, headers) => {
    const { agent } = await signIn(site);
    const cookie = agent.cookies.header(site.url);
    const connections = new Agent({ keepAlive: true, maxSockets: 1 });
    const send = (path: string, sent: Record<string, string>) =>
      sendRequest(`${site.url}${path}`, { headers: { ...ACCEPT_HTML, ...sent }, agent: connections });
    for (const path of ['/session/verify', '/session/verify/', '/session/verify?audience=reports']) {
      const verified = await send(path, { ...headers, cookie });
      expect([path, verified.status, verified.headers['gatehouse-user-assertion']]).toEqual([
        path,
        200,
        expect.stringMatching(/^ey/),
      ]);
    }
    expect((await send('/session/verify', headers)).status).toBe(401);
    // The connection serves the next request.
    expect((await send('/session', { cookie })).status).toBe(200);
    connections.destroy();
  });

  test('R78 an announced body, after which the connection closes', async () => {
    const { agent } = await signIn(site);
    const head = `GET /session/verify HTTP/1.1\r\nHost: a.test\r\nCookie: ${agent.cookies.header(site.url)}\r\n`;
    const smuggled = 'GET /session HTTP/1.1\r\nHost: a.test\r\n\r\n';
    const response = await sendRaw(site.url, `${head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`);
    expect([response.status, response.closed, response.rest]).toEqual([200, true, '']);
    // A proxy that passes on the length, but not the body: the next request would be taken for the body.
    const withoutBody = await sendRaw(site.url, `${head}Content-Length: 12\r\n\r\n`);
    expect([withoutBody.status, withoutBody.closed, withoutBody.rest]).toEqual([200, true, '']);
    const empty = await sendRaw(site.url, `${head}Content-Length: 0\r\n\r\n`);
    expect([empty.status, empty.closed]).toEqual([200, false]);
  });

  test('on other routes, frames and reads by other sites are still refused', async () => {
    for (const path of ['/session', '/session/verify/x']) {
      const framed = { 'sec-fetch-dest': 'iframe', 'sec-fetch-mode': 'navigate', 'sec-fetch-site': 'same-origin' };
      const read = { 'sec-fetch-dest': 'empty', 'sec-fetch-mode': 'cors', 'sec-fetch-site': 'cross-site' };
      for (const headers of [framed, read])
        expect((await sendRequest(`${site.url}${path}`, { headers })).status).toBe(403);
    }
  });

  test('of other routes, an upgrade is still refused', async () => {
    for (const path of ['/session', '/session/verify/x', '/x/session/verify']) {
      const headers = { connection: 'Upgrade', upgrade: 'websocket' };
      expect((await sendRequest(`${site.url}${path}`, { headers })).status).toBe(400);
    }
  });
});

test.each(['other.test', '127.0.0.1', '127.0.0.1:1', 'gatehouse', 'a.test, b.test'])(
  'R77 never redirects, whatever host the proxy names: %s',
  async (host) => {
    const { agent } = await signIn(site);
    const cookie = agent.cookies.header(site.url);
    const names = { host, 'x-forwarded-host': host };
    expect((await verify({ ...ACCEPT_HTML, ...names, cookie })).status).toBe(200);
    expect((await verify({ ...ACCEPT_HTML, ...names })).status).toBe(401);
  },
);

describe('R77 a page without a session is sent to sign in, and back to the local path that the proxy names', () => {
  const signInUrlFor = async (headers: Record<string, string>, form: Record<string, string> = ACCEPT_HTML) => {
    const refused = await sendRequest(`${site.url}/session/verify`, { headers: { ...form, ...headers } });
    expect([refused.status, refused.headers.location]).toEqual([401, undefined]);
    return { sent: refused.headers['gatehouse-sign-in'], body: refused.body };
  };
  const returnTo = (path: string) => `${site.url}/sign-in?${new URLSearchParams({ return_to: path })}`;

  test.each([
    ['a path in X-Forwarded-Uri', { 'x-forwarded-uri': '/reports?a=b&c=%26' }, '/reports?a=b&c=%26'],
    ['a URL in X-Original-URL', { 'x-original-url': 'http://inner:8080/reports?a=b' }, '/reports?a=b'],
    ['a path in X-Original-URL', { 'x-original-url': '/reports' }, '/reports'],
    ['both', { 'x-forwarded-uri': '/first', 'x-original-url': 'https://a.test/second' }, '/first'],
  ])('%s', async (_name, headers, path) => {
    const { sent, body } = await signInUrlFor(headers);
    expect(sent).toBe(returnTo(path));
    expect(body).toContain(returnTo(path).replaceAll('&', '&amp;'));
  });

  test.each([
    ['nothing', {}],
    ['another site', { 'x-forwarded-uri': '//evil.example/x' }],
    ['another site, as a path of a URL', { 'x-original-url': 'https://a.test//evil.example/x' }],
    ['a backslash', { 'x-forwarded-uri': '/\\evil.example' }],
    ['no path', { 'x-forwarded-uri': 'reports' }],
    ['a script', { 'x-original-url': 'javascript:alert(1)' }],
    ['two paths', { 'x-forwarded-uri': '/a, /b' }],
    ['an empty text', { 'x-forwarded-uri': '' }],
    ['a long path', { 'x-forwarded-uri': `/${'x'.repeat(600)}` }],
    ['R86 a card number', { 'x-forwarded-uri': '/pay/4571736012345674' }],
  ])('%s: the sign-in leads to the start page', async (_name, headers) => {
    const { sent, body } = await signInUrlFor(headers);
    expect(sent).toBe(`${site.url}/sign-in`);
    expect(body).not.toContain('return_to');
  });

  test.each([
    ['a form', { 'x-forwarded-method': 'POST' }, '/list?page=2', '/list?page=2'],
    ['a form, for nginx of an ingress', { 'x-original-method': 'POST' }, '/list', '/list'],
    ['a page', { 'x-forwarded-method': 'GET' }, '/list', '/items/7'],
    ['the head of a page', { 'x-forwarded-method': 'HEAD' }, '/list', '/items/7'],
    ['a form of another site', { 'x-forwarded-method': 'POST' }, 'https://evil.example/list', '/items/7'],
    ['a form of a page that names no path', { 'x-forwarded-method': 'POST' }, '//evil.example/list', '/items/7'],
    ['a form of an unknown page', { 'x-forwarded-method': 'POST' }, undefined, '/items/7'],
    ['R86 a form of a page with a card number', { 'x-forwarded-method': 'POST' }, '/4571736012345674', '/items/7'],
  ])('%s: back to the page that has it, or else to its own path', async (_name, method, page, path) => {
    const referer = page === undefined ? {} : { referer: page.startsWith('/') ? site.url + page : page };
    const { sent } = await signInUrlFor({ 'x-forwarded-uri': '/items/7', ...method, ...referer });
    expect(sent).toBe(returnTo(path));
  });

  test('a script gets no such URL: it would follow a redirect to the provider', async () => {
    const scripts: Record<string, string>[] = [
      ...['application/json', '*/*', 'image/*'].map((accept) => ({ accept })),
      ...['cors', 'no-cors', 'same-origin', 'websocket'].map((mode) => ({ ...ACCEPT_HTML, 'sec-fetch-mode': mode })),
    ];
    for (const script of scripts) {
      const { sent } = await signInUrlFor({ 'x-forwarded-uri': '/reports' }, script);
      expect(sent).toBeUndefined();
    }
    const opened = { ...ACCEPT_HTML, 'sec-fetch-mode': 'navigate' };
    expect((await signInUrlFor({ 'x-forwarded-uri': '/reports' }, opened)).sent).toBe(returnTo('/reports'));
  });

  test('the path changes nothing on other routes, and nothing without a trusted proxy', async () => {
    const method = { 'x-forwarded-method': 'POST', referer: `${site.url}/page` };
    const headers = { ...ACCEPT_HTML, 'x-forwarded-uri': '/reports', 'x-original-url': '/reports', ...method };
    const page = await sendRequest(`${site.url}/connections`, { headers });
    expect(page.headers.location).toBe('/sign-in?return_to=%2Fconnections');
    const untrusting = await startSite();
    const refused = await sendRequest(`${untrusting.url}/session/verify`, { headers });
    expect([refused.status, refused.headers['gatehouse-sign-in']]).toEqual([401, `${untrusting.url}/sign-in`]);
    await untrusting.close();
  });
});
