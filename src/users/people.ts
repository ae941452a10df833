/** Owns what is done to a user as a whole: signed out, disabled, enabled, and everything kept about them deleted. */
import type { AppStore } from '../connected-apps/app-store.ts';
import type { Connections, Disconnected, EndedBy } from '../grants/connections.ts';
import type { Store } from '../storage/store.ts';
import type { User, UserStore } from './user-store.ts';

export interface People {
  /** Marked first, then the sessions: a sign-in that is being finished meets the mark, or its session is ended. */
  disable(userId: string): Promise<User | undefined>;
  enable(userId: string): Promise<User | undefined>;
  signOut(userId: string): Promise<void>;
  /**
   * Revokes and deletes the connections first, then ends the sessions, then deletes all else. What the audit trail says
   * stays there, for its set time. On embedded storage no power cut brings back what
   * was deleted once this resolves; Redis decides by its own settings.
   */
  erase(userId: string, by: EndedBy): Promise<({ app: string } & Disconnected)[]>;
}

export function createPeople(parts: {
  store: Pick<Store, 'ready'>;
  users: UserStore;
  apps: Pick<AppStore, 'find'>;
  connections: Pick<Connections, 'list' | 'end' | 'forget'>;
  /** Ends all sessions of a user. */
  sessions: { endAll(userId: string): Promise<void> };
  /** Deletes the records of their sign-ins. */
  signIns: { forgetUser(user: { id: string; email?: string | undefined }): Promise<void> };
}): People {
  const { store, users, apps, connections, sessions, signIns } = parts;

  const disconnect = async (userId: string, appId: string, by: EndedBy) => {
    const app = apps.find(appId);
    const ended = app ? await connections.end(userId, app, by) : await connections.forget(userId, appId, by);
    return { app: appId, ...(ended ?? { revocation: 'unconfirmed' as const }) };
  };

  return {
    async disable(userId) {
      const user = await users.setDisabled(userId, true);
      if (user) await sessions.endAll(userId);
      return user;
    },
    enable: (userId) => users.setDisabled(userId, false),
    signOut: (userId) => sessions.endAll(userId),

    async erase(userId, by) {
      const ended: ({ app: string } & Disconnected)[] = [];
      for (const { app } of await connections.list(userId)) ended.push(await disconnect(userId, app, by));
      await sessions.endAll(userId);
      const user = await users.find(userId);
      await signIns.forgetUser({ id: userId, email: user?.email });
      // Records of sign-ins are deleted without a flush, and nothing durable follows where the user is gone already. Before the
      // user is deleted: where this fails there is still somebody to delete.
      await store.ready();
      await users.remove(userId);
      return ended;
    },
  };
}
