/**
 * Lists of the administration: `?after=&limit=&q=` and `{"items", "next"}`.
 *
 * The table names for each list of `/admin/api` but those of `createResource` its parameters beside `after` and
 * `limit`, the index that serves it, and the cost of that index. No list has another order: a new order, or a new
 * filter on a list that grows without bound, needs an index of its own. "Looked through" means that the items are read
 * and compared: it suits the short lists of items that administrators create. Of connections, 10,000 at most are looked
 * through for a page, and of users that match `q`, 1,000: the page may then have fewer items than its limit, and its
 * `next` goes on.
 *
 * | list | order | narrowed by | index | cost to keep |
 * | --- | --- | --- | --- | --- |
 * | `users` | last sign-in, newest first | none | `users` | a sign-in moves 1 member |
 * | `users` | the text that was found | `q`: beginning of a name, of a word of it, of an address, id or subject | `user-names` | at most 10 members for each user, written where a text changes |
 * | `sessions` | start, newest first | none | `live-sessions` | 1 member for each session, added and removed |
 * | `sessions` | last use, newest first | `user` | none: the record `sessions-of` | with each session |
 * | `sessions` | user by user as `users` with `q`, then last use | `q` by way of `users` | `user-names` | none more |
 * | `connections` | connected, newest first | `app` | `connections` | connecting writes 3 members and removes 4; a refresh writes only where the state changes |
 * | `connections` | connected, newest first | `scopes`; with `app`, `health` looked through | `connections` | 1 member more for a connection that lacks scopes, or whose user declined some |
 * | `connections` | newest failure first | `health`; with `app` looked through | `connections` | the same members |
 * | `connections` | connected, oldest first | `user` | `grants` | 1 member for each connection, in the write of the grant |
 * | `connections` | user by user as `users` with `q`, then connected | `q` by way of `users`; with `app`, `health` looked through | `user-names`, `grants` | none more |
 * | `revocations` | next attempt, soonest first | none; `q` is accepted and ignored | `revocations` | 1 member for each, moved with each attempt |
 * | `sign-ins` | start, newest first | `failed`, `q`: an address; a reference finds the record itself | `sign-ins` | 2 members at the start, at most 3 more and 1 less at the end |
 * | `audit` | newest first | `event`, `who`, `whom`; the smallest of their indexes is looked through for the others and for `from`, `to`, `text`, `q` | `audit-all`, `audit-event`, `audit-who`, `audit-whom` | at most 9 members for each entry, in its own write |
 * | `connected-apps` | id | `q`: looked through | none: every process holds them all; `connected-apps` to read them | 1 member for each app |
 *
 * The lists of `createResource` (`resource.ts`) have the newest item first; `q` and their filters are looked through.
 * The index of each has the name of the list, and 1 member for each item; a new connect link removes the expired ones.
 *
 * `GET /relay/connections` has no index of its own: it reads `grants` of a user, `connections` of an app, or the users that
 * a relay token lists.
 */
import { z } from 'zod';
import { pageQuery } from '../../shared/http/list-schema.ts';

export const listQuery = pageQuery.extend({
  q: z.string().max(200).optional().describe('only items that contain this text'),
});

export type ListQuery = z.output<typeof listQuery>;

/** True if one of the texts contains `q`, ignoring case. */
export function matches(q: string | undefined, ...texts: (string | undefined)[]): boolean {
  const wanted = q?.trim().toLowerCase() ?? '';
  return wanted === '' || texts.some((text) => text?.toLowerCase().includes(wanted));
}

/** A page of a list in memory, sorted by id. `after`: the last id of the previous page. */
export function pageOf<T extends { id: string }>(
  all: readonly T[],
  { after, limit }: ListQuery,
): { items: T[]; next?: string } {
  const rest = after === undefined ? all : all.filter(({ id }) => id > after);
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  return last && rest.length > limit ? { items, next: last.id } : { items };
}
