/** Owns the sessions of one user as a whole: seen by their user, ended one by one, all at once, or by the provider. */
import type { KnownSession, SessionIndex } from './session-index.ts';
import { type ListedSession, listKeys, type SessionLists } from './session-lists.ts';
import { type SessionRecords, sessionRefOf } from './session-record.ts';

/** As its own user sees it. */
export type UserSession = Omit<KnownSession, 'user'>;

export interface UserSessions {
  /** The valid ones, the one seen last first. */
  list(userId: string): Promise<UserSession[]>;
  /** Answers false where this user has no such session; one that is over already is no failure. */
  end(userId: string, ref: string): Promise<boolean>;
  endAll(userId: string): Promise<void>;
  /**
   * Ends the sessions of one session at the provider, or all of a user; a sign-in that is being finished with something
   * issued until then (seconds since the epoch, by the provider's clock) begins none any more. Answers how many were valid.
   */
  endByProvider(which: { providerSession: string } | { userId: string }, issuedUntil: number): Promise<number>;
}

export function createUserSessions(parts: {
  records: SessionRecords;
  index: SessionIndex;
  lists: SessionLists;
}): UserSessions {
  const { records, index, lists } = parts;

  const endListed = (sessions: ListedSession[]) => Promise.all(sessions.map(({ hash }) => records.bury(hash)));

  return {
    async list(userId) {
      const listed = await lists.read(listKeys.ofUser(userId));
      const found = await Promise.all(listed.map(({ hash }) => index.look(hash)));
      return found
        .filter((session) => session !== undefined)
        .map(({ user: _user, ...session }) => session)
        .sort((left, right) => right.seenAt - left.seenAt);
    },

    async end(userId, ref) {
      const listed = await lists.read(listKeys.ofUser(userId));
      const meant = listed.filter(({ hash }) => sessionRefOf(hash) === ref);
      await endListed(meant);
      return meant.length > 0;
    },

    async endAll(userId) {
      await endListed(await lists.read(listKeys.ofUser(userId)));
    },

    async endByProvider(which, issuedUntil) {
      const key = 'userId' in which ? listKeys.ofUser(which.userId) : listKeys.ofProviderSession(which.providerSession);
      const listed = await lists.close(key, issuedUntil);
      const seen = await Promise.all(listed.map(({ hash }) => index.look(hash)));
      await endListed(listed);
      return seen.filter((session) => session !== undefined).length;
    },
  };
}
