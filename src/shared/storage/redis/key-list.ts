/** The keys of a copy, tag by tag. There may be millions, so memory holds some of them, and a file the others. */
import { DatabaseSync } from 'node:sqlite';
import { AppError } from '../../errors.ts';
import { keyTag } from '../key-tag.ts';
import { kindOf, LISTING_KINDS } from '../keys.ts';

/** In KiB: the keys of some 100,000 users. */
const MEMORY = 65_536;

interface Row {
  tag: string;
  key: string;
}

/**
 * The file lies in the folder that SQLite takes for temporary files, such as `TMPDIR` or /var/tmp. It has no name there, so it
 * ends with the process. Nothing reads it after a power cut, so it has no journal, and the one transaction never ends.
 */
export function createKeyList() {
  // A database without a name is such a file (SQLite, "Temporary Databases").
  const database = new DatabaseSync('');
  database.exec(`
    PRAGMA cache_size = -${MEMORY};
    PRAGMA journal_mode = OFF;
    CREATE TABLE keys (tag TEXT, is_listing INTEGER, key TEXT, PRIMARY KEY (tag, is_listing, key)) WITHOUT ROWID;
    CREATE TABLE late (tag TEXT, key TEXT);
    BEGIN;
  `);
  const insert = database.prepare('INSERT OR IGNORE INTO keys (tag, is_listing, key) VALUES (?, ?, ?)');
  const all = database.prepare('SELECT tag, is_listing, key FROM keys ORDER BY tag, is_listing, key');
  const putOff = database.prepare('INSERT INTO late (tag, key) VALUES (?, ?)');
  const late = database.prepare('SELECT tag, key FROM late ORDER BY rowid');

  /** The keys of all tags but those that have only lists, which it puts off. */
  function* early(): Generator<Row> {
    let [tag, isLate] = ['', false];
    for (const row of all.iterate() as Iterable<unknown> as Iterable<Row & { is_listing: number }>) {
      // What is no list comes first.
      if (row.tag !== tag) isLate = row.is_listing === 1;
      tag = row.tag;
      if (isLate) putOff.run(tag, row.key);
      else yield row;
    }
  }

  return {
    /** Keys that are in the list already are left out. @throws Error if the file cannot grow */
    add(keys: readonly string[], areIndexes: boolean): void {
      try {
        for (const key of keys) insert.run(keyTag(key), Number(areIndexes || LISTING_KINDS.includes(kindOf(key))), key);
      } catch (error) {
        throw noFile(error);
      }
    },
    /**
     * All keys, in steps of one tag and so many keys at most. Lists come after what they list: last in their tag, and after all
     * others if their tag has only lists. To be called once. @throws Error if the file cannot grow
     */
    *inSteps(most: number): Generator<string[]> {
      try {
        yield* stepsOf(early(), most);
        yield* stepsOf(late.iterate() as Iterable<unknown> as Iterable<Row>, most);
      } catch (error) {
        throw noFile(error);
      }
    },
    close: () => database.close(),
  };
}

function* stepsOf(rows: Iterable<Row>, most: number): Generator<string[]> {
  let tag = '';
  let step: string[] = [];
  for (const row of rows) {
    if (step.length > 0 && (row.tag !== tag || step.length === most)) {
      yield step;
      step = [];
    }
    tag = row.tag;
    step.push(row.key);
  }
  if (step.length > 0) yield step;
}

function noFile(cause: unknown): AppError {
  const fault =
    cause instanceof Error && 'errcode' in cause ? `SQLite returned ${cause.errcode}` : 'an unknown failure';
  const what = 'The list of keys needs a temporary file with up to 300 bytes for each key';
  const detail = `${what}: ${fault}. Set TMPDIR to a folder with room.`;
  return new AppError('internal', { detail, cause });
}
