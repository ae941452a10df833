/** Users in the administration: listed, shown, signed out, disabled, enabled and deleted, by page and by API. */
import type { Request } from 'express';
import { z } from 'zod';
import { listOf } from '../../../shared/http/list-schema.ts';
import { operation } from '../../../shared/http/operation.ts';
import { actorOf } from '../../../shared/sessions/actor.ts';
import type { AuditEvent } from '../../audit/kinds.ts';
import { disconnectedFields, disconnectedJson } from '../../grants/connection-view.ts';
import type { User } from '../../users/user-store.ts';
import { audited } from '../change.ts';
import { confirmation } from '../confirmation.ts';
import {
  CONNECTION_COLUMNS_OF_USER,
  type ConnectionRow,
  connectionJson,
  connectionView,
  type NamedRevocation,
  REVOCATION_COLUMNS_OF_USER,
  revocationJson,
  revocationView,
} from '../connections/view.ts';
import { type ListQuery, listQuery } from '../listing.ts';
import type { AdminPageData, AdminPageOfList } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { throwUnknown } from '../resource.ts';
import { type OwnedSession, SESSION_COLUMNS_OF_USER, sessionJson, sessionView, withOwn } from '../sessions/view.ts';
import { type TimelineSection, timelineSection } from '../timeline/section.ts';
import { createTimelines } from '../timeline/timeline.ts';
import { type AskedChange, questionOf } from './questions.ts';
import { displayName, USER_COLUMNS, type UserRow, type UserView, userJson, userView } from './view.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/users/list': AdminPageOfList & { users: readonly UserRow[] };
    'admin/users/one': AdminPageData & {
      user: UserView;
      timeline: TimelineSection;
      sessions: readonly OwnedSession[];
      sessionColumns: typeof SESSION_COLUMNS_OF_USER;
      connections: readonly ConnectionRow[];
      connectionColumns: typeof CONNECTION_COLUMNS_OF_USER;
      /** Where a user sees their connection to an app, up to the app's id. */
      connectionsUrl: string;
      revocations: readonly NamedRevocation[];
      revocationColumns: typeof REVOCATION_COLUMNS_OF_USER;
      /** The administrator looks at their own account. */
      own: boolean;
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

type Change = AskedChange | 'enable';

const DONE: Record<Change, string> = {
  'sign-out': 'Signed out everywhere. Pages that are open in those browsers stop working at once.',
  disable: 'Disabled. All sessions have ended, and the user cannot sign in.',
  enable: 'Enabled. The user can sign in again.',
  delete: 'All data about this user is deleted. Entries in the audit trail stay until they expire.',
};

export function userRoutes(parts: AdminParts) {
  const { users, sessions, grants, connectedApps, audit, pages, publicUrl } = parts;
  const timelines = createTimelines(parts);
  const home = `${publicUrl.basePath}/admin/users`;
  const { store, lifecycle } = users;
  const { connections } = grants;
  const { apps } = connectedApps;

  const appNameOf = (id: string | null) => (id === null ? null : (apps.find(id)?.name ?? id));

  const find = async (req: Request): Promise<User> => (await store.find(String(req.params.id))) ?? throwUnknown('user');

  const listed = async ({ after, limit, q }: ListQuery) => {
    const { users: found, ...rest } = await store.page({ after, limit, q });
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
    return { user, result: await audited(audit, req, { event, target }, () => work(user.id)) };
  };

  const changes = {
    'sign-out': (req: Request) => change(req, 'session.ended_everywhere', lifecycle.signOut),
    disable: (req: Request) =>
      change(req, 'user.disabled', async (id) => (await lifecycle.disable(id)) ?? throwUnknown('user')),
    enable: (req: Request) =>
      change(req, 'user.enabled', async (id) => (await lifecycle.enable(id)) ?? throwUnknown('user')),
    async delete(req: Request) {
      const { user } = await change(req, 'user.deletion_started', lifecycle.beginErasure);
      const { actor: by, ...origin } = actorOf(req);
      return { user, result: await lifecycle.erase(user.id, { by, origin }) };
    },
  };

  const list = pages.page('admin/users/list', async ({ req, res }) => {
    const found = await pages.list(req, res, {
      name: 'users',
      fields: ['q'],
      columns: USER_COLUMNS,
      read: listed,
      count: ({ q }) => (q ? undefined : store.count()),
    });
    if (!found) return undefined;
    const rows = found.items.map((user) => ({ ...user, own: isOwn(req, user) }));
    return { title: 'Users', users: rows, list: found.list };
  });

  const one = pages.page('admin/users/one', async ({ req }) => {
    const user = await find(req);
    const all = await withAll(user);
    return {
      title: displayName(user) ?? 'User',
      user: all,
      timeline: await timelineSection(req, (query) => timelines.ofUser(user, query)),
      sessions: all.sessions.map((session) => withOwn(req, session, appNameOf(session.app))),
      sessionColumns: SESSION_COLUMNS_OF_USER,
      connections: all.connections,
      connectionColumns: CONNECTION_COLUMNS_OF_USER,
      connectionsUrl: `${publicUrl.href}/connections/`,
      revocations: all.pendingRevocations.map((pending) => ({ ...pending, appName: apps.find(pending.app)?.name })),
      revocationColumns: REVOCATION_COLUMNS_OF_USER,
      own: isOwn(req, user),
    };
  });

  /** Each change asks first, except enabling: it takes nothing away. */
  const asked = (wanted: AskedChange) =>
    confirmation(parts, {
      menuPath: 'users',
      find,
      home: ({ id }) => `users/${id}`,
      async ask(user, req) {
        const { length } = wanted === 'delete' ? await connections.list(user.id) : [];
        return questionOf(wanted, user, { isOwn: isOwn(req, user), connections: length });
      },
      async work(req) {
        const { user } = await changes[wanted](req);
        const place = wanted === 'delete' ? '' : `/${user.id}`;
        return { url: `${home}${place}`, flash: { notice: { tone: 'success', text: DONE[wanted] } } };
      },
    });
  const questions = { 'sign-out': asked('sign-out'), disable: asked('disable'), delete: asked('delete') };
  const isOwn = (req: Request, { id }: { id: string }) => req.context.session?.user.id === id;

  return {
    page: list.handler,
    onePage: one.handler,

    askSignOut: questions['sign-out'].page,
    signOutByForm: questions['sign-out'].form,
    askDisable: questions.disable.page,
    disableByForm: questions.disable.form,
    askDelete: questions.delete.page,
    deleteByForm: questions.delete.form,
    enableByForm: pages.button(async (req) => {
      const { user } = await changes.enable(req);
      return { url: `${home}/${user.id}`, flash: { notice: { tone: 'success', text: DONE.enable } } };
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
        const { result } = await changes.disable(req);
        return userView(result);
      },
    ),
    enable: operation({ summary: 'Enable a user again', response: userJson }, async ({ req }) => {
      const { result } = await changes.enable(req);
      return userView(result);
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
