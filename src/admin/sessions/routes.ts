/** Sessions in the administration: listed, found by user, and ended one by one. */
import type { Request } from 'express';
import { z } from 'zod';
import { AppError } from '../../errors.ts';
import { queryField } from '../../http/body.ts';
import { listOf } from '../../http/list-schema.ts';
import { operation } from '../../http/operation.ts';
import type { Notice } from '../../pages/page-data.ts';
import type { User } from '../../users/user-store.ts';
import type { AdminParts } from '../admin.ts';
import { audited } from '../change.ts';
import { listQuery, listRequest } from '../listing.ts';
import { pageOfMatchingUsers } from '../matching-users.ts';
import type { AdminListData } from '../page.ts';
import { splitId } from '../users/view.ts';
import { type SessionRow, sessionJson, sessionView } from './view.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/sessions': AdminListData & { sessions: readonly SessionRow[] };
  }
}

const sessionQuery = listQuery.extend({ user: z.string().max(60).optional().describe('id of one user') });

export function adminSessionRoutes({ sessions, users, audit, pages, publicUrl }: AdminParts) {
  const ofUser = async (user: User): Promise<SessionRow[]> =>
    (await sessions.ofUsers.list(user.id)).map((session) => sessionView(session, user));

  const listed = async (query: z.output<typeof sessionQuery>): Promise<{ items: SessionRow[]; next?: string }> => {
    const { after, limit, q, user: userId } = query;
    if (userId !== undefined) {
      const user = await users.store.find(userId);
      return { items: user ? await ofUser(user) : [] };
    }
    if (q?.trim()) return pageOfMatchingUsers(users.store, { q, after, limit }, ofUser);
    const { items, ...rest } = await sessions.ofUsers.page({ after: after || undefined, limit });
    return { items: items.map((session) => sessionView(session)), ...rest };
  };

  const end = async (req: Request): Promise<{ userId: string }> => {
    const id = String(req.params.id);
    const { userId, rest: ref } = splitId(id);
    const session = (await sessions.ofUsers.list(userId)).find((one) => one.ref === ref);
    if (!session) throw new AppError('not_found', { detail: 'There is no such session, or it has ended.' });
    const target = { kind: 'session', id, name: session.browser };
    await audited(audit.trail, req, { event: 'session.ended', target, userId }, () =>
      sessions.ofUsers.end(userId, ref),
    );
    return { userId };
  };

  const list = pages.page('admin/sessions', async ({ req }) => {
    const query = listRequest(req);
    const { items, next } = await listed(query);
    return { title: 'Sessions', sessions: items, q: query.q, next };
  });

  return {
    page: list.handler,

    endByForm: pages.button(async (req) => {
      const { userId } = await end(req);
      const back = queryField(req, 'back') === 'user' ? `users/${userId}` : 'sessions';
      return { url: `${publicUrl.basePath}/admin/${back}`, flash: { notice: ENDED } };
    }),

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
        await end(req);
      },
    ),
  };
}

const ENDED: Notice = {
  tone: 'success',
  text: 'The session has ended. Pages that are open in that browser stop working at once.',
};
