/** Sessions in the administration: listed, found by user, and ended one by one. */
import type { Request, RequestHandler } from 'express';
import { z } from 'zod';
import type { AuditTrail } from '../../audit/trail.ts';
import { AppError } from '../../errors.ts';
import { queryField } from '../../http/body.ts';
import { type DescribedHandler, operation } from '../../http/operation.ts';
import type { Notice } from '../../pages/page-data.ts';
import type { Pages } from '../../pages/pages.ts';
import type { UserSessions } from '../../sessions/user-sessions.ts';
import type { User, UserStore } from '../../users/user-store.ts';
import { audited } from '../change.ts';
import { listOf, listQuery } from '../listing.ts';
import { pageOfMatchingUsers } from '../matching-users.ts';
import { type SessionRow, sessionAnswer, sessionRow, splitId } from '../person-view.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/sessions': {
      page: SignedInFrame;
      sessions: readonly SessionRow[];
      q: string;
      next: string | undefined;
      notice?: Notice | undefined;
    };
  }
}

export interface AdminSessionRoutes {
  page: RequestHandler;
  endByForm: RequestHandler;
  list: DescribedHandler;
  end: DescribedHandler;
}

const sessionQuery = listQuery.extend({ user: z.string().max(60).optional().describe('id of one user') });

export function adminSessionRoutes(parts: {
  sessions: UserSessions;
  users: UserStore;
  trail: AuditTrail;
  pages: Pages;
  basePath: string;
}): AdminSessionRoutes {
  const { sessions, users, trail, pages, basePath } = parts;

  const ofUser = async (user: User): Promise<SessionRow[]> =>
    (await sessions.list(user.id)).map((session) => sessionRow(session, user));

  const listed = async (query: {
    after?: string | undefined;
    limit: number;
    q?: string | undefined;
    user?: string | undefined;
  }) => {
    const { after, limit, q, user: userId } = query;
    if (userId !== undefined) {
      const user = await users.find(userId);
      return { items: user ? await ofUser(user) : [] };
    }
    if (q?.trim()) return pageOfMatchingUsers(users, { q, after, limit }, ofUser);
    const page = await sessions.page({ after: after || undefined, limit });
    const items = page.items.map((session) => sessionRow(session));
    return page.next === undefined ? { items } : { items, next: page.next };
  };

  const end = async (req: Request): Promise<void> => {
    const { userId, what } = splitId(String(req.params.id));
    const alive = (await sessions.list(userId)).find(({ ref }) => ref === what);
    if (!alive) throw new AppError('not_found', { detail: 'There is no such session, or it has ended.' });
    const target = { kind: 'session', id: String(req.params.id), name: alive.browser };
    await audited(trail, req, { event: 'session.ended', target, userId }, () => sessions.end(userId, what));
  };

  return {
    async page(req, res) {
      const q = queryField(req, 'q')?.slice(0, 200) ?? '';
      const { items, next } = await listedWithNext(listed, { after: queryField(req, 'after'), limit: 50, q });
      pages.send(res, 'admin/sessions', {
        page: pages.signedInFrame(req, 'Sessions'),
        sessions: items,
        q,
        next,
        notice: (await pages.flashOf(req)).notice,
      });
    },

    async endByForm(req, res) {
      await end(req);
      const back = queryField(req, 'back') === 'user' ? `users/${splitId(String(req.params.id)).userId}` : 'sessions';
      await pages.redirect(req, res, `${basePath}/admin/${back}`, { notice: ENDED });
    },

    list: operation(
      {
        summary:
          'List sessions, the one begun last first; with q those of each user that it matches, which no page splits',
        query: sessionQuery,
        answer: listOf(sessionAnswer),
      },
      ({ query }) => listed(query),
    ),
    end: operation({ summary: 'End a session: what is open in that browser stops working at once' }, ({ req }) =>
      end(req),
    ),
  };
}

const ENDED: Notice = {
  tone: 'success',
  text: 'The session has ended. What is open in that browser stops working at once.',
};

async function listedWithNext<Q, T extends { items: SessionRow[]; next?: string }>(
  listed: (query: Q) => Promise<T>,
  query: Q,
): Promise<{ items: SessionRow[]; next: string | undefined }> {
  const { items, next } = await listed(query);
  return { items, next };
}
