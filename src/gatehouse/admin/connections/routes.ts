/** Connections in the administration, by app, health or user, and pending revocations. */
import { z } from 'zod';
import { listOf } from '../../../shared/http/list-schema.ts';
import { operation } from '../../../shared/http/operation.ts';
import type { ListedConnection } from '../../grants/connection-index.ts';
import type { PendingRevocation } from '../../grants/revocations.ts';
import { listQuery } from '../listing.ts';
import { pageOfMatchingUsers } from '../matching-users.ts';
import type { AdminPageData, AdminPageOfList } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { type TimelineSection, timelineSection } from '../timeline/section.ts';
import { createTimelines } from '../timeline/timeline.ts';
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
      /** Set if the connections of a single app are listed. */
      everyone: { app: { id: string; name: string }; count: number; progress: ProgressView | undefined } | undefined;
    };
    'admin/connections/detail': AdminPageData & {
      connection: ConnectionRow;
      /** The page on which the user can reconnect; undefined if there is no need, or the user cannot sign in. */
      connectUrl: string | undefined;
      /** The services that used it, the latest first; `lastAt` in milliseconds since the epoch. */
      services: readonly { id: string; name: string; lastAt: number; count: number }[];
      /** Undefined if the user no longer exists. */
      timeline: TimelineSection | undefined;
    };
  }
}

const MAX_PENDING_SHOWN = 20;
const HEALTHS = ['unverified', 'reconnect_needed'] as const;

const connectionQuery = listQuery.extend({
  app: z.string().max(40).optional().describe('id of one connected app'),
  health: z.enum(HEALTHS).optional(),
  scopes: z
    .enum(['missing'])
    .optional()
    .describe(
      'only connections that are known to lack a scope of their app; a page can have fewer items than the limit if the ' +
        'app no longer requests the scope',
    ),
  user: z.string().max(60).optional().describe('id of one user'),
});

export function adminConnectionRoutes(parts: AdminParts) {
  const { grants, users, connectedApps, relay, pages, publicUrl } = parts;
  const timelines = createTimelines(parts);
  const { index, connections, everyone, revocations } = grants;
  const { apps } = connectedApps;
  const find = connectionFinder(connections);

  const viewsOf = async ({ userId, appId }: ListedConnection): Promise<ConnectionRow[]> => {
    const [connection, user] = await Promise.all([connections.find(userId, appId), users.store.find(userId)]);
    return connection ? [connectionView(connection, user ?? { id: userId }, apps)] : [];
  };

  const listOfUser = async (userId: string): Promise<ConnectionRow[]> => {
    const user = (await users.store.find(userId)) ?? { id: userId };
    return (await connections.list(userId)).map((connection) => connectionView(connection, user, apps));
  };

  const withNames = async (revocation: PendingRevocation): Promise<NamedRevocation> => {
    const user = await users.store.find(revocation.userId);
    return { ...revocationView(revocation), appName: apps.find(revocation.app)?.name, userName: displayName(user) };
  };

  const readPage = async (
    query: z.output<typeof connectionQuery>,
  ): Promise<{ items: ConnectionRow[]; next?: string }> => {
    const { after, limit, q, app, health, scopes, user } = query;
    const matchesFilters = (view: ConnectionRow) =>
      (!app || view.app === app) && (!health || view.health === health) && (!scopes || view.missingScopes.length > 0);
    if (user !== undefined) return { items: (await listOfUser(user)).filter(matchesFilters) };
    if (q?.trim()) {
      return pageOfMatchingUsers(users.store, { q, after, limit }, async ({ id }) =>
        (await listOfUser(id)).filter(matchesFilters),
      );
    }
    const { items, ...rest } = await index.page({
      after,
      limit,
      appId: app || undefined,
      state: scopes ? 'lacking' : health,
    });
    return { items: (await Promise.all(items.map(viewsOf))).flat().filter(matchesFilters), ...rest };
  };

  const listPage = pages.page('admin/connections/list', async ({ req, res }) => {
    const result = await pages.list(req, res, {
      name: 'connections',
      fields: ['q', 'app', 'health', 'scopes'],
      query: connectionQuery,
      isKnown: { app: (id) => apps.find(id) !== undefined },
      columns: CONNECTION_COLUMNS,
      read: readPage,
      count: ({ q, app, health, scopes }) => (q || scopes ? undefined : index.total({ appId: app, state: health })),
    });
    if (!result) return undefined;
    const { app: id = '' } = result.list.values;
    const registered = apps.find(id);
    // An app that cannot be opened may also have connections.
    const app = registered ?? (id ? { id, name: id } : undefined);
    const [count, progress, pending] = await Promise.all([
      app ? index.count(app.id) : 0,
      app && everyone.progress(app.id),
      revocations.page({ limit: MAX_PENDING_SHOWN }),
    ]);
    return {
      title: 'Connections',
      connections: result.items,
      list: result.list,
      revocations: await Promise.all(pending.items.map(withNames)),
      revocationColumns: REVOCATION_COLUMNS,
      areMorePending: pending.next !== undefined,
      apps: apps.named(),
      everyone:
        app && (registered || count > 0)
          ? { app: { id: app.id, name: app.name }, count, progress: progress && progressView(progress) }
          : undefined,
    };
  });

  const detailPage = pages.page('admin/connections/detail', async ({ req }) => {
    const { userId, connection } = (await find(String(req.params.id))) ?? throwGone();
    const user = await users.store.find(userId);
    const { app } = connection;
    const row = connectionView(connection, user ?? { id: userId }, apps);
    const needsUser = row.health === 'reconnect_needed' || row.missingScopes.length > 0;
    const mayCome = user !== undefined && user.disabledAt === undefined;
    return {
      title: `${displayName(user) ?? userId}, ${row.appName}`,
      connection: row,
      connectUrl: needsUser && mayCome ? `${publicUrl.href}/connections/${encodeURIComponent(app)}` : undefined,
      services: await relay.uses.servicesOf(userId, app),
      timeline: user && (await timelineSection(req, (query) => timelines.ofUser(user, query, app))),
    };
  });

  return {
    page: listPage.handler,
    detailPage: detailPage.handler,

    list: operation(
      {
        summary:
          'List connections, newest first; with q, those of matching users, with all connections of a user on one page',
        query: connectionQuery,
        response: listOf(connectionJson),
      },
      ({ query }) => readPage(query),
    ),
    read: operation(
      { summary: 'Read a connection, by its id or as USER.APP', response: connectionJson },
      async ({ req }) => {
        const { userId, connection } = (await find(String(req.params.id))) ?? throwGone();
        return connectionView(connection, (await users.store.find(userId)) ?? { id: userId }, apps);
      },
    ),
    revocations: operation(
      {
        summary: 'List pending revocations, by the time of the next attempt',
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
