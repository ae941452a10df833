/** R77 and R78: methods without a route, and bytes that two servers could parse differently. */

import { EventEmitter } from 'node:events';
import type { Server } from 'node:http';
import type { Request, Response } from 'express';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { plainHttp, refuseUnreadable } from '../../../src/shared/http/protocol.ts';
import { createRefuse, type RefusalPage } from '../../../src/shared/http/refusal.ts';
import { sharedAssets } from '../../../src/shared/pages/assets.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { sendRaw } from '../../support/raw-http.ts';
import { ROUTES } from '../../support/routes.ts';
import { ACCEPT_JSON, FORM_BODY, sendRequest } from '../../support/send-request.ts';

let site: TestSite;
let cookie: string;
let csrf: string;
let host: string;
beforeAll(async () => {
  site = await startSite();
  const { agent } = await signIn(site);
  cookie = agent.cookies.header(site.url);
  csrf = String((await getJson(agent, `${site.url}/session`)).json.csrfToken);
  host = new URL(site.url).host;
});
afterAll(() => site.close());

const PATHS = [...new Set(ROUTES.map(({ path }) => path))];
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'SEARCH', 'PURGE', 'LINK'];

/** Paths on which a HEAD would use up a state or store a pending request. */
const USED_UP_BY_HEAD = /^\/(sign-in|oauth\/callback\/platform)$/;

