/**
 * `GET /threads/current` over HTTP: what is sent to the platform, what is returned, and the response to each failure.
 */
import { brotliCompressSync, deflateRawSync, gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { FaultKind } from '../../../src/sandbox/faults.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { getJson, JSON_ONLY, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { disconnect } from '../grants/storage-access.ts';
import { sendRaw } from './raw-http.ts';

let site: TestSite;
let agent: UserAgent;
let cookie: string;
beforeAll(async () => {
  site = await startSite();
  ({ agent } = await signIn(site));
  cookie = agent.cookies.header(site.url);
  site.sandbox.requests.reset();
});
afterAll(() => site.close());
afterEach(() => {
  site.sandbox.faults.clear();
  site.sandbox.requests.reset();
});

const readThread = () => getJson(agent, `${site.url}/threads/current`);
const setPlatformFault = (fault: FaultKind & { times?: number }) =>
  site.sandbox.faults.set({ listener: 'platform', ...fault });
/** The lines of the head of a request by the signed-in user. */
const headOf = (requestLine: string, ...headers: string[]) => [
  requestLine,
  `Host: ${new URL(site.url).host}`,
  `Cookie: ${cookie}`,
  'Accept: application/json',
  'Connection: close',
  ...headers,
];

describe('R74: the URL of the platform is fixed', () => {
  const TARGETS = [
    '/threads/current?url=http://evil.example/',
    '/threads/current?path=/1/users/current&host=evil.example',
    '/threads/current?app=platform&app_path=%2F..%2Fadmin',
    '/threads/current?%2e%2e%2fadmin',
    '/threads/../admin',
    '/threads/current/../../1/users/current',
    '/threads/current/..%2f..%2fadmin',
    '/threads/%2e%2e/admin',
    '/threads/current%2f..%2fadmin',
    '/threads/current/%2e%2e/%2e%2e/1/users/current',
    '/threads/current\\..\\admin',
    '/threads/current%5c..%5cadmin',
    '/threads/current;/../admin',
    '/threads/current/',
    '/threads/CURRENT',
    '/threads/current%00',
    '//evil.example/threads/current',
    '///evil.example/threads/current',
    '/\\evil.example/threads/current',
    'http://evil.example/threads/current',
    'http://evil.example/1/users/current',
    'https://evil.example:443/threads/current?x=1',
  ];

  test.each(TARGETS)('%s', async (target) => {
    const { status } = await sendRaw(site.url, headOf(`GET ${target} HTTP/1.1`));

    expect([200, 400, 404]).toContain(status);
    const requests = site.sandbox.requests.latest('platform');
    const requestLines = requests.map(({ method, url }) => `${method} ${url}`);
    expect(requestLines).toEqual(status === 200 ? ['GET /1/threads/current'] : []);
    for (const { headers } of requests) expect(headers.host).toBe(new URL(site.sandbox.platformUrl).host);
  });

  test('refuses an unknown query parameter', async () => {
    const { status } = await sendRaw(site.url, headOf('GET /threads/current?url=http://evil.example/ HTTP/1.1'));
    expect(status).toBe(400);
  });

  test('a HEAD makes the same call and returns no body', async () => {
    const { status, body } = await sendRaw(site.url, headOf('HEAD /threads/current HTTP/1.1'));
    expect([status, body]).toEqual([200, '']);
  });

  test.each([
    ['R77: POST', 'POST', 405],
    ['R77: PUT', 'PUT', 405],
    ['R77: DELETE', 'DELETE', 405],
    ['R77: TRACE', 'TRACE', 405],
    ['R77: OPTIONS', 'OPTIONS', 405],
  ])('%s is refused, and nothing is sent', async (_name, method, expected) => {
    const { status } = await sendRaw(site.url, headOf(`${method} /threads/current HTTP/1.1`, 'Content-Length: 0'));
    expect(status).toBe(expected);
    expect(site.sandbox.requests.latest('platform')).toEqual([]);
  });

  test('R77: method overrides and forwarded URIs have no effect', async () => {
    const response = await sendRaw(
      site.url,
      headOf(
        'GET /threads/current HTTP/1.1',
        'X-HTTP-Method-Override: DELETE',
        'X-Forwarded-Uri: /1/users/current',
        'X-Original-URL: /1/users/current',
        'X-Rewrite-URL: /1/users/current',
      ),
    );
    expect(response.status).toBe(200);
    expect(site.sandbox.requests.latest('platform').map(({ method, url }) => `${method} ${url}`)).toEqual([
      'GET /1/threads/current',
    ]);
  });

  test.each([
    ['two lengths', ['Content-Length: 0', 'Content-Length: 5']],
    ['a length and chunks', ['Content-Length: 5', 'Transfer-Encoding: chunked']],
    ['a folded header', ['X-A: b', ' folded: c']],
    ['an unknown coding', ['Transfer-Encoding: xchunked']],
  ])('R78: %s are refused, and nothing is sent', async (_name, headers) => {
    const { status } = await sendRaw(site.url, headOf('GET /threads/current HTTP/1.1', ...headers));
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(500);
    expect(site.sandbox.requests.latest('platform')).toEqual([]);
  });
});

describe('R75: request headers', () => {
  test('no header of the caller reaches the platform, even if the header Connection names it', async () => {
    const response = await sendRaw(
      site.url,
      headOf(
        'GET /threads/current HTTP/1.1',
        'Connection: authorization, x-listed, close',
        'Authorization: Basic ZXZpbDpldmls',
        'X-Listed: listed-canary',
        'X-Forwarded-For: 203.0.113.7',
        'X-Forwarded-Host: evil.example',
        'X-Forwarded-Proto: https',
        'X_Forwarded_For: 203.0.113.8',
        'X-Original-URL: /admin',
        'Proxy-Authorization: Basic proxy-canary',
        'Proxy-Connection: keep-alive',
        'Forwarded: for=203.0.113.9',
        'Via: 1.1 via-canary',
        'X-Real-IP: 203.0.113.10',
        'X-User: user-canary',
        'X_User: user-canary',
        'X-Request-Id: request-id-canary',
        'If-None-Match: "etag-canary"',
        'Range: bytes=0-1',
        'Accept-Encoding: gzip, br',
        'User-Agent: agent-canary',
        'Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        'TE: trailers',
        'Expect-CT: max-age=0',
      ),
    );
    expect(response.status).toBe(200);
    const [hit, ...others] = site.sandbox.requests.latest('platform');
    expect(others).toEqual([]);
    // Raw headers are a flat list of names and values.
    const names = (hit?.rawHeaders ?? []).filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase());
    expect(names.toSorted()).toEqual([
      'accept',
      'accept-encoding',
      'authorization',
      'connection',
      'host',
      'user-agent',
    ]);
    expect(hit?.headers).toMatchObject({
      accept: 'application/json',
      'accept-encoding': 'identity',
      'user-agent': 'Gatehouse',
      authorization: expect.stringMatching(/^Bearer [A-Za-z0-9_-]{20,}$/),
    });
    expect(hit?.rawHeaders.join('\n')).not.toMatch(/canary|evil|203\.0\.113/);
  });
});

