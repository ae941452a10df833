/** Owns what a session is in the store and when it is valid: one definition for express-session and for the relayed routes. */
import type { SessionData } from 'express-session';
import { AppError } from '../errors.ts';
import { rememberedOfEach } from '../remembered.ts';
import { hashOf, keys } from '../storage/keys.ts';
import type { Store, StoredRecord } from '../storage/store.ts';
import type { LiveSession } from './session-data.ts';
import { type ListedSession, listKeys, type SessionLists } from './session-lists.ts';

/** Times in milliseconds since the epoch. */
interface LiveRecord {
  data: SessionData;
  createdAt: number;
  seenAt: number;
}

/** What follows from one version of a record. `record` and `live`: undefined where it was ended. */
interface ParsedRecord {
  version: number;
  record: LiveRecord | undefined;
  live: LiveSession | undefined;
}

export interface SessionRecords {
  /** The session if it is valid. With `extend` its idle time starts anew, written once a minute, or ten times in a short one. */
  read(sessionId: string, options: { extend: boolean }): Promise<LiveSession | undefined>;
  /** The same by the hash of its id. */
  readHashed(hash: string, options: { extend: boolean }): Promise<LiveSession | undefined>;
  /** Whose session it was when this process read it last; it may have ended since, so that this proves nothing. */
  lastUserOf(hash: string): string | undefined;
  /**
   * Writes the data; a session that was ended stays ended (R62), and its absolute end never moves. A new one is listed by
   * user and provider session first, so that none is ever without its entries.
   * @throws AppError `sign_in_required` where the provider has ended what a new one would be begun with
   */
  write(sessionId: string, data: SessionData): Promise<void>;
  /** Leaves a tombstone until the session's last possible use. */
  end(sessionId: string): Promise<void>;
  /** The same by the hash of its id, for a session that has an entry: also where it is only about to begin. */
  bury(hash: string): Promise<void>;
}

/** Part of a hash that is no secret: enough to tell one user's sessions apart, and always the same for one session. */
export const sessionRefOf = (hash: string): string => hash.slice(0, 16);

const ENDED = 'ended';
/** Of the memory. */
const RECORDS_SHARE = 1 / 16;
/** Of what is worked out of a record, beside its texts. */
const LIVE_CHARACTERS = 400;
/** How often a use is noted: of short idle times more often, so that nobody loses more than a tenth of theirs. */
const LONGEST_TOUCH_MILLISECONDS = 60_000;
const TOUCHES_IN_IDLE_TIME = 10;
/** A session is written right after its entry; an entry without one after this time never got one. */
export const BEGIN_MILLISECONDS = 60_000;

