/** Owns `GET /threads/current` for browser sessions. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AppStore } from '../connected-apps/app-store.ts';
import type { GrantReading, GrantStore } from '../grants/grant-store.ts';
import { queryField } from '../http/body.ts';
import { passAnswer } from '../http/pass-answer.ts';
import type { Sessions } from '../http/session.ts';
import { viewerOf } from '../http/viewer.ts';
import type { ThreadCall } from './thread-call.ts';

export interface ThreadRoutes {
  /**
   * Begins to read the grant of whoever had this session last, so that it is asked for together with the session: one round
   * trip to the store in place of two. It counts only if the session, once read, says the same user.
   */
  readAhead(req: IncomingMessage): GrantReading | undefined;
  current(req: IncomingMessage, res: ServerResponse, ahead: GrantReading | undefined): Promise<void>;
}

export function threadRoutes(parts: {
  apps: AppStore;
  threads: ThreadCall;
  sessions: Pick<Sessions, 'likelyUser'>;
  grants: Pick<GrantStore, 'readAhead'>;
}): ThreadRoutes {
  const { apps, threads, sessions, grants } = parts;
  return {
    readAhead(req) {
      // Whoever names an app may name one that there is not, and hears of that once the session is known.
      if (req.url?.includes('?')) return undefined;
      const [app, another] = apps.threadApps();
      const userId = app && !another ? sessions.likelyUser(req) : undefined;
      return app && userId !== undefined ? grants.readAhead(userId, app.id) : undefined;
    },
    current(req, res, ahead) {
      const app = apps.threadApp(queryField(req, 'app'));
      const { user } = viewerOf(req);
      return passAnswer(req, res, (stop) => threads.stream({ userId: user.id, app, ahead }, stop));
    },
  };
}
