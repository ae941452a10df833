import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createBinQuota } from '../../src/bin/quota.ts';
import { keys } from '../../src/storage/keys.ts';
import { createSqliteStore } from '../../src/storage/sqlite-store.ts';
import type { Store } from '../../src/storage/store.ts';

let directory: string;
let store: Store;
let now: number;
const clock = () => now;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'bin-quota-'));
  now = Date.parse('2026-11-30T23:59:50Z');
  store = await createSqliteStore({ directory, clock });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

test('R87: exactly the limit is granted, also in parallel', async () => {
  const quota = createBinQuota({ store, limit: 5, clock });
  const answers = await Promise.all(Array.from({ length: 40 }, () => quota.reserve()));
  expect(answers.filter(({ granted }) => granted)).toHaveLength(5);
  expect(answers.find(({ granted }) => !granted)).toEqual({ granted: false, secondsLeft: 10, kept: false });
  expect(await quota.status()).toEqual({ used: 5, limit: 5, bulkReserve: 0, resetsAt: '2026-12-01T00:00:00.000Z' });
});

test('R87: the month is that of UTC, and a clock that goes back refills nothing', async () => {
  const quota = createBinQuota({ store, limit: 1, clock });
  expect((await quota.reserve()).granted).toBe(true);
  expect((await quota.reserve()).granted).toBe(false);
  now += 10_000;
  expect((await quota.reserve()).granted).toBe(true);
  expect((await quota.reserve()).granted).toBe(false);
  now -= 3_600_000;
  expect((await quota.reserve()).granted).toBe(false);
  now += 62 * 24 * 3_600_000;
  expect((await quota.reserve()).granted).toBe(true);
  now -= 62 * 24 * 3_600_000;
  expect((await quota.reserve()).granted).toBe(false);
});

test('R87: a clock that goes back into a month with calls left gets none that the later one has spent', async () => {
  const quota = createBinQuota({ store, limit: 5, clock });
  expect((await quota.reserve()).granted).toBe(true);
  now += 3_600_000;
  for (let call = 0; call < 5; call++) expect((await quota.reserve()).granted).toBe(true);
  now -= 3_600_000;
  expect(await quota.reserve()).toMatchObject({ granted: false, secondsLeft: 31 * 24 * 3_600 + 10, kept: false });
  // What could not be had is taken from neither month.
  expect(await store.counter(keys.binQuota('2026-11'))).toBe(1);
});

test('R87: a clock that was ahead for a while has spent the calls of both months', async () => {
  const quota = createBinQuota({ store, limit: 3, clock });
  for (let call = 0; call < 2; call++) expect((await quota.reserve()).granted).toBe(true);
  now += 3_600_000;
  expect((await quota.reserve()).granted).toBe(true);
  now -= 3_600_000;
  expect((await quota.reserve()).granted).toBe(true);
  expect(await quota.reserve()).toMatchObject({ granted: false, secondsLeft: 10 });
  now += 3_600_000;
  expect((await quota.status()).used).toBe(2);
});

test('R87: what was reserved survives a restart', async () => {
  await createBinQuota({ store, limit: 1, clock }).reserve();
  await store.close();
  store = await createSqliteStore({ directory, clock });
  expect((await createBinQuota({ store, limit: 1, clock }).reserve()).granted).toBe(false);
});

test('R87: the count outlives two months, so that a clock that goes back still finds it', async () => {
  const lifetimes: number[] = [];
  const watched: Store = {
    ...store,
    increment(key, by, options) {
      lifetimes.push(options.lifetimeSeconds);
      return store.increment(key, by, options);
    },
  };
  await createBinQuota({ store: watched, limit: 1, clock }).reserve();
  expect(lifetimes[0]).toBeGreaterThan(62 * 24 * 3600);
});

test('R87: bulk jobs leave the reserve, and are told whether it is all that is left', async () => {
  const quota = createBinQuota({ store, limit: 3, bulkReserve: 1, clock });
  expect([await quota.reserve('bulk'), await quota.reserve('bulk')].map(({ granted }) => granted)).toEqual([
    true,
    true,
  ]);
  expect(await quota.reserve('bulk')).toMatchObject({ granted: false, kept: true });
  expect((await quota.reserve()).granted).toBe(true);
  expect(await quota.reserve('bulk')).toMatchObject({ granted: false, kept: false });
});

test('R87: a call that never left is given back, to the month it was taken from', async () => {
  const quota = createBinQuota({ store, limit: 1, clock });
  const reservation = await quota.reserve();
  now += 20_000;
  if (reservation.granted) await reservation.giveBack();
  expect((await quota.status()).used).toBe(0);
  now -= 20_000;
  expect((await quota.status()).used).toBe(0);
});

test('a limit of zero grants nothing', async () => {
  expect((await createBinQuota({ store, limit: 0, clock }).reserve()).granted).toBe(false);
});
