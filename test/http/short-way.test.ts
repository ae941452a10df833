/** Which requests go past Express: plain GETs of relayed paths, and nothing that could make a difference to guards or pages. */
import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Express } from 'express';
import { expect, test, vi } from 'vitest';
import { frontDoor, throughExpress } from '../../src/http/front-door.ts';
import type { BeginRequest } from '../../src/http/request-context.ts';
import { PATIENTLY } from '../support/until.ts';

const HOST = ['Host', 'gatehouse.test'];

function door({ basePath = '', fails = undefined as unknown, refused = undefined as unknown } = {}) {
  const taken: string[] = [];
  const handle = async (_req: IncomingMessage, _res: ServerResponse, rest?: string) => {
    if (fails) throw fails;
    taken.push(`short ${rest}`);
  };
  const begin = Object.assign(vi.fn(), { short: vi.fn(), long: vi.fn() });
  const admit = vi.fn(() => {
    if (refused) throw refused;
  });
  const app = vi.fn((req: IncomingMessage) => void taken.push(req.failure ? `failed ${req.failure}` : 'express'));
  const listener = frontDoor({
    ...{ app: app as unknown as Express, basePath, begin: begin as unknown as BeginRequest, admit },
    ways: {
      exact: [{ route: '/threads/current', handle }],
      below: [{ prefix: '/bin/', rest: /^\d{6,8}$/, route: '/bin/:bin', handle }],
    },
    isClean: (text) => !text.includes('4571736000000000'),
  });
  const open = (url: string | undefined, headers: Record<string, string> = {}, more: object = {}) => {
    taken.length = 0;
    const rawHeaders = [...HOST, ...Object.entries(headers).flat()];
    const req = Object.assign(new EventEmitter(), { method: 'GET', url, headers, rawHeaders, ...more });
    listener(req as unknown as IncomingMessage, {} as ServerResponse);
    return taken;
  };
  return { open, begin, admit };
}

test.each([
  ['/threads/current', 'short '],
  ['/threads/current?app=platform', 'short '],
  ['/bin/457173', 'short 457173'],
  ['/bin/45717360?x=1', 'short 45717360'],
  ['/bin/45717', 'express'],
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
])('%s goes: %s', (url, way) => {
  expect(door().open(url)).toEqual([way]);
});

test('below a base path, and nowhere else', () => {
  const { open } = door({ basePath: '/gate' });
  expect(open('/gate/threads/current')).toEqual(['short ']);
  expect(open('/gate/bin/457173')).toEqual(['short 457173']);
  expect(open('/threads/current')).toEqual(['express']);
  expect(open('/bin/457173')).toEqual(['express']);
});

test.each([
  [{ accept: 'application/json' }, {}, 'short '],
  [{ accept: 'text/html' }, {}, 'express'],
  [{ accept: 'application/json, text/html;q=0.1' }, {}, 'express'],
  [{ 'sec-fetch-site': 'same-origin' }, {}, 'short '],
  [{ 'sec-fetch-site': 'cross-site' }, {}, 'express'],
  [{ upgrade: 'websocket' }, {}, 'express'],
  [{ 'transfer-encoding': 'chunked' }, {}, 'express'],
  [{ 'content-length': '0' }, {}, 'express'],
  [{ 'x-request-id': 'from-the-proxy' }, {}, 'express'],
  [{ 'x-forwarded-host': 'gatehouse.test' }, {}, 'express'],
  [{ 'x-forwarded-for': '192.0.2.1' }, {}, 'short '],
  [{}, { method: 'HEAD' }, 'express'],
  [{}, { method: 'POST' }, 'express'],
  [{}, { rawHeaders: [] }, 'express'],
  [{}, { rawHeaders: [...HOST, ...HOST] }, 'express'],
  [{}, { rawHeaders: ['hOST', 'gatehouse.test'] }, 'short '],
  // Only names count: a value may be any word.
  [{}, { rawHeaders: [...HOST, 'x-name', 'host'] }, 'short '],
  [{}, { rawHeaders: ['x-name', 'host'] }, 'express'],
])('with %j and %j it goes: %s', (headers, more, way) => {
  expect(door().open('/threads/current', headers, more)).toEqual([way]);
});

test('the short way begins the request under the name of its route; what fails there is answered by Express', async () => {
  const { open, begin } = door({ fails: 'by the store' });
  const taken = open('/bin/457173');
  expect(begin.short.mock.calls[0]?.[2]).toBe('/bin/:bin');
  await vi.waitFor(() => expect(taken).toEqual(['failed by the store']), PATIENTLY);
});

test('each request is counted once on the short way; one too many is answered by Express, and goes no further', () => {
  const { open, admit, begin } = door({ refused: 'as one too many' });
  expect(open('/threads/current')).toEqual(['failed as one too many']);
  expect(begin.short).toHaveBeenCalledOnce();
  expect(open('/')).toEqual(['express']);
  expect(admit).toHaveBeenCalledOnce();
});

test('Express begins what has not begun, goes on with what has, and hands on what failed', () => {
  const { begin } = door();
  const enter = throughExpress(begin as unknown as BeginRequest);
  const next = vi.fn();
  enter({} as never, {} as never, next);
  expect([begin.mock.calls.length, begin.long.mock.calls.length, next.mock.calls]).toEqual([1, 0, [[undefined]]]);
  enter({ context: {}, failure: 'by the store' } as never, {} as never, next);
  expect([begin.mock.calls.length, begin.long.mock.calls.length, next.mock.calls[1]]).toEqual([1, 1, ['by the store']]);
});
