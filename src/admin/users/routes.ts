/** Users in the administration: listed, shown, signed out, disabled, enabled and deleted, by page and by API. */
import type { Request } from 'express';
import { z } from 'zod';
import type { AuditEvent } from '../../audit/kinds.ts';
import { AppError } from '../../errors.ts';
import { disconnectedFields, disconnectedJson } from '../../grants/connection-view.ts';
import { queryField } from '../../http/body.ts';
import { listOf } from '../../http/list-schema.ts';
import { operation } from '../../http/operation.ts';
import { actorOf } from '../../sessions/actor.ts';
import type { User } from '../../users/user-store.ts';
import type { AdminParts } from '../admin.ts';
import { audited } from '../change.ts';
import {
  type ConnectionRow,
  connectionJson,
  connectionView,
  type NamedRevocation,
  revocationJson,
  revocationView,
} from '../connections/view.ts';
import { type ListQuery, listQuery, listRequest } from '../listing.ts';
import type { AdminListData, AdminPageData } from '../page.ts';
import { throwUnknown } from '../resource.ts';
import { type SessionRow, sessionJson, sessionView } from '../sessions/view.ts';
import { type UserView, userJson, userView } from './view.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/users': AdminListData & { users: readonly UserView[]; total: number };
    'admin/user': AdminPageData & {
      user: UserView;
      sessions: readonly SessionRow[];
      connections: readonly ConnectionRow[];
      revocations: readonly NamedRevocation[];
      /** The administrator looks at their own account: disabling or deleting it locks them out. */
      own: boolean;
      /** The change to ask for confirmation of. */
      confirm: 'delete' | 'disable' | undefined;
    };
  }
}

const userWithAllJson = userJson.extend({
  sessions: z.array(sessionJson),
  connections: z.array(connectionJson),
  pendingRevocations: z.array(revocationJson),
});

const deletedJson = z.object({
  id: z.string(),
  connections: z
    .array(z.object({ app: z.string(), ...disconnectedFields }))
    .describe('the response of the provider of each'),
});

const DONE = {
  'sign-out': 'Signed out everywhere. Pages that are open in those browsers stop working at once.',
  disable: 'Disabled. All sessions have ended, and the user cannot sign in.',
  enable: 'Enabled. The user can sign in again.',
  delete: 'All data about this user is deleted. Entries in the audit trail stay until they expire.',
};

export function userRoutes({ users, sessions, grants, connectedApps, audit, pages, publicUrl }: AdminParts) {
  const { store, lifecycle } = users;
  const { connections } = grants;
  const { apps } = connectedApps;

  const find = async (req: Request): Promise<User> => (await store.find(String(req.params.id))) ?? throwUnknown('user');

  const listed = async ({ after, limit, q }: ListQuery) => {
    const { users: found, ...rest } = await store.page({ after: after || undefined, limit, q });
    return { items: found.map(userView), ...rest };
  };

  const withAll = async (user: User): Promise<z.output<typeof userWithAllJson>> => {
    const [open, connected, pending] = await Promise.all([
      sessions.ofUsers.list(user.id),
      connections.list(user.id),
      connections.pendingRevocations(user.id),
    ]);
    return {
      ...userView(user),
      sessions: open.map((session) => sessionView(session, user)),
      connections: connected.map((connection) => connectionView(connection, user, apps)),
      pendingRevocations: pending.map(revocationView),
    };
  };

  /** Makes a change of the user that the path names. */
  const change = async <T>(req: Request, event: AuditEvent, work: (id: string) => Promise<T>) => {
    const user = await find(req);
    const target = { kind: 'user', id: user.id, name: user.email ?? user.name };
    return { user, result: await audited(audit.trail, req, { event, target }, () => work(user.id)) };
  };

  const changes = {
    'sign-out': (req: Request) => change(req, 'session.ended_everywhere', lifecycle.signOut),
    disable: (req: Request) => change(req, 'user.disabled', lifecycle.disable),
    enable: (req: Request) => change(req, 'user.enabled', lifecycle.enable),
    delete(req: Request) {
      const { actor: by, ...origin } = actorOf(req);
      return change(req, 'user.deleted', (id) => lifecycle.erase(id, { by, origin }));
    },
  };

  const list = pages.page('admin/users', async ({ req }) => {
    const query = listRequest(req);
    const { items, next } = await listed(query);
    return { title: 'Users', users: items, total: await store.count(), q: query.q, next };
  });

  const one = pages.page('admin/user', async ({ req }) => {
    const user = await find(req);
    const all = await withAll(user);
    const own = req.context.session?.user.id === user.id;
    const wanted = queryField(req, 'confirm');
    const confirm: 'delete' | 'disable' | undefined =
      wanted === 'delete' || (own && wanted === 'disable') ? wanted : undefined;
    return {
      title: user.name ?? user.email ?? 'User',
      user: all,
      sessions: all.sessions,
      connections: all.connections,
      revocations: all.pendingRevocations.map((pending) => ({ ...pending, appName: apps.find(pending.app)?.name })),
      own,
      confirm,
    };
  });

  return {
    page: list.handler,
    onePage: one.handler,

    changeByForm: pages.button(async (req) => {
      const wanted = String(req.params.change);
      if (!isChange(wanted)) throw new AppError('not_found', { detail: 'There is no such change.' });
      const { user } = await changes[wanted](req);
      const place = wanted === 'delete' ? '' : `/${user.id}`;
      return {
        url: `${publicUrl.basePath}/admin/users${place}`,
        flash: { notice: { tone: 'success', text: DONE[wanted] } },
      };
    }),

    list: operation(
      {
        summary:
          'List users by their last sign-in, newest first; with q those whose name, address or id begins with it',
        query: listQuery,
        response: listOf(userJson),
      },
      ({ query }) => listed(query),
    ),
    one: operation(
      { summary: 'Read a user with sessions and connections', response: userWithAllJson },
      async ({ req }) => withAll(await find(req)),
    ),
    signOut: operation({ summary: 'End every session of a user' }, ({ req }) => changes['sign-out'](req)),
    disable: operation(
      { summary: 'Disable a user: signed out at the next request, and refused at sign-in', response: userJson },
      async ({ req }) => {
        const { user, result } = await changes.disable(req);
        return userView(result ?? user);
      },
    ),
    enable: operation({ summary: 'Enable a user again', response: userJson }, async ({ req }) => {
      const { user, result } = await changes.enable(req);
      return userView(result ?? user);
    }),
    remove: operation(
      { summary: 'Delete all data about a user; connections are revoked first', response: deletedJson },
      async ({ req }) => {
        const { user, result } = await changes.delete(req);
        return { id: user.id, connections: result.map((ended) => ({ app: ended.app, ...disconnectedJson(ended) })) };
      },
    ),
  };
}

function isChange(text: string): text is keyof typeof DONE {
  return Object.hasOwn(DONE, text);
}
