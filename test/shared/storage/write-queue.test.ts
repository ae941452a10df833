/** R119: writes that no request waits for are retried in order, and counted if they are dropped. */
import { expect, test } from 'vitest';
import { createWriteQueue } from '../../../src/shared/storage/write-queue.ts';

test('R119 a failed write is retried before writes that were queued later', async () => {
  const done: number[] = [];
  let failures = 2;
  const queue = createWriteQueue({ onLost: () => undefined });
  for (let n = 0; n < 120; n += 1) {
    queue.add(async () => {
      if (n === 0 && failures > 0) {
        failures -= 1;
        throw new Error('away');
      }
      done.push(n);
    });
  }
  await queue.settle();
  expect(done.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 120 }, (_, n) => n));
  expect(done.indexOf(0)).toBeLessThan(done.indexOf(119));
});

test('R119 writes that a full queue drops, or that are unfinished at the stop, are counted', async () => {
  let lostWrites = 0;
  const queue = createWriteQueue({ onLost: (count) => (lostWrites += count) });
  for (let n = 0; n < 5_010; n += 1) queue.add(() => new Promise(() => undefined));
  expect(lostWrites).toBe(10);

  await queue.close();
  expect(lostWrites).toBe(5_010);
});

test('R119 writes that fail after the stop are counted', async () => {
  let lost = 0;
  const queue = createWriteQueue({ onLost: (count) => (lost += count) });
  await queue.close();
  queue.add(() => Promise.reject(new Error('away')));
  queue.add(async () => undefined);
  await queue.settle();
  expect(lost).toBe(1);
});
