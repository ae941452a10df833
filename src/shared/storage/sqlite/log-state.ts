/**
 * Checks by the table `log_state` whether the database file and its log belong together. Each time the log is
 * restarted, it gets a new generation. The database file has the generation of the log, or the previous one as long as
 * nothing was copied. `in_use` is 1 in the file while writes may be only in the log: from when it is opened until the
 * last process has closed it.
 */
import { statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { StorageRefused } from '../refused.ts';
import { isBusy, isStorageFault } from './faults.ts';
import { readPragma } from './schema.ts';

/** Begins a generation, in the first transaction of a log or a moment later. */
export const BEGIN_GENERATION = 'UPDATE log_state SET in_use = 1, previous = generation, generation = randomblob(8)';
export const MARK_IN_USE = 'UPDATE log_state SET in_use = 1';
/** Always adds to the log, unlike an update that changes nothing. */
export const TOUCH = 'UPDATE probe SET filler = randomblob(16) WHERE id = 1';
export const END_USE = 'UPDATE log_state SET in_use = 0';

/** The size of the header (https://sqlite.org/fileformat2.html#walformat). A log of this size has no transaction. */
const LOG_HEADER_BYTES = 32;

export function hasLog(file: string): boolean {
  return statSync(`${file}-wal`, { throwIfNoEntry: false }) !== undefined;
}

/**
 * Checks that the log belongs to the database. Must be called before the first connection, since even closing a
 * connection would copy the log of another database into the file. Must not be called while this process has the file
 * open: it reads the file without its log, which ends SQLite's locks.
 * @throws StorageRefused if the log is missing, or belongs to another database or another state of this one
 */
export function assertOwnLog(file: string): void {
  const size = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size;
  if (size === undefined) assertNoLogNeeded(file);
  else if (size > LOG_HEADER_BYTES) assertSameGeneration(file);
}

/** The number of checks before a refusal, since another process may open, close or copy the log between two reads. */
const MAX_CHECKS = 3;

/** Checks a file without a log. A crash leaves the log, so a file that is in use but has no log is a copy. */
function assertNoLogNeeded(file: string): void {
  for (let check = 0; check < MAX_CHECKS; check += 1) {
    if (stateOf(() => openWithoutLog(file))?.inUse !== 1 || hasLog(file)) return;
  }
  throw new StorageRefused(
    `The database ${file} was in use, and its log ${file}-wal is missing. Most likely the file was copied without its log, so ` +
      'the last writes are missing. Stop every process and copy both files, or restore a backup. Without the last writes, ended ' +
      `sessions and spent tokens may be back. To continue in spite of that, run: touch ${file}-wal`,
  );
}

function assertSameGeneration(file: string): void {
  for (let check = 0; check < MAX_CHECKS; check += 1) {
    // A read-only connection changes nothing, and copies nothing when it is closed.
    const logState = stateOf(() => new DatabaseSync(file, { readOnly: true, timeout: 0 }));
    const fileState = stateOf(() => openWithoutLog(file));
    // A fault of the file itself is found when it is opened.
    if (fileState === undefined) return;
    if (fileState.generation === logState?.generation || fileState.generation === logState?.previous) return;
  }
  throw new StorageRefused(
    `The log ${file}-wal does not belong to the database ${file}: the files are from different times or databases. Put back ` +
      'both files from the same time, or move both away and restore a backup.',
  );
}

function openWithoutLog(file: string): DatabaseSync {
  const url = pathToFileURL(file);
  url.search = '?mode=ro&immutable=1';
  return new DatabaseSync(url);
}

interface LogState {
  inUse: number;
  generation: string;
  previous: string;
}

/** Reads the table; returns undefined if that is impossible. @throws the error of a busy database */
function stateOf(open: () => DatabaseSync): LogState | undefined {
  let database: DatabaseSync | undefined;
  try {
    database = open();
    const sql = 'SELECT in_use AS inUse, hex(generation) AS generation, hex(previous) AS previous FROM log_state';
    return database.prepare(sql).get() as LogState | undefined;
  } catch (error) {
    if (isBusy(error)) throw error;
    return undefined;
  } finally {
    database?.close();
  }
}

/**
 * Marks the file as in use, on disk, before any write that would be only in the log.
 * @param reader a second connection
 */
export function beginUse(database: DatabaseSync, reader: DatabaseSync): void {
  const inUse = database.prepare('SELECT in_use FROM log_state').get()?.in_use === 1;
  const { log, checkpointed } = database.prepare('PRAGMA wal_checkpoint(NOOP)').get() ?? {};
  if (inUse && log !== checkpointed) return;
  try {
    database.exec(BEGIN_GENERATION);
    // If the log were copied completely, the next write would restart it and wait for the disk. The reader prevents
    // that.
    reader.exec('BEGIN');
    reader.prepare('SELECT in_use FROM log_state').get();
    database.exec(TOUCH);
    readPragma(database, 'wal_checkpoint(PASSIVE)');
    reader.exec('COMMIT');
  } catch (error) {
    // A process can start on a full disk. The probe marks the file later.
    if (isBusy(error) || !isStorageFault(error)) throw error;
  }
}
