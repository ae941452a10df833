/** Serves a user's connections as pages and JSON: the list, one connection, a connect link, and disconnecting. */
import type { Request, RequestHandler } from 'express';
import { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { wantsPage } from '../../shared/http/accept.ts';
import { queryField } from '../../shared/http/body.ts';
import { described, json, type Operation, PAGE } from '../../shared/http/description.ts';
import { readHints } from '../../shared/http/provider-hints.ts';
import type { Pages } from '../../shared/pages/pages.ts';
import { disconnectText } from '../../shared/pages/words.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { originOf } from '../../shared/sessions/actor.ts';
import { sessionOf } from '../../shared/sessions/guards.ts';
import { isoTime } from '../../shared/time.ts';
import type { CurrentApps } from '../connected-apps/current-apps.ts';
import type { ConnectLinks } from './connect-links.ts';
import {
  connectionJson,
  connectionSchema,
  connectionView,
  connectionViews,
  disconnectedFields,
  disconnectedJson,
} from './connection-view.ts';
import type { Connections } from './connections.ts';

const listSchema = z.object({ items: z.array(connectionSchema) });

/** `revocation` and `providerResponse` are null if there was no connection. */
const disconnectSchema = z.object({
  id: disconnectedFields.id,
  app: z.string(),
  disconnected: z.boolean(),
  revocation: disconnectedFields.revocation.nullable(),
  providerResponse: disconnectedFields.providerResponse,
});

const LIST: Operation = {
  summary: 'The connections of the user',
  responses: { 200: { ...json(listSchema), ...PAGE }, 303: {} },
};
const DISCONNECT: Operation = {
  summary: 'Revoke the connection at the provider and delete it here',
  responses: { 200: json(disconnectSchema), 303: {} },
};

export interface ConnectionRoutes {
  /** Sends the connections of the user, as JSON or as a page. */
  list: RequestHandler;

  /** Sends the page of one connection. */
  one: RequestHandler;

  /** Sends the page of a connect link, before the user consents. */
  link: RequestHandler;

  disconnect: RequestHandler;
}

export function connectionRoutes(parts: {
  apps: CurrentApps;
  connections: Connections;
  links: Pick<ConnectLinks, 'openFor'>;
  /** Returns the services that used this connection, most recent first. */
  servicesOf: (userId: string, appId: string) => Promise<{ name: string; lastAt: number; count: number }[]>;
  pages: Pages;
  publicHref: string;
}): ConnectionRoutes {
  const { apps, connections, links, servicesOf, pages, publicHref } = parts;

  const appOf = (req: Request, id = String(req.params.app)): ConnectedApp => {
    const app = apps.find(id);
    if (!app) throw new AppError('not_found', { detail: 'There is no connected app with this id.' });
    return app;
  };

  return {
    list: described<RequestHandler>(LIST, async (req, res) => {
      const userId = sessionOf(req).user.id;
      if (!wantsPage(req)) {
        const listed = await connections.list(userId);
        res.json({
          items: listed.map((connection) => connectionJson(connection, apps.find(connection.app), publicHref)),
        } satisfies z.output<typeof listSchema>);
        return;
      }
      const views = await connectionViews(apps, connections, userId, publicHref);
      pages.send(res, 'connections/list', { page: pages.signedInFrame(req, 'Your connections'), connections: views });
    }),

    async one(req, res) {
      const app = appOf(req);
      const userId = sessionOf(req).user.id;
      const connection = await connections.find(userId, app.id);
      const pending = (await connections.pendingRevocations(userId)).find((revocation) => revocation.app === app.id);
      pages.send(res, 'connections/one', {
        page: pages.signedInFrame(req, app.name),
        connection: {
          ...connectionView(app, connection, publicHref, pending?.since, queryField(req, 'scope')?.split(' ')),
          name: apps.nameOf(app.id),
        },
        services: await servicesOf(userId, app.id),
        returnTo: queryField(req, 'return_to'),
        hints: readHints((name) => queryField(req, name)),
        notice: (await pages.flashOf(req)).notice,
      });
    },

    async link(req, res) {
      const userId = sessionOf(req).user.id;
      const { app: id, scopes, relayToken, expiresAt } = await links.openFor(userId, String(req.params.link));
      const app = appOf(req, id);
      const connection = await connections.find(userId, id);
      pages.send(res, 'connections/link', {
        page: pages.signedInFrame(req, app.name),
        connection: { ...connectionView(app, connection, publicHref), name: apps.nameOf(id) },
        scopes,
        service: relayToken.name,
        expiresAt: isoTime(expiresAt),
        link: String(req.params.link),
        hints: readHints((name) => queryField(req, name)),
      });
    },

    disconnect: described<RequestHandler>(DISCONNECT, async (req, res) => {
      const app = appOf(req);
      const ended = await connections.end(sessionOf(req).user.id, app.id, { origin: originOf(req) });
      if (!wantsPage(req)) {
        const outcome = ended ? disconnectedJson(ended) : { id: null, revocation: null, providerResponse: null };
        const response = { app: app.id, disconnected: ended !== undefined, ...outcome };
        res.json(response satisfies z.output<typeof disconnectSchema>);
        return;
      }
      const notice = ended && disconnectText(ended.revocation);
      await pages.redirect(req, res, `${publicHref}/connections/${app.id}`, { notice });
    }),
  };
}
