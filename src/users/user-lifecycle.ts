/** Acts on a user as a whole: sign out, disable, enable, and delete everything that is stored. */
import { AppError } from '../errors.ts';
import type { ConnectLinks } from '../grants/connect-links.ts';
import type { Connections, Disconnected, EndedBy } from '../grants/connections.ts';
import type { Events } from '../observability/events.ts';
import type { Store } from '../storage/store.ts';
import type { User, UserStore } from './user-store.ts';

type EndedConnection = { app: string } & Disconnected;

/** A deletion that takes longer than this was interrupted. */
const RESUME_AFTER_MS = 60_000;

export type UserLifecycle = ReturnType<typeof createUserLifecycle>;

export function createUserLifecycle(parts: {
  store: Pick<Store, 'ready'>;
  users: UserStore;
  connections: Pick<Connections, 'list' | 'end'>;
  links: Pick<ConnectLinks, 'revokeAll'>;
  /** Ends all sessions of a user. */
  sessions: { endAll(userId: string): Promise<void> };
  /** Deletes the user's sign-in records. */
  signIns: { forgetUser(user: { id: string; email?: string | undefined }): Promise<void> };
  events: Pick<Events, 'userErased'>;
  clock: () => number;
}) {
  const { store, users, connections, links, sessions, signIns, events, clock } = parts;

  const erase = async (userId: string, by: EndedBy, ended: EndedConnection[]): Promise<void> => {
    for (const { app } of await connections.list(userId)) {
      ended.push({ app, ...((await connections.end(userId, app, by)) ?? { revocation: 'unconfirmed' }) });
    }
    await Promise.all([sessions.endAll(userId), links.revokeAll({ userId })]);
    const user = await users.find(userId);
    await signIns.forgetUser({ id: userId, email: user?.email });
    // Sign-in records are deleted without a flush to disk. Flush before the user is deleted: if that fails, the user is still
    // there and the deletion can be repeated.
    await store.ready();
    await users.remove(userId);
    // Those that were being created: a creation that has not listed its link by now finds no user, and fails.
    await links.revokeAll({ userId });
    events.userErased({ userId, by: by.by, origin: by.origin });
  };

  return {
    /** Marks the user first and then ends sessions and connect links: a sign-in in progress sees the mark, or its session is ended. */
    async disable(userId: string): Promise<User | undefined> {
      const user = await users.setDisabled(userId, true);
      if (user) await Promise.all([sessions.endAll(userId), links.revokeAll({ userId })]);
      return user;
    },
    enable: (userId: string) => users.setDisabled(userId, false),
    /** Noted first: a connection or sign-in that is under way stores nothing afterwards. */
    async signOut(userId: string): Promise<void> {
      await users.noteSignOutEverywhere(userId);
      await sessions.endAll(userId);
    },

    /**
     * Marks the user, revokes and deletes the connections, ends sessions and connect links, and deletes everything else. Audit
     * entries stay for their retention time. On embedded storage the deletion survives a power cut once this resolves; on Redis
     * that depends on its persistence settings.
     * @throws AppError `storage_unavailable` that says what is left: a chore finishes it
     */
    async erase(userId: string, by: EndedBy): Promise<EndedConnection[]> {
      const ended: EndedConnection[] = [];
      try {
        await users.beginErasure(userId);
        await erase(userId, by, ended);
      } catch (cause) {
        throw unfinished(cause, ended.length);
      }
      return ended;
    },

    /** Finishes the deletions that a failure or the end of a process has interrupted. */
    async finishErasures(): Promise<void> {
      for (const userId of await users.erasures(clock() - RESUME_AFTER_MS)) {
        await erase(userId, { by: { kind: 'system' } }, []).catch(() => undefined);
      }
    },
  };
}

function unfinished(cause: unknown, ended: number): unknown {
  if (!(cause instanceof AppError) || cause.code !== 'storage_unavailable') return cause;
  const connections = ended === 1 ? 'One connection has' : `${ended} connections have`;
  const detail = `The deletion has begun and is not finished: the storage did not respond. ${connections} been ended. The rest is deleted as soon as it responds.`;
  return new AppError('storage_unavailable', { detail, cause });
}
