/** Owns the lists of sessions by user and by the provider's session: bounded, self-expiring, and written before the session itself. */
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';

export interface ListedSession {
  /** Hash of the session's id. */
  hash: string;
  /** Milliseconds since the epoch. */
  startedAt: number;
}

/** How full lists find out what may go, and end what has to. */
export interface SessionsInStore {
  isOver(session: ListedSession): Promise<boolean>;
  end(hash: string): Promise<void>;
}

export interface SessionLists {
  /**
   * Adds a session that is about to begin. Of too many the oldest is ended to make room. Answers false, with nothing added,
   * where the provider has ended what was issued at that time (seconds since the epoch, by the provider's clock).
   */
  add(key: string, session: ListedSession, issuedAt: number, inStore: SessionsInStore): Promise<boolean>;
  /** Those that may still be valid, oldest first. */
  read(key: string): Promise<ListedSession[]>;
  /** Refuses from now on what the provider issued until then, and answers what is listed. */
  close(key: string, issuedUntil: number): Promise<ListedSession[]>;
}

export const listKeys = { ofUser: keys.sessionsOfUser, ofProviderSession: keys.sessionsOfProviderSession };

/** Reading them all must stay cheap, and nobody has that many browsers. */
export const MOST_SESSIONS = 100;
/** A list outlives its newest session though it is written before. */
const LONGER_SECONDS = 60;

interface SessionList {
  sessions: ListedSession[];
  endedAt?: number;
}

export function createSessionLists(parts: { store: Store; maxSeconds: number; clock: () => number }): SessionLists {
  const { store, maxSeconds, clock } = parts;

  const load = async (key: string): Promise<{ list: SessionList; version: number }> => {
    const stored = await store.get(key);
    if (!stored) return { list: { sessions: [] }, version: 0 };
    const list = JSON.parse(stored.value) as SessionList;
    const horizon = clock() - (maxSeconds + LONGER_SECONDS) * 1000;
    return {
      list: { ...list, sessions: list.sessions.filter(({ startedAt }) => startedAt > horizon) },
      version: stored.version,
    };
  };

  const save = (key: string, list: SessionList, ifVersion: number): Promise<boolean> =>
    store.write([{ put: key, value: JSON.stringify(list), ifVersion, lifetimeSeconds: maxSeconds + LONGER_SECONDS }]);

  return {
    async add(key, session, issuedAt, inStore) {
      for (;;) {
        const { list, version } = await load(key);
        if (list.endedAt !== undefined && issuedAt <= list.endedAt) return false;
        const others = list.sessions.filter(({ hash }) => hash !== session.hash);
        const sessions = [...(await withRoom(others, inStore)), session];
        if (await save(key, { ...list, sessions }, version)) return true;
      }
    },

    read: async (key) => (await load(key)).list.sessions,

    async close(key, issuedUntil) {
      for (;;) {
        const { list, version } = await load(key);
        const endedAt = Math.max(issuedUntil, list.endedAt ?? issuedUntil);
        // The sessions stay listed: ending them may fail, and is then tried again.
        if (await save(key, { ...list, endedAt }, version)) return list.sessions;
      }
    },
  };
}

async function withRoom(sessions: ListedSession[], { isOver, end }: SessionsInStore): Promise<ListedSession[]> {
  if (sessions.length < MOST_SESSIONS) return sessions;
  const over = await Promise.all(sessions.map(isOver));
  const alive = sessions.filter((_session, index) => !over[index]);
  const surplus = alive.slice(0, Math.max(0, alive.length - MOST_SESSIONS + 1));
  // Ended before they leave the list: a session that is in no list could not be ended by anybody but its own browser.
  await Promise.all(surplus.map(({ hash }) => end(hash)));
  return alive.slice(surplus.length);
}
