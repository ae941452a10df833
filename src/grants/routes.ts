/** Owns the pages and JSON of a user's connections: list, one, disconnect. */
import { createHmac } from 'node:crypto';
import type { Request, RequestHandler } from 'express';
import type { AppStore } from '../connected-apps/app-store.ts';
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import { AppError } from '../errors.ts';
import { queryField } from '../http/body.ts';
import type { DisconnectOutcome } from '../http/page-data.ts';
import type { Pages } from '../http/pages.ts';
import { viewerOf, wantsPage } from '../http/viewer.ts';
import { connectionJson, connectionView, connectionViews } from './connection-view.ts';
import type { Connections, DisconnectAnswer } from './connections.ts';

export interface ConnectionRoutes {
  list: RequestHandler;
  one: RequestHandler;
  disconnect: RequestHandler;
}

const OUTCOMES: Record<DisconnectAnswer, DisconnectOutcome> = {
  revoked: 'revoked',
  unsupported: 'no_revocation',
  unconfirmed: 'not_confirmed',
  pending: 'pending',
};

/** The outcome for the page that follows, so that no link of somebody else can claim one (R52). */
function sealOutcome(req: Request, app: ConnectedApp, outcome: DisconnectOutcome): string {
  const mac = createHmac('sha256', viewerOf(req).csrfToken)
    .update(`disconnected:${app.id}:${outcome}`)
    .digest('base64url');
  return `${outcome}.${mac.slice(0, 22)}`;
}

function saidOutcome(req: Request, app: ConnectedApp): DisconnectOutcome | undefined {
  const said = queryField(req, 'disconnected');
  return Object.values(OUTCOMES).find((outcome) => sealOutcome(req, app, outcome) === said);
}

export function connectionRoutes(parts: {
  apps: AppStore;
  connections: Connections;
  /** The services that used this connection, the latest first. */
  servicesOf: (userId: string, appId: string) => Promise<{ name: string; lastAt: number; count: number }[]>;
  pages: Pages;
  publicHref: string;
}): ConnectionRoutes {
  const { apps, connections, servicesOf, pages, publicHref } = parts;

  const appOf = (req: Request): ConnectedApp => {
    const app = apps.find(String(req.params.app));
    if (!app) throw new AppError('not_found', { detail: 'There is no connected app with this id.' });
    return app;
  };

  return {
    async list(req, res) {
      const userId = viewerOf(req).user.id;
      if (!wantsPage(req)) {
        const made = await connections.list(userId);
        res.json({
          connections: made.map((connection) => connectionJson(connection, apps.find(connection.app), publicHref)),
        });
        return;
      }
      const views = await connectionViews(apps, connections, userId, publicHref);
      pages.send(res, 'connections', { page: pages.signedInFrame(req, 'Your connections'), connections: views });
    },

    async one(req, res) {
      const app = appOf(req);
      const userId = viewerOf(req).user.id;
      const connection = await connections.find(userId, app.id);
      const pending = (await connections.pendingRevocations(userId)).find((one) => one.app === app.id);
      pages.send(res, 'connection', {
        page: pages.signedInFrame(req, app.name),
        connection: connectionView(app, connection, publicHref, pending?.since),
        services: await servicesOf(userId, app.id),
        returnTo: queryField(req, 'return_to'),
        disconnected: connection ? undefined : saidOutcome(req, app),
      });
    },

    async disconnect(req, res) {
      const app = appOf(req);
      const { id: requestId } = req.context;
      const origin = { address: req.ip, requestId };
      const ended = await connections.end(viewerOf(req).user.id, app, { origin });
      const { revocation, said } = ended ?? {};
      if (!wantsPage(req)) {
        const answered = { revocation: revocation ?? null, provider: said ?? null };
        res.json({ app: app.id, disconnected: ended !== undefined, ...answered });
        return;
      }
      const outcome = revocation ? `?disconnected=${sealOutcome(req, app, OUTCOMES[revocation])}` : '';
      res.redirect(303, `${publicHref}/connections/${app.id}${outcome}`);
    },
  };
}
