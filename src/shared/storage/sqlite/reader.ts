/** Runs reads. All reads of one turn of the event loop share a transaction, and so one lock of the file. */
import type { DatabaseSync } from 'node:sqlite';
import { storeClosed } from '../unavailable.ts';
import { type RetryOptions, retryWhileBusy } from './retry.ts';

interface Read {
  work: () => unknown;
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

/**
 * Runs work that is synchronous and changes nothing. Rejects with `storage_unavailable` if the database stays busy,
 * cannot be read, or is closed.
 */
export interface SqliteReader {
  /** Runs the work at once. */
  run<T>(work: () => T): Promise<T>;
  /** Runs the work at the end of this turn of the event loop, which is cheaper if many requests arrive together. */
  runTogether<T>(work: () => T): Promise<T>;
  /** Runs the waiting reads now. To be called before the database is closed. */
  end(): void;
}

export function createSqliteReader(database: DatabaseSync, retry: RetryOptions): SqliteReader {
  const begin = database.prepare('BEGIN');
  const commit = database.prepare('COMMIT');
  let waitingReads: Read[] = [];

  const run = <T>(work: () => T): Promise<T> =>
    retryWhileBusy(() => {
      // Checked at each attempt, since the database may be closed in between.
      if (!database.isOpen) throw storeClosed();
      return work();
    }, retry);

  /** Returns false and settles no read if one of them fails. Each read must then run separately. */
  function readTogether(batch: readonly Read[]): boolean {
    try {
      begin.run();
      const results = batch.map(({ work }) => work());
      commit.run();
      for (const [n, { resolve }] of batch.entries()) resolve(results[n]);
      return true;
    } catch {
      if (database.isOpen && database.isTransaction) database.exec('ROLLBACK');
      return false;
    }
  }

  function readWaiting(): void {
    const batch = waitingReads;
    waitingReads = [];
    if (batch.length > 1 && readTogether(batch)) return;
    for (const { work, resolve, reject } of batch) run(work).then(resolve, reject);
  }

  return {
    run,
    runTogether<T>(work: () => T) {
      if (!database.isOpen) return Promise.reject(storeClosed());
      return new Promise<T>((resolve, reject) => {
        if (waitingReads.length === 0) setImmediate(readWaiting);
        waitingReads.push({ work, resolve: resolve as (result: unknown) => void, reject });
      });
    },
    end: readWaiting,
  };
}
