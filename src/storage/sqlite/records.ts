/** Records and their versions in the embedded database, and the atomic write that also moves index members. */

import type { DatabaseSync } from 'node:sqlite';
import { assertOneTag, keyOf } from '../key-tag.ts';
import type { StoredRecord, WalkedRecord, Write, WriteOptions } from '../store.ts';
import type { SqliteIndexes } from './indexes.ts';
import type { SqliteLeases } from './leases.ts';
import { ALIVE, createSequence, LIMIT } from './schema.ts';

export interface SqliteRecords {
  get(key: string): StoredRecord | undefined;
  getUnless(key: string, version: number | undefined): StoredRecord | 'unchanged' | undefined;
  /** The next records by key, beyond this one. */
  beyond(key: string, limit: number): WalkedRecord[];
  /** Inside a transaction only. */
  write(writes: readonly Write[], options: WriteOptions): number | undefined;
}

export interface SqliteRecordsParts {
  database: DatabaseSync;
  clock: () => number;
  indexes: SqliteIndexes;
  leases: SqliteLeases;
}

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

  function apply(step: Write, version: number): void {
    if ('index' in step) indexes.apply(step);
    else if ('delete' in step) remove.run(step.delete);
    else if ('put' in step) put(step, version);
  }

  function put({ put: key, value, lifetimeSeconds }: Extract<Write, { put: string }>, version: number): void {
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
      if (fence !== undefined && !leases.isLatest(fence.lease, fence.number)) return undefined;
      if (!writes.every(holds)) return undefined;
      const version = writes.some((step) => 'put' in step) ? nextVersion() : 1;
      for (const step of writes) apply(step, version);
      return version;
    },
  };
}

/** Refuses what a cluster would refuse. */
export function assertWritable(writes: readonly Write[], { fence }: WriteOptions): void {
  const keys = writes.map(keyOf);
  assertOneTag(fence === undefined ? keys : [...keys, fence.lease]);
}
