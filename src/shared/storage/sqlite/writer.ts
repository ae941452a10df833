/** Runs writes from one queue per process. Waiting jobs share a transaction, and transactions share a flush to disk. */
import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { storeClosed, unavailable } from '../unavailable.ts';
import { type FlushFault, isBusy, isStorageFault, toStoreError } from './faults.ts';
import { type LogFlush, refusedBy } from './log-flush.ts';
import { pauseMilliseconds, type RetryOptions, YIELD_MS } from './retry.ts';

interface Job {
  relaxed: boolean;
  isProbe: boolean;
  separate: boolean;
  deadline: number;
  /** Does the work and returns a function that resolves the job after the commit. */
  start(): () => void;
  fail(error: unknown): void;
}

/** Limits how long a transaction blocks the event loop and other processes. */
const JOBS_PER_TRANSACTION = 64;
/**
 * After a process has held the lock for this time, in one or several transactions, it leaves the lock free for
 * `YIELD_MS`.
 */
const YIELD_AFTER_MS = 50;

interface WriteOptions {
  /** Resolves once the work is committed. A power cut may undo it, but not a kill. */
  relaxed?: boolean;
  /** Runs the job in a separate transaction. */
  separate?: boolean;
  isProbe?: boolean;
}

export interface SqliteWriter {
  /**
   * Runs synchronous work in an immediate transaction and resolves once it is on disk. Rejects if the work has not
   * begun at its deadline, or if it then waits more than 10 s for flushes (2 s with `isProbe`). An error undoes only
   * this work.
   */
  run<T>(work: () => T, options?: WriteOptions): Promise<T>;
  /**
   * Makes jobs wait in the queue, each until its deadline, until `resume` is called. No transaction runs during the
   * pause.
   * @param reason the fault to report if the pause exceeds a deadline
   */
  pause(reason: FlushFault): void;
  resume(): void;
  /** Resolves once there is no pause. @throws AppError `storage_unavailable` at the deadline, by `performance.now()` */
  unpaused(deadline: number): Promise<void>;
  /** Refuses further work, and resolves when the queued work is done. */
  close(): Promise<void>;
}

/**
 * @param parts `flush`: undefined if writes do not wait for the disk; `afterCommit`: called after each transaction, and
 *   after each write that is refused because of a fault of the flush
 */
export function createSqliteWriter(
  database: DatabaseSync,
  retry: RetryOptions,
  { flush, afterCommit }: { flush?: LogFlush | undefined; afterCommit?: (() => void) | undefined } = {},
): SqliteWriter {
  const waitingJobs: Job[] = [];
  const transaction = prepareTransaction(database, flush);
  let heldMilliseconds = 0;
  let isActive = false;
  /** The reason for the present pause. */
  let pause: FlushFault | undefined;
  let whenIdle: (() => void) | undefined;
  let isClosed = false;

  /** Only the first batch tries the lock, so the cost of a busy database does not depend on the length of the queue. */
  function runNextBatch(): void {
    const batch = nextBatch(waitingJobs);
    if (batch.length === 0) {
      isActive = false;
      whenIdle?.();
      return;
    }
    const startedAt = performance.now();
    if (pause || transaction(batch) === 'busy') {
      // Overdue writes fail only after the attempt: if this process was stalled, the database may still accept them.
      failOverdue(waitingJobs, pause);
      heldMilliseconds = 0;
      setTimeout(runNextBatch, pauseMilliseconds(retry));
      return;
    }
    waitingJobs.splice(0, batch.length);
    afterCommit?.();
    heldMilliseconds += performance.now() - startedAt;
    if (heldMilliseconds < YIELD_AFTER_MS) {
      setImmediate(runNextBatch);
      return;
    }
    // SQLite's lock has no queue, so a process that acquires it again at once can starve the others.
    heldMilliseconds = 0;
    setTimeout(runNextBatch, YIELD_MS);
  }

  return {
    run<T>(work: () => T, { relaxed = false, separate = false, isProbe = false }: WriteOptions = {}) {
      if (isClosed) return Promise.reject(storeClosed());
      const fault = flush?.fault();
      if (fault) {
        afterCommit?.();
        return Promise.reject(refusedBy(fault));
      }
      return new Promise<T>((resolve, reject) => {
        waitingJobs.push({
          relaxed,
          separate,
          isProbe,
          deadline: performance.now() + retry.deadlineMilliseconds,
          start() {
            const result = work();
            return () => resolve(result);
          },
          fail: (error) => reject(toStoreError(error)),
        });
        if (isActive) return;
        isActive = true;
        // The batch is deferred, so that jobs of the same turn of the event loop share the transaction.
        setImmediate(runNextBatch);
      });
    },
    pause(reason) {
      pause = reason;
    },
    resume() {
      pause = undefined;
    },
    async unpaused(deadline) {
      while (pause) {
        if (performance.now() >= deadline) throw refusedBy(pause);
        await sleep(pauseMilliseconds(retry));
      }
    },
    async close() {
      isClosed = true;
      if (isActive) {
        await new Promise<void>((resolve) => {
          whenIdle = resolve;
        });
      }
      await flush?.idle();
    },
  };
}

function nextBatch(waitingJobs: readonly Job[]): Job[] {
  const batch = waitingJobs.slice(0, JOBS_PER_TRANSACTION);
  const index = batch.findIndex(({ separate }) => separate);
  return index === -1 ? batch : batch.slice(0, Math.max(index, 1));
}

function failOverdue(waitingJobs: Job[], pause: FlushFault | undefined): void {
  const now = performance.now();
  while (waitingJobs[0] !== undefined && waitingJobs[0].deadline <= now) {
    const error = pause
      ? refusedBy(pause)
      : unavailable('The write did not get the lock of the database before the deadline');
    waitingJobs.shift()?.fail(error);
  }
}

/**
 * Returns a function that runs a batch. It returns `busy` if no job was run. Otherwise every job of the batch is
 * settled or waits for the flush.
 */
function prepareTransaction(
  database: DatabaseSync,
  flush: LogFlush | undefined,
): (batch: readonly Job[]) => 'busy' | 'settled' {
  const begin = database.prepare('BEGIN IMMEDIATE');
  const commit = database.prepare('COMMIT');
  const runJobs = prepareJobs(database);
  const settle = ({ relaxed, isProbe, fail }: Job, done: () => void) => {
    if (relaxed || flush === undefined) done();
    else flush.wait({ done, fail, isProbe });
  };
  return (batch) => {
    try {
      begin.run();
      const finish = runJobs(batch);
      commit.run();
      for (const [n, job] of batch.entries()) settle(job, finish[n] ?? (() => undefined));
    } catch (error) {
      if (database.isTransaction) database.exec('ROLLBACK');
      if (isBusy(error)) return 'busy';
      for (const job of batch) job.fail(error);
    }
    return 'settled';
  };
}

/**
 * Returns a function that runs jobs. An error in one job does not undo the others, but a fault of the storage ends the
 * transaction for all jobs.
 */
function prepareJobs(database: DatabaseSync): (batch: readonly Job[]) => (() => void)[] {
  const savepoint = database.prepare('SAVEPOINT job');
  const release = database.prepare('RELEASE job');
  const undo = database.prepare('ROLLBACK TO job');
  const runJob = (job: Job) => {
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
  // Inside a savepoint, each statement takes longer the more the transaction has changed: seconds for a part of a copy,
  // which is therefore `separate`. A single job needs no savepoint, since it is undone with its transaction.
  return (batch) => (batch.length > 1 ? batch.map(runJob) : batch.map((job) => job.start()));
}