describe('R77 methods', () => {
  test.each(PATHS)('%s: other methods get 405 with the allowed ones', async (path) => {
    const listed = ROUTES.filter((route) => route.path === path).map(({ method }) => method);
    for (const method of METHODS.filter((name) => !listed.some((method) => method === name))) {
      const response = await sendRequest(site.url + path, {
        method,
        headers: { ...ACCEPT_JSON, cookie, 'x-csrf-token': csrf },
      });
      expect([response.status, JSON.parse(response.body).code], method).toEqual([405, 'method_not_allowed']);
      const allowed = listed.flatMap((name) =>
        name === 'GET' && !USED_UP_BY_HEAD.test(path) ? ['GET', 'HEAD'] : [name],
      );
      expect(response.headers.allow, method).toBe(allowed.join(', '));
    }
  });

  test('HEAD is GET without its body', async () => {
    for (const path of ['/', '/session', '/problems/not_found', '/threads/current']) {
      const response = await sendRequest(site.url + path, { method: 'HEAD', headers: { cookie } });
      expect([response.status, response.body], path).toEqual([200, '']);
    }
  });

  test('HEAD neither starts nor completes a sign-in', async () => {
    for (const path of PATHS.filter((name) => USED_UP_BY_HEAD.test(name))) {
      const response = await sendRequest(site.url + path, { method: 'HEAD', headers: { cookie } });
      expect([response.status, response.headers['set-cookie']], path).toEqual([405, undefined]);
    }
  });

  test('TRACE echoes nothing', async () => {
    const response = await sendRequest(`${site.url}/`, {
      method: 'TRACE',
      headers: { cookie, 'x-canary': 'canary-value' },
    });
    expect(response.status).toBe(405);
    expect(response.body).not.toMatch(/canary|gatehouse=/);
  });

  test('CONNECT is refused and the connection ends', async () => {
    const response = await sendRaw(site.url, `CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    expect([response.status, response.closed]).toEqual([405, true]);
    expect(response.headers.get('allow')).toEqual(['GET, HEAD, POST']);
  });

  test.each(['websocket', 'TLS/1.2', 'anything'])(
    'an upgrade to %s is refused and the connection ends',
    async (protocol) => {
      const response = await sendRaw(
        site.url,
        `GET /session HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`,
      );
      expect([response.status, response.closed]).toEqual([400, true]);
    },
  );

  test.each([
    ['no Host', 'GET /session HTTP/1.1', 400],
    ['an unknown expectation', `GET /session HTTP/1.1\r\nHost: gatehouse.test\r\nExpect: foo`, 417],
  ])(
    '%s is refused with a problem document and the security headers, and the connection ends',
    async (_name, head, status) => {
      const { headers, rest, ...response } = await sendRaw(site.url, `${head}\r\n\r\n`);
      expect(response).toEqual({ status, closed: true });
      expect(headers.get('content-type')).toEqual(['application/problem+json; charset=utf-8']);

      for (const name of ['x-request-id', 'content-security-policy', 'x-content-type-options', 'cache-control'])
        expect(headers.get(name), name).toHaveLength(1);
      expect(JSON.parse(rest)).toMatchObject({ status, code: 'invalid_request' });
    },
  );

  test('the management port also refuses malformed requests and CONNECT', async () => {
    expect((await sendRaw(site.managementUrl, 'GET /healthz HTTP/1.1\r\n\r\n')).status).toBe(400);
    const head = 'GET /healthz HTTP/1.1\r\nHost: gatehouse.test\r\nConnection: close\r\n\r\n';
    expect((await sendRaw(site.managementUrl, head)).status).toBe(200);
    for (const [bytes, status] of [
      ['GET / HTTP/9.9\r\nHost: x\r\n\r\n', 400],
      ['CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n', 405],
    ] as const) {
      const { headers, rest, ...response } = await sendRaw(site.managementUrl, bytes);
      expect(response).toEqual({ status, closed: true });
      expect(headers.get('content-type')).toEqual(['application/problem+json; charset=utf-8']);
      expect(JSON.parse(rest)).toMatchObject({ status });
    }
  });

  test('HTTP/1.0 needs no Host, and an expectation of 100-continue is met', async () => {
    expect((await sendRaw(site.url, 'GET /session HTTP/1.0\r\n\r\n')).status).toBe(200);
    const head = `GET /session HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\nExpect: 100-Continue\r\n\r\n`;
    const { status, rest } = await sendRaw(site.url, head);
    expect([status, rest]).toEqual([100, expect.stringMatching(/^HTTP\/1\.1 200 /)]);
  });

  test('an offer of HTTP/2 without TLS gets a response in HTTP/1.1', async () => {
    const response = await sendRaw(
      site.url,
      `GET /session HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n`,
    );
    expect([response.status, response.rest]).toEqual([200, '{"signedIn":false}']);
  });

  test('headers and fields that name another method, path or client change nothing', async () => {
    const overridingHeaders = {
      'x-http-method-override': 'POST',
      'x-http-method': 'DELETE',
      'x-method-override': 'POST',
      'x-forwarded-uri': '/healthz',
      'x-original-method': 'POST',
      'user-agent': 'kube-probe/1.30 ELB-HealthChecker/2.0 GoogleHC/1.0',
    };
    expect(
      (
        await sendRequest(`${site.url}/sign-out?_method=POST&_csrf=${csrf}`, {
          headers: { ...overridingHeaders, cookie },
        })
      ).status,
    ).toBe(405);
    expect(
      (await sendRequest(`${site.url}/threads/current`, { headers: { ...overridingHeaders, ...ACCEPT_JSON } })).status,
    ).toBe(401);
    expect(
      (
        await sendRequest(`${site.url}/bin/45717360?_method=POST`, {
          headers: { ...overridingHeaders, ...ACCEPT_JSON },
        })
      ).status,
    ).toBe(401);

    const overriddenPost = await sendRequest(`${site.url}/threads/current`, {
      method: 'POST',
      headers: { ...FORM_BODY, ...ACCEPT_JSON, cookie, 'x-http-method-override': 'GET' },
      body: '_method=GET',
    });
    expect(overriddenPost.status).toBe(405);
    expect(JSON.parse((await sendRequest(`${site.url}/session`, { headers: { cookie } })).body).signedIn).toBe(true);
  });
});

describe('R78 smuggling: 4xx, and the connection ends', () => {
  const post = (head: string, body = '') => `POST /bin HTTP/1.1\r\nHost: ${host}\r\n${head}\r\n\r\n${body}`;
  const smuggledRequest = () => `GET /problems/not_found HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
  const CASES: [string, () => string][] = [
    [
      'Content-Length and Transfer-Encoding',
      () => post('Content-Length: 6\r\nTransfer-Encoding: chunked', `0\r\n\r\n${smuggledRequest()}`),
    ],
    [
      'Transfer-Encoding and Content-Length',
      () => post('Transfer-Encoding: chunked\r\nContent-Length: 6', `0\r\n\r\n${smuggledRequest()}`),
    ],
    ['two lengths that differ', () => post('Content-Length: 0\r\nContent-Length: 44', smuggledRequest())],
    ['two lengths that agree', () => post('Content-Length: 3\r\nContent-Length: 3', 'abc')],
    ['a list of lengths', () => post('Content-Length: 0, 44', smuggledRequest())],
    ['a signed length', () => post('Content-Length: +3', 'abc')],
    ['a length in hexadecimal', () => post('Content-Length: 0x3', 'abc')],
    ['a negative length', () => post('Content-Length: -1', 'abc')],
    ['only line feeds', () => `POST /bin HTTP/1.1\nHost: ${host}\nContent-Length: 3\n\nabc`],
    ['a single bare line feed', () => `GET /session HTTP/1.1\r\nHost: ${host}\nX-A: b\r\n\r\n`],
    ['a bare carriage return', () => `GET /session HTTP/1.1\r\nHost: ${host}\rX-A: b\r\n\r\n`],
    ['a folded header', () => `GET /session HTTP/1.1\r\nHost: ${host}\r\nX-A: b\r\n c\r\n\r\n`],
    ['a folded Transfer-Encoding', () => post('Transfer-Encoding:\r\n chunked', `0\r\n\r\n${smuggledRequest()}`)],
    [
      'a space before the colon',
      () => post('Transfer-Encoding : chunked\r\nContent-Length: 5', `0\r\n\r\n${smuggledRequest()}`),
    ],
    ['a header without a name', () => `GET /session HTTP/1.1\r\nHost: ${host}\r\n: x\r\n\r\n`],
    ['a NUL in a value', () => `GET /session HTTP/1.1\r\nHost: ${host}\r\nX-A: b\u0000c\r\n\r\n`],
    ['no Host', () => 'GET /session HTTP/1.1\r\n\r\n'],
    ['two Hosts', () => `GET /session HTTP/1.1\r\nHost: ${host}\r\nHost: evil.example\r\n\r\n`],
    ['an unknown coding', () => post('Transfer-Encoding: xchunked', `0\r\n\r\n${smuggledRequest()}`)],
    ['a coding after chunked', () => post('Transfer-Encoding: chunked, identity', `0\r\n\r\n${smuggledRequest()}`)],
    [
      'two codings',
      () => post('Transfer-Encoding: chunked\r\nTransfer-Encoding: identity', `0\r\n\r\n${smuggledRequest()}`),
    ],
    ['another version', () => `GET /session HTTP/3.7\r\nHost: ${host}\r\n\r\n`],
    ['no HTTP at all', () => '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\r\n\r\n'],
    ['an unknown method', () => `BREW /session HTTP/1.1\r\nHost: ${host}\r\n\r\n`],
    ['a space in the target', () => `GET /session x HTTP/1.1\r\nHost: ${host}\r\n\r\n`],
  ];

  test.each(CASES)('%s', async (_name, bytes) => {
    const response = await sendRaw(site.url, bytes());
    expect(response.status).toBeGreaterThanOrEqual(400);
    expect(response.status).toBeLessThan(500);
    expect(response.closed).toBe(true);
    // There is one response, and none to the smuggled request.
    expect(response.rest).not.toContain('HTTP/1.1');
  });

  const chunked = (line: string, body: string) =>
    `${line}\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\nCookie: ${cookie}\r\nX-CSRF-Token: ${csrf}\r\n\r\n${body}`;
  test.each([
    ['chunked', () => chunked('POST /bin HTTP/1.1', '2\r\n{}\r\n0\r\n\r\n')],
    ['chunked with extensions', () => chunked('POST /bin HTTP/1.1', '2;name=value\r\n{}\r\n0\r\n\r\n')],
    ['chunked with trailers', () => chunked('POST /bin HTTP/1.1', '2\r\n{}\r\n0\r\nX-CSRF-Token: x\r\n\r\n')],
    ['chunked to a route without a body', () => chunked('GET /session HTTP/1.1', '0\r\n\r\n')],
    ['chunked to an unknown path', () => chunked('POST /nothing HTTP/1.1', '0\r\n\r\n')],
    ['chunked to a file', () => chunked(`GET ${sharedAssets().path}/gatehouse.css HTTP/1.1`, '0\r\n\r\n')],
  ])('%s body: 411', async (_name, bytes) => {
    const response = await sendRaw(site.url, bytes());
    expect([response.status, response.closed]).toEqual([411, true]);
    expect(JSON.parse(response.rest).code).toBe('length_required');
  });

  test('a body that never arrives does not delay other requests', async () => {
    const slow = sendRaw(
      site.url,
      `POST /bin HTTP/1.1\r\nHost: ${host}\r\nCookie: ${cookie}\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{`,
      500,
    );
    expect((await sendRequest(`${site.url}/session`, { headers: { cookie } })).status).toBe(200);
    expect((await slow).status).toBe(0);
  });
});

const NO_UPGRADE = 'Use plain HTTP: upgrades are not supported.';
test.each([
  [undefined, ['a'], undefined],
  ['h2c', ['a'], undefined],
  ['H2', ['a'], undefined],
  ['h2cx', ['a'], NO_UPGRADE],
  ['xh2c', ['a'], NO_UPGRADE],
  ['h2c, websocket', ['a'], NO_UPGRADE],
  // HTTP/1.0 allows it.
  [undefined, undefined, undefined],
  [undefined, ['a', 'b'], 'Send one Host header.'],
  [undefined, ['a', 'a'], 'Send one Host header.'],
])('R78 an upgrade to %s for %j: %s', (upgrade, host, detail) => {
  const next = vi.fn();
  plainHttp({ headers: { upgrade }, headersDistinct: { host } } as unknown as Request, {} as Response, next);
  const refusal = { code: 'invalid_request', detail, headers: { Connection: 'close' } };
  expect(next.mock.calls).toEqual([detail === undefined ? [] : [expect.objectContaining(refusal)]]);
});

describe('R78 bytes that never become a request', () => {
  /** @returns the bytes written to the connection, or undefined if it is closed without a response */
  function responseTo(
    event: 'clientError' | 'connect',
    payload: object,
    socketState: object = {},
    page: RefusalPage = { policy: 'POLICY', draw: () => 'PAGE' },
  ): string | undefined {
    const server = new EventEmitter();
    refuseUnreadable(server as unknown as Server, createRefuse({ publicHref: 'https://gatehouse.test/gate', page }));
    const socket = { writable: true, end: vi.fn<(text: string) => void>(), destroy: vi.fn(), ...socketState };
    server.emit(event, payload, socket);
    expect(socket.end.mock.calls.length + socket.destroy.mock.calls.length).toBe(1);
    return socket.end.mock.calls[0]?.[0];
  }

  const parse = (text = '') => {
    const [head = '', body = ''] = text.split('\r\n\r\n');
    const [line, ...headers] = head.split('\r\n');
    const { instance, ...problem } = JSON.parse(body);
    const id = /^urn:uuid:([0-9a-f-]{36})$/.exec(instance)?.[1];
    return { line, headers: headers.map((header) => header.replace(String(id), 'ID')), problem, length: body.length };
  };
  const expectedHeaders = (length: number) => [
    'Cache-Control: no-store',
    "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'; sandbox",
    'Cross-Origin-Opener-Policy: same-origin',
    'Cross-Origin-Resource-Policy: same-origin',
    'Referrer-Policy: same-origin',
    'Strict-Transport-Security: max-age=31536000',
    'X-Content-Type-Options: nosniff',
    'Connection: close',
    'Content-Type: application/problem+json; charset=utf-8',
    `Content-Length: ${length}`,
    'X-Request-Id: ID',
  ];
  const type = (code: string) => `https://gatehouse.test/gate/problems/${code}`;

  test.each([
    ['HPE_HEADER_OVERFLOW', '431 Request Header Fields Too Large', 'too_large', 'The request is too large'],
    ['HPE_CHUNK_EXTENSIONS_OVERFLOW', '413 Content Too Large', 'too_large', 'The request is too large'],
    ['ERR_HTTP_REQUEST_TIMEOUT', '408 Request Timeout', 'invalid_request', 'The request is not valid'],
    ['HPE_INVALID_METHOD', '400 Bad Request', 'invalid_request', 'The request is not valid'],
    [undefined, '400 Bad Request', 'invalid_request', 'The request is not valid'],
  ])('%s gets the status %s', (failure, status, code, title) => {
    const { line, headers, problem, length } = parse(responseTo('clientError', { code: failure }));
    expect(line).toBe(`HTTP/1.1 ${status}`);
    expect(headers).toEqual(expectedHeaders(length));
    expect(problem).toEqual({ type: type(code), title, status: Number(status.slice(0, 3)), code });
  });

  test.each([
    ['a navigation', 'GET /\u0000 HTTP/1.1\r\nHost: x\r\nACCEPT:  text/html,*/*;q=0.8\r\n\r\n', true],
    ['a program', 'GET /\u0000 HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n', false],
    ['a program that would take a page', 'GET / HTTP/9\r\nAccept: application/json, text/html;q=0.1\r\n\r\n', false],
    ['a program with cookies that names no type', 'GET / HTTP/9\r\nCookie: a=b\r\n\r\n', false],
    ['a head whose beginning came before, with cookies', 'x: y\r\nCookie: a=b\r\n\r\n', true],
    ['a head whose beginning came before, in its cookies', 'x; b=c; d=e', true],
    ['a head whose beginning came before, of a navigation', 'x\r\nSec-Fetch-Mode: navigate\r\n\r\n', true],
    ['a head whose beginning came before, of a script', 'x\r\nSec-Fetch-Mode: cors\r\nCookie: a=b\r\n\r\n', false],
    ['a head whose beginning came before, of a program', 'x: y\r\nX-Long: xxx\r\n\r\n', false],
    ['a head whose beginning came before, with what it accepts', 'x: y\r\nAccept: */*\r\nCookie: a=b\r\n\r\n', false],
    ['the words in another header', 'GET / HTTP/9\r\nX-Accept: text/html\r\n\r\n', false],
  ])('a browser gets a page: %s', (_what, bytes, isPage) => {
    const text = responseTo('clientError', { code: 'HPE_INVALID_METHOD', rawPacket: Buffer.from(bytes) }) ?? '';
    expect(text.endsWith('\r\n\r\nPAGE')).toBe(isPage);
    expect(text.includes('Content-Security-Policy: POLICY\r\n')).toBe(isPage);
    expect(text.includes('Content-Type: text/html; charset=utf-8\r\nContent-Length: 4\r\n')).toBe(isPage);
  });

  test('the page is told the cookies, without the value that was cut', () => {
    const cookies: (string | undefined)[] = [];
    const page: RefusalPage = { policy: '', draw: ({ cookie }) => String(cookies.push(cookie)) };
    const refuse = (bytes: string) =>
      responseTo('clientError', { code: 'HPE_HEADER_OVERFLOW', rawPacket: Buffer.from(bytes) }, {}, page);
    refuse('x\r\nCookie: a=b; c=d');
    refuse('secret=x; b=c; d=e\r\nSec-Fetch-Mode: navigate');
    refuse('x\r\nSec-Fetch-Mode: navigate');
    expect(cookies).toEqual(['a=b; c=d', 'b=c; d=e', undefined]);
  });

  test('a CONNECT gets the allowed methods', () => {
    const { line, headers, problem, length } = parse(responseTo('connect', {}));
    expect(line).toBe('HTTP/1.1 405 Method Not Allowed');
    expect(headers).toEqual(['Allow: GET, HEAD, POST', ...expectedHeaders(length)]);
    expect(problem).toMatchObject({ type: type('method_not_allowed'), status: 405, code: 'method_not_allowed' });
  });

  test('a disconnected peer, or one that has its response, gets nothing', () => {
    const broken = { code: 'HPE_INVALID_METHOD' };
    expect(responseTo('clientError', { code: 'ECONNRESET' })).toBeUndefined();
    expect(responseTo('clientError', broken, { writable: false })).toBeUndefined();
    const req = { method: 'POST', headers: {} };
    expect(responseTo('clientError', broken, { _httpMessage: { req, headersSent: true } })).toBeUndefined();
    expect(responseTo('clientError', broken, { _httpMessage: { req, headersSent: false } })).toContain(
      '400 Bad Request',
    );
    expect(responseTo('clientError', broken, { _httpMessage: null })).toContain('400 Bad Request');
  });
});
