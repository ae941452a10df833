/** Copies of the embedded database: reads a snapshot of all data, and loads it. */
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import type { CopyItem, Store } from '../store.ts';
import { prepareIndexStep } from './indexes.ts';
import type { SqliteParts } from './parts.ts';
import { ALIVE } from './schema.ts';

type CopyMethods = 'dump' | 'load' | 'logIdAt' | 'clear';

const ITEMS_AT_ONCE = 500;
const MICROSECONDS = 1_000;

export function sqliteCopies(parts: SqliteParts, file: string): Pick<Store, CopyMethods> {
  const { database, clock, read, write } = parts;
  const loadAll = prepareLoad(parts);
  return {
    async *dump() {
      const snapshot = await read(() => openSnapshot(file));
      try {
        for (const { sql, isTimed, itemOf } of TABLES) {
          let items: CopyItem[] = [];
          for (const row of snapshot.prepare(sql).iterate(...(isTimed ? [clock()] : []))) {
            items.push(itemOf(row as unknown as Row));
            if (items.length < ITEMS_AT_ONCE) continue;
            yield items;
            items = [];
          }
          if (items.length > 0) yield items;
        }
      } finally {
        snapshot.close();
      }
    },
    load: (items) => write(() => loadAll(items), { separate: true }),
    logIdAt: String,
    clear: (exceptKey) =>
      write(() => {
        database.prepare('DELETE FROM records WHERE key <> ?').run(exceptKey);
        for (const table of ['index_members', 'counters', 'log_entries']) database.exec(`DELETE FROM ${table}`);
      }),
  };
}

/** Opens a separate connection, in a transaction that sees no later writes and blocks no writer. */
function openSnapshot(file: string): DatabaseSync {
  const snapshot = new DatabaseSync(file, { readOnly: true, timeout: 0 });
  try {
    // The first read begins the transaction.
    snapshot.exec('BEGIN; SELECT count(*) FROM sequence');
    return snapshot;
  } catch (error) {
    snapshot.close();
    throw error;
  }
}

interface Row {
  key: string;
  value: string;
  number: number;
  end: number | null;
}

/**
 * The tables in the order of a dump, all with the same columns. `isTimed`: the statement has the time as its parameter.
 */
const TABLES: readonly { sql: string; isTimed: boolean; itemOf: (row: Row) => CopyItem }[] = [
  {
    sql: 'SELECT log AS key, entry AS value, at AS number, id AS end FROM log_entries ORDER BY log, id',
    isTimed: false,
    itemOf: ({ key, value, number, end }) => ({ log: key, id: String(end), at: number, entry: value }),
  },
  {
    sql: `SELECT key, value, version AS number, expires_at AS end FROM records WHERE ${ALIVE}`,
    isTimed: true,
    itemOf: ({ key, value, number, end }) =>
      end === null ? { record: key, value, version: number } : { record: key, value, version: number, expiresAt: end },
  },
  {
    sql: 'SELECT index_key AS key, member AS value, score AS number, NULL AS end FROM index_members',
    isTimed: false,
    itemOf: ({ key, value, number }) => ({ index: key, member: value, score: number }),
  },
  {
    sql: `SELECT key, '' AS value, value AS number, expires_at AS end FROM counters WHERE ${ALIVE}`,
    isTimed: true,
    itemOf: ({ key, number, end }) => ({ counter: key, value: number, expiresAt: end ?? 0 }),
  },
];

/** Returns a function that writes items of a copy, inside a transaction. */
function prepareLoad({ database, clock }: SqliteParts): (items: readonly CopyItem[]) => void {
  const put = (table: string, columns: string) => {
    const placeholders = columns.replaceAll(/\w+/g, '?');
    const statement = database.prepare(`INSERT OR REPLACE INTO ${table} (${columns}) VALUES (${placeholders})`);
    return (...values: SQLInputValue[]) => void statement.run(...values);
  };
  const putRecord = put('records', 'key, value, version, expires_at');
  const changeIndex = prepareIndexStep(database);
  const putCounter = put('counters', 'key, value, expires_at');
  const putEntry = put('log_entries', 'id, log, at, entry');
  const advanceSequence = database.prepare('UPDATE sequence SET value = max(value, ?)');

  return (items) => {
    let highestVersion = 0;
    for (const item of items) {
      if ('record' in item) {
        putRecord(item.record, item.value, item.version, item.expiresAt ?? null);
        highestVersion = Math.max(highestVersion, item.version);
      } else if ('index' in item) changeIndex({ index: item.index, add: item.member, score: item.score });
      else if ('counter' in item) putCounter(item.counter, item.value, item.expiresAt);
      else putEntry(Number(item.id), item.log, item.at, item.entry);
    }
    // Versions that were used after the copy was made must not repeat, and the copy does not contain them. The sequence
    // continues from the time in microseconds, which is higher than any number of writes.
    advanceSequence.run(Math.max(highestVersion, Math.floor(clock() * MICROSECONDS)));
  };
}
