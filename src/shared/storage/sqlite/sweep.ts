/** Removes expired rows at intervals, in small batches that do not delay requests. */
import type { SqliteParts } from './parts.ts';

const BATCH = 200;
const MINUTE_MS = 60_000;

/** Lease rows are kept for a day, because they stop a stale holder. */
const SWEPT_TABLES = [
  { table: 'records', id: 'key', column: 'expires_at', retentionMilliseconds: 0 },
  { table: 'counters', id: 'key', column: 'expires_at', retentionMilliseconds: 0 },
  { table: 'leases', id: 'lease', column: 'expires_at', retentionMilliseconds: 24 * 60 * MINUTE_MS },
  { table: 'notices', id: 'id', column: 'at', retentionMilliseconds: 10 * MINUTE_MS },
] as const;

/** Starts the sweep, and returns a function that stops it. */
export function startSqliteSweep({ database, write, clock }: SqliteParts, intervalMilliseconds: number): () => void {
  const sweeps = SWEPT_TABLES.map(({ table, id, column, retentionMilliseconds }) => ({
    retentionMilliseconds,
    find: database.prepare(`SELECT 1 FROM ${table} WHERE ${column} <= ? LIMIT 1`),
    remove: database.prepare(
      `DELETE FROM ${table} WHERE ${id} IN (SELECT ${id} FROM ${table} WHERE ${column} <= ? LIMIT ${BATCH})`,
    ),
  }));
  let isRunning = false;
  let isStopped = false;

  async function sweep(): Promise<void> {
    for (const { find, remove, retentionMilliseconds } of sweeps) {
      const before = clock() - retentionMilliseconds;
      // Without this check, an idle server would write at each interval.
      while (!isStopped && find.get(before) !== undefined) await write(() => remove.run(before));
    }
  }

  const timer = setInterval(() => {
    if (isRunning) return;
    isRunning = true;
    sweep()
      // Requests report faults of the storage. Expired rows are invisible, and the next sweep removes them.
      .catch(() => undefined)
      .finally(() => {
        isRunning = false;
      });
  }, intervalMilliseconds).unref();

  return () => {
    isStopped = true;
    clearInterval(timer);
  };
}
