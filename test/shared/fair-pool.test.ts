/** R132: places go to the keys in turn, a key has a share, and work that hangs keeps no place. */
import { expect, test } from 'vitest';
import { createFairPool, workByKey } from '../../src/shared/fair-pool.ts';
import { until } from '../support/until.ts';

/** Work that ends when the test ends it. */
function work() {
  const running: ((isGood: boolean) => void)[] = [];
  return { running, start: () => new Promise<boolean>((resolve) => void running.push(resolve)) };
}

test('R132 a success doubles what may run for a key, up to its share, and a failure sets it back to one', async () => {
  const pool = createFairPool({ places: 10, share: 4 });
  const { running, start } = work();
  for (let at = 0; at < 30; at += 1) pool.add('a', start);
  for (const [isGood, then] of [
    [true, 2],
    [true, 4],
    [true, 4],
    [false, 4],
  ] as const) {
    running.shift()?.(isGood);
    await until(() => running.length === (isGood ? then : 3));
  }
  // One runs at a time once the others have ended.
  for (const left of [2, 1]) {
    running.shift()?.(false);
    await until(() => running.length === left);
  }
  running.shift()?.(false);
  await until(() => running.length === 1);
  expect(pool.load('a')).toBeGreaterThan(1);
  const stopped = pool.stop();
  expect(pool.load('a')).toBe(1);
  running.shift()?.(true);
  await stopped;
  expect(pool.isIdle()).toBe(true);
});

test('R132 work that hangs leaves its place, and work that rejects counts as failed', async () => {
  const pool = createFairPool({ places: 2, share: 1 });
  const { start, running } = work();
  for (const key of ['a', 'b']) pool.add(key, start);
  let done = 0;
  for (const key of ['c', 'd', 'e']) {
    pool.add(key, async () => {
      done += 1;
      throw new Error('failed');
    });
  }
  expect(done).toBe(0);
  await until(() => done === 3);
  expect(running).toHaveLength(2);
  for (const end of running) end(true);
  await pool.idle();
});

test('R132 items of one key do not wait for those of another', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const done: string[] = [];
  const all = workByKey(
    ['a1', 'a2', 'a3', 'b1', 'b2', 'b3'],
    { keyOf: (item) => item.charAt(0), atOnce: 2 },
    async (item) => {
      if (item.startsWith('a')) await promise;
      done.push(item);
    },
  );
  await until(() => done.length === 3);
  resolve();
  await all;
  expect(done).toEqual(['b1', 'b2', 'b3', 'a1', 'a2', 'a3']);
});
