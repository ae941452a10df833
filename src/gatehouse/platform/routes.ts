/** Serves `GET /threads/current` and `/api/{app}/…` to browser sessions. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { queryField } from '../../shared/http/body.ts';
import { described, type Operation } from '../../shared/http/description.ts';
import type { JsonBytes } from '../../shared/http/json-bytes.ts';
import { operation } from '../../shared/http/operation.ts';
import { passResponse } from '../../shared/http/pass-response.ts';
import type { FastPathHandler } from '../../shared/http/route-table.ts';
import type { BrowserSessions } from '../../shared/sessions/browser-sessions.ts';
import { sessionOf } from '../../shared/sessions/guards.ts';
import type { CurrentApps } from '../connected-apps/current-apps.ts';
import { routesOf } from '../connected-apps/route-match.ts';
import type { GrantReading, GrantStore } from '../grants/grant-store.ts';
import { type PlatformCalls, threadCall } from './platform-call.ts';
import { type ApiRoutes, callOperation, namedApp, passCall, routedRequest, routeListJson } from './routed-request.ts';

const CURRENT: Operation = {
  summary: 'The current thread of the user, as the platform returns it',
  query: z.object({
    app: z
      .string()
      .optional()
      .describe(
        'id of a connected app; default: the app that the user signed in with, or else the only app that serves threads',
      ),
  }),
  responses: {
    200: {
      '*/*': z
        .unknown()
        .describe('the platform’s JSON, unchanged: at most 32 MiB in 60 s, and its headers within 15 s'),
    },
  },
};

export interface ThreadRoutes {
  /** `prefetch` runs before the guard, so that grant and session are read in one round trip to the store. */
  current: FastPathHandler & { prefetch(req: IncomingMessage): FastPathHandler };
}

export function threadRoutes(parts: {
  apps: CurrentApps;
  calls: PlatformCalls;
  sessions: Pick<BrowserSessions, 'cached'>;
  grants: Pick<GrantStore, 'prefetch'>;
}): ThreadRoutes {
  const { apps, calls, sessions, grants } = parts;

  const respond = (req: IncomingMessage, res: ServerResponse, prefetched?: GrantReading) => {
    const { user, app: signInAppId } = sessionOf(req);
    const app = apps.threadApp(queryField(req, 'app'), signInAppId);
    return passResponse(req, res, (stop) =>
      calls.stream({ ownerId: user.id, app, call: threadCall(app), prefetched }, stop),
    );
  };

  /**
   * Starts to read the grant of the user to whom the session belonged when this process last read or wrote it. The read
   * is used only if the session still belongs to that user.
   */
  const prefetch = (req: IncomingMessage): FastPathHandler => {
    // The query may name an app that does not exist, and only a signed-in caller may learn that.
    const session = req.url?.includes('?') ? undefined : sessions.cached(req);
    const app = session && apps.usualThreadApp(session.app);
    const prefetched = app && grants.prefetch(session.user.id, app.id);
    return (_req, res) => respond(req, res, prefetched);
  };

  const current = (req: IncomingMessage, res: ServerResponse) => respond(req, res);
  return { current: described(CURRENT, Object.assign(current, { prefetch })) };
}

export function apiRoutes(parts: {
  apps: CurrentApps;
  calls: PlatformCalls;
  bodies: JsonBytes;
  basePath: string;
}): ApiRoutes {
  const { apps, calls, bodies, basePath } = parts;

  const call: RequestHandler = async (req, res) => {
    const { user } = sessionOf(req);
    const app = apps.threadApp(namedApp(req, basePath));
    await passCall(req, res, routedRequest(req, app, basePath), {
      bodies,
      caller: user.id,
      open: (platformCall, stop) => calls.stream({ ownerId: user.id, app, call: platformCall }, stop),
    });
  };

  return {
    list: operation(
      { summary: 'The calls of an app’s platform that may be made', response: routeListJson },
      async ({ req }) => ({ items: routesOf(apps.threadApp(String(req.params.app))) }),
    ),
    read: described<RequestHandler>(callOperation(true), (req, res, next) => call(req, res, next)),
    write: described<RequestHandler>(callOperation(false), (req, res, next) => call(req, res, next)),
  };
}
