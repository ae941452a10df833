/** Several real processes on one Redis. */

import { afterEach, beforeEach, expect, test } from 'vitest';
import { createRedisStore } from '../../../src/storage/redis/store.ts';
import type { Store } from '../../../src/storage/store.ts';
import { type Child, startChild } from '../../support/child.ts';
import { skipWithout } from '../../support/missing.ts';
import { IN_MEMORY, missingRedis, type RedisServer, startRedis } from '../../support/redis-server.ts';
import { startStopwatch } from '../../support/stopwatch.ts';

const PROCESSES = ['A', 'B', 'C', 'D'];
let server: RedisServer | undefined;
let store: Store;

beforeEach(async (context) => {
  skipWithout(context, missingRedis);
  server = await startRedis(IN_MEMORY);
  store = await createRedisStore({ url: server.url, durability: 'none' });
});

afterEach(async () => {
  if (!server) return;
  await store.close();
  await server.dispose();
});

function start(task: string, name = ''): Child {
  return startChild('redis-worker.ts', [server?.url ?? '', task, name]);
}

async function runAll(task: string): Promise<string[]> {
  const children = PROCESSES.map((name) => start(task, name));
  return (await Promise.all(children.map((child) => child.ended))).flat();
}

test('four processes that take the same hundred keys get each exactly once', async () => {
  await Promise.all(Array.from({ length: 100 }, (_, n) => store.write([{ put: `ticket ${n}`, value: 'v' }])));
  const taken = (await runAll('take')).map(Number).toSorted((a, b) => a - b);
  expect(taken).toEqual(Array.from({ length: 100 }, (_, n) => n));
});

test('four processes reserve up to the limit together, and no reservation twice', async () => {
  const reserved = (await runAll('reserve')).map(Number).toSorted((a, b) => a - b);
  expect(reserved).toEqual(Array.from({ length: 200 }, (_, n) => n + 1));
  expect(await store.counter('quota')).toBe(200);
});

test('no compare-and-set of four processes is lost', async () => {
  expect(await runAll('compareAndSet')).toEqual(['done', 'done', 'done', 'done']);
  expect((await store.get('sum'))?.value).toBe('200');
});

test('R36: a lease keeps four processes apart, and its numbers never repeat', async () => {
  const numbers = await runAll('lease');
  expect(new Set(numbers).size).toBe(80);
  expect((await store.get('sum:{g}'))?.value).toBe('80');
});

test('messages reach the other processes, in order, within a second', async () => {
  const listeners = PROCESSES.map((name) => start('listen', name));
  await expect.poll(() => listeners.every(({ lines }) => lines[0] === 'listening')).toBe(true);
  const expected = ['listening', ...Array.from({ length: 50 }, (_, n) => `message ${n}`)];
  for (const message of expected.slice(1)) await store.publish('channel', message);
  const took = startStopwatch();
  await expect.poll(() => listeners.map(({ lines }) => lines)).toEqual(PROCESSES.map(() => expected));
  expect(took()).toBeLessThan(1_000);
  for (const listener of listeners) listener.endInput();
  await Promise.all(listeners.map(({ ended }) => ended));
});

test('a process that has closed its store ends at once', async () => {
  const child = start('close');
  await expect.poll(() => child.lines, { interval: 10 }).toEqual(['closed']);
  const took = startStopwatch();
  await child.ended;
  expect(took()).toBeLessThan(3_000);
});
