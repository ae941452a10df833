/** The order of reads: those of one turn of the event loop share a transaction, and so one lock of the file. */
import type { DatabaseSync } from 'node:sqlite';
import { storeClosed } from './faults.ts';
import { type RetryOptions, retryWhileBusy } from './retry.ts';

export interface SqliteReader {
  /** Runs synchronous work that changes nothing, at once. */
  run<T>(work: () => T): Promise<T>;
  /** The same at the end of this turn of the event loop: cheaper where many requests come in at the same time. */
  runTogether<T>(work: () => T): Promise<T>;
  /** Ends the turn now, so that what was asked is still answered where the database is about to be closed and not busy. */
  end(): void;
}

interface Asked {
  work: () => unknown;
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

/** Both reject with `storage_unavailable` where the database stays busy or cannot be read, and once it is closed. */
export function createSqliteReader(database: DatabaseSync, retry: RetryOptions): SqliteReader {
  const begin = database.prepare('BEGIN');
  const commit = database.prepare('COMMIT');
  let asked: Asked[] = [];

  const run = <T>(work: () => T): Promise<T> =>
    retryWhileBusy(() => {
      // Looked at each time: it may be closed while the next attempt is waited for.
      if (!database.isOpen) throw storeClosed();
      return work();
    }, retry);

  function turn(): void {
    const batch = asked;
    asked = [];
    const [first] = batch;
    if (!first) return;
    if (batch.length === 1) alone(first);
    else if (!together(batch)) batch.forEach(alone);
  }

  const alone = ({ work, resolve, reject }: Asked) => void run(work).then(resolve, reject);

  /** False where any of it failed: then nobody was answered, and each is judged by its own work. */
  function together(batch: readonly Asked[]): boolean {
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

  return {
    run,
    end: turn,
    runTogether<T>(work: () => T): Promise<T> {
      if (!database.isOpen) return Promise.reject(storeClosed());
      return new Promise<T>((resolve, reject) => {
        if (asked.length === 0) setImmediate(turn);
        asked.push({ work, resolve: resolve as (result: unknown) => void, reject });
      });
    },
  };
}
