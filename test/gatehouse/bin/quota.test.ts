import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type BinCaller, type BinQuotaLimits, createBinQuota } from '../../../src/gatehouse/bin/quota.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';

const DAY_MS = 24 * 3_600_000;
const ALICE: BinCaller = { kind: 'user', id: 'alice' };
const BOB: BinCaller = { kind: 'user', id: 'bob' };
const tokenWith = (callsPerMonth: number | null, id = 'batch'): BinCaller => ({
  kind: 'relay_token',
  id,
  callsPerMonth,
});

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

/** Creates a quota, by default without a reserve and with a user budget that is never spent. */
function quotaWith(limits: Partial<BinQuotaLimits>, quotaStore = store) {
  const quota = createBinQuota({
    ...{ store: quotaStore, clock, monthlyQuota: 1_000, userReserve: 0, userDailyQuota: 1_000 },
    ...limits,
  });
  return {
    status: quota.status,
    reserve: (caller = ALICE) => quota.reserve(caller),
    /** The number of concurrent calls that are granted. */
    async countGranted(caller: BinCaller, calls: number): Promise<number> {
      const responses = await Promise.all(Array.from({ length: calls }, () => quota.reserve(caller)));
      return responses.filter(({ granted }) => granted).length;
    },
  };
}

test('R87 grants exactly the limit, even to concurrent calls', async () => {
  const quota = quotaWith({ monthlyQuota: 5 });
  const responses = await Promise.all(Array.from({ length: 40 }, () => quota.reserve()));
  expect(responses.filter(({ granted }) => granted)).toHaveLength(5);
  expect(responses.find(({ granted }) => !granted)).toEqual({ granted: false, secondsLeft: 10, spent: 'month' });
  expect(await quota.status()).toEqual({
    ...{ used: 5, limit: 5, userReserve: 0, userDailyQuota: 1_000 },
    resetsAt: '2026-12-01T00:00:00.000Z',
  });
});

