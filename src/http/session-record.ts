/** Owns what a session is in the store and when it is valid: one definition for express-session and for the relayed routes. */
import type { SessionData } from 'express-session';
import { AppError } from '../errors.ts';
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';

export interface SessionUser {
  id: string;
  issuer: string;
  subject: string;
  name: string | undefined;
  email: string | undefined;
  admin: boolean;
}

declare module 'express-session' {
  interface SessionData {
    user: SessionUser;
    csrfToken: string;
    /** Id of the connected app that signed the user in. */
    app: string;
    /** Milliseconds since the epoch; only in what was read. */
    createdAt: number;
  }
}

/** Times in milliseconds since the epoch. */
interface LiveRecord {
  data: SessionData;
  createdAt: number;
  seenAt: number;
}

export interface LiveSession {
  data: SessionData;
  expiresAt: number;
}

export interface SessionRecords {
  /** The session if it is valid. With `extend` its idle time starts anew, written at most once a minute. */
  read(sessionId: string, options: { extend: boolean }): Promise<LiveSession | undefined>;
  /** Writes the data; a session that was ended stays ended (R62), and its absolute end never moves. */
  write(sessionId: string, data: SessionData): Promise<void>;
  /** Leaves a tombstone until the session's last possible use. */
  end(sessionId: string): Promise<void>;
}

const ENDED = 'ended';
const TOUCH_MILLISECONDS = 60_000;

export function createSessionRecords(parts: {
  store: Store;
  lifetimes: { idleSeconds: number; maxSeconds: number };
  clock: () => number;
}): SessionRecords {
  const { store, lifetimes, clock } = parts;

  const expiryOf = (record: LiveRecord) =>
    Math.min(record.seenAt + lifetimes.idleSeconds * 1000, record.createdAt + lifetimes.maxSeconds * 1000);

  /** `over`: ended, or past one of its lifetimes. */
  const load = async (sessionId: string): Promise<{ version: number; over: boolean; record?: LiveRecord }> => {
    const stored = await store.get(keys.session(sessionId));
    if (!stored) return { version: 0, over: false };
    const record = stored.value === ENDED ? undefined : (JSON.parse(stored.value) as LiveRecord);
    const { version } = stored;
    return record && expiryOf(record) > clock() ? { version, over: false, record } : { version, over: true };
  };

  const save = (sessionId: string, record: LiveRecord, ifVersion: number) =>
    store.write([
      {
        put: keys.session(sessionId),
        value: JSON.stringify(record),
        ifVersion,
        lifetimeSeconds: Math.max(1, Math.ceil((expiryOf(record) - clock()) / 1000)),
      },
    ]);

  return {
    async read(sessionId, { extend }) {
      const { record, version } = await load(sessionId);
      if (!record) return undefined;
      const now = clock();
      if (extend && now - record.seenAt >= TOUCH_MILLISECONDS) {
        const touched = { ...record, seenAt: now };
        // Lost to another write of the same session: that one moved the time as well, or ended it. A store that can be
        // read but not written (a full disk) costs people the longer time and nothing else.
        const written = await save(sessionId, touched, version).catch(unlessStoreIsDown);
        if (written) record.seenAt = now;
      }
      return { data: { ...record.data, createdAt: record.createdAt }, expiresAt: expiryOf(record) };
    },

    async write(sessionId, data) {
      for (;;) {
        const { record, version, over } = await load(sessionId);
        // A slow request may come back when nothing is left of its session in the store: what was read is no new session.
        if (over || (!record && data.createdAt !== undefined)) return;
        const now = clock();
        const next = { data, createdAt: record?.createdAt ?? now, seenAt: now };
        if (await save(sessionId, next, version)) return;
      }
    },

    async end(sessionId) {
      // Where there was none, nothing can come back.
      if (!(await store.get(keys.session(sessionId)))) return;
      await store.write([{ put: keys.session(sessionId), value: ENDED, lifetimeSeconds: lifetimes.maxSeconds }]);
    },
  };
}

function unlessStoreIsDown(error: unknown): false {
  if (error instanceof AppError && error.code === 'storage_unavailable') return false;
  throw error;
}
