/** The home page, and `GET /problems/{code}`, which explains a problem code. */
import type { Request, RequestHandler } from 'express';
import { AppError, PROBLEMS, type ProblemCode } from '../../shared/errors.ts';
import { wantsPage } from '../../shared/http/accept.ts';
import { queryField } from '../../shared/http/body.ts';
import { report } from '../../shared/http/problem.ts';
import type { Events } from '../../shared/observability/events.ts';
import type { Notice } from '../../shared/pages/page-data.ts';
import type { Pages } from '../../shared/pages/pages.ts';
import type { ProblemReferences } from '../../shared/pages/problem-references.ts';
import { problemText } from '../../shared/pages/problem-texts.ts';
import type { ConnectedApps } from '../connected-apps/connected-apps.ts';
import { connectionViews } from '../grants/connection-view.ts';
import type { Grants } from '../grants/grants.ts';
import type { Platform } from '../platform/platform.ts';
import { GONE_FAILURES, SIGN_IN_FAILURES } from '../sign-in-record/failures.ts';
import { callList } from './call-list.ts';
import { createThreadPanels } from './thread-panel.ts';

export interface Home {
  home: RequestHandler;
  problem: RequestHandler;
}

export function createHome(parts: {
  connectedApps: Pick<ConnectedApps, 'apps'>;
  grants: Pick<Grants, 'connections'>;
  platform: Pick<Platform, 'forBrowsers'>;
  pages: Pages;
  events: Events;
  references: Pick<ProblemReferences, 'record'>;
  publicHref: string;
}): Home {
  const { pages, events, publicHref } = parts;
  const { apps } = parts.connectedApps;
  const { connections } = parts.grants;
  const panels = createThreadPanels({ calls: parts.platform.forBrowsers, nameOf: apps.nameOf });
  const reportFailure = (req: Request, error: AppError) => {
    report(events, req, error);
    return parts.references.record(req, error);
  };

  return {
    async home(req, res) {
      const { session } = req.context;
      const notice = noticeOf(queryField(req, 'ended'));
      if (!session) {
        const signInApps = apps.signInApps().map(({ id }) => {
          const url = `${publicHref}/sign-in?app=${id}`;
          return { id, name: apps.nameOf(id), url, otherUrl: `${url}&prompt=select_account` };
        });
        return pages.send(res, 'home/signed-out', { page: pages.frame(req, 'Sign in'), signInApps, notice });
      }
      const userId = session.user.id;
      const connectedIds = new Set((await connections.list(userId)).map(({ app }) => app));
      const connectedApps = apps.threadApps().filter(({ id }) => connectedIds.has(id));
      // Without a connection, the page offers to connect the app that the user probably wants.
      const shownApps =
        connectedApps.length > 0 ? connectedApps : [apps.usualThreadApp(session.app)].flatMap((app) => app ?? []);
      const threads = await Promise.all(
        shownApps.map((app) => panels.panel(app, userId, (error) => reportFailure(req, error))),
      );
      // Read after the threads, since fetching a thread may show that a connection needs reconnecting.
      const views = await connectionViews(apps, connections, userId, publicHref);
      pages.send(res, 'home/signed-in', {
        page: pages.signedInFrame(req, 'Home'),
        connections: views,
        threads,
        calls: callList(apps.threadApps(), views),
        bin: {},
        notice,
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
      pages.send(res, 'errors/problem', { page: pages.frame(req, problemText(code).title), code });
    },
  };
}

/** Returns the notice after a callback whose request is gone. @param ended the failure */
function noticeOf(ended: string | undefined): Notice | undefined {
  const failure = GONE_FAILURES.find((name) => name === ended);
  return failure && { tone: 'warning', text: SIGN_IN_FAILURES[failure].detail };
}

function isProblemCode(code: string): code is ProblemCode {
  return Object.hasOwn(PROBLEMS, code);
}
