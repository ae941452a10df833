/**
 * Stores grants: sealed, bound to their user and app, and replaced only if the version that was read is still current.
 */
import { setImmediate as endOfTurn } from 'node:timers/promises';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { rememberedOfEach } from '../../shared/remembered.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Fence } from '../../shared/storage/lease.ts';
import { createOpenedRecords, type RecordReading } from '../../shared/storage/opened-records.ts';
import { allMembers } from '../../shared/storage/paging.ts';
import { SealError } from '../../shared/storage/sealed.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store, Write } from '../../shared/storage/store.ts';
import { createConnectionIds } from './connection-ids.ts';
import { type ConnectionIndex, connectionOf, type ListedConnection, memberOf } from './connection-index.ts';
import { type Grant, grantForApp, type ReadableGrant, type StoredGrant } from './grant.ts';

interface OpenedGrant extends ReadableGrant {
  /** When this process last saved the time of use, in milliseconds since the epoch; 0 if it never did. */
  useSavedAt: number;
}

export interface SaveOptions {
  fence?: Fence | undefined;
  writes?: readonly Write[];
  beside?: readonly Write[];
}

/** A read of a grant that starts before the user is authenticated. */
export type GrantReading = RecordReading<OpenedGrant>;

/** Share of the heap for opened grants. */
const GRANTS_SHARE = 1 / 16;
/**
 * Uses are saved rarely: a write costs more than the rest of a request, and five minutes are exact enough for a page.
 */
const USE_INTERVAL_MS = 300_000;
/** The storage that one refresh needs: in SQLite, each write takes several whole pages. */
const REFRESH_BYTES = 64 * 1024;
/** More concurrent refreshes than this need no more space, since their writes share pages. */
const MAX_CHECKED_REFRESHES = 100;

export interface GrantStore {
  /**
   * Returns the grant as this app may use it (`grantForApp`), for code that sends its tokens.
   * @param prefetched a read from `prefetch`; ignored if it is of another grant
   */
  load(userId: string, app: ConnectedApp, prefetched?: GrantReading): Promise<StoredGrant | undefined>;

  /** Returns the grant as it is stored, for code that ends or rewrites it. */
  loadStored(userId: string, appId: string, prefetched?: GrantReading): Promise<StoredGrant | undefined>;

  /** Starts a read for `load` early, so that the store reads the grant together with the session. */
  prefetch(userId: string, appId: string): GrantReading;

  /** Returns the stored grants of a user with the time of their last use, oldest connection first. */
  list(userId: string): Promise<{ appId: string; stored: StoredGrant; lastUsedAt: number | undefined }[]>;

  /** Returns user and app of the connection with this id. It still exists only if their grant has this id. */
  findById(id: string): Promise<ListedConnection | undefined>;

  dropId(id: string): Promise<void>;

  /**
   * Saves the grant if the stored version is still `ifVersion` (0: none is stored), and no other process has taken the
   * lease of the fence since. Returns the new version, or undefined if nothing was saved.
   * @param options `writes`: made together with the grant, on keys of the user. `beside`: a parallel write to
   *   another slot, which may be made even if the grant is not saved
   */
  save(grant: Grant, ifVersion: number, options?: SaveOptions): Promise<number | undefined>;

  /** Deletes the grant and its last use if the stored version is still `ifVersion`. Returns false if it is not. */
  remove(userId: string, appId: string, ifVersion: number): Promise<boolean>;

  /**
   * Adds the grant to the list of grants that may have an open refresh, which is read after a restart. Only the journal
   * entry of the grant shows whether one is open.
   */
  addUnfinishedRefresh(userId: string, appId: string): Promise<void>;

  removeUnfinishedRefresh(userId: string, appId: string): Promise<void>;
  listUnfinishedRefreshes(): Promise<ListedConnection[]>;

  /** Records that a request waits for its turn to refresh this grant. Services narrow no token of the grant then. */
  addAwaitedRefresh(userId: string, appId: string): Promise<void>;
  removeAwaitedRefresh(userId: string, appId: string): Promise<void>;
  isRefreshAwaited(userId: string, appId: string): Promise<boolean>;

  /**
   * Checks that the store can save the responses of this many concurrent refreshes. If this rejects, the provider must
   * not be called (F16, F23). Calls in one turn of the event loop share one check.
   */
  assertWritable(refreshes: number): Promise<void>;

  lastUse(userId: string, appId: string): Promise<number | undefined>;

  /** Saves the time of the last use, at most once in five minutes per grant and process. Never rejects. */
  noteUse(userId: string, appId: string): Promise<void>;
}

/** A request waits no longer than this for the refresh of another one. */
const MAX_AWAITED_SECONDS = 30;

/**
 * @param parts `connectionIndex`: updated after each save and removal. It must not reject: the caller would not learn
 *   that the grant is stored. It may lag behind; the next save or reader corrects it
 */
