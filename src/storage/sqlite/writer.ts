/** The order of writes: one queue for each process, whose waiting jobs share a transaction and so one disk flush. */

import type { DatabaseSync } from 'node:sqlite';
import { AppError } from '../../errors.ts';
import { isBusy, isStorageFault, storeClosed, toStoreError } from './faults.ts';
import { pauseMilliseconds, type RetryOptions } from './retry.ts';

export interface SqliteWriter {
  /**
   * Runs synchronous work inside an immediate transaction and resolves once it is on disk, or with `relaxed` once it is
   * committed: a power cut may undo that, a kill does not. An error undoes that work alone.
   */
  run<T>(work: () => T, options?: { relaxed?: boolean }): Promise<T>;
  /** Takes no more work and resolves when what was taken is done. */
  close(): Promise<void>;
}

interface Job {
  relaxed: boolean;
  deadline: number;
  /** Does the work and answers what to do with its result after the commit. */
  start(): () => void;
  fail(error: unknown): void;
}

/** Bounds how long one transaction keeps the event loop and other processes waiting. */
const JOBS_PER_TRANSACTION = 64;

export function createSqliteWriter(
  database: DatabaseSync,
  { deadlineMilliseconds, random }: RetryOptions,
): SqliteWriter {
  const waiting: Job[] = [];
  const transaction = createTransaction(database);
  let busyAttempts = 0;
  let active = false;
  let whenIdle: (() => void) | undefined;
  let closed = false;

  /** Only the head of the queue tries the lock, so that a busy database costs the event loop the same whatever waits. */
  function turn(): void {
    const batch = waiting.slice(0, JOBS_PER_TRANSACTION);
    if (batch.length === 0) {
      active = false;
      whenIdle?.();
      return;
    }
    if (transaction(batch) === 'busy') {
      // Judged after the attempt: a stall of this very process must not refuse what the database would have taken.
      failOverdue(waiting);
      setTimeout(turn, pauseMilliseconds(busyAttempts, random));
      busyAttempts += 1;
      return;
    }
    busyAttempts = 0;
    waiting.splice(0, batch.length);
    setImmediate(turn);
  }

  return {
    run<T>(work: () => T, { relaxed = false } = {}): Promise<T> {
      if (closed) return Promise.reject(storeClosed());
      return new Promise<T>((resolve, reject) => {
        waiting.push({
          relaxed,
          deadline: performance.now() + deadlineMilliseconds,
          start() {
            const result = work();
            return () => resolve(result);
          },
          fail: (error) => reject(toStoreError(error)),
        });
        if (active) return;
        active = true;
        // Not at once: jobs of the same turn of the event loop then share the transaction.
        setImmediate(turn);
      });
    },
    close() {
      closed = true;
      if (!active) return Promise.resolve();
      return new Promise((resolve) => {
        whenIdle = resolve;
      });
    },
  };
}

function failOverdue(waiting: Job[]): void {
  const now = performance.now();
  while (waiting[0] !== undefined && waiting[0].deadline <= now) {
    const overdue = waiting.shift();
    overdue?.fail(
      new AppError('storage_unavailable', {
        logDetail: 'The database stayed locked past the deadline',
        retryAfterSeconds: 1,
      }),
    );
  }
}

/** Answers `busy` when nothing was done; otherwise every job of the batch is settled. */
function createTransaction(database: DatabaseSync): (batch: readonly Job[]) => 'busy' | 'settled' {
  const begin = database.prepare('BEGIN IMMEDIATE');
  const commit = database.prepare('COMMIT');
  const runJob = createJobRunner(database);
  const setFlushing = createFlushing(database);
  return (batch) => {
    try {
      setFlushing(batch.some(({ relaxed }) => !relaxed));
      begin.run();
      const finish = batch.map(runJob);
      commit.run();
      for (const settle of finish) settle();
    } catch (error) {
      if (database.isTransaction) database.exec('ROLLBACK');
      if (isBusy(error)) return 'busy';
      for (const job of batch) job.fail(error);
    }
    return 'settled';
  };
}

/** Whether commits wait for the disk from now on. In the log of SQLite a flush takes along all that was committed before. */
function createFlushing(database: DatabaseSync): (flushed: boolean) => void {
  let now: boolean | undefined;
  return (flushed) => {
    if (flushed === now) return;
    database.exec(`PRAGMA synchronous = ${flushed ? 'FULL' : 'NORMAL'}`);
    now = flushed;
  };
}

/** A mistake in one job must not undo its neighbours; a fault of the storage ends the transaction for all of them. */
function createJobRunner(database: DatabaseSync): (job: Job) => () => void {
  const savepoint = database.prepare('SAVEPOINT job');
  const release = database.prepare('RELEASE job');
  const undo = database.prepare('ROLLBACK TO job');
  return (job) => {
    savepoint.run();
    try {
      const finish = job.start();
      release.run();
      return finish;
    } catch (error) {
      if (isStorageFault(error)) throw error;
      undo.run();
      release.run();
      return () => job.fail(error);
    }
  };
}
