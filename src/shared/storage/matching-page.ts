/** A page of the items that an index lists, newest first. Reads members until enough items match. */
import { encodeCursor, startOfPage } from './paging.ts';
import type { Store } from './store.ts';

export interface MatchingOptions<T> {
  /** The `next` of the previous page. */
  after?: string | undefined;
  /** Maximum number of items; Infinity for all. */
  limit: number;
  /** Limits of the scores of the members; both are included. */
  range?: { from: number | undefined; to: number | undefined } | undefined;
  /** Returns whether an item belongs to the list. By default all items do. */
  filter?: ((item: T) => boolean) | undefined;
  /** The page ends after this many members, even with fewer items than the limit. Default: no limit. */
  maxRead?: number;
}

export interface MatchingPage<T> {
  items: T[];
  next?: string;
}

const MAX_BATCH = 200;

/** @param load returns the item of a member; undefined if the item no longer exists */
export async function matchingPage<T>(
  store: Pick<Store, 'page'>,
  index: string,
  { after, limit, range, filter = () => true, maxRead = Number.POSITIVE_INFINITY }: MatchingOptions<T>,
  load: (member: string) => Promise<T | undefined>,
): Promise<MatchingPage<T>> {
  const { from = Number.NEGATIVE_INFINITY } = range ?? {};
  const items: T[] = [];
  const start = startOfPage(after, range?.to);
  let [cursor, lastCursor] = [start, start];
  let readCount = 0;
  for (;;) {
    // An extra item shows whether another page follows. Later batches are larger, because few items match.
    const size = readCount === 0 ? Math.min(limit + 1, MAX_BATCH) : MAX_BATCH;
    const options = { limit: size, order: 'descending' as const };
    const batch = await store.page(index, cursor === undefined ? options : { ...options, after: cursor });
    const positions = batch.items.filter(({ score }) => score >= from);
    const loadedItems = await Promise.all(positions.map(({ member }) => load(member)));
    for (const [n, position] of positions.entries()) {
      const item = loadedItems[n];
      if (item === undefined || !filter(item)) continue;
      if (items.length === limit) return lastCursor === undefined ? { items } : { items, next: lastCursor };
      items.push(item);
      lastCursor = encodeCursor(position);
    }
    if (batch.next === undefined || positions.length < batch.items.length) return { items };
    cursor = batch.next;
    readCount += batch.items.length;
    if (readCount >= maxRead) return { items, next: cursor };
  }
}
