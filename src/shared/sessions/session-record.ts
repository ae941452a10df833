/** Session records in the store, and the rule for when a session is valid, for express-session and direct reads. */
import type { SessionData } from 'express-session';
import { AppError } from '../errors.ts';
import { rememberedOfEach } from '../remembered.ts';
import { hashOf, keys } from '../storage/keys.ts';
import { createOpenedRecords } from '../storage/opened-records.ts';
import type { SealedJson } from '../storage/sealed-json.ts';
import type { Store, Write } from '../storage/store.ts';
import type { IssuedIdToken, Session, StoredSession } from './session.ts';
import type { ListedSession, SessionLists } from './session-lists.ts';

/** The part of the hash that identifies a session to its user; not a secret. */
export const sessionRefOf = (hash: string): string => hash.slice(0, 16);

/** The data of a session, as express-session reads it and `write` stores it. */
export function dataOf({ seenAt: _seenAt, expiresAt: _expiresAt, ref: _ref, ...data }: Session): SessionData {
  return data;
}

type ListedData = Pick<SessionData, 'user' | 'providerSession'>;

/** The writes that must precede the session's own. */
export interface SessionListing {
  /** In the user's slot. */
  ofUser: Write;
  /** In the slot of all users. */
  live: Write;
  /** The write to the list of the provider session, already started. Rejects like `listing`. */
  ofProvider: Promise<void>;
}

interface OpenedSession {
  version: number;
  /** The record's content, including fields that a newer version may have added. */
  stored: StoredSession | undefined;
  session: Session | undefined;
}

/** Not sealed: forging a tombstone only ends a session, as deleting the record would. */
const TOMBSTONE = 'ended';
const hashInKey = (key: string) => key.slice(key.indexOf('{') + 1, -1);
/** Share of the heap. */
const RECORDS_SHARE = 1 / 16;
/** Estimated size of a session object in memory without its strings. */
const SESSION_CHARACTERS = 400;
/** Use is recorded after a tenth of the idle time, and at the latest after this time, since pages show it. */
const MAX_TOUCH_MS = 300_000;
const TOUCHES_IN_IDLE_TIME = 10;
/** A session is written right after its list entry. An older entry without a session will never have one. */
export const BEGIN_MS = 60_000;

export interface SessionRecords {
  /**
   * Lists a session that is about to be written. Call again if the write of `ofUser` is refused.
   * @throws AppError `sign_in_required` if the provider has already ended the session at its side
   */
  listing(sessionId: string, data: ListedData): Promise<SessionListing>;

  /** Like `readHashed`, by the id. */
  read(sessionId: string, options: { extend: boolean }): Promise<Session | undefined>;

  /**
   * The session if it is valid, by the hash of its id. `extend` restarts its idle time, with at most one write per
   * tenth of that time.
   */
  readHashed(hash: string, options: { extend: boolean }): Promise<Session | undefined>;

  /** True until the record expires or the session is ended. Does not decrypt the record, since a sweep reads many. */
  isStored(hash: string): Promise<boolean>;

  /** The session as this process last read or wrote it. It may have ended since: never authorize with it. */
  cached(hash: string): Session | undefined;

  /**
   * Writes the data. An ended session stays ended (R62), and the absolute end never moves. A new session is first
   * listed by user and by provider session.
   * @param options `isListed`: the writes of `listing` were made
   * @throws AppError `sign_in_required` like `listing`
   */
  write(sessionId: string, data: SessionData, options?: { isListed?: boolean }): Promise<void>;

  /** The ID token that began the session (R100); undefined if there is none, or if it cannot be opened. */
  readIdToken(sessionId: string): Promise<IssuedIdToken | undefined>;

  end(sessionId: string): Promise<void>;

  /**
   * Leaves a tombstone until the session's last possible use, so a session that is just beginning is ended, too.
   * @param hash of the session's id
   */
  endHashed(hash: string): Promise<void>;
}