export function createGrantStore(parts: {
  store: Store;
  sealedJson: SealedJson;
  clock: () => number;
  connectionIndex?: Pick<ConnectionIndex, 'update' | 'drop'>;
}): GrantStore {
  const { store, sealedJson, clock, connectionIndex } = parts;
  const ids = createConnectionIds(store);
  // Opened grants by key. An entry is used only if its version is the stored one.
  const opened = rememberedOfEach<OpenedGrant>(GRANTS_SHARE);

  const remember = (key: string, sealed: string, grant: Grant, version: number): OpenedGrant => {
    const entry = { grant, version, useSavedAt: opened.peek(key)?.useSavedAt ?? 0 };
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
    return storedGrantForApp(app, stored);
  };

  /**
   * Deletes the id of a grant whose write was refused, unless an earlier attempt that timed out has stored the grant.
   */
  const dropUnusedId = async ({ id, userId, appId }: Grant): Promise<void> => {
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
      reading.pendingRecord.catch(() => undefined);
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

    findById: ids.find,
    dropId: ids.drop,

    async save(grant, ifVersion, { fence, writes = [], beside = [] } = {}) {
      const key = keys.grant(grant.userId, grant.appId);
      const value = await sealedJson.seal(grant, key);
      const cached = opened.peek(key);
      const replacedId = cached?.version === ifVersion ? cached.grant.id : undefined;
      const isSame = replacedId === grant.id;
      // The id is saved first: a kill in between may leave an id without a connection, but no connection without its
      // id.
      if (!isSame) await ids.save(grant);
      const index = keys.grants(grant.userId);
      const grantWrites = [
        { put: key, value, ifVersion },
        { index, add: grant.appId, score: grant.connectedAt },
        ...writes,
      ];
      const isNew = ifVersion === 0;
      const [version] = await Promise.all([
        store.write(grantWrites, fence ? { fence } : {}),
        beside.length > 0 && store.write(beside),
        isNew && connectionIndex?.update(grant),
      ]);
      if (version === undefined) {
        if (!isSame) await dropUnusedId(grant).catch(() => undefined);
        return undefined;
      }
      remember(key, value, grant, version);
      if (!isSame && replacedId !== undefined) await ids.drop(replacedId).catch(() => undefined);
      if (!isNew) await connectionIndex?.update(grant, { version, replacedVersion: ifVersion });
      return version;
    },

    async remove(userId, appId, ifVersion) {
      const key = keys.grant(userId, appId);
      const stored = await open(userId, appId);
      const removedVersion = await store.write([
        { delete: key, ifVersion },
        { delete: keys.lastUse(userId, appId) },
        { delete: keys.relayUsesOf(userId, appId) },
        { index: keys.grants(userId), remove: appId },
      ]);
      opened.delete(key);
      if (removedVersion === undefined) return false;
      if (stored && 'grant' in stored) await ids.drop(stored.grant.id).catch(() => undefined);
      await connectionIndex?.drop({ userId, appId });
      return true;
    },

    async addUnfinishedRefresh(userId, appId) {
      await store.write([{ index: keys.unfinishedRefreshes, add: memberOf({ userId, appId }), score: clock() }]);
    },

    async removeUnfinishedRefresh(userId, appId) {
      await store.write([{ index: keys.unfinishedRefreshes, remove: memberOf({ userId, appId }) }]);
    },

    async addAwaitedRefresh(userId, appId) {
      const key = keys.awaitedRefresh(userId, appId);
      await store.write([{ put: key, value: String(clock()), lifetimeSeconds: MAX_AWAITED_SECONDS }]);
    },

    async removeAwaitedRefresh(userId, appId) {
      await store.write([{ delete: keys.awaitedRefresh(userId, appId) }]);
    },

    async isRefreshAwaited(userId, appId) {
      const awaited = await store.get(keys.awaitedRefresh(userId, appId));
      if (!awaited) return false;
      // After a step back of the clock, the storage keeps the record for too long. Less in the future than this, the
      // record is of a process whose clock is ahead.
      return Math.abs(clock() - Number(awaited.value)) < MAX_AWAITED_SECONDS * 1000;
    },

    async listUnfinishedRefreshes() {
      return (await allMembers(store, keys.unfinishedRefreshes)).map(connectionOf);
    },

    assertWritable: createWritableCheck(store),
    lastUse,

    async noteUse(userId, appId) {
      const cached = opened.peek(keys.grant(userId, appId));
      const now = clock();
      if (cached && now >= cached.useSavedAt && now - cached.useSavedAt < USE_INTERVAL_MS) return;
      if (cached) cached.useSavedAt = now;
      // Writes nothing if the grant was removed during the call.
      const isSaved = await store
        .write([{ exists: keys.grant(userId, appId) }, { put: keys.lastUse(userId, appId), value: String(now) }])
        .catch(() => undefined);
      if (cached && !isSaved) cached.useSavedAt = 0;
    },
  };
}

/** Returns the stored grant as this app may use it (`grantForApp`). */
export function storedGrantForApp(app: ConnectedApp, stored: StoredGrant | undefined): StoredGrant | undefined {
  if (!stored || 'unreadable' in stored) return stored;
  const grant = grantForApp(app, stored.grant);
  return grant === stored.grant ? stored : { grant, version: stored.version };
}

/** Checks the store once for all calls of one turn of the event loop. */
function createWritableCheck(store: Store): GrantStore['assertWritable'] {
  let pending: { refreshes: number; result: Promise<void> } | undefined;
  const check = async () => {
    await endOfTurn();
    const refreshes = Math.min(pending?.refreshes ?? 0, MAX_CHECKED_REFRESHES);
    pending = undefined;
    await store.ready(refreshes * REFRESH_BYTES);
  };
  return (refreshes) => {
    pending ??= { refreshes: 0, result: check() };
    pending.refreshes = Math.max(pending.refreshes, refreshes);
    return pending.result;
  };
}
