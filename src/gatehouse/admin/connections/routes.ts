/** Connections in the administration: listed by app, health or user, with the revocations that are pending. */
import { z } from 'zod';
import { listOf } from '../../../shared/http/list-schema.ts';
import { operation } from '../../../shared/http/operation.ts';
import type { ListedConnection } from '../../grants/connection-index.ts';
import type { PendingRevocation } from '../../grants/revocations.ts';
import { listQuery } from '../listing.ts';
import { pageOfMatchingUsers } from '../matching-users.ts';
import type { AdminPageOfList } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { displayName } from '../users/view.ts';
import { throwGone } from './disconnections.ts';
import { connectionFinder } from './find.ts';
import {
  CONNECTION_COLUMNS,
  type ConnectionRow,
  connectionJson,
  connectionView,
  type NamedRevocation,
  type ProgressView,
  progressView,
  REVOCATION_COLUMNS,
  revocationJson,
  revocationView,
} from './view.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/connections/list': AdminPageOfList & {
      connections: readonly ConnectionRow[];
      revocations: readonly NamedRevocation[];
      revocationColumns: typeof REVOCATION_COLUMNS;
      areMorePending: boolean;
      apps: readonly { id: string; name: string }[];
      /** Of the one app whose connections are listed. */
      everyone: { app: { id: string; name: string }; count: number; progress: ProgressView | undefined } | undefined;
    };
  }
}

const MAX_PENDING_SHOWN = 20;
const HEALTHS = ['unverified', 'reconnect_needed'] as const;

const healthOf = (text: string) => HEALTHS.find((health) => health === text);

const connectionQuery = listQuery.extend({
  app: z.string().max(40).optional().describe('id of one connected app'),
  health: z.enum(HEALTHS).optional(),
  scopes: z
    .enum(['missing'])
    .optional()
    .describe(
      'only connections that lack a scope of their app, as far as a use or a check has found it; a page can hold fewer ' +
        'items than the limit, where an app has since lost the scope',
    ),
  user: z.string().max(60).optional().describe('id of one user'),
});

export function adminConnectionRoutes({ grants, users, connectedApps, pages }: AdminParts) {
  const { index, connections, everyone, revocations } = grants;
  const { apps } = connectedApps;
  const find = connectionFinder(connections);

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
    return { ...revocationView(revocation), appName: apps.find(revocation.app)?.name, who: displayName(user) };
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
      after,
      limit,
      appId: app || undefined,
      state: scopes ? 'lacking' : health,
    });
    return { items: (await Promise.all(items.map(viewsOf))).flat().filter(isWanted), ...rest };
  };

  const list = pages.page('admin/connections/list', async ({ req, res }) => {
    const found = await pages.list(req, res, {
      name: 'connections',
      fields: ['q', 'app', 'health', 'scopes'],
      columns: CONNECTION_COLUMNS,
      read: ({ health, scopes, ...query }) =>
        listed({ ...query, health: healthOf(health), scopes: scopes === 'missing' ? scopes : undefined }),
      count: ({ q, app, health, scopes }) =>
        q || scopes === 'missing' ? undefined : index.total({ appId: app || undefined, state: healthOf(health) }),
    });
    if (!found) return undefined;
    const { app: id = '' } = found.list.values;
    const registered = apps.find(id);
    // One that cannot be opened may have connections, too.
    const app = registered ?? (id ? { id, name: id } : undefined);
    const [count, progress, pending] = await Promise.all([
      app ? index.count(app.id) : 0,
      app && everyone.progress(app.id),
      revocations.page({ limit: MAX_PENDING_SHOWN }),
    ]);
    return {
      title: 'Connections',
      connections: found.items,
      list: found.list,
      revocations: await Promise.all(pending.items.map(named)),
      revocationColumns: REVOCATION_COLUMNS,
      areMorePending: pending.next !== undefined,
      apps: apps.list().map(({ id, name }) => ({ id, name })),
      everyone:
        app && (registered || count > 0)
          ? { app: { id: app.id, name: app.name }, count, progress: progress && progressView(progress) }
          : undefined,
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
    one: operation(
      { summary: 'Read a connection, by its id or as USER.APP', response: connectionJson },
      async ({ req }) => {
        const { userId, connection } = (await find(String(req.params.id))) ?? throwGone();
        return connectionView(connection, (await users.store.find(userId)) ?? { id: userId }, apps);
      },
    ),
    revocations: operation(
      {
        summary: 'List revocations that a provider has not confirmed yet, by the time of the next attempt',
        query: listQuery,
        response: listOf(revocationJson),
      },
      async ({ query }) => {
        const { items, ...rest } = await revocations.page(query);
        return { items: items.map(revocationView), ...rest };
      },
    ),
  };
}
