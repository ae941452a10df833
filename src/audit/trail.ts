/** Owns the audit trail: appended to and never changed, found again by its facets, exported whole, and kept for a set time. */
import { encodeCursor } from '../storage/index-cursor.ts';
import { keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import { type AuditFilter, indexesFor, indexesOf, matches } from './facets.ts';
import type { AuditEntry, AuditRecord } from './kinds.ts';
import { cleanEntry, decodeEntry, searchText } from './record.ts';

export interface AuditPage {
  /** Newest first. May be fewer than asked for, or none, although `next` is there: see `searchedTo`. */
  items: AuditRecord[];
  next?: string;
  /** Where a search ended before it found enough: everything since this time (ISO 8601) was looked at. */
  searchedTo?: string;
}

export interface AuditTrail {
  /** Resolves once the entry is kept. `at`: milliseconds since the epoch, now where left out. @throws AppError `storage_unavailable` */
  append(entry: AuditEntry, at?: number): Promise<void>;
  page(request: { after?: string | undefined; limit: number; filter?: AuditFilter }): Promise<AuditPage>;
  /** Every entry that the filter lets through, oldest first, read piece by piece. */
  export(filter?: AuditFilter): AsyncIterable<AuditRecord>;
  /** Removes what is older than the set time, and the oldest of too many. Answers how many. */
  trim(): Promise<number>;
}

export interface AuditTrailParts {
  store: Store;
  /** Milliseconds since the epoch. */
  clock: () => number;
  /** How long entries are kept. */
  days?: number;
  /** The most entries that are kept. */
  most?: number;
  /** Takes card numbers out of a text. */
  scrub?: (text: string) => string;
  /** Tells log shippers of an entry that is kept. */
  tell?: (record: AuditRecord) => void;
}

const BATCH = 250;
/** How long one page may search before it answers with what it found, so that a rare text costs nobody else their turn. */
const SEARCH_MILLISECONDS = 40;
const DAY_MILLISECONDS = 86_400_000;
/** Small enough for one write: an entry stands in up to seven indexes. */
const TRIM_BATCH = 50;

export function createAuditTrail(parts: AuditTrailParts): AuditTrail {
  const { store, clock, days = 365, most = 1_000_000, scrub = (text) => text, tell } = parts;
  const log = keys.auditLog;

  const entriesAt = async (ids: readonly string[]): Promise<AuditRecord[]> =>
    (await store.logEntries(log, ids)).map(decodeEntry);

  /** The index that holds least, so that the fewest entries have to be looked at. */
  const narrowest = async (filter: AuditFilter): Promise<string> => {
    const indexes = indexesFor(filter);
    const sizes = await Promise.all(indexes.map((index) => (indexes.length === 1 ? 0 : store.count(index))));
    return indexes[sizes.indexOf(Math.min(...sizes))] ?? '';
  };

  return {
    async append(entry, at = clock()) {
      const clean = cleanEntry(entry, scrub);
      const id = await store.append(log, JSON.stringify(clean), at, indexesOf(clean));
      tell?.({ id, at: new Date(at).toISOString(), ...clean });
    },

    async page({ after, limit, filter = {} }) {
      const index = await narrowest(filter);
      const until = performance.now() + SEARCH_MILLISECONDS;
      const items: AuditRecord[] = [];
      let cursor = after ?? startOf(filter);
      for (;;) {
        const size = filter.text || indexesFor(filter).length > 1 ? BATCH : limit - items.length;
        const batch = await store.page(index, { limit: size, order: 'descending', ...(cursor && { after: cursor }) });
        const found = new Map((await entriesAt(batch.items.map(({ member }) => member))).map((one) => [one.id, one]));
        for (const { member, score } of batch.items) {
          if (filter.from !== undefined && score < filter.from) return { items };
          cursor = encodeCursor({ member, score });
          const record = found.get(member);
          if (record && isMeant(record, filter)) items.push(record);
          if (items.length === limit) return isLast(batch, member) ? { items } : { items, next: cursor };
        }
        if (batch.next === undefined) return { items };
        if (performance.now() > until) return { items, next: cursor ?? '', searchedTo: timeOf(batch.items.at(-1)) };
      }
    },

    async *export(filter = {}) {
      let after: string | undefined;
      do {
        const read = await store.readLog(log, { limit: BATCH, ...(after === undefined ? {} : { after }) });
        for (const item of read.items) {
          const record = decodeEntry(item);
          if (isWithin(item.at, filter) && isMeant(record, filter)) yield record;
        }
        after = read.next;
      } while (after !== undefined);
    },

    async trim() {
      const horizon = clock() - days * DAY_MILLISECONDS;
      let surplus = (await store.count(indexesFor({})[0] ?? '')) - most;
      let size = TRIM_BATCH;
      let trimmed = 0;
      for (;;) {
        const oldest = await store.readLog(log, { limit: size });
        const kept = oldest.items.findIndex(({ at }, place) => at >= horizon && place >= surplus);
        const gone = kept === -1 ? oldest.items : oldest.items.slice(0, kept);
        if (gone.length === 0) return trimmed;
        // Out of the indexes first: what a kill leaves in the log is trimmed the next time.
        await store.write(
          gone.flatMap((item) => indexesOf(decodeEntry(item)).map((index) => ({ index, remove: item.id }))),
        );
        const removed = await store.trimLog(log, cutAfter(gone, oldest.items[kept], oldest.next));
        trimmed += removed;
        surplus -= Math.max(removed, 1);
        // The log is cut by time alone: of many entries at one moment all have to be seen at once.
        size = removed === 0 ? size * 2 : TRIM_BATCH;
      }
    },
  };
}

/** The time before which the log is cut, so that nothing goes that still stands in an index. */
function cutAfter(gone: readonly { at: number }[], firstKept: { at: number } | undefined, next: string | undefined) {
  const last = gone.at(-1)?.at ?? 0;
  return firstKept?.at ?? (next === undefined ? last + 1 : last);
}

/** The place in an index right above all entries of that time. */
function startOf({ to }: AuditFilter): string | undefined {
  return to === undefined ? undefined : encodeCursor({ score: to + 1, member: '' });
}

function isMeant(record: AuditRecord, filter: AuditFilter): boolean {
  return matches(record, filter) && (!filter.text || searchText(record).includes(filter.text.trim().toLowerCase()));
}

function isWithin(at: number, { from = -Infinity, to = Infinity }: AuditFilter): boolean {
  return at >= from && at <= to;
}

function isLast(batch: { items: { member: string }[]; next?: string }, member: string): boolean {
  return batch.next === undefined && batch.items.at(-1)?.member === member;
}

function timeOf(last: { score: number } | undefined): string {
  return new Date(last?.score ?? 0).toISOString();
}