export function createSessionRecords(parts: {
  store: Store;
  lists: SessionLists;
  lifetimes: { idleSeconds: number; maxSeconds: number };
  clock: () => number;
}): SessionRecords {
  const { store, lists, lifetimes, clock } = parts;
  const idleMilliseconds = lifetimes.idleSeconds * 1000;
  const touchMilliseconds = Math.min(LONGEST_TOUCH_MILLISECONDS, idleMilliseconds / TOUCHES_IN_IDLE_TIME);

  const expiryOf = (record: LiveRecord) =>
    Math.min(record.seenAt + idleMilliseconds, record.createdAt + lifetimes.maxSeconds * 1000);

  // An entry counts only for the very version that was just read: whether a session is valid is asked of the store each time.
  const parsed = rememberedOfEach<ParsedRecord>(RECORDS_SHARE);
  const parse = (hash: string, { value, version }: StoredRecord): ParsedRecord => {
    const record = value === ENDED ? undefined : frozen(JSON.parse(value) as LiveRecord);
    const read = { version, record, live: record && liveOf(hash, record) };
    parsed.set(hash, read, value.length + LIVE_CHARACTERS);
    return read;
  };

  const liveOf = (hash: string, record: LiveRecord): LiveSession => {
    const { data, createdAt, seenAt } = record;
    const [expiresAt, ref] = [expiryOf(record), sessionRefOf(hash)];
    const { user, csrfToken, app, acr } = data;
    const viewer =
      user && csrfToken && app ? Object.freeze({ user, csrfToken, app, acr, expiresAt, sessionRef: ref }) : undefined;
    return Object.freeze({ data: Object.freeze({ ...data, createdAt }), expiresAt, seenAt, ref, viewer });
  };

  const find = async (hash: string): Promise<ParsedRecord | undefined> => {
    const known = parsed.get(hash);
    const stored = await store.getUnless(keys.session(hash), known?.version);
    return stored === 'unchanged' ? known : stored && parse(hash, stored);
  };

  /** `over`: ended, or past one of its lifetimes. */
  const load = async (hash: string): Promise<{ version: number; over: boolean; record?: LiveRecord }> => {
    const found = await find(hash);
    if (!found) return { version: 0, over: false };
    const { record, version } = found;
    return record && expiryOf(record) > clock() ? { version, over: false, record } : { version, over: true };
  };

  const save = (hash: string, record: LiveRecord, ifVersion: number) =>
    store.write([
      {
        put: keys.session(hash),
        value: JSON.stringify(record),
        ifVersion,
        lifetimeSeconds: Math.max(1, Math.ceil((expiryOf(record) - clock()) / 1000)),
      },
    ]);

  const bury = async (hash: string): Promise<void> => {
    await store.write([{ put: keys.session(hash), value: ENDED, lifetimeSeconds: lifetimes.maxSeconds }]);
    await store.write([{ index: keys.liveSessions, remove: hash }]);
  };

  const isOver = async ({ hash, startedAt }: ListedSession): Promise<boolean> => {
    const { record, over } = await load(hash);
    return over || (!record && clock() - startedAt > BEGIN_MILLISECONDS);
  };

  const list = async (hash: string, { user, providerSession }: SessionData): Promise<void> => {
    // Without a user it lets nobody in.
    if (!user) return;
    const session = { hash, startedAt: clock() };
    const issuedAt = providerSession?.issuedAt ?? Number.POSITIVE_INFINITY;
    const places = [
      listKeys.ofUser(user.id),
      ...(providerSession?.id === undefined ? [] : [listKeys.ofProviderSession(providerSession.id)]),
    ];
    const [, ...listed] = await Promise.all([
      store.write([{ index: keys.liveSessions, add: hash, score: session.startedAt }]),
      ...places.map((place) => lists.add(place, session, issuedAt, { isOver, end: bury })),
    ]);
    if (listed.every((isListed) => isListed)) return;
    throw new AppError('sign_in_required', {
      detail: 'Your provider signed you out while you were signing in here. Sign in once more.',
      logDetail: 'ended by the provider meanwhile',
    });
  };

  const readHashed = async (hash: string, { extend }: { extend: boolean }): Promise<LiveSession | undefined> => {
    const { record, version, live } = (await find(hash)) ?? {};
    const now = clock();
    if (!record || !live || version === undefined || live.expiresAt <= now) return undefined;
    return extend && now - live.seenAt >= touchMilliseconds ? liveOf(hash, await touch(hash, record, version)) : live;
  };

  /** The record as it is then. */
  const touch = async (hash: string, record: LiveRecord, version: number): Promise<LiveRecord> => {
    const touched = { ...record, seenAt: clock() };
    // Lost to another write of the same session: that one moved the time as well, or ended it. A store that can be
    // read but not written (a full disk) costs people the longer time and nothing else.
    const written = await save(hash, touched, version).catch(unlessStoreIsDown);
    return written ? touched : record;
  };

  return {
    read: (sessionId, options) => readHashed(hashOf(sessionId), options),
    readHashed,
    lastUserOf: (hash) => parsed.peek(hash)?.record?.data.user?.id,

    async write(sessionId, data) {
      const hash = hashOf(sessionId);
      // What was never read from the store is most likely not there: looked for only where it is after all.
      if (data.createdAt === undefined) {
        await list(hash, data);
        const now = clock();
        if (await save(hash, { data, createdAt: now, seenAt: now }, 0)) return;
      }
      for (;;) {
        const { record, version, over } = await load(hash);
        // A slow request may come back when nothing is left of its session in the store: what was read is no new session.
        if (over || (!record && data.createdAt !== undefined)) return;
        if (!record) await list(hash, data);
        const now = clock();
        const next = { data, createdAt: record?.createdAt ?? now, seenAt: now };
        if (await save(hash, next, version)) return;
      }
    },

    async end(sessionId) {
      const hash = hashOf(sessionId);
      // Where there was none, nothing can come back.
      if (await store.get(keys.session(hash))) await bury(hash);
    },

    bury,
  };
}

function unlessStoreIsDown(error: unknown): false {
  if (error instanceof AppError && error.code === 'storage_unavailable') return false;
  throw error;
}

/** Several requests look at the same one. */
function frozen(record: LiveRecord): LiveRecord {
  for (const part of Object.values(record.data)) if (typeof part === 'object') Object.freeze(part);
  Object.freeze(record.data);
  return Object.freeze(record);
}
