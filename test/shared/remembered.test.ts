/** What a process remembers: the latest, those in use before others, and never more than fits. */
import { getHeapStatistics } from 'node:v8';
import { describe, expect, test } from 'vitest';
import { remembered, rememberedOfEach } from '../../src/shared/remembered.ts';

describe('what is remembered', () => {
  test('goes in the order in which it was not used', () => {
    const memory = remembered<number>(2);
    memory.set('a', 1);
    memory.set('b', 2);
    expect(memory.get('a')).toBe(1);
    memory.set('c', 3);
    expect(['a', 'b', 'c'].map((name) => memory.get(name))).toEqual([1, undefined, 3]);
  });

  test('of each person takes no more than its share of the memory, however long it is and however many there are', () => {
    const bytes = 1_000_000;
    const share = bytes / getHeapStatistics().heap_size_limit;
    for (const [characters, least, most] of [
      [0, 2_500, 5_000],
      [1_000, 600, 1_000],
      [0.5 * bytes, 1, 1],
    ] as const) {
      const memory = rememberedOfEach<number>(share);
      const names = Array.from({ length: 10_000 }, (_, n) => `person-${n}`);
      for (const [n, name] of names.entries()) memory.set(name, n, characters);
      const known = names.filter((name) => memory.get(name) !== undefined);
      expect(known.length).toBeGreaterThanOrEqual(least);
      expect(known.length).toBeLessThanOrEqual(most);
      expect(known.at(-1)).toBe(names.at(-1));
    }
  });

  test('is not what is larger than the whole share', () => {
    const memory = rememberedOfEach<number>(1_000_000 / getHeapStatistics().heap_size_limit);
    memory.set('small', 1, 100);
    memory.set('large', 2, 2_000_000);
    expect(memory.get('large')).toBeUndefined();
    expect(memory.get('small')).toBe(1);
  });
});
