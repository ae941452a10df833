/**
 * Lists of the administration: `?after=&limit=&q=` and `{"items", "next"}`.
 *
 * For each list of `/admin/api` except those of `createResource`, the table has the filters, the index, and the cost of
 * that index. Filters "by index" read only matching items. For filters that are "scanned", all items are read and
 * compared, which suits the short lists of items that administrators create. No list has another order: a new order, or
 * a new filter on a list that grows without bound, needs an index of its own. A page scans at most 10,000 connections,
 * 1,000 users that match `q`, and 2,000 sign-ins. It can then have fewer items than its limit, and `next` continues the
 * list.
 *
 * | list | order | by index | scanned | index | cost of the index |
 * | --- | --- | --- | --- | --- | --- |
 * | `users` | last sign-in, newest first | none | none | `users` | a sign-in moves 1 member |
 * | `users` | the matching text | `q`: the beginning of a name, of a word in it, or of an address, id or subject | none | `user-names` | at most 10 members for each user, written when a text changes |
 * | `sessions` | start, newest first | none | none | `live-sessions` | 1 member for each session, added and removed |
 * | `sessions` | last use, newest first | `user` | none | none: the record `sessions-of` | 1 more record in the write of the user at each sign-in |
 * | `sessions` | in the order of `users` with `q`, then last use | `q`, by the matching users | none | `user-names` | none |
 * | `connections` | connected, newest first | `app` | none | `connections` | connecting writes 3 members and removes 4; a refresh writes only if the state changes |
 * | `connections` | connected, newest first | `scopes` | `app`, `health` | `connections` | 1 more member for a connection that lacks scopes, or whose user declined some |
 * | `connections` | newest failure first | `health` | `app` | `connections` | the same members |
 * | `connections` | connected, oldest first | `user` | `app`, `health`, `scopes` | `grants` | 1 member for each connection, in the write of the grant |
 * | `connections` | in the order of `users` with `q`, then connected | `q`, by the matching users | `app`, `health`, `scopes` | `user-names`, `grants` | none |
 * | `revocations` | next attempt, soonest first | none; `q` is accepted and ignored | none | `revocations` | 1 member for each, moved with each attempt |
 * | `sign-ins` | start, newest first | `from`, `to`, `period`; `user`; `q`: an address (by index) or a reference (reads that one record); `cause` and `outcome` among failed or unfinished ones | `app`, and further filters | `sign-ins` | 2 members at the start; at most 3 added and 1 removed at the end |
 * | `audit` | newest first | `from`, `to`, `period`; one of `event`, `actor`, `target`: the one with the fewest entries | the other two, `q` | `audit-all`, `audit-event`, `audit-actor`, `audit-target` | at most 9 members for each entry, written together with the entry |
 * | `connected-apps` | id | none | `q` | `connected-apps`: each page reads all apps and sorts them | 1 member for each app |
 *
 * The lists of `createResource` (`resource.ts`) have the newest item first; `q` and their filters are scanned. Each
 * index has the name of its list and 1 member for each item. Creating a connect link removes the expired ones.
 *
 * `GET /relay/connections` has no index of its own. It reads `grants` of a user, `connections` of an app, or the users
 * of a relay token.
 */
import { z } from 'zod';
import { pageQuery } from '../../shared/http/list-schema.ts';

export const listQuery = pageQuery.extend({
  q: z.string().max(200).optional().describe('only items that contain this text'),
});

export type ListQuery = z.output<typeof listQuery>;

/** Returns whether one of the texts contains `q`, ignoring case. */
export function matches(q: string | undefined, ...texts: (string | undefined)[]): boolean {
  const searched = q?.trim().toLowerCase() ?? '';
  return searched === '' || texts.some((text) => text?.toLowerCase().includes(searched));
}

/** Returns a page of a list in memory. `after` is the last id of the page before. @param all the items, sorted by id */
export function pageOf<T extends { id: string }>(
  all: readonly T[],
  { after, limit }: ListQuery,
): { items: T[]; next?: string } {
  const rest = after === undefined ? all : all.filter(({ id }) => id > after);
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  return last && rest.length > limit ? { items, next: last.id } : { items };
}
