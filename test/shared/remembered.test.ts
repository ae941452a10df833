/** Bounded caches of a process. */
import { getHeapStatistics } from 'node:v8';
import { describe, expect, test } from 'vitest';
import { remembered, rememberedOfEach } from '../../src/shared/remembered.ts';

describe('a bounded cache', () => {
  test('evicts the least recently used entry', () => {
    const cache = remembered<number>(2);
    cache.set('a', 1);
    cache.set('b', 2);
    expect(cache.get('a')).toBe(1);

    cache.set('c', 3);
    expect(['a', 'b', 'c'].map((name) => cache.get(name))).toEqual([1, undefined, 3]);
  });

  test('stays within its share of the memory, whatever the size and number of its entries', () => {
    const bytes = 1_000_000;
    const share = bytes / getHeapStatistics().heap_size_limit;
    for (const [characters, min, max] of [
      [0, 2_500, 5_000],
      [1_000, 600, 1_000],
      [0.5 * bytes, 1, 1],
    ] as const) {
      const cache = rememberedOfEach<number>(share);
      const names = Array.from({ length: 10_000 }, (_, n) => `user-${n}`);
      for (const [n, name] of names.entries()) cache.set(name, n, characters);
      const cached = names.filter((name) => cache.get(name) !== undefined);
      expect(cached.length).toBeGreaterThanOrEqual(min);
      expect(cached.length).toBeLessThanOrEqual(max);
      expect(cached.at(-1)).toBe(names.at(-1));
    }
  });

  test('does not store an entry that is larger than the whole share', () => {
    const cache = rememberedOfEach<number>(1_000_000 / getHeapStatistics().heap_size_limit);
    cache.set('small', 1, 100);
    cache.set('large', 2, 2_000_000);
    expect(cache.get('large')).toBeUndefined();
    expect(cache.get('small')).toBe(1);
  });
});
