/** Copies of the embedded database: everything given out as of one moment, and put in its place again. */

import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import type { KeptItem, Store } from '../store.ts';
import { BUSY_TIMEOUT_MILLISECONDS } from './retry.ts';
import { ALIVE } from './schema.ts';
import type { SqliteWriter } from './writer.ts';

export interface SqliteCopyParts {
  file: string;
  database: DatabaseSync;
  clock: () => number;
  /** Does it once the database is open and not busy. */
  read: <T>(work: () => T) => Promise<T>;
  writer: SqliteWriter;
}

type CopyMethods = 'dump' | 'load' | 'logIdAt' | 'clear';

const GIVEN_AT_ONCE = 500;
const MICROSECONDS = 1_000;

export function sqliteCopies({ file, database, clock, read, writer }: SqliteCopyParts): Pick<Store, CopyMethods> {
  const loadAll = createLoader(database, clock);
  return {
    async *dump() {
      const snapshot = await read(() => openSnapshot(file));
      try {
        for (const { sql, isTimed, itemOf } of TABLES) {
          let items: KeptItem[] = [];
          for (const row of snapshot.prepare(sql).iterate(...(isTimed ? [clock()] : []))) {
            items.push(itemOf(row as unknown as Row));
            if (items.length < GIVEN_AT_ONCE) continue;
            yield items;
            items = [];
          }
          if (items.length > 0) yield items;
        }
      } finally {
        snapshot.close();
      }
    },
    load: (items) => writer.run(() => loadAll(items)),
    logIdAt: String,
    async clear(spared) {
      await writer.run(() => {
        database.prepare('DELETE FROM records WHERE key <> ?').run(spared);
        for (const table of ['index_members', 'counters', 'log_entries']) database.exec(`DELETE FROM ${table}`);
      });
    },
  };
}

/** A connection of its own, in a transaction that sees nothing of what is written from now on, and keeps no writer waiting. */
function openSnapshot(file: string): DatabaseSync {
  const snapshot = new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT_MILLISECONDS });
  try {
    // The transaction begins with its first reading.
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

/** In the order of a dump. All answer the same columns. */
const TABLES: readonly { sql: string; isTimed: boolean; itemOf: (row: Row) => KeptItem }[] = [
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

/** Inside a transaction only. */
function createLoader(database: DatabaseSync, clock: () => number): (items: readonly KeptItem[]) => void {
  const put = (table: string, columns: string) => {
    const places = columns.replaceAll(/\w+/g, '?');
    const statement = database.prepare(`INSERT OR REPLACE INTO ${table} (${columns}) VALUES (${places})`);
    return (...values: SQLInputValue[]) => void statement.run(...values);
  };
  const putRecord = put('records', 'key, value, version, expires_at');
  const putMember = put('index_members', 'index_key, member, score');
  const putCounter = put('counters', 'key, value, expires_at');
  const putEntry = put('log_entries', 'id, log, at, entry');
  const pushSequence = database.prepare('UPDATE sequence SET value = max(value, ?)');

  return (items) => {
    let highest = 0;
    for (const item of items) {
      if ('record' in item) putRecord(item.record, item.value, item.version, item.expiresAt ?? null);
      else if ('index' in item) putMember(item.index, item.member, item.score);
      else if ('counter' in item) putCounter(item.counter, item.value, item.expiresAt);
      else putEntry(Number(item.id), item.log, item.at, item.entry);
      if ('record' in item) highest = Math.max(highest, item.version);
    }
    // Versions that were given after the copy was made are lost with their records, and must not come again: the sequence goes
    // on from the time in microseconds, which no number of writes overtakes.
    pushSequence.run(Math.max(highest, Math.floor(clock() * MICROSECONDS)));
  };
}
