/**
 * `/api/{app}/…` and `/relay/api/{app}/…` over HTTP: the calls that a browser and a service make, what is sent to the
 * platform, and what is refused.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { UserAgent } from '../../support/browserless.ts';
import { sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { HOSTILE_SEGMENTS } from '../../support/hostile-paths.ts';
import { ACCEPT_JSON, JSON_BODY, type RequestDetails, sendRequest } from '../../support/send-request.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, bearer, codeOf, createAdministrator } from '../relay/service.ts';
import { sendRaw } from './raw-http.ts';

const READ = 'platform_read_only';
const WRITE = 'platform_full_access';
/** A number that passes for one of a card. */
const LONG_ID = '4111111111111111';
const ROUTES = [
  { name: 'thread', method: 'GET', path: '/1/threads/{id}', query: ['fields'], scopes: [READ] },
  { name: 'threads', method: 'GET', path: '/1/threads', query: ['limit', 'cursor'] },
  { name: 'message', method: 'POST', path: '/1/threads/{id}/messages' },
  { name: 'rename', method: 'PATCH', path: '/1/threads/{id}' },
  { name: 'delete', method: 'DELETE', path: '/1/threads/{id}' },
  { name: 'admin', method: 'GET', path: '/1/admin', scopes: [WRITE] },
];

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
let userId: string;
let asUser: Record<string, string>;
let asService: Record<string, string>;
beforeAll(async () => {
  site = await startSite({
    sandbox: { accessTokenSeconds: 3_600 },
    env: {
      RATE_LIMIT_PER_SESSION_PER_MINUTE: '100000',
      RATE_LIMIT_PER_RELAY_TOKEN_PER_MINUTE: '100000',
      RATE_LIMIT_PER_ADDRESS_PER_MINUTE: '100000',
    },
    apps: (urls) => {
      const app = sandboxApp(urls, 'platform', { routes: ROUTES }) as { scopes: string[] };
      return [{ ...app, scopes: [...app.scopes, WRITE] }];
    },
  });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent } = await signIn(site));
  const session = await sessionOf(site, agent);
  userId = session.userId;
  asUser = { ...ACCEPT_JSON, cookie: agent.cookies.header(site.url), 'x-csrf-token': session.csrfToken };
  const { token } = await admin.createRelayToken({ assertUser: true, routes: ROUTES.map(({ name }) => name) });
  asService = { ...bearer(token), 'gatehouse-user': userId };
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});
beforeEach(() => site.sandbox.requests.reset());
afterEach(() => site.sandbox.faults.clear());

const CALLERS = [
  ['a browser', '/api', () => asUser],
  ['a service', '/relay/api', () => asService],
] as const;
const send = (prefix: string, path: string, options: RequestDetails = {}) =>
  sendRequest(`${site.url}${prefix}/platform${path}`, options);
/** Lets the platform respond in this way to the next calls. */
const respond = (status: number, headers: Record<string, string> = {}, body: object | string = {}) =>
  site.sandbox.faults.set({ listener: 'platform', kind: 'response', status, headers, body });
const sentCalls = () => site.sandbox.requests.latest('platform').map(({ method, url }) => `${method} ${url}`);

