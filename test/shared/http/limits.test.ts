/** R89: the limits of a peer, and refusals under overload. */

import { once } from 'node:events';
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  createEventLoopMonitor,
  createLimitedServer,
  enforceRequestLimits,
  LISTENER_LIMITS,
} from '../../../src/shared/http/limits.ts';
import { refuseUnreadable } from '../../../src/shared/http/protocol.ts';
import { createRefuse, type RefusalPage } from '../../../src/shared/http/refusal.ts';
import { startWithoutSandbox, type TestGatehouse } from '../../support/gatehouse.ts';
import { sendRaw } from '../../support/raw-http.ts';
import { sendRequest } from '../../support/send-request.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { until } from '../../support/until.ts';

const NO_PAGE = { policy: '', draw: () => expect.fail('No browser sends these requests.') };

describe('R89 Gatehouse as shipped', () => {
  let site: TestGatehouse;
  beforeAll(async () => {
    site = await startWithoutSandbox({ apps: [] });
  });
  afterAll(() => site?.close());

  const statusAndCode = ({ status, body }: { status: number; body: string }) => [status, JSON.parse(body).code];

  test('refuses headers beyond 16 KB', async () => {
    const response = await sendRaw(site.url, `GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(17_000)}\r\n\r\n`);
    expect([response.status, response.closed]).toEqual([431, true]);
  });

  test('refuses more than 100 headers', async () => {
    const headers = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`x-${index}`, 'y']));
    expect((await sendRequest(`${site.url}/session`, { headers: headers(90) })).status).toBe(200);
    for (const count of [100, 150, 900])
      expect(statusAndCode(await sendRequest(`${site.url}/session`, { headers: headers(count) }))).toEqual([
        431,
        'too_large',
      ]);
  });

  test('refuses a URL beyond 8 KB', async () => {
    expect((await sendRequest(`${site.url}/?a=${'x'.repeat(8_000)}`)).status).toBe(200);
    expect(statusAndCode(await sendRequest(`${site.url}/?a=${'x'.repeat(8_200)}`))).toEqual([414, 'too_large']);
  });

  test('refuses more than 100 parameters', async () => {
    const query = (count: number) => Array.from({ length: count }, (_, index) => `p${index}`).join('&');
    expect((await sendRequest(`${site.url}/?${query(100)}`)).status).toBe(200);
    expect(statusAndCode(await sendRequest(`${site.url}/?${query(101)}`))).toEqual([400, 'invalid_request']);
    expect(statusAndCode(await sendRequest(`${site.url}/?${'&'.repeat(500)}`))).toEqual([400, 'invalid_request']);
  });

  test('refuses a body beyond 64 KB', async () => {
    const form = { method: 'POST', headers: { 'content-type': 'application/x-www-form-urlencoded' } };
    expect((await sendRequest(`${site.url}/sign-out`, { ...form, body: 'a=1' })).status).not.toBe(413);
    expect((await sendRequest(`${site.url}/sign-out`, { ...form, body: `a=${'x'.repeat(70_000)}` })).status).toBe(413);
  });

  test('does not parse brackets in parameter names, however deep they nest', async () => {
    const deep = `return_to${'[a]'.repeat(2_000)}=%2Fx`;
    const elapsed = startStopwatch();
    expect((await sendRequest(`${site.url}/?${deep}`)).status).toBe(200);
    expect(elapsed()).toBeLessThan(1_000);
  });

  test('refusals have the security headers, and end the connection', async () => {
    const { headers, body } = await sendRequest(`${site.url}/?${'&'.repeat(500)}`);
    const { date: _date, 'x-request-id': id, ...others } = headers;
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    expect(others).toEqual({
      connection: 'close',
      'content-type': 'application/problem+json; charset=utf-8',
      'content-length': String(body.length),
      'cache-control': 'no-store',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'; sandbox",
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'referrer-policy': 'same-origin',
      'x-content-type-options': 'nosniff',
    });
    expect(JSON.parse(body)).toEqual({
      type: `${site.url}/problems/invalid_request`,
      title: 'The request is not valid',
      status: 400,
      instance: `urn:uuid:${id}`,
      code: 'invalid_request',
    });
  });
});

test('R89 under overload every request is refused and counted, and the management port responds', async () => {
  const stop = vi.fn();
  let isBusy = true;
  const site = await startWithoutSandbox({ apps: [], eventLoopMonitor: { isBusy: () => isBusy, stop } });
  const refused = await sendRequest(`${site.url}/session`);
  expect([refused.status, JSON.parse(refused.body).code]).toEqual([503, 'overloaded']);

  const metrics = await sendRequest(`${site.managementUrl}/metrics`);
  expect(metrics.status).toBe(200);
  expect(metrics.body).toMatch(/^gatehouse_problems_total\{code="overloaded"\} 1$/m);

  isBusy = false;
  expect((await sendRequest(`${site.url}/session`)).status).toBe(200);

  await site.close();
  expect(stop).toHaveBeenCalledTimes(1);
});