export function createSessionRecords(parts: {
  store: Store;
  sealedJson: SealedJson;
  lists: SessionLists;
  lifetimes: { idleSeconds: number; maxSeconds: number };
  clock: () => number;
}): SessionRecords {
  const { store, sealedJson, lists, lifetimes, clock } = parts;
  const idleMs = lifetimes.idleSeconds * 1000;
  const touchMs = Math.min(MAX_TOUCH_MS, idleMs / TOUCHES_IN_IDLE_TIME);

  const expiryOf = ({ seenAt, createdAt }: StoredSession) =>
    Math.min(seenAt + idleMs, createdAt + lifetimes.maxSeconds * 1000);

  const sessionOf = (hash: string, stored: StoredSession): Session | undefined => {
    const { data, createdAt, seenAt } = stored;
    if (!data.user || !data.csrfToken || !data.app) return undefined;
    for (const part of Object.values(data)) if (typeof part === 'object') Object.freeze(part);
    return Object.freeze({ ...data, createdAt, seenAt, expiresAt: expiryOf(stored), ref: sessionRefOf(hash) });
  };

  // Each read asks the store for the version: a cached entry is used only if it is still the current one.
  const opened = rememberedOfEach<OpenedSession>(RECORDS_SHARE);

  const remember = (key: string, sealed: string, stored: StoredSession | undefined, version: number) => {
    const entry: OpenedSession = { version, stored, session: stored && sessionOf(hashInKey(key), stored) };
    opened.set(key, entry, sealed.length + SESSION_CHARACTERS);
    return entry;
  };

  const records = createOpenedRecords<OpenedSession>({
    store,
    cache: opened,
    async open(key, { value, version }) {
      const stored = value === TOMBSTONE ? undefined : await sealedJson.open<StoredSession>(value, key);
      return remember(key, value, stored, version);
    },
  });
  /** `session` is undefined if it was ended or cannot be opened. The caller checks whether it has expired. */
  const find = (hash: string) => records.find(keys.session(hash));

  const isValid = (session: Session | undefined): session is Session => !!session && session.expiresAt > clock();

  const save = async (hash: string, session: StoredSession, ifVersion: number, idToken?: IssuedIdToken) => {
    const lifetimeSeconds = Math.max(1, Math.ceil((expiryOf(session) - clock()) / 1000));
    const [put, idTokenKey] = [keys.session(hash), keys.sessionIdToken(hash)];
    const value = await sealedJson.seal(session, put);
    const writes: Write[] = [{ put, value, ifVersion, lifetimeSeconds }];
    if (idToken !== undefined) {
      const sealed = await sealedJson.seal(idToken, idTokenKey);
      writes.push({ put: idTokenKey, value: sealed, lifetimeSeconds: lifetimes.maxSeconds });
    }
    const version = await store.write(writes);
    return version === undefined ? undefined : remember(put, value, session, version);
  };

  const endHashed = async (hash: string): Promise<void> => {
    await store.write([
      { put: keys.session(hash), value: TOMBSTONE, lifetimeSeconds: lifetimes.maxSeconds },
      { delete: keys.sessionIdToken(hash) },
    ]);
    await store.write([{ index: keys.liveSessions, remove: hash }]);
  };

  const hasEnded = async ({ hash, startedAt }: ListedSession): Promise<boolean> => {
    const current = await find(hash);
    return current ? !isValid(current.session) : clock() - startedAt > BEGIN_MS;
  };

  const storedSessions = { hasEnded, end: endHashed };

  const endedByProvider = () =>
    new AppError('sign_in_required', {
      detail: 'Your provider signed you out while you were signing in here. Sign in again.',
      logDetail: 'the provider ended the session during the sign-in',
    });

  const listing = async (sessionId: string, { user, providerSession }: ListedData): Promise<SessionListing> => {
    const session = { hash: hashOf(sessionId), startedAt: clock() };
    const issuedAt = providerSession?.issuedAt ?? Number.POSITIVE_INFINITY;
    const ofProviderSession = providerSession?.id && keys.sessionsOfProviderSession(providerSession.id);
    const addTo = async (key: string) => {
      const write = await lists.writeToAdd(key, session, issuedAt, storedSessions);
      if (!write) throw endedByProvider();
      return write;
    };
    const [ofUser, firstWrite] = await Promise.all([
      addTo(keys.sessionsOfUser(user.id)),
      ofProviderSession ? addTo(ofProviderSession) : undefined,
    ]);
    const listByProviderSession = async () => {
      if (ofProviderSession && !(await lists.add(ofProviderSession, session, issuedAt, storedSessions, firstWrite)))
        throw endedByProvider();
    };
    const ofProvider = listByProviderSession();
    // The caller awaits it; if another write fails first, it must not become an unhandled rejection.
    ofProvider.catch(() => undefined);
    return { ofUser, live: { index: keys.liveSessions, add: session.hash, score: session.startedAt }, ofProvider };
  };

  const writeListing = async (sessionId: string, data: SessionData): Promise<void> => {
    for (;;) {
      const { ofUser, live, ofProvider } = await listing(sessionId, data);
      const [version] = await Promise.all([store.write([ofUser]), store.write([live]), ofProvider]);
      if (version !== undefined) return;
    }
  };

  const readHashed = async (hash: string, { extend }: { extend: boolean }): Promise<Session | undefined> => {
    const current = await find(hash);
    if (!current?.stored || !isValid(current.session)) return undefined;
    const { stored, session, version } = current;
    if (!extend || clock() - session.seenAt < touchMs) return session;
    return (await touch(hash, stored, version)) ?? session;
  };

  /** The session with its idle time restarted; undefined if that could not be written. */
  const touch = async (hash: string, stored: StoredSession, version: number): Promise<Session | undefined> => {
    const touched = { ...stored, seenAt: clock() };
    // A lost race is harmless: the other write has extended or ended the session. While the store can be read but not
    // written (a full disk), users only lose the extension.
    return (await save(hash, touched, version).catch(unlessStoreIsDown))?.session;
  };

  return {
    listing,
    read: (sessionId, options) => readHashed(hashOf(sessionId), options),
    readHashed,

    async isStored(hash) {
      const record = await store.get(keys.session(hash));
      return record !== undefined && record.value !== TOMBSTONE;
    },

    cached: (hash) => opened.peek(keys.session(hash))?.session,

    async write(sessionId, { idToken, ...rest }, { isListed = false } = {}) {
      const hash = hashOf(sessionId);
      const data = idToken === undefined ? rest : { ...rest, idTokenHash: hashOf(idToken.token) };
      const isNew = data.createdAt === undefined;
      // A new session is not in the store yet: insert first, read only if that fails.
      if (isNew) {
        if (!isListed) await writeListing(sessionId, data);
        const now = clock();
        if (await save(hash, { data, createdAt: now, seenAt: now }, 0, idToken)) return;
      }
      for (;;) {
        const current = await find(hash);
        // The session may have ended during a slow request: its data must not begin a new session.
        if (current ? !isValid(current.session) : !isNew) return;
        if (!current) await writeListing(sessionId, data);
        const now = clock();
        const next = { ...current?.stored, data, createdAt: current?.stored?.createdAt ?? now, seenAt: now };
        if (await save(hash, next, current?.version ?? 0, idToken)) return;
      }
    },

    async readIdToken(sessionId) {
      const key = keys.sessionIdToken(hashOf(sessionId));
      const record = await store.get(key);
      return record && sealedJson.open<IssuedIdToken>(record.value, key);
    },

    async end(sessionId) {
      const hash = hashOf(sessionId);
      // A session that was never in the store cannot come back.
      if (await store.get(keys.session(hash))) await endHashed(hash);
    },

    endHashed,
  };
}

function unlessStoreIsDown(error: unknown): undefined {
  if (error instanceof AppError && error.code === 'storage_unavailable') return undefined;
  throw error;
}
