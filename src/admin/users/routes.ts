/** Users in the administration: found, looked at, signed out, disabled, enabled and deleted, by page and by API. */
import type { Request, RequestHandler } from 'express';
import { z } from 'zod';
import type { AuditEvent } from '../../audit/kinds.ts';
import type { AuditTrail } from '../../audit/trail.ts';
import type { AppStore } from '../../connected-apps/app-store.ts';
import { AppError } from '../../errors.ts';
import { disconnectedAnswer, disconnectedJson } from '../../grants/connection-view.ts';
import type { Connections } from '../../grants/connections.ts';
import { queryField } from '../../http/body.ts';
import { type DescribedHandler, operation } from '../../http/operation.ts';
import type { Pages } from '../../pages/pages.ts';
import { actorOf } from '../../sessions/actor.ts';
import type { UserSessions } from '../../sessions/user-sessions.ts';
import type { UserLifecycle } from '../../users/user-lifecycle.ts';
import type { User, UserStore } from '../../users/user-store.ts';
import { audited } from '../change.ts';
import { listOf, listQuery } from '../listing.ts';
import {
  type ConnectionRow,
  connectionAnswer,
  connectionRow,
  type NamedRevocation,
  revocationAnswer,
  revocationRow,
  type SessionRow,
  sessionAnswer,
  sessionRow,
  type UserView,
  userAnswer,
  userView,
} from '../person-view.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/users': {
      page: SignedInFrame;
      users: readonly UserView[];
      total: number;
      q: string;
      next: string | undefined;
      notice?: Notice | undefined;
    };
    'admin/user': {
      page: SignedInFrame;
      user: UserView;
      sessions: readonly SessionRow[];
      connections: readonly ConnectionRow[];
      revocations: readonly NamedRevocation[];
      /** The one who looks: whoever disables or deletes that one locks themselves out. */
      own: boolean;
      /** Asks once more before that is done. */
      confirm: 'delete' | 'disable' | undefined;
      notice?: Notice | undefined;
    };
  }
}

export interface UserRoutes {
  page: RequestHandler;
  onePage: RequestHandler;
  changeByForm: RequestHandler;
  list: DescribedHandler;
  one: DescribedHandler;
  signOut: DescribedHandler;
  disable: DescribedHandler;
  enable: DescribedHandler;
  remove: DescribedHandler;
}

const oneAnswer = userAnswer.extend({
  sessions: z.array(sessionAnswer),
  connections: z.array(connectionAnswer),
  pendingRevocations: z.array(revocationAnswer),
});

const removedAnswer = z.object({
  id: z.string(),
  connections: z
    .array(z.object({ app: z.string(), ...disconnectedAnswer }))
    .describe('what the provider of each answered'),
});

type Change = 'sign-out' | 'disable' | 'enable' | 'delete';
const DONE: Record<Change, string> = {
  'sign-out': 'Signed out everywhere. What is open in those browsers stops working at once.',
  disable: 'Disabled. Every session has ended, and no new sign-in is let in.',
  enable: 'Enabled. The user can sign in again.',
  delete: 'Everything kept about this user is deleted. What the audit trail says stays there for its set time.',
};