describe('R76: response headers', () => {
  test('only a few headers are passed on, and none overrides a header of Gatehouse', async () => {
    setPlatformFault({
      kind: 'response',
      status: 200,
      body: { thread: {} },
      headers: {
        'Set-Cookie': 'evil=1; Path=/',
        'Access-Control-Allow-Origin': '*',
        'Access-Control-Allow-Credentials': 'true',
        'Clear-Site-Data': '"*"',
        Server: 'nginx/1.2.3',
        'X-Powered-By': 'PHP',
        Location: 'https://evil.example/',
        Refresh: '0;url=https://evil.example/',
        Link: '<https://evil.example/>; rel=preload',
        'Cache-Control': 'public, max-age=9999',
        'Content-Security-Policy': 'default-src *',
        'Strict-Transport-Security': 'max-age=1',
        'Content-Disposition': 'attachment; filename=x',
        'X-Frame-Options': 'ALLOWALL',
        'Proxy-Status': 'evil',
        'WWW-Authenticate': 'Basic realm=evil',
        'X-Request-Id': 'platform-request-id',
        ETag: '"v1"',
        'Last-Modified': 'Wed, 01 Jan 2025 00:00:00 GMT',
        'Content-Language': 'da',
      },
    });
    const { status, headers } = await readThread();
    expect(status).toBe(200);
    for (const name of [
      'set-cookie',
      'access-control-allow-origin',
      'access-control-allow-credentials',
      'clear-site-data',
      'server',
      'x-powered-by',
      'location',
      'refresh',
      'link',
      'content-disposition',
      'proxy-status',
      'www-authenticate',
    ]) {
      expect(headers.get(name), name).toBeNull();
    }
    expect(headers.get('etag')).toBe('"v1"');
    expect(headers.get('last-modified')).toBe('Wed, 01 Jan 2025 00:00:00 GMT');
    expect(headers.get('content-language')).toBe('da');
    expect(headers.get('content-type')).toBe('application/json');
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('content-security-policy')).toBe("default-src 'none'; frame-ancestors 'none'; sandbox");
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('x-request-id')).not.toBe('platform-request-id');
  });

  test.each(['gzip', 'br', 'x-unknown'])(
    'a body that is not what its content encoding %s says is refused',
    async (encoding) => {
      setPlatformFault({ kind: 'response', status: 200, body: 'packed', headers: { 'Content-Encoding': encoding } });
      const { status, json } = await readThread();
      expect([status, json.code]).toEqual([502, 'platform_error']);
      expect(JSON.stringify(json)).not.toContain('packed');
      setPlatformFault({ kind: 'response', status: 404, body: 'packed', headers: { 'Content-Encoding': encoding } });
      expect((await readThread()).status).toBe(502);
    },
  );

  test.each([
    ['gzip', gzipSync],
    ['br', brotliCompressSync],
    ['deflate', deflateRawSync],
  ])(
    'a body that a CDN compressed with %s without a request for it is passed on uncompressed',
    async (encoding, compress) => {
      const thread = { title: 'Long '.repeat(20_000) };
      setPlatformFault({
        kind: 'response',
        status: 200,
        body: compress(JSON.stringify(thread)),
        headers: { 'Content-Encoding': encoding, 'Content-Type': 'application/json', ETag: '"packed"' },
      });
      const page = await agent.get(`${site.url}/threads/current`, { headers: { 'accept-encoding': 'gzip, br' } });
      expect([page.status, JSON.parse(page.body)]).toEqual([200, thread]);
      expect(page.headers.get('content-encoding')).toBeNull();
      expect(page.headers.get('content-length')).toBeNull();
      expect(page.headers.get('content-type')).toBe('application/json');
      expect(page.headers.get('etag')).toBe('W/"packed"');
      expect((await agent.get(`${site.url}/`)).body).toContain('Long Long');
    },
  );

  test('a body with the identity encoding passes', async () => {
    setPlatformFault({ kind: 'response', status: 200, body: {}, headers: { 'Content-Encoding': 'identity' } });
    const { status, headers } = await readThread();
    expect([status, headers.get('content-encoding')]).toEqual([200, null]);
  });

  test.each(['text/html; charset=iso-8859-1', 'text/plain', 'application/vnd.quip+json', 'nonsense'])(
    'the media type %s is passed on unchanged',
    async (type) => {
      setPlatformFault({ kind: 'response', status: 200, body: 'x', headers: { 'Content-Type': type } });
      const page = await agent.get(`${site.url}/threads/current`);
      expect([page.status, page.headers.get('content-type')]).toEqual([200, type]);
    },
  );

  test('a page of the platform is served as data, and must not run scripts', async () => {
    setPlatformFault({
      kind: 'response',
      status: 200,
      body: '<script>alert(1)</script>',
      headers: { 'Content-Type': 'text/html' },
    });
    const page = await agent.get(`${site.url}/threads/current`);
    expect(page.headers.get('content-security-policy')).toContain('sandbox');
    expect(page.headers.get('x-content-type-options')).toBe('nosniff');
  });

  test('R61: no response has the access token', async () => {
    await readThread();
    const [hit] = site.sandbox.requests.latest('platform');
    const token = hit?.headers.authorization?.slice('Bearer '.length) ?? '';
    expect(token.length).toBeGreaterThan(20);
    for (const path of ['/threads/current', '/', '/session', '/connections', '/connections/platform']) {
      const page = await agent.get(site.url + path);
      expect(page.status).toBe(200);
      expect(page.body + JSON.stringify([...page.headers])).not.toContain(token);
    }
  });
});

