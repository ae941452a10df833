/** Keeps disk space for the writes that follow, so that a disk that is nearly full shows before they are needed. */

import { connect } from './database.ts';
import { type RetryOptions, retryWhileBusy } from './retry.ts';

export interface SqliteSpace {
  /** Rejects with `storage_unavailable` where the disk has no room for so much. */
  reserve(bytes: number): Promise<void>;
  close(): void;
}

/**
 * Writes random bytes to the write-ahead log and takes them back: the log keeps the space, and the next commits overwrite
 * it (https://sqlite.org/walformat.html). A committed write would use up the very space that it found. A cache of a few
 * pages makes SQLite write before the end of the transaction. Random, since file systems compress zeros to nothing.
 */
export function createSqliteSpace(file: string, retry: RetryOptions): SqliteSpace {
  const database = connect(file);
  database.exec('PRAGMA cache_size = 8');
  const fill = database.prepare('UPDATE probe SET filler = randomblob(?) WHERE id = 1');
  const fillAndTakeBack = (bytes: number) => {
    database.exec('BEGIN IMMEDIATE');
    try {
      fill.run(bytes);
    } finally {
      // SQLite itself may have ended it, as it does where the disk is full.
      if (database.isTransaction) database.exec('ROLLBACK');
    }
  };
  return {
    reserve: (bytes) => retryWhileBusy(() => fillAndTakeBack(bytes), retry),
    close: () => database.close(),
  };
}
