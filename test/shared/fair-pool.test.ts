/** R132: slots go to the keys in turn, a key has a share, and work that hangs gives up its slot. */
import { expect, test } from 'vitest';
import { createFairPool, workByKey } from '../../src/shared/fair-pool.ts';
import { until } from '../support/until.ts';

/** Work that the test ends. */
function createHeldWork() {
  const running: ((isSuccess: boolean) => void)[] = [];
  return { running, start: () => new Promise<boolean>((resolve) => void running.push(resolve)) };
}

test('R132 a success doubles the limit of a key, up to its share, and a failure sets it back to one', async () => {
  const pool = createFairPool({ slots: 10, share: 4 });
  const { running, start } = createHeldWork();
  for (let index = 0; index < 30; index += 1) pool.add('a', start);
  for (const runningAfterSuccess of [2, 4, 4]) {
    running.shift()?.(true);
    await until(() => running.length === runningAfterSuccess);
  }
  running.shift()?.(false);
  await until(() => running.length === 3);
  // One runs at a time once the others have ended.
  for (const remaining of [2, 1]) {
    running.shift()?.(false);
    await until(() => running.length === remaining);
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

test('R132 work that hangs gives up its slot, and work that rejects counts as failed', async () => {
  const pool = createFairPool({ slots: 2, share: 1 });
  const { start, running } = createHeldWork();
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
