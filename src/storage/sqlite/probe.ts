/** Shows that the embedded store can take a write, and reserves disk space for the writes that follow. */
import { MIN_ROOM_BYTES, type Store } from '../store.ts';
import { connect } from './database.ts';
import type { SqliteParts } from './parts.ts';
import { type RetryOptions, retryWhileBusy } from './retry.ts';

/**
 * `ready` commits a small write, then writes random bytes to the write-ahead log and rolls them back: the log keeps the
 * space, and the next commits overwrite it (https://sqlite.org/walformat.html). A commit would use up the space that it
 * found. With a cache of a few pages, SQLite writes before the end of the transaction. The bytes are random, because file
 * systems compress zeros to nothing.
 */
export function sqliteProbe(
  { database, write }: Pick<SqliteParts, 'database' | 'write'>,
  { file, retry }: { file: string; retry: RetryOptions },
): Pick<Store, 'ready'> & { close(): void } {
  const touch = database.prepare('UPDATE probe SET filler = randomblob(16) WHERE id = 1');
  const separate = connect(file);
  separate.exec('PRAGMA cache_size = 8');
  const fill = separate.prepare('UPDATE probe SET filler = randomblob(?) WHERE id = 1');
  const reserve = (bytes: number) => {
    separate.exec('BEGIN IMMEDIATE');
    try {
      fill.run(bytes);
    } finally {
      // If the disk is full, SQLite has rolled back already.
      if (separate.isTransaction) separate.exec('ROLLBACK');
    }
  };
  return {
    async ready(bytes = 0) {
      const deadline = performance.now() + retry.deadlineMilliseconds;
      await write(() => void touch.run());
      const deadlineMilliseconds = deadline - performance.now();
      await retryWhileBusy(() => reserve(MIN_ROOM_BYTES + bytes), { ...retry, deadlineMilliseconds });
    },
    close: () => separate.close(),
  };
}
