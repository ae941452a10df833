/** Memory for bodies that are passed on: what one caller, and all of them, may use. */
import { Readable } from 'node:stream';
import type { Request, Response } from 'express';
import { expect, test } from 'vitest';
import { createJsonBytes } from '../../../src/shared/http/json-bytes.ts';

const MIB = 1_048_576;
const requestOf = (bytes: Buffer): Request =>
  Object.assign(Readable.from([bytes]), {
    headers: { 'content-type': 'application/json', 'content-length': String(bytes.length) },
  }) as unknown as Request;
const body = Buffer.alloc(MIB, ' ');

test('R142 bodies are charged before they are read, and released once their work ends or fails', async () => {
  const bodies = createJsonBytes(2 * MIB);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const use = (work: (read: Buffer | undefined) => Promise<unknown>, caller: string) =>
    bodies.use(requestOf(body), {} as Response, caller, work);

  const running = [use(() => promise, 'a'), use(() => promise, 'b')];
  const refused = requestOf(body);
  await expect(bodies.use(refused, {} as Response, 'c', async () => 'read')).rejects.toMatchObject({
    code: 'overloaded',
    retryAfterSeconds: 2,
  });
  expect(refused.readableDidRead).toBe(false);
  resolve('done');
  expect(await Promise.all(running)).toEqual(['done', 'done']);

  const failing = Promise.reject(new Error('the call failed'));
  await expect(use(() => failing, 'a')).rejects.toThrow('the call failed');
  expect(await Promise.all([use(async (read) => read?.length, 'a'), use(async () => 'b', 'b')])).toEqual([MIB, 'b']);
  reject(new Error('not used'));
});

test('R137 one caller uses at most a quarter of the memory', async () => {
  const bodies = createJsonBytes();
  const { promise, resolve } = Promise.withResolvers<void>();
  const use = (caller: string) => bodies.use(requestOf(body), {} as Response, caller, () => promise);
  const running = Array.from({ length: 16 }, () => use('a'));
  await expect(use('a')).rejects.toMatchObject({ code: 'overloaded' });
  const other = use('b');
  resolve();
  await Promise.all([...running, other]);
  await use('a');
});

test('a request without a body uses no memory, and needs no type', async () => {
  const bodies = createJsonBytes(0);
  const request = { headers: {} } as Request;
  expect(await bodies.use(request, {} as Response, 'a', async (read) => read)).toBeUndefined();
});