describe('responses of the platform', () => {
  const unixTimeInTwoMinutes = () => String(Math.floor(Date.now() / 1000) + 120);
  interface Expected {
    status: number;
    code: string;
    /** The status of the platform, if the response names it. */
    received?: string;
    /** The seconds to wait. */
    retry?: { atLeast: number; atMost: number };
  }
  /** The fault is created during the test, since some headers depend on the time. */
  type Case = [description: string, createFault: () => FaultKind, expected: Expected];
  const faultOf =
    (status: number, body: string | object = {}, headers: Record<string, string> = {}): (() => FaultKind) =>
    () => ({ kind: 'response', status, body, headers });
  const rateLimited = (received: string, [atLeast, atMost]: [number, number]) => ({
    status: 429,
    code: 'platform_rate_limited',
    received,
    retry: { atLeast, atMost },
  });
  const PLATFORM_ERROR = { status: 502, code: 'platform_error' };

  const CASES: Case[] = [
    ['429 with seconds', faultOf(429, {}, { 'Retry-After': '17' }), rateLimited('429', [17, 17])],
    [
      '429 with a date',
      () => faultOf(429, {}, { 'Retry-After': new Date(Date.now() + 90_000).toUTCString() })(),
      rateLimited('429', [85, 91]),
    ],
    [
      '429 with a date in the past',
      faultOf(429, {}, { 'Retry-After': 'Sun Nov  6 08:49:37 1994' }),
      rateLimited('429', [1, 1]),
    ],
    [
      '429 with a reset',
      () => faultOf(429, {}, { 'X-Ratelimit-Reset': unixTimeInTwoMinutes() })(),
      rateLimited('429', [115, 121]),
    ],
    [
      '429 with a reset in seconds from now',
      faultOf(429, {}, { 'X-Ratelimit-Reset': '40' }),
      rateLimited('429', [40, 40]),
    ],
    [
      '429 of the company with its reset',
      () =>
        faultOf(
          429,
          {},
          { 'X-Company-RateLimit-Remaining': '0', 'X-Company-RateLimit-Reset': unixTimeInTwoMinutes() },
        )(),
      rateLimited('429', [115, 121]),
    ],
    ['429 with a reset of 0', faultOf(429, {}, { 'X-Ratelimit-Reset': '0' }), rateLimited('429', [60, 60])],
    ['429 without a time', faultOf(429), rateLimited('429', [60, 60])],
    [
      '429 with invalid times',
      faultOf(429, {}, { 'Retry-After': '-5', 'X-Ratelimit-Reset': 'soon' }),
      rateLimited('429', [60, 60]),
    ],
    ['429 with a wait of a year', faultOf(429, {}, { 'Retry-After': '31536000' }), rateLimited('429', [3600, 3600])],
    ['503 "Over Rate Limit"', faultOf(503, { error_description: 'Over Rate Limit' }), rateLimited('503', [60, 60])],
    ['503 with no remaining calls', faultOf(503, '', { 'X-Ratelimit-Remaining': '0' }), rateLimited('503', [60, 60])],
    [
      '503 with no remaining calls of the company',
      faultOf(503, '', { 'X-Company-RateLimit-Remaining': '0' }),
      rateLimited('503', [60, 60]),
    ],
    [
      '503 with a wait of the company',
      faultOf(503, '', { 'X-Company-Retry-After': '33' }),
      rateLimited('503', [33, 33]),
    ],
    ['503 of any other kind', faultOf(503, 'Service Unavailable', { 'Retry-After': '9' }), PLATFORM_ERROR],
    ['503 with remaining calls', faultOf(503, '', { 'X-Ratelimit-Remaining': '12' }), PLATFORM_ERROR],
    ['500 with HTML', () => ({ kind: 'error' }), PLATFORM_ERROR],
    ['502', faultOf(502), PLATFORM_ERROR],
    ['504', faultOf(504), PLATFORM_ERROR],
    ['301', faultOf(301, '', { Location: 'https://evil.example/' }), PLATFORM_ERROR],
    ['302', faultOf(302, '', { Location: '/elsewhere' }), PLATFORM_ERROR],
    ['304', faultOf(304), PLATFORM_ERROR],
    ['307', faultOf(307, '', { Location: 'https://evil.example/' }), PLATFORM_ERROR],
    ['a 401 for a refreshed token, too', faultOf(401), PLATFORM_ERROR],
    ['a reset', () => ({ kind: 'reset' }), PLATFORM_ERROR],
    ['a reset before the head', () => ({ kind: 'reset', when: 'before_headers' }), PLATFORM_ERROR],
  ];

  /** Lets the time pass until the platform may be called again. The session has expired by then. */
  const passTime = async (seconds: number) => {
    site.sandbox.faults.clear();
    advanceClock(seconds);
    ({ agent } = await signIn(site));
    cookie = agent.cookies.header(site.url);
  };

  const CHALLENGE = {
    'WWW-Authenticate': 'Bearer realm="", error="insufficient_claims", claims="bm90IHJlYWxseSBKU09O"',
  };
  test.each([
    [401, 5],
    // A token that was just refreshed is not refreshed again.
    [401, 0],
    [403, 5],
  ])(
    'a claims challenge that cannot be read is named (%i), %i seconds after the sign-in',
    async (status, secondsAfterSignIn) => {
      ({ agent } = await signIn(site));
      advanceClock(secondsAfterSignIn);
      setPlatformFault({ kind: 'response', status, body: {}, headers: CHALLENGE });

      const { status: receivedStatus, json, headers } = await readThread();
      expect([receivedStatus, json.code, json.connectUrl]).toEqual([
        502,
        'platform_error',
        `${site.url}/connections/platform`,
      ]);
      expect(json.detail).toMatch(/requires more of the user’s sign-in.*\(claims challenge\)\. Connect .* again/);
      expect(headers.get('proxy-status')).toBe(`gatehouse; received-status=${status}`);
      // Lines of the audit trail may come before or after this line.
      const requestId = headers.get('x-request-id');
      const linesOfRequest = site.logs().filter((line) => line.includes(`"requestId":"${requestId}"`));
      expect(linesOfRequest).toContainEqual(
        expect.stringContaining(`the platform responded with ${status} and a claims challenge`),
      );
      expect(site.logs().join('')).not.toContain('bm90IHJl');

      const page = await agent.get(`${site.url}/threads/current`);
      expect(page.body).toContain('Reconnect');
      const reference = /class="reference(?:-small)?"[^>]*>([^<]*)</.exec(page.body)?.[1] ?? '';
      const { agent: adminBrowser } = await signIn(site, 'admin@example.test');
      const search = await getJson(adminBrowser, `${site.url}/admin/api/sign-ins?q=${reference}`);
      expect(search.json.problem).toMatchObject({ code: 'platform_error', cause: 'insufficient_claims' });
    },
  );

  describe('a scope that the access token lacks', () => {
    const scope = 'platform_read_only';
    test.each([
      [401, `Bearer error="insufficient_scope", scope="${scope}"`],
      [403, `Bearer realm="x", error="insufficient_scope", error_description="No.", scope="unknown ${scope}"`],
      [403, `DPoP error=insufficient_scope, scope=${scope}`],
    ])('with %i %s names the page where the user adds it', async (status, challenge) => {
      ({ agent } = await signIn(site));
      setPlatformFault({ kind: 'response', status, body: {}, headers: { 'WWW-Authenticate': challenge } });
      const { status: receivedStatus, json, headers } = await readThread();
      const connectUrl = `${site.url}/connections/platform?scope=${scope}`;
      expect([receivedStatus, json.code, json.connectUrl]).toEqual([403, 'scopes_missing', connectUrl]);
      expect(headers.get('proxy-status')).toBe(`gatehouse; received-status=${status}`);
      const { json: list } = await getJson(agent, `${site.url}/connections`);
      expect(list.items).toMatchObject([{ health: 'active', missingScopes: [] }]);
      for (const path of ['/', '/threads/current']) {
        const page = await agent.get(site.url + path);
        expect(page.body).toMatch(new RegExp(`href="${connectUrl.replace('?', '[?]')}"[^>]*>Add permissions`));
      }
      const page = await agent.get(connectUrl);
      expect(page.body).toContain('needs more permissions');
    });

    test.each([
      'Bearer error="insufficient_scope"',
      'Bearer error="insufficient_scope", scope="unknown"',
      'Bearer error="invalid_request", scope="platform_read_only"',
    ])('passes the response on if the user cannot add it: %s', async (challenge) => {
      ({ agent } = await signIn(site));
      setPlatformFault({
        kind: 'response',
        status: 403,
        body: { error: 'no' },
        headers: { 'WWW-Authenticate': challenge },
      });
      const { status, json } = await readThread();
      expect([status, json]).toEqual([403, { error: 'no' }]);
    });
  });

  test.each(CASES)('%s', async (_description, createFault, { status, code, received, retry }) => {
    advanceClock(5);
    setPlatformFault(createFault());

    const { status: receivedStatus, json, headers } = await readThread();

    expect(receivedStatus).toBe(status);
    expect(json).toMatchObject({
      status,
      code,
      type: `${site.url}/problems/${code}`,
      instance: expect.stringMatching(/^urn:uuid:/),
    });
    expect(headers.get('content-type')).toMatch(/^application\/problem\+json/);
    const proxyStatus = received ? `gatehouse; received-status=${received}` : 'gatehouse; error=http_protocol_error';
    expect(headers.get('proxy-status')).toBe(proxyStatus);
    expect(headers.get('location')).toBeNull();
    expect(site.sandbox.requests.count('GET /elsewhere')).toBe(0);

    if (!retry) {
      expect(headers.get('retry-after')).toBeNull();
      return;
    }
    expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(retry.atLeast);
    expect(Number(headers.get('retry-after'))).toBeLessThanOrEqual(retry.atMost);
    await passTime(retry.atMost);
  });

  test('after a refusal with a time, the platform is not called before it, and a call gets the remaining wait', async () => {
    const { agent: secondUser } = await signIn(site, 'second@example.test');
    site.sandbox.requests.reset();
    setPlatformFault({ ...faultOf(429, {}, { 'Retry-After': '20' })(), times: 1 });
    expect((await readThread()).headers.get('retry-after')).toBe('20');

    advanceClock(8);
    const { status, json, headers } = await readThread();
    expect([status, json.code]).toEqual([429, 'platform_rate_limited']);
    // Real time passes as well.
    expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(5);
    expect(Number(headers.get('retry-after'))).toBeLessThanOrEqual(12);
    expect(headers.get('proxy-status')).toBe('gatehouse; error=http_request_denied');
    expect(site.sandbox.requests.count('GET /1/threads/current')).toBe(1);
    expect((await getJson(secondUser, `${site.url}/threads/current`)).status).toBe(200);

    advanceClock(12);
    expect((await readThread()).status).toBe(200);
  });

  test('after a refusal without a time, the user may call again at once', async () => {
    setPlatformFault({ ...faultOf(429)(), times: 1 });
    expect((await readThread()).status).toBe(429);
    expect((await readThread()).status).toBe(200);
  });

  test.each([400, 402, 403, 404, 405, 409, 410, 418, 422, 451])(
    'a response with status %i is passed on with the body of the platform',
    async (status) => {
      const body = { error: 'theirs', error_code: status, error_description: 'Said by the platform.' };
      setPlatformFault({ kind: 'response', status, body });
      const { status: receivedStatus, json, headers } = await readThread();
      expect([receivedStatus, json]).toEqual([status, body]);
      expect(headers.get('proxy-status')).toBeNull();
      expect(headers.get('content-type')).toBe('application/json');
    },
  );

  test.each([200, 201, 203])('a response with status %i is passed on', async (status) => {
    setPlatformFault({ kind: 'response', status, body: { ok: true } });
    expect(await readThread()).toMatchObject({ status, json: { ok: true } });
  });

  test('a response with status 204 is passed on without a body', async () => {
    setPlatformFault({ kind: 'response', status: 204 });
    const page = await agent.get(`${site.url}/threads/current`, JSON_ONLY);
    expect([page.status, page.body]).toEqual([204, '']);
  });

  test.each<[string, FaultKind]>([
    ['that ends before its length', { kind: 'truncated' }],
    ['that is reset', { kind: 'reset', when: 'after_headers' }],
  ])('a body %s never ends as a complete response', async (_name, fault) => {
    setPlatformFault(fault);
    const response = await fetch(`${site.url}/threads/current`, { headers: { cookie, accept: 'application/json' } });
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toThrow();
  });

  test('a refusal repeats nothing of the platform’s response', async () => {
    setPlatformFault({ kind: 'response', status: 500, body: 'stack-trace-canary' });
    const page = await agent.get(`${site.url}/threads/current`, JSON_ONLY);
    expect(page.status).toBe(502);
    expect(page.body).not.toContain('canary');
    expect(site.logs().join('')).not.toContain('stack-trace-canary');
  });

  test('a browser gets a page instead of JSON', async () => {
    setPlatformFault({ kind: 'error' });
    const page = await agent.get(`${site.url}/threads/current`);
    expect([page.status, page.headers.get('content-type')]).toEqual([502, 'text/html; charset=utf-8']);
    expect(page.headers.get('proxy-status')).toBe('gatehouse; error=http_protocol_error');
  });
});

