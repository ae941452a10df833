/** The session of the browser as JSON, and the user's own sessions: a list, and ending one of them (R56). */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { wantsPage } from '../../shared/http/accept.ts';
import { described, json, type Operation, PAGE } from '../../shared/http/description.ts';
import type { Events } from '../../shared/observability/events.ts';
import type { Notice } from '../../shared/pages/page-data.ts';
import type { Pages } from '../../shared/pages/pages.ts';
import { originOf } from '../../shared/sessions/actor.ts';
import { sessionOf } from '../../shared/sessions/guards.ts';
import type { Sessions } from '../../shared/sessions/sessions.ts';
import { isoTime } from '../../shared/time.ts';

const currentSchema = z.union([
  z.object({ signedIn: z.literal(false) }),
  z.object({
    signedIn: z.literal(true),
    user: z.object({
      id: z.string(),
      issuer: z.string(),
      subject: z.string(),
      name: z.string().nullable(),
      email: z.string().nullable(),
      admin: z.boolean(),
    }),
    csrfToken: z.string(),
    expiresAt: z.iso.datetime(),
  }),
]);
const listSchema = z.object({
  items: z.array(
    z.object({
      id: z.string(),
      browser: z.string().nullable().describe('browser and system, for display'),
      startedAt: z.iso.datetime(),
      lastSeenAt: z.iso.datetime(),
      current: z.boolean(),
    }),
  ),
});
const endedSchema = z.object({ id: z.string() });

const CURRENT: Operation = {
  summary: 'Get the signed-in user and the CSRF token',
  responses: { 200: json(currentSchema) },
};
const LIST: Operation = {
  summary: 'List the user’s sessions',
  responses: { 200: { ...json(listSchema), ...PAGE }, 303: {} },
};
const END: Operation = {
  summary: 'End one of the user’s own sessions',
  responses: { 200: json(endedSchema), 303: {} },
};

export interface SessionRoutes {
  current: RequestHandler;

  list: RequestHandler;

  end: RequestHandler;
}

export function sessionRoutes(parts: {
  sessions: Pick<Sessions, 'browser' | 'ofUsers'>;
  pages: Pages;
  events: Events;
  basePath: string;
}): SessionRoutes {
  const { sessions, pages, events, basePath } = parts;

  return {
    current: described<RequestHandler>(CURRENT, (req, res) => {
      if (!req.context.session) {
        res.json({ signedIn: false } satisfies z.output<typeof currentSchema>);
        return;
      }
      const { user, csrfToken, expiresAt } = req.context.session;
      const { id, issuer, subject, name = null, email = null, admin } = user;
      res.json({
        signedIn: true,
        user: { id, issuer, subject, name, email, admin },
        csrfToken,
        expiresAt: isoTime(expiresAt),
      } satisfies z.output<typeof currentSchema>);
    }),

    list: described<RequestHandler>(LIST, async (req, res) => {
      const currentSession = sessionOf(req);
      const listedSessions = (await sessions.ofUsers.list(currentSession.user.id)).map(
        ({ ref, createdAt, seenAt, browser }) => ({
          id: ref,
          browser,
          startedAt: isoTime(createdAt),
          lastSeenAt: isoTime(seenAt),
          current: ref === currentSession.ref,
        }),
      );
      // The current session comes first.
      listedSessions.sort((left, right) => Number(right.current) - Number(left.current));
      if (!wantsPage(req)) {
        const jsonSessions = listedSessions.map((session) => ({ ...session, browser: session.browser ?? null }));
        res.json({ items: jsonSessions } satisfies z.output<typeof listSchema>);
        return;
      }
      pages.send(res, 'sign-in/sessions', {
        page: pages.signedInFrame(req, 'Where you are signed in'),
        sessions: listedSessions,
        notice: (await pages.flashOf(req)).notice,
      });
    }),

    end: described<RequestHandler>(END, async (req, res) => {
      const { user, ref } = sessionOf(req);
      const id = String(req.params.id);
      // A session of another user is reported as not found.
      if (!(await sessions.ofUsers.end(user.id, id))) {
        throw new AppError('not_found', { detail: 'You have no session with this id, or it ended long ago.' });
      }
      events.signedOut({ userId: user.id, everywhere: false, session: id, origin: originOf(req) });
      const isCurrent = id === ref;
      if (isCurrent) sessions.browser.clearCookies(req, res);
      if (!wantsPage(req)) {
        res.json({ id } satisfies z.output<typeof endedSchema>);
        return;
      }
      if (isCurrent) res.redirect(303, `${basePath}/`);
      else await pages.redirect(req, res, `${basePath}/sessions`, { notice: ENDED });
    }),
  };
}

const ENDED: Notice = {
  tone: 'success',
  text: 'That browser is signed out. Pages that are open there stop working.',
};
