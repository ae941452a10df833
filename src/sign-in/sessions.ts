/** Owns what people see of their own sessions, and ending one of them (R56). */
import type { RequestHandler } from 'express';
import { AppError } from '../errors.ts';
import { queryField } from '../http/body.ts';
import type { Pages } from '../http/pages.ts';
import type { Sessions } from '../http/session.ts';
import type { UserSessions } from '../http/user-sessions.ts';
import { viewerOf, wantsPage } from '../http/viewer.ts';
import type { Events } from '../observability/events.ts';

export interface SessionRoutes {
  list: RequestHandler;
  end: RequestHandler;
}

export function sessionRoutes(parts: {
  userSessions: UserSessions;
  cookie: Sessions['cookie'];
  pages: Pages;
  events: Events;
  basePath: string;
}): SessionRoutes {
  const { userSessions, cookie, pages, events, basePath } = parts;

  return {
    async list(req, res) {
      const { user, sessionRef } = viewerOf(req);
      const sessions = (await userSessions.list(user.id)).map(({ ref, startedAt, seenAt, browser }) => ({
        id: ref,
        browser,
        startedAt: new Date(startedAt).toISOString(),
        lastSeenAt: new Date(seenAt).toISOString(),
        current: ref === sessionRef,
      }));
      // The browser that one looks with is what one looks for first.
      sessions.sort((left, right) => Number(right.current) - Number(left.current));
      if (!wantsPage(req)) {
        res.json({ sessions: sessions.map((session) => ({ ...session, browser: session.browser ?? null })) });
        return;
      }
      pages.send(res, 'sessions', {
        page: pages.signedInFrame(req, 'Where you are signed in'),
        sessions,
        notice:
          queryField(req, 'ended') === '1'
            ? { tone: 'success', text: 'That browser is signed out. What is open there stops working at once.' }
            : undefined,
      });
    },

    async end(req, res) {
      const { user, sessionRef } = viewerOf(req);
      const id = String(req.params.id);
      // Looked for among the user's own alone: to everybody else it is as if it were not there.
      if (!(await userSessions.end(user.id, id))) {
        throw new AppError('not_found', { detail: 'You have no such sign-in, or it has ended long ago.' });
      }
      events.signedOut({
        userId: user.id,
        everywhere: false,
        session: id,
        origin: { address: req.ip, requestId: req.context.id },
      });
      const own = id === sessionRef;
      if (own) res.clearCookie(cookie.name, cookie.options);
      if (!wantsPage(req)) {
        res.json({ id, ended: true });
        return;
      }
      res.redirect(303, own ? `${basePath}/` : `${basePath}/sessions?ended=1`);
    },
  };
}
