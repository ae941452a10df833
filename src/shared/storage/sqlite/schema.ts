/** The tables of the embedded database. The `user_version` of a file is their version. */
import type { DatabaseSync } from 'node:sqlite';

/** "GATE": marks a file as ours (`PRAGMA application_id`). */
export const APPLICATION_ID = 0x47415445;

/** Rises with each change of the tables. A program opens only files with its own version. */
export const TABLES_VERSION = 4;

const TABLES = `
  CREATE TABLE sequence (value INTEGER NOT NULL) STRICT;
  INSERT INTO sequence (value) VALUES (0);

  CREATE TABLE records (
    key TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL,
    version INTEGER NOT NULL,
    expires_at INTEGER
  ) STRICT;
  CREATE INDEX records_by_expiry ON records (expires_at) WHERE expires_at IS NOT NULL;

  CREATE TABLE index_members (
    index_key TEXT NOT NULL,
    member TEXT NOT NULL,
    score REAL NOT NULL,
    PRIMARY KEY (index_key, member)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX index_members_by_score ON index_members (index_key, score, member);

  CREATE TABLE counters (
    key TEXT PRIMARY KEY NOT NULL,
    value INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX counters_by_expiry ON counters (expires_at);

  CREATE TABLE log_entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    log TEXT NOT NULL,
    at INTEGER NOT NULL,
    entry TEXT NOT NULL
  ) STRICT;
  CREATE INDEX log_entries_by_log ON log_entries (log, id);

  CREATE TABLE leases (
    lease TEXT PRIMARY KEY NOT NULL,
    owner TEXT NOT NULL,
    number INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    -- If a lease has more time left than this, the clock was set back.
    length INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX leases_by_expiry ON leases (expires_at);

  CREATE TABLE notices (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    channel TEXT NOT NULL,
    message TEXT NOT NULL,
    origin TEXT NOT NULL,
    at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX notices_by_time ON notices (at);

  CREATE TABLE probe (id INTEGER PRIMARY KEY CHECK (id = 1), filler BLOB NOT NULL) STRICT;
  INSERT INTO probe (id, filler) VALUES (1, zeroblob(0));

  -- Shows whether the log belongs to the file: see log-state.ts.
  CREATE TABLE log_state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    in_use INTEGER NOT NULL,
    generation BLOB NOT NULL,
    previous BLOB NOT NULL
  ) STRICT;
  INSERT INTO log_state (id, in_use, generation, previous) VALUES (1, 0, randomblob(8), randomblob(8));

  -- SQLite needs 50 ms to count a million members, during which the process would serve no request.
  CREATE TABLE index_sizes (
    index_key TEXT PRIMARY KEY NOT NULL,
    members INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TRIGGER index_member_added AFTER INSERT ON index_members BEGIN
    INSERT INTO index_sizes (index_key, members) VALUES (NEW.index_key, 1)
    ON CONFLICT (index_key) DO UPDATE SET members = members + 1;
  END;
  CREATE TRIGGER index_member_removed AFTER DELETE ON index_members BEGIN
    UPDATE index_sizes SET members = members - 1 WHERE index_key = OLD.index_key;
    DELETE FROM index_sizes WHERE index_key = OLD.index_key AND members = 0;
  END;
`;

/** The condition that a row has not expired. Its parameter is the time. */
export const ALIVE = '(expires_at IS NULL OR expires_at > ?)';

/**
 * The end of a statement. A plain `LIMIT ?` is part of the query plan, so SQLite would parse the statement again at
 * each run, which takes 15 µs instead of 3 µs.
 */
export const LIMIT = 'LIMIT CAST(? AS INTEGER)';

export function readPragma(database: DatabaseSync, name: string): unknown {
  return Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {})[0];
}

/** Creates the tables in an empty database. */
export function createTables(database: DatabaseSync): void {
  database.exec(
    `BEGIN; ${TABLES} PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${TABLES_VERSION}; COMMIT`,
  );
}

/** Returns a function that returns the next number of the file's only sequence. Numbers never repeat. */
export function createSequence(database: DatabaseSync): () => number {
  const next = database.prepare('UPDATE sequence SET value = value + 1 RETURNING value');
  return () => {
    // Unlike get(), all() runs the statement to its end, which reports a failed write.
    const [row] = next.all() as { value: number }[];
    if (row === undefined) throw new Error('The sequence of the database is missing.');
    return row.value;
  };
}
