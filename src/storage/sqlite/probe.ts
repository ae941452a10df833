/** Shows that the embedded store can take a write, and reserves disk space for the writes that follow. */
import { statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { MIN_ROOM_BYTES, type Store } from '../store.ts';
import { connect } from './database.ts';
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

/**
 * `ready` commits a small write, then writes random bytes to the write-ahead log and rolls them back: the log keeps the
 * space, and the next commits overwrite it (https://sqlite.org/walformat.html). A commit would use up the space that it
 * found. With a cache of a few pages, SQLite writes before the end of the transaction. The bytes are random, because file
 * systems compress zeros to nothing. Where the log has the room already, nothing more is written: the next commit would wait
 * until the disk has all of it.
 */
export function sqliteProbe(
  { database, write }: Pick<SqliteParts, 'database' | 'write'>,
  { file, retry }: { file: string; retry: RetryOptions },
): Pick<Store, 'ready'> & { close(): void } {
  const touch = database.prepare('UPDATE probe SET filler = randomblob(16) WHERE id = 1');
  const separate = connect(file);
  separate.exec('PRAGMA cache_size = 8');
  const frames = separate.prepare('PRAGMA wal_checkpoint(NOOP)');
  const roomInLog = () => {
    const log = statSync(`${file}-wal`, { throwIfNoEntry: false });
    const onDisk = log ? Math.min(log.size, log.blocks * BLOCK_BYTES) : 0;
    return onDisk - LOG_HEADER_BYTES - Number(frames.get()?.log) * FRAME_BYTES;
  };
  const isNearlyFull = () => {
    const { bavail, bsize } = statfsSync(dirname(file));
    return bavail * bsize < NEARLY_FULL_BYTES;
  };
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
  const ensureRoom = (bytes: number) => {
    if (isNearlyFull()) reserve(bytes);
    else if (roomInLog() < bytes) reserve(bytes + SPARE_BYTES);
  };
  return {
    async ready(bytes = 0) {
      const deadline = performance.now() + retry.deadlineMilliseconds;
      await write(() => void touch.run());
      const deadlineMilliseconds = deadline - performance.now();
      await retryWhileBusy(() => ensureRoom(MIN_ROOM_BYTES + bytes), { ...retry, deadlineMilliseconds });
    },
    close: () => separate.close(),
  };
}
