/** Owns records and their versions in the embedded database, and the atomic write that also moves index members. */

import type { DatabaseSync } from 'node:sqlite';
import { assertOneTag, keyOf } from './key-tag.ts';
import type { SqliteIndexes } from './sqlite-indexes.ts';
import type { SqliteLeases } from './sqlite-leases.ts';
import { createSequence, LIMIT } from './sqlite-schema.ts';
import type { StoredRecord, WalkedRecord, Write, WriteOptions } from './store.ts';

export interface SqliteRecords {
  get(key: string): StoredRecord | undefined;
  getUnless(key: string, version: number | undefined): StoredRecord | 'unchanged' | undefined;
  /** The next records by key, beyond this one. */
  beyond(key: string, limit: number): WalkedRecord[];
  /** Inside a transaction only, as all that follows. */
  write(writes: readonly Write[], options: WriteOptions): boolean;
  take(key: string): string | undefined;
}

export interface SqliteRecordsParts {
  database: DatabaseSync;
  clock: () => number;
  indexes: SqliteIndexes;
  leases: SqliteLeases;
}

const ALIVE = '(expires_at IS NULL OR expires_at > ?)';

export function createSqliteRecords({ database, clock, indexes, leases }: SqliteRecordsParts): SqliteRecords {
  const select = database.prepare(`SELECT value, version FROM records WHERE key = ? AND ${ALIVE}`);
  const selectUnless = database.prepare(
    `SELECT CASE WHEN version = ? THEN NULL ELSE value END AS value, version FROM records WHERE key = ? AND ${ALIVE}`,
  );
  // The read of every relayed call: an array is made faster than an object.
  selectUnless.setReturnArrays(true);
  const selectExists = database.prepare(`SELECT 1 FROM records WHERE key = ? AND ${ALIVE}`);
  const upsert = database.prepare(`
    INSERT INTO records (key, value, version, expires_at) VALUES (?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version, expires_at = excluded.expires_at`);
  const refill = database.prepare(`UPDATE records SET value = ?, version = ? WHERE key = ? AND ${ALIVE}`);
  const remove = database.prepare('DELETE FROM records WHERE key = ?');
  const selectBeyond = database.prepare(
    `SELECT key, value, version FROM records WHERE key > ? AND ${ALIVE} ORDER BY key ${LIMIT}`,
  );
  const nextVersion = createSequence(database);

  function get(key: string): StoredRecord | undefined {
    const row = select.get(key, clock()) as StoredRecord | undefined;
    return row && { value: row.value, version: row.version };
  }

  function getUnless(key: string, known: number | undefined): StoredRecord | 'unchanged' | undefined {
    const row = selectUnless.get(known ?? null, key, clock()) as unknown as [string | null, number] | undefined;
    if (row === undefined) return undefined;
    const [value, version] = row;
    return value === null ? 'unchanged' : { value, version };
  }

  function holds(step: Write): boolean {
    if ('exists' in step) return selectExists.get(step.exists, clock()) !== undefined;
    if ('index' in step || step.ifVersion === undefined) return true;
    return (get(keyOf(step))?.version ?? 0) === step.ifVersion;
  }

  function apply(step: Write): void {
    if ('index' in step) indexes.apply(step);
    else if ('delete' in step) remove.run(step.delete);
    else if ('put' in step) put(step.put, step.value, step.lifetimeSeconds);
  }

  function put(key: string, value: string, lifetimeSeconds: number | 'unchanged' | undefined): void {
    const version = nextVersion();
    if (lifetimeSeconds === 'unchanged') {
      if (refill.run(value, version, key, clock()).changes === 0) upsert.run(key, value, version, null);
    } else if ((lifetimeSeconds ?? 1) <= 0) remove.run(key);
    else upsert.run(key, value, version, expiry(lifetimeSeconds));
  }

  function expiry(lifetimeSeconds: number | undefined): number | null {
    return lifetimeSeconds === undefined ? null : Math.ceil(clock() + lifetimeSeconds * 1000);
  }

  return {
    get,
    getUnless,
    beyond: (key, limit) =>
      selectBeyond.all(key, clock(), limit).map((row) => ({
        key: String(row.key),
        value: String(row.value),
        version: Number(row.version),
      })),
    write(writes, { fence }) {
      if (fence !== undefined && !leases.isLatest(fence.lease, fence.number)) return false;
      if (!writes.every(holds)) return false;
      writes.forEach(apply);
      return true;
    },
    take(key) {
      const record = get(key);
      if (record !== undefined) remove.run(key);
      return record?.value;
    },
  };
}

/** Refuses what a cluster would refuse. */
export function assertWritable(writes: readonly Write[], { fence }: WriteOptions): void {
  const keys = writes.map(keyOf);
  assertOneTag(fence === undefined ? keys : [...keys, fence.lease]);
}
