/** What is read of a form and of an address: a text that is there once, or nothing. */
import type { IncomingMessage } from 'node:http';
import { describe, expect, test } from 'vitest';
import { formField, formFields, queryField } from '../../src/http/body.ts';

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
  ])('of %j: once %j, or more often %j', (body, once, all) => {
    expect(formField(body, 'scope')).toBe(once);
    expect(formFields(body, 'scope')).toEqual(all);
  });
});

describe('a parameter of an address', () => {
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

  test('that is there twice is refused by its name', () => {
    for (const url of ['/?app=one&app=two', '/?app=one&app=one', '/?app&app', '/?app=one&%61pp=two']) {
      expect(() => read(url)).toThrow(
        expect.objectContaining({ code: 'invalid_request', message: expect.stringContaining('"app" once') }),
      );
    }
  });
});
