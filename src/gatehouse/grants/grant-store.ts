/** Stores grants: sealed, bound to their user and app, and written only over the version that was read. */
import { setImmediate as endOfTurn } from 'node:timers/promises';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { rememberedOfEach } from '../../shared/remembered.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Fence } from '../../shared/storage/lease.ts';
import { createOpenedRecords, type RecordReading } from '../../shared/storage/opened-records.ts';
import { allMembers } from '../../shared/storage/paging.ts';
import { retryWhileUnavailable } from '../../shared/storage/retry.ts';
import { SealError } from '../../shared/storage/sealed.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store, Write } from '../../shared/storage/store.ts';
import { createConnectionIds } from './connection-ids.ts';
import { type ConnectionIndex, connectionOf, type ListedConnection, memberOf } from './connection-index.ts';
import { type Grant, type ReadableGrant, type StoredGrant, seenBy } from './grant.ts';

interface OpenedGrant extends ReadableGrant {
  /** When this process last saved the time of use, in milliseconds since the epoch; 0 where it has not. */
  notedAt: number;
}

interface SaveOptions {
  fence?: Fence | undefined;
  steps?: readonly Write[];
  beside?: readonly Write[];
}

/** A read of a grant that starts before the user is authenticated. */
export type GrantReading = RecordReading<OpenedGrant>;

/** Share of the heap for opened grants. */
const GRANTS_SHARE = 1 / 16;
/** A write costs more than the rest of a request, and people read the time of use in days. */
const USE_INTERVAL_MS = 300_000;
/** What one refresh writes: in SQLite each write takes several whole pages. */
const REFRESH_BYTES = 64 * 1024;
/** How long a caller waits for the storage where a write may have been made. */
export const CERTAIN_MS = 5_000;
/** More concurrent refreshes than this share pages. */
const MAX_CHECKED_REFRESHES = 100;

export interface GrantStore {
  /**
   * The grant as this app may use it (`seenBy`): for whatever sends its tokens.
   * @param prefetched used only if it is a read of this grant
   */
  load(userId: string, app: ConnectedApp, prefetched?: GrantReading): Promise<StoredGrant | undefined>;

  /** The grant as it is stored: to end it, or to write it again. */
  loadStored(userId: string, appId: string, prefetched?: GrantReading): Promise<StoredGrant | undefined>;

  /** Starts to read a grant that `load` will probably need, so that the store reads it together with the session. */
  prefetch(userId: string, appId: string): GrantReading;

  /** The grants of a user as they are stored, oldest connection first, with their last use. */
  list(userId: string): Promise<{ appId: string; stored: StoredGrant; lastUsedAt: number | undefined }[]>;

  /** Where the connection with this id was; it is there still if its grant has the id. */
  placeOf(id: string): Promise<ListedConnection | undefined>;

  dropId(id: string): Promise<void>;

  /**
   * Writes if the stored version is still `ifVersion` (0: none is stored), and no other process got the lease of the fence
   * since. Returns the new version, or undefined where it did not write.
   * @param options `steps`: further ones of the same write, on keys of the user. `beside`: a write of another slot, at the
   *   same time, which may be made although this one is refused
   */
  save(grant: Grant, ifVersion: number, options?: SaveOptions): Promise<number | undefined>;

  /** Deletes the grant and its last use if the stored version is still `ifVersion`. Returns whether it did. */
  remove(userId: string, appId: string, ifVersion: number): Promise<boolean>;

  /** Adds the grant to the list of open refreshes, which is read after a restart. The grant itself says whether one is open. */
  noteOpen(userId: string, appId: string): Promise<void>;

  noteClosed(userId: string, appId: string): Promise<void>;
  listOpen(): Promise<ListedConnection[]>;

  /**
   * Rejects where the store could not save the responses of this many concurrent refreshes: then the provider is not called
   * (F16, F23). Calls in one turn of the event loop share one check.
   */
  assertWritable(refreshes: number): Promise<void>;

  lastUse(userId: string, appId: string): Promise<number | undefined>;

  /** Saves the time of use, at most once in five minutes for each grant and process. Never rejects. */
  noteUse(userId: string, appId: string): Promise<void>;
}

/**
 * @param parts `connectionIndex`: updated after each save and removal. It may lag behind; the next save or reader corrects
 * it. A rejection would hide that the grant is stored.
 */
