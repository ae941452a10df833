/** Pages through the sessions or connections of the users that a search matches. */
import type { User, UserStore } from '../users/user-store.ts';

/** Limits the work for one page if few of the matching users have rows. */
const MAX_USERS_READ = 100;
const USERS_AT_ONCE = 25;

/**
 * Lists the rows of each user that matches `q`, in the order of the users. The rows of one user are never split over
 * two pages, so a page exceeds `limit` if a single user has more rows. A page ends after 100 users, even with fewer
 * rows than `limit`.
 * @throws AppError `invalid_request` for an `after` that is not a cursor
 */
export async function pageOfMatchingUsers<T>(
  users: Pick<UserStore, 'search'>,
  { q, after, limit }: { q: string; after?: string | undefined; limit: number },
  rowsOf: (user: User) => Promise<T[]>,
): Promise<{ items: T[]; next?: string }> {
  const items: T[] = [];
  let cursor = after;
  for (let read = 0; read < MAX_USERS_READ; read += USERS_AT_ONCE) {
    const batch = await users.search({ q, after: cursor, limit: USERS_AT_ONCE });
    const rowsOfEach = await Promise.all(batch.items.map(({ user }) => rowsOf(user)));
    for (const [index, rows] of rowsOfEach.entries()) {
      const fits = items.length === 0 || rows.length === 0 || items.length + rows.length <= limit;
      if (!fits && cursor !== undefined) return { items, next: cursor };
      items.push(...rows);
      cursor = batch.items[index]?.cursor;
    }
    if (batch.next === undefined) return { items };
    cursor = batch.next;
  }
  return cursor === undefined ? { items } : { items, next: cursor };
}
