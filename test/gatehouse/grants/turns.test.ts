import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createTurns, type InTurn } from '../../../src/gatehouse/grants/turns.ts';

let inTurn: InTurn;
let begun: string[];
beforeEach(() => {
  vi.useFakeTimers();
  [inTurn, begun] = [createTurns(), []];
});
afterEach(() => void vi.useRealTimers());

const begin = (key: string, name: string, work: Promise<unknown>) =>
  inTurn(key, () => {
    begun.push(name);
    return work;
  });

test('work with one key runs one at a time and in order, with a pause after each; work with another does not wait', async () => {
  const first = Promise.withResolvers<string>();
  const results = [begin('a', 'first', first.promise), begin('a', 'second', Promise.resolve('2'))];
  void begin('b', 'beside', Promise.resolve());
  await vi.advanceTimersByTimeAsync(20_000);
  expect(begun).toEqual(['first', 'beside']);
  first.resolve('1');
  await vi.advanceTimersByTimeAsync(99);
  expect(begun).toHaveLength(2);
  await vi.advanceTimersByTimeAsync(1);
  expect(begun).toEqual(['first', 'beside', 'second']);
  expect(await Promise.all(results)).toEqual([{ value: '1' }, { value: '2' }]);
});

test('work that gets no turn within 30 seconds is not done, and those behind it wait on', async () => {
  const first = Promise.withResolvers<void>();
  void begin('a', 'first', first.promise);
  const second = begin('a', 'second', Promise.resolve());
  await vi.advanceTimersByTimeAsync(10_000);
  const third = begin('a', 'third', Promise.resolve('3'));
  await vi.advanceTimersByTimeAsync(20_000);
  expect(await second).toBeUndefined();
  first.resolve();
  await vi.advanceTimersByTimeAsync(100);
  expect(await third).toEqual({ value: '3' });
  expect(begun).toEqual(['first', 'third']);
});

test('work that rejects gives its turn to the next', async () => {
  const first = begin('a', 'first', Promise.reject(new Error('refused')));
  const second = begin('a', 'second', Promise.resolve('2'));
  await expect(first).rejects.toThrow('refused');
  await vi.advanceTimersByTimeAsync(100);
  expect(await second).toEqual({ value: '2' });
});
