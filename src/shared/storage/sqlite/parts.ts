/** The parts that all methods of the embedded store share. */
import type { DatabaseSync } from 'node:sqlite';
import type { SqliteReader } from './reader.ts';
import type { SqliteWriter } from './writer.ts';

export interface SqliteParts {
  database: DatabaseSync;
  /** Milliseconds since the epoch. */
  clock: () => number;
  read: SqliteReader['run'];
  readTogether: SqliteReader['runTogether'];
  write: SqliteWriter['run'];
}
