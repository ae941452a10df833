/** The audit trail: entries are appended and never changed, can be searched and exported, and expire. */
import { keys } from '../../shared/storage/keys.ts';
import { type MergedSource, unionPage } from '../../shared/storage/merged-page.ts';
import { encodeCursor, startOfPage } from '../../shared/storage/paging.ts';
import type { Store } from '../../shared/storage/store.ts';
import { DAY_MS, isoTime } from '../../shared/time.ts';
import { ALL_ENTRIES, type AuditFilter, CHANGES, concerns, indexesFor, indexesOf, matches, OTHERS } from './facets.ts';
import type { AuditEntry, AuditRecord } from './kinds.ts';
import { cleanEntry, decodeEntry, recordOf, searchText, storedIdOf } from './record.ts';

interface PageRequest {
  after?: string | undefined;
  limit: number;
  filter?: AuditFilter;
  /** How long the page may search: a rare text must not delay other requests. */
  searchMs?: number;
}

interface AuditPage {
  /** Newest first. May have fewer items than `limit`, even none, although there is a `next`: see `searchedTo`. */
  items: AuditRecord[];
  next?: string;
  /** Set if the search ran out of time: entries since this time (ISO 8601) have been searched. */
  searchedTo?: string;
}

export interface AuditTrailParts {
  store: Store;
  /** Milliseconds since the epoch. */
  clock: () => number;
  /** How long entries are stored. */
  days?: number;
  /** The maximum number of changes, and of other entries. */
  maxEntries?: number;
  /** Called with each stored entry, for log shippers. */
  onStored?: (record: AuditRecord) => void;
}

interface DatedEntry {
  entry: AuditEntry;
  /** Milliseconds since the epoch. */
  at: number;
  stored?: ((record: AuditRecord) => void) | undefined;
}

const BATCH = 250;
const SEARCH_MS = 40;
/** Small enough for one write: an entry is in up to nine indexes. */
const TRIM_BATCH = 50;
/** The indexes that `trim` reads. */
const TRIMMED = [ALL_ENTRIES, CHANGES, OTHERS];

export interface AuditTrail {
  /** Resolves once the entry is stored. `at`: milliseconds since the epoch. @throws AppError `storage_unavailable` */
  append(entry: AuditEntry, at?: number): Promise<void>;
  /** Like `append`, for all entries or none. Calls `stored`, by default `onStored`, with the record of each. */
  appendAll(entries: readonly DatedEntry[]): Promise<void>;
  /** @param id of the record */
  find(id: string): Promise<AuditRecord | undefined>;
  page(request: PageRequest): Promise<AuditPage>;
  /** Lists the entries of several indexes together, newest first. @param accepts returns true for entries to list */
  merged(indexes: readonly string[], accepts: (record: AuditRecord) => boolean): MergedSource<AuditRecord>;
  /** Every matching entry, oldest first, read in batches. */
  export(filter?: AuditFilter): AsyncIterable<AuditRecord>;
  /** Removes expired entries, and the oldest changes and other entries beyond their maximum. Returns their number. */
  trim(): Promise<number>;
}

