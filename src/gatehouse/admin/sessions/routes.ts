/** Sessions in the administration: listed, found by user, and ended one by one. */
import type { Request } from 'express';
import { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import { listOf } from '../../../shared/http/list-schema.ts';
import { operation } from '../../../shared/http/operation.ts';
import type { User } from '../../users/user-store.ts';
import { audited } from '../change.ts';
import { confirmation } from '../confirmation.ts';
import { listQuery } from '../listing.ts';
import { pageOfMatchingUsers } from '../matching-users.ts';
import type { AdminPageOfList } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { type Selection, selectionOf, withGone, workOnEach } from '../selection.ts';
import { displayName, splitId } from '../users/view.ts';
import {
  isOwn,
  type OwnedSession,
  type SessionRow,
  sessionColumns,
  sessionJson,
  sessionView,
  withOwn,
} from './view.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/sessions/list': AdminPageOfList & { sessions: readonly OwnedSession[] };
  }
}

const sessionQuery = listQuery.extend({ user: z.string().max(60).optional().describe('id of one user') });

export function adminSessionRoutes(parts: AdminParts) {
  const { sessions, users, connectedApps, audit, pages, publicUrl } = parts;
  const { apps } = connectedApps;
  const home = `${publicUrl.basePath}/admin/sessions`;
  const appNameOf = ({ app }: SessionRow) => (app === null ? null : (apps.find(app)?.name ?? app));

  const ofUser = async (user: User): Promise<SessionRow[]> =>
    (await sessions.ofUsers.list(user.id)).map((session) => sessionView(session, user));

  const listed = async (query: z.output<typeof sessionQuery>): Promise<{ items: SessionRow[]; next?: string }> => {
    const { after, limit, q, user: userId } = query;
    if (userId !== undefined) {
      const user = await users.store.find(userId);
      return { items: user ? await ofUser(user) : [] };
    }
    if (q?.trim()) return pageOfMatchingUsers(users.store, { q, after, limit }, ofUser);
    const { items, ...rest } = await sessions.ofUsers.page({ after, limit });
    return { items: items.map((session) => sessionView(session)), ...rest };
  };

  const find = async (id: string): Promise<SessionRow | undefined> => {
    const { userId, rest } = splitId(id);
    const found = (await sessions.ofUsers.list(userId)).find(({ ref }) => ref === rest);
    return found && sessionView(found);
  };

  const end = async (req: Request, id: string): Promise<void> => {
    const { browser } = (await find(id)) ?? throwEnded();
    const { userId, rest: ref } = splitId(id);
    const target = { kind: 'session', id, name: browser ?? undefined };
    await audited(audit, req, { event: 'session.ended', target, userId }, () => sessions.ofUsers.end(userId, ref));
  };

  const list = pages.page('admin/sessions/list', async ({ req, res }) => {
    const found = await pages.list(req, res, {
      name: 'sessions',
      fields: ['q'],
      columns: sessionColumns(appNameOf),
      read: listed,
      count: ({ q }) => (q ? undefined : sessions.ofUsers.count()),
    });
    if (!found) return undefined;
    const rows = found.items.map((session) => withOwn(req, session, appNameOf(session)));
    return { title: 'Sessions', sessions: rows, list: found.list };
  });

  const ending = confirmation<Selection<SessionRow>>(parts, {
    menuPath: 'sessions',
    home: () => 'sessions',
    find: (req) => selectionOf(req, find, throwEnded),
    ask({ items: chosen }, req) {
      const names = chosen.map(
        ({ user, browser }) => `${displayName(user) ?? user.id}, ${browser ?? 'unknown browser'}`,
      );
      const count = chosen.length;
      return {
        action: count === 1 ? 'End the session of' : `End ${count} sessions`,
        ...(count === 1 ? { name: names[0] } : { names }),
        consequences: ['Pages that are open there stop working at once. Users can sign in again.'],
        own: chosen.some((session) => isOwn(req, session)) ? (count === 1 ? OWN : ONE_OWN) : undefined,
        verb: count === 1 ? 'End session' : `End ${count} sessions`,
      };
    },
    async work(req, { items, gone }) {
      // The administrator's own comes last: after it, the form could not be sent again for others that failed.
      const ordered = items.toSorted((one, other) => Number(isOwn(req, one)) - Number(isOwn(req, other)));
      const result = await workOnEach({ items: ordered, gone }, ({ id }) => end(req, id));
      const count = result.done.length;
      const text = withGone(result, () => (count === 1 ? ENDED : `${count} sessions have ended.`));
      return { url: home, flash: { notice: { tone: 'success', text } } };
    },
  });

  return {
    page: list.handler,

    askEnd: ending.page,
    endByForm: ending.form,

    list: operation(
      {
        summary:
          'List sessions, newest first; with q those of the matching users, and no page splits those of one user',
        query: sessionQuery,
        response: listOf(sessionJson),
      },
      ({ query }) => listed(query),
    ),
    end: operation(
      { summary: 'End a session: pages that are open in that browser stop working at once' },
      async ({ req }) => {
        await end(req, String(req.params.id));
      },
    ),
  };
}

const ENDED = 'The session has ended. Pages that are open in that browser stop working at once.';
const OWN = 'This is the browser that you are using: you will be signed out.';
const ONE_OWN = 'One of them is this browser: you will be signed out.';

function throwEnded(): never {
  throw new AppError('not_found', { detail: 'There is no such session, or it has ended.' });
}
