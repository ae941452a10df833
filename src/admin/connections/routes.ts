/** The list of connections in the administration, by app, health or user, and the revocations that are pending. */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import type { AppStore } from '../../connected-apps/app-store.ts';
import type { ConnectionIndex, ListedConnection } from '../../grants/connection-index.ts';
import type { Connections } from '../../grants/connections.ts';
import type { DisconnectEveryone } from '../../grants/disconnect-everyone.ts';
import type { PendingRevocation, Revocations } from '../../grants/revocations.ts';
import { queryField } from '../../http/body.ts';
import { type DescribedHandler, operation } from '../../http/operation.ts';
import type { Pages } from '../../pages/pages.ts';
import type { UserStore } from '../../users/user-store.ts';
import { listOf, listQuery, pageOptions } from '../listing.ts';
import { pageOfMatchingUsers } from '../matching-users.ts';
import {
  type ConnectionRow,
  connectionAnswer,
  connectionRow,
  type NamedRevocation,
  revocationAnswer,
  revocationRow,
  splitId,
} from '../person-view.ts';
import { connectionGone, type ProgressView, progressView } from './disconnections.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/connections': {
      page: SignedInFrame;
      connections: readonly ConnectionRow[];
      revocations: readonly NamedRevocation[];
      areMorePending: boolean;
      apps: readonly { id: string; name: string }[];
      form: { app: string; health: string; q: string };
      query: string;
      next: string | undefined;
      /** Of the one app that is looked at. */
      everyone:
        | { app: { id: string; name: string }; count: number; confirm: boolean; progress: ProgressView | undefined }
        | undefined;
      notice?: Notice | undefined;
    };
  }
}

export interface AdminConnectionRoutes {
  page: RequestHandler;
  list: DescribedHandler;
  one: DescribedHandler;
  revocations: DescribedHandler;
}

const MAX_PENDING_SHOWN = 20;

const connectionQuery = listQuery.extend({
  app: z.string().max(40).optional().describe('id of one connected app'),
  health: z.enum(['in_doubt', 'reconnect_needed']).optional(),
  user: z.string().max(60).optional().describe('id of one user'),
});

interface Wanted {
  after?: string | undefined;
  limit: number;
  q?: string | undefined;
  app?: string | undefined;
  health?: 'in_doubt' | 'reconnect_needed' | undefined;
  user?: string | undefined;
}

export function adminConnectionRoutes(parts: {
  index: ConnectionIndex;
  connections: Connections;
  everyone: DisconnectEveryone;
  revocations: Pick<Revocations, 'page'>;
  users: UserStore;
  apps: AppStore;
  pages: Pages;
}): AdminConnectionRoutes {
  const { index, connections, everyone, revocations, users, apps, pages } = parts;

  const rowOf = async ({ userId, appId }: ListedConnection): Promise<ConnectionRow[]> => {
    const [connection, user] = await Promise.all([connections.find(userId, appId), users.find(userId)]);
    return connection ? [connectionRow(connection, user ?? { id: userId }, apps)] : [];
  };

  const named = async (one: PendingRevocation): Promise<NamedRevocation> => {
    const user = await users.find(one.userId);
    return { ...revocationRow(one), appName: apps.find(one.app)?.name, who: user?.name ?? user?.email };
  };

  const ofUser = async (userId: string): Promise<ConnectionRow[]> => {
    const user = (await users.find(userId)) ?? { id: userId };
    return (await connections.list(userId)).map((connection) => connectionRow(connection, user, apps));
  };

  const listed = async ({
    after,
    limit,
    q,
    app,
    health,
    user,
  }: Wanted): Promise<{ items: ConnectionRow[]; next?: string }> => {
    const isMeant = (row: ConnectionRow) => (!app || row.app === app) && (!health || row.health === health);
    if (user !== undefined) return { items: (await ofUser(user)).filter(isMeant) };
    if (q?.trim()) {
      return pageOfMatchingUsers(users, { q, after, limit }, async ({ id }) => (await ofUser(id)).filter(isMeant));
    }
    const page = await index.page({ after: after || undefined, limit, appId: app, state: health });
    const items = (await Promise.all(page.items.map(rowOf))).flat().filter(isMeant);
    return page.next === undefined ? { items } : { items, next: page.next };
  };

  return {
    async page(req, res) {
      const form = {
        app: queryField(req, 'app') ?? '',
        health: queryField(req, 'health') ?? '',
        q: queryField(req, 'q')?.slice(0, 200) ?? '',
      };
      const health = form.health === 'in_doubt' || form.health === 'reconnect_needed' ? form.health : undefined;
      const { items, next } = {
        next: undefined,
        ...(await listed({ ...form, app: form.app || undefined, health, limit: 50, after: queryField(req, 'after') })),
      };
      const chosen = apps.find(form.app);
      const progress = chosen && (await everyone.progress(chosen.id));
      const pending = await revocations.page({ limit: MAX_PENDING_SHOWN });
      pages.send(res, 'admin/connections', {
        page: pages.signedInFrame(req, 'Connections'),
        connections: items,
        revocations: await Promise.all(pending.items.map(named)),
        areMorePending: pending.next !== undefined,
        apps: apps.list().map(({ id, name }) => ({ id, name })),
        form,
        query: new URLSearchParams(Object.entries(form).filter(([, value]) => value !== '')).toString(),
        next,
        everyone: chosen && {
          app: { id: chosen.id, name: chosen.name },
          count: await index.count(chosen.id),
          confirm: queryField(req, 'confirm') === 'everyone',
          progress: progress && progressView(progress),
        },
        notice: (await pages.flashOf(req)).notice,
      });
    },

    list: operation(
      {
        summary:
          'List connections, the one made last first; with q those of each user that it matches, which no page splits',
        query: connectionQuery,
        answer: listOf(connectionAnswer),
      },
      ({ query }) => listed(query),
    ),
    one: operation({ summary: 'Read a connection', answer: connectionAnswer }, async ({ req }) => {
      const { userId, what } = splitId(String(req.params.id));
      const [row] = await rowOf({ userId, appId: what });
      if (!row) throw connectionGone();
      return row;
    }),
    revocations: operation(
      {
        summary: 'List revocations that a provider has not confirmed yet, the next to be tried first',
        query: listQuery,
        answer: listOf(revocationAnswer),
      },
      async ({ query }) => {
        const { items, ...rest } = await revocations.page(pageOptions(query));
        return { items: items.map(revocationRow), ...rest };
      },
    ),
  };
}
