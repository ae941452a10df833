/** The user's own sessions: a list, and ending one of them (R56). */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { wantsPage } from '../http/accept.ts';
import { described, json, type Operation, PAGE } from '../http/description.ts';
import type { Events } from '../observability/events.ts';
import type { Notice } from '../pages/page-data.ts';
import type { Pages } from '../pages/pages.ts';
import { sessionOf } from '../sessions/guards.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { isoTime } from '../time.ts';

export interface SessionRoutes {
  list: RequestHandler;
  end: RequestHandler;
}

const listSchema = z.object({
  sessions: z.array(
    z.object({
      id: z.string(),
      browser: z.string().nullable().describe('in words'),
      startedAt: z.iso.datetime(),
      lastSeenAt: z.iso.datetime(),
      current: z.boolean(),
    }),
  ),
});
const endedSchema = z.object({ id: z.string(), ended: z.literal(true) });

const LIST: Operation = {
  summary: 'Where the user is signed in',
  responses: { 200: { ...json(listSchema), ...PAGE }, 303: {} },
};
const END: Operation = {
  summary: 'End one of the user’s own sessions',
  responses: { 200: json(endedSchema), 303: {} },
};

export function sessionRoutes(parts: {
  sessions: Pick<Sessions, 'browser' | 'ofUsers'>;
  pages: Pages;
  events: Events;
  basePath: string;
}): SessionRoutes {
  const { sessions, pages, events, basePath } = parts;

  return {
    list: described<RequestHandler>(LIST, async (req, res) => {
      const own = sessionOf(req);
      const listed = (await sessions.ofUsers.list(own.user.id)).map(({ ref, createdAt, seenAt, browser }) => ({
        id: ref,
        browser,
        startedAt: isoTime(createdAt),
        lastSeenAt: isoTime(seenAt),
        current: ref === own.ref,
      }));
      // The current session comes first.
      listed.sort((left, right) => Number(right.current) - Number(left.current));
      if (!wantsPage(req)) {
        const forJson = listed.map((session) => ({ ...session, browser: session.browser ?? null }));
        res.json({ sessions: forJson } satisfies z.output<typeof listSchema>);
        return;
      }
      pages.send(res, 'sign-in/sessions', {
        page: pages.signedInFrame(req, 'Where you are signed in'),
        sessions: listed,
        notice: (await pages.flashOf(req)).notice,
      });
    }),

    end: described<RequestHandler>(END, async (req, res) => {
      const { user, ref } = sessionOf(req);
      const id = String(req.params.id);
      // Only the user's own sessions: those of others do not exist for this user.
      if (!(await sessions.ofUsers.end(user.id, id))) {
        throw new AppError('not_found', { detail: 'You have no session with this id, or it ended long ago.' });
      }
      events.signedOut({
        userId: user.id,
        everywhere: false,
        session: id,
        origin: { address: req.context.address, requestId: req.context.id },
      });
      const own = id === ref;
      if (own) sessions.browser.clearCookies(res);
      if (!wantsPage(req)) {
        res.json({ id, ended: true } satisfies z.output<typeof endedSchema>);
        return;
      }
      if (own) res.redirect(303, `${basePath}/`);
      else await pages.redirect(req, res, `${basePath}/sessions`, { notice: ENDED });
    }),
  };
}

const ENDED: Notice = {
  tone: 'success',
  text: 'That browser is signed out. What is open there stops working at once.',
};
