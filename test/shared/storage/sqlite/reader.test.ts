/** Reads that share a transaction see one state of the file, and do not fail because of each other. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createSqliteReader, type SqliteReader } from '../../../../src/shared/storage/sqlite/reader.ts';

let directory: string;
let database: DatabaseSync;
/** The connection of another process. */
let otherConnection: DatabaseSync;
let reader: SqliteReader;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-reader-'));
  const file = join(directory, 'some.sqlite');
  database = new DatabaseSync(file);
  database.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1)');
  otherConnection = new DatabaseSync(file);
  reader = createSqliteReader(database, { deadlineMilliseconds: 200, random: () => 0.5 });
});
afterEach(() => {
  if (database.isOpen) database.close();
  otherConnection.close();
  rmSync(directory, { recursive: true });
});

const value = () => database.prepare('SELECT n FROM t').get()?.n;

test('all reads of one turn of the event loop run in one transaction', async () => {
  const reads = [
    reader.runTogether(() => [database.isTransaction, value()]),
    reader.runTogether(() => {
      otherConnection.exec('UPDATE t SET n = 2');
      return [database.isTransaction, value()];
    }),
  ];
  expect(await Promise.all(reads)).toEqual([
    [true, 1],
    [true, 1],
  ]);
  expect(database.isTransaction).toBe(false);
  expect(await reader.runTogether(value)).toBe(2);
});

test('a read sees writes from before the end of the turn', async () => {
  const reads = [reader.runTogether(value), reader.runTogether(value)];
  otherConnection.exec('UPDATE t SET n = 3');
  expect(await Promise.all(reads)).toEqual([3, 3]);
});

test('only the read that fails is rejected, and no transaction stays open', async () => {
  const reads = [
    reader.runTogether(value),
    reader.runTogether(() => {
      throw new Error('Only this read.');
    }),
    reader.runTogether(value),
  ];
  expect(await Promise.allSettled(reads)).toEqual([
    { status: 'fulfilled', value: 1 },
    { status: 'rejected', reason: new Error('Only this read.') },
    { status: 'fulfilled', value: 1 },
  ]);
  expect(database.isTransaction).toBe(false);
});

test('a read is retried while the database is busy, until the deadline', async () => {
  let attempts = 0;
  const busyTwice = () => {
    attempts += 1;
    if (attempts < 3) throw Object.assign(new Error('database is locked'), { code: 'ERR_SQLITE_ERROR', errcode: 5 });
    return value();
  };
  expect(await Promise.all([reader.runTogether(busyTwice), reader.runTogether(value)])).toEqual([1, 1]);

  const always = () => {
    throw Object.assign(new Error('database is locked'), { code: 'ERR_SQLITE_ERROR', errcode: 5 });
  };
  await expect(reader.runTogether(always)).rejects.toMatchObject({ code: 'storage_unavailable' });
});

test('a read is rejected as unavailable if the database is closed during a retry', async () => {
  let attempts = 0;
  const busyOnce = () => {
    attempts += 1;
    if (attempts === 1) throw Object.assign(new Error('database is locked'), { code: 'ERR_SQLITE_ERROR', errcode: 5 });
    return value();
  };
  const read = reader.runTogether(busyOnce);
  reader.end();
  database.close();
  await expect(read).rejects.toMatchObject({ code: 'storage_unavailable' });
});

test('a read is rejected as unavailable if the database is closed before the end of the turn or before the call', async () => {
  const reads = [reader.runTogether(value), reader.runTogether(value)];
  database.close();
  const settled = await Promise.allSettled([...reads, reader.runTogether(value), reader.run(value)]);
  const refused = { status: 'rejected', reason: expect.objectContaining({ code: 'storage_unavailable' }) };
  expect(settled).toEqual([refused, refused, refused, refused]);
});
