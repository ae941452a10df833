/** Writes: one queue for each process. Waiting jobs share a transaction, and transactions share a flush to the disk. */
import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { storeClosed, unavailable } from '../unavailable.ts';
import { type FlushFault, isBusy, isStorageFault, toStoreError } from './faults.ts';
import { type LogFlush, refusedBy } from './log-flush.ts';
import { pauseMilliseconds, type RetryOptions, YIELD_MS } from './retry.ts';

interface Job {
  relaxed: boolean;
  isProbe: boolean;
  alone: boolean;
  deadline: number;
  /** Does the work and returns the function that settles it after the commit. */
  start(): () => void;
  fail(error: unknown): void;
}

/** Limits how long one transaction holds up the event loop and other processes. */
const JOBS_PER_TRANSACTION = 64;
/** After it has held the lock this long, in one transaction or several, a process leaves it free for `YIELD_MS`. */
const YIELD_AFTER_MS = 50;

interface WriteOptions {
  /** Resolves once the work is committed, which a power cut may undo, a kill does not. */
  relaxed?: boolean;
  /** No other job shares the transaction. */
  alone?: boolean;
  isProbe?: boolean;
}

export interface SqliteWriter {
  /**
   * Runs synchronous work in an immediate transaction and resolves once it is on disk. A job rejects if it has not begun at
   * its deadline, and then again if it waits more than 10 s for flushes, or 2 s with `isProbe`. An error undoes only this
   * work.
   */
  run<T>(work: () => T, options?: WriteOptions): Promise<T>;
  /**
   * From now on jobs wait in the queue, each until its deadline, until `resume` is called. No transaction is under way.
   * @param reason what is wrong if the pause lasts beyond a deadline
   */
  pause(reason: FlushFault): void;
  resume(): void;
  /** Resolves once there is no pause. @throws AppError `storage_unavailable` at the deadline, by `performance.now()` */
  unpaused(deadline: number): Promise<void>;
  /** Takes no more work and resolves when the work that was taken is done. */
  close(): Promise<void>;
}

/**
 * @param parts `flush`: undefined if no write waits for the disk; `afterCommit`: called after each transaction, and after
 *   each write that the flush refuses
 */
export function createSqliteWriter(
  database: DatabaseSync,
  retry: RetryOptions,
  { flush, afterCommit }: { flush?: LogFlush | undefined; afterCommit?: (() => void) | undefined } = {},
): SqliteWriter {
  const waiting: Job[] = [];
  const transaction = prepareTransaction(database, flush);
  let heldMilliseconds = 0;
  let active = false;
  /** Why no transaction begins now. */
  let pause: FlushFault | undefined;
  let whenIdle: (() => void) | undefined;
  let closed = false;

  /** Only the head of the queue tries the lock, so a busy database costs the event loop the same however long the queue is. */
  function turn(): void {
    const batch = nextBatch(waiting);
    if (batch.length === 0) {
      active = false;
      whenIdle?.();
      return;
    }
    const startedAt = performance.now();
    if (pause || transaction(batch) === 'busy') {
      // After the attempt: if this process was stalled, the database may still take what is overdue.
      failOverdue(waiting, pause);
      heldMilliseconds = 0;
      setTimeout(turn, pauseMilliseconds(retry));
      return;
    }
    waiting.splice(0, batch.length);
    afterCommit?.();
    heldMilliseconds += performance.now() - startedAt;
    if (heldMilliseconds < YIELD_AFTER_MS) {
      setImmediate(turn);
      return;
    }
    // SQLite's lock has no queue: a process that takes it again at once can starve the others.
    heldMilliseconds = 0;
    setTimeout(turn, YIELD_MS);
  }

  return {
    run<T>(work: () => T, { relaxed = false, alone = false, isProbe = false }: WriteOptions = {}) {
      if (closed) return Promise.reject(storeClosed());
      const fault = flush?.fault();
      if (fault) {
        afterCommit?.();
        return Promise.reject(refusedBy(fault));
      }
      return new Promise<T>((resolve, reject) => {
        waiting.push({
          relaxed,
          alone,
          isProbe,
          deadline: performance.now() + retry.deadlineMilliseconds,
          start() {
            const result = work();
            return () => resolve(result);
          },
          fail: (error) => reject(toStoreError(error)),
        });
        if (active) return;
        active = true;
        // Not at once, so that jobs of the same turn of the event loop share the transaction.
        setImmediate(turn);
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
      closed = true;
      if (active) {
        await new Promise<void>((resolve) => {
          whenIdle = resolve;
        });
      }
      await flush?.idle();
    },
  };
}

function nextBatch(waiting: readonly Job[]): Job[] {
  const batch = waiting.slice(0, JOBS_PER_TRANSACTION);
  const apart = batch.findIndex(({ alone }) => alone);
  return apart === -1 ? batch : batch.slice(0, Math.max(apart, 1));
}

function failOverdue(waiting: Job[], pause: FlushFault | undefined): void {
  const now = performance.now();
  while (waiting[0] !== undefined && waiting[0].deadline <= now) {
    const busy = () => unavailable('The write did not get the lock of the database before the deadline');
    waiting.shift()?.fail(pause ? refusedBy(pause) : busy());
  }
}

/** Returns `busy` if nothing was done; otherwise every job of the batch is settled, or waits for the flush. */
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

/** A mistake in one job does not undo the others; a fault of the storage ends the transaction for all of them. */
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
  // Inside a savepoint, the more the transaction has changed, the longer each statement takes: seconds for a part of a copy,
  // which therefore runs `alone`. A single job is undone with its transaction.
  return (batch) => (batch.length > 1 ? batch.map(runJob) : batch.map((job) => job.start()));
}
