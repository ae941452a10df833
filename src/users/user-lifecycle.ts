/** Acts on a user as a whole: sign out, disable, enable, and delete everything that is stored. */
import type { ConnectLinks } from '../grants/connect-links.ts';
import type { Connections, Disconnected, EndedBy } from '../grants/connections.ts';
import type { Store } from '../storage/store.ts';
import type { User, UserStore } from './user-store.ts';

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
}) {
  const { store, users, connections, links, sessions, signIns } = parts;

  return {
    /** Marks the user first and then ends sessions and connect links: a sign-in in progress sees the mark, or its session is ended. */
    async disable(userId: string): Promise<User | undefined> {
      const user = await users.setDisabled(userId, true);
      if (user) await Promise.all([sessions.endAll(userId), links.revokeAll({ userId })]);
      return user;
    },
    enable: (userId: string) => users.setDisabled(userId, false),
    signOut: (userId: string) => sessions.endAll(userId),

    /**
     * Revokes and deletes the connections, then ends sessions and connect links, then deletes everything else. Audit entries stay for
     * their retention time. On embedded storage the deletion survives a power cut once this resolves; on Redis that
     * depends on its persistence settings.
     */
    async erase(userId: string, by: EndedBy): Promise<({ app: string } & Disconnected)[]> {
      const ended: ({ app: string } & Disconnected)[] = [];
      for (const { app } of await connections.list(userId)) {
        ended.push({ app, ...((await connections.end(userId, app, by)) ?? { revocation: 'unconfirmed' }) });
      }
      await Promise.all([sessions.endAll(userId), links.revokeAll({ userId })]);
      const user = await users.find(userId);
      await signIns.forgetUser({ id: userId, email: user?.email });
      // Sign-in records are deleted without a flush to disk. Flush before the user is deleted: if that fails, the user
      // is still there and the deletion can be repeated.
      await store.ready();
      await users.remove(userId);
      // Those that were being created: a creation that has not listed its link by now finds no user, and fails.
      await links.revokeAll({ userId });
      return ended;
    },
  };
}
