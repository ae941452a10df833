/** Shows that the embedded store can take a write, and reserves disk space for the writes that follow. */
import { statfsSync, statSync } from 'node:fs';
import { MIN_FREE_BYTES, type Store } from '../store.ts';
import { storeClosed } from '../unavailable.ts';
import { connect } from './database.ts';
import { rememberFiles } from './identity.ts';
import { MARK_IN_USE, TOUCH } from './log-state.ts';
import type { SqliteParts } from './parts.ts';
import { type RetryOptions, retryWhileBusy } from './retry.ts';

/**
 * With less free space than this, each check writes what it reserves: a file system that copies on write needs free space also
 * for bytes that are overwritten.
 */
const NEARLY_FULL_BYTES = 64 * 1024 * 1024;
/** Reserved in addition, so that the next checks find room and write nothing. */
const SPARE_BYTES = 4 * 1024 * 1024;
/** The log has a header, and one before each page (https://sqlite.org/fileformat2.html#walformat). */
const [LOG_HEADER_BYTES, FRAME_BYTES] = [32, 24 + 4_096];
/** The unit in which `stat` counts what a file has on the disk. */
const BLOCK_BYTES = 512;

export interface ProbeOptions {
  file: string;
  retry: RetryOptions;
  /** Resolves while the log is not about to begin anew: with its first write, this connection would wait for the disk. */
  unpaused?: (deadline: number) => Promise<void>;
  /** Called after the file was marked as in use, because another process had closed it. */
  onMarked?: () => void;
  onLogBytes?: ((bytes: number) => void) | undefined;
}

/**
 * `ready` commits a small write, then writes random bytes to the write-ahead log and rolls them back: the log keeps the
 * space, and the next commits overwrite it (https://sqlite.org/walformat.html). A commit would use up the space that it
 * found. With a cache of a few pages, SQLite writes before the end of the transaction. The bytes are random, because file
 * systems compress zeros to nothing. If the log has the room already, `ready` leaves them out, since the next commit would have
 * to wait until they are on the disk.
 */
export function sqliteProbe(
  { database, write }: Pick<SqliteParts, 'database' | 'write'>,
  { file, retry, unpaused, onMarked, onLogBytes }: ProbeOptions,
): Pick<Store, 'ready'> & { close(): void } {
  const checkFiles = rememberFiles(file, onLogBytes);
  const touch = database.prepare(TOUCH);
  const mark = database.prepare(`${MARK_IN_USE} WHERE in_use = 0`);
  const separate = connect(file);
  separate.exec('PRAGMA cache_size = 8');
  const logState = separate.prepare('PRAGMA wal_checkpoint(NOOP)');
  const roomInLog = (): number => {
    // While another process changes the head of the log, the state is busy, and has no number of frames.
    const { busy, log: frames } = logState.get() ?? {};
    if (busy !== 0) return 0;
    const { size, blocks } = statSync(`${file}-wal`);
    return Math.min(size, blocks * BLOCK_BYTES) - LOG_HEADER_BYTES - Number(frames) * FRAME_BYTES;
  };
  /** How many bytes have to be written so that `bytes` are reserved. */
  const missingRoom = (bytes: number): number => {
    try {
      const { bavail, bsize } = statfsSync(file);
      if (bavail * bsize < NEARLY_FULL_BYTES) return bytes;
      return roomInLog() >= bytes ? 0 : bytes + SPARE_BYTES;
    } catch {
      // The write then shows what is wrong.
      return bytes;
    }
  };
  const fill = separate.prepare('UPDATE probe SET filler = randomblob(?) WHERE id = 1');
  const reserve = (bytes: number) => {
    if (bytes === 0) return;
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
      if (!database.isOpen) throw storeClosed();
      await checkFiles().catch((error: unknown) => {
        // The last process that closes the database deletes the log.
        throw database.isOpen ? error : storeClosed();
      });
      const deadline = performance.now() + retry.deadlineMilliseconds;
      const marked = await write(
        () => {
          touch.run();
          return mark.run().changes === 1;
        },
        { isProbe: true },
      );
      if (marked) onMarked?.();
      await unpaused?.(deadline);
      const deadlineMilliseconds = deadline - performance.now();
      await retryWhileBusy(() => reserve(missingRoom(MIN_FREE_BYTES + bytes)), { ...retry, deadlineMilliseconds });
    },
    close: () => separate.close(),
  };
}
