/** Lists, counts and ends sessions for users, administrators and providers. */
import { hashOf, keys } from '../storage/keys.ts';
import { matchingPage } from '../storage/matching-page.ts';
import { allPages } from '../storage/paging.ts';
import type { Store } from '../storage/store.ts';
import type { Session } from './session.ts';
import type { ListedSession, SessionLists } from './session-lists.ts';
import { BEGIN_MS, type SessionRecords, sessionRefOf } from './session-record.ts';

const SWEEP_BATCH = 200;

export type UserSessions = ReturnType<typeof createUserSessions>;

export function createUserSessions(parts: {
  store: Store;
  records: SessionRecords;
  lists: SessionLists;
  clock: () => number;
}) {
  const { store, records, lists, clock } = parts;

  const read = (hash: string) => records.readHashed(hash, { extend: false });
  const readAll = async (hashes: readonly string[]): Promise<Session[]> =>
    (await Promise.all(hashes.map(read))).filter((session) => session !== undefined);
  const hashesOf = (sessions: readonly ListedSession[]) => sessions.map(({ hash }) => hash);
  const ofUser = async (userId: string) => hashesOf(await lists.read(keys.sessionsOfUser(userId)));
  const endEach = (hashes: readonly string[]) => Promise.all(hashes.map(records.endHashed));

  return {
    /** How many sessions there are; may include recently expired ones. */
    count: () => store.count(keys.liveSessions),

    /** The valid sessions of a user, last used first. */
    async list(userId: string): Promise<Session[]> {
      const sessions = await readAll(await ofUser(userId));
      return sessions.sort((left, right) => right.seenAt - left.seenAt);
    },

    /** Every valid session, newest first. */
    page: (options: { after?: string | undefined; limit: number }) =>
      matchingPage(store, keys.liveSessions, options, read),

    /** Whether a valid session of this user was begun with this ID token. */
    async hasBegunWith(userId: string, idToken: string): Promise<boolean> {
      const idTokenHash = hashOf(idToken);
      return (await readAll(await ofUser(userId))).some((session) => session.idTokenHash === idTokenHash);
    },

    /** @returns false if the user has no such session; true also if it has already ended */
    async end(userId: string, ref: string): Promise<boolean> {
      const matching = (await ofUser(userId)).filter((hash) => sessionRefOf(hash) === ref);
      await endEach(matching);
      return matching.length > 0;
    },

    /** @param isDue called once the sessions are read, and before they are ended: false ends none */
    async endAll(userId: string, isDue: () => Promise<boolean> = async () => true): Promise<void> {
      const hashes = await ofUser(userId);
      if (await isDue()) await endEach(hashes);
    },

    /**
     * Ends every session of every user. One that begins meanwhile may stay.
     * @param advance called with the number of sessions that were ended
     * @returns how many were valid
     */
    async endOfEveryone(advance: (done: number) => void): Promise<number> {
      let valid = 0;
      for await (const items of allPages((options) => store.page(keys.liveSessions, options), SWEEP_BATCH)) {
        const hashes = items.map(({ member }) => member);
        valid += (await readAll(hashes)).length;
        await endEach(hashes);
        advance(hashes.length);
      }
      return valid;
    },

    /**
     * Ends the sessions of one session at the provider, or all of a user. A sign-in under way cannot begin another one.
     * @param issuedUntil refuses ID tokens issued until then: seconds since the epoch, by the provider's clock
     * @returns how many sessions were valid
     */
    async endByProvider(which: { providerSession: string } | { userId: string }, issuedUntil: number): Promise<number> {
      const list =
        'userId' in which ? keys.sessionsOfUser(which.userId) : keys.sessionsOfProviderSession(which.providerSession);
      const hashes = hashesOf(await lists.close(list, issuedUntil));
      const valid = await readAll(hashes);
      await endEach(hashes);
      return valid.length;
    },

    /** Removes expired sessions from the index of all sessions. */
    async sweep(): Promise<void> {
      // A younger entry may belong to a session that is still to be written.
      const begunBefore = clock() - BEGIN_MS;
      for await (const items of allPages((options) => store.page(keys.liveSessions, options), SWEEP_BATCH)) {
        const listed = items.filter(({ score }) => score < begunBefore).map(({ member }) => member);
        const kept = await Promise.all(listed.map(records.isStored));
        const ended = listed.filter((_hash, position) => !kept[position]);
        if (ended.length > 0) await store.write(ended.map((hash) => ({ index: keys.liveSessions, remove: hash })));
      }
    },
  };
}
