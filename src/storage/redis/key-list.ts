/** The keys of a copy, tag by tag. There may be millions, so memory holds only the first of them, and a file the others. */
import { DatabaseSync } from 'node:sqlite';
import { keyTag } from '../key-tag.ts';
import { kindOf, LISTING_KINDS } from '../keys.ts';

/** In KiB: the keys of some 100,000 users. */
const MEMORY = 65_536;

export type KeyList = ReturnType<typeof createKeyList>;

/**
 * Its file lies in `SQLITE_TMPDIR`, `TMPDIR`, /var/tmp or /tmp, the first that can be written to. It has no name there, so it
 * ends with the process, and nothing reads it after a power cut: there is no journal, and one transaction that never ends.
 */
export function createKeyList() {
  // A database without a name is such a file (SQLite, "Temporary Databases").
  const database = new DatabaseSync('');
  database.exec(`
    PRAGMA cache_size = -${MEMORY};
    PRAGMA journal_mode = OFF;
    CREATE TABLE keys (tag TEXT, key TEXT, is_listing INTEGER, PRIMARY KEY (tag, key)) WITHOUT ROWID;
    BEGIN;
  `);
  const insert = database.prepare('INSERT OR IGNORE INTO keys (tag, key, is_listing) VALUES (?, ?, ?)');
  const select = database.prepare(
    'SELECT json_group_array(key) AS keys FROM keys GROUP BY tag HAVING min(is_listing) = ?',
  );
  return {
    /** Keys that are in the list already are left out. @throws Error if the file finds no room */
    add(keys: readonly string[], areIndexes: boolean): void {
      try {
        for (const key of keys) insert.run(keyTag(key), key, Number(areIndexes || LISTING_KINDS.includes(kindOf(key))));
      } catch (cause) {
        throw new Error(
          'The list of keys finds no room in the temporary folder (some 300 bytes for each key). Set TMPDIR to another folder.',
          { cause },
        );
      }
    },
    /** The keys of each tag, first of the tags that have more than lists: lists are read after what they list. */
    *byTag(): Generator<string[]> {
      for (const onlyLists of [0, 1]) {
        for (const { keys } of select.iterate(onlyLists)) yield JSON.parse(String(keys));
      }
    },
    close: () => database.close(),
  };
}
