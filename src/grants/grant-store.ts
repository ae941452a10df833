/** Owns the keeping of grants: sealed, bound to their owner, and written only over the version that was read. */
import { keys } from '../storage/keys.ts';
import type { Fence } from '../storage/lease.ts';
import { SealError, type Sealer } from '../storage/sealed.ts';
import type { Store } from '../storage/store.ts';
import type { Grant } from './grant.ts';

/** `unreadable`: the record is there but cannot be opened (wrong key, damaged, another's): only this connection is lost. */
export type StoredGrant = { grant: Grant; version: number } | { unreadable: SealError; version: number };

export interface GrantStore {
  load(userId: string, appId: string): Promise<StoredGrant | undefined>;
  /** Every grant of one user in the order of connecting. */
  list(userId: string): Promise<{ appId: string; stored: StoredGrant }[]>;
  /**
   * Writes if the stored version is still this one (0: none there yet), and the fence's lease was given to nobody since.
   * Answers false when it is not.
   */
  save(grant: Grant, ifVersion: number, fence?: Fence): Promise<boolean>;
  /** Deletes the grant and all that is noted of it if the stored version is still this one. Answers false when it is not. */
  remove(userId: string, appId: string, ifVersion: number): Promise<boolean>;
  /** Notes that a refresh may be open, for those who come after a kill; the grant itself says whether it is. */
  noteOpen(userId: string, appId: string): Promise<void>;
  /** Rejects where the store could not take what a refresh brings: then the provider is not asked (F16). */
  assertWritable(): Promise<void>;
  noteClosed(userId: string, appId: string): Promise<void>;
  listOpen(): Promise<{ userId: string; appId: string }[]>;
  /** Notes the use, at most once a minute for each grant and process. Never rejects: a note is worth no request. */
  noteUse(userId: string, appId: string): Promise<void>;
  lastUse(userId: string, appId: string): Promise<number | undefined>;
}

const CACHED_GRANTS = 10_000;
const USE_MILLISECONDS = 60_000;

export function createGrantStore(parts: { store: Store; sealer: Sealer; clock: () => number }): GrantStore {
  const { store, sealer, clock } = parts;
  // Opened grants by key: an entry counts only for the very version that was just read.
  const opened = boundedMap<{ version: number; grant: Grant }>(CACHED_GRANTS);
  const usedAt = boundedMap<number>(CACHED_GRANTS);

  const load = async (userId: string, appId: string): Promise<StoredGrant | undefined> => {
    const key = keys.grant(userId, appId);
    const record = await store.get(key);
    if (!record) return undefined;
    const cached = opened.get(key);
    if (cached?.version === record.version) return cached;
    try {
      const entry = { version: record.version, grant: JSON.parse(await sealer.open(record.value, key)) as Grant };
      opened.set(key, entry);
      return entry;
    } catch (error) {
      if (error instanceof SealError) return { unreadable: error, version: record.version };
      throw error;
    }
  };

  /** A call may end after its connection was ended: then nothing is left behind, and the answer is false. */
  const writeUse = async (userId: string, appId: string, now: number): Promise<boolean> => {
    if (!(await store.get(keys.grant(userId, appId)))) return false;
    return store.write([{ put: keys.lastUse(userId, appId), value: String(now) }]);
  };

  return {
    load,

    async list(userId) {
      const { items } = await store.page(keys.grants(userId), { limit: 1000 });
      const found = await Promise.all(
        items.map(async ({ member: appId }) => ({ appId, stored: await load(userId, appId) })),
      );
      return found.flatMap(({ appId, stored }) => (stored ? [{ appId, stored }] : []));
    },

    async save(grant, ifVersion, fence) {
      const key = keys.grant(grant.userId, grant.appId);
      const value = await sealer.seal(JSON.stringify(grant), key);
      const index = keys.grants(grant.userId);
      const writes = [
        { put: key, value, ifVersion },
        { index, add: grant.appId, score: grant.connectedAt },
      ];
      return store.write(writes, fence ? { fence } : {});
    },

    async noteOpen(userId, appId) {
      await store.write([{ index: keys.openRefreshes, add: JSON.stringify([userId, appId]), score: clock() }]);
    },

    assertWritable: () => store.ready(),

    async noteClosed(userId, appId) {
      await store.write([{ index: keys.openRefreshes, remove: JSON.stringify([userId, appId]) }]);
    },

    async listOpen() {
      const open: { userId: string; appId: string }[] = [];
      let after: string | undefined;
      do {
        const page = await store.page(keys.openRefreshes, { limit: 500, ...(after === undefined ? {} : { after }) });
        for (const { member } of page.items) {
          const [userId, appId] = JSON.parse(member) as [string, string];
          open.push({ userId, appId });
        }
        after = page.next;
      } while (after !== undefined);
      return open;
    },

    async remove(userId, appId, ifVersion) {
      const key = keys.grant(userId, appId);
      const removed = await store.write([
        { delete: key, ifVersion },
        { delete: keys.lastUse(userId, appId) },
        { index: keys.grants(userId), remove: appId },
      ]);
      opened.delete(key);
      usedAt.delete(keys.lastUse(userId, appId));
      return removed;
    },

    async noteUse(userId, appId) {
      const key = keys.lastUse(userId, appId);
      const now = clock();
      const last = usedAt.get(key);
      if (last !== undefined && now >= last && now - last < USE_MILLISECONDS) return;
      usedAt.set(key, now);
      if (!(await writeUse(userId, appId, now).catch(() => false))) usedAt.delete(key);
    },

    async lastUse(userId, appId) {
      const record = await store.get(keys.lastUse(userId, appId));
      return record && Number(record.value);
    },
  };
}

/** A map that forgets what was set longest ago once it is full. */
function boundedMap<T>(most: number) {
  const entries = new Map<string, T>();
  return {
    get: (key: string) => entries.get(key),
    delete: (key: string) => entries.delete(key),
    set(key: string, value: T) {
      entries.delete(key);
      entries.set(key, value);
      const [oldest] = entries.keys();
      if (entries.size > most && oldest !== undefined) entries.delete(oldest);
    },
  };
}
