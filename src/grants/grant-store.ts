/** Owns the keeping of grants: sealed, bound to their owner, and written only over the version that was read. */
import { remembered, rememberedOfEach } from '../remembered.ts';
import { hashOf, keys } from '../storage/keys.ts';
import type { Fence } from '../storage/lease.ts';
import { SealError, type Sealer } from '../storage/sealed.ts';
import type { Store, StoredRecord } from '../storage/store.ts';
import type { Grant } from './grant.ts';

/** `unreadable`: the record is there but cannot be opened (wrong key, damaged, another's): only this connection is lost. */
export type StoredGrant = { grant: Grant; version: number } | { unreadable: SealError; version: number };

interface OpenedGrant {
  grant: Grant;
  version: number;
  /** When its use was noted last, in milliseconds since the epoch; 0 where this process does not know. */
  notedAt: number;
}

/** A reading that was begun before it was known whose grant will be asked for. */
export interface GrantReading {
  key: string;
  /** What was known of it then: the grant, where it is unchanged. */
  known: OpenedGrant | undefined;
  record: Promise<StoredRecord | 'unchanged' | undefined>;
}

export interface GrantStore {
  /** @param ahead counts where it is the reading of this very grant */
  load(userId: string, appId: string, ahead?: GrantReading): Promise<StoredGrant | undefined>;
  /** Begins to read what `load` will most likely be asked for, so that both wait for the store at the same time. */
  readAhead(userId: string, appId: string): GrantReading;
  /** Every grant of one user in the order of connecting, with its last use. */
  list(userId: string): Promise<{ appId: string; stored: StoredGrant; lastUsedAt: number | undefined }[]>;
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
  /** Notes the use of a grant that was loaded, at most once a minute for each and process. Never rejects: a note is worth no request. */
  noteUse(userId: string, appId: string): Promise<void>;
  lastUse(userId: string, appId: string): Promise<number | undefined>;
}

/** Of the memory. */
const GRANTS_SHARE = 1 / 16;
/** Until they are read for the first time. */
const MOST_SAVED = 10_000;
const USE_MILLISECONDS = 60_000;

export function createGrantStore(parts: { store: Store; sealer: Sealer; clock: () => number }): GrantStore {
  const { store, sealer, clock } = parts;
  // Opened grants by key: an entry counts only for the very version that was just read.
  const opened = rememberedOfEach<OpenedGrant>(GRANTS_SHARE);
  // The same of what this process saved last. Its version is not known yet: it counts for the very text that was kept.
  const saved = remembered<{ textHash: string; grant: Grant }>(MOST_SAVED);

  const read = (key: string): GrantReading => {
    const known = opened.get(key);
    return { key, known, record: store.getUnless(key, known?.version) };
  };

  const load: GrantStore['load'] = async (userId, appId, ahead) => {
    const key = keys.grant(userId, appId);
    const { known, record: reading } = ahead?.key === key ? ahead : read(key);
    const record = await reading;
    if (record === 'unchanged') return known;
    if (!record) return undefined;
    try {
      const own = saved.get(key);
      const isOwn = own !== undefined && own.textHash === hashOf(record.value);
      const grant = isOwn ? own.grant : (JSON.parse(await sealer.open(record.value, key)) as Grant);
      const entry = { version: record.version, grant, notedAt: known?.notedAt ?? 0 };
      // Sealed it is a third longer.
      opened.set(key, entry, record.value.length * 0.75);
      saved.delete(key);
      return entry;
    } catch (error) {
      if (error instanceof SealError) return { unreadable: error, version: record.version };
      throw error;
    }
  };

  const lastUse: GrantStore['lastUse'] = async (userId, appId) => {
    const record = await store.get(keys.lastUse(userId, appId));
    return record && Number(record.value);
  };

  /** A call may end after its connection was ended: then nothing is left behind, and the answer is false. */
  const writeUse = (userId: string, appId: string, now: number): Promise<boolean> =>
    store.write([{ exists: keys.grant(userId, appId) }, { put: keys.lastUse(userId, appId), value: String(now) }]);

  return {
    load,

    readAhead(userId, appId) {
      const reading = read(keys.grant(userId, appId));
      // Whoever waits for it hears of a failure; it may be that nobody does.
      reading.record.catch(() => undefined);
      return reading;
    },

    async list(userId) {
      const { items } = await store.page(keys.grants(userId), { limit: 1000 });
      const found = await Promise.all(
        items.map(async ({ member: appId }) => {
          const [stored, lastUsedAt] = await Promise.all([load(userId, appId), lastUse(userId, appId)]);
          return { appId, stored, lastUsedAt };
        }),
      );
      return found.flatMap(({ stored, ...rest }) => (stored ? [{ stored, ...rest }] : []));
    },

    async save(grant, ifVersion, fence) {
      const key = keys.grant(grant.userId, grant.appId);
      const value = await sealer.seal(JSON.stringify(grant), key);
      const index = keys.grants(grant.userId);
      const writes = [
        { put: key, value, ifVersion },
        { index, add: grant.appId, score: grant.connectedAt },
      ];
      const written = await store.write(writes, fence ? { fence } : {});
      if (written) saved.set(key, { textHash: hashOf(value), grant });
      return written;
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
        { delete: keys.relayUsesOf(userId, appId) },
        { index: keys.grants(userId), remove: appId },
      ]);
      opened.delete(key);
      saved.delete(key);
      return removed;
    },

    async noteUse(userId, appId) {
      const known = opened.peek(keys.grant(userId, appId));
      const now = clock();
      if (known && now >= known.notedAt && now - known.notedAt < USE_MILLISECONDS) return;
      if (known) known.notedAt = now;
      const isNoted = await writeUse(userId, appId, now).catch(() => false);
      if (known && !isNoted) known.notedAt = 0;
    },

    lastUse,
  };
}
