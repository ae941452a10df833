/** Bounded caches: the least recently used entry goes first. */
import { getHeapStatistics } from 'node:v8';
import { LRUCache } from 'lru-cache';

type Kept = object | string | number;

export interface Remembered<T extends Kept> {
  get(key: string): T | undefined;
  /** The same where it is no use that would keep it. */
  peek(key: string): T | undefined;
  set(key: string, value: T): void;
  delete(key: string): void;
}

/** @param most entries */
export function remembered<T extends Kept>(most: number): Remembered<T> {
  return new LRUCache<string, T>(roomFor(most));
}

/** Room for so many entries, taken as they come: `max` would take all of it at once, which is a tenth of what a start costs. */
export const roomFor = (most: number) => ({ maxSize: most, sizeCalculation: () => 1 });

export interface RememberedOfEach<T extends Kept> extends Remembered<T> {
  /** @param characters how long the texts in it are, all together */
  set(key: string, value: T, characters?: number): void;
}

/** What of the heap's limit is for what has just been made, unless Node is told otherwise. */
const YOUNG_BYTES = 96 * 1024 * 1024;
/** Of the key, the places in tables, and the objects around what is kept. */
const ENTRY_BYTES = 300;

/**
 * For what there is one of for each person: so much of it as fits into a share of the memory that Node may use for what
 * lasts. A small machine then remembers few people, and a large one all who are there.
 */
export function rememberedOfEach<T extends Kept>(share: number): RememberedOfEach<T> {
  const limit = getHeapStatistics().heap_size_limit;
  const cache = new LRUCache<string, T>({ maxSize: Math.ceil(Math.max(limit - YOUNG_BYTES, limit / 4) * share) });
  return {
    get: (key) => cache.get(key),
    peek: (key) => cache.peek(key),
    set: (key, value, characters = 0) => void cache.set(key, value, { size: ENTRY_BYTES + Math.ceil(characters) }),
    delete: (key) => void cache.delete(key),
  };
}
