/** Which requests go past Express: plain GETs of relayed paths, and nothing that could make a difference to guards or pages. */
import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import type { Express } from 'express';
import { expect, test, vi } from 'vitest';
import { enterExpress, fastPath } from '../../../src/shared/http/fast-path.ts';
import type { BeginRequest } from '../../../src/shared/http/request-context.ts';
import { PATIENTLY } from '../../support/until.ts';

const HOST = ['Host', 'gatehouse.test'];

function door({ basePath = '', fails = undefined as unknown, refused = undefined as unknown } = {}) {
  const taken: string[] = [];
  const handle = async (_req: IncomingMessage, _res: ServerResponse, rest?: string) => {
    if (fails) throw fails;
    taken.push(`fast ${rest}`);
  };
  const begin = { inExpress: vi.fn(), onFastPath: vi.fn(), fallBackToExpress: vi.fn() };
  const countRequest = vi.fn(() => {
    if (refused) throw refused;
  });
  const app = vi.fn((req: IncomingMessage) => void taken.push(req.failure ? `failed ${req.failure}` : 'express'));
  const listener = fastPath({
    ...{ app: app as unknown as Express, basePath, begin: begin as unknown as BeginRequest, countRequest },
    take: vi.fn(),
    routes: [
      ['GET', '/threads/current', async () => undefined, handle, { relayed: true }],
      ['GET', '/bin/:bin', async () => undefined, handle, { relayed: true }],
      ['GET', '/bin', [], () => undefined],
    ],
  });
  const open = async (url: string | undefined, headers: Record<string, string> = {}, more: object = {}) => {
    taken.length = 0;
    const rawHeaders = [...HOST, ...Object.entries(headers).flat()];
    const req = Object.assign(new EventEmitter(), { method: 'GET', url, headers, rawHeaders, ...more });
    listener(req as unknown as IncomingMessage, {} as ServerResponse);
    // The guard is a promise.
    await setImmediate();
    return taken;
  };
  return { open, begin, countRequest };
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
])('%s goes: %s', async (url, way) => {
  expect(await door().open(url)).toEqual([way]);
});

test('below a base path, and nowhere else', async () => {
  const { open } = door({ basePath: '/gate' });
  expect(await open('/gate/threads/current')).toEqual(['fast ']);
  expect(await open('/gate/bin/457173')).toEqual(['fast 457173']);
  expect(await open('/threads/current')).toEqual(['express']);
  expect(await open('/bin/457173')).toEqual(['express']);
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
  // Only names count: a value may be any word.
  [{}, { rawHeaders: [...HOST, 'x-name', 'host'] }, 'fast '],
  [{}, { rawHeaders: ['x-name', 'host'] }, 'express'],
])('with %j and %j it goes: %s', async (headers, more, way) => {
  expect(await door().open('/threads/current', headers, more)).toEqual([way]);
});

test('the fast path begins the request under the name of its route; what fails there gets its response from Express', async () => {
  const { open, begin } = door({ fails: 'by the store' });
  const taken = await open('/bin/457173');
  expect(begin.onFastPath.mock.calls[0]?.[2]).toBe('/bin/:bin');
  await vi.waitFor(() => expect(taken).toEqual(['failed by the store']), PATIENTLY);
});

test('each request is counted once on the fast path; one too many gets its response from Express, and goes no further', async () => {
  const { open, countRequest, begin } = door({ refused: 'as one too many' });
  expect(await open('/threads/current')).toEqual(['failed as one too many']);
  expect(begin.onFastPath).toHaveBeenCalledOnce();
  expect(await open('/')).toEqual(['express']);
  expect(countRequest).toHaveBeenCalledOnce();
});

test('Express begins what has not begun, goes on with what has, and hands on what failed', () => {
  const { begin } = door();
  const enter = enterExpress(begin as unknown as BeginRequest);
  const next = vi.fn();
  enter({} as never, {} as never, next);
  expect([begin.inExpress.mock.calls.length, begin.fallBackToExpress.mock.calls.length, next.mock.calls]).toEqual([
    1,
    0,
    [[undefined]],
  ]);
  enter({ context: {}, failure: 'by the store' } as never, {} as never, next);
  expect([begin.inExpress.mock.calls.length, begin.fallBackToExpress.mock.calls.length, next.mock.calls[1]]).toEqual([
    1,
    1,
    ['by the store'],
  ]);
});
