/** R119: writes that no request waits for are made again, in order, and counted where they are not made. */
import { expect, test } from 'vitest';
import { createWriteQueue } from '../../../src/shared/storage/write-queue.ts';

test('R119 a write that fails is made again before those that were queued later', async () => {
  const made: number[] = [];
  let failures = 2;
  const queue = createWriteQueue({ lost: () => undefined });
  for (let n = 0; n < 120; n += 1) {
    queue.add(async () => {
      if (n === 0 && failures > 0) {
        failures -= 1;
        throw new Error('away');
      }
      made.push(n);
    });
  }
  await queue.settle();
  expect(made.toSorted((left, right) => left - right)).toEqual(Array.from({ length: 120 }, (_, n) => n));
  expect(made.indexOf(0)).toBeLessThan(made.indexOf(119));
});

test('R119 a full queue counts what it drops, and a stop what it cannot make or what hangs', async () => {
  let lost = 0;
  const queue = createWriteQueue({ lost: (count) => (lost += count) });
  for (let n = 0; n < 5_010; n += 1) queue.add(() => new Promise(() => undefined));
  expect(lost).toBe(10);
  await queue.close();
  expect(lost).toBe(5_010);
});

test('R119 what fails after the stop is counted, too', async () => {
  let lost = 0;
  const queue = createWriteQueue({ lost: (count) => (lost += count) });
  await queue.close();
  queue.add(() => Promise.reject(new Error('away')));
  queue.add(async () => undefined);
  await queue.settle();
  expect(lost).toBe(1);
});
