/** Reads that share a transaction: one state of the file for all of them, and no harm from a neighbour. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createSqliteReader, type SqliteReader } from '../../../../src/shared/storage/sqlite/reader.ts';

let directory: string;
let database: DatabaseSync;
/** As another process has it. */
let other: DatabaseSync;
let reader: SqliteReader;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-reader-'));
  const file = join(directory, 'some.sqlite');
  database = new DatabaseSync(file);
  database.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1)');
  other = new DatabaseSync(file);
  reader = createSqliteReader(database, { deadlineMilliseconds: 200, random: () => 0.5 });
});
afterEach(() => {
  if (database.isOpen) database.close();
  other.close();
  rmSync(directory, { recursive: true });
});

const value = () => database.prepare('SELECT n FROM t').get()?.n;

test('what is asked in one turn of the event loop is read in one transaction', async () => {
  const asked = [
    reader.runTogether(() => [database.isTransaction, value()]),
    reader.runTogether(() => {
      other.exec('UPDATE t SET n = 2');
      return [database.isTransaction, value()];
    }),
  ];
  expect(await Promise.all(asked)).toEqual([
    [true, 1],
    [true, 1],
  ]);
  expect(database.isTransaction).toBe(false);
  expect(await reader.runTogether(value)).toBe(2);
});

test('it sees what was written before its turn, by this process or another', async () => {
  const asked = [reader.runTogether(value), reader.runTogether(value)];
  other.exec('UPDATE t SET n = 3');
  expect(await Promise.all(asked)).toEqual([3, 3]);
});

test('a reading that fails spoils no other, and leaves no transaction open', async () => {
  const asked = [
    reader.runTogether(value),
    reader.runTogether(() => {
      throw new Error('Only this one.');
    }),
    reader.runTogether(value),
  ];
  expect(await Promise.allSettled(asked)).toEqual([
    { status: 'fulfilled', value: 1 },
    { status: 'rejected', reason: new Error('Only this one.') },
    { status: 'fulfilled', value: 1 },
  ]);
  expect(database.isTransaction).toBe(false);
});

test('a busy database is asked again until the deadline', async () => {
  let tries = 0;
  const busyTwice = () => {
    tries += 1;
    if (tries < 3) throw Object.assign(new Error('database is locked'), { code: 'ERR_SQLITE_ERROR', errcode: 5 });
    return value();
  };
  expect(await Promise.all([reader.runTogether(busyTwice), reader.runTogether(value)])).toEqual([1, 1]);
  const always = () => {
    throw Object.assign(new Error('database is locked'), { code: 'ERR_SQLITE_ERROR', errcode: 5 });
  };
  await expect(reader.runTogether(always)).rejects.toMatchObject({ code: 'storage_unavailable' });
});

test('closed while a busy database is waited for: refused as unavailable', async () => {
  let tries = 0;
  const busyOnce = () => {
    tries += 1;
    if (tries === 1) throw Object.assign(new Error('database is locked'), { code: 'ERR_SQLITE_ERROR', errcode: 5 });
    return value();
  };
  const asked = reader.runTogether(busyOnce);
  reader.end();
  database.close();
  await expect(asked).rejects.toMatchObject({ code: 'storage_unavailable' });
});

test('closed between the asking and the turn, or before both: refused as unavailable', async () => {
  const asked = [reader.runTogether(value), reader.runTogether(value)];
  database.close();
  const settled = await Promise.allSettled([...asked, reader.runTogether(value), reader.run(value)]);
  const refused = { status: 'rejected', reason: expect.objectContaining({ code: 'storage_unavailable' }) };
  expect(settled).toEqual([refused, refused, refused, refused]);
});
