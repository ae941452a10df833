/** What every request carries from its begin on, on the fast path and in Express, and how its time is counted. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { type BeginRequest, requestContext } from '../../../src/shared/http/request-context.ts';
import { addHeaders, sendHead, sendJson } from '../../../src/shared/http/response-head.ts';
import type { Metrics } from '../../../src/shared/observability/metrics.ts';
import { ask } from '../../support/ask.ts';
import { PATIENTLY } from '../../support/until.ts';
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

const answers = (how: typeof handle, headers: Record<string, string> = {}, method = 'GET') => {
  handle = how;
  return ask(served.url, { headers, method });
};

describe('in Express', () => {
  test('the answer has its id and the headers of every answer from the begin on', async () => {
    let context: IncomingMessage['context'] | undefined;
    const { headers } = await answers((req, res) => {
      begin.inExpress(req, res);
      context = req.context;
      res.end();
    });
    const id = String(headers['x-request-id']);
    expect(id).toMatch(UUID);
    expect(headers).toMatchObject({ 'cache-control': 'no-store', 'content-security-policy': "default-src 'self'" });
    expect(context).toEqual({ id, reference: id.slice(-8), route: 'none', address: '192.0.2.1' });
  });

  test('an id that is given counts from a proxy of ours, and without a card number in it', async () => {
    const idFor = async (given: string) => {
      const how: typeof handle = (req, res) => {
        begin.inExpress(req, res);
        res.end();
      };
      return (await answers(how, { 'x-request-id': given })).headers['x-request-id'];
    };
    expect(await idFor('from-the-proxy')).toBe('from-the-proxy');
    expect(isTrusted).toHaveBeenCalledWith('127.0.0.1');
    expect(await idFor('4571736012345674')).toMatch(UUID);
    expect(await idFor('from-the-proxy!')).toMatch(UUID);
    expect(await idFor('!from-the-proxy')).toMatch(UUID);
    isTrusted.mockReturnValue(false);
    expect(await idFor('from-the-proxy')).toMatch(UUID);
  });

  test('going back to it changes nothing that a route has done since', async () => {
    const { headers } = await answers((req, res) => {
      begin.inExpress(req, res);
      res.setHeader('Cache-Control', 'public');
      begin.fallBackToExpress(req, res);
      res.end();
    });
    expect(headers['cache-control']).toBe('public');
  });

  test('what is added is set, and a head of data runs nothing', async () => {
    const { status, headers } = await answers((req, res) => {
      begin.inExpress(req, res);
      addHeaders(req, res, { 'X-One': '1', 'X-Two': '2' });
      sendHead(req, res, 203, { 'X-Three': '3' });
      res.end();
    });
    expect([status, headers['x-one'], headers['x-two'], headers['x-three']]).toEqual([203, '1', '2', '3']);
    expect(headers['content-security-policy']).toBe("default-src 'none'; frame-ancestors 'none'; sandbox");
  });
});

test.each(['Express', 'fast path'])(
  'on the way of %s a value leaves as JSON, with its length in bytes',
  async (way) => {
    const { status, headers, body } = await answers((req, res) => {
      if (way === 'fast path') begin.onFastPath(req, res, '/fast');
      else begin.inExpress(req, res);
      sendJson(req, res, { ETag: '"v1"' }, { price: '5 €' });
    });
    expect([status, body]).toEqual([200, '{"price":"5 €"}']);
    expect(headers).toMatchObject({
      ...{ 'content-type': 'application/json; charset=utf-8', 'content-length': '17', etag: '"v1"' },
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'; sandbox",
    });
  },
);

describe('on the fast path', () => {
  test('all headers leave with the head, those that were added among them', async () => {
    let before: string[] = [];
    const { status, headers } = await answers((req, res) => {
      begin.onFastPath(req, res, '/fast');
      addHeaders(req, res, { 'X-One': '1', 'X-Two': '2' });
      addHeaders(req, res, { 'X-Three': '3' });
      before = res.getHeaderNames();
      sendHead(req, res, 203, { 'X-Four': '4' });
      res.end();
    });
    expect([status, before]).toEqual([203, []]);
    expect(headers['x-request-id']).toMatch(UUID);
    expect(headers).toMatchObject({
      ...{ 'x-one': '1', 'x-two': '2', 'x-three': '3', 'x-four': '4', 'cache-control': 'no-store' },
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'; sandbox",
    });
  });

  test('who comes back from it has the headers of a page, and those that were added, once', async () => {
    let context: IncomingMessage['context'] | undefined;
    const { headers } = await answers((req, res) => {
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

  test('who comes back with nothing added has the headers of a page', async () => {
    const { headers, rawHeaders } = await answers((req, res) => {
      begin.onFastPath(req, res, '/fast');
      begin.fallBackToExpress(req, res);
      res.end();
    });
    expect(headers['content-security-policy']).toBe("default-src 'self'");
    expect(rawHeaders).not.toContain('');
  });

  test('who comes back after the head has left is let be', async () => {
    const { status } = await answers((req, res) => {
      begin.onFastPath(req, res, '/fast');
      sendHead(req, res, 200, {});
      expect(() => begin.fallBackToExpress(req, res)).not.toThrow();
      res.end();
    });
    expect(status).toBe(200);
  });
});

test('time is counted in seconds from the begin to the end, by route, method and kind of status', async () => {
  const now = vi.spyOn(performance, 'now');
  const count = async (route: string, status: number, method = 'GET') => {
    const seen = observe.mock.calls.length;
    const how: typeof handle = (req, res) => {
      now.mockReturnValueOnce(10_000).mockReturnValueOnce(10_250);
      begin.onFastPath(req, res, route);
      res.statusCode = status;
      res.end();
    };
    await answers(how, {}, method);
    await vi.waitFor(() => expect(observe.mock.calls.length).toBe(seen + 1), PATIENTLY);
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
