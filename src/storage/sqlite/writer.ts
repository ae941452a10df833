/** Writes: one queue for each process. Waiting jobs share a transaction, and so one flush to the disk. */
import type { DatabaseSync } from 'node:sqlite';
import { storeClosed, unavailable } from '../unavailable.ts';
import { isBusy, isStorageFault, toStoreError } from './faults.ts';
import { pauseMilliseconds, type RetryOptions, YIELD_MS } from './retry.ts';

interface Job {
  relaxed: boolean;
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

export type SqliteWriter = ReturnType<typeof createSqliteWriter>;

/** @param durable false: no write waits for the disk */
export function createSqliteWriter(database: DatabaseSync, retry: RetryOptions, durable = true) {
  const waiting: Job[] = [];
  const transaction = prepareTransaction(database, durable);
  let heldMilliseconds = 0;
  let active = false;
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
    if (transaction(batch) === 'busy') {
      // After the attempt: if this process was stalled, the database may still take what is overdue.
      failOverdue(waiting);
      heldMilliseconds = 0;
      setTimeout(turn, pauseMilliseconds(retry));
      return;
    }
    waiting.splice(0, batch.length);
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
    /**
     * Runs synchronous work in an immediate transaction and resolves once it is on disk, or with `relaxed` once it is
     * committed: a power cut may undo that, a kill does not. With `alone` no other job shares the transaction. An error undoes
     * only this work.
     */
    run<T>(work: () => T, { relaxed = false, alone = false } = {}): Promise<T> {
      if (closed) return Promise.reject(storeClosed());
      return new Promise<T>((resolve, reject) => {
        waiting.push({
          relaxed,
          alone,
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
    /** Takes no more work and resolves when the work that was taken is done. */
    close(): Promise<void> {
      closed = true;
      if (!active) return Promise.resolve();
      return new Promise((resolve) => {
        whenIdle = resolve;
      });
    },
  };
}

function nextBatch(waiting: readonly Job[]): Job[] {
  const batch = waiting.slice(0, JOBS_PER_TRANSACTION);
  const apart = batch.findIndex(({ alone }) => alone);
  return apart === -1 ? batch : batch.slice(0, Math.max(apart, 1));
}

function failOverdue(waiting: Job[]): void {
  const now = performance.now();
  while (waiting[0] !== undefined && waiting[0].deadline <= now)
    waiting.shift()?.fail(unavailable('The write did not get the lock of the database before the deadline'));
}

/** Returns `busy` if nothing was done; otherwise every job of the batch is settled. */
function prepareTransaction(database: DatabaseSync, durable: boolean): (batch: readonly Job[]) => 'busy' | 'settled' {
  const begin = database.prepare('BEGIN IMMEDIATE');
  const commit = database.prepare('COMMIT');
  const runJobs = prepareJobs(database);
  const setFlushing = durable ? createFlushing(database) : neverFlush(database);
  return (batch) => {
    try {
      setFlushing(batch.some(({ relaxed }) => !relaxed));
      begin.run();
      const finish = runJobs(batch);
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

/** Sets whether commits wait for the disk. A flush of SQLite's log includes all earlier commits. */
function createFlushing(database: DatabaseSync): (flushed: boolean) => void {
  let now: boolean | undefined;
  return (flushed) => {
    if (flushed === now) return;
    database.exec(`PRAGMA synchronous = ${flushed ? 'FULL' : 'NORMAL'}`);
    now = flushed;
  };
}

function neverFlush(database: DatabaseSync): () => void {
  database.exec('PRAGMA synchronous = OFF');
  return () => undefined;
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