describe('refusals by Gatehouse', () => {
  test('sign_in_required without a session, and nothing is sent', async () => {
    const response = await fetch(`${site.url}/threads/current`, { headers: { accept: 'application/json' } });
    expect([response.status, ((await response.json()) as { code: string }).code]).toEqual([401, 'sign_in_required']);
    expect(site.sandbox.requests.latest()).toEqual([]);
  });

  test('not_connected, with the URL to connect', async () => {
    const { agent: secondUser } = await signIn(site, 'second@example.test');
    await disconnect(site, secondUser);
    site.sandbox.requests.reset();
    const { status, json, headers } = await getJson(secondUser, `${site.url}/threads/current`);
    expect({ status, ...json }).toMatchObject({
      status: 403,
      code: 'not_connected',
      connectUrl: `${site.url}/connections/platform`,
    });
    expect(headers.get('proxy-status')).toBe('gatehouse; error=http_request_denied');
    expect(site.sandbox.requests.latest()).toEqual([]);
  });

  test.each([
    ['unknown', '?app=nobody', 404, 'not_found'],
    ['empty', '?app=', 404, 'not_found'],
    ['named twice', '?app=platform&app=platform', 400, 'invalid_request'],
    ['a property of every object', '?app=__proto__', 404, 'not_found'],
    ['the only one', '?app=platform', 200, undefined],
  ])('the parameter app with a value that is %s', async (_description, query, status, code) => {
    const response = await getJson(agent, `${site.url}/threads/current${query}`);
    expect([response.status, response.json.code]).toEqual([status, code]);
  });
});

