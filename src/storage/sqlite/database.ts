/** The database file: making it whole or not at all, refusing a damaged or foreign one, and its durability settings. */

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
import { isDamage } from './faults.ts';
import { BUSY_TIMEOUT_MILLISECONDS, type RetryOptions, retryWhileBusy } from './retry.ts';
import { APPLICATION_ID, migrate, readPragma, SCHEMA_VERSION } from './schema.ts';

export type DatabaseFileReason = 'missing' | 'damaged' | 'foreign' | 'newer';

/** The file cannot be used, and an operator has to decide; the message says what to do. */
export class DatabaseFileError extends Error {
  readonly reason: DatabaseFileReason;

  constructor(reason: DatabaseFileReason, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'DatabaseFileError';
    this.reason = reason;
  }
}

const HEADER = 'SQLite format 3\0';
const RESTORE = 'Put a backup in its place, or move it away to start with nothing.';

/**
 * `synchronous=FULL`: a confirmed write survives a power cut; writer.ts relaxes it for records that may be lost.
 * `secure_delete`: what was purged is overwritten. `temp_store`: nothing spills to a temporary folder.
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

/** Opens the file, making it first where there is none. Rejects with `DatabaseFileError` or `storage_unavailable`. */
export async function openDatabase(file: string, retry: RetryOptions): Promise<DatabaseSync> {
  return retryWhileBusy(() => {
    ensureFile(file);
    checkHeader(file);
    return openExisting(file);
  }, retry);
}

function ensureFile(file: string): void {
  // The log is looked for first: in the other order, a file that another process is just making would look lost.
  const hasLog = existsSync(`${file}-wal`);
  if (existsSync(file)) {
    if (statSync(file).mode & 0o077) chmodSync(file, 0o600);
    return;
  }
  if (hasLog) {
    throw new DatabaseFileError('missing', `The database ${file} is gone but its log ${file}-wal is there. ${RESTORE}`);
  }
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  makeFile(file);
}

/** Made under another name and linked into place: a kill leaves no half-made database, a second process no second one. */
function makeFile(file: string): void {
  const draft = `${file}.${randomUUID()}.new`;
  try {
    closeSync(openSync(draft, 'wx', 0o600));
    const database = new DatabaseSync(draft);
    try {
      migrate(database);
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
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  }
  const folder = openSync(dirname(file), 'r');
  fsyncSync(folder);
  closeSync(folder);
}

/** SQLite takes an empty file for a new database; here it can only be what is left of one. */
function checkHeader(file: string): void {
  const header = Buffer.alloc(HEADER.length);
  const descriptor = openSync(file, 'r');
  readSync(descriptor, header, 0, header.length, 0);
  closeSync(descriptor);
  if (header.toString('latin1') === HEADER) return;
  const state = statSync(file).size === 0 ? 'is empty' : 'is not a database';
  throw new DatabaseFileError('damaged', `The file ${file} ${state}. ${RESTORE}`);
}

/** A connection to a database that is there. */
export function connect(file: string): DatabaseSync {
  const url = pathToFileURL(file);
  url.searchParams.set('mode', 'rw');
  return new DatabaseSync(url, { timeout: BUSY_TIMEOUT_MILLISECONDS });
}

function openExisting(file: string): DatabaseSync {
  const database = connect(file);
  try {
    checkOwner(database, file);
    checkIntegrity(database, file);
    migrate(database);
    database.exec(SETTINGS);
    return database;
  } catch (error) {
    database.close();
    if (isDamage(error)) throw new DatabaseFileError('damaged', `The database ${file} is damaged. ${RESTORE}`, error);
    throw error;
  }
}

function checkOwner(database: DatabaseSync, file: string): void {
  if (readPragma(database, 'application_id') !== APPLICATION_ID) {
    throw new DatabaseFileError(
      'foreign',
      `The database ${file} was not made by this program. Set DATA_DIR to another folder.`,
    );
  }
  const version = Number(readPragma(database, 'user_version'));
  if (version > SCHEMA_VERSION) {
    throw new DatabaseFileError(
      'newer',
      `The database ${file} has version ${version}; this release knows ${SCHEMA_VERSION}. Start the newer release.`,
    );
  }
}

function checkIntegrity(database: DatabaseSync, file: string): void {
  const result = String(readPragma(database, 'quick_check(1)')).replaceAll('\n', ' ');
  if (result !== 'ok') throw new DatabaseFileError('damaged', `The database ${file} is damaged: ${result}. ${RESTORE}`);
}
