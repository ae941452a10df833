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
let lost: number[];
/** The outcome of a write to this key. `refused`: as if another process had just changed the record. */
let outcomeOf: (key: string) => 'written' | 'failed' | 'refused';
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-kept-'));
  store = await createSqliteStore({ directory });
  lost = [];
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
      const key = steps.flatMap((step) => ('put' in step ? [step.put] : []))[0] ?? '';
      const outcome = outcomeOf(key);
      if (outcome === 'failed') return Promise.reject(new AppError('storage_unavailable'));
      return outcome === 'refused' ? Promise.resolve(undefined) : store.write(steps, options);
    },
  };
  return createRelayUses({
    ...{ store: failingStore, audit: { note: () => undefined }, clock: () => NOW, isApp: () => true },
    onLost: (counts) => void lost.push(counts),
  });
}

const use: RelayUse = {
  token: { id: 't', name: 'reports' },
  scope: 'threads:read',
  app: 'a',
  userId: 'u',
  result: 'answered',
  address: '127.0.0.1',
  requestId: 'r',
};

const [ofToken, ofApp] = [keys.relayUses('token', 't', '2026-03-15'), keys.relayUses('app', 'a', '2026-03-15')];
const ofConnection = keys.relayUsesOf('u', 'a');

const sumOf = (hours: { counts: { count: number }[] }[]) =>
  hours.flatMap(({ counts }) => counts).reduce((sum, { count }) => sum + count, 0);

test.each([
  ['every record', () => true],
  ['the record of the token', (key: string) => key === ofToken],
  ['the record of the app', (key: string) => key === ofApp],
  ['the record of the connection', (key: string) => key === ofConnection],
])('R119 counts each call once in each record after failed writes of %s', async (_which, fails) => {
  await store.write([{ put: keys.grant('u', 'a'), value: 'sealed' }]);
  const uses = createUses();
  for (const outcome of ['failed', 'refused'] as const) {
    outcomeOf = (key) => (fails(key) ? outcome : 'written');
    for (let call = 0; call < 5; call += 1) uses.note(use);
    await uses.write();
  }
  outcomeOf = () => 'written';
  uses.note(use);
  await uses.write();
  expect(sumOf(await uses.hoursOf('token', 't'))).toBe(11);
  expect(sumOf(await uses.hoursOf('app', 'a'))).toBe(11);
  expect(await uses.servicesOf('u', 'a')).toMatchObject([{ id: 't', count: 11 }]);
  await uses.close();
  expect(lost).toEqual([]);
});

test('R119 a record whose writes always fail delays no other', async () => {
  outcomeOf = (key) => (key === ofToken ? 'failed' : 'written');
  const uses = createUses();
  for (let at = 0; at < 200; at += 1) uses.note({ ...use, token: { id: `t${at}`, name: 'n' }, userId: undefined });
  uses.note(use);
  await uses.write();
  await uses.write();
  expect(sumOf(await uses.hoursOf('token', 't199'))).toBe(1);
  expect(sumOf(await uses.hoursOf('app', 'a'))).toBe(201);
  await uses.close();
  expect(lost).toEqual([1]);
});

test('R119 reports counts as lost that exceed the limit or cannot be stored when the process stops', async () => {
  outcomeOf = () => 'failed';
  const uses = createUses();
  for (let at = 0; at < 31_000; at += 1) {
    uses.note({ ...use, token: { id: `t${at}`, name: 'n' }, app: undefined, userId: undefined });
    if (at % 5_000 === 0) await uses.write();
  }
  await uses.close();
  expect(lost.reduce((sum, counts) => sum + counts, 0)).toBe(31_000);
});