test('R87 months are in UTC, and setting the clock back renews no budget', async () => {
  const quota = quotaWith({ monthlyQuota: 1 });
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

test('R87 setting the clock back into a month with calls left does not return calls of the later month', async () => {
  const quota = quotaWith({ monthlyQuota: 5 });
  expect((await quota.reserve()).granted).toBe(true);
  now += 3_600_000;
  for (let call = 0; call < 5; call++) expect((await quota.reserve()).granted).toBe(true);
  now -= 3_600_000;
  expect(await quota.reserve()).toMatchObject({ granted: false, secondsLeft: 31 * 24 * 3_600 + 10, spent: 'month' });
  // The refused call counts in neither month.
  expect(await store.counter(keys.binQuota('2026-11'))).toBe(1);
});

test('R87 calls during a clock that was ahead count in both months', async () => {
  const quota = quotaWith({ monthlyQuota: 3 });
  for (let call = 0; call < 2; call++) expect((await quota.reserve()).granted).toBe(true);
  now += 3_600_000;
  expect((await quota.reserve()).granted).toBe(true);
  now -= 3_600_000;
  expect((await quota.reserve()).granted).toBe(true);
  expect(await quota.reserve()).toMatchObject({ granted: false, secondsLeft: 10 });
  now += 3_600_000;
  expect((await quota.status()).used).toBe(2);
});

test('R87 reservations survive a restart', async () => {
  await quotaWith({ monthlyQuota: 1 }).reserve();
  await store.close();
  store = await createSqliteStore({ directory, clock });
  expect((await quotaWith({ monthlyQuota: 1 }).reserve()).granted).toBe(false);
});

test('R87 counts are stored for more than two periods', async () => {
  const lifetimes: number[] = [];
  const watched: Store = {
    ...store,
    increment(key, by, options) {
      lifetimes.push(options.lifetimeSeconds);
      return store.increment(key, by, options);
    },
  };
  await quotaWith({ monthlyQuota: 1 }, watched).reserve();
  const [ofDay, ofMonth] = lifetimes;
  expect(ofDay).toBeGreaterThan(2 * 24 * 3600);
  expect(ofMonth).toBeGreaterThan(62 * 24 * 3600);
});

describe('R93', () => {
  test('a user has a separate budget for each day (UTC)', async () => {
    const quota = quotaWith({ userDailyQuota: 3 });
    expect(await quota.countGranted(ALICE, 20)).toBe(3);
    expect(await quota.reserve(ALICE)).toEqual({ granted: false, secondsLeft: 10, spent: 'user' });
    expect(await quota.countGranted(BOB, 20)).toBe(3);
    expect((await quota.status()).used).toBe(6);
    now += 10_000;
    expect(await quota.countGranted(ALICE, 20)).toBe(3);
  });

  test('setting the clock back past midnight does not renew the budget of a user', async () => {
    const quota = quotaWith({ userDailyQuota: 3 });
    now += 10_000;
    expect(await quota.countGranted(ALICE, 20)).toBe(3);
    now -= 20_000;
    expect(await quota.reserve(ALICE)).toEqual({ granted: false, secondsLeft: DAY_MS / 1000 + 20, spent: 'user' });
    now += DAY_MS;
    expect(await quota.countGranted(ALICE, 20)).toBe(0);
  });

  test('relay tokens and the operator do not use the reserve of users', async () => {
    const quota = quotaWith({ monthlyQuota: 10, userReserve: 4 });
    expect(await quota.countGranted(tokenWith(null), 20)).toBe(6);
    expect(await quota.reserve(tokenWith(null, 'other'))).toEqual({
      ...{ granted: false, secondsLeft: 10, spent: 'unreserved' },
    });
    expect(await quota.reserve({ kind: 'operator' })).toMatchObject({ granted: false, spent: 'unreserved' });
    expect(await quota.countGranted(ALICE, 20)).toBe(4);
    expect(await quota.reserve(BOB)).toMatchObject({ granted: false, spent: 'month' });
  });

  test('a relay token with its own budget cannot exceed it', async () => {
    const quota = quotaWith({ monthlyQuota: 10, userReserve: 1 });
    expect(await quota.countGranted(tokenWith(2), 20)).toBe(2);
    expect(await quota.reserve(tokenWith(2))).toEqual({ granted: false, secondsLeft: 10, spent: 'relay_token' });
    expect(await quota.countGranted(tokenWith(0, 'none'), 20)).toBe(0);
    // A budget larger than the quota allows all calls that are not reserved.
    expect(await quota.countGranted(tokenWith(1_000, 'large'), 20)).toBe(7);
    now += 10_000;
    expect(await quota.countGranted(tokenWith(2), 20)).toBe(2);
  });

  test('a reserve larger than the quota leaves nothing to relay tokens', async () => {
    expect(await quotaWith({ monthlyQuota: 1, userReserve: 5 }).countGranted(tokenWith(null), 2)).toBe(0);
  });

  test('a call that is refused by the monthly quota or never sent does not count for the user', async () => {
    const quota = quotaWith({ monthlyQuota: 1, userDailyQuota: 1 });
    const reservation = await quota.reserve(BOB);
    expect(await quota.reserve(ALICE)).toMatchObject({ granted: false, spent: 'month' });
    if (reservation.granted) await reservation.release();
    expect((await quota.reserve(ALICE)).granted).toBe(true);
    expect(await quota.reserve(BOB)).toMatchObject({ granted: false, spent: 'month' });
  });
});

test('R87 releases a call that was never sent in the month of its reservation', async () => {
  const quota = quotaWith({ monthlyQuota: 1 });
  const reservation = await quota.reserve();
  now += 20_000;
  if (reservation.granted) await reservation.release();
  expect((await quota.status()).used).toBe(0);
  now -= 20_000;
  expect((await quota.status()).used).toBe(0);
});

test('a limit of zero grants nothing', async () => {
  expect((await quotaWith({ monthlyQuota: 0 }).reserve()).granted).toBe(false);
});
