/** The embedded store: one database file that several processes may share. */
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { AppError, codeOf } from '../../errors.ts';
import { once } from '../../once.ts';
import { isRelaxed } from '../keys.ts';
import type { Store } from '../store.ts';
import { unavailable } from '../unavailable.ts';
import { type CheckpointObserver, type Checkpoints, createCheckpoints } from './checkpoints.ts';
import { recordCleanStop } from './clean-stop.ts';
import { sqliteCopies } from './copies.ts';
import { openDatabase } from './database.ts';
import { sqliteIndexes } from './indexes.ts';
import { sqliteLeases } from './leases.ts';
import { createLogFlush, type FlushObserver, openLog } from './log-flush.ts';
import { END_USE } from './log-state.ts';
import { sqliteLogs } from './logs.ts';
import { sqliteMessages } from './messages.ts';
import type { SqliteParts } from './parts.ts';
import { sqliteProbe } from './probe.ts';
import { createSqliteReader } from './reader.ts';
import { sqliteRecords } from './records.ts';
import { type RetryOptions, retryWhileBusy } from './retry.ts';
import { startSqliteSweep } from './sweep.ts';
import { createSqliteWriter } from './writer.ts';

export interface SqliteStoreOptions {
  /** The folder of the database. If it does not exist, it is created for its owner only. */
  directory: string;
  /** Returns milliseconds since the epoch, for lifetimes and leases. */
  clock?: () => number;
  /** Returns a number between 0 and 1, which spreads the retries of processes that wait for the database. */
  random?: () => number;
  /** The time after which a call that waits for a busy database rejects with `storage_unavailable`. */
  deadlineMilliseconds?: number;
  /**
   * Whether an acknowledged write survives a power cut. Default: true. Set it to false only for data that can be
   * created again.
   */
  durable?: boolean;
  /** The interval at which expired records are removed. They are invisible even before that. */
  sweepMilliseconds?: number;
  /** Receives events for metrics and the log. */
  observer?: SqliteObserver;
}

export interface SqliteObserver extends FlushObserver, CheckpointObserver {
  /** Called with the size of the log in bytes at each check of the probe. */
  logBytes(bytes: number): void;
}

export const DATABASE_FILE = 'gatehouse.sqlite';

/**
 * The deadline is long enough for a busy machine, on which the process with the lock may itself wait for a processor.
 */
export const DEADLINE_MILLISECONDS = 2_000;
const OPEN_DEADLINE_MS = 5_000;

/** @throws StorageRefused if the file must not be used, AppError `storage_unavailable` if it cannot be used now */
export async function createSqliteStore(options: SqliteStoreOptions): Promise<Store> {
  const { directory, clock = Date.now, random = Math.random, deadlineMilliseconds = DEADLINE_MILLISECONDS } = options;
  const file = join(directory, DATABASE_FILE);
  const { durable = true, observer } = options;
  const retry = { deadlineMilliseconds, random };
  const database = await openDatabase(file, { deadlineMilliseconds: OPEN_DEADLINE_MS, random }, durable);
  const log = await openLog(file).catch((cause: unknown) => {
    database.close();
    throw unavailable(`The log of the database cannot be opened: ${codeOf(cause)}`, { cause });
  });
  const flush = durable ? createLogFlush({ file, sync: log.sync, observer }) : undefined;
  let checkpoints: Checkpoints | undefined;
  const writer = createSqliteWriter(database, retry, { flush, afterCommit: () => checkpoints?.consider() });
  if (flush) checkpoints = createCheckpoints({ file, database, writer, flush, observer });
  const reader = createSqliteReader(database, retry);
  const parts = { database, clock, read: reader.run, readTogether: reader.runTogether, write: writer.run };
  const messages = sqliteMessages(parts);
  const probe = sqliteProbe(parts, {
    file,
    retry,
    unpaused: writer.unpaused,
    onMarked: () => checkpoints?.begin(),
    onLogBytes: observer?.logBytes,
  });
  const stopSweep = startSqliteSweep(parts, options.sweepMilliseconds ?? 5_000);

  return {
    ...sqliteRecords(parts),
    ...sqliteIndexes(parts),
    ...sqliteCounters(parts),
    ...sqliteLogs(parts),
    ...sqliteLeases(parts),
    ...sqliteCopies(parts, file),
    publish: messages.publish,
    subscribe: messages.subscribe,
    // The program sets the settings of the database itself, so there is nothing to check.
    admit: async () => ({ failedOver: false }),
    ready: probe.ready,
    close: once(async () => {
      stopSweep();
      reader.end();
      await writer.close();
      await checkpoints?.close();
      messages.close();
      probe.close();
      await log.close();
      await closeDatabase(database, retry);
      // Without flushes, a power cut may undo any write.
      if (durable) recordCleanStop(file);
    }),
  };
}

/** Closes the database. At this point, the main thread may wait for the disk. */
async function closeDatabase(database: DatabaseSync, retry: RetryOptions): Promise<void> {
  try {
    await retryWhileBusy(() => {
      database.exec(END_USE);
      database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    }, retry);
  } catch (error) {
    // Nothing is lost: the log keeps all writes for the next process that opens the file.
    if (!(error instanceof AppError)) throw error;
  } finally {
    database.close();
  }
}

function sqliteCounters({ database, clock, read, write }: SqliteParts): Pick<Store, 'increment' | 'counter'> {
  const select = database.prepare('SELECT value, expires_at FROM counters WHERE key = ? AND expires_at > ?');
  const upsert = database.prepare(`
    INSERT INTO counters (key, value, expires_at) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at`);
  const find = (key: string, now: number) => select.get(key, now) as { value: number; expires_at: number } | undefined;

  return {
    increment(key, by, { lifetimeSeconds, limit }) {
      const increment = () => {
        const now = clock();
        const counter = find(key, now);
        const value = (counter?.value ?? 0) + by;
        if (limit !== undefined && value > limit) return undefined;
        upsert.run(key, value, counter?.expires_at ?? Math.ceil(now + lifetimeSeconds * 1000));
        return value;
      };
      return write(increment, { relaxed: isRelaxed(key) });
    },
    counter: (key) => read(() => find(key, clock())?.value ?? 0),
  };
}
