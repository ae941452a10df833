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
  let isDown = true;
  const storeWithOutage: Store = {
    ...store,
    write: (...args) => {
      writes += 1;
      return isDown ? Promise.reject(new AppError('storage_unavailable')) : store.write(...args);
    },
  };
  const tallies = newTallies(storeWithOutage);
  for (let n = 0; n < 1_000; n += 1) tallies.count('refresh.succeeded');
  expect(writes).toBe(0);
  expect((await tallies.read('hour', 1))[0]?.counts).toEqual({ 'refresh.succeeded': 1_000 });
  await tallies.close();
  isDown = false;
  await tallies.close();
  expect((await newTallies().read('hour', 1))[0]?.counts).toEqual({ 'refresh.succeeded': 1_000 });
});

test('a read includes counts that are being written, once', async () => {
  const writeAllowed = Promise.withResolvers<void>();
  const tallies = newTallies({
    ...store,
    write: async (...args) => {
      await writeAllowed.promise;
      return store.write(...args);
    },
  });
  tallies.count('relay.succeeded');
  const closed = tallies.close();
  const read = tallies.read('hour', 1);
  writeAllowed.resolve();
  expect((await read)[0]?.counts).toEqual({ 'relay.succeeded': 1 });
  await closed;
});

test('R119 reports each count once as lost that cannot be stored before the process stops', async () => {
  const lostCounts: number[] = [];
  const unavailableStore: Store = { ...store, write: () => Promise.reject(new AppError('storage_unavailable')) };
  const tallies = createTallies({
    store: unavailableStore,
    clock: () => now,
    onLost: (counts) => void lostCounts.push(counts),
  });
  for (let n = 0; n < 7; n += 1) tallies.count('refresh.succeeded');
  await tallies.close();
  expect(lostCounts).toEqual([7]);
});

test('R119 keeps counts whose writes conflict with another process', async () => {
  const conflictingStore: Store = { ...store, write: async () => undefined };
  let usedStore: Store = conflictingStore;
  const tallies = newTallies({ ...store, write: (...args) => usedStore.write(...args) });
  tallies.count('refresh.succeeded');
  await tallies.close();
  usedStore = store;
  await tallies.close();
  expect((await newTallies().read('hour', 1))[0]?.counts).toEqual({ 'refresh.succeeded': 1 });
});
