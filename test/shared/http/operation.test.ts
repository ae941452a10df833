/** A call of the JSON interface: judged by the schemas that describe it, and answered by them. */
import express, { type ErrorRequestHandler } from 'express';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { AppError } from '../../../src/shared/errors.ts';
import { readBody } from '../../../src/shared/http/body.ts';
import { json } from '../../../src/shared/http/description.ts';
import { isDescribed, operation } from '../../../src/shared/http/operation.ts';
import { ask, FORM, JSON_BODY } from '../../support/ask.ts';
import { type Served, serve } from './serve.ts';

const query = z.strictObject({ limit: z.coerce.number().max(50).default(10) });
const body = z.strictObject({ name: z.string() });
const response = z.object({ name: z.string() });

/** Made anew for each test, as at a start. */
function handlers() {
  const list = operation({ summary: 'Lists', query, response }, async ({ query: { limit } }) => ({
    name: `the first ${limit}`,
    secret: 'not described',
  }));
  const add = operation({ summary: 'Adds', body, response, status: 201 }, async (call) => {
    call.res.setHeader('X-Query', JSON.stringify(call.query));
    return { name: `${call.body.name} by ${call.req.method}` };
  });
  const forget = operation({ summary: 'Forgets' }, async (call) => {
    call.res.setHeader('X-Body', JSON.stringify(call.body));
    return { name: 'nobody asked' };
  });
  const stream = operation({ summary: 'Streams', mediaType: 'text/csv', response }, async ({ res }) => {
    res.type('text/csv').send('a,b\n');
  });
  return { list, add, forget, stream };
}

let failures: unknown[];
const failed: ErrorRequestHandler = (error, _req, res, _next) => {
  failures.push(error);
  if (error instanceof AppError) res.status(error.status).json({ ...error, headers: undefined });
  else res.status(500).json({ message: String(error) });
};

let served: Served;
beforeEach(async () => {
  failures = [];
  const { list, add, forget, stream } = handlers();
  const app = express().set('query parser', false).use(readBody);
  app.get('/things', list).post('/things', add).delete('/things', forget).get('/stream', stream);
  served = await serve(app.use(failed));
});
afterEach(() => served.close());

const told = async (path: string, question: Parameters<typeof ask>[1] = {}) => {
  const { status, body: text } = await ask(served.url + path, question);
  return [status, text === '' ? undefined : JSON.parse(text)];
};
const post = (given: unknown, headers: Record<string, string> = JSON_BODY) =>
  told('/things', { method: 'POST', headers, body: typeof given === 'string' ? given : JSON.stringify(given) });

describe('what is answered', () => {
  test('is what the schema names, and nothing else', async () => {
    expect(await told('/things?limit=20')).toEqual([200, { name: 'the first 20' }]);
    expect(await told('/things')).toEqual([200, { name: 'the first 10' }]);
  });

  test('comes with the status that is described, or with 204 and nothing', async () => {
    expect(await post({ name: 'Ada' })).toEqual([201, { name: 'Ada by POST' }]);
    expect(await told('/things', { method: 'DELETE' })).toEqual([204, undefined]);
  });

  test('is left alone where the handler has sent it itself', async () => {
    const sent = await ask(`${served.url}/stream`);
    expect([sent.status, sent.headers['content-type'], sent.body]).toEqual([200, 'text/csv; charset=utf-8', 'a,b\n']);
    expect(failures).toEqual([]);
  });
});

describe('what is asked', () => {
  test('by a parameter that nobody described, or by one twice, is refused', async () => {
    const unknown = { code: 'invalid_request', faults: [{ pointer: '#', rule: 'invalid' }] };
    expect(await told('/things?limit=20&more=1')).toMatchObject([400, unknown]);
    expect(await told('/things?more=1', { method: 'DELETE' })).toMatchObject([400, unknown]);
    const faults = [{ pointer: '#/limit', rule: 'invalid', detail: 'Give 50 or less.' }];
    const detail = 'The request is not valid: "errors" says where and why.';
    expect(await told('/things?limit=51')).toMatchObject([400, { code: 'invalid_request', detail, faults }]);
    const once = 'Give each parameter of the address once.';
    expect(await told('/things?limit=1&limit=1')).toMatchObject([400, { code: 'invalid_request', detail: once }]);
  });

  test('with a body is judged as JSON: a form is refused, and so is what is not described', async () => {
    expect(await post({})).toMatchObject([400, { faults: [{ pointer: '#/name' }] }]);
    expect(await post({ name: 'Ada', more: 1 })).toMatchObject([400, { faults: [{ pointer: '#' }] }]);
    const detail = 'Send the body as JSON, with "Content-Type: application/json".';
    expect(await post('name=Ada', FORM)).toMatchObject([400, { code: 'invalid_request', detail }]);
  });

  test('reaches the handler whole, and empty where nothing is described', async () => {
    const { headers } = await ask(`${served.url}/things`, {
      method: 'POST',
      headers: JSON_BODY,
      body: JSON.stringify({ name: 'Ada' }),
    });
    expect(headers['x-query']).toBe('{}');
    const none = await ask(`${served.url}/things`, { method: 'DELETE', headers: JSON_BODY, body: '{}' });
    expect([none.status, none.body, none.headers['x-body']]).toEqual([204, '', '{}']);
  });

  test.each([
    ['a member', JSON_BODY, '{"name":"Ada"}', [{ pointer: '#' }]],
    ['a list', JSON_BODY, '["Ada"]', [{ pointer: '#' }]],
    ['a form', FORM, 'name=Ada', [{ pointer: '#' }]],
    ['a text', { 'content-type': 'text/plain' }, 'Ada', undefined],
  ])('R88 with %s where no body is described is refused', async (_what, headers, text, faults) => {
    const refused = await told('/things', { method: 'DELETE', headers, body: text });
    expect(refused).toMatchObject([400, { code: 'invalid_request', ...(faults && { faults }) }]);
  });
});

test('a handler says what it is', () => {
  const { list, add, forget, stream } = handlers();
  expect(list.operation).toStrictEqual({ summary: 'Lists', query, responses: { 200: json(response) } });
  expect(add.operation).toStrictEqual({ summary: 'Adds', body, responses: { 201: json(response) } });
  expect(forget.operation).toStrictEqual({ summary: 'Forgets', responses: { 204: {} } });
  expect(stream.operation.summary).toBe('Streams');
  expect(Object.keys(stream.operation.responses[200] ?? {})).toEqual(['application/json', 'text/csv']);
  expect([isDescribed(list), isDescribed(() => undefined)]).toEqual([true, false]);
});
