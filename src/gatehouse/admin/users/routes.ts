/** Users in the administration: list, read, sign out, disable, enable and delete, by page and by API. */
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
import {
  type ListedSession,
  SESSION_COLUMNS_OF_USER,
  sessionJson,
  sessionView,
  toListedSession,
} from '../sessions/view.ts';
import { type TimelineSection, timelineSection } from '../timeline/section.ts';
import { createTimelines } from '../timeline/timeline.ts';
import { type ConfirmedChange, questionOf } from './questions.ts';
import { displayName, USER_COLUMNS, type UserRow, type UserView, userJson, userView } from './view.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/users/list': AdminPageOfList & { users: readonly UserRow[] };
    'admin/users/detail': AdminPageData & {
      user: UserView;
      timeline: TimelineSection;
      sessions: readonly ListedSession[];
      sessionColumns: typeof SESSION_COLUMNS_OF_USER;
      connections: readonly ConnectionRow[];
      connectionColumns: typeof CONNECTION_COLUMNS_OF_USER;
      /** The address of a connection of the current user, without the app's id at its end. */
      connectionsUrl: string;
      revocations: readonly NamedRevocation[];
      revocationColumns: typeof REVOCATION_COLUMNS_OF_USER;
      isCurrentUser: boolean;
    };
  }
}

const userDetailJson = userJson.extend({
  sessions: z.array(sessionJson),
  connections: z.array(connectionJson),
  pendingRevocations: z.array(revocationJson),
});

const deletedJson = z.object({
  id: z.string(),
  connections: z.array(z.object({ app: z.string(), ...disconnectedFields })).describe('the result of each revocation'),
});

type Change = ConfirmedChange | 'enable';

const NOTICES: Record<Change, string> = {
  'sign-out': 'Signed out everywhere. Pages that are open in those browsers stop working.',
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

  const appNameOf = (id: string | null) => (id === null ? null : apps.nameOf(id));

  const find = async (req: Request): Promise<User> => (await store.find(String(req.params.id))) ?? throwUnknown('user');

  const readPage = async ({ after, limit, q }: ListQuery) => {
    const { users: page, ...rest } = await store.page({ after, limit, q });
    return { items: page.map(userView), ...rest };
  };

  const detailOf = async (user: User): Promise<z.output<typeof userDetailJson>> => {
    const [openSessions, userConnections, pendingRevocations] = await Promise.all([
      sessions.ofUsers.list(user.id),
      connections.list(user.id),
      connections.pendingRevocations(user.id),
    ]);
    return {
      ...userView(user),
      sessions: openSessions.map((session) => sessionView(session, user)),
      connections: userConnections.map((connection) => connectionView(connection, user, apps)),
      pendingRevocations: pendingRevocations.map(revocationView),
    };
  };

  /** Writes the audit entry, then changes the user that the path names. */
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

  const listPage = pages.page('admin/users/list', async ({ req, res }) => {
    const result = await pages.list(req, res, {
      name: 'users',
      fields: ['q'],
      query: listQuery,
      columns: USER_COLUMNS,
      read: readPage,
      count: ({ q }) => (q ? undefined : store.count()),
    });
    if (!result) return undefined;
    const rows = result.items.map((user) => ({ ...user, isCurrentUser: isCurrentUser(req, user) }));
    return { title: 'Users', users: rows, list: result.list };
  });

  const detailPage = pages.page('admin/users/detail', async ({ req }) => {
    const user = await find(req);
    const detail = await detailOf(user);
    return {
      title: displayName(user) ?? 'User',
      user: detail,
      timeline: await timelineSection(req, (query) => timelines.ofUser(user, query)),
      sessions: detail.sessions.map((session) => toListedSession(req, session, appNameOf(session.app))),
      sessionColumns: SESSION_COLUMNS_OF_USER,
      connections: detail.connections,
      connectionColumns: CONNECTION_COLUMNS_OF_USER,
      connectionsUrl: `${publicUrl.href}/connections/`,
      revocations: detail.pendingRevocations.map((pending) => ({ ...pending, appName: apps.find(pending.app)?.name })),
      revocationColumns: REVOCATION_COLUMNS_OF_USER,
      isCurrentUser: isCurrentUser(req, user),
    };
  });

  /** Creates the confirmation of a change. Enabling needs none, because it removes nothing. */
  const confirmed = (kind: ConfirmedChange) =>
    confirmation(parts, {
      menuPath: 'users',
      find,
      home: ({ id }) => `users/${id}`,
      async questionFor(user, req) {
        const { length } = kind === 'delete' ? await connections.list(user.id) : [];
        return questionOf(kind, user, { isCurrentUser: isCurrentUser(req, user), connections: length });
      },
      async work(req) {
        const { user } = await changes[kind](req);
        const path = kind === 'delete' ? '' : `/${user.id}`;
        return { url: `${home}${path}`, flash: { notice: { tone: 'success', text: NOTICES[kind] } } };
      },
    });
  const questions = { 'sign-out': confirmed('sign-out'), disable: confirmed('disable'), delete: confirmed('delete') };
  const isCurrentUser = (req: Request, { id }: { id: string }) => req.context.session?.user.id === id;

  return {
    page: listPage.handler,
    detailPage: detailPage.handler,

    signOutPage: questions['sign-out'].page,
    signOutByForm: questions['sign-out'].form,
    disablePage: questions.disable.page,
    disableByForm: questions.disable.form,
    deletePage: questions.delete.page,
    deleteByForm: questions.delete.form,
    enableByForm: pages.button(async (req) => {
      const { user } = await changes.enable(req);
      return { url: `${home}/${user.id}`, flash: { notice: { tone: 'success', text: NOTICES.enable } } };
    }),

    list: operation(
      {
        summary:
          'List users by their last sign-in, newest first; with q, those whose name, address or id begins with it',
        query: listQuery,
        response: listOf(userJson),
      },
      ({ query }) => readPage(query),
    ),
    read: operation(
      { summary: 'Read a user with sessions and connections', response: userDetailJson },
      async ({ req }) => detailOf(await find(req)),
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
