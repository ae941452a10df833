/** A page of the items that an index lists, newest first. Reads on until enough of them match. */
import { encodeCursor } from './paging.ts';
import type { Store } from './store.ts';

export interface MatchingOptions<T> {
  /** A page's `next`. */
  after?: string | undefined;
  /** Infinity for all items. */
  limit: number;
  /** Default: everything matches. */
  filter?: (item: T) => boolean;
  /** A page that has read this many members ends, with fewer items than the limit. Default: it goes on. */
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
    // One more than wanted shows whether another page follows. Where few match, more are read at once.
    const size = read === 0 ? Math.min(limit + 1, MAX_BATCH) : MAX_BATCH;
    const options = { limit: size, order: 'descending' as const };
    const batch = await store.page(index, cursor === undefined ? options : { ...options, after: cursor });
    const loaded = await Promise.all(batch.items.map(({ member }) => load(member)));
    for (const [at, position] of batch.items.entries()) {
      const item = loaded[at];
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
