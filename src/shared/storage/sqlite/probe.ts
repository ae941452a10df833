/** Checks that the embedded store accepts writes, and reserves disk space for the next writes. */
import { statfsSync, statSync } from 'node:fs';
import { MIN_FREE_BYTES, type Store } from '../store.ts';
import { storeClosed } from '../unavailable.ts';
import { connect } from './database.ts';
import { rememberFiles } from './identity.ts';
import { MARK_IN_USE, TOUCH } from './log-state.ts';
import type { SqliteParts } from './parts.ts';
import { type RetryOptions, retryWhileBusy } from './retry.ts';

/**
 * With less free space than this, each check writes the bytes that it reserves, because a copy-on-write file system
 * needs free space even to overwrite bytes.
 */
const NEARLY_FULL_BYTES = 64 * 1024 * 1024;
/** Additional reserved space, so that the next checks need not write. */
const SPARE_BYTES = 4 * 1024 * 1024;
/** The log has a header, and one before each page (https://sqlite.org/fileformat2.html#walformat). */
const [LOG_HEADER_BYTES, FRAME_BYTES] = [32, 24 + 4_096];
/** The unit of `blocks` in `stat`. */
const BLOCK_BYTES = 512;

export interface ProbeOptions {
  file: string;
  retry: RetryOptions;
  /** Resolves while the log is not about to be restarted: the first write to a new log would wait for the disk. */
  unpaused?: (deadline: number) => Promise<void>;
  /** Called after the file was marked as in use again, because another process had closed it. */
  onMarked?: () => void;
  onLogBytes?: ((bytes: number) => void) | undefined;
}

/**
 * `ready` commits a small write, then writes random bytes to the write-ahead log and rolls them back: the log keeps the
 * space, and the next commits overwrite it (https://sqlite.org/walformat.html). Committing the bytes would use up the
 * space. With a cache of only a few pages, SQLite writes before the end of the transaction. The bytes are random,
 * because file systems compress zeros. If the log already has enough space, `ready` does not write them, since the next
 * commit would have to wait until they are on disk.
 */
export function sqliteProbe(
  { database, write }: Pick<SqliteParts, 'database' | 'write'>,
  { file, retry, unpaused, onMarked, onLogBytes }: ProbeOptions,
): Pick<Store, 'ready'> & { close(): void } {
  const checkFiles = rememberFiles(file, onLogBytes);
  const touch = database.prepare(TOUCH);
  const mark = database.prepare(`${MARK_IN_USE} WHERE in_use = 0`);
  const probeConnection = connect(file);
  probeConnection.exec('PRAGMA cache_size = 8');
  const logState = probeConnection.prepare('PRAGMA wal_checkpoint(NOOP)');
  const spaceInLog = (): number => {
    // While another process changes the header of the log, the state is busy and has no number of frames.
    const { busy, log: frames } = logState.get() ?? {};
    if (busy !== 0) return 0;
    const { size, blocks } = statSync(`${file}-wal`);
    return Math.min(size, blocks * BLOCK_BYTES) - LOG_HEADER_BYTES - Number(frames) * FRAME_BYTES;
  };
  /** The number of bytes to write so that `bytes` are reserved. */
  const missingSpace = (bytes: number): number => {
    try {
      const { bavail, bsize } = statfsSync(file);
      if (bavail * bsize < NEARLY_FULL_BYTES) return bytes;
      return spaceInLog() >= bytes ? 0 : bytes + SPARE_BYTES;
    } catch {
      // The write then reports the fault.
      return bytes;
    }
  };
  const fill = probeConnection.prepare('UPDATE probe SET filler = randomblob(?) WHERE id = 1');
  const reserve = (bytes: number) => {
    if (bytes === 0) return;
    probeConnection.exec('BEGIN IMMEDIATE');
    try {
      fill.run(bytes);
    } finally {
      // If the disk is full, SQLite has already rolled back.
      if (probeConnection.isTransaction) probeConnection.exec('ROLLBACK');
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
      await retryWhileBusy(() => reserve(missingSpace(MIN_FREE_BYTES + bytes)), { ...retry, deadlineMilliseconds });
    },
    close: () => probeConnection.close(),
  };
}
