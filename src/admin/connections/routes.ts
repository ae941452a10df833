/** Connections in the administration: listed by app, health or user, with the revocations that are pending. */
import { z } from 'zod';
import type { ListedConnection } from '../../grants/connection-index.ts';
import type { PendingRevocation } from '../../grants/revocations.ts';
import { queryField } from '../../http/body.ts';
import { listOf } from '../../http/list-schema.ts';
import { operation } from '../../http/operation.ts';
import type { AdminParts } from '../admin.ts';
import { listQuery, listRequest, pageOptions } from '../listing.ts';
import { pageOfMatchingUsers } from '../matching-users.ts';
import type { AdminPageData } from '../page.ts';
import { splitId } from '../users/view.ts';
import { connectionGone } from './disconnections.ts';
import {
  type ConnectionRow,
  connectionJson,
  connectionView,
  type NamedRevocation,
  type ProgressView,
  progressView,
  revocationJson,
  revocationView,
} from './view.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/connections': AdminPageData & {
      connections: readonly ConnectionRow[];
      revocations: readonly NamedRevocation[];
      areMorePending: boolean;
      apps: readonly { id: string; name: string }[];
      form: { app: string; health: string; scopes: string; q: string };
      /** The query of this page without its place in the list. */
      query: string;
      next: string | undefined;
      /** Of the one app that the list is narrowed to. */
      everyone:
        | { app: { id: string; name: string }; count: number; confirm: boolean; progress: ProgressView | undefined }
        | undefined;
    };
  }
}

const MAX_PENDING_SHOWN = 20;

const connectionQuery = listQuery.extend({
  app: z.string().max(40).optional().describe('id of one connected app'),
  health: z.enum(['in_doubt', 'reconnect_needed']).optional(),
  scopes: z
    .enum(['missing'])
    .optional()
    .describe('only connections that lack a scope of their app; a page can hold fewer items than the limit'),
  user: z.string().max(60).optional().describe('id of one user'),
});

export function adminConnectionRoutes({ grants, users, connectedApps, pages }: AdminParts) {
  const { index, connections, everyone, revocations } = grants;
  const { apps } = connectedApps;

  const viewsOf = async ({ userId, appId }: ListedConnection): Promise<ConnectionRow[]> => {
    const [connection, user] = await Promise.all([connections.find(userId, appId), users.store.find(userId)]);
    return connection ? [connectionView(connection, user ?? { id: userId }, apps)] : [];
  };

  const ofUser = async (userId: string): Promise<ConnectionRow[]> => {
    const user = (await users.store.find(userId)) ?? { id: userId };
    return (await connections.list(userId)).map((connection) => connectionView(connection, user, apps));
  };

  const named = async (revocation: PendingRevocation): Promise<NamedRevocation> => {
    const user = await users.store.find(revocation.userId);
    return { ...revocationView(revocation), appName: apps.find(revocation.app)?.name, who: user?.name ?? user?.email };
  };

  const listed = async (
    query: z.output<typeof connectionQuery>,
  ): Promise<{ items: ConnectionRow[]; next?: string }> => {
    const { after, limit, q, app, health, scopes, user } = query;
    const isWanted = (view: ConnectionRow) =>
      (!app || view.app === app) && (!health || view.health === health) && (!scopes || view.missingScopes.length > 0);
    if (user !== undefined) return { items: (await ofUser(user)).filter(isWanted) };
    if (q?.trim()) {
      return pageOfMatchingUsers(users.store, { q, after, limit }, async ({ id }) =>
        (await ofUser(id)).filter(isWanted),
      );
    }
    const { items, ...rest } = await index.page({
      after: after || undefined,
      limit,
      appId: app || undefined,
      state: health,
    });
    return { items: (await Promise.all(items.map(viewsOf))).flat().filter(isWanted), ...rest };
  };

  const list = pages.page('admin/connections', async ({ req }) => {
    const { q, ...place } = listRequest(req);
    const fieldOf = (name: string) => queryField(req, name) ?? '';
    const form = { app: fieldOf('app'), health: fieldOf('health'), scopes: fieldOf('scopes'), q };
    const health = form.health === 'in_doubt' || form.health === 'reconnect_needed' ? form.health : undefined;
    const scopes = form.scopes === 'missing' ? form.scopes : undefined;
    const { items, next } = await listed({ ...place, q, app: form.app, health, scopes });
    const app = apps.find(form.app);
    const progress = app && (await everyone.progress(app.id));
    const pending = await revocations.page({ limit: MAX_PENDING_SHOWN });
    return {
      title: 'Connections',
      connections: items,
      revocations: await Promise.all(pending.items.map(named)),
      areMorePending: pending.next !== undefined,
      apps: apps.list().map(({ id, name }) => ({ id, name })),
      form,
      query: new URLSearchParams(Object.entries(form).filter(([, value]) => value !== '')).toString(),
      next,
      everyone: app && {
        app: { id: app.id, name: app.name },
        count: await index.count(app.id),
        confirm: queryField(req, 'confirm') === 'everyone',
        progress: progress && progressView(progress),
      },
    };
  });

  return {
    page: list.handler,

    list: operation(
      {
        summary:
          'List connections, newest first; with q those of the matching users, and no page splits those of one user',
        query: connectionQuery,
        response: listOf(connectionJson),
      },
      ({ query }) => listed(query),
    ),
    one: operation({ summary: 'Read a connection', response: connectionJson }, async ({ req }) => {
      const { userId, rest: appId } = splitId(String(req.params.id));
      const [view] = await viewsOf({ userId, appId });
      if (!view) throw connectionGone();
      return view;
    }),
    revocations: operation(
      {
        summary: 'List revocations that a provider has not confirmed yet, by the time of the next attempt',
        query: listQuery,
        response: listOf(revocationJson),
      },
      async ({ query }) => {
        const { items, ...rest } = await revocations.page(pageOptions(query));
        return { items: items.map(revocationView), ...rest };
      },
    ),
  };
}
