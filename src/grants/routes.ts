/** Owns the pages and JSON of a user's connections: list, one, disconnect. */
import type { Request, RequestHandler } from 'express';
import type { AppStore } from '../connected-apps/app-store.ts';
import { type ConnectedApp, isUsable } from '../connected-apps/connected-app.ts';
import type { RevocationOutcome } from '../connected-apps/provider-client.ts';
import { AppError } from '../errors.ts';
import { queryField } from '../http/body.ts';
import type { ConnectionView, DisconnectOutcome } from '../http/page-data.ts';
import type { Pages } from '../http/pages.ts';
import { viewerOf, wantsPage } from '../http/viewer.ts';
import type { Connection, Connections } from './connections.ts';
import { TROUBLE_WORDS } from './grant.ts';

export interface ConnectionRoutes {
  list: RequestHandler;
  one: RequestHandler;
  disconnect: RequestHandler;
}

/** What `GET /session` and `GET /connections` tell of a connection. */
export function connectionJson(connection: Connection, app: ConnectedApp | undefined, publicHref: string) {
  const { account, lastUsedAt, health } = connection;
  return {
    app: connection.app,
    name: app?.name ?? connection.app,
    account: account.email ?? account.name ?? account.subject ?? null,
    health,
    scopes: connection.scopes,
    cause: connection.cause ?? null,
    lastUsedAt: lastUsedAt === undefined ? null : new Date(lastUsedAt).toISOString(),
    connectUrl: `${publicHref}/connections/${connection.app}`,
  };
}

/** The same for pages; without a connection what connecting would ask for. */
export function connectionView(
  app: ConnectedApp,
  connection: Connection | undefined,
  publicHref: string,
): ConnectionView {
  const unusable = isUsable(app, publicHref)
    ? undefined
    : 'The callback URL of this app is not in its registration. An administrator has to add it.';
  const base = { id: app.id, name: app.name, unusable };
  if (!connection) return { ...base, health: 'not_connected', scopes: app.scopes };
  const { account, connectedAt, lastUsedAt, cause } = connection;
  return {
    ...base,
    health: connection.health,
    account: account.email ?? account.name ?? account.subject,
    cause: cause && TROUBLE_WORDS[cause],
    scopes: connection.scopes,
    connectedAt: connectedAt === undefined ? undefined : new Date(connectedAt).toISOString(),
    lastUsedAt: lastUsedAt === undefined ? undefined : new Date(lastUsedAt).toISOString(),
  };
}

/** Every app as this user sees it, those without a connection included. */
export async function connectionViews(
  apps: AppStore,
  connections: Connections,
  userId: string,
  publicHref: string,
): Promise<ConnectionView[]> {
  const made = new Map((await connections.list(userId)).map((connection) => [connection.app, connection]));
  return apps.list().map((app) => connectionView(app, made.get(app.id), publicHref));
}

const OUTCOMES: Record<RevocationOutcome, DisconnectOutcome> = {
  revoked: 'revoked',
  unsupported: 'no_revocation',
  unconfirmed: 'not_confirmed',
};

export function connectionRoutes(parts: {
  apps: AppStore;
  connections: Connections;
  pages: Pages;
  publicHref: string;
}): ConnectionRoutes {
  const { apps, connections, pages, publicHref } = parts;

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
      const connection = await connections.find(viewerOf(req).user.id, app.id);
      const ended = queryField(req, 'disconnected');
      pages.send(res, 'connection', {
        page: pages.signedInFrame(req, app.name),
        connection: connectionView(app, connection, publicHref),
        returnTo: queryField(req, 'return_to'),
        disconnected: connection ? undefined : Object.values(OUTCOMES).find((outcome) => outcome === ended),
      });
    },

    async disconnect(req, res) {
      const app = appOf(req);
      const revocation = await connections.end(viewerOf(req).user.id, app);
      if (!wantsPage(req)) {
        res.json({ app: app.id, disconnected: revocation !== undefined, revocation: revocation ?? null });
        return;
      }
      const outcome = revocation ? `?disconnected=${OUTCOMES[revocation]}` : '';
      res.redirect(303, `${publicHref}/connections/${app.id}${outcome}`);
    },
  };
}
