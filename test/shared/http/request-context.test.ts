/** The context and headers of every request, on the fast path and in Express, and the metric of its duration. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { type BeginRequest, requestContext } from '../../../src/shared/http/request-context.ts';
import { addHeaders, sendHead, sendJson } from '../../../src/shared/http/response-head.ts';
import type { Metrics } from '../../../src/shared/observability/metrics.ts';
import { sendRequest } from '../../support/send-request.ts';
import { LONG_TIMEOUT } from '../../support/until.ts';
import { type Served, serve } from './serve.ts';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const HEADERS = new Map([
  ['Cache-Control', 'no-store'],
  ['Content-Security-Policy', "default-src 'self'"],
]);

const observe = vi.fn();
const isTrusted = vi.fn(() => true);
let served: Served;
let begin: BeginRequest;
let handle: (req: IncomingMessage, res: ServerResponse) => void;
beforeAll(async () => {
  served = await serve((req, res) => handle(req, res));
});
afterAll(() => served.close());
beforeEach(() => {
  vi.clearAllMocks();
  isTrusted.mockReturnValue(true);
  const metrics = { requests: { observe } } as unknown as Metrics;
  begin = requestContext({
    metrics,
    isTrusted,
    addressOf: () => '192.0.2.1',
    headers: HEADERS,
  });
});

const respondWith = (handler: typeof handle, headers: Record<string, string> = {}, method = 'GET') => {
  handle = handler;
  return sendRequest(served.url, { headers, method });
};

describe('in Express', () => {
  test('the response has the id and the common headers from the start', async () => {
    let context: IncomingMessage['context'] | undefined;
    const { headers } = await respondWith((req, res) => {
      begin.inExpress(req, res);
      context = req.context;
      res.end();
    });
    const id = String(headers['x-request-id']);
    expect(id).toMatch(UUID);
    expect(headers).toMatchObject({ 'cache-control': 'no-store', 'content-security-policy': "default-src 'self'" });
    expect(context).toEqual({ id, reference: id.slice(-8), route: 'none', address: '192.0.2.1' });
  });

  test('accepts the id of a trusted proxy, unless it holds a card number', async () => {
    const idFor = async (sentId: string) => {
      const handler: typeof handle = (req, res) => {
        begin.inExpress(req, res);
        res.end();
      };
      return (await respondWith(handler, { 'x-request-id': sentId })).headers['x-request-id'];
    };
    expect(await idFor('from-the-proxy')).toBe('from-the-proxy');
    expect(isTrusted).toHaveBeenCalledWith('127.0.0.1');
    expect(await idFor('4571736012345674')).toMatch(UUID);
    expect(await idFor('from-the-proxy!')).toMatch(UUID);
    expect(await idFor('!from-the-proxy')).toMatch(UUID);

    isTrusted.mockReturnValue(false);
    expect(await idFor('from-the-proxy')).toMatch(UUID);
  });

  test('falling back keeps the headers that a route has set', async () => {
    const { headers } = await respondWith((req, res) => {
      begin.inExpress(req, res);
      res.setHeader('Cache-Control', 'public');
      begin.fallBackToExpress(req, res);
      res.end();
    });
    expect(headers['cache-control']).toBe('public');
  });

  test('sets added headers', async () => {
    const { status, headers } = await respondWith((req, res) => {
      begin.inExpress(req, res);
      addHeaders(req, res, { 'X-One': '1', 'X-Two': '2' });
      sendHead(req, res, 203, { 'X-Three': '3' });
      res.end();
    });
    expect([status, headers['x-one'], headers['x-two'], headers['x-three']]).toEqual([203, '1', '2', '3']);
  });
});

test.each(['Express', 'fast'])('on the %s path sends JSON with its length in bytes', async (path) => {
  const { status, headers, body } = await respondWith((req, res) => {
    if (path === 'fast') begin.onFastPath(req, res, '/fast');
    else begin.inExpress(req, res);
    sendJson(req, res, { ETag: '"v1"' }, { price: '5 €' });
  });
  expect([status, body]).toEqual([200, '{"price":"5 €"}']);
  expect(headers).toMatchObject({
    'content-type': 'application/json; charset=utf-8',
    'content-length': '17',
    etag: '"v1"',
    'content-security-policy': "default-src 'self'",
  });
});

describe('on the fast path', () => {
  test('sends all headers with the head, including added ones', async () => {
    let namesBeforeHead: string[] = [];
    const { status, headers } = await respondWith((req, res) => {
      begin.onFastPath(req, res, '/fast');
      addHeaders(req, res, { 'X-One': '1', 'X-Two': '2' });
      addHeaders(req, res, { 'X-Three': '3' });
      namesBeforeHead = res.getHeaderNames();
      sendHead(req, res, 203, { 'X-Four': '4' });
      res.end();
    });
    expect([status, namesBeforeHead]).toEqual([203, []]);
    expect(headers['x-request-id']).toMatch(UUID);
    expect(headers).toMatchObject({
      'x-one': '1',
      'x-two': '2',
      'x-three': '3',
      'x-four': '4',
      'cache-control': 'no-store',
      'content-security-policy': "default-src 'self'",
    });
  });

  test('a request that falls back has the common headers and the added ones, once', async () => {
    let context: IncomingMessage['context'] | undefined;
    const { headers } = await respondWith((req, res) => {
      begin.onFastPath(req, res, '/fast');
      addHeaders(req, res, { 'X-One': '1', 'X-Two': '2' });
      begin.fallBackToExpress(req, res);
      res.setHeader('X-Two', 'two');
      begin.fallBackToExpress(req, res);
      context = req.context;
      res.end();
    });
    expect(headers['x-request-id']).toBe(context?.id);
    expect(headers).toMatchObject({ 'x-one': '1', 'x-two': 'two', 'content-security-policy': "default-src 'self'" });
    expect(context).toMatchObject({ route: '/fast', unsentHeaders: undefined, addedHeaders: undefined });
  });

  test('a request that falls back without added headers has the common headers', async () => {
    const { headers, rawHeaders } = await respondWith((req, res) => {
      begin.onFastPath(req, res, '/fast');
      begin.fallBackToExpress(req, res);
      res.end();
    });
    expect(headers['content-security-policy']).toBe("default-src 'self'");
    expect(rawHeaders).not.toContain('');
  });

  test('falling back after the head was sent does nothing', async () => {
    const { status } = await respondWith((req, res) => {
      begin.onFastPath(req, res, '/fast');
      sendHead(req, res, 200, {});
      expect(() => begin.fallBackToExpress(req, res)).not.toThrow();
      res.end();
    });
    expect(status).toBe(200);
  });
});

test('measures the duration in seconds, by route, method and class of the status', async () => {
  const now = vi.spyOn(performance, 'now');
  const count = async (route: string, status: number, method = 'GET') => {
    const callsBefore = observe.mock.calls.length;
    const handler: typeof handle = (req, res) => {
      now.mockReturnValueOnce(10_000).mockReturnValueOnce(10_250);
      begin.onFastPath(req, res, route);
      res.statusCode = status;
      res.end();
    };
    await respondWith(handler, {}, method);
    await vi.waitFor(() => expect(observe.mock.calls.length).toBe(callsBefore + 1), LONG_TIMEOUT);
  };
  await count('/one', 200);
  await count('/one', 200);
  await count('/one', 404);
  await count('/one', 503, 'POST');
  await count('/two', 200);
  now.mockRestore();
  expect(observe.mock.calls).toEqual([
    [{ route: '/one', method: 'GET', status: '2xx' }, 0.25],
    [{ route: '/one', method: 'GET', status: '2xx' }, 0.25],
    [{ route: '/one', method: 'GET', status: '4xx' }, 0.25],
    [{ route: '/one', method: 'POST', status: '5xx' }, 0.25],
    [{ route: '/two', method: 'GET', status: '2xx' }, 0.25],
  ]);
});
