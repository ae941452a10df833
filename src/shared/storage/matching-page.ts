/** A page of the items that an index lists, newest first. Reads members until enough items match. */
import { encodeCursor } from './paging.ts';
import type { Store } from './store.ts';

export interface MatchingOptions<T> {
  /** The `next` of the previous page. */
  after?: string | undefined;
  /** Infinity for all items. */
  limit: number;
  /** By default all items match. */
  filter?: (item: T) => boolean;
  /** The page ends after this many members, even with fewer items than the limit. Default: no limit. */
  maxRead?: number;
}

export interface MatchingPage<T> {
  items: T[];
  next?: string;
}

const MAX_BATCH = 200;

/** @param load returns undefined for a member that no longer exists */
export async function matchingPage<T>(
  store: Pick<Store, 'page'>,
  index: string,
  { after, limit, filter = () => true, maxRead = Number.POSITIVE_INFINITY }: MatchingOptions<T>,
  load: (member: string) => Promise<T | undefined>,
): Promise<MatchingPage<T>> {
  const items: T[] = [];
  let [cursor, last] = [after, after];
  let read = 0;
  for (;;) {
    // An extra item shows whether another page follows. Later batches are larger, because few items match.
    const size = read === 0 ? Math.min(limit + 1, MAX_BATCH) : MAX_BATCH;
    const options = { limit: size, order: 'descending' as const };
    const batch = await store.page(index, cursor === undefined ? options : { ...options, after: cursor });
    const loaded = await Promise.all(batch.items.map(({ member }) => load(member)));
    for (const [n, position] of batch.items.entries()) {
      const item = loaded[n];
      if (item === undefined || !filter(item)) continue;
      if (items.length === limit) return last === undefined ? { items } : { items, next: last };
      items.push(item);
      last = encodeCursor(position);
    }
    if (batch.next === undefined) return { items };
    cursor = batch.next;
    read += batch.items.length;
    if (read >= maxRead) return { items, next: cursor };
  }
}
