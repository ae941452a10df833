/** Calls of the JSON API: the schemas check their input and shape their responses. */
import express, { type ErrorRequestHandler } from 'express';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { AppError } from '../../../src/shared/errors.ts';
import { readBody } from '../../../src/shared/http/body.ts';
import { json } from '../../../src/shared/http/description.ts';
import { isDescribed, operation } from '../../../src/shared/http/operation.ts';
import { FORM_BODY, JSON_BODY, sendRequest } from '../../support/send-request.ts';
import { type Served, serve } from './serve.ts';

const query = z.strictObject({ limit: z.coerce.number().max(50).default(10) });
const body = z.strictObject({ name: z.string() });
const response = z.object({ name: z.string() });

/** Created before each test. */
function handlers() {
  const list = operation({ summary: 'Lists', query, response }, async ({ query: { limit } }) => ({
    name: `the first ${limit}`,
    secret: 'not described',
  }));
  const add = operation({ summary: 'Adds', body, response, status: 201 }, async (call) => {
    call.res.setHeader('X-Query', JSON.stringify(call.query));
    return { name: `${call.body.name} by ${call.req.method}` };
  });
  const remove = operation({ summary: 'Removes' }, async (call) => {
    call.res.setHeader('X-Body', JSON.stringify(call.body));
    return { name: 'ignored' };
  });
  const stream = operation({ summary: 'Streams', mediaType: 'text/csv', response }, async ({ res }) => {
    res.type('text/csv').send('a,b\n');
  });
  return { list, add, remove, stream };
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
  const { list, add, remove, stream } = handlers();
  const app = express().set('query parser', false).use(readBody);
  app.get('/things', list).post('/things', add).delete('/things', remove).get('/stream', stream);
  served = await serve(app.use(failed));
});
afterEach(() => served.close());

const call = async (path: string, options: Parameters<typeof sendRequest>[1] = {}) => {
  const { status, body: text } = await sendRequest(served.url + path, options);
  return [status, text === '' ? undefined : JSON.parse(text)];
};
const post = (input: unknown, headers: Record<string, string> = JSON_BODY) =>
  call('/things', { method: 'POST', headers, body: typeof input === 'string' ? input : JSON.stringify(input) });

describe('the response', () => {
  test('has the members of the schema, and no others', async () => {
    expect(await call('/things?limit=20')).toEqual([200, { name: 'the first 20' }]);
    expect(await call('/things')).toEqual([200, { name: 'the first 10' }]);
  });

  test('has the described status, or 204 without a body', async () => {
    expect(await post({ name: 'Ada' })).toEqual([201, { name: 'Ada by POST' }]);
    expect(await call('/things', { method: 'DELETE' })).toEqual([204, undefined]);
  });

  test('is left alone if the handler has sent it', async () => {
    const sent = await sendRequest(`${served.url}/stream`);
    expect([sent.status, sent.headers['content-type'], sent.body]).toEqual([200, 'text/csv; charset=utf-8', 'a,b\n']);
    expect(failures).toEqual([]);
  });
});

describe('the input', () => {
  test('refuses an unknown parameter, and a repeated one', async () => {
    const unknown = { code: 'invalid_request', faults: [{ pointer: '#', rule: 'invalid' }] };
    expect(await call('/things?limit=20&more=1')).toMatchObject([400, unknown]);
    expect(await call('/things?more=1', { method: 'DELETE' })).toMatchObject([400, unknown]);

    const faults = [{ pointer: '#/limit', rule: 'invalid', detail: 'Use 50 or less.' }];
    const detail = 'The request is not valid: "errors" says where and why.';
    expect(await call('/things?limit=51')).toMatchObject([400, { code: 'invalid_request', detail, faults }]);

    const repeatedDetail = 'Send each parameter of the URL once.';
    expect(await call('/things?limit=1&limit=1')).toMatchObject([
      400,
      { code: 'invalid_request', detail: repeatedDetail },
    ]);
  });

  test('refuses a form, a missing member and an unknown member', async () => {
    expect(await post({})).toMatchObject([400, { faults: [{ pointer: '#/name' }] }]);
    expect(await post({ name: 'Ada', more: 1 })).toMatchObject([400, { faults: [{ pointer: '#' }] }]);
    const detail = 'Send the body as JSON, with "Content-Type: application/json".';
    expect(await post('name=Ada', FORM_BODY)).toMatchObject([400, { code: 'invalid_request', detail }]);
  });

  test('reaches the handler complete, and empty if nothing is described', async () => {
    const { headers } = await sendRequest(`${served.url}/things`, {
      method: 'POST',
      headers: JSON_BODY,
      body: JSON.stringify({ name: 'Ada' }),
    });
    expect(headers['x-query']).toBe('{}');
    const responseWithoutBody = await sendRequest(`${served.url}/things`, {
      method: 'DELETE',
      headers: JSON_BODY,
      body: '{}',
    });
    expect([responseWithoutBody.status, responseWithoutBody.body, responseWithoutBody.headers['x-body']]).toEqual([
      204,
      '',
      '{}',
    ]);
  });

  test.each([
    ['a member', JSON_BODY, '{"name":"Ada"}', [{ pointer: '#' }]],
    ['a list', JSON_BODY, '["Ada"]', [{ pointer: '#' }]],
    ['a form', FORM_BODY, 'name=Ada', [{ pointer: '#' }]],
    ['a text', { 'content-type': 'text/plain' }, 'Ada', undefined],
  ])('R88 refuses %s if no body is described', async (_name, headers, text, faults) => {
    const refused = await call('/things', { method: 'DELETE', headers, body: text });
    expect(refused).toMatchObject([400, { code: 'invalid_request', ...(faults && { faults }) }]);
  });
});

test('a handler has its description', () => {
  const { list, add, remove, stream } = handlers();
  expect(list.operation).toStrictEqual({ summary: 'Lists', query, responses: { 200: json(response) } });
  expect(add.operation).toStrictEqual({ summary: 'Adds', body, responses: { 201: json(response) } });
  expect(remove.operation).toStrictEqual({ summary: 'Removes', responses: { 204: {} } });
  expect(stream.operation.summary).toBe('Streams');
  expect(Object.keys(stream.operation.responses[200] ?? {})).toEqual(['application/json', 'text/csv']);
  expect([isDescribed(list), isDescribed(() => undefined)]).toEqual([true, false]);
});
