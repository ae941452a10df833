/** Creates LRU caches with a limit. `peek` reads an entry without counting as a use. */
import { getHeapStatistics } from 'node:v8';
import { LRUCache } from 'lru-cache';

type Cached = object | string | number;

export function remembered<T extends Cached>(maxEntries: number): LRUCache<string, T, unknown> {
  // Not `max`: it allocates memory for all entries at once, which takes a tenth of the start-up time.
  return new LRUCache<string, T>({ maxSize: maxEntries, sizeCalculation: () => 1 });
}

/** The part of the heap that Node reserves for new objects by default. */
const YOUNG_BYTES = 96 * 1024 * 1024;
/** The memory of an entry besides its texts: the key, its table slots, and the objects around the value. */
const ENTRY_BYTES = 300;

/**
 * Creates a cache with an entry for each user, session or grant. It uses a share of the memory that Node has for
 * long-lived objects, which is enough for a few users on a small machine, and for all signed-in users on a large one.
 */
export function rememberedOfEach<T extends Cached>(share: number) {
  const limit = getHeapStatistics().heap_size_limit;
  const cache = new LRUCache<string, T>({ maxSize: Math.ceil(Math.max(limit - YOUNG_BYTES, limit / 4) * share) });
  return {
    get: (key: string) => cache.get(key),
    peek: (key: string) => cache.peek(key),
    /** @param characters length of all texts in the value */
    set: (key: string, value: T, characters = 0) =>
      void cache.set(key, value, { size: ENTRY_BYTES + Math.ceil(characters) }),
    delete: (key: string) => cache.delete(key),
  };
}
