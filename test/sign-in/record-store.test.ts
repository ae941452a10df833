/** Records of sign-ins are bounded: by time, by number, and by how many anybody can begin in a minute. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createSignInRecords, type SignInRecords } from '../../src/sign-in/record.ts';
import { differenceOf } from '../../src/sign-in/steps.ts';
import { keys } from '../../src/storage/keys.ts';
import { createSqliteStore } from '../../src/storage/sqlite-store.ts';
import type { Store } from '../../src/storage/store.ts';

const DAY = 86_400_000;

let directory: string;
let store: Store;
let records: SignInRecords;
let now: number;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-records-'));
  now = Date.parse('2026-01-01T00:00:00Z');
  store = await createSqliteStore({ directory, clock: () => now });
  records = createSignInRecords({ store, clock: () => now });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

const begin = (n: number) =>
  records.begin({
    ...{ app: 'platform', purpose: 'sign_in', startedAt: now, steps: [], facts: {} },
    ...{ reference: `r${String(n).padStart(7, '0')}`, state: `state-${n}` },
  });
const open = () => store.count(keys.signIns('open'));

test('R54 R6: what is begun by nobody in particular is bounded by the minute and in all', async () => {
  await Promise.all(Array.from({ length: 500 }, (_one, n) => begin(n)));
  expect(await open()).toBe(300);
  for (let minute = 1; minute < 8; minute += 1) {
    now += 60_000;
    await Promise.all(Array.from({ length: 300 }, (_one, n) => begin(1_000 * minute + n)));
  }
  expect(await open()).toBe(2_400);
  await records.trim();
  expect(await open()).toBe(2_000);
  // The oldest went, with their aliases.
  expect(await records.byState('state-1')).toBeUndefined();
  expect(await records.byState('state-7299')).toBeDefined();
});

test('R54 a callback that is opened over and over leaves no more than its record names', async () => {
  await begin(1);
  for (let n = 0; n < 30; n += 1) await records.add('state-1', { steps: [], reference: `again-${n}` });
  expect((await records.byState('state-1'))?.references).toHaveLength(10);
  expect(await records.find('again-8')).toBeDefined();
  expect(await records.find('again-9')).toBeUndefined();
});

test('what comes back without a start that is known makes a record, and what follows with the same state is in it', async () => {
  const told = { steps: [], reference: 'PAGE0001', app: 'platform', purpose: 'connect', endedAt: now } as const;
  await records.add('state-1', told);
  expect(await records.byState('state-1')).toMatchObject({ id: 'page0001', purpose: 'connect', startedAt: now });
  await records.add('state-1', { steps: [], reference: 'page0002' });
  expect(await records.find('PAGE0002')).toMatchObject({ id: 'page0001', references: ['PAGE0001', 'page0002'] });
  // Without a state there is nothing to find it by but its reference.
  await records.add(undefined, { steps: [], reference: 'page0003' });
  expect(await records.find('page0003')).toMatchObject({ app: 'unknown', purpose: 'unknown', facts: {} });
});

test('an attempt is open until something is told of its end, and among those that failed only where it did', async () => {
  const idsOf = async (request: { openOnly?: boolean; failedOnly?: boolean }) =>
    (await records.page({ limit: 9, ...request })).items.map(({ id }) => id);
  await begin(1);
  now += 1_000;
  await begin(2);
  expect([await open(), await idsOf({ failedOnly: true })]).toEqual([2, []]);
  expect(await idsOf({ openOnly: true })).toEqual(['r0000002', 'r0000001']);
  await records.add('state-1', { endedAt: now, failure: 'state_used', outcome: 'failed', steps: [], reference: 'x1' });
  expect([await open(), await idsOf({ failedOnly: true })]).toEqual([1, ['r0000001']]);
  await records.add('state-1', { endedAt: now, failure: undefined, outcome: 'signed_in', steps: [], reference: 'x2' });
  await records.add('state-2', { endedAt: now, outcome: 'signed_in', steps: [], reference: 'x3' });
  expect([await open(), await idsOf({ openOnly: true }), await idsOf({})]).toEqual([0, [], ['r0000002', 'r0000001']]);
});

test('are kept for 30 days', async () => {
  await begin(1);
  now += 29 * DAY;
  await records.trim();
  expect(await records.find('R0000001')).toMatchObject({ app: 'platform' });
  now += 2 * DAY;
  await records.trim();
  expect(await records.find('r0000001')).toBeUndefined();
  expect((await records.page({ limit: 9 })).items).toEqual([]);
});

test('those of one person are found by address in any case, and go with them', async () => {
  await begin(1);
  const person = { userId: 'u1', email: 'Ada@Example.test', outcome: 'failed', failure: 'not_permitted' } as const;
  await records.add('state-1', { ...person, endedAt: now, steps: [], reference: 'page0001' });
  const found = await records.page({ limit: 9, email: 'ada@example.TEST' });
  expect(found.items).toMatchObject([{ id: 'r0000001', references: ['r0000001', 'page0001'] }]);
  expect((await records.page({ limit: 9, failedOnly: true })).items).toHaveLength(1);
  await records.forgetUser({ id: 'u1', email: 'ada@example.test' });
  expect(await records.find('page0001')).toBeUndefined();
  expect((await records.page({ limit: 9 })).items).toEqual([]);
});

test('a callback URL is compared character by character', () => {
  expect(differenceOf('https://a.example/cb', 'https://a.example/cb')).toBeUndefined();
  expect(differenceOf('https://a.example/cb', 'https://a.example/CB')).toBe(
    'character 19 is "c" where the registered one has "C"',
  );
  expect(differenceOf('https://a.example/cb', 'https://a.example/cb/')).toContain('"/"');
});