describe('R89 requests of a caller per minute', () => {
  test('are counted by address without a session, and refused with Retry-After', async () => {
    const site = await startWithoutSandbox({ apps: [], env: { RATE_LIMIT_PER_ADDRESS_PER_MINUTE: '20' } });
    try {
      const statuses: number[] = [];
      let last = await sendRequest(`${site.url}/session`);
      // A new minute may begin during the requests.
      for (let count = 0; count < 60 && last.status !== 429; count += 1) {
        statuses.push(last.status);
        last = await sendRequest(`${site.url}/session`);
      }
      expect(new Set(statuses)).toEqual(new Set([200]));
      expect(statuses.length).toBeGreaterThanOrEqual(20);
      expect([last.status, JSON.parse(last.body).code, last.headers['ratelimit-policy']]).toEqual([
        429,
        'rate_limited',
        '"address";q=20;w=60',
      ]);
      expect(Number(last.headers['retry-after'])).toBeGreaterThan(0);
      // The management port has no such limit.
      expect((await sendRequest(`${site.managementUrl}/readyz`)).status).toBe(200);
    } finally {
      await site.close();
    }
  });
});

describe('R89 a listener with small limits', () => {
  const limits = { ...LISTENER_LIMITS, headMilliseconds: 200, requestMilliseconds: 400, checkMilliseconds: 50 };
  let server: Server | undefined;
  const sockets: Socket[] = [];
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    server?.closeAllConnections();
    await new Promise((resolve) => server?.close(resolve) ?? resolve(undefined));
  });

  async function listen(
    overrides: Partial<typeof limits>,
    listener: RequestListener,
    page: RefusalPage = NO_PAGE,
  ): Promise<string> {
    server = createLimitedServer({ ...limits, ...overrides }, listener);
    refuseUnreadable(server, createRefuse({ publicHref: 'http://127.0.0.1', page }));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  const countConnections = (server: Server | undefined) =>
    new Promise<number>((resolve) => server?.getConnections((_error, count) => resolve(count)));

  const drain: RequestListener = (req, res) => {
    req.resume().on('end', () => res.end('ok'));
  };

  test('disconnects a client that sends headers too slowly', async () => {
    const response = await sendRaw(await listen({}, drain), 'GET / HTTP/1.1\r\nHost: x\r\n');
    expect([response.status, response.closed]).toEqual([408, true]);
  });

  test('disconnects a client that sends a body too slowly', async () => {
    const url = await listen({}, drain);
    const response = await sendRaw(url, 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc');
    expect([response.status, response.closed]).toEqual([408, true]);
  });

  describe('a body that is too slow or broken', () => {
    const page: RefusalPage = { policy: 'POLICY', draw: ({ status }) => `PAGE ${status}` };
    const post = (accept: string) => `POST / HTTP/1.1\r\nHost: x\r\nAccept: ${accept}\r\n`;

    test.each([
      ['slow', `${post('text/html')}Content-Length: 9\r\n\r\nabc`, 'text/html; charset=utf-8', 408],
      ['slow chunks', `${post('text/html')}Transfer-Encoding: chunked\r\n\r\n3\r\n`, 'text/html; charset=utf-8', 408],
      ['broken', `${post('text/html')}Transfer-Encoding: chunked\r\n\r\nnone\r\n`, 'text/html; charset=utf-8', 400],
      [
        'slow, of a program',
        `${post('*/*')}Content-Length: 9\r\n\r\nabc`,
        'application/problem+json; charset=utf-8',
        408,
      ],
    ])('gets a page if the request accepts one: %s', async (_what, bytes, type, status) => {
      const response = await sendRaw(await listen({}, drain, page), bytes);
      expect([response.status, response.headers.get('content-type')]).toEqual([status, [type]]);
      if (type.startsWith('text/html')) expect(response.rest).toBe(`PAGE ${status}`);
    });

    test.each([
      ['a body', `${post('*/*')}Content-Length: 9\r\n\r\nabc`],
      ['a head', 'GET / HTTP/1.1\r\nHost: x\r\n'],
    ])('is not judged by the request before it on the connection: %s', async (_what, bytes) => {
      const url = await listen({}, drain, page);
      const socket = connect(Number(new URL(url).port), '127.0.0.1').setEncoding('latin1');
      sockets.push(socket);
      let text = '';
      socket.on('data', (chunk) => {
        text += chunk;
      });
      socket.write(`${post('text/html')}Content-Length: 3\r\n\r\nabc`);
      await until(() => text.endsWith('ok'));
      socket.write(bytes);
      await once(socket, 'end');
      expect(text).toMatch(/HTTP\/1\.1 408 .*application\/problem\+json/s);
    });
  });

  test('a browser whose large head comes in parts gets a page that names its cookies', async () => {
    const told: (string | undefined)[] = [];
    const url = await listen({}, drain, { policy: '', draw: ({ cookie }) => `PAGE ${told.push(cookie)}` });
    const received: Socket[] = [];
    server?.on('connection', (socket) => received.push(socket));
    const cookies = Array.from({ length: 12 }, (_, index) => `c${index}=${'x'.repeat(4_000)}`).join('; ');
    const head = `GET / HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\nCookie: ${cookies}\r\n\r\n`;
    const socket = connect(Number(new URL(url).port), '127.0.0.1').setEncoding('latin1');
    sockets.push(socket);
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.write(head.slice(0, 1_024));
    await until(() => received[0]?.bytesRead === 1_024);
    socket.write(head.slice(1_024));
    await once(socket, 'close');
    expect(text).toMatch(/HTTP\/1\.1 431 .*PAGE 1$/s);
    expect(told[0]).toMatch(/^c\d+=x{4000}; c/);
  });

  test('closes connections beyond the limit, and accepts new ones once others have closed', async () => {
    const url = await listen({ connections: 3, headMilliseconds: 60_000, requestMilliseconds: 60_000 }, drain);
    const { port } = new URL(url);
    for (let count = 0; count < 3; count += 1) {
      const socket = connect(Number(port), '127.0.0.1');
      await once(socket, 'connect');
      sockets.push(socket);
    }
    await until(async () => (await countConnections(server)) === 3);
    expect((await sendRaw(url, 'GET / HTTP/1.1\r\nHost: x\r\n\r\n')).status).toBe(0);

    sockets.pop()?.destroy();
    await expect
      .poll(async () => (await sendRaw(url, 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')).status)
      .toBe(200);
  });

  test('serves other clients while hundreds of slow ones are connected', async () => {
    const url = await listen({ headMilliseconds: 60_000, requestMilliseconds: 60_000 }, drain);
    for (let count = 0; count < 300; count += 1) {
      const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => undefined);
      socket.write('GET / HTTP/1.1\r\nX-Slow: ');
      sockets.push(socket);
    }
    const responses = await Promise.all(Array.from({ length: 50 }, () => sendRequest(url)));
    expect(responses.every(({ status }) => status === 200)).toBe(true);
  });

  test('refuses requests with 503 and Retry-After under overload', async () => {
    let isBusy = true;
    const guard = enforceRequestLimits({
      limits: LISTENER_LIMITS,
      isBusy: () => isBusy,
      refuse: createRefuse({ publicHref: 'http://127.0.0.1', page: NO_PAGE }),
    });
    const url = await listen({}, guard(drain));
    const refused = await sendRequest(url);
    expect([refused.status, JSON.parse(refused.body).code]).toEqual([503, 'overloaded']);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);

    isBusy = false;
    expect((await sendRequest(url)).status).toBe(200);
  });
});

describe('R89 the exact limits', () => {
  const limits = { headBytes: 40, headers: 4, targetBytes: 20, parameters: 3 };

  /** @returns the status, codes and Retry-After of the refusal, or undefined if the request is accepted */
  function refusal(url: string | undefined, headers = 2, isBusy = false, headerBytes = 1) {
    const refused: string[] = [];
    let response: { status: number; headers: Record<string, string> } | undefined;
    const res = {
      writeHead: (status: number, fields: Record<string, string>) => (response = { status, headers: fields }),
    };
    let isAccepted = false;
    const listener = enforceRequestLimits({
      limits,
      isBusy: () => isBusy,
      refuse: createRefuse({
        publicHref: 'http://127.0.0.1',
        page: NO_PAGE,
        onRefused: (code) => void refused.push(code),
      }),
    })(() => {
      isAccepted = true;
    });
    const rawHeaders = Array.from({ length: headers * 2 }, () => 'x'.repeat(headerBytes));
    const req = { url, rawHeaders, headers: { host: 'gatehouse.test' } } as IncomingMessage;
    listener(req, { ...res, req, end() {} } as unknown as ServerResponse);
    expect(isAccepted).toBe(response === undefined);
    return response && [response.status, ...refused, response.headers['Retry-After']];
  }

  test.each([
    ['/', 4, undefined],
    ['/', 5, [431, 'too_large', undefined]],
    [`/${'x'.repeat(19)}`, 2, undefined],
    [`/${'x'.repeat(20)}`, 2, [414, 'too_large', undefined]],
    ['/?a&b&c', 2, undefined],
    ['/?a&b&c&d', 2, [400, 'invalid_request', undefined]],
    ['/?&&&', 2, [400, 'invalid_request', undefined]],
    ['?a&b&c&d', 2, [400, 'invalid_request', undefined]],
    ['/&a&b&c&d', 2, undefined],
    [undefined, 2, undefined],
  ])('%s with %i headers: %j', (url, headers, refused) => {
    expect(refusal(url, headers)).toEqual(refused);
  });

  test('the request line and all headers count together', () => {
    expect(refusal('/ab', 2, false, 9)).toBeUndefined();
    expect(refusal('/abcd', 2, false, 9)).toEqual([431, 'too_large', undefined]);
    expect(refusal('/', 2, false, 10)).toEqual([431, 'too_large', undefined]);
  });

  test('overload is checked first, and gets Retry-After', () => {
    expect(refusal('/?a&b&c&d', 5, true)).toEqual([503, 'overloaded', '2']);
  });

  test('the server has the limits of Node as shipped', () => {
    const server = createLimitedServer(LISTENER_LIMITS, () => undefined);
    const { maxConnections, headersTimeout, requestTimeout, keepAliveTimeout, maxHeadersCount } = server;
    expect({ maxConnections, headersTimeout, requestTimeout, keepAliveTimeout, maxHeadersCount }).toEqual({
      maxConnections: 10_000,
      headersTimeout: 10_000,
      requestTimeout: 30_000,
      keepAliveTimeout: 65_000,
      maxHeadersCount: 101,
    });
  });
});

describe('R89 the event loop is delayed', () => {
  /** Replaces Node's histogram of delays, with the median of a window in milliseconds. */
  const delays = { count: 0, median: 0, enable: vi.fn(), disable: vi.fn(), reset: vi.fn(), percentile: vi.fn() };
  const monitor = vi.fn((_options: { resolution: number }) => delays);
  beforeAll(() => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    delays.percentile.mockImplementation((percent) => (percent === 50 ? delays.median * 1e6 : 1e12));
  });
  afterAll(() => void vi.useRealTimers());

  test('by more than half a second in most of a window: busy until a better window', () => {
    const loop = createEventLoopMonitor({ windowMilliseconds: 200, monitor });
    expect(monitor).toHaveBeenCalledWith({ resolution: 20 });
    expect([delays.enable.mock.calls.length, loop.isBusy()]).toEqual([1, false]);

    const busyAfter = (count: number, median: number, milliseconds = 200) => {
      Object.assign(delays, { count, median });
      vi.advanceTimersByTime(milliseconds);
      return loop.isBusy();
    };
    expect(busyAfter(3, 520)).toBe(false);
    expect(busyAfter(3, 521, 199)).toBe(false);
    expect(busyAfter(3, 521, 1)).toBe(true);
    expect(delays.reset).toHaveBeenCalledTimes(2);
    // The samples are too few: they count for the next window.
    expect(busyAfter(2, 20)).toBe(true);
    expect(delays.reset).toHaveBeenCalledTimes(2);
    expect(busyAfter(3, 20)).toBe(false);
    expect(busyAfter(2, 900)).toBe(false);

    loop.stop();
    expect(delays.disable).toHaveBeenCalledTimes(1);
    expect(busyAfter(3, 900)).toBe(false);
  });

  test('a window lasts a second', () => {
    const loop = createEventLoopMonitor({ monitor });
    Object.assign(delays, { count: 3, median: 900 });
    vi.advanceTimersByTime(999);
    expect(loop.isBusy()).toBe(false);

    vi.advanceTimersByTime(1);
    expect(loop.isBusy()).toBe(true);

    loop.stop();
  });
});

test('R89 a single long pause does not count as busy, a persistent delay does, until it ends', async () => {
  const loop = createEventLoopMonitor({ windowMilliseconds: 200 });
  // Blocks the event loop without using the processor.
  const memory = new Int32Array(new SharedArrayBuffer(4));
  const block = (milliseconds: number) => Atomics.wait(memory, 0, 0, milliseconds);
  await sleep(100);
  block(1_500);
  await sleep(400);
  expect(loop.isBusy()).toBe(false);

  let wasBusy = false;
  for (let round = 0; round < 12 && !wasBusy; round += 1) {
    block(600);
    await sleep(1);
    wasBusy = loop.isBusy();
  }
  expect(wasBusy).toBe(true);
  await expect.poll(() => loop.isBusy()).toBe(false);

  loop.stop();
});
