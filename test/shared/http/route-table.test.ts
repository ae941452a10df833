/** Mounted routes: each runs its guards in order, and other methods on its path get 405 with the allowed ones. */
import express, { type ErrorRequestHandler, type RequestHandler } from 'express';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { effectGuard, routeTable } from '../../../src/shared/http/route-table.ts';
import { sendRequest } from '../../support/send-request.ts';
import { type Served, serve } from './serve.ts';

let served: Served;
beforeEach(async () => {
  const step =
    (name: string): RequestHandler =>
    (_req, res, next) => {
      res.append('X-Step', name);
      next();
    };
  const end: RequestHandler = (req, res) => void res.send(`${req.method} ${req.context.route} ${req.params.id ?? ''}`);
  const app = express();
  app.use((req, _res, next) => {
    req.context = { id: 'i', reference: 'i', route: 'none', address: '192.0.2.1' };
    next();
  });
  app.use(
    routeTable([
      ['GET', '/things', [step('one'), [step('two'), step('three')]], end],
      ['POST', '/things', [], end],
      ['GET', '/things/:id', [], end],
      ['PUT', '/things/:id', [], end],
      ['DELETE', '/things/:id', [], end],
      ['GET', '/once', [effectGuard, step('one')], end],
      ['POST', '/change', [], end],
    ]),
  );
  const failed: ErrorRequestHandler = (error, req, res, _next) =>
    void res.status(error.status).set(error.headers).send(`${error.code} ${req.context.route}`);
  app.use((req, res) => void res.status(404).send(req.context.route));
  app.use(failed);
  served = await serve(app);
});
afterEach(() => served.close());

const request = async (method: string, path: string) => {
  const { status, headers, body } = await sendRequest(served.url + path, { method });
  return [status, body || headers['content-length'], headers.allow, headers['x-step']].filter(
    (value) => value !== undefined,
  );
};

test('each method of a path has its own handler, which sees the pattern of the route', async () => {
  expect(await request('GET', '/things')).toEqual([200, 'GET /things ', 'one, two, three']);
  expect(await request('POST', '/things')).toEqual([200, 'POST /things ']);
  expect(await request('GET', '/things/7')).toEqual([200, 'GET /things/:id 7']);
  expect(await request('PUT', '/things/7')).toEqual([200, 'PUT /things/:id 7']);
  expect(await request('DELETE', '/things/7')).toEqual([200, 'DELETE /things/:id 7']);
});

test('other methods get 405 with the allowed ones, which include HEAD if there is a GET', async () => {
  expect(await request('PUT', '/things')).toEqual([405, 'method_not_allowed /things', 'GET, HEAD, POST']);
  expect(await request('POST', '/things/7')).toEqual([405, 'method_not_allowed /things/:id', 'GET, HEAD, PUT, DELETE']);
  expect(await request('GET', '/change')).toEqual([405, 'method_not_allowed /change', 'POST']);
  expect(await request('HEAD', '/things')).toEqual([200, '13', 'one, two, three']);
});

test('R136 a route with effects refuses HEAD, and browsers that load it ahead', async () => {
  expect(await request('GET', '/once')).toEqual([200, 'GET /once ', 'one']);
  const { status: speculative, body } = await sendRequest(`${served.url}/once`, {
    headers: { 'sec-purpose': 'prefetch' },
  });
  expect([speculative, body]).toEqual([503, 'not_prefetched /once']);
  const [status, , allowed, step] = await request('HEAD', '/once');
  expect([status, allowed, step]).toEqual([405, 'GET', undefined]);
  expect(await request('POST', '/once')).toEqual([405, 'method_not_allowed /once', 'GET']);
});

test('paths match exactly', async () => {
  for (const path of ['/Things', '/thing', '/things/7/8'])
    expect(await request('GET', path), path).toEqual([404, 'none']);
});
