/** Owns how much a process remembers of what it could read or work out again; what was not used for longest goes first. */
import { getHeapStatistics } from 'node:v8';
import { LRUCache } from 'lru-cache';

type Kept = object | string | number;

export interface Remembered<T extends Kept> {
  get(key: string): T | undefined;
  /** The same where it is no use that would keep it. */
  peek(key: string): T | undefined;
  set(key: string, value: T): void;
  delete(key: string): void;
  clear(): void;
}

/** @param most entries */
export function remembered<T extends Kept>(most: number): Remembered<T> {
  return new LRUCache<string, T>({ max: most });
}

export interface RememberedOfEach<T extends Kept> extends Remembered<T> {
  /** @param characters how long the texts in it are, all together */
  set(key: string, value: T, characters?: number): void;
}

/** Of the key, the places in tables, and the objects around what is kept. */
const ENTRY_BYTES = 300;

/**
 * For what there is one of for each person: so much of it as fits into a share of the memory that Node may use. A small
 * machine then remembers few people, and a large one all who are there.
 * @param share of the limit of the heap
 */
export function rememberedOfEach<T extends Kept>(share: number): RememberedOfEach<T> {
  const cache = new LRUCache<string, T>({ maxSize: Math.ceil(getHeapStatistics().heap_size_limit * share) });
  return {
    get: (key) => cache.get(key),
    peek: (key) => cache.peek(key),
    set: (key, value, characters = 0) => void cache.set(key, value, { size: ENTRY_BYTES + Math.ceil(characters) }),
    delete: (key) => void cache.delete(key),
    clear: () => cache.clear(),
  };
}
