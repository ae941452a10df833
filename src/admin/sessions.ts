/** Owns sessions in the administration: everybody's, found by user, and ended one by one. */
import type { Request, RequestHandler } from 'express';
import { z } from 'zod';
import type { AuditTrail } from '../audit/trail.ts';
import { AppError } from '../errors.ts';
import { queryField } from '../http/body.ts';
import { type DescribedHandler, operation } from '../http/operation.ts';
import type { Pages } from '../http/pages.ts';
import type { SessionIndex } from '../http/session-index.ts';
import type { UserSessions } from '../http/user-sessions.ts';
import type { User, UserStore } from '../users/user-store.ts';
import { audited } from './change.ts';
import { listOf, listQuery } from './listing.ts';
import { type SessionRow, sessionAnswer, sessionRow, splitId } from './person-view.ts';

declare module '../http/page-data.ts' {
  interface AdminPageData {
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

/** A search names somebody; whoever means more people than this says more of the name. */
const MOST_FOUND = 20;

const sessionQuery = listQuery.extend({ user: z.string().max(60).optional().describe('id of one user') });

export function adminSessionRoutes(parts: {
  index: SessionIndex;
  sessions: UserSessions;
  users: UserStore;
  trail: AuditTrail;
  pages: Pages;
  basePath: string;
}): AdminSessionRoutes {
  const { index, sessions, users, trail, pages, basePath } = parts;

  const ofUser = async (user: User): Promise<SessionRow[]> => {
    const { id, issuer, subject, name, email } = user;
    const person = { id, issuer, subject, name, email, admin: false };
    return (await sessions.list(id)).map((session) => sessionRow({ ...session, user: person }));
  };

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
    if (q?.trim()) {
      const found = await users.page({ q, limit: MOST_FOUND });
      return { items: (await Promise.all(found.users.map(ofUser))).flat() };
    }
    const page = await index.page({ after: after || undefined, limit });
    const items = page.items.map(sessionRow);
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
      pages.sendAdmin(res, 'admin/sessions', {
        page: pages.signedInFrame(req, 'Sessions'),
        sessions: items,
        q,
        next,
        notice: queryField(req, 'done') === 'ended' ? { tone: 'success', text: ENDED } : undefined,
      });
    },

    async endByForm(req, res) {
      await end(req);
      const back = queryField(req, 'back') === 'user' ? `users/${splitId(String(req.params.id)).userId}` : 'sessions';
      res.redirect(303, `${basePath}/admin/${back}?done=ended`);
    },

    list: operation(
      {
        summary: 'List sessions, the one begun last first; with q those of the users found by it',
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

const ENDED = 'The session has ended. What is open in that browser stops working at once.';

async function listedWithNext<Q, T extends { items: SessionRow[]; next?: string }>(
  listed: (query: Q) => Promise<T>,
  query: Q,
): Promise<{ items: SessionRow[]; next: string | undefined }> {
  const { items, next } = await listed(query);
  return { items, next };
}
