/** The counts of the overview: by hour and by day for all processes, without losses while the store is unavailable. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createTallies } from '../../../src/gatehouse/audit/tallies.ts';
import { AppError } from '../../../src/shared/errors.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';

let directory: string;
let store: Store;
let now: number;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-tallies-'));
  store = await createSqliteStore({ directory, clock: () => now });
  now = Date.parse('2026-03-01T10:59:59Z');
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

const newTallies = (talliesStore: Store = store) => createTallies({ store: talliesStore, clock: () => now });

test('adds the counts of several processes', async () => {
  const processes = [newTallies(), newTallies(), newTallies()];
  for (const tallies of processes) tallies.count('sign_in.succeeded');
  now += 2_000;
  for (const tallies of processes) tallies.count('sign_in.failed');
  await Promise.all(processes.map((tallies) => tallies.close()));

  const [lastHour, thisHour] = await newTallies().read('hour', 2);
  expect(lastHour).toEqual({ at: '2026-03-01T10:00:00.000Z', counts: { 'sign_in.succeeded': 3 } });
  expect(thisHour).toEqual({ at: '2026-03-01T11:00:00.000Z', counts: { 'sign_in.failed': 3 } });
  const days = await newTallies().read('day', 30);
  expect(days).toHaveLength(30);
  expect(days.at(-1)).toEqual({
    at: '2026-03-01T00:00:00.000Z',
    counts: { 'sign_in.succeeded': 3, 'sign_in.failed': 3 },
  });
});

test('counts in memory, and loses no count while the store is unavailable', async () => {
  let writes = 0;
  let down = true;
  const shaky: Store = {
    ...store,
    write: (...given) => {
      writes += 1;
      return down ? Promise.reject(new AppError('storage_unavailable')) : store.write(...given);
    },
  };
  const one = newTallies(shaky);
  for (let n = 0; n < 1_000; n += 1) one.count('refresh.succeeded');
  expect(writes).toBe(0);
  expect((await one.read('hour', 1))[0]?.counts).toEqual({ 'refresh.succeeded': 1_000 });
  await one.close();
  down = false;
  await one.close();
  expect((await newTallies().read('hour', 1))[0]?.counts).toEqual({ 'refresh.succeeded': 1_000 });
});

test('a read includes counts that are being written, once', async () => {
  const slow = Promise.withResolvers<void>();
  const one = newTallies({
    ...store,
    write: async (...given) => {
      await slow.promise;
      return store.write(...given);
    },
  });
  one.count('relay.answered');
  const closed = one.close();
  const read = one.read('hour', 1);
  slow.resolve();
  expect((await read)[0]?.counts).toEqual({ 'relay.answered': 1 });
  await closed;
});

test('R119 reports each count once as lost that cannot be stored before the process stops', async () => {
  const lost: number[] = [];
  const down: Store = { ...store, write: () => Promise.reject(new AppError('storage_unavailable')) };
  const one = createTallies({ store: down, clock: () => now, onLost: (counts) => void lost.push(counts) });
  for (let n = 0; n < 7; n += 1) one.count('refresh.succeeded');
  await one.close();
  expect(lost).toEqual([7]);
});

test('R119 keeps counts whose writes conflict with another process', async () => {
  const contended: Store = { ...store, write: async () => undefined };
  let over: Store = contended;
  const one = newTallies({ ...store, write: (...given) => over.write(...given) });
  one.count('refresh.succeeded');
  await one.close();
  over = store;
  await one.close();
  expect((await newTallies().read('hour', 1))[0]?.counts).toEqual({ 'refresh.succeeded': 1 });
});
