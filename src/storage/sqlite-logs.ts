/** Owns append-only logs in the embedded database. */

import type { DatabaseSync } from 'node:sqlite';
import { invalidCursor } from './index-cursor.ts';
import { assertLimit } from './sqlite-indexes.ts';
import { LIMIT } from './sqlite-schema.ts';
import type { LogPage, PageOptions } from './store.ts';

export interface SqliteLogs {
  /** Inside a transaction only, as `trimBatch`. */
  append(log: string, entry: string, at: number): string;
  read(log: string, options: PageOptions): LogPage;
  entries(log: string, ids: readonly string[]): LogPage['items'];
  /** Deletes at most `TRIM_BATCH` entries, so that a long log does not keep everybody waiting, and answers how many. */
  trimBatch(log: string, before: number): number;
}

export const TRIM_BATCH = 500;

export function createSqliteLogs(database: DatabaseSync): SqliteLogs {
  const insert = database.prepare('INSERT INTO log_entries (log, at, entry) VALUES (?, ?, ?)');
  const oldest = database.prepare(`SELECT id, at FROM log_entries WHERE log = ? ORDER BY id ${LIMIT}`);
  const removeUpTo = database.prepare('DELETE FROM log_entries WHERE log = ? AND id <= ?');
  const one = database.prepare('SELECT id, at, entry FROM log_entries WHERE log = ? AND id = ?');
  const ascending = prepareRead(database, '>', 'ASC');
  const descending = prepareRead(database, '<', 'DESC');

  return {
    append(log, entry, at) {
      if (!Number.isFinite(at)) throw new TypeError('The time of a log entry must be a finite number.');
      return String(insert.run(log, at, entry).lastInsertRowid);
    },
    read(log, { after, limit, order }) {
      const rows = (order === 'descending' ? descending : ascending)(log, after, assertLimit(limit) + 1);
      const items = rows.slice(0, limit);
      const last = items.at(-1);
      return rows.length > limit && last !== undefined ? { items, next: last.id } : { items };
    },
    entries: (log, ids) => ids.filter((id) => ID.test(id)).flatMap((id) => one.all(log, Number(id)).map(entryOf)),
    trimBatch(log, before) {
      const rows = oldest.all(log, TRIM_BATCH) as { id: number; at: number }[];
      const firstKept = rows.findIndex((row) => row.at >= before);
      const lastTrimmed = rows.at(firstKept === -1 ? -1 : firstKept - 1);
      if (firstKept === 0 || lastTrimmed === undefined) return 0;
      return Number(removeUpTo.run(log, lastTrimmed.id).changes);
    },
  };
}

type ReadRows = (log: string, after: string | undefined, limit: number) => LogPage['items'];

function prepareRead(database: DatabaseSync, beyond: '>' | '<', direction: 'ASC' | 'DESC'): ReadRows {
  const order = `ORDER BY id ${direction} ${LIMIT}`;
  const first = database.prepare(`SELECT id, at, entry FROM log_entries WHERE log = ? ${order}`);
  const later = database.prepare(`SELECT id, at, entry FROM log_entries WHERE log = ? AND id ${beyond} ? ${order}`);
  return (log, after, limit) => {
    const rows = after === undefined ? first.all(log, limit) : later.all(log, parseId(after), limit);
    return rows.map(entryOf);
  };
}

function entryOf(row: Record<string, unknown>): LogPage['items'][number] {
  return { id: String(row.id), at: Number(row.at), entry: String(row.entry) };
}

const ID = /^[0-9]{1,15}$/;

function parseId(after: string): number {
  if (!ID.test(after)) throw invalidCursor();
  return Number(after);
}