export function createGrantStore(parts: {
  store: Store;
  sealedJson: SealedJson;
  clock: () => number;
  connectionIndex?: Pick<ConnectionIndex, 'update' | 'drop'>;
}): GrantStore {
  const { store, sealedJson, clock, connectionIndex } = parts;
  const ids = createConnectionIds(store);
  // Opened grants by key. An entry is used only if the store says that its version is current.
  const opened = rememberedOfEach<OpenedGrant>(GRANTS_SHARE);

  const remember = (key: string, sealed: string, grant: Grant, version: number): OpenedGrant => {
    const entry = { grant, version, notedAt: opened.peek(key)?.notedAt ?? 0 };
    // Sealing makes the text a third longer.
    opened.set(key, entry, sealed.length * 0.75);
    return entry;
  };

  const records = createOpenedRecords<OpenedGrant, StoredGrant>({
    store,
    cache: opened,
    async open(key, { value, version }) {
      try {
        return remember(key, value, await sealedJson.openOrThrow<Grant>(value, key), version);
      } catch (error) {
        if (error instanceof SealError) return { unreadable: error, version };
        throw error;
      }
    },
  });

  const open = async (userId: string, appId: string, prefetched?: GrantReading): Promise<StoredGrant | undefined> => {
    const key = keys.grant(userId, appId);
    return prefetched?.key === key ? records.finish(prefetched) : records.find(key);
  };

  const load = async (
    userId: string,
    app: ConnectedApp,
    prefetched?: GrantReading,
  ): Promise<StoredGrant | undefined> => {
    const stored = await open(userId, app.id, prefetched);
    return storedAsSeenBy(app, stored);
  };

  /** After a write that was refused. An earlier attempt that timed out may have stored this very grant. */
  const dropUnused = async ({ id, userId, appId }: Grant): Promise<void> => {
    const stored = await open(userId, appId);
    if (!stored || 'unreadable' in stored || stored.grant.id !== id) await ids.drop(id);
    if (!stored) await connectionIndex?.drop({ userId, appId });
    else if ('grant' in stored) await connectionIndex?.update(stored.grant);
  };

  const lastUse = async (userId: string, appId: string): Promise<number | undefined> => {
    const record = await store.get(keys.lastUse(userId, appId));
    return record && Number(record.value);
  };

  return {
    load,
    loadStored: open,

    prefetch(userId, appId) {
      const reading = records.read(keys.grant(userId, appId));
      // `load` reports a failure; without this, a read that is never used would be an unhandled rejection.
      reading.record.catch(() => undefined);
      return reading;
    },

    async list(userId) {
      const appIds = await allMembers(store, keys.grants(userId));
      const grants = await Promise.all(
        appIds.map(async (appId) => {
          const [stored, lastUsedAt] = await Promise.all([open(userId, appId), lastUse(userId, appId)]);
          return stored ? [{ appId, stored, lastUsedAt }] : [];
        }),
      );
      return grants.flat();
    },

    placeOf: ids.find,
    dropId: ids.drop,

    async save(grant, ifVersion, { fence, steps = [], beside = [] } = {}) {
      const key = keys.grant(grant.userId, grant.appId);
      const value = await sealedJson.seal(grant, key);
      const known = opened.peek(key);
      const before = known?.version === ifVersion ? known.grant.id : undefined;
      const isSame = before === grant.id;
      // First, so that a kill in between leaves a record without a connection, and no connection without a record.
      if (!isSame) await ids.note(grant);
      const index = keys.grants(grant.userId);
      const writes = [{ put: key, value, ifVersion }, { index, add: grant.appId, score: grant.connectedAt }, ...steps];
      const isNew = ifVersion === 0;
      const [version] = await Promise.all([
        store.write(writes, fence ? { fence } : {}),
        beside.length > 0 && store.write(beside),
        isNew && connectionIndex?.update(grant),
      ]);
      if (version === undefined) {
        if (!isSame) await dropUnused(grant).catch(() => undefined);
        return undefined;
      }
      remember(key, value, grant, version);
      if (!isSame && before !== undefined) await ids.drop(before).catch(() => undefined);
      if (!isNew) await connectionIndex?.update(grant, { version, over: ifVersion });
      return version;
    },

    async remove(userId, appId, ifVersion) {
      const key = keys.grant(userId, appId);
      const stored = await open(userId, appId);
      const removed = await store.write([
        { delete: key, ifVersion },
        { delete: keys.lastUse(userId, appId) },
        { delete: keys.relayUsesOf(userId, appId) },
        { index: keys.grants(userId), remove: appId },
      ]);
      opened.delete(key);
      if (removed === undefined) return false;
      if (stored && 'grant' in stored) await ids.drop(stored.grant.id).catch(() => undefined);
      await connectionIndex?.drop({ userId, appId });
      return true;
    },

    async noteOpen(userId, appId) {
      await store.write([{ index: keys.openRefreshes, add: memberOf({ userId, appId }), score: clock() }]);
    },

    async noteClosed(userId, appId) {
      await store.write([{ index: keys.openRefreshes, remove: memberOf({ userId, appId }) }]);
    },

    async listOpen() {
      return (await allMembers(store, keys.openRefreshes)).map(connectionOf);
    },

    assertWritable: createWritableCheck(store),
    lastUse,

    async noteUse(userId, appId) {
      const cached = opened.peek(keys.grant(userId, appId));
      const now = clock();
      if (cached && now >= cached.notedAt && now - cached.notedAt < USE_INTERVAL_MS) return;
      if (cached) cached.notedAt = now;
      // Writes nothing where the grant was removed while the call ran.
      const isSaved = await store
        .write([{ exists: keys.grant(userId, appId) }, { put: keys.lastUse(userId, appId), value: String(now) }])
        .catch(() => undefined);
      if (cached && !isSaved) cached.notedAt = 0;
    },
  };
}

