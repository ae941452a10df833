/** Lists of sessions by user and by provider session: bounded, self-expiring, and written before the session itself. */
import type { Store, Write } from '../storage/store.ts';
import { updateRecord } from '../storage/update-record.ts';

export interface ListedSession {
  /** Hash of the session's id. */
  hash: string;
  /** Milliseconds since the epoch. */
  startedAt: number;
}

/** How a full list finds the sessions that have ended, and ends the oldest one. */
interface SessionsInStore {
  hasEnded(session: ListedSession): Promise<boolean>;
  end(hash: string): Promise<void>;
}

/** Reading them all must stay cheap, and no user has that many browsers. */
export const MAX_SESSIONS = 100;
/** The list is written before its newest session, and must outlive it. */
const MARGIN_SECONDS = 60;

interface SessionList {
  sessions: ListedSession[];
  endedAt?: number;
}

export interface SessionLists {
  /**
   * The step that adds a session which is about to begin; a full list ends its oldest session to make room. Read again where
   * the write is refused.
   * @param issuedAt of the ID token: seconds since the epoch, by the provider's clock
   * @returns undefined if the provider has ended all sessions from tokens issued until then
   */
  addStep(key: string, session: ListedSession, issuedAt: number, inStore: SessionsInStore): Promise<Write | undefined>;

  /**
   * Adds a session, as `addStep`.
   * @param first the step, where that was called just now
   * @returns false, with nothing added, where `addStep` returns undefined
   */
  add(key: string, session: ListedSession, issuedAt: number, inStore: SessionsInStore, first?: Write): Promise<boolean>;

  /** The sessions that may still be valid, oldest first. */
  read(key: string): Promise<ListedSession[]>;

  /** Refuses sessions from ID tokens issued until then, and returns the listed ones. */
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

  const addStep = async (
    key: string,
    session: ListedSession,
    issuedAt: number,
    inStore: SessionsInStore,
  ): Promise<Write | undefined> => {
    const { list, version } = await load(key);
    if (list.endedAt !== undefined && issuedAt <= list.endedAt) return undefined;
    const others = list.sessions.filter(({ hash }) => hash !== session.hash);
    const next: SessionList = { ...list, sessions: [...(await makeRoom(others, inStore)), session] };
    return { put: key, value: JSON.stringify(next), ifVersion: version, lifetimeSeconds };
  };

  return {
    addStep,

    async add(key, session, issuedAt, inStore, first) {
      const next = () => addStep(key, session, issuedAt, inStore);
      let step = first ?? (await next());
      while (step) {
        if (await store.write([step])) return true;
        step = await next();
      }
      return false;
    },

    read: async (key) => (await load(key)).list.sessions,

    async close(key, issuedUntil) {
      // The sessions stay listed, because ending them may fail and has to be retried.
      const closed = (list: SessionList = { sessions: [] }): SessionList => {
        const endedAt = Math.max(issuedUntil, list.endedAt ?? issuedUntil);
        return { ...unexpired(list), endedAt };
      };
      return (await updateRecord(store, key, closed, { lifetimeSeconds })).after.sessions;
    },
  };
}

async function makeRoom(sessions: ListedSession[], { hasEnded, end }: SessionsInStore): Promise<ListedSession[]> {
  if (sessions.length < MAX_SESSIONS) return sessions;
  const ended = await Promise.all(sessions.map(hasEnded));
  const active = sessions.filter((_session, index) => !ended[index]);
  const surplus = active.slice(0, Math.max(0, active.length - MAX_SESSIONS + 1));
  // End them before they leave the list: only its own browser could end an unlisted session.
  await Promise.all(surplus.map(({ hash }) => end(hash)));
  return active.slice(surplus.length);
}
