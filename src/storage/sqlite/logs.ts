/** Append-only logs in the embedded database. */

import type { DatabaseSync } from 'node:sqlite';
import { assertLimit, assertTime, invalidCursor, pageOf } from '../paging.ts';
import type { LogPage, PageOptions } from '../store.ts';
import { LIMIT } from './schema.ts';

export interface SqliteLogs {
  /** Inside a transaction only, as `remove`. */
  append(log: string, entry: string, at: number): string;
  read(log: string, options: PageOptions): LogPage;
  entries(log: string, ids: readonly string[]): LogPage['items'];
  remove(log: string, ids: readonly string[]): void;
}

export function createSqliteLogs(database: DatabaseSync): SqliteLogs {
  const insert = database.prepare('INSERT INTO log_entries (log, at, entry) VALUES (?, ?, ?)');
  const removeOne = database.prepare('DELETE FROM log_entries WHERE log = ? AND id = ?');
  const one = database.prepare('SELECT id, at, entry FROM log_entries WHERE log = ? AND id = ?');
  const ascending = prepareRead(database, '>', 'ASC');
  const descending = prepareRead(database, '<', 'DESC');

  return {
    append(log, entry, at) {
      return String(insert.run(log, assertTime(at), entry).lastInsertRowid);
    },
    read(log, { after, limit, order }) {
      const rows = (order === 'descending' ? descending : ascending)(log, after, assertLimit(limit) + 1);
      return pageOf(rows, limit, ({ id }) => id);
    },
    entries: (log, ids) => ids.filter((id) => ID.test(id)).flatMap((id) => one.all(log, Number(id)).map(entryOf)),
    remove(log, ids) {
      for (const id of ids) if (ID.test(id)) removeOne.run(log, Number(id));
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
