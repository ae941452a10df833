/** Work in turns: one at a time for each key, with a pause in between. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createTurns, type InTurn } from '../../../src/gatehouse/grants/turns.ts';

let inTurn: InTurn;
let startedWork: string[];
beforeEach(() => {
  vi.useFakeTimers();
  inTurn = createTurns();
  startedWork = [];
});
afterEach(() => void vi.useRealTimers());

const start = (key: string, name: string, work: Promise<unknown>) =>
  inTurn(key, () => {
    startedWork.push(name);
    return work;
  });

test('work with one key runs one at a time and in order, with pauses; work with another key does not wait', async () => {
  const firstWork = Promise.withResolvers<string>();
  const results = [start('a', 'first', firstWork.promise), start('a', 'second', Promise.resolve('2'))];
  void start('b', 'beside', Promise.resolve());
  await vi.advanceTimersByTimeAsync(20_000);

  expect(startedWork).toEqual(['first', 'beside']);

  firstWork.resolve('1');
  await vi.advanceTimersByTimeAsync(99);
  expect(startedWork).toHaveLength(2);

  await vi.advanceTimersByTimeAsync(1);
  expect(startedWork).toEqual(['first', 'beside', 'second']);
  expect(await Promise.all(results)).toEqual([{ value: '1' }, { value: '2' }]);
});

test('work that gets no turn within 30 seconds is not done, and work behind it keeps waiting', async () => {
  const firstWork = Promise.withResolvers<void>();
  void start('a', 'first', firstWork.promise);
  const secondResult = start('a', 'second', Promise.resolve());
  await vi.advanceTimersByTimeAsync(10_000);
  const thirdResult = start('a', 'third', Promise.resolve('3'));
  await vi.advanceTimersByTimeAsync(20_000);

  expect(await secondResult).toBeUndefined();

  firstWork.resolve();
  await vi.advanceTimersByTimeAsync(100);

  expect(await thirdResult).toEqual({ value: '3' });
  expect(startedWork).toEqual(['first', 'third']);
});

test('work that rejects ends its turn, and the next work runs', async () => {
  const firstResult = start('a', 'first', Promise.reject(new Error('refused')));
  const secondResult = start('a', 'second', Promise.resolve('2'));

  await expect(firstResult).rejects.toThrow('refused');

  await vi.advanceTimersByTimeAsync(100);
  expect(await secondResult).toEqual({ value: '2' });
});
