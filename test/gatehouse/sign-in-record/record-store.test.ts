/** The records of sign-in attempts: how they are found, and their limits by age, number and address. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { SignInRecord } from '../../../src/gatehouse/sign-in-record/attempt.ts';
import { createRecordStore, type RecordStore } from '../../../src/gatehouse/sign-in-record/record-store.ts';
import { createSignInRecords } from '../../../src/gatehouse/sign-in-record/sign-in-record.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { ENDLESS_TURN } from '../../support/task-turn.ts';

const DAY = 86_400_000;

let directory: string;
let store: Store;
let records: RecordStore;
let now: number;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-records-'));
  now = Date.parse('2026-01-01T00:00:00Z');
  store = await createSqliteStore({ directory, clock: () => now });
  records = createRecordStore({ store, clock: () => now });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

const begin = (n: number) =>
  store.write(
    records.beginWrites({
      app: 'platform',
      purpose: 'sign_in',
      startedAt: now,
      steps: [],
      facts: {},
      reference: `r${String(n).padStart(7, '0')}`,
      state: `state-${n}`,
    }),
  );
const beginFrom = (address: string, id: string, into: RecordStore) =>
  store.write(
    into.beginWrites({
      app: 'platform',
      purpose: 'sign_in',
      startedAt: now,
      steps: [],
      facts: {},
      reference: id,
      state: `state-${id}`,
      address,
    }),
  );
const open = () => store.count(keys.signIns('open'));

test('R54 R6 limits the starts of one address per minute, and the number of all starts', async () => {
  await Promise.all(Array.from({ length: 500 }, (_one, n) => begin(n)));
  expect(await open()).toBe(300);
  for (let minute = 1; minute < 8; minute += 1) {
    now += 60_000;
    await Promise.all(Array.from({ length: 300 }, (_one, n) => begin(1_000 * minute + n)));
  }
  expect(await open()).toBe(2_400);
  await records.trim();
  expect(await open()).toBe(2_000);
  // The oldest are deleted, with their aliases.
  expect(await records.byState('state-1')).toBeUndefined();
  expect(await records.byState('state-7299')).toBeDefined();
});

test('R95 during a flood from one address, records failures of other addresses and of genuine requests', async () => {
  const failed = { steps: [], endedAt: now, outcome: 'failed', failure: 'state_expired' } as const;
  const bare = (n: number, address: string) => records.add(undefined, { ...failed, reference: `bare-${n}`, address });
  const flood = await Promise.all(Array.from({ length: 1_000 }, (_one, n) => bare(n, `2001:db8::${n.toString(16)}`)));
  expect(flood.filter((id) => id !== undefined)).toHaveLength(300);
  expect(await bare(5_000, '2001:db8:0:1::1')).toBe('bare-5000');
  await records.add('state-1', { ...failed, reference: 'genuine1', address: '2001:db8::1' });
  expect(await records.find('GENUINE1')).toMatchObject({ failure: 'state_expired' });
  now += 60_000;
  expect(await bare(6_000, '2001:db8::1')).toBe('bare-6000');
});

test('R54 limits the records of callbacks with collected genuine states', async () => {
  const failed = { steps: [], endedAt: now, outcome: 'failed', failure: 'state_expired' } as const;
  const send = (n: number, address: string) => records.add(`state-${n}`, { ...failed, reference: `old-${n}`, address });
  const flood = await Promise.all(Array.from({ length: 1_000 }, (_one, n) => send(n, '192.0.2.1')));
  expect(flood.filter((id) => id !== undefined)).toHaveLength(300);
  expect(await send(2_000, '192.0.2.2')).toBe('old-2000');
  // A pending request is always recorded.
  const pending = { ...failed, reference: 'pending1', address: '192.0.2.1' };
  expect(await records.add('state-3000', pending, { id: 'gone0001' })).toBe('pending1');
});

test.each([
  ['starts without a callback', false],
  ['failing callbacks of genuine requests', true],
])('R95 a flood of %s from one address displaces only records of that address', async (_what, fails) => {
  const few = createRecordStore({ store, clock: () => now, maxRecords: { open: 100, all: 100 } });
  const attempt = async (id: string, address: string) => {
    now += 1_000;
    await beginFrom(address, id, few);
    const failed = { steps: [], endedAt: now, outcome: 'refused', failure: 'access_denied', address } as const;
    if (fails) await few.add(`state-${id}`, { ...failed, reference: `page-${id}` });
  };
  const others = Array.from({ length: 30 }, (_one, n) => ({ id: `other-${n}`, address: `192.0.2.${n % 10}` }));
  for (const { id, address } of others) await attempt(id, address);
  for (let n = 0; n < 200; n += 1) await attempt(`flood-${n}`, `2001:db8::${n.toString(16)}`);
  await few.trim();
  const found = await Promise.all(others.map(({ id }) => few.find(id)));
  expect(found.filter((record) => record === undefined)).toEqual([]);
  expect(await store.count(keys.signIns('all'))).toBe(100);
  expect([await few.find('flood-129'), (await few.find('flood-130'))?.id]).toEqual([undefined, 'flood-130']);
});

test('R54 deletes the oldest records if there are more addresses than allowed records', async () => {
  const few = createRecordStore({ store, clock: () => now, maxRecords: { open: 5, all: 5 } });
  for (let n = 0; n < 9; n += 1) {
    now += 1_000;
    await beginFrom(`192.0.2.${n}`, `start-${n}`, few);
  }
  await few.trim();
  const { items } = await few.page({ limit: 9 });
  expect(items.map(({ id }) => id)).toEqual(['start-8', 'start-7', 'start-6', 'start-5', 'start-4']);
});

test('R54 a callback that is opened many times stores at most 10 references', async () => {
  await begin(1);
  for (let n = 0; n < 30; n += 1) await records.add('state-1', { steps: [], reference: `again-${n}` });
  expect((await records.byState('state-1'))?.references).toHaveLength(10);
  expect(await records.find('again-8')).toBeDefined();
  expect(await records.find('again-9')).toBeUndefined();
});

test('creates a record for a callback without a recorded start, and adds later requests with the same state', async () => {
  const changes = { steps: [], reference: 'PAGE0001', app: 'platform', purpose: 'connect' } as const;
  await records.add('state-1', changes);
  expect(await records.byState('state-1')).toMatchObject({ id: 'page0001', purpose: 'connect', startedAt: now });
  await records.add('state-1', { steps: [], reference: 'page0002' });
  expect(await records.find('PAGE0002')).toMatchObject({ id: 'page0001', references: ['PAGE0001', 'page0002'] });
  // Without a state, it can only be found by its reference.
  await records.add(undefined, { steps: [], reference: 'page0003' });
  expect(await records.find('page0003')).toMatchObject({ app: 'unknown', purpose: 'unknown', facts: {} });
});

test('R10 an attempt that has ended stays as it is, unless its own callback ends it', async () => {
  await begin(1);
  const refused = { endedAt: now, failure: 'access_denied', outcome: 'refused', steps: [] } as const;
  await records.add('state-1', { ...refused, reference: 'x1' });
  const ended = await records.find('r0000001');
  expect(await records.add('state-1', { ...refused, failure: 'cookie_missing', reference: 'x2' })).toBe('r0000001');
  expect([await records.find('r0000001'), await records.find('x2')]).toEqual([ended, undefined]);
  const success = { endedAt: now, failure: undefined, outcome: 'signed_in', steps: [], reference: 'x3' } as const;
  await records.add('state-1', success, { id: 'r0000001' });
  expect(await records.find('r0000001')).toMatchObject({ outcome: 'signed_in', references: ['r0000001', 'x1', 'x3'] });
});

test('an attempt is open until it ends, and among the failed ones only if it failed', async () => {
  const idsOf = async (request: { openOnly?: boolean; failedOnly?: boolean }) =>
    (await records.page({ limit: 9, ...request })).items.map(({ id }) => id);
  await begin(1);
  now += 1_000;
  await begin(2);
  expect([await open(), await idsOf({ failedOnly: true })]).toEqual([2, []]);
  expect(await idsOf({ openOnly: true })).toEqual(['r0000002', 'r0000001']);
  await records.add('state-1', {
    endedAt: now,
    failure: 'state_expired',
    outcome: 'failed',
    steps: [],
    reference: 'x1',
  });
  expect([await open(), await idsOf({ failedOnly: true })]).toEqual([1, ['r0000001']]);
  const success = { endedAt: now, failure: undefined, outcome: 'signed_in', steps: [] } as const;
  await records.add('state-1', { ...success, reference: 'x2' }, { id: 'r0000001' });
  await records.add('state-2', { endedAt: now, outcome: 'signed_in', steps: [], reference: 'x3' });
  expect([await open(), await idsOf({ openOnly: true }), await idsOf({})]).toEqual([0, [], ['r0000002', 'r0000001']]);
});

test('stores records for 30 days', async () => {
  await begin(1);
  now += 29 * DAY;
  await records.trim();
  expect(await records.find('R0000001')).toMatchObject({ app: 'platform' });
  now += 2 * DAY;
  await records.trim();
  expect(await records.find('r0000001')).toBeUndefined();
  expect((await records.page({ limit: 9 })).items).toEqual([]);
});

test('keeps an attempt of exactly 30 days ago, and deletes all older ones in one run', async () => {
  await Promise.all(Array.from({ length: 250 }, (_one, n) => begin(n)));
  now += 1;
  await begin(999);
  now += 30 * DAY;
  await records.trim();
  expect((await records.page({ limit: 9 })).items.map(({ id }) => id)).toEqual(['r0000999']);
  expect([await open(), await store.count(keys.signIns('all'))]).toEqual([1, 1]);
});

test('unfinished attempts have their own limit, within the limit of all', async () => {
  const few = createRecordStore({ store, clock: () => now, maxRecords: { open: 2, all: 4 } });
  for (let n = 0; n < 8; n += 1) {
    now += 1_000;
    await beginFrom('192.0.2.1', `start-${n}`, few);
    const ended = { endedAt: now, outcome: 'signed_in', steps: [], reference: `end-${n}` } as const;
    if (n < 4) await few.add(`state-start-${n}`, ended);
  }
  await few.trim();
  const { items } = await few.page({ limit: 9 });
  expect(items.map(({ id }) => id)).toEqual(['start-7', 'start-6', 'start-3', 'start-2']);
  // Records within the limits stay.
  await few.trim();
  expect(await store.count(keys.signIns('all'))).toBe(4);
});

test('the scheduled task for old records runs at least once an hour', async () => {
  const {
    scheduledTasks,
    store: { find },
  } = createSignInRecords({ store, clock: () => now, events: { signInEnded: () => undefined } });
  await begin(1);
  now += 31 * DAY;
  for (const { name, everyMilliseconds, work } of scheduledTasks) {
    expect(name).toMatch(/^[a-z-]+$/);
    expect(everyMilliseconds).toBeGreaterThanOrEqual(60_000);
    expect(everyMilliseconds).toBeLessThanOrEqual(3_600_000);
    await work(ENDLESS_TURN);
  }
  expect(await find('r0000001')).toBeUndefined();
});

test('R54 the limit of an address counts all starts within the same minute', async () => {
  for (let n = 0; n < 150; n += 1) await begin(n);
  now += 59_999;
  for (let n = 150; n < 350; n += 1) await begin(n);
  expect(await open()).toBe(300);
  now += 1;
  await begin(350);
  expect(await open()).toBe(301);
});

test('R95 callbacks with a genuine state have their own limit, apart from starts', async () => {
  await Promise.all(Array.from({ length: 301 }, (_one, n) => begin(n)));
  const failed = { steps: [], endedAt: now, outcome: 'failed', failure: 'state_expired' } as const;
  expect(await records.add(undefined, { ...failed, reference: 'bare0001' })).toBeUndefined();
  expect(await records.add('state-old', { ...failed, reference: 'stale001' })).toBe('stale001');
});

test('finds an attempt by id or reference, trimmed and without regard to case, and by no other text', async () => {
  await begin(1);
  await records.add('state-1', { steps: [], reference: 'Page0001' });
  for (const typed of ['r0000001', ' R0000001 ', 'page0001', '\tPAGE0001\n'])
    expect(await records.find(typed)).toMatchObject({ id: 'r0000001' });
  for (const typed of ['', 'r000000', 'state-1']) expect(await records.find(typed)).toBeUndefined();
  expect([await records.byState('state-1'), await records.byState('state-2')]).toMatchObject([
    { id: 'r0000001' },
    undefined,
  ]);
});

test('pages through all, failed and open attempts, and those of one e-mail address', async () => {
  const failed = { email: 'ada@example.test', failure: 'state_expired', outcome: 'failed', steps: [] } as const;
  for (let n = 0; n < 4; n += 1) {
    now += 1_000;
    await begin(n);
    if (n < 2) await records.add(`state-${n}`, { ...failed, endedAt: now, reference: `x${n}` });
  }
  const idsOf = async (request: object) => {
    const first = await records.page({ limit: 1, ...request });
    const second = await records.page({ limit: 1, after: first.next, ...request });
    return [...first.items, ...second.items].map(({ id }) => id);
  };
  expect(await idsOf({})).toEqual(['r0000003', 'r0000002']);
  expect(await idsOf({ openOnly: true })).toEqual(['r0000003', 'r0000002']);
  expect(await idsOf({ failedOnly: true })).toEqual(['r0000001', 'r0000000']);
  expect(await idsOf({ email: ' ADA@example.test' })).toEqual(['r0000001', 'r0000000']);
  expect(await idsOf({ email: 'ada@example.tes' })).toEqual([]);
});

test('adds all requests that end at the same time, even with a prefetched record', async () => {
  await begin(1);
  const reading = records.prefetch('r0000001');
  await reading;
  const add = (n: number) =>
    records.add('state-1', { steps: [], reference: `page000${n}`, facts: { status: n } }, { id: 'r0000001', reading });
  expect(await Promise.all([1, 2, 3].map(add))).toEqual(Array(3).fill('r0000001'));
  const record = await records.find('r0000001');
  expect(record?.references.toSorted()).toEqual(['page0001', 'page0002', 'page0003', 'r0000001']);
});

test('records nothing and does not reject while the storage is unavailable', async () => {
  const unavailable = async () => {
    throw new Error('disk');
  };
  const failing = createRecordStore({ store: { ...store, get: unavailable, write: unavailable }, clock: () => now });
  await beginFrom('192.0.2.1', 'start-1', failing);
  failing.prefetch('start-1');
  expect(await failing.add('state-start-1', { steps: [], reference: 'page0001' })).toBeUndefined();
});

describe('the attempts of a user', () => {
  const attempt = async (n: number, changes: { userId?: string; email?: string; app?: string }) => {
    now += 1_000;
    await begin(n);
    await records.add(`state-${n}`, { ...changes, steps: [], reference: `page000${n}`, endedAt: now });
  };
  beforeEach(async () => {
    await attempt(1, { userId: 'u1', email: 'Ada@example.test' });
    await attempt(2, { email: 'ada@EXAMPLE.test' });
    await attempt(3, { userId: 'u1', app: 'second' });
    await attempt(4, { userId: 'u2', email: 'ben@example.test' });
  });

  test('are listed by id and e-mail address together, newest first, with a filter', async () => {
    const idsOf = async (user: { id: string; email?: string }, accepts = (_record: SignInRecord) => true) => {
      const source = records.merged(user, accepts);
      const positions = await source.page({ after: undefined, limit: 9 });
      return (await source.load(positions)).map((record) => record?.id);
    };
    const ada = { id: 'u1', email: 'ADA@example.test' };
    expect(await idsOf(ada)).toEqual(['r0000003', 'r0000002', 'r0000001']);
    expect(await idsOf({ id: 'u1' })).toEqual(['r0000003', 'r0000001']);
    expect(await idsOf({ id: 'u3' })).toEqual([]);
    expect(await idsOf(ada, ({ app }) => app === 'platform')).toEqual([undefined, 'r0000002', 'r0000001']);
    const source = records.merged(ada, () => true);
    expect((await source.page({ after: undefined, limit: 2 })).map(({ member }) => member)).toEqual([
      'r0000003',
      'r0000002',
    ]);
    expect(await source.load([{ member: 'deleted', score: now }])).toEqual([undefined]);
  });

  test('are deleted with the user, from every list and under every reference', async () => {
    await records.forgetUser({ id: 'u1', email: 'ADA@example.test' });
    expect((await records.page({ limit: 9 })).items.map(({ id }) => id)).toEqual(['r0000004']);
    const lists = [keys.signIns('all'), keys.signIns('of', 'u1'), keys.signIns('of', 'ada@example.test')];
    expect(await Promise.all(lists.map((list) => store.count(list)))).toEqual([1, 0, 0]);
    for (const n of [1, 2, 3]) expect(await store.get(keys.signInAlias(`reference page000${n}`))).toBeUndefined();
    expect(await records.find('page0004')).toMatchObject({ id: 'r0000004' });
  });

  test('are found by the id if the user has no e-mail address', async () => {
    await records.forgetUser({ id: 'u1' });
    expect((await records.page({ limit: 9 })).items.map(({ id }) => id)).toEqual(['r0000004', 'r0000002']);
  });
});

test('finds the attempts of a user by e-mail address without regard to case, and deletes them with the user', async () => {
  await begin(1);
  const failedAttempt = {
    userId: 'u1',
    email: 'Ada@Example.test',
    outcome: 'failed',
    failure: 'not_permitted',
  } as const;
  await records.add('state-1', { ...failedAttempt, endedAt: now, steps: [], reference: 'page0001' });
  const page = await records.page({ limit: 9, email: 'ada@example.TEST' });
  expect(page.items).toMatchObject([{ id: 'r0000001', references: ['r0000001', 'page0001'] }]);
  expect((await records.page({ limit: 9, failedOnly: true })).items).toHaveLength(1);
  await records.forgetUser({ id: 'u1', email: 'ada@example.test' });
  expect(await records.find('page0001')).toBeUndefined();
  expect((await records.page({ limit: 9 })).items).toEqual([]);
});