describe('with several apps that serve threads', () => {
  const THREAD_PATHS = { platform: '/1/threads/current', second: '/1/threads/recent' };
  const calledPaths = (siteWithSeveral: TestSite) =>
    siteWithSeveral.sandbox.requests.latest('platform').map(({ path }) => path);

  test('serves the app that the user signed in with, or the one that the query names', async () => {
    const siteWithSeveral = await startSite({
      apps: (urls) => [sandboxApp(urls, 'platform'), sandboxApp(urls, 'second', { threadPath: THREAD_PATHS.second })],
    });
    try {
      for (const app of ['platform', 'second'] as const) {
        const { agent: user } = await signIn(siteWithSeveral, 'user@example.test', { path: `/sign-in?app=${app}` });
        siteWithSeveral.sandbox.requests.reset();
        // The first request reads only the session beforehand, later ones also the grant.
        for (let calls = 0; calls < 2; calls += 1) {
          expect((await getJson(user, `${siteWithSeveral.url}/threads/current`)).status).toBe(200);
        }
        expect(calledPaths(siteWithSeveral)).toEqual([THREAD_PATHS[app], THREAD_PATHS[app]]);
      }
      const { agent: secondUser } = await signIn(siteWithSeveral, 'second@example.test', {
        path: '/sign-in?app=platform',
      });
      siteWithSeveral.sandbox.requests.reset();
      expect((await getJson(secondUser, `${siteWithSeveral.url}/threads/current?app=second`)).json).toMatchObject({
        code: 'not_connected',
        connectUrl: `${siteWithSeveral.url}/connections/second`,
      });
      expect(calledPaths(siteWithSeveral)).toEqual([]);
    } finally {
      await siteWithSeveral.close();
    }
  });

  test('the query must name an app if the user signed in with one that serves no threads', async () => {
    const siteWithSeveral = await startSite({
      apps: (urls) => [
        sandboxApp(urls, 'platform', { apiBaseUrl: undefined }),
        sandboxApp(urls, 'second', { signIn: undefined }),
        sandboxApp(urls, 'second', { signIn: undefined, id: 'third' }),
      ],
    });
    try {
      const { agent: user } = await signIn(siteWithSeveral);
      siteWithSeveral.sandbox.requests.reset();
      const { status, json } = await getJson(user, `${siteWithSeveral.url}/threads/current`);
      expect([status, json.code]).toEqual([400, 'invalid_request']);
      expect(siteWithSeveral.sandbox.requests.latest()).toEqual([]);
    } finally {
      await siteWithSeveral.close();
    }
  });
});
