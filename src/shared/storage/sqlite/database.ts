/**
 * Opens or creates the database file with durable settings, and refuses a file that is damaged or of another program.
 */
import { randomUUID } from 'node:crypto';
import { chmodSync, closeSync, existsSync, fsyncSync, linkSync, mkdirSync, openSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { codeOf } from '../../errors.ts';
import { releaseCandidateRefused, StorageRefused } from '../refused.ts';
import { consumeCleanStop } from './clean-stop.ts';
import { isDamage, isForeign } from './faults.ts';
import { assertOwnLog, beginUse, hasLog } from './log-state.ts';
import { type RetryOptions, retryWhileBusy } from './retry.ts';
import { APPLICATION_ID, createTables, readPragma, TABLES_VERSION } from './schema.ts';

const RESTORE = 'Restore a backup, or move the file away to start with an empty storage.';

/**
 * `synchronous=NORMAL`: a commit does not wait for the disk; `log-flush.ts` flushes the log before a write is
 * acknowledged. `wal_autocheckpoint=0`: a separate thread of `checkpoints.ts` makes checkpoints. `secure_delete`:
 * deleted content is overwritten. `temp_store`: nothing is written to a temporary folder.
 */
const SETTINGS = `
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = NORMAL;
  PRAGMA wal_autocheckpoint = 0;
  PRAGMA fullfsync = ON;
  PRAGMA checkpoint_fullfsync = ON;
  PRAGMA secure_delete = ON;
  PRAGMA temp_store = MEMORY;
  PRAGMA trusted_schema = OFF;
  PRAGMA cell_size_check = ON;
  PRAGMA journal_size_limit = 67108864;
`;

/** Without flushes, the main thread can copy the log itself. */
const SETTINGS_IF_NOT_DURABLE = `
  PRAGMA synchronous = OFF;
  PRAGMA wal_autocheckpoint = 1000;
`;

/**
 * Opens the file, or creates it.
 * @param durable false for data that can be created again; the file may then already be open in this process
 * @throws StorageRefused, or AppError `storage_unavailable`
 */
export function openDatabase(file: string, retry: RetryOptions, durable = true): Promise<DatabaseSync> {
  return retryWhileBusy(() => {
    ensureFile(file);
    return openExisting(file, durable);
  }, retry);
}

function ensureFile(file: string): void {
  // The log is checked before the file: otherwise, a database that another process is just creating would look lost.
  const hadLog = hasLog(file);
  if (existsSync(file)) {
    const { mode, size } = statSync(file);
    // SQLite would treat an empty file as a new database, but here it can only be the remains of a lost one.
    if (size === 0) throw new StorageRefused(`The file ${file} is empty. ${RESTORE}`);
    if (mode & 0o077) chmodSync(file, 0o600);
    return;
  }
  if (hadLog)
    throw new StorageRefused(
      `The database ${file} is gone, but its log ${file}-wal exists. Restore a backup, or move the log away to start with an ` +
        'empty storage.',
    );
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  createFile(file);
}

/**
 * Creates the file under a temporary name and links it, so that a kill or a second process leaves no partial database.
 */
function createFile(file: string): void {
  const temporaryFile = `${file}.${randomUUID()}.new`;
  try {
    closeSync(openSync(temporaryFile, 'wx', 0o600));
    const database = new DatabaseSync(temporaryFile);
    try {
      createTables(database);
      database.exec(SETTINGS);
    } finally {
      database.close();
    }
    linkIfAbsent(temporaryFile, file);
  } finally {
    for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(`${temporaryFile}${suffix}`, { force: true });
  }
}

function linkIfAbsent(temporaryFile: string, file: string): void {
  try {
    linkSync(temporaryFile, file);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  }
  const folder = openSync(dirname(file), 'r');
  fsyncSync(folder);
  closeSync(folder);
}

/**
 * Connects to an existing database. By default there is no busy timeout, since SQLite blocks the thread while it waits.
 */
export function connect(file: string, busyMilliseconds = 0): DatabaseSync {
  const url = pathToFileURL(file);
  url.searchParams.set('mode', 'rw');
  return new DatabaseSync(url, { timeout: busyMilliseconds });
}

function openExisting(file: string, durable: boolean): DatabaseSync {
  // Checked before the file is opened, because opening it creates a log.
  const wasClosed = consumeCleanStop(file);
  if (durable && !wasClosed) assertOwnLog(file);
  const database = connect(file);
  try {
    checkOwner(database, file);
    if (!wasClosed) checkIntegrity(database, file);
    database.exec(SETTINGS);
    if (!durable) database.exec(SETTINGS_IF_NOT_DURABLE);
    using reader = connect(file);
    beginUse(database, reader);
    return database;
  } catch (error) {
    if (database.isOpen) database.close();
    if (isForeign(error)) throw new StorageRefused(`The file ${file} is not a database. ${RESTORE}`, error);
    if (isDamage(error)) throw new StorageRefused(`The database ${file} is damaged. ${RESTORE}`, error);
    throw error;
  }
}

function checkOwner(database: DatabaseSync, file: string): void {
  if (readPragma(database, 'application_id') !== APPLICATION_ID)
    throw new StorageRefused(`The database ${file} belongs to another program. Set DATA_DIR to another folder.`);
  const version = Number(readPragma(database, 'user_version'));
  if (version < TABLES_VERSION) throw releaseCandidateRefused();
  if (version > TABLES_VERSION) {
    throw new StorageRefused(
      `The database ${file} has version ${version}; this release needs version ${TABLES_VERSION}. Start the newer release.`,
    );
  }
}

function checkIntegrity(database: DatabaseSync, file: string): void {
  const result = String(readPragma(database, 'quick_check(1)')).replaceAll('\n', ' ');
  if (result !== 'ok') throw new StorageRefused(`The database ${file} is damaged: ${result}. ${RESTORE}`);
}
