/** Several real processes on one database file. */

import { readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createSqliteStore, DATABASE_FILE } from '../../../src/storage/sqlite/store.ts';
import type { Store } from '../../../src/storage/store.ts';
import { type Child, startChild } from '../../support/child.ts';
import { startStopwatch } from '../../support/stopwatch.ts';

const PROCESSES = ['A', 'B', 'C', 'D'];
let directory: string;
let store: Store;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'gatehouse-'));
});

afterEach(async () => {
  await store.close();
  await rm(directory, { recursive: true });
});

function start(task: string, name = ''): Child {
  return startChild('sqlite-worker.ts', [directory, task, name]);
}

async function runAll(task: string): Promise<string[]> {
  const children = PROCESSES.map((name) => start(task, name));
  return (await Promise.all(children.map((child) => child.ended))).flat();
}

test('the first start of four processes at the same moment makes one database, which holds what each of them wrote', async () => {
  for (let round = 0; round < 6; round += 1) {
    const data = join(directory, `round ${round}`);
    const startAt = String(Date.now() + 400);
    const children = PROCESSES.map((name) => startChild('sqlite-worker.ts', [data, 'sign', name, startAt]));
    await Promise.all(children.map((child) => child.ended));
    store = await createSqliteStore({ directory: data });
    const records = await Promise.all(PROCESSES.map((name) => store.get(`signed by ${name}`)));
    expect(records.map((record) => record?.value)).toEqual(PROCESSES.map(() => 'v'));
    expect(readdirSync(data).filter((name) => name.endsWith('.new'))).toEqual([]);
    await store.close();
  }
});

test('four processes that take the same hundred keys get each exactly once', async () => {
  store = await createSqliteStore({ directory });
  await Promise.all(Array.from({ length: 100 }, (_, n) => store.write([{ put: `ticket ${n}`, value: 'v' }])));
  const taken = (await runAll('take')).map(Number).toSorted((a, b) => a - b);
  expect(taken).toEqual(Array.from({ length: 100 }, (_, n) => n));
});

test('four processes reserve up to the limit together, and no reservation twice', async () => {
  const reserved = (await runAll('reserve')).map(Number).toSorted((a, b) => a - b);
  expect(reserved).toEqual(Array.from({ length: 200 }, (_, n) => n + 1));
  store = await createSqliteStore({ directory });
  expect(await store.counter('quota')).toBe(200);
});

test('no compare-and-set of four processes is lost', async () => {
  expect(await runAll('compareAndSet')).toEqual(['done', 'done', 'done', 'done']);
  store = await createSqliteStore({ directory });
  expect((await store.get('sum'))?.value).toBe('200');
});

test('R36: a lease keeps four processes apart, and its numbers never repeat', async () => {
  const numbers = await runAll('lease');
  expect(new Set(numbers).size).toBe(80);
  store = await createSqliteStore({ directory });
  expect((await store.get('sum:{g}'))?.value).toBe('80');
});

test('messages reach the other processes, in order, within a second', async () => {
  const listeners = PROCESSES.map((name) => start('listen', name));
  await expect.poll(() => listeners.every(({ lines }) => lines[0] === 'listening')).toBe(true);
  store = await createSqliteStore({ directory });
  const expected = ['listening', ...Array.from({ length: 50 }, (_, n) => `message ${n}`)];
  for (const message of expected.slice(1)) await store.publish('channel', message);
  const took = startStopwatch();
  await expect.poll(() => listeners.map(({ lines }) => lines)).toEqual(PROCESSES.map(() => expected));
  expect(took()).toBeLessThan(1_000);
  for (const listener of listeners) listener.endInput();
  await Promise.all(listeners.map(({ ended }) => ended));
});

test.each([
  ['durable', 'grant'],
  ['relaxed', 'last-use'],
])(
  'R51: kill -9 in the middle of %s writes: the file is whole, nothing answered is lost, no write is there by half',
  async (_, kind) => {
    for (let round = 0; round < 8; round += 1) {
      const child = start('storm', kind);
      await expect.poll(() => child.lines.length, { interval: 2 }).toBeGreaterThan(20 + round * 7);
      child.kill('SIGKILL');
      const answered = Number((await child.ended).at(-1));
      store = await createSqliteStore({ directory });
      const left = Number((await store.get(`${kind}:{p}:left`))?.value);
      expect(left).toBeGreaterThanOrEqual(answered);
      expect((await store.get(`${kind}:{p}:right`))?.value).toBe(String(left));
      expect(await store.count(`${kind}:{p}:numbers`)).toBe(left);
      await store.close();
    }
    const database = new DatabaseSync(join(directory, DATABASE_FILE), { readOnly: true });
    expect(database.prepare('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }]);
    database.close();
  },
);
