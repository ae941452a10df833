/** Counts a month's requests exactly, with several quotas on one store and a clock that moves forwards and back. */
import { afterEach, describe, expect, test } from 'vitest';
import { createBans } from '../../src/bin-lookup-service/bans.ts';
import { type Counters, createMemoryCounters } from '../../src/bin-lookup-service/counters.ts';
import { createQuota, type Quota } from '../../src/bin-lookup-service/quota.ts';
import { AppError } from '../../src/shared/errors.ts';

const NOVEMBER = Date.UTC(2026, 10, 21, 12);
let now = NOVEMBER;
const clock = () => now;
afterEach(() => {
  now = NOVEMBER;
});

const quotaOn = (counters: Counters) => createQuota({ counters, clock });

/** Takes concurrently. @returns how many requests were granted */
async function countGranted(quota: Quota, requests: number, limit: number, subject = 'a'): Promise<number> {
  const results = await Promise.all(Array.from({ length: requests }, () => quota.take(subject, limit)));
  return results.filter(({ granted }) => granted).length;
}

/** Returns the same counters, with the number of their writes. */
function withWriteCount(counters: Counters): Counters & { writes: number } {
  const watched = { ...counters, writes: 0 };
  watched.increment = (...args) => {
    watched.writes += 1;
    return counters.increment(...args);
  };
  return watched;
}

describe('R87 a month of requests', () => {
  test('grants exactly the limit, to requests one by one or all at once', async () => {
    const counters = createMemoryCounters(clock);
    const quota = quotaOn(counters);
    for (let count = 1; count <= 50; count += 1) {
      const { granted, remaining } = await quota.take('a', 50);
      expect([granted, remaining]).toEqual([true, 50 - count]);
    }
    expect(await quota.take('a', 50)).toMatchObject({ granted: false, remaining: 0 });
    expect(await countGranted(quota, 500, 200, 'b')).toBe(200);
    expect(await countGranted(quota, 10, 200, 'b')).toBe(0);
  });

  test('is counted separately for each subject', async () => {
    const quota = quotaOn(createMemoryCounters(clock));
    expect(await countGranted(quota, 20, 10)).toBe(10);
    expect(await countGranted(quota, 20, 10, 'b')).toBe(10);
  });

  test('is exact over several processes', async () => {
    const counters = createMemoryCounters(clock);
    const quotas = [quotaOn(counters), quotaOn(counters), quotaOn(counters)];
    let granted = 0;
    for (let round = 0; round < 40; round += 1) {
      for (const quota of quotas) granted += await countGranted(quota, 7, 1_000);
    }
    const [firstQuota] = quotas as [Quota];
    for (let count = 0; count < 400; count += 1) granted += await countGranted(firstQuota, 1, 1_000);
    expect(granted).toBe(1_000);
    expect(await firstQuota.used('a')).toBe(1_000);
  });

  test('needs one write for all requests that arrive during another write', async () => {
    const counters = withWriteCount(createMemoryCounters(clock));
    const quota = quotaOn(counters);
    expect(await countGranted(quota, 2_000, 100_000)).toBe(2_000);
    expect(counters.writes).toBeLessThanOrEqual(2);
    expect(await quota.used('a')).toBe(2_000);
  });

  test('needs no writes for a caller who continues over the limit', async () => {
    const counters = withWriteCount(createMemoryCounters(clock));
    const quota = quotaOn(counters);
    expect(await countGranted(quota, 20, 10)).toBe(10);
    const { writes } = counters;
    for (let count = 0; count < 100; count += 1) expect((await quota.take('a', 10)).granted).toBe(false);
    expect(counters.writes).toBe(writes);
  });

  test('counts down to 0 in the order of the requests', async () => {
    const quota = quotaOn(createMemoryCounters(clock));
    const results = await Promise.all(Array.from({ length: 12 }, () => quota.take('a', 10)));
    expect(results.map(({ remaining }) => remaining)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0]);
  });

  test('starts again in the next month, and grants nothing more when the clock is set back', async () => {
    const quota = quotaOn(createMemoryCounters(clock));
    expect(await countGranted(quota, 20, 10)).toBe(10);
    now = Date.UTC(2026, 11, 1);
    expect(await countGranted(quota, 5, 10)).toBe(5);
    now = NOVEMBER;
    expect(await countGranted(quota, 5, 10)).toBe(0);
    now = Date.UTC(2026, 11, 2);
    expect(await countGranted(quota, 20, 10)).toBe(5);
  });

  test('applies a larger plan at once', async () => {
    const quota = quotaOn(createMemoryCounters(clock));
    expect(await countGranted(quota, 12, 10)).toBe(10);
    expect(await countGranted(quota, 12, 15)).toBe(5);
  });

  test('rejects while the storage is unavailable', async () => {
    const failWithoutStorage = async () => Promise.reject(new AppError('storage_unavailable'));
    const quota = quotaOn({ increment: failWithoutStorage, counter: failWithoutStorage });
    await expect(async () => quota.take('a', 10)).rejects.toThrow(AppError);
  });
});

describe('bans', () => {
  test('start with the last refusal, apply in every process, and expire', async () => {
    const counters = createMemoryCounters(clock);
    const bansOfFirst = createBans({ counters, refusals: 5, seconds: 60, clock });
    const bansOfSecond = createBans({ counters, refusals: 5, seconds: 60, clock });
    for (let count = 1; count < 5; count += 1) expect(await bansOfFirst.countRefusal('a')).toBe(0);
    expect(bansOfFirst.secondsLeft('a')).toBe(0);
    expect(await bansOfFirst.countRefusal('a')).toBe(60);
    expect(bansOfFirst.secondsLeft('a')).toBe(60);
    expect(await bansOfSecond.countRefusal('a')).toBe(60);
    expect(await bansOfSecond.countRefusal('b')).toBe(0);
    now += 61_000;
    expect(bansOfFirst.secondsLeft('a')).toBe(0);
    expect(await bansOfFirst.countRefusal('a')).toBe(0);
  });

  test('are not imposed while the storage is unavailable', async () => {
    const failWithoutStorage = async () => Promise.reject(new AppError('storage_unavailable'));
    const bans = createBans({
      counters: { increment: failWithoutStorage, counter: failWithoutStorage },
      refusals: 1,
      seconds: 60,
      clock,
    });
    expect(await bans.countRefusal('a')).toBe(0);
  });
});
