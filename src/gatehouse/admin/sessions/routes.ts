/** Sessions in the administration: list them, find them by user, and end them. */
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
  isCurrentSession,
  type ListedSession,
  type SessionRow,
  sessionColumns,
  sessionJson,
  sessionView,
  toListedSession,
} from './view.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/sessions/list': AdminPageOfList & { sessions: readonly ListedSession[] };
  }
}

const sessionQuery = listQuery.extend({ user: z.string().max(60).optional().describe('id of one user') });

export function adminSessionRoutes(parts: AdminParts) {
  const { sessions, users, connectedApps, audit, pages, publicUrl } = parts;
  const { apps } = connectedApps;
  const home = `${publicUrl.basePath}/admin/sessions`;
  const appNameOf = ({ app }: SessionRow) => (app === null ? null : apps.nameOf(app));

  const listOfUser = async (user: User): Promise<SessionRow[]> =>
    (await sessions.ofUsers.list(user.id)).map((session) => sessionView(session, user));

  const readPage = async (query: z.output<typeof sessionQuery>): Promise<{ items: SessionRow[]; next?: string }> => {
    const { after, limit, q, user: userId } = query;
    if (userId !== undefined) {
      const user = await users.store.find(userId);
      return { items: user ? await listOfUser(user) : [] };
    }
    if (q?.trim()) return pageOfMatchingUsers(users.store, { q, after, limit }, listOfUser);
    const { items, ...rest } = await sessions.ofUsers.page({ after, limit });
    return { items: items.map((session) => sessionView(session)), ...rest };
  };

  const find = async (id: string): Promise<SessionRow | undefined> => {
    const { userId, rest } = splitId(id);
    const session = (await sessions.ofUsers.list(userId)).find(({ ref }) => ref === rest);
    return session && sessionView(session);
  };

  const end = async (req: Request, id: string): Promise<void> => {
    const { browser } = (await find(id)) ?? throwEnded();
    const { userId, rest: ref } = splitId(id);
    const target = { kind: 'session', id, name: browser ?? undefined };
    await audited(audit, req, { event: 'session.ended', target, userId }, () => sessions.ofUsers.end(userId, ref));
  };

  const listPage = pages.page('admin/sessions/list', async ({ req, res }) => {
    const result = await pages.list(req, res, {
      name: 'sessions',
      fields: ['q'],
      query: sessionQuery,
      columns: sessionColumns(appNameOf),
      read: readPage,
      count: ({ q }) => (q ? undefined : sessions.ofUsers.count()),
    });
    if (!result) return undefined;
    const rows = result.items.map((session) => toListedSession(req, session, appNameOf(session)));
    return { title: 'Sessions', sessions: rows, list: result.list };
  });

  const ending = confirmation<Selection<SessionRow>>(parts, {
    menuPath: 'sessions',
    home: () => 'sessions',
    find: (req) => selectionOf(req, find, throwEnded),
    questionFor({ items }, req) {
      const names = items.map(
        ({ user, browser }) => `${displayName(user) ?? user.id}, ${browser ?? 'unknown browser'}`,
      );
      const count = items.length;
      return {
        action: count === 1 ? 'End the session of' : `End ${count} sessions`,
        ...(count === 1 ? { name: names[0] } : { names }),
        consequences: ['Pages that are open there stop working. Users can sign in again.'],
        warning: items.some((session) => isCurrentSession(req, session))
          ? count === 1
            ? CURRENT
            : ONE_CURRENT
          : undefined,
        verb: count === 1 ? 'End session' : `End ${count} sessions`,
      };
    },
    async work(req, { items, goneCount }) {
      // The session of the administrator is last: without it, the form could not be sent again after a failure.
      const ordered = items.toSorted(
        (left, right) => Number(isCurrentSession(req, left)) - Number(isCurrentSession(req, right)),
      );
      const result = await workOnEach({ items: ordered, goneCount }, ({ id }) => end(req, id));
      const count = result.results.length;
      const text = withGone(result, () => (count === 1 ? ENDED : `${count} sessions have ended.`));
      return { url: home, flash: { notice: { tone: 'success', text } } };
    },
  });

  return {
    page: listPage.handler,

    endPage: ending.page,
    endByForm: ending.form,

    list: operation(
      {
        summary:
          'List sessions, newest first; with q, those of matching users, with all sessions of a user on one page',
        query: sessionQuery,
        response: listOf(sessionJson),
      },
      ({ query }) => readPage(query),
    ),
    end: operation({ summary: 'End a session: pages that are open in that browser stop working' }, async ({ req }) => {
      await end(req, String(req.params.id));
    }),
  };
}

const ENDED = 'The session has ended. Pages that are open in that browser stop working.';
const CURRENT = 'This is the browser that you are using: you will be signed out.';
const ONE_CURRENT = 'One of them is this browser: you will be signed out.';

function throwEnded(): never {
  throw new AppError('not_found', { detail: 'There is no such session, or it has ended.' });
}
