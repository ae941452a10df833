/** Append-only logs in the embedded database. */
import type { DatabaseSync } from 'node:sqlite';
import { assertOneTag } from '../key-tag.ts';
import { assertFinite, assertLimit, invalidCursor, pageOf } from '../paging.ts';
import type { LogPage, Store } from '../store.ts';
import { prepareIndexStep } from './indexes.ts';
import type { SqliteParts } from './parts.ts';
import { LIMIT } from './schema.ts';

type LogMethods = 'append' | 'readLog' | 'logEntries' | 'removeEntries';

export function sqliteLogs({ database, read, write }: SqliteParts): Pick<Store, LogMethods> {
  const insert = database.prepare('INSERT INTO log_entries (log, at, entry) VALUES (?, ?, ?)');
  const removeOne = database.prepare('DELETE FROM log_entries WHERE log = ? AND id = ?');
  const selectOne = database.prepare('SELECT id, at, entry FROM log_entries WHERE log = ? AND id = ?');
  const changeIndex = prepareIndexStep(database);
  const ascending = prepareRead(database, '>', 'ASC');
  const descending = prepareRead(database, '<', 'DESC');

  return {
    async append(log, entries) {
      assertOneTag([log, ...entries.flatMap(({ indexes = [] }) => indexes)]);
      return write(() =>
        entries.map(({ entry, at, indexes = [] }) => {
          const id = String(insert.run(log, assertFinite(at), entry).lastInsertRowid);
          for (const index of indexes) changeIndex({ index, add: id, score: at });
          return id;
        }),
      );
    },
    readLog: (log, { after, limit, order }) =>
      read(() => {
        const rows = (order === 'descending' ? descending : ascending)(log, after, assertLimit(limit) + 1);
        return pageOf(rows, limit, ({ id }) => id);
      }),
    logEntries: (log, ids) =>
      read(() => ids.filter((id) => ID.test(id)).flatMap((id) => selectOne.all(log, Number(id)).map(entryOf))),
    removeEntries: (log, ids) =>
      write(() => {
        for (const id of ids) if (ID.test(id)) removeOne.run(log, Number(id));
      }),
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
