/** The embedded store: assembles its parts on one database file that several processes may share. */

import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { once } from '../../once.ts';
import { assertOneTag, keyOf } from '../key-tag.ts';
import { kindOf, RELAXED_KINDS } from '../keys.ts';
import { MIN_ROOM_BYTES, type Store, type WalkedRecord, type Write } from '../store.ts';
import { sqliteCopies } from './copies.ts';
import { createSqliteCounters } from './counters.ts';
import { openDatabase } from './database.ts';
import { isStorageFault } from './faults.ts';
import { createSqliteIndexes } from './indexes.ts';
import { createSqliteLeases } from './leases.ts';
import { createSqliteLogs } from './logs.ts';
import { createSqliteNotices } from './notices.ts';
import { createSqliteReader, type SqliteReader } from './reader.ts';
import { assertWritable, createSqliteRecords } from './records.ts';
import { createSqliteSpace } from './space.ts';
import { startSqliteSweep } from './sweep.ts';
import { createSqliteWriter, type SqliteWriter } from './writer.ts';

export interface SqliteStoreOptions {
  /** Holds the database; made, for its owner alone, where it is missing. */
  directory: string;
  /** Milliseconds since the epoch; decides on lifetimes and leases. */
  clock?: () => number;
  /** Between 0 and 1; spreads the retries of processes that wait for the database. */
  random?: () => number;
  /** How long a call waits for a busy database before it rejects with `storage_unavailable`. */
  deadlineMilliseconds?: number;
  /** How soon messages of other processes are seen. */
  pollMilliseconds?: number;
  /** How often expired records are removed; they are invisible before. */
  sweepMilliseconds?: number;
}

const isRelaxed = (key: string) => RELAXED_KINDS.has(kindOf(key));
/** What a step only demands is not written. */
const isRelaxedStep = (step: Write) => 'exists' in step || isRelaxed(keyOf(step));

const WALKED_AT_ONCE = 500;

export const DATABASE_FILE = 'gatehouse.sqlite';

/** How long a call waits for a busy database: on a busy machine the process that has the lock may itself wait for a processor. */
export const DEADLINE_MILLISECONDS = 2_000;
const OPEN_DEADLINE_MILLISECONDS = 5_000;

/** Rejects with `DatabaseFileError` where the file must not be used, with `storage_unavailable` where it cannot be now. */
export async function createSqliteStore(options: SqliteStoreOptions): Promise<Store> {
  const { directory, clock = Date.now, random = Math.random, deadlineMilliseconds = DEADLINE_MILLISECONDS } = options;
  const { pollMilliseconds = 20, sweepMilliseconds = 5_000 } = options;
  const openRetry = { deadlineMilliseconds: OPEN_DEADLINE_MILLISECONDS, random };
  const file = join(directory, DATABASE_FILE);
  const database = await openDatabase(file, openRetry);
  const retry = { deadlineMilliseconds, random };
  const writer = createSqliteWriter(database, retry);
  const notices = createSqliteNotices({ database, clock, pollMilliseconds });
  const stopSweep = startSqliteSweep({ database, writer, clock, intervalMilliseconds: sweepMilliseconds });
  const reader = createSqliteReader(database, retry);
  const space = createSqliteSpace(file, retry);
  const touch = createTouch(database);

  return {
    ...recordMethods(database, clock, reader, writer),
    ...logMethods(database, reader, writer),
    ...sqliteCopies({ file, database, clock, read: reader.run, writer }),
    async publish(channel, message) {
      await writer.run(() => notices.insert(channel, message));
      notices.deliver(channel, message);
    },
    async subscribe(channel, listener) {
      const end = await reader.run(() => notices.subscribe(channel, listener));
      return async () => end();
    },
    async ready(bytes = 0) {
      await writer.run(touch);
      await space.reserve(MIN_ROOM_BYTES + bytes);
    },
    close: once(async () => {
      stopSweep();
      reader.end();
      await writer.close();
      notices.close();
      space.close();
      closeDatabase(database);
    }),
  };
}

type RecordMethods = 'get' | 'getUnless' | 'walk' | 'write' | 'page' | 'count' | 'increment' | 'counter';
type LeaseMethods = 'acquireLease' | 'renewLease' | 'releaseLease';

function recordMethods(
  database: DatabaseSync,
  clock: () => number,
  { run: read, runTogether }: SqliteReader,
  writer: SqliteWriter,
): Pick<Store, RecordMethods | LeaseMethods> {
  const leases = createSqliteLeases(database, clock);
  const indexes = createSqliteIndexes(database);
  const records = createSqliteRecords({ database, clock, indexes, leases });
  const counters = createSqliteCounters(database, clock);
  const walkBeyond = (key: string) => read(() => records.beyond(key, WALKED_AT_ONCE));
  return {
    get: (key) => runTogether(() => records.get(key)),
    getUnless: (key, version) => runTogether(() => records.getUnless(key, version)),
    async *walk() {
      let last: string | undefined = '';
      while (last !== undefined) {
        const found: WalkedRecord[] = await walkBeyond(last);
        if (found.length > 0) yield found;
        last = found.at(-1)?.key;
      }
    },
    async write(writes, options = {}) {
      assertWritable(writes, options);
      return writer.run(() => records.write(writes, options), { relaxed: writes.every(isRelaxedStep) });
    },
    page: (index, options) => read(() => indexes.page(index, options)),
    count: (index) => read(() => indexes.count(index)),
    increment: (key, by, options) =>
      writer.run(() => counters.increment(key, by, options), { relaxed: isRelaxed(key) }),
    counter: (key) => read(() => counters.value(key)),
    acquireLease: (lease, owner, milliseconds) => writer.run(() => leases.acquire(lease, owner, milliseconds)),
    renewLease: (lease, owner, milliseconds) => writer.run(() => leases.renew(lease, owner, milliseconds)),
    releaseLease: (lease, owner) => writer.run(() => leases.release(lease, owner)),
  };
}

function logMethods(
  database: DatabaseSync,
  { run: read }: SqliteReader,
  writer: SqliteWriter,
): Pick<Store, 'append' | 'readLog' | 'logEntries' | 'removeEntries'> {
  const logs = createSqliteLogs(database);
  const members = createSqliteIndexes(database);
  return {
    async append(log, entry, at, indexes = []) {
      assertOneTag([log, ...indexes]);
      return writer.run(() => {
        const id = logs.append(log, entry, at);
        for (const index of indexes) members.apply({ index, add: id, score: at });
        return id;
      });
    },
    readLog: (log, options) => read(() => logs.read(log, options)),
    logEntries: (log, ids) => read(() => logs.entries(log, ids)),
    removeEntries: (log, ids) => writer.run(() => logs.remove(log, ids)),
  };
}

/** A commit that reaches the disk, with all that was committed before it. */
function createTouch(database: DatabaseSync): () => void {
  const touch = database.prepare('UPDATE probe SET filler = randomblob(16) WHERE id = 1');
  return () => void touch.run();
}

function closeDatabase(database: DatabaseSync): void {
  try {
    database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  } catch (error) {
    // Nothing is lost: the log has it all, and the next process to open the file goes on from there.
    if (!isStorageFault(error)) throw error;
  } finally {
    database.close();
  }
}
