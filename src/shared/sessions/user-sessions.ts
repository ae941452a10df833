/** Lists, counts and ends sessions for users, administrators and providers. */
import { hashOf, keys } from '../storage/keys.ts';
import { type MatchingPage, matchingPage } from '../storage/matching-page.ts';
import { allPages } from '../storage/paging.ts';
import type { Store } from '../storage/store.ts';
import type { Session } from './session.ts';
import type { ListedSession, SessionLists } from './session-lists.ts';
import { BEGIN_MS, type SessionRecords, sessionRefOf } from './session-record.ts';

const SWEEP_BATCH = 200;

export interface UserSessions {
  /** The number of sessions; may include recently expired ones. */
  count(): Promise<number>;

  /** The valid sessions of a user, last used first. */
  list(userId: string): Promise<Session[]>;

  /** Every valid session, newest first. */
  page(options: { after?: string | undefined; limit: number }): Promise<MatchingPage<Session>>;

  /** True if a valid session of this user began with this ID token. */
  hasBegunWith(userId: string, idToken: string): Promise<boolean>;

  /** @returns false if the user has no such session; true also if it has already ended */
  end(userId: string, ref: string): Promise<boolean>;

  /** @param isDue called after the sessions are read and before they are ended; false ends none */
  endAll(userId: string, isDue?: () => Promise<boolean>): Promise<void>;

  /**
   * Ends every session of every user. A session that begins during the call may stay.
   * @param onProgress called with the number of sessions that were ended
   * @returns the number of sessions that were valid
   */
  endEverySession(onProgress: (endedCount: number) => void): Promise<number>;

  /**
   * Ends the sessions of one provider session, or all sessions of a user. A sign-in under way cannot begin another one.
   * @param issuedUntil refuses ID tokens issued until then: seconds since the epoch, by the provider's clock
   * @returns the number of sessions that were valid
   */
  endByProvider(target: { providerSession: string } | { userId: string }, issuedUntil: number): Promise<number>;

  /** Removes expired sessions from the index of all sessions. */
  sweep(): Promise<void>;
}

export function createUserSessions(parts: {
  store: Store;
  records: SessionRecords;
  lists: SessionLists;
  clock: () => number;
}): UserSessions {
  const { store, records, lists, clock } = parts;

  const read = (hash: string) => records.readHashed(hash, { extend: false });
  const readAll = async (hashes: readonly string[]): Promise<Session[]> =>
    (await Promise.all(hashes.map(read))).filter((session) => session !== undefined);
  const hashesOf = (sessions: readonly ListedSession[]) => sessions.map(({ hash }) => hash);
  const ofUser = async (userId: string) => hashesOf(await lists.read(keys.sessionsOfUser(userId)));
  const endEach = (hashes: readonly string[]) => Promise.all(hashes.map(records.endHashed));

  return {
    count: () => store.count(keys.liveSessions),

    async list(userId) {
      const sessions = await readAll(await ofUser(userId));
      return sessions.sort((left, right) => right.seenAt - left.seenAt);
    },

    page: (options) => matchingPage(store, keys.liveSessions, options, read),

    async hasBegunWith(userId, idToken) {
      const idTokenHash = hashOf(idToken);
      return (await readAll(await ofUser(userId))).some((session) => session.idTokenHash === idTokenHash);
    },

    async end(userId, ref) {
      const matching = (await ofUser(userId)).filter((hash) => sessionRefOf(hash) === ref);
      await endEach(matching);
      return matching.length > 0;
    },

    async endAll(userId, isDue = async () => true) {
      const hashes = await ofUser(userId);
      if (await isDue()) await endEach(hashes);
    },

    async endEverySession(onProgress) {
      let valid = 0;
      for await (const items of allPages((options) => store.page(keys.liveSessions, options), SWEEP_BATCH)) {
        const hashes = items.map(({ member }) => member);
        valid += (await readAll(hashes)).length;
        await endEach(hashes);
        onProgress(hashes.length);
      }
      return valid;
    },

    async endByProvider(target, issuedUntil) {
      const list =
        'userId' in target
          ? keys.sessionsOfUser(target.userId)
          : keys.sessionsOfProviderSession(target.providerSession);
      const hashes = hashesOf(await lists.close(list, issuedUntil));
      const valid = await readAll(hashes);
      await endEach(hashes);
      return valid.length;
    },

    async sweep() {
      // A newer entry may belong to a session that is not written yet.
      const startedBefore = clock() - BEGIN_MS;
      for await (const items of allPages((options) => store.page(keys.liveSessions, options), SWEEP_BATCH)) {
        const listed = items.filter(({ score }) => score < startedBefore).map(({ member }) => member);
        const stored = await Promise.all(listed.map(records.isStored));
        const ended = listed.filter((_hash, position) => !stored[position]);
        if (ended.length > 0) await store.write(ended.map((hash) => ({ index: keys.liveSessions, remove: hash })));
      }
    },
  };
}
