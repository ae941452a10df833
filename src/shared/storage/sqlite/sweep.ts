/** Removes expired rows from time to time, in small batches that do not hold up requests. */
import type { SqliteParts } from './parts.ts';

const BATCH = 200;
const MINUTE_MS = 60_000;

/** Lease rows stay for a day: they refuse a holder that wakes up late. */
const SWEPT = [
  { table: 'records', id: 'key', column: 'expires_at', keptMilliseconds: 0 },
  { table: 'counters', id: 'key', column: 'expires_at', keptMilliseconds: 0 },
  { table: 'leases', id: 'lease', column: 'expires_at', keptMilliseconds: 24 * 60 * MINUTE_MS },
  { table: 'notices', id: 'id', column: 'at', keptMilliseconds: 10 * MINUTE_MS },
] as const;

/** Returns the function that stops it. */
export function startSqliteSweep({ database, write, clock }: SqliteParts, intervalMilliseconds: number): () => void {
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
      // Without this look, an idle server would write.
      while (!stopped && find.get(before) !== undefined) await write(() => remove.run(before));
    }
  }

  const timer = setInterval(() => {
    if (running) return;
    running = true;
    sweep()
      // Requests report a fault of the storage. Expired rows are invisible, and the next sweep finds them again.
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
