/** Lists of sessions by user and by provider session. They are bounded, expire, and are written before the session. */
import type { Store, Write } from '../storage/store.ts';
import { updateRecord } from '../storage/update-record.ts';

export interface ListedSession {
  /** Hash of the session's id. */
  hash: string;
  /** Milliseconds since the epoch. */
  startedAt: number;
}

/** Used by a full list to find ended sessions, and to end the oldest one. */
interface StoredSessions {
  hasEnded(session: ListedSession): Promise<boolean>;
  end(hash: string): Promise<void>;
}

/** No user has that many browsers, and reading all sessions stays cheap. */
export const MAX_SESSIONS = 100;
/** The list is written before its newest session, and must outlive it. */
const MARGIN_SECONDS = 60;

interface SessionList {
  sessions: ListedSession[];
  endedAt?: number;
}

export interface SessionLists {
  /**
   * The write that adds a session before it begins; a full list first ends its oldest session. Call again if the write
   * is refused.
   * @param issuedAt the ID token's `iat`: seconds since the epoch, by the provider's clock
   * @returns undefined if the provider has ended all sessions from tokens issued until then
   */
  writeToAdd(
    key: string,
    session: ListedSession,
    issuedAt: number,
    storedSessions: StoredSessions,
  ): Promise<Write | undefined>;

  /**
   * Adds a session, like `writeToAdd`.
   * @param firstWrite the result of a recent call of `writeToAdd`
   * @returns false, with nothing added, if `writeToAdd` returns undefined
   */
  add(
    key: string,
    session: ListedSession,
    issuedAt: number,
    storedSessions: StoredSessions,
    firstWrite?: Write,
  ): Promise<boolean>;

  /** The sessions that may still be valid, oldest first. */
  read(key: string): Promise<ListedSession[]>;

  /** Refuses sessions from ID tokens issued until then. @returns the listed sessions */
  close(key: string, issuedUntil: number): Promise<ListedSession[]>;
}

export function createSessionLists(parts: { store: Store; maxSeconds: number; clock: () => number }): SessionLists {
  const { store, maxSeconds, clock } = parts;

  const lifetimeSeconds = maxSeconds + MARGIN_SECONDS;

  const unexpired = (list: SessionList): SessionList => {
    const horizon = clock() - lifetimeSeconds * 1000;
    return { ...list, sessions: list.sessions.filter(({ startedAt }) => startedAt > horizon) };
  };

  const load = async (key: string): Promise<{ list: SessionList; version: number }> => {
    const stored = await store.get(key);
    if (!stored) return { list: { sessions: [] }, version: 0 };
    return { list: unexpired(JSON.parse(stored.value) as SessionList), version: stored.version };
  };

  const writeToAdd = async (
    key: string,
    session: ListedSession,
    issuedAt: number,
    storedSessions: StoredSessions,
  ): Promise<Write | undefined> => {
    const { list, version } = await load(key);
    if (list.endedAt !== undefined && issuedAt <= list.endedAt) return undefined;
    const others = list.sessions.filter(({ hash }) => hash !== session.hash);
    const extended: SessionList = { ...list, sessions: [...(await makeRoom(others, storedSessions)), session] };
    return { put: key, value: JSON.stringify(extended), ifVersion: version, lifetimeSeconds };
  };

  return {
    writeToAdd,

    async add(key, session, issuedAt, storedSessions, firstWrite) {
      const nextWrite = () => writeToAdd(key, session, issuedAt, storedSessions);
      let write = firstWrite ?? (await nextWrite());
      while (write) {
        if (await store.write([write])) return true;
        write = await nextWrite();
      }
      return false;
    },

    read: async (key) => (await load(key)).list.sessions,

    async close(key, issuedUntil) {
      // The sessions stay listed, because ending them may fail and must then be retried.
      const closed = (list: SessionList = { sessions: [] }): SessionList => {
        const endedAt = Math.max(issuedUntil, list.endedAt ?? issuedUntil);
        return { ...unexpired(list), endedAt };
      };
      return (await updateRecord(store, key, closed, { lifetimeSeconds })).after.sessions;
    },
  };
}

async function makeRoom(sessions: ListedSession[], { hasEnded, end }: StoredSessions): Promise<ListedSession[]> {
  if (sessions.length < MAX_SESSIONS) return sessions;
  const ended = await Promise.all(sessions.map(hasEnded));
  const active = sessions.filter((_session, index) => !ended[index]);
  const surplus = active.slice(0, Math.max(0, active.length - MAX_SESSIONS + 1));
  // End them before they leave the list: an unlisted session could be ended only in its browser.
  await Promise.all(surplus.map(({ hash }) => end(hash)));
  return active.slice(surplus.length);
}
