/** F29: a release with other tables changes them only while no other process has the database open. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { SCHEMA_VERSION } from '../../../src/storage/sqlite/schema.ts';
import { createSqliteStore, DATABASE_FILE } from '../../../src/storage/sqlite/store.ts';

let directory: string;
let file: string;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-'));
  file = join(directory, DATABASE_FILE);
  const store = await open();
  await store.write([{ put: 'a', value: '1' }]);
  await store.close();
  const older = new DatabaseSync(file);
  older.exec(`DROP TRIGGER index_member_added; DROP TRIGGER index_member_removed; DROP TABLE index_sizes;
    PRAGMA user_version = 2`);
  older.close();
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const open = () => createSqliteStore({ directory });
const versionOf = (database: DatabaseSync) => database.prepare('PRAGMA user_version').get()?.user_version;

test('F29 a database that an older process has open is refused, and stays as it is', async () => {
  const older = new DatabaseSync(file);
  try {
    expect(versionOf(older)).toBe(2);
    await expect(open()).rejects.toMatchObject({
      name: 'StorageRefused',
      message: expect.stringMatching(/is of an older release .* Stop every process/),
    });
    expect(versionOf(older)).toBe(2);
    older.exec('CREATE TABLE still_written (x)');
  } finally {
    older.close();
  }
});

test('F29 a start waits for an older process that is about to end', async () => {
  const older = new DatabaseSync(file);
  expect(versionOf(older)).toBe(2);
  const opening = open();
  await sleep(300);
  older.close();
  const store = await opening;
  expect((await store.get('a'))?.value).toBe('1');
  await store.close();
});

test('F29 processes of the newer release that start together share the database afterwards', async () => {
  const stores = await Promise.all([open(), open(), open()]);
  for (const [at, store] of stores.entries()) await store.write([{ put: `b${at}`, value: '2' }]);
  for (const store of stores) expect((await store.get('b2'))?.value).toBe('2');
  for (const store of stores) await store.close();
  const database = new DatabaseSync(file);
  expect(versionOf(database)).toBe(SCHEMA_VERSION);
  database.close();
});
