/** R119: counts of calls survive failed writes, and counts that cannot be stored are reported as lost. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { RelayUse } from '../../../src/gatehouse/relay/stored-uses.ts';
import { createRelayUses } from '../../../src/gatehouse/relay/uses.ts';
import { AppError } from '../../../src/shared/errors.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';

const NOW = Date.parse('2026-03-15T12:00:00Z');

let directory: string;
let store: Store;
let lostCounts: number[];
/** The outcome that the next write to a key has. `refused`: as if another process had just changed the record. */
let outcomeOf: (key: string) => 'written' | 'failed' | 'refused';
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-kept-'));
  store = await createSqliteStore({ directory });
  lostCounts = [];
  outcomeOf = () => 'written';
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

function createUses() {
  const failingStore: Store = {
    ...store,
    write(steps, options) {
      const put = steps.find((step) => 'put' in step);
      const outcome = outcomeOf(put?.put ?? '');
      if (outcome === 'failed') return Promise.reject(new AppError('storage_unavailable'));
      if (outcome === 'refused') return Promise.resolve(undefined);
      return store.write(steps, options);
    },
  };
  return createRelayUses({
    store: failingStore,
    audit: { note: () => undefined },
    clock: () => NOW,
    isApp: () => true,
    onLost: (count) => void lostCounts.push(count),
  });
}

const use: RelayUse = {
  token: { id: 't', name: 'reports' },
  scope: 'threads:read',
  app: 'a',
  userId: 'u',
  result: 'succeeded',
  address: '127.0.0.1',
  requestId: 'r',
};

const recordOfToken = keys.relayUses('token', 't', '2026-03-15');
const recordOfApp = keys.relayUses('app', 'a', '2026-03-15');
const recordOfConnection = keys.relayUsesOf('u', 'a');

function sumOfCounts(hours: { counts: { count: number }[] }[]): number {
  let sum = 0;
  for (const { counts } of hours) for (const { count } of counts) sum += count;
  return sum;
}

test.each([
  ['every record', () => true],
  ['the record of the token', (key: string) => key === recordOfToken],
  ['the record of the app', (key: string) => key === recordOfApp],
  ['the record of the connection', (key: string) => key === recordOfConnection],
])('R119 counts each call once in each record after failed writes of %s', async (_description, isAffected) => {
  await store.write([{ put: keys.grant('u', 'a'), value: 'sealed' }]);
  const uses = createUses();
  for (const outcome of ['failed', 'refused'] as const) {
    outcomeOf = (key) => (isAffected(key) ? outcome : 'written');
    for (let call = 0; call < 5; call += 1) uses.note(use);
    await uses.write();
  }
  outcomeOf = () => 'written';
  uses.note(use);
  await uses.write();

  // Two times five calls, and the last one.
  expect(sumOfCounts(await uses.hoursOf('token', 't'))).toBe(11);
  expect(sumOfCounts(await uses.hoursOf('app', 'a'))).toBe(11);
  expect(await uses.servicesOf('u', 'a')).toMatchObject([{ id: 't', count: 11 }]);
  await uses.close();
  expect(lostCounts).toEqual([]);
});

test('R119 a record whose writes always fail delays no other record, and its counts are lost', async () => {
  outcomeOf = (key) => (key === recordOfToken ? 'failed' : 'written');
  const uses = createUses();
  for (let index = 0; index < 200; index += 1) {
    uses.note({ ...use, token: { id: `t${index}`, name: 'n' }, userId: undefined });
  }
  uses.note(use);
  await uses.write();
  await uses.write();

  expect(sumOfCounts(await uses.hoursOf('token', 't199'))).toBe(1);
  expect(sumOfCounts(await uses.hoursOf('app', 'a'))).toBe(201);
  await uses.close();
  expect(lostCounts).toEqual([1]);
});

test('R119 reports counts as lost that exceed the limit or cannot be stored when the process stops', async () => {
  outcomeOf = () => 'failed';
  const uses = createUses();
  for (let index = 0; index < 31_000; index += 1) {
    uses.note({ ...use, token: { id: `t${index}`, name: 'n' }, app: undefined, userId: undefined });
    if (index % 5_000 === 0) await uses.write();
  }
  await uses.close();

  let sum = 0;
  for (const count of lostCounts) sum += count;
  expect(sum).toBe(31_000);
});
