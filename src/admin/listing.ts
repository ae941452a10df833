/**
 * Lists of the administration: `?after=&limit=&q=` and `{"items", "next"}`.
 *
 * The table names for each list of `/admin/api` its parameters beside `after` and `limit`, the index that serves it, and the
 * cost of that index. No list has another order: a new order, or a new filter on a list that grows without bound, needs an
 * index of its own. "Looked through" means that the items are read and compared: it suits the short lists of items that
 * administrators create.
 *
 * | list | order | narrowed by | index | cost to keep |
 * | --- | --- | --- | --- | --- |
 * | `users` | last sign-in, newest first | none | `users` | a sign-in moves 1 member |
 * | `users` | the text that was found | `q`: beginning of a name, of a word of it, of an address, id or subject | `user-names` | at most 10 members for each user, written where a text changes |
 * | `sessions` | start, newest first | none | `live-sessions` | 1 member for each session, added and removed |
 * | `sessions` | last use, newest first | `user` | none: the record `sessions-of` | with each session |
 * | `sessions` | user by user as `users` with `q`, then last use | `q` by way of `users` | `user-names` | none more |
 * | `connections` | connected, newest first | `app`; `scopes` looked through | `connections` | connecting writes 3 members and removes 3; a refresh writes only where the state changes |
 * | `connections` | newest failure first | `health`; with `app` looked through | `connections` | the same members |
 * | `connections` | connected, oldest first | `user` | `grants` | 1 member for each connection, in the write of the grant |
 * | `connections` | user by user as `users` with `q`, then connected | `q` by way of `users`; with `app`, `health` looked through | `user-names`, `grants` | none more |
 * | `revocations` | next attempt, soonest first | none; `q` is accepted and ignored | `revocations` | 1 member for each, moved with each attempt |
 * | `sign-ins` | start, newest first | `failed`, `q`: an address; a reference finds the record itself | `sign-ins` | 2 members at the start, at most 3 more and 1 less at the end |
 * | `audit` | newest first | `event`, `who`, `whom`; the smallest of their indexes is looked through for the others and for `from`, `to`, `text`, `q` | `audit-all`, `audit-event`, `audit-who`, `audit-whom` | at most 8 members for each entry, in its own write |
 * | `connected-apps` | id | `q`: looked through | none: every process holds them all; `connected-apps` to read them | 1 member for each app |
 * | `relay-tokens` | made, newest first | `q`: looked through | `relay-tokens` | 1 member for each |
 * | `connect-links` | made, newest first | `q`: looked through | `connect-links` | 1 member for each; expired ones are removed with the next |
 * | `service-accounts` | made, newest first | `q`: looked through | `service-accounts` | 1 member for each |
 * | `webhooks` | made, newest first | `q`: looked through | `webhooks` | 1 member for each |
 * | `admin-tokens` | made, newest first | `q`: looked through | `admin-tokens` | 1 member for each |
 *
 * `GET /relay/connections` has no index of its own: it reads `grants` of a user, `connections` of an app, or the users that
 * a relay token lists.
 */
import type { Request } from 'express';
import { z } from 'zod';
import { queryField } from '../http/body.ts';
import { pageQuery } from '../http/list-schema.ts';
import type { PageOptions } from '../storage/store.ts';

export const listQuery = pageQuery.extend({
  q: z.string().max(200).optional().describe('only items that contain this text'),
});

export type ListQuery = z.output<typeof listQuery>;

/** The same for an HTML page. A search text that is too long is cut. */
export function listRequest(req: Request, limit = 50): ListQuery & { q: string } {
  return { after: queryField(req, 'after') || undefined, limit, q: queryField(req, 'q')?.slice(0, 200) ?? '' };
}

/** For the store. */
export function pageOptions({ after, limit }: ListQuery): Pick<PageOptions, 'after' | 'limit'> {
  return { limit, ...(after === undefined || after === '' ? {} : { after }) };
}

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
  const rest = after === undefined || after === '' ? all : all.filter(({ id }) => id > after);
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  return last && rest.length > limit ? { items, next: last.id } : { items };
}
