/** Ordered indexes in the embedded database. */
import type { DatabaseSync } from 'node:sqlite';
import { assertFinite, assertLimit, decodeCursor, encodeCursor, pageOf } from '../paging.ts';
import type { IndexPage, Store, Write } from '../store.ts';
import type { SqliteParts } from './parts.ts';
import { LIMIT } from './schema.ts';

export function sqliteIndexes({ database, read }: SqliteParts): Pick<Store, 'page' | 'count'> {
  const size = database.prepare('SELECT members FROM index_sizes WHERE index_key = ?');
  const countUpTo = database.prepare(
    'SELECT count(*) AS members FROM index_members WHERE index_key = ? AND score <= ?',
  );
  const ascending = preparePages(database, '>', 'ASC');
  const descending = preparePages(database, '<', 'DESC');

  return {
    page: (index, { after, limit, order }) =>
      read(() => {
        const readRows = order === 'descending' ? descending : ascending;
        return pageOf(readRows(index, after, assertLimit(limit) + 1), limit, encodeCursor);
      }),
    count: (index, upTo) =>
      read(() => {
        const row = upTo === undefined ? size.get(index) : countUpTo.get(index, assertFinite(upTo));
        return Number(row?.members ?? 0);
      }),
  };
}

/** Returns a function that adds or removes a member, inside a transaction. */
export function prepareIndexStep(database: DatabaseSync): (step: Extract<Write, { index: string }>) => void {
  const add = database.prepare(`
    INSERT INTO index_members (index_key, member, score) VALUES (?, ?, ?)
    ON CONFLICT (index_key, member) DO UPDATE SET score = excluded.score`);
  const remove = database.prepare('DELETE FROM index_members WHERE index_key = ? AND member = ?');
  return (step) => {
    if ('remove' in step) remove.run(step.index, step.remove);
    else add.run(step.index, step.add, assertFinite(step.score));
  };
}

type ReadRows = (index: string, after: string | undefined, limit: number) => IndexPage['items'];

function preparePages(database: DatabaseSync, beyond: '>' | '<', direction: 'ASC' | 'DESC'): ReadRows {
  const order = `ORDER BY score ${direction}, member ${direction} ${LIMIT}`;
  const first = database.prepare(`SELECT member, score FROM index_members WHERE index_key = ? ${order}`);
  const later = database.prepare(
    `SELECT member, score FROM index_members WHERE index_key = ? AND (score, member) ${beyond} (?, ?) ${order}`,
  );
  return (index, after, limit) => {
    const position = after === undefined ? undefined : decodeCursor(after);
    const rows = position ? later.all(index, position.score, position.member, limit) : first.all(index, limit);
    return rows.map((row) => ({ member: String(row.member), score: Number(row.score) }));
  };
}
