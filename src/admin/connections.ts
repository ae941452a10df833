/** Owns connections in the administration: everybody's, by app, health or user, ended one by one or for a whole app. */
import type { Request, RequestHandler } from 'express';
import { z } from 'zod';
import type { AuditEvent } from '../audit/kinds.ts';
import type { AuditTrail } from '../audit/trail.ts';
import type { AppStore } from '../connected-apps/app-store.ts';
import { AppError } from '../errors.ts';
import type { ConnectionIndex, ListedConnection } from '../grants/connection-index.ts';
import type { Connections, DisconnectAnswer, Disconnected } from '../grants/connections.ts';
import type { DisconnectEveryone, DisconnectProgress } from '../grants/disconnect-everyone.ts';
import type { PendingRevocation, Revocations } from '../grants/revocations.ts';
import { actorOf } from '../http/actor.ts';
import { queryField } from '../http/body.ts';
import { type DescribedHandler, operation } from '../http/operation.ts';
import type { Pages } from '../http/pages.ts';
import type { UserStore } from '../users/user-store.ts';
import { audited } from './change.ts';
import { disconnectedNotice, disconnectedQuery } from './disconnect-notice.ts';
import { listOf, listQuery, pageOptions } from './listing.ts';
import {
  type ConnectionRow,
  connectionAnswer,
  connectionRow,
  disconnectedAnswer,
  type NamedRevocation,
  revocationAnswer,
  revocationRow,
  splitId,
} from './person-view.ts';

declare module '../http/page-data.ts' {
  interface AdminPageData {
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
  endByForm: RequestHandler;
  endAllByForm: RequestHandler;
  list: DescribedHandler;
  one: DescribedHandler;
  end: DescribedHandler;
  endAll: DescribedHandler;
  progress: DescribedHandler;
  revocations: DescribedHandler;
}

const MOST_FOUND = 20;

const connectionQuery = listQuery.extend({
  app: z.string().max(40).optional().describe('id of one connected app'),
  health: z.enum(['in_doubt', 'reconnect_needed']).optional(),
  user: z.string().max(60).optional().describe('id of one user'),
});

const endedAnswer = z.object({ id: z.string(), ...disconnectedAnswer });

const progressAnswer = z.object({
  app: z.string(),
  startedAt: z.iso.datetime(),
  finishedAt: z.iso.datetime().nullable(),
  total: z.number().int(),
  done: z.number().int(),
  answers: z.record(z.string(), z.number()).describe('how often the provider answered what'),
});

type ProgressView = z.output<typeof progressAnswer>;

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
  revocations: Revocations;
  users: UserStore;
  apps: AppStore;
  trail: AuditTrail;
  pages: Pages;
  basePath: string;
}): AdminConnectionRoutes {
  const { index, connections, everyone, revocations, users, apps, trail, pages, basePath } = parts;

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
      const found = await users.page({ q, limit: MOST_FOUND });
      return { items: (await Promise.all(found.users.map(({ id }) => ofUser(id)))).flat().filter(isMeant) };
    }
    const page = await index.page({ after: after || undefined, limit, appId: app, state: health });
    const items = (await Promise.all(page.items.map(rowOf))).flat().filter(isMeant);
    return page.next === undefined ? { items } : { items, next: page.next };
  };

  const end = async (req: Request): Promise<Disconnected> => {
    const id = String(req.params.id);
    const { userId, what: appId } = splitId(id);
    const { actor: by, address, requestId } = actorOf(req);
    if (!(await connections.find(userId, appId))) throw gone();
    const context = { by, origin: { address, requestId }, audited: true };
    const app = apps.find(appId);
    const facts = {
      event: 'connection.removed' as const,
      target: { kind: 'connection', id: `${userId}/${appId}` },
      userId,
    };
    const ended = await audited(trail, req, facts, () =>
      app ? connections.end(userId, app, context) : connections.forget(userId, appId, context),
    );
    if (ended === undefined) throw gone();
    const { revocation, said } = ended;
    const event = REVOCATION_EVENTS[revocation];
    const answered = { status: said?.status, error: said?.error };
    if (event) await trail.append({ ...facts, event, outcome: revocation, facts: answered, ...actorOf(req) });
    return ended;
  };

  const endAll = async (req: Request): Promise<DisconnectProgress> => {
    const appId = String(req.params.id);
    const app = apps.find(appId);
    if (!app && (await index.count(appId)) === 0) throw unknownApp();
    const target = { kind: 'connected_app', id: appId, name: app?.name };
    const facts = { connections: await index.count(appId) };
    return audited(trail, req, { event: 'connection.everyone_removed', target, facts }, () =>
      everyone.start(appId, actorOf(req).actor),
    );
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
      const pending = await revocations.page({ limit: MOST_FOUND });
      pages.sendAdmin(res, 'admin/connections', {
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
        notice: disconnectedNotice(req),
      });
    },

    async endByForm(req, res) {
      const ended = await end(req);
      const { userId } = splitId(String(req.params.id));
      const back = queryField(req, 'back') === 'user' ? `users/${userId}` : 'connections';
      res.redirect(303, `${basePath}/admin/${back}${disconnectedQuery(ended)}`);
    },

    async endAllByForm(req, res) {
      const { app } = await endAll(req);
      res.redirect(303, `${basePath}/admin/connections?app=${app}`);
    },

    list: operation(
      {
        summary: 'List connections, the one made last first; with q those of the users found by it',
        query: connectionQuery,
        answer: listOf(connectionAnswer),
      },
      ({ query }) => listed(query),
    ),
    one: operation({ summary: 'Read a connection', answer: connectionAnswer }, async ({ req }) => {
      const { userId, what } = splitId(String(req.params.id));
      const [row] = await rowOf({ userId, appId: what });
      if (!row) throw gone();
      return row;
    }),
    end: operation(
      { summary: 'Disconnect: deleted here at once, revoked at the provider', answer: endedAnswer },
      async ({ req }) => {
        const { revocation, said } = await end(req);
        return { id: String(req.params.id), revocation, provider: said ?? null };
      },
    ),
    endAll: operation(
      { summary: 'Disconnect everyone from an app, in the background', answer: progressAnswer, status: 202 },
      async ({ req }) => progressView(await endAll(req)),
    ),
    progress: operation(
      { summary: 'How far disconnecting everyone from an app is', answer: progressAnswer },
      async ({ req }) => {
        const progress = await everyone.progress(String(req.params.id));
        if (!progress) throw new AppError('not_found', { detail: 'Nobody has asked for that, or it was long ago.' });
        return progressView(progress);
      },
    ),
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

/** What the trail says once the provider has answered; the disconnection itself stands in it before. */
const REVOCATION_EVENTS: Partial<Record<DisconnectAnswer, AuditEvent>> = {
  revoked: 'revocation.confirmed',
  pending: 'revocation.pending',
};

function progressView({ app, startedAt, finishedAt, total, done, answers }: DisconnectProgress): ProgressView {
  const told = Object.fromEntries(
    Object.entries(answers).filter((pair): pair is [string, number] => pair[1] !== undefined),
  );
  return {
    app,
    startedAt: new Date(startedAt).toISOString(),
    finishedAt: finishedAt === undefined ? null : new Date(finishedAt).toISOString(),
    total,
    done,
    answers: told,
  };
}

const gone = () => new AppError('not_found', { detail: 'There is no such connection, or it has been ended.' });
const unknownApp = () => new AppError('not_found', { detail: 'There is no connected app with this id.' });