export function userRoutes(parts: {
  users: UserStore;
  lifecycle: UserLifecycle;
  sessions: UserSessions;
  connections: Connections;
  apps: AppStore;
  trail: AuditTrail;
  pages: Pages;
  basePath: string;
}): UserRoutes {
  const { users, lifecycle, sessions, connections, apps, trail, pages, basePath } = parts;

  const userOf = async (req: Request): Promise<User> => {
    const user = await users.find(String(req.params.id));
    if (user) return user;
    throw new AppError('not_found', { detail: 'There is no user with this id.' });
  };

  const listed = async ({ after, limit, q }: { after?: string | undefined; limit: number; q?: string | undefined }) => {
    const found = await users.page({ after: after || undefined, limit, q });
    const items = found.users.map(userView);
    return found.next === undefined ? { items } : { items, next: found.next };
  };

  const whole = async (user: User) => {
    const [alive, made, pending] = await Promise.all([
      sessions.list(user.id),
      connections.list(user.id),
      connections.pendingRevocations(user.id),
    ]);
    return {
      ...userView(user),
      sessions: alive.map((session) => sessionRow(session, user)),
      connections: made.map((connection) => connectionRow(connection, user, apps)),
      pendingRevocations: pending.map(revocationRow),
    };
  };

  const change = <T>(req: Request, user: User, event: AuditEvent, work: () => Promise<T>): Promise<T> => {
    const target = { kind: 'user', id: user.id, name: user.email ?? user.name };
    return audited(trail, req, { event, target }, work);
  };

  const changes = {
    'sign-out': (req: Request, user: User) =>
      change(req, user, 'session.ended_everywhere', () => lifecycle.signOut(user.id)),
    disable: (req: Request, user: User) => change(req, user, 'user.disabled', () => lifecycle.disable(user.id)),
    enable: (req: Request, user: User) => change(req, user, 'user.enabled', () => lifecycle.enable(user.id)),
    delete(req: Request, user: User) {
      const { actor: by, address, requestId } = actorOf(req);
      const origin = { address, requestId };
      return change(req, user, 'user.deleted', () => lifecycle.erase(user.id, { by, origin }));
    },
  } satisfies Record<Change, (req: Request, user: User) => Promise<unknown>>;

  return {
    async page(req, res) {
      const q = queryField(req, 'q')?.slice(0, 200) ?? '';
      const { items, next } = await listed({ after: queryField(req, 'after'), limit: 50, q });
      pages.send(res, 'admin/users', {
        page: pages.signedInFrame(req, 'Users'),
        users: items,
        total: await users.count(),
        q,
        next,
        notice: (await pages.flashOf(req)).notice,
      });
    },

    async onePage(req, res) {
      const user = await userOf(req);
      const { sessions: rows, connections: made, pendingRevocations, ...view } = await whole(user);
      const own = req.context.session?.user.id === user.id;
      const confirm = queryField(req, 'confirm');
      pages.send(res, 'admin/user', {
        page: pages.signedInFrame(req, user.name ?? user.email ?? 'User'),
        user: view,
        sessions: rows,
        connections: made,
        revocations: pendingRevocations.map((one) => ({ ...one, appName: apps.find(one.app)?.name })),
        own,
        confirm: confirm === 'delete' || (own && confirm === 'disable') ? confirm : undefined,
        notice: (await pages.flashOf(req)).notice,
      });
    },

    async changeByForm(req, res) {
      const wanted = String(req.params.change);
      if (!isChange(wanted)) throw new AppError('not_found', { detail: 'There is no such change.' });
      const user = await userOf(req);
      await changes[wanted](req, user);
      const place = wanted === 'delete' ? '' : `/${user.id}`;
      await pages.redirect(req, res, `${basePath}/admin/users${place}`, {
        notice: { tone: 'success', text: DONE[wanted] },
      });
    },

    list: operation(
      {
        summary:
          'List users, the one who signed in last first; with q those found by the beginning of a name, address or id',
        query: listQuery,
        answer: listOf(userAnswer),
      },
      ({ query }) => listed(query),
    ),
    one: operation({ summary: 'Read a user with sessions and connections', answer: oneAnswer }, async ({ req }) =>
      whole(await userOf(req)),
    ),
    signOut: operation({ summary: 'End every session of a user' }, async ({ req }) =>
      changes['sign-out'](req, await userOf(req)),
    ),
    disable: operation(
      { summary: 'Disable a user: out at the next request, and no new sign-in', answer: userAnswer },
      async ({ req }) => {
        const user = await userOf(req);
        return userView((await changes.disable(req, user)) ?? user);
      },
    ),
    enable: operation({ summary: 'Enable a user again', answer: userAnswer }, async ({ req }) => {
      const user = await userOf(req);
      return userView((await changes.enable(req, user)) ?? user);
    }),
    remove: operation(
      { summary: 'Delete everything kept about a user, connections revoked first', answer: removedAnswer },
      async ({ req }) => {
        const user = await userOf(req);
        const ended = await changes.delete(req, user);
        return { id: user.id, connections: ended.map((one) => ({ app: one.app, ...disconnectedJson(one) })) };
      },
    ),
  };
}

function isChange(text: string): text is Change {
  return Object.hasOwn(DONE, text);
}