export function createAuditTrail(parts: AuditTrailParts): AuditTrail {
  const { store, clock, days = 365, maxEntries = 1_000_000, onStored } = parts;
  const log = keys.auditLog;

  /** Loads the entries at these positions, by id. */
  const entriesAt = async (items: readonly { member: string }[]): Promise<Map<string, AuditRecord>> => {
    const entries = await store.logEntries(
      log,
      items.map(({ member }) => member),
    );
    return new Map(entries.map((entry) => [entry.id, decodeEntry(entry)]));
  };

  /** Returns the indexes of the facet with the fewest entries. */
  const narrowest = async (filter: AuditFilter): Promise<string[]> => {
    const facets = indexesFor(filter);
    const sizeOf = async (indexes: readonly string[]) =>
      (await Promise.all(indexes.map((index) => store.count(index)))).reduce((sum, count) => sum + count, 0);
    const sizes = await Promise.all(facets.map((indexes) => (facets.length === 1 ? 0 : sizeOf(indexes))));
    return facets[sizes.indexOf(Math.min(...sizes))] ?? [];
  };

  /** Removes the entry from the indexes of `trim` last, so that `trim` finds it again after a kill. */
  const remove = async (entries: readonly { id: string; record: AuditRecord | undefined }[]): Promise<void> => {
    await store.write(
      entries.flatMap(({ id, record }) =>
        (record ? indexesOf(record) : [])
          .filter((index) => !TRIMMED.includes(index))
          .map((index) => ({ index, remove: id })),
      ),
    );
    await store.removeEntries(
      log,
      entries.map(({ id }) => id),
    );
    await store.write(entries.flatMap(({ id }) => TRIMMED.map((index) => ({ index, remove: id }))));
  };

  /** @param limits `count`: the maximum number of entries. `until`: only entries before this time */
  const removeOldest = async (index: string, limits: { count?: number; until?: number }): Promise<number> => {
    const { count = Infinity, until = Infinity } = limits;
    let removed = 0;
    while (removed < count) {
      const { items } = await store.page(index, { limit: Math.min(TRIM_BATCH, count - removed) });
      const oldest = items.filter(({ score }) => score < until);
      if (oldest.length === 0) break;
      const records = await entriesAt(oldest);
      await remove(oldest.map(({ member }) => ({ id: member, record: records.get(member) })));
      removed += oldest.length;
    }
    return removed;
  };

  const appendAll = async (entries: readonly DatedEntry[]): Promise<void> => {
    const cleaned = entries.map(({ entry, at, stored = onStored }) => ({ clean: cleanEntry(entry), at, stored }));
    const ids = await store.append(
      log,
      cleaned.map(({ clean, at }) => ({ entry: JSON.stringify(clean), at, indexes: indexesOf(clean) })),
    );
    for (const [index, { clean, at, stored }] of cleaned.entries()) stored?.(recordOf(ids[index] ?? '', at, clean));
  };

  return {
    append: (entry, at = clock()) => appendAll([{ entry, at }]),

    appendAll,

    async find(id) {
      const [entry] = await store.logEntries(log, [storedIdOf(id)]);
      return entry && decodeEntry(entry);
    },

    async page({ after, limit, filter = {}, searchMs = SEARCH_MS }) {
      const indexes = await narrowest(filter);
      const until = performance.now() + searchMs;
      const items: AuditRecord[] = [];
      let cursor = startOfPage(after, filter.to);
      for (;;) {
        const size = filter.text || indexesFor(filter).length > 1 ? BATCH : limit - items.length;
        // One more than needed shows whether others follow.
        const positions = await unionPage(store, indexes, { after: cursor, limit: size + 1 });
        const batch = positions.slice(0, size);
        const isLast = batch.length === positions.length;
        const records = await entriesAt(batch);
        for (const { member, score } of batch) {
          if (filter.from !== undefined && score < filter.from) return { items };
          cursor = encodeCursor({ member, score });
          const record = records.get(member);
          if (record && passesFilter(record, filter)) items.push(record);
          if (items.length === limit) {
            return isLast && member === batch.at(-1)?.member ? { items } : { items, next: cursor };
          }
        }
        if (isLast) return { items };
        if (performance.now() > until) return { items, next: cursor ?? '', searchedTo: timeOf(batch.at(-1)) };
      }
    },

    merged: (indexes, accepts) => ({
      page: (options) => unionPage(store, indexes, options),
      async load(positions) {
        const records = await entriesAt(positions);
        return positions.map(({ member }) => {
          const record = records.get(member);
          return record && accepts(record) ? record : undefined;
        });
      },
    }),

    async *export(filter = {}) {
      let after: string | undefined;
      do {
        const page = await store.readLog(log, { limit: BATCH, ...(after === undefined ? {} : { after }) });
        for (const item of page.items) {
          const record = decodeEntry(item);
          if (isWithin(item.at, filter) && passesFilter(record, filter)) yield record;
        }
        after = page.next;
      } while (after !== undefined);
    },

    async trim() {
      let removed = await removeOldest(ALL_ENTRIES, { until: clock() - days * DAY_MS });
      for (const index of [CHANGES, OTHERS]) {
        removed += await removeOldest(index, { count: (await store.count(index)) - maxEntries });
      }
      return removed;
    },
  };
}

function passesFilter(record: AuditRecord, filter: AuditFilter): boolean {
  return matches(record, filter) && (!filter.text || hasText(record, filter.text, filter.named?.text));
}

function hasText(record: AuditRecord, text: string, ids: readonly string[] = []): boolean {
  return searchText(record).includes(text.trim().toLowerCase()) || concerns(record, ids);
}

function isWithin(at: number, { from = -Infinity, to = Infinity }: AuditFilter): boolean {
  return at >= from && at <= to;
}

function timeOf(last: { score: number } | undefined): string {
  return isoTime(last?.score ?? 0);
}
