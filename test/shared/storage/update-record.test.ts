/** Concurrent changes of one record: none is lost, and a change that never succeeds ends with an error. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { updateRecord } from '../../../src/shared/storage/update-record.ts';

interface Counter {
  count: number;
}

const directory = mkdtempSync(join(tmpdir(), 'gatehouse-update-record-'));
let store: Store;
beforeAll(async () => {
  store = await createSqliteStore({ directory });
});
afterAll(async () => {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

const increment = (stored: Counter = { count: 0 }) => ({ ...stored, count: stored.count + 1 });
const valueAt = async (key: string) => (await store.get(key))?.value;

test('all concurrent changes are applied, and each returns the value before it', async () => {
  const updates = await Promise.all(Array.from({ length: 30 }, () => updateRecord(store, 'test:{c}:all', increment)));
  expect(await valueAt('test:{c}:all')).toBe('{"count":30}');
  expect(new Set(updates.map((updated) => updated?.before?.count ?? 0)).size).toBe(30);
});

test('nothing is written if the change returns undefined or the same object, or the owner does not exist', async () => {
  const key = 'test:{c}:unchanged';
  expect(await updateRecord<Counter>(store, key, () => undefined)).toBeUndefined();
  expect(await updateRecord(store, key, increment, { owner: 'test:{c}:missing' })).toBeUndefined();
  expect(await store.get(key)).toBeUndefined();

  await updateRecord(store, key, increment);
  const recordBefore = await store.get(key);
  expect(await updateRecord<Counter>(store, key, (stored) => stored)).toMatchObject({ after: { count: 1 } });
  expect(await store.get(key)).toEqual(recordBefore);
});

test('further writes are made together with the record', async () => {
  const writes = ({ after }: { after: Counter }) => [{ index: 'test:{c}:index', add: 'one', score: after.count }];
  await updateRecord(store, 'test:{c}:writes', increment, { writes });
  expect((await store.page('test:{c}:index', { limit: 1 })).items).toEqual([{ member: 'one', score: 1 }]);
});

test('a change that never succeeds is rejected', async () => {
  const refusing = { get: store.get, write: async () => undefined };
  await expect(updateRecord(refusing, 'test:{c}:refused', increment)).rejects.toMatchObject({
    code: 'storage_unavailable',
  });
});