/** The stored grant as this app may use it (`seenBy`). */
export function storedAsSeenBy(app: ConnectedApp, stored: StoredGrant | undefined): StoredGrant | undefined {
  if (!stored || 'unreadable' in stored) return stored;
  const grant = seenBy(app, stored.grant);
  return grant === stored.grant ? stored : { grant, version: stored.version };
}

/** Asks the store once for all calls of one turn of the event loop. */
function createWritableCheck(store: Store): GrantStore['assertWritable'] {
  let next: { refreshes: number; result: Promise<void> } | undefined;
  const check = async () => {
    await endOfTurn();
    const refreshes = Math.min(next?.refreshes ?? 0, MAX_CHECKED_REFRESHES);
    next = undefined;
    await store.ready(refreshes * REFRESH_BYTES);
  };
  return (refreshes) => {
    next ??= { refreshes: 0, result: check() };
    next.refreshes = Math.max(next.refreshes, refreshes);
    return next.result;
  };
}

/**
 * Saves as `GrantStore.save`. A write that rejects may have been made all the same: then the grant is read again, and is written once
 * more if it is there, for what lies beside it.
 * @throws AppError `storage_unavailable` where the grant is not stored, or the storage does not respond for five seconds more
 */
export async function saveCertainly(
  grants: Pick<GrantStore, 'loadStored' | 'save'>,
  grant: Grant,
  ifVersion: number,
  options: SaveOptions,
): Promise<number | undefined> {
  try {
    return await grants.save(grant, ifVersion, options);
  } catch (error) {
    const load = () => grants.loadStored(grant.userId, grant.appId);
    const stored = await retryWhileUnavailable(load, CERTAIN_MS);
    if (!stored || 'unreadable' in stored || !hasSameTokens(stored.grant, grant)) throw error;
    const { beside = [] } = options;
    const saveAgain = () => grants.save(stored.grant, stored.version, { beside });
    return (await retryWhileUnavailable(saveAgain, CERTAIN_MS)) ?? stored.version;
  }
}

const hasSameTokens = (one: Grant, other: Grant): boolean =>
  one.id === other.id && one.accessToken === other.accessToken && one.refreshToken === other.refreshToken;

/**
 * Puts back the grant that was there before a write, or else deletes what was written, also if it was written again since.
 * @param conditions those under which a grant of the user may be stored; undefined where none may
 */
export async function undoWrite(
  grants: Pick<GrantStore, 'loadStored' | 'save' | 'remove'>,
  { userId, appId }: Pick<Grant, 'userId' | 'appId'>,
  before: StoredGrant | undefined,
  version: number,
  conditions: readonly Write[] | undefined,
): Promise<void> {
  const canStay = conditions && before && 'grant' in before;
  if (canStay && (await grants.save(before.grant, version, { steps: conditions }))) return;
  let current: number | undefined = version;
  while (current !== undefined && !(await grants.remove(userId, appId, current))) {
    const stored = await grants.loadStored(userId, appId);
    // An earlier attempt, whose result is unknown, has put it back.
    if (canStay && stored && 'grant' in stored && hasSameTokens(stored.grant, before.grant)) return;
    current = stored?.version;
  }
}
