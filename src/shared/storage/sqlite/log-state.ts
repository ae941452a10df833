/**
 * Whether the database file and the log beside it belong together, in the table `log_state`. Each time that the log begins anew, it
 * gets a generation of its own. The database file has that of the log, or the one before it as long as nothing was copied.
 * `in_use` is 1 in the file while writes may be in the log alone: from the opening until the last process has closed it.
 */
import { statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { StorageRefused } from '../refused.ts';
import { isBusy, isStorageFault } from './faults.ts';
import { readPragma } from './schema.ts';

/** Begins a generation. Only in the first transaction of a log, or a moment later. */
export const BEGIN_GENERATION = 'UPDATE log_state SET in_use = 1, previous = generation, generation = randomblob(8)';
export const MARK_IN_USE = 'UPDATE log_state SET in_use = 1';
/** A write that always adds to the log: SQLite leaves out an update that changes nothing. */
export const TOUCH = 'UPDATE probe SET filler = randomblob(16) WHERE id = 1';
export const END_USE = 'UPDATE log_state SET in_use = 0';

/** Shorter logs hold no transaction: the header (https://sqlite.org/fileformat2.html#walformat). */
const LOG_HEADER_BYTES = 32;

export function hasLog(file: string): boolean {
  return statSync(`${file}-wal`, { throwIfNoEntry: false }) !== undefined;
}

/**
 * Before the first connection, since even closing one would copy another database's log into the file. It reads the file without
 * its log, which must not happen while this process has it open: that would end SQLite's locks.
 * @throws StorageRefused if the log is missing, of another database, or of another state of this one
 */
export function assertOwnLog(file: string): void {
  const size = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size;
  if (size === undefined) assertNoLogNeeded(file);
  else if (size > LOG_HEADER_BYTES) assertSameTime(file);
}

/** How often it looks before it refuses, since another process may open, close or copy the log between two looks. */
const LOOKS = 3;

/** A crash leaves the log, so a file that is in use and has none is a copy. */
function assertNoLogNeeded(file: string): void {
  for (let look = 0; look < LOOKS; look += 1) {
    if (stateOf(() => withoutLog(file))?.inUse !== 1 || hasLog(file)) return;
  }
  throw new StorageRefused(
    `The database ${file} was in use, and its log ${file}-wal is missing. Most likely the file was copied without it, and ` +
      'what was written last is not there. Stop every process and copy both files, or restore a backup. To go on with what ' +
      `is there, which may bring back ended sessions and spent tokens: touch ${file}-wal`,
  );
}

function assertSameTime(file: string): void {
  for (let look = 0; look < LOOKS; look += 1) {
    // As a reader it changes nothing, and copies nothing when it is closed.
    const inLog = stateOf(() => new DatabaseSync(file, { readOnly: true, timeout: 0 }));
    const inFile = stateOf(() => withoutLog(file));
    // What is wrong with the file itself is found when it is opened.
    if (inFile === undefined) return;
    if (inFile.generation === inLog?.generation || inFile.generation === inLog?.previous) return;
  }
  throw new StorageRefused(
    `The log ${file}-wal does not belong to the database ${file}: they are from different times or places. Put both files of ` +
      'one time there, or move both away and restore a backup.',
  );
}

function withoutLog(file: string): DatabaseSync {
  const url = pathToFileURL(file);
  url.search = '?mode=ro&immutable=1';
  return new DatabaseSync(url);
}

interface LogState {
  inUse: number;
  generation: string;
  previous: string;
}

/** Undefined if it cannot be read. @throws the error of a busy database */
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
 * Marks the file as in use, on the disk, before anything is written that would be in the log alone.
 * @param reader a second connection
 */
export function beginUse(database: DatabaseSync, reader: DatabaseSync): void {
  const inUse = database.prepare('SELECT in_use FROM log_state').get()?.in_use === 1;
  const { log, checkpointed } = database.prepare('PRAGMA wal_checkpoint(NOOP)').get() ?? {};
  if (inUse && log !== checkpointed) return;
  try {
    database.exec(BEGIN_GENERATION);
    // If all of the log were copied, the next write would begin it anew, and wait for the disk. The reader prevents that.
    reader.exec('BEGIN');
    reader.prepare('SELECT in_use FROM log_state').get();
    database.exec(TOUCH);
    readPragma(database, 'wal_checkpoint(PASSIVE)');
    reader.exec('COMMIT');
  } catch (error) {
    // A full disk keeps no process from starting. The probe marks the file later.
    if (isBusy(error) || !isStorageFault(error)) throw error;
  }
}
