/** The keys of a copy, ordered by tag. There may be millions, so only some are in memory, and a file has the others. */
import { DatabaseSync } from 'node:sqlite';
import { AppError } from '../../errors.ts';
import { keyTag } from '../key-tag.ts';
import { kindOf, LISTING_KINDS } from '../keys.ts';

/** The cache in memory has room for the keys of about 100,000 users. */
const CACHE_KIB = 65_536;

interface Row {
  tag: string;
  key: string;
}

/**
 * Creates an empty list. Its file is in the folder that SQLite uses for temporary files, such as `TMPDIR` or /var/tmp.
 * The file has no name, so it disappears with the process. It is never read after a power cut, so it has no journal,
 * and its only transaction never ends.
 */
export function createKeyList() {
  // An empty name creates a temporary file (SQLite, "Temporary Databases").
  const database = new DatabaseSync('');
  database.exec(`
    PRAGMA cache_size = -${CACHE_KIB};
    PRAGMA journal_mode = OFF;
    CREATE TABLE keys (tag TEXT, is_listing INTEGER, key TEXT, PRIMARY KEY (tag, is_listing, key)) WITHOUT ROWID;
    CREATE TABLE deferred (tag TEXT, key TEXT);
    BEGIN;
  `);
  const insert = database.prepare('INSERT OR IGNORE INTO keys (tag, is_listing, key) VALUES (?, ?, ?)');
  const selectAll = database.prepare('SELECT tag, is_listing, key FROM keys ORDER BY tag, is_listing, key');
  const insertDeferred = database.prepare('INSERT INTO deferred (tag, key) VALUES (?, ?)');
  const selectDeferred = database.prepare('SELECT tag, key FROM deferred ORDER BY rowid');

  /** Returns the keys of all tags, except tags that have only lists, which are deferred. */
  function* firstRows(): Generator<Row> {
    let [tag, isDeferred] = ['', false];
    for (const row of selectAll.iterate() as Iterable<unknown> as Iterable<Row & { is_listing: number }>) {
      // Lists come last in their tag, so a tag that begins with a list has only lists.
      if (row.tag !== tag) isDeferred = row.is_listing === 1;
      tag = row.tag;
      if (isDeferred) insertDeferred.run(tag, row.key);
      else yield row;
    }
  }

  return {
    /** Adds keys, except those that are already in the list. @throws AppError `internal` if the file cannot grow */
    add(keys: readonly string[], areIndexes: boolean): void {
      try {
        for (const key of keys) insert.run(keyTag(key), Number(areIndexes || LISTING_KINDS.includes(kindOf(key))), key);
      } catch (error) {
        throw fileError(error);
      }
    },
    /**
     * Returns all keys, in groups of one tag and at most `maxKeys` keys. Lists come after the records that they list:
     * last in their tag, and after all other tags if their tag has only lists. May be called only once.
     * @throws AppError `internal` if the file cannot grow
     */
    *inGroups(maxKeys: number): Generator<string[]> {
      try {
        yield* groupsOf(firstRows(), maxKeys);
        yield* groupsOf(selectDeferred.iterate() as Iterable<unknown> as Iterable<Row>, maxKeys);
      } catch (error) {
        throw fileError(error);
      }
    },
    close: () => database.close(),
  };
}

function* groupsOf(rows: Iterable<Row>, maxKeys: number): Generator<string[]> {
  let tag = '';
  let group: string[] = [];
  for (const row of rows) {
    if (group.length > 0 && (row.tag !== tag || group.length === maxKeys)) {
      yield group;
      group = [];
    }
    tag = row.tag;
    group.push(row.key);
  }
  if (group.length > 0) yield group;
}

function fileError(cause: unknown): AppError {
  const fault =
    cause instanceof Error && 'errcode' in cause ? `SQLite returned ${cause.errcode}` : 'an unknown failure';
  const need = 'The list of keys needs a temporary file with up to 300 bytes for each key';
  const detail = `${need}: ${fault}. Set TMPDIR to a folder with enough space.`;
  return new AppError('internal', { detail, cause });
}
