/** Reads bodies, and single fields of forms and queries. */
import type { IncomingMessage } from 'node:http';
import { gzipSync } from 'node:zlib';
import express, { type ErrorRequestHandler } from 'express';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  formField,
  formFields,
  queryField,
  readBody,
  readLongBody,
  requireContentLength,
} from '../../../src/shared/http/body.ts';
import { FORM_BODY, JSON_BODY, sendRequest } from '../../support/send-request.ts';
import { type Served, serve } from './serve.ts';

describe('a body', () => {
  let served: Served;
  beforeAll(async () => {
    const app = express().use(requireContentLength).use('/long', readLongBody).use(readBody);
    app.use((req, res) => void res.json(req.body));
    const failed: ErrorRequestHandler = (error, _req, res, _next) =>
      void res.status(error.status).json({ type: error.type, headers: error.headers, detail: error.detail });
    served = await serve(app.use(failed));
  });
  afterAll(() => served.close());
  const read = async (headers: Record<string, string>, body?: string, path = '/') => {
    const response = await sendRequest(served.url + path, {
      method: 'POST',
      headers,
      ...(body === undefined ? {} : { body }),
    });
    return [response.status, JSON.parse(response.body)];
  };

  test('is a form or JSON, and empty if it is neither', async () => {
    expect(await read(FORM_BODY, 'a=1&b=x+y&a=2')).toEqual([200, { a: ['1', '2'], b: 'x y' }]);
    expect(await read(JSON_BODY, '{"a":[1]}')).toEqual([200, { a: [1] }]);
    expect(await read({ 'content-type': 'text/plain' }, 'a=1')).toEqual([200, {}]);
    expect(await read({})).toEqual([200, {}]);
    // Brackets are part of the name.
    expect(await read(FORM_BODY, 'a[b]=c')).toEqual([200, { 'a[b]': 'c' }]);
  });

  test('in JSON is an object or a list', async () => {
    expect(await read(JSON_BODY, '[1]')).toEqual([200, [1]]);
    for (const text of ['"text"', '7', 'null', '{']) {
      expect(await read(JSON_BODY, text), text).toMatchObject([400, { type: 'entity.parse.failed' }]);
    }
  });

  test('has up to 512 KB in the long forms of the admin pages', async () => {
    const max = 512 * 1024;
    expect((await read(FORM_BODY, `a=${'x'.repeat(max - 2)}`, '/long'))[0]).toBe(200);
    const refused = await read(FORM_BODY, `a=${'x'.repeat(max - 1)}`, '/long');
    expect(refused).toMatchObject([413, { type: 'entity.too.large' }]);
  });

  test('has up to 64 KB', async () => {
    const max = 64 * 1024;
    expect((await read(FORM_BODY, `a=${'x'.repeat(max - 2)}`))[0]).toBe(200);
    expect(await read(FORM_BODY, `a=${'x'.repeat(max - 1)}`)).toMatchObject([413, { type: 'entity.too.large' }]);
    expect((await read(JSON_BODY, `["${'x'.repeat(max - 4)}"]`))[0]).toBe(200);
    expect(await read(JSON_BODY, `["${'x'.repeat(max - 3)}"]`)).toMatchObject([413, { type: 'entity.too.large' }]);
  });

  test('has up to 50 fields, and 300 in the long forms of the admin pages', async () => {
    const fields = (count: number) => Array.from({ length: count }, (_, n) => `f${n}=1`).join('&');
    const TOO_MANY = [413, { type: 'parameters.too.many' }];
    expect((await read(FORM_BODY, fields(50)))[0]).toBe(200);
    expect(await read(FORM_BODY, fields(51))).toMatchObject(TOO_MANY);
    expect((await read(FORM_BODY, fields(300), '/long'))[0]).toBe(200);
    expect(await read(FORM_BODY, fields(301), '/long')).toMatchObject(TOO_MANY);
  });

  test('is refused if it is compressed', async () => {
    for (const [headers, text] of [
      [FORM_BODY, 'a=1'],
      [JSON_BODY, '{}'],
    ] as const) {
      const packed = gzipSync(text).toString('latin1');
      const refused = await read({ ...headers, 'content-encoding': 'gzip' }, packed);
      expect(refused).toMatchObject([415, { type: 'encoding.unsupported' }]);
    }
  });

  test('R78 needs a Content-Length', async () => {
    const refusal = { detail: 'Send the body with a Content-Length.', headers: { Connection: 'close' } };
    expect(await read({ 'transfer-encoding': 'chunked' })).toMatchObject([411, refusal]);
  });
});

describe('a field of a form', () => {
  test.each([
    [{ scope: 'a' }, 'a', ['a']],
    [{ scope: '' }, '', ['']],
    [{ scope: ['a', 'b'] }, undefined, ['a', 'b']],
    [{ scope: ['a', 7, null, ['b']] }, undefined, ['a']],
    [{ scope: 7 }, undefined, []],
    [{ scope: null }, undefined, []],
    [{ other: 'a' }, undefined, []],
    [{}, undefined, []],
    [undefined, undefined, []],
    [null, undefined, []],
    ['scope', undefined, []],
  ])('of %j: single %j, all %j', (body, single, all) => {
    expect(formField(body, 'scope')).toBe(single);
    expect(formFields(body, 'scope')).toEqual(all);
  });
});

describe('a parameter of a URL', () => {
  const read = (url: string | undefined) => queryField({ url } as IncomingMessage, 'app');

  test.each([
    ['/sign-in?app=one', 'one'],
    ['?app=one', 'one'],
    ['/sign-in?other=x&app=one%20two', 'one two'],
    ['/sign-in?app=', ''],
    ['/sign-in?app', ''],
    ['/sign-in?apps=one', undefined],
    ['/sign-in?', undefined],
    ['/sign-in', undefined],
    ['/app=one', undefined],
    [undefined, undefined],
  ])('%s: %s', (url, value) => {
    expect(read(url)).toBe(value);
  });

  test('that is repeated is refused by name', () => {
    for (const url of ['/?app=one&app=two', '/?app=one&app=one', '/?app&app', '/?app=one&%61pp=two']) {
      expect(() => read(url)).toThrow(
        expect.objectContaining({ code: 'invalid_request', message: expect.stringContaining('"app" once') }),
      );
    }
  });
});
