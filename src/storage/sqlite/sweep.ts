/** The removal of what has expired: small batches from time to time, never in the way of a request. */

import type { DatabaseSync } from 'node:sqlite';
import type { SqliteWriter } from './writer.ts';

export interface SqliteSweepParts {
  database: DatabaseSync;
  writer: SqliteWriter;
  clock: () => number;
  intervalMilliseconds: number;
}

const BATCH = 200;
const MINUTE = 60_000;

/** Lease rows stay for a day: they are what refuses a holder that wakes up late. */
const SWEPT = [
  { table: 'records', id: 'key', column: 'expires_at', keptMilliseconds: 0 },
  { table: 'counters', id: 'key', column: 'expires_at', keptMilliseconds: 0 },
  { table: 'leases', id: 'lease', column: 'expires_at', keptMilliseconds: 24 * 60 * MINUTE },
  { table: 'notices', id: 'id', column: 'at', keptMilliseconds: 10 * MINUTE },
] as const;

/** Starts sweeping and answers the function that stops it. */
export function startSqliteSweep({ database, writer, clock, intervalMilliseconds }: SqliteSweepParts): () => void {
  const sweeps = SWEPT.map(({ table, id, column, keptMilliseconds }) => ({
    keptMilliseconds,
    find: database.prepare(`SELECT 1 FROM ${table} WHERE ${column} <= ? LIMIT 1`),
    remove: database.prepare(
      `DELETE FROM ${table} WHERE ${id} IN (SELECT ${id} FROM ${table} WHERE ${column} <= ? LIMIT ${BATCH})`,
    ),
  }));
  let running = false;
  let stopped = false;

  async function sweep(): Promise<void> {
    for (const { find, remove, keptMilliseconds } of sweeps) {
      const before = clock() - keptMilliseconds;
      // A look first: an idle server then writes nothing.
      while (!stopped && find.get(before) !== undefined) await writer.run(() => remove.run(before));
    }
  }

  const timer = setInterval(() => {
    if (running) return;
    running = true;
    sweep()
      // Requests report a fault of the storage; what was not swept is invisible, and is found again next time.
      .catch(() => undefined)
      .finally(() => {
        running = false;
      });
  }, intervalMilliseconds).unref();

  return () => {
    stopped = true;
    clearInterval(timer);
  };
}
