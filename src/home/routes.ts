/** Owns the home page and the pages that explain: what somebody sees first, and what a problem code means. */
import type { RequestHandler } from 'express';
import type { AppStore } from '../connected-apps/app-store.ts';
import { AppError, PROBLEMS, type ProblemCode } from '../errors.ts';
import { connectionViews } from '../grants/connection-view.ts';
import type { Connections } from '../grants/connections.ts';
import type { Pages } from '../http/pages.ts';
import { report } from '../http/problem.ts';
import { problemText } from '../http/problem-texts.ts';
import { wantsPage } from '../http/viewer.ts';
import type { Events } from '../observability/events.ts';
import type { ThreadCall } from '../threads/thread-call.ts';
import { createThreadPanels } from './thread-panel.ts';

export interface HomeRoutes {
  home: RequestHandler;
  problem: RequestHandler;
}

export function homeRoutes(parts: {
  apps: AppStore;
  connections: Connections;
  threads: ThreadCall;
  pages: Pages;
  events: Events;
  publicHref: string;
}): HomeRoutes {
  const { apps, connections, pages, events, publicHref } = parts;
  const panels = createThreadPanels({ threads: parts.threads });

  return {
    async home(req, res) {
      const { viewer } = req.context;
      if (!viewer) {
        const signInApps = apps
          .signInApps()
          .map(({ id, name }) => ({ id, name, url: `${publicHref}/sign-in?app=${id}` }));
        return pages.send(res, 'home-signed-out', { page: pages.frame(req, 'Sign in'), signInApps });
      }
      const userId = viewer.user.id;
      const threads = await Promise.all(
        apps
          .threadApps()
          .map((app) => panels.panel(app, userId, req.context.reference, (error) => report(events, req, error))),
      );
      // Read last: asking for the thread is what shows that a connection is broken.
      const views = await connectionViews(apps, connections, userId, publicHref);
      pages.send(res, 'home-signed-in', {
        page: pages.signedInFrame(req, 'Home'),
        connections: views,
        threads,
        bin: {},
      });
    },

    problem(req, res) {
      const code = String(req.params.code);
      if (!isProblemCode(code)) throw new AppError('not_found', { detail: 'There is no problem with this name.' });
      const { title, status } = PROBLEMS[code];
      if (!wantsPage(req)) {
        res.json({ type: `${publicHref}/problems/${code}`, code, title, status });
        return;
      }
      pages.send(res, 'problem', { page: pages.frame(req, problemText(code).title), code });
    },
  };
}

function isProblemCode(code: string): code is ProblemCode {
  return Object.hasOwn(PROBLEMS, code);
}
