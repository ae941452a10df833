/** Calls to a scripted platform: deadlines, byte limits, disconnects, and no resource is left open. */
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { ThreadApp } from '../../../src/gatehouse/connected-apps/current-apps.ts';
import type { AccessTokens, TokenResult } from '../../../src/gatehouse/grants/access-tokens.ts';
import { createAuthorizedFetch } from '../../../src/gatehouse/grants/authorized-fetch.ts';
import type { GrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import {
  type CallLimits,
  createPlatformCalls,
  type PlatformCall,
  threadCall,
} from '../../../src/gatehouse/platform/platform-call.ts';
import { AppError } from '../../../src/shared/errors.ts';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound, type Outbound } from '../../../src/shared/outbound/outbound.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { until } from '../../support/until.ts';
import { drip, type ScriptedPlatform, startScriptedPlatform } from './scripted-platform.ts';

/** Long enough that no other test reaches these deadlines on a busy machine. */
const LIMITS: CallLimits = { headersMilliseconds: 120_000, totalMilliseconds: 240_000, maxBytes: 10_000 };
const SOON = { headersMilliseconds: 300, totalMilliseconds: 600 };
const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n';
const TOKEN: TokenResult = {
  kind: 'token',
  accessToken: 'at1',
  dpopKey: undefined,
  scopes: [],
  consentedAt: 0,
  wasRefused: false,
};

let platform: ScriptedPlatform;
let outbound: Outbound;
/** What `AccessTokens` returns. @param rejected the access token that the platform refused, if it did */
let getToken: (rejected?: string) => Promise<TokenResult>;
let notedUses: number;

beforeEach(async () => {
  platform = await startScriptedPlatform();
  outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']) });
  getToken = async () => TOKEN;
  notedUses = 0;
});
afterEach(async () => {
  await outbound.close();
  await platform.close();
});

/** Reads the thread through a new thread call. The caller must read or destroy the body. */
function readThread(
  options: {
    signal?: AbortSignal;
    limits?: Partial<CallLimits>;
    apiBaseUrl?: string;
    canConsent?: boolean;
    call?: Partial<PlatformCall>;
  } = {},
) {
  const accessTokens: AccessTokens = {
    get: () => getToken(),
    getAnother: (_user, _app, rejected) => getToken(rejected),
    clearRefusal: async () => undefined,
  };
  const grants = {
    noteUse: async () => {
      notedUses += 1;
    },
  } as unknown as GrantStore;
  const threads = createPlatformCalls({
    authorizedFetch: createAuthorizedFetch({ accessTokens, grants, outbound }),
    budget: { charge: () => undefined, update: () => undefined, refused: () => undefined },
    caller: 'browser',
    publicHref: 'http://127.0.0.1:3000',
    limits: { ...LIMITS, ...options.limits },
    clock: Date.now,
    canConsent: options.canConsent ?? true,
  });
  const apiBaseUrl = options.apiBaseUrl ?? platform.url;
  const names = { id: 'platform', name: 'Platform', scopes: ['read'] };
  const app = { ...names, apiBaseUrl, threadPath: '/1/threads/current' } as unknown as ThreadApp;
  return threads.read({
    ownerId: 'u1',
    app,
    call: { ...threadCall(app), ...options.call },
    signal: options.signal ?? new AbortController().signal,
  });
}

async function readBody(response: Awaited<ReturnType<typeof readThread>>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response.body) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** The code of the `AppError` that this call must fail with. */
async function codeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
  } catch (error) {
    if (error instanceof AppError) return error.code;
    throw error;
  }
  throw new Error('The call did not fail.');
}

async function expectWithin<T>(milliseconds: number, work: Promise<T>): Promise<T> {
  const elapsed = startStopwatch();
  return work.finally(() => expect(elapsed()).toBeLessThan(milliseconds));
}