describe.each(CALLERS)('%s', (_words, prefix, headersOf) => {
  const call = (path: string, { headers, ...options }: RequestDetails = {}) =>
    send(prefix, path, { ...options, headers: { ...headersOf(), ...headers } });

  test('lists the routes, the current thread first', async () => {
    const { status, body } = await sendRequest(`${site.url}${prefix}/platform`, { headers: headersOf() });
    const { items: routes } = JSON.parse(body) as { items: { name: string }[] };
    expect(status).toBe(200);
    const declared = ROUTES.map((route) => ({ query: [], scopes: [], ...route }));
    expect(routes.filter(({ name }) => name !== 'current-thread')).toEqual(declared);
    const currentThread = { name: 'current-thread', method: 'GET', path: '/1/threads/current', query: [], scopes: [] };
    // The relay token does not name it.
    expect(routes.slice(0, 1)).toEqual(prefix === '/api' ? [currentThread] : [declared[0]]);
  });

  test('reads with parameters, and gets the response of the platform', async () => {
    respond(200, { ETag: '"a"', 'Set-Cookie': 'a=b', Location: '/elsewhere' }, { id: '17' });
    const { status, headers, body } = await call('/1/threads/a%20b?fields=x+y,z');
    expect([status, body]).toEqual([200, '{"id":"17"}']);
    expect(headers).toMatchObject({ etag: '"a"', 'cache-control': 'no-store' });
    expect(headers['content-security-policy']).toContain('sandbox');
    expect([headers['set-cookie'], headers.location]).toEqual([undefined, undefined]);
    expect(sentCalls()).toEqual(['GET /1/threads/a%20b?fields=x+y%2Cz']);
  });

  test('HEAD is sent as GET, and its response has no body', async () => {
    respond(200, {}, { id: '17' });
    const { status, body } = await call('/1/threads/17', { method: 'HEAD' });
    expect([status, body, sentCalls()]).toEqual([200, '', ['GET /1/threads/17']]);
  });

  test('R75 sends only Accept and validators of the caller’s headers, and not those that Connection names', async () => {
    respond(200);
    const validators = { 'if-match': '"a"', 'if-none-match': '"b"', accept: 'text/plain' };
    const others = { 'x-forwarded-host': 'evil.example', origin: site.url, range: 'bytes=0-1', te: 'trailers' };
    await call('/1/threads/17', { headers: { ...validators, ...others } });
    await call('/1/threads/17', { headers: { ...validators, connection: 'close, If-Match, ACCEPT' } });
    const [first = {}, second = {}] = site.sandbox.requests.latest('platform').map(({ headers }) => headers);
    expect(Object.keys(first).sort()).toEqual([
      'accept',
      'accept-encoding',
      'authorization',
      'connection',
      'host',
      'if-match',
      'if-none-match',
      'user-agent',
    ]);
    expect(first).toMatchObject(validators);
    expect([second.accept, second['if-match'], second['if-none-match']]).toEqual([
      'application/json',
      undefined,
      '"b"',
    ]);
  });

  test('a conditional request gets 304, and a write without content 204', async () => {
    respond(304, { ETag: '"a"' }, '');
    const unchanged = await call('/1/threads/17', { headers: { 'if-none-match': '"a"' } });
    expect([unchanged.status, unchanged.headers.etag, unchanged.body]).toEqual([304, '"a"', '']);
    expect((await call('/1/threads/17', { headers: { accept: 'if-none-match' } })).status).toBe(502);
    expect((await call('/1/threads/17')).status).toBe(502);
    site.sandbox.faults.clear();
    respond(204, {}, '');
    const deleted = await call('/1/threads/17', { method: 'DELETE' });
    expect([deleted.status, deleted.body]).toEqual([204, '']);
  });

  test('R144 pages by links to declared routes, and gets no other links', async () => {
    const { platformUrl } = site.sandbox;
    const linkFor = async (link: string): Promise<unknown> => {
      const end = respond(200, { Link: link });
      const { headers } = await call('/1/threads?limit=1');
      end();
      return headers.link;
    };
    const next = await linkFor(
      `<${platformUrl}/1/threads?limit=1&cursor=a%2Bb>; rel="next", </1/threads/17>; rel=item`,
    );
    expect(next).toBe(
      `<${prefix}/platform/1/threads?limit=1&cursor=a%2Bb>; rel="next", <${prefix}/platform/1/threads/17>; rel=item`,
    );
    expect(await linkFor(`</1/threads>; rel="first", </1/admins>; rel="related"`)).toBeUndefined();
    const [, address = ''] = /<(.*?)>/.exec(String(next)) ?? [];
    respond(200);
    expect((await sendRequest(site.url + address, { headers: headersOf() })).status).toBe(200);
    expect(sentCalls().at(-1)).toBe('GET /1/threads?limit=1&cursor=a%2Bb');
  });

  test('R142 writes a body of 1 MiB, whose bytes go on unchanged', async () => {
    const body = `{ "text":\t"${'ä'.repeat(524_281)}" }`;
    expect(Buffer.byteLength(body)).toBe(1_048_576);
    respond(201, { Location: '/1/messages/1' }, { id: 'm' });
    const { status, headers } = await call('/1/threads/17/messages', { method: 'POST', headers: JSON_BODY, body });
    expect([status, headers.location]).toEqual([201, undefined]);
    const [request] = site.sandbox.requests.latest('platform');
    expect(request?.headers).toMatchObject({ 'content-type': 'application/json', 'content-length': '1048576' });
  });

  test.each([
    ['a text', { 'content-type': 'text/plain' }, 415, 'unsupported_media_type'],
    ['a form', { 'content-type': 'application/x-www-form-urlencoded' }, 415, 'unsupported_media_type'],
    ['no type', {}, 415, 'unsupported_media_type'],
    ['a type that only begins like JSON', { 'content-type': 'application/jsonp' }, 415, 'unsupported_media_type'],
    ['compressed JSON', { ...JSON_BODY, 'content-encoding': 'gzip' }, 415, 'unsupported_media_type'],
  ])('R142 a body as %s is refused, and nothing is sent', async (_name, headers, status, code) => {
    const response = await call('/1/threads/17/messages', { method: 'POST', headers, body: '{}' });
    expect([response.status, codeOf(response), sentCalls()]).toEqual([status, code, []]);
  });

  test('R142 a body over 1 MiB is refused, and so is one of a GET', async () => {
    const body = `"${'x'.repeat(1_048_575)}"`;
    const tooLarge = await call('/1/threads/17/messages', { method: 'POST', headers: JSON_BODY, body });
    expect([tooLarge.status, codeOf(tooLarge)]).toEqual([413, 'too_large']);
    const withoutUse = await call('/1/threads/17', { headers: JSON_BODY, body: '{}' });
    expect([withoutUse.status, sentCalls()]).toEqual([400, []]);
  });

  test('R142 a body whose type belongs to the connection is refused, since it would go on without one', async () => {
    const headers = { ...JSON_BODY, connection: 'close, Content-Type' };
    const response = await call('/1/threads/17', { method: 'PATCH', headers, body: '{}' });
    expect([response.status, codeOf(response), sentCalls()]).toEqual([400, 'invalid_request', []]);
  });

  test('a write uses the connection as it is once the body has arrived', async () => {
    respond(200);
    const { accessToken } = await storage.readGrant(userId);
    const head = {
      ...headersOf(),
      ...JSON_BODY,
      host: new URL(site.url).host,
      'content-length': '2',
      expect: '100-continue',
    };
    const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}`);
    const socket = connect(Number(new URL(site.url).port), new URL(site.url).hostname);
    try {
      socket.write(`PATCH ${prefix}/platform/1/threads/17 HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n{`);
      // Node asks for the body at the moment when it begins to handle the request.
      await once(socket, 'data');
      // Responded to after what the first request reads before its body.
      expect((await call('/1/threads/17')).status).toBe(200);
      await storage.changeGrant(userId, () => ({ accessToken: 'a-newer-token' }));
      site.sandbox.requests.reset();
      socket.write('}');
      await once(socket, 'data');
      const [request] = site.sandbox.requests.latest('platform');
      expect(request?.headers.authorization).toBe('Bearer a-newer-token');
    } finally {
      socket.destroy();
      await storage.changeGrant(userId, () => ({ accessToken }));
    }
  });

  test.each(['application/merge-patch+json', 'application/json; charset=utf-8', 'Application/JSON'])(
    'a body of the type %s is sent with it',
    async (type) => {
      respond(200);
      const headers = { 'content-type': type };
      expect((await call('/1/threads/17', { method: 'PATCH', headers, body: '{}' })).status).toBe(200);
      expect(site.sandbox.requests.latest('platform')[0]?.headers['content-type']).toBe(type);
    },
  );

  test.each<[string, string, string, number, string]>([
    ['an undeclared path', 'GET', '/1/users/current', 404, 'not_found'],
    ['a path below a declared one', 'GET', '/1/threads/17/messages/1', 404, 'not_found'],
    ['another method', 'PUT', '/1/threads/17', 405, 'method_not_allowed'],
    ['an undeclared parameter', 'GET', '/1/threads/17?limit=1', 400, 'invalid_request'],
    ['a parameter twice', 'GET', '/1/threads/17?fields=a&fields=b', 400, 'invalid_request'],
    ['a parameter of the current thread', 'GET', '/1/threads/current?app=platform', 400, 'invalid_request'],
  ])('%s is refused with the reason, and nothing is sent', async (_name, method, path, status, code) => {
    const response = await call(path, { method });
    expect([response.status, codeOf(response), sentCalls()]).toEqual([status, code, []]);
    expect(JSON.parse(response.body).detail).toMatch(/\.$/);
    expect(response.headers['proxy-status']).toMatch(/^gatehouse; error=/);
    if (status === 405) expect(response.headers.allow).toBe('GET, HEAD, PATCH, DELETE');
  });

  test('an unknown app is not found', async () => {
    const expected = prefix === '/api' ? 404 : 403;
    const url = `${site.url}${prefix}/unknown`;
    expect((await sendRequest(`${url}/1/threads/17`, { headers: headersOf() })).status).toBe(expected);
    expect((await sendRequest(url, { headers: headersOf() })).status).toBe(expected);
  });

  test('R143 a route whose scope the user did not grant leads to consent, and nothing is sent', async () => {
    await storage.changeGrant(userId, ({ scopes, requestedScopes = [] }) => ({
      scopes: scopes.filter((scope) => scope !== WRITE),
      requestedScopes: requestedScopes.filter((scope) => scope !== WRITE),
    }));
    const response = await call('/1/admin');
    expect([response.status, codeOf(response), sentCalls()]).toEqual([403, 'scopes_missing', []]);
    const { connectUrl } = JSON.parse(response.body);
    expect(connectUrl).toBe(`${site.url}/connections/platform?scope=${WRITE}`);
    expect((await agent.get(connectUrl)).status).toBe(200);
    await storage.changeGrant(userId, ({ scopes, requestedScopes = [] }) => ({
      scopes: [...scopes, WRITE],
      requestedScopes: [...requestedScopes, WRITE],
    }));
    respond(200);
    expect((await call('/1/admin')).status).toBe(200);
  });

  test('a write is sent once more after a 401, with a fresh token, and its body', async () => {
    // A token that is only seconds old is not refreshed.
    advanceClock(30);
    site.sandbox.faults.set({ listener: 'platform', kind: 'response', status: 401, body: {}, times: 1 });
    const body = '{"text":"once"}';
    const response = await call('/1/threads/unknown/messages', { method: 'POST', headers: JSON_BODY, body });
    expect([response.status, response.body]).toEqual([404, expect.stringContaining('no such thread')]);
    const lengths = site.sandbox.requests.latest('platform').map(({ headers }) => headers['content-length']);
    expect(lengths).toEqual(['15', '15']);
  });

  test('R86 a long number passes in a declared parameter and in a body, and nowhere else', async () => {
    respond(200, {}, { id: LONG_ID });
    expect((await call(`/1/threads/${LONG_ID}?fields=${LONG_ID}`)).body).toContain(LONG_ID);
    const body = JSON.stringify({ text: LONG_ID });
    const options = { method: 'POST', headers: JSON_BODY, body };
    expect((await call(`/1/threads/${LONG_ID}/messages`, options)).status).toBe(200);
    site.sandbox.requests.reset();
    for (const path of [`/1/cards/${LONG_ID}`, `/1/threads/17?card=${LONG_ID}`, `/1/threads/a;${LONG_ID}`]) {
      const response = await call(path);
      expect([response.status, JSON.parse(response.body).detail]).toEqual([
        400,
        expect.stringMatching(/digits of a card/),
      ]);
    }
    const wrongMethod = await call(`/1/threads/${LONG_ID}`, { method: 'PUT' });
    expect([wrongMethod.status, sentCalls()]).toEqual([400, []]);
    expect(site.logs().join('\n')).not.toContain(LONG_ID);
  });

  test('R86 a long number in a header is not sent, or refuses a call that would change its meaning', async () => {
    respond(200);
    const dropped = { accept: `application/json;v=${LONG_ID}`, 'if-none-match': `"${LONG_ID}"` };
    expect((await call('/1/threads/17', { headers: dropped })).status).toBe(200);
    const [request] = site.sandbox.requests.latest('platform');
    expect([request?.headers.accept, request?.headers['if-none-match']]).toEqual(['application/json', undefined]);
    site.sandbox.requests.reset();
    for (const headers of [
      { ...JSON_BODY, 'if-match': `"${LONG_ID}"` },
      { 'content-type': `application/json;a=${LONG_ID}` },
    ]) {
      const response = await call('/1/threads/17', { method: 'PATCH', headers, body: '{}' });
      expect([response.status, sentCalls()]).toEqual([400, []]);
    }
  });

  test.each([
    ['If-Match that Connection names', { 'if-match': '"a"', connection: 'close, If-Match' }],
    ['If-None-Match that Connection names', { 'if-none-match': '*', connection: 'close, if-none-match' }],
    ['If-None-Match with a long number', { 'if-none-match': `"${LONG_ID}"` }],
  ])('R75 a write is not sent without its condition: %s', async (_name, condition) => {
    respond(200);
    const headers = { ...JSON_BODY, ...condition };
    const response = await call('/1/threads/17', { method: 'PATCH', headers, body: '{}' });
    expect([response.status, codeOf(response), sentCalls()]).toEqual([400, 'invalid_request', []]);
  });

  test('reads a thread of the sandbox, pages through its list, and adds a message', async () => {
    const pages = async (address: string): Promise<string[]> => {
      const { status, headers, body } = await sendRequest(site.url + address, { headers: headersOf() });
      expect(status).toBe(200);
      const ids = (JSON.parse(body).threads as { id: string }[]).map(({ id }) => id);
      const next = /<([^>]*)>; rel="next"/.exec(String(headers.link))?.[1];
      return next === undefined ? ids : [...ids, ...(await pages(next))];
    };
    const path = `${prefix}/platform/1/threads`;
    const all = JSON.parse((await call('/1/threads?limit=50')).body).threads as { id: string }[];
    expect(all.length).toBeGreaterThan(1);
    expect((await pages(`${path}?limit=1`)).sort()).toEqual(all.map(({ id }) => id).sort());

    const [{ id } = { id: '' }] = all;
    const { headers } = await call(`/1/threads/${id}`);
    const unchanged = { 'if-none-match': String(headers.etag) };
    expect((await call(`/1/threads/${id}`, { headers: unchanged })).status).toBe(304);
    const message = { method: 'POST', headers: JSON_BODY, body: JSON.stringify({ text: `by ${prefix}` }) };
    expect((await call(`/1/threads/${id}/messages`, message)).status).toBe(201);
    const changed = await call(`/1/threads/${id}`, { headers: unchanged });
    expect([changed.status, changed.body]).toEqual([200, expect.stringContaining(`by ${prefix}`)]);
  });

  test('a failed call is logged with the pattern of its route, never with its path', async () => {
    site.sandbox.faults.set({ listener: 'platform', kind: 'error' });
    const { headers } = await call('/1/threads/secret-name');
    const line = site.logs().find((text) => text.includes(String(headers['x-request-id'])));
    expect(JSON.parse(line ?? '{}')).toMatchObject({
      route: `${prefix}/:app/*platformPath`,
      platformRoute: 'GET /1/threads/{id}',
    });
    expect(site.logs().join('\n')).not.toContain('secret-name');
  });
});

describe('R66 a write of a browser', () => {
  const options = { method: 'POST', body: '{}' };
  test.each([
    ['no CSRF token', { 'x-csrf-token': '' }],
    ['that of another session', { 'x-csrf-token': 'x'.repeat(43) }],
    ['another origin', { origin: 'https://evil.example' }],
    ['another site', { 'sec-fetch-site': 'cross-site' }],
  ])('with %s is refused, and nothing is sent', async (_words, headers) => {
    const all = { ...asUser, ...JSON_BODY, ...headers };
    const response = await send('/api', '/1/threads/17/messages', { ...options, headers: all });
    expect([response.status, codeOf(response), sentCalls()]).toEqual([403, 'csrf_failed', []]);
  });

  test('without a session is refused before its path is looked at', async () => {
    for (const path of ['/1/threads/17/messages', '/1/unknown']) {
      const response = await send('/api', path, { ...options, headers: { ...ACCEPT_JSON, ...JSON_BODY } });
      expect([response.status, codeOf(response)]).toEqual([401, 'sign_in_required']);
    }
  });
});

describe('R74 nothing but a declared route is reached', () => {
  const lines = (prefix: string, requestLine: string, ...headers: string[]) => [
    requestLine,
    `Host: ${new URL(site.url).host}`,
    ...(prefix === '/api' ? [`Cookie: ${asUser.cookie}`] : [`Authorization: ${asService.authorization}`]),
    ...(prefix === '/api' ? [] : [`Gatehouse-User: ${userId}`]),
    'Accept: application/json',
    'Connection: close',
    ...headers,
  ];

  test.each(CALLERS)('by hostile targets of %s', async (_words, prefix) => {
    respond(200);
    const base = `${prefix}/platform`;
    const targets = [
      ...HOSTILE_SEGMENTS.filter((segment) => /^[\x21-\xff]*$/.test(segment)).flatMap((segment) => [
        `${base}/1/threads/${segment}`,
        `${base}/1/${segment}/threads/17`,
        `${prefix}/${segment}/1/threads/17`,
      ]),
      ...[`${base}/1/threads/../admins`, `${base}/../platform/1/users/current`, `${base}//evil.example/1/threads/17`],
      ...[`${base}/1/threads/17/../../users/current`, `${base}/http://evil.example/`, `${base}/@evil.example/`],
      ...[`${base}/1/users/current#/1/threads/17`, `${base}/1/users/current?/1/threads/17`],
      ...[`${prefix}\\platform/1/users/current`, `/${base}/1/users/current`, `${base}%2f1%2fthreads%2f17`],
      ...[`http://evil.example${base}/1/users/current`, `//evil.example${base}/1/users/current`],
    ];
    const statuses: [string, number][] = [];
    for (const target of targets) {
      const { status } = await sendRaw(site.url, lines(prefix, `GET ${target} HTTP/1.1`));
      if (status < 400 || status >= 500) statuses.push([target, status]);
    }
    expect(statuses).toEqual([]);
    expect(sentCalls()).toEqual([]);
  });

  test.each(CALLERS)('an absolute target of %s is one of its path', async (_words, prefix) => {
    respond(200);
    const target = `http://evil.example${prefix}/platform/1/threads/17`;
    const { status } = await sendRaw(site.url, lines(prefix, `GET ${target} HTTP/1.1`));
    expect([status, sentCalls()]).toEqual([200, ['GET /1/threads/17']]);
    const [request] = site.sandbox.requests.latest('platform');
    expect(request?.headers.host).toBe(new URL(site.sandbox.platformUrl).host);
  });

  test.each([
    ['two lengths', ['Content-Length: 2', 'Content-Length: 5']],
    ['a length and chunks', ['Content-Length: 2', 'Transfer-Encoding: chunked']],
    ['chunks', ['Transfer-Encoding: chunked']],
    ['a folded header', ['Content-Length: 2', 'X-A: b', ' folded: c']],
    ['an unknown coding', ['Transfer-Encoding: xchunked']],
  ])('R78 by a write with %s', async (_words, headers) => {
    const all = lines('/relay/api', 'POST /relay/api/platform/1/threads/17/messages HTTP/1.1', ...headers);
    const { status } = await sendRaw(site.url, [...all, 'Content-Type: application/json']);
    expect([status >= 400 && status < 500, sentCalls()]).toEqual([true, []]);
  });

  test('R77 by method overrides and other methods', async () => {
    for (const method of ['OPTIONS', 'TRACE', 'PROPFIND']) {
      const { status } = await sendRaw(site.url, lines('/api', `${method} /api/platform/1/threads/17 HTTP/1.1`));
      expect(status).toBeGreaterThanOrEqual(400);
    }
    respond(200);
    const headers = { ...asUser, 'x-http-method-override': 'DELETE', 'x-original-url': '/1/users/current' };
    await send('/api', '/1/threads/17', { headers });
    expect(sentCalls()).toEqual(['GET /1/threads/17']);
  });
});

describe('R81 a relay token', () => {
  const tokenWith = async (changes: Record<string, unknown>) => {
    const { token } = await admin.createRelayToken({ assertUser: true, ...changes });
    return { ...bearer(token), 'gatehouse-user': userId };
  };
  const statusOf = async (headers: Record<string, string>, path: string, method = 'GET') => {
    const { status, body } = await send('/relay/api', path, { method, headers: { ...headers, ...JSON_BODY } });
    return status === 200 ? status : `${status} ${/Rule \w+/.exec(body)?.[0]}`;
  };

  test.each<[string, Record<string, unknown>, (number | string)[]]>([
    ['without the scope', { scopes: ['threads:read'] }, Array(3).fill('403 Rule scopes')],
    ['for another app', { apps: [], scopes: ['api:call', 'bin:read'] }, Array(3).fill('403 Rule apps')],
    ['for no route', { routes: [] }, Array(3).fill('403 Rule routes')],
    ['for one route', { routes: ['thread'] }, [200, '403 Rule routes', '403 Rule routes']],
    ['for the current thread', { routes: ['current-thread'] }, ['403 Rule routes', 200, '403 Rule routes']],
    ['for every GET', { routes: 'reads' }, [200, 200, '403 Rule routes']],
  ])('%s makes its calls, and no other', async (_words, changes, expected) => {
    respond(200);
    const headers = await tokenWith(changes);
    expect([
      await statusOf(headers, '/1/threads/17'),
      await statusOf(headers, '/1/threads/current'),
      await statusOf(headers, '/1/threads/17/messages', 'POST'),
    ]).toEqual(expected);
  });

  test('with api:call and without threads:read does not open /relay/threads/current', async () => {
    const headers = await tokenWith({ scopes: ['api:call'], routes: 'reads' });
    const response = await sendRequest(`${site.url}/relay/threads/current`, { headers });
    expect([response.status, codeOf(response)]).toEqual([403, 'insufficient_scope']);
  });

  test('for another app does not learn what the app declares', async () => {
    const headers = await tokenWith({ apps: [], scopes: ['api:call', 'bin:read'] });
    const [declared, undeclared] = [await statusOf(headers, '/1/threads/17'), await statusOf(headers, '/1/unknown')];
    expect([declared, undeclared]).toEqual(['403 Rule apps', '403 Rule apps']);
  });

  test('lists only what it may call', async () => {
    const headers = await tokenWith({ routes: 'reads' });
    const { body } = await sendRequest(`${site.url}/relay/api/platform`, { headers });
    const names = (JSON.parse(body).items as { name: string }[]).map(({ name }) => name);
    expect(names).toEqual(['current-thread', 'thread', 'threads', 'admin']);
  });

  test('calls for a service account, whose response about scopes passes through', async () => {
    const { accessToken } = await storage.readGrant(userId);
    const account = await admin.call('POST', '/service-accounts', {
      name: 'a',
      app: 'platform',
      apiToken: accessToken,
    });
    const { 'gatehouse-user': _, ...headers } = await tokenWith({ routes: 'reads' });
    respond(200);
    const path = '/1/admin';
    expect(await statusOf({ ...headers, 'gatehouse-service-account': String(account.json.id) }, path)).toBe(200);
    expect(site.sandbox.requests.latest('platform')[0]?.headers.authorization).toBe(`Bearer ${accessToken}`);
  });
});

test('R142 a body is charged until its response is complete', async () => {
  const { port, hostname, host } = new URL(site.url);
  const body = `"${'x'.repeat(1_048_574)}"`;
  // More than fits into the buffers of the connections, so that a caller who does not read keeps the response open.
  respond(200, {}, 'y'.repeat(8 * 1_048_576));
  const head = { ...asUser, ...JSON_BODY, host, 'content-length': String(body.length) };
  const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}`);
  const sockets: Socket[] = [];
  try {
    for (let count = 0; count < 16; count += 1) {
      const socket = connect(Number(port), hostname);
      sockets.push(socket);
      socket.write(`PATCH /api/platform/1/threads/17 HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`);
      await once(socket, 'readable');
    }
    const options = { method: 'PATCH', headers: { ...asUser, ...JSON_BODY }, body: '{}' };
    const refused = await send('/api', '/1/threads/17', options);
    expect(refused.status).toBe(503);
    expect(codeOf(refused)).toBe('overloaded');
    const closed = sockets.map((socket) => once(socket.destroy(), 'close'));
    await Promise.all(closed);
    site.sandbox.faults.clear();
    respond(200);
    await expect.poll(async () => (await send('/api', '/1/threads/17', options)).status).toBe(200);
  } finally {
    for (const socket of sockets) socket.destroy();
  }
});
