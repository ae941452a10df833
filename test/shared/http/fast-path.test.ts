/** The fast path handles plain GETs of its routes, and nothing that guards or pages could treat differently. */
import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import type { Express } from 'express';
import { expect, test, vi } from 'vitest';
import { enterExpress, fastPath } from '../../../src/shared/http/fast-path.ts';
import type { BeginRequest } from '../../../src/shared/http/request-context.ts';
import { LONG_TIMEOUT } from '../../support/until.ts';

const HOST = ['Host', 'gatehouse.test'];

function createFastPath({ basePath = '', fails = undefined as unknown, refused = undefined as unknown } = {}) {
  const outcomes: string[] = [];
  const handle = async (_req: IncomingMessage, _res: ServerResponse, rest?: string) => {
    if (fails) throw fails;
    outcomes.push(`fast ${rest}`);
  };
  const begin = { inExpress: vi.fn(), onFastPath: vi.fn(), fallBackToExpress: vi.fn() };
  const countRequest = vi.fn(() => {
    if (refused) throw refused;
  });
  const app = vi.fn((req: IncomingMessage) => void outcomes.push(req.failure ? `failed ${req.failure}` : 'express'));
  const listener = fastPath({
    app: app as unknown as Express,
    basePath,
    begin: begin as unknown as BeginRequest,
    countRequest,
    routes: [
      ['GET', '/threads/current', async () => undefined, handle, { fastPath: true }],
      ['GET', '/bin/:bin', async () => undefined, handle, { fastPath: true }],
      ['GET', '/bin', [], () => undefined],
    ],
  });
  const request = async (url: string | undefined, headers: Record<string, string> = {}, properties: object = {}) => {
    outcomes.length = 0;
    const rawHeaders = [...HOST, ...Object.entries(headers).flat()];
    const req = Object.assign(new EventEmitter(), { method: 'GET', url, headers, rawHeaders, ...properties });
    listener(req as unknown as IncomingMessage, {} as ServerResponse);
    // The guard is asynchronous.
    await setImmediate();
    return outcomes;
  };
  return { request, begin, countRequest };
}

test.each([
  ['/threads/current', 'fast '],
  ['/threads/current?app=platform', 'fast '],
  ['/bin/457173', 'fast 457173'],
  ['/bin/45717360?x=1', 'fast 45717360'],
  ['/bin/45717', 'fast 45717'],
  ['/bin/457173601', 'express'],
  ['/bin/', 'express'],
  ['/bin', 'express'],
  ['/threads/currently', 'express'],
  ['/threads', 'express'],
  ['/', 'express'],
  ['', 'express'],
  [undefined, 'express'],
  ['/x/threads/current', 'express'],
  ['/bin/45717360?x=4571736000000000', 'express'],
])('%s is handled by: %s', async (url, path) => {
  expect(await createFastPath().request(url)).toEqual([path]);
});

test('with a base path, the fast path handles only requests below it', async () => {
  const { request } = createFastPath({ basePath: '/gate' });
  expect(await request('/gate/threads/current')).toEqual(['fast ']);
  expect(await request('/gate/bin/457173')).toEqual(['fast 457173']);
  expect(await request('/threads/current')).toEqual(['express']);
  expect(await request('/bin/457173')).toEqual(['express']);
});

test.each([
  [{ accept: 'application/json' }, {}, 'fast '],
  [{ accept: 'text/html' }, {}, 'express'],
  [{ accept: 'application/json, text/html;q=0.1' }, {}, 'express'],
  [{ 'sec-fetch-site': 'same-origin' }, {}, 'fast '],
  [{ 'sec-fetch-site': 'cross-site' }, {}, 'express'],
  [{ upgrade: 'websocket' }, {}, 'express'],
  [{ 'transfer-encoding': 'chunked' }, {}, 'express'],
  [{ 'content-length': '0' }, {}, 'express'],
  [{ 'x-request-id': 'from-the-proxy' }, {}, 'express'],
  [{ 'x-forwarded-host': 'gatehouse.test' }, {}, 'express'],
  [{ 'x-forwarded-for': '192.0.2.1' }, {}, 'fast '],
  [{}, { method: 'HEAD' }, 'express'],
  [{}, { method: 'POST' }, 'express'],
  [{}, { rawHeaders: [] }, 'express'],
  [{}, { rawHeaders: [...HOST, ...HOST] }, 'express'],
  [{}, { rawHeaders: ['hOST', 'gatehouse.test'] }, 'fast '],
  // Only names count, not values.
  [{}, { rawHeaders: [...HOST, 'x-name', 'host'] }, 'fast '],
  [{}, { rawHeaders: ['x-name', 'host'] }, 'express'],
])('with %j and %j is handled by: %s', async (headers, properties, path) => {
  expect(await createFastPath().request('/threads/current', headers, properties)).toEqual([path]);
});

test('the fast path begins the request with the pattern of its route; Express responds if it fails', async () => {
  const { request, begin } = createFastPath({ fails: 'by the store' });
  const outcomes = await request('/bin/457173');
  expect(begin.onFastPath.mock.calls[0]?.[2]).toBe('/bin/:bin');
  await vi.waitFor(() => expect(outcomes).toEqual(['failed by the store']), LONG_TIMEOUT);
});

test('each request on the fast path is counted once; Express responds if the limit refuses it', async () => {
  const { request, countRequest, begin } = createFastPath({ refused: 'as one too many' });
  expect(await request('/threads/current')).toEqual(['failed as one too many']);
  expect(begin.onFastPath).toHaveBeenCalledOnce();
  expect(await request('/')).toEqual(['express']);
  expect(countRequest).toHaveBeenCalledOnce();
});

test('Express begins a new request, continues one from the fast path, and passes its failure on', () => {
  const { begin } = createFastPath();
  const enter = enterExpress(begin as unknown as BeginRequest);
  const next = vi.fn();
  enter({} as never, {} as never, next);
  expect(begin.inExpress).toHaveBeenCalledTimes(1);
  expect(begin.fallBackToExpress).not.toHaveBeenCalled();
  expect(next.mock.calls).toEqual([[undefined]]);

  enter({ context: {}, failure: 'by the store' } as never, {} as never, next);
  expect(begin.inExpress).toHaveBeenCalledTimes(1);
  expect(begin.fallBackToExpress).toHaveBeenCalledTimes(1);
  expect(next.mock.calls[1]).toEqual(['by the store']);
});