test('a bug of Gatehouse is not reported as an error of the platform; any connection error is', async () => {
  const readThreadThatThrows = (error: Error) => {
    getToken = async () => {
      throw error;
    };
    return readThread();
  };
  await expect(readThreadThatThrows(new TypeError('x is not a function'))).rejects.toThrow(/^x is not a function$/);
  const refused = Object.assign(new TypeError('refused'), { code: 'ECONNREFUSED' });
  expect(await codeOf(readThreadThatThrows(refused))).toBe('platform_error');
  expect(await codeOf(readThreadThatThrows(new Error('the connection ended')))).toBe('platform_error');
});

describe('F15: deadlines', () => {
  test('a platform that does not respond: platform_timeout, and the connection is closed', async () => {
    platform.respondWith(() => undefined);
    expect(await expectWithin(1_000, codeOf(readThread({ limits: SOON })))).toBe('platform_timeout');
    await until(() => platform.countConnections() === 0);
  });

  test('a platform that drips its head: platform_timeout, and the connection is closed', async () => {
    platform.respondWith((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      drip(socket, 'X-A: b\r\n');
    });
    expect(await expectWithin(1_000, codeOf(readThread({ limits: SOON })))).toBe('platform_timeout');
    await until(() => platform.countConnections() === 0);
  });

  test('a platform that sends endless interim responses: the call fails in time, and the connection is closed', async () => {
    platform.respondWith((socket) => drip(socket, 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n', 5));
    expect(['platform_timeout', 'platform_error']).toContain(
      await expectWithin(1_000, codeOf(readThread({ limits: SOON }))),
    );
    await until(() => platform.countConnections() === 0);
  });

  test('a platform that drips its body: the response is cut off at the total deadline', async () => {
    platform.respondWith((socket) => {
      socket.write(`${HEAD}Content-Length: 5000\r\n\r\n`);
      drip(socket, 'x');
    });
    const response = await readThread({ limits: { totalMilliseconds: 600 } });
    await expect(expectWithin(1_500, readBody(response))).rejects.toThrow('took too long');
    await until(() => platform.countConnections() === 0);
  });

  test('a 500 whose body drips: platform_error at once, without waiting for the body', async () => {
    platform.respondWith((socket) => {
      socket.write('HTTP/1.1 500 Internal Server Error\r\nContent-Length: 5000\r\n\r\n');
      drip(socket, 'x');
    });
    expect(await expectWithin(250, codeOf(readThread()))).toBe('platform_error');
    await until(() => platform.countConnections() === 0);
  });

  test('a 503 whose body drips, which must be read for its cause: platform_error by the first deadline', async () => {
    platform.respondWith((socket) => {
      socket.write('HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5000\r\n\r\n');
      drip(socket, 'x');
    });
    expect(await expectWithin(1_000, codeOf(readThread({ limits: SOON })))).toBe('platform_error');
    await until(() => platform.countConnections() === 0);
  });

  test('a 401 whose body drips delays no refresh and keeps no connection open', async () => {
    platform.respondWith((socket) => {
      if (platform.requests.length > 1) return void socket.end(`${HEAD}Content-Length: 2\r\n\r\n{}`);
      socket.write('HTTP/1.1 401 Unauthorized\r\nContent-Length: 5000\r\n\r\n');
      drip(socket, 'x');
    });
    getToken = async (rejected) => ({ ...TOKEN, accessToken: rejected ? 'at2' : 'at1' }) as TokenResult;
    expect(await readBody(await expectWithin(1_000, readThread()))).toBe('{}');
    expect(platform.requests.map((request) => /Bearer (\w+)/.exec(request)?.[1])).toEqual(['at1', 'at2']);
    await until(() => platform.countConnections() === 0);
  });

  test('a token that waits for a slow provider: provider_unavailable at the deadline', async () => {
    const { promise, reject } = Promise.withResolvers<TokenResult>();
    getToken = () => promise;
    expect(await expectWithin(1_000, codeOf(readThread({ limits: SOON })))).toBe('provider_unavailable');
    expect(platform.requests).toEqual([]);
    // Nothing awaits the token any more. An unhandled rejection would be reported before the next immediate.
    reject(new Error('late'));
    await setImmediate();
  });

  test('neither a complete response nor a refusal leaves a timer', async () => {
    const setTimeoutSpy = vi.spyOn(globalThis, 'setTimeout');
    const clearTimeoutSpy = vi.spyOn(globalThis, 'clearTimeout');
    // No other timer of this process is as long.
    const limits = { headersMilliseconds: 500_000, totalMilliseconds: 600_000 };
    await readBody(await readThread({ limits }));
    platform.respondWith((socket) => void socket.end('HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n'));
    await codeOf(readThread({ limits }));

    const timersOfCalls = setTimeoutSpy.mock.results
      .filter((_, index) => Number(setTimeoutSpy.mock.calls[index]?.[1]) >= 500_000)
      .map(({ value }) => value);
    expect(timersOfCalls).toHaveLength(3);
    const isCleared = (timer: unknown) => clearTimeoutSpy.mock.calls.some(([clearedTimer]) => clearedTimer === timer);
    await until(() => timersOfCalls.every(isCleared));
    vi.restoreAllMocks();
  });
});

describe('F15: sizes and broken responses', () => {
  test('a body of the maximum size passes, and one more byte is cut off', async () => {
    const respondWithSize = (size: number) =>
      platform.respondWith((socket) => void socket.end(`${HEAD}Content-Length: ${size}\r\n\r\n${'x'.repeat(size)}`));
    respondWithSize(10_000);
    expect(await readBody(await readThread())).toHaveLength(10_000);
    respondWithSize(10_001);
    await expect(readThread().then(readBody)).rejects.toThrow('too large');
  });

  test('a gigabyte without a length is cut off at the limit, and the connection closed', async () => {
    const piece = 'x'.repeat(64 * 1024);
    let sent = 0;
    platform.respondWith((socket) => {
      socket.write(`${HEAD}Connection: close\r\n\r\n`);
      const push = () => {
        while (sent < 1e9 && !socket.destroyed && socket.write(piece)) sent += piece.length;
      };
      socket.on('drain', push);
      push();
    });
    const response = await readThread({ limits: { maxBytes: 1_000_000 } });
    await expect(readBody(response)).rejects.toThrow('too large');
    await until(() => platform.countConnections() === 0);
    expect(sent).toBeLessThan(100e6);
  });

  test('a slow reader slows the platform down, and nothing is buffered without bound', async () => {
    const piece = 'x'.repeat(64 * 1024);
    let sent = 0;
    platform.respondWith((socket) => {
      socket.write(`${HEAD}Connection: close\r\n\r\n`);
      const push = () => {
        while (sent < 500e6 && !socket.destroyed && socket.write(piece)) sent += piece.length;
      };
      socket.on('drain', push);
      push();
    });
    const response = await readThread({ limits: { maxBytes: 500e6, totalMilliseconds: 5_000 } });
    await sleep(300);
    expect(sent).toBeLessThan(50e6);
    response.body.on('error', () => undefined).destroy();
  });

  test.each<[string, string]>([
    ['another protocol', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['a broken header', 'HTTP/1.1 200 OK\r\nX-A: b\0c\r\nContent-Length: 2\r\n\r\n{}'],
    ['a bare line feed and a space in the name of a header', 'HTTP/1.1 200 OK\nX A: b\r\nContent-Length: 2\r\n\r\n{}'],
    ['too many headers', `HTTP/1.1 200 OK\r\n${'X-Header: value-of-some-length\r\n'.repeat(2_000)}\r\n`],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}'],
    ['nothing at all', ''],
  ])('%s: platform_error', async (_name, bytes) => {
    platform.respondWith((socket) => void socket.end(bytes, 'latin1'));
    expect(await codeOf(readThread())).toBe('platform_error');
    await until(() => platform.countConnections() === 0);
  });

  test.each<[string, string]>([
    ['less than its length', `${HEAD}Content-Length: 100\r\n\r\n{"a":1}`],
    ['chunks that do not end', `${HEAD}Transfer-Encoding: chunked\r\n\r\n7\r\n{"a":1}\r\n`],
    ['a chunk without a valid length', `${HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n{"a":1}\r\n`],
  ])('%s: the body ends with an error', async (_name, bytes) => {
    platform.respondWith((socket) => void socket.end(bytes));
    await expect(readThread().then(readBody)).rejects.toThrow();
  });

  test('a reset during the body: the body ends with an error', async () => {
    platform.respondWith((socket) => {
      socket.write(`${HEAD}Content-Length: 100\r\n\r\n{"a":`);
      setTimeout(() => socket.resetAndDestroy(), 50);
    });
    await expect(readThread().then(readBody)).rejects.toThrow();
  });

  test('bytes beyond its length are not passed on', async () => {
    platform.respondWith((socket) => void socket.end(`${HEAD}Content-Length: 2\r\n\r\n{}{"evil":true}`));
    const bodyOrRefusal = await readThread().then(readBody, () => 'refused');
    expect(['{}', 'refused']).toContain(bodyOrRefusal);
  });

  const FETCH_LIMITS = { deadlineMilliseconds: 5_000, maxBytes: 1_000 };

  test.each([
    ['of identity, twice', 'Content-Encoding: identity\r\nContent-Encoding: identity\r\n'],
    ['without a value', 'Content-Encoding:\r\n'],
  ])('a content encoding %s: the body passes', async (_description, lines) => {
    platform.respondWith((socket) => void socket.end(`${HEAD}${lines}Content-Length: 2\r\n\r\n{}`));
    expect(await readBody(await readThread())).toBe('{}');
    expect(await (await outbound.fetch(platform.url, {}, FETCH_LIMITS)).text()).toBe('{}');
  });

  test('a content encoding of gzip, twice, for a body that is not compressed: the body ends with an error', async () => {
    const lines = 'Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n';
    platform.respondWith((socket) => void socket.end(`${HEAD}${lines}Content-Length: 2\r\n\r\n{}`));
    await expect(readThread().then(readBody)).rejects.toMatchObject({ reason: 'encoding' });
    const fetchText = async () => (await outbound.fetch(platform.url, {}, FETCH_LIMITS)).text();
    await expect(fetchText()).rejects.toMatchObject({ reason: 'encoding' });
  });

  test('a closed port: platform_error', async () => {
    expect(await codeOf(readThread({ apiBaseUrl: 'http://127.0.0.1:9' }))).toBe('platform_error');
  });

  test('R79: no token is requested for an address that the policy refuses', async () => {
    let isTokenRequested = false;
    getToken = async () => {
      isTokenRequested = true;
      return TOKEN;
    };
    expect(await codeOf(readThread({ apiBaseUrl: 'https://10.0.0.1' }))).toBe('platform_error');
    expect(isTokenRequested).toBe(false);
  });
});

describe('a caller that disconnects', () => {
  test('before the head: the call ends', async () => {
    platform.respondWith(() => undefined);
    const caller = new AbortController();
    const response = codeOf(readThread({ signal: caller.signal }));
    await until(() => platform.requests.length === 1);
    caller.abort();
    await expectWithin(200, response);
    await until(() => platform.countConnections() === 0);
  });

  test('during the body: the body ends with an error and the connection is closed', async () => {
    platform.respondWith((socket) => {
      socket.write(`${HEAD}Content-Length: 5000\r\n\r\n`);
      drip(socket, 'x');
    });
    const caller = new AbortController();
    const response = await readThread({ signal: caller.signal, limits: { totalMilliseconds: 60_000 } });
    const reading = readBody(response);
    setTimeout(() => caller.abort(), 50);
    await expect(expectWithin(1_000, reading)).rejects.toThrow();
    await until(() => platform.countConnections() === 0);
  });

  test('before the call begins: nothing is sent', async () => {
    await codeOf(readThread({ signal: AbortSignal.abort() }));
    expect(platform.requests).toEqual([]);
  });
});

describe('the URL and the recorded use', () => {
  test.each([
    ['', '/1/threads/current'],
    ['/', '/1/threads/current'],
    ['/tenant/api', '/tenant/api/1/threads/current'],
    ['/tenant/api//', '/tenant/api/1/threads/current'],
  ])('an API base URL that ends with "%s"', async (path, expected) => {
    await readBody(await readThread({ apiBaseUrl: platform.url + path }));
    expect(platform.requests[0]).toMatch(new RegExp(`^GET ${expected} HTTP/1.1\r\n`));
  });

  test('records a use if the platform accepts the token, not after a 401', async () => {
    await readBody(await readThread());
    expect(notedUses).toBe(1);
    platform.respondWith((socket) => void socket.end('HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n'));
    await codeOf(readThread());
    expect(notedUses).toBe(1);
  });

  test.each<[TokenResult, string]>([
    [{ kind: 'not_connected' }, 'not_connected'],
    [{ kind: 'reconnect_needed', cause: 'grant_refused' }, 'reconnect_needed'],
    [
      { kind: 'unavailable', cause: 'provider_unavailable', isUnverified: false, retryAfterSeconds: 3 },
      'provider_unavailable',
    ],
  ])('%j becomes %s, and the platform is not called', async (result, code) => {
    getToken = async () => result;
    expect(await codeOf(readThread())).toBe(code);
    expect(platform.requests).toEqual([]);
  });
});

test('R115 names a missing scope to a user, who can grant it; a service account gets the platform’s response', async () => {
  const challenge = 'WWW-Authenticate: Bearer error="insufficient_scope", scope="read"';
  platform.respondWith(
    (socket) => void socket.end(`HTTP/1.1 403 Forbidden\r\n${challenge}\r\nContent-Length: 2\r\n\r\nno`),
  );
  expect(await codeOf(readThread())).toBe('scopes_missing');
  const responseForService = await readThread({ canConsent: false });
  expect([responseForService.status, await readBody(responseForService)]).toEqual([403, 'no']);
});

describe('a call of a declared route', () => {
  const WRITE = { method: 'POST', path: '/1/threads/17/messages', body: Buffer.from('{"text":"a"}') };
  const OK = 'HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}';
  const linesOf = (request = '') => request.split('\r\n');

  test('sends its method, path, headers and body', async () => {
    platform.respondWith((socket) => void socket.write(OK));
    const headers = ['content-type', 'application/merge-patch+json', 'if-match', '"a"'];
    const response = await readThread({ call: { ...WRITE, method: 'PATCH', headers } });
    expect([response.status, await readBody(response)]).toEqual([201, '{}']);
    await until(() => platform.requests.join('').endsWith('{"text":"a"}'));
    const lines = linesOf(platform.requests.join(''));
    expect(lines[0]).toBe('PATCH /1/threads/17/messages HTTP/1.1');
    expect(lines).toEqual(expect.arrayContaining(['content-length: 12', 'if-match: "a"', 'authorization: Bearer at1']));
  });

  test('R130 that is no GET has a connection of its own, and is sent once if that closes', async () => {
    platform.respondWith((socket) => void socket.write(`${HEAD}Content-Length: 2\r\n\r\n{}`));
    await readBody(await readThread());
    await readBody(await readThread({ call: WRITE }));
    expect(platform.countConnections()).toBe(2);

    platform.requests.length = 0;
    platform.respondWith((socket) => void socket.destroy());
    expect(await codeOf(readThread({ call: WRITE }))).toBe('platform_error');
    expect(platform.requests.filter((request) => request.startsWith('POST'))).toHaveLength(1);
  });

  test('R143 is not sent if the connection lacks a scope, and names where to grant it', async () => {
    getToken = async () => ({ ...TOKEN, requestedScopes: [] });
    const refusal = readThread({ call: { ...WRITE, neededScopes: ['read'] } });
    await expect(refusal).rejects.toMatchObject({
      code: 'scopes_missing',
      connectUrl: 'http://127.0.0.1:3000/connections/platform?scope=read',
    });
    expect(platform.requests).toEqual([]);
  });

  test.each([
    ['If-None-Match', true, 304],
    ['no validator', false, 'platform_error'],
  ])('with %s and a 304', async (_words, isConditional, expected) => {
    platform.respondWith(
      (socket) => void socket.end('HTTP/1.1 304 Not Modified\r\nETag: "a"\r\nContent-Length: 5\r\n\r\n'),
    );
    const call = readThread({ call: { isConditional } });
    if (!isConditional) return expect(await codeOf(call)).toBe(expected);
    const { status, headers, body } = await call;
    body.on('error', () => undefined).destroy();
    return expect([status, headers]).toEqual([expected, { etag: '"a"' }]);
  });

  test('passes links on as its route rewrites them, all headers of them together, and otherwise none', async () => {
    const links = 'Link: </1/a>; rel="next"\r\nLink: </1/b>; rel="prev"\r\n';
    platform.respondWith((socket) => void socket.write(`${HEAD}${links}Content-Length: 2\r\n\r\n{}`));
    const linkFrom = async (rewriteLink?: NonNullable<PlatformCall['rewriteLink']>) => {
      const response = await readThread({ call: rewriteLink ? { rewriteLink } : {} });
      await readBody(response);
      return response.headers.link;
    };
    expect(await linkFrom((link, apiUrl) => `${link} ${apiUrl}`)).toBe(
      `</1/a>; rel="next", </1/b>; rel="prev" ${platform.url}`,
    );
    expect(await linkFrom(() => undefined)).toBeUndefined();
    expect(await linkFrom()).toBeUndefined();
  });
});

describe('R131 the announced length of a response', () => {
  test.each([
    ['10000', 200],
    ['10001', 'platform_error'],
    ['1073741824', 'platform_error'],
  ])('a length of %s, where 10,000 bytes are allowed', async (length, expected) => {
    platform.respondWith((socket) => socket.write(`${HEAD}Content-Length: ${length}\r\n\r\n`));
    const call = readThread().then(
      ({ status, body }) => {
        body.on('error', () => undefined).destroy();
        return status;
      },
      (error: unknown) => (error instanceof AppError ? error.code : error),
    );
    expect(await call).toBe(expected);
    await until(() => platform.countConnections() === 0);
  });

  test.each([
    ['gzip', '10000', 200],
    ['gzip', '10001', 'platform_error'],
    ['br', '1073741824', 'platform_error'],
    ['deflate, gzip', '10001', 'platform_error'],
    ['identity', '10001', 'platform_error'],
    ['x-unknown', '10001', 'platform_error'],
  ])('of one that is compressed (%s), of %s bytes: refused before it begins', async (coding, length, expected) => {
    const head = `${HEAD}Content-Encoding: ${coding}\r\nContent-Length: ${length}\r\n\r\n`;
    platform.respondWith((socket) => socket.write(head));
    const call = readThread().then(
      ({ status, body, headers }) => {
        body.on('error', () => undefined).destroy();
        expect(headers).not.toHaveProperty('content-length');
        return status;
      },
      (error: unknown) => (error instanceof AppError ? error.code : error),
    );
    expect(await call).toBe(expected);
    await until(() => platform.countConnections() === 0);
  });

  test.each(['HTTP/1.1 204 No Content', 'HTTP/1.1 205 Reset Content'])('%s passes without a length', async (line) => {
    platform.respondWith((socket) => socket.end(`${line}\r\nContent-Length: 5\r\nETag: "a"\r\n\r\n12345`));
    const { headers, body } = await readThread();
    body.on('error', () => undefined).destroy();
    expect(headers).toEqual({ etag: '"a"' });
  });
});
