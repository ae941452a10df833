/** The database file: created completely or not at all, refused if it is damaged or another program's, with durable settings. */
import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { codeOf } from '../../errors.ts';
import { fromCandidate, StorageRefused } from '../refused.ts';
import { takeCleanStop } from './clean-stop.ts';
import { isDamage } from './faults.ts';
import { type RetryOptions, retryWhileBusy } from './retry.ts';
import { APPLICATION_ID, createTables, readPragma, TABLES_VERSION } from './schema.ts';

const HEADER = 'SQLite format 3\0';
const RESTORE = 'Put a backup in its place, or move it away to start with nothing.';

/**
 * `synchronous=FULL`: a confirmed write survives a power cut (writer.ts relaxes this for records that may be lost).
 * `secure_delete`: deleted content is overwritten. `temp_store`: nothing is written to a temporary folder.
 */
const SETTINGS = `
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  PRAGMA fullfsync = ON;
  PRAGMA checkpoint_fullfsync = ON;
  PRAGMA secure_delete = ON;
  PRAGMA temp_store = MEMORY;
  PRAGMA trusted_schema = OFF;
  PRAGMA cell_size_check = ON;
  PRAGMA journal_size_limit = 67108864;
`;

/** Opens the file, or creates it. @throws StorageRefused, or AppError `storage_unavailable` */
export function openDatabase(file: string, retry: RetryOptions): Promise<DatabaseSync> {
  return retryWhileBusy(() => {
    ensureFile(file);
    checkHeader(file);
    return openExisting(file);
  }, retry);
}

function ensureFile(file: string): void {
  // In the other order, a database that another process is creating would seem to be lost.
  const hasLog = existsSync(`${file}-wal`);
  if (existsSync(file)) {
    if (statSync(file).mode & 0o077) chmodSync(file, 0o600);
    return;
  }
  if (hasLog) throw new StorageRefused(`The database ${file} is gone but its log ${file}-wal is there. ${RESTORE}`);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  createFile(file);
}

/** Creates it under another name and links it: a kill leaves no partial database, and of two processes one creates it. */
function createFile(file: string): void {
  const draft = `${file}.${randomUUID()}.new`;
  try {
    closeSync(openSync(draft, 'wx', 0o600));
    const database = new DatabaseSync(draft);
    try {
      createTables(database);
      database.exec(SETTINGS);
    } finally {
      database.close();
    }
    linkIfAbsent(draft, file);
  } finally {
    for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(`${draft}${suffix}`, { force: true });
  }
}

function linkIfAbsent(draft: string, file: string): void {
  try {
    linkSync(draft, file);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  }
  const folder = openSync(dirname(file), 'r');
  fsyncSync(folder);
  closeSync(folder);
}

/** SQLite takes an empty file for a new database; here it can only be the remains of one. */
function checkHeader(file: string): void {
  const header = Buffer.alloc(HEADER.length);
  const descriptor = openSync(file, 'r');
  readSync(descriptor, header, 0, header.length, 0);
  closeSync(descriptor);
  if (header.toString('latin1') === HEADER) return;
  const state = statSync(file).size === 0 ? 'is empty' : 'is not a database';
  throw new StorageRefused(`The file ${file} ${state}. ${RESTORE}`);
}

/** Connects to a database that exists. There is no busy timeout: while SQLite waits for a lock, it blocks the event loop. */
export function connect(file: string): DatabaseSync {
  const url = pathToFileURL(file);
  url.searchParams.set('mode', 'rw');
  return new DatabaseSync(url, { timeout: 0 });
}

function openExisting(file: string): DatabaseSync {
  // Before the file is opened, which makes a log.
  const wasClosed = takeCleanStop(file);
  const database = connect(file);
  try {
    checkOwner(database, file);
    if (!wasClosed) checkIntegrity(database, file);
    database.exec(SETTINGS);
    return database;
  } catch (error) {
    if (database.isOpen) database.close();
    if (isDamage(error)) throw new StorageRefused(`The database ${file} is damaged. ${RESTORE}`, error);
    throw error;
  }
}

function checkOwner(database: DatabaseSync, file: string): void {
  if (readPragma(database, 'application_id') !== APPLICATION_ID)
    throw new StorageRefused(`The database ${file} was not made by this program. Set DATA_DIR to another folder.`);
  const version = Number(readPragma(database, 'user_version'));
  if (version < TABLES_VERSION) throw fromCandidate();
  if (version > TABLES_VERSION) {
    throw new StorageRefused(
      `The database ${file} has version ${version}; this release knows ${TABLES_VERSION}. Start the newer release.`,
    );
  }
}

function checkIntegrity(database: DatabaseSync, file: string): void {
  const result = String(readPragma(database, 'quick_check(1)')).replaceAll('\n', ' ');
  if (result !== 'ok') throw new StorageRefused(`The database ${file} is damaged: ${result}. ${RESTORE}`);
}
