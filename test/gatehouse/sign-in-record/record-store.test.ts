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

const startWith = (facts: { reference: string; state: string; address?: string }) => ({
  app: 'platform',
  purpose: 'sign_in' as const,
  startedAt: now,
  steps: [],
  facts: {},
  ...facts,
});
/** Records a start without an address. Its record has the id `r` with seven digits. */
const begin = (n: number) =>
  store.write(records.beginWrites(startWith({ reference: `r${String(n).padStart(7, '0')}`, state: `state-${n}` })));
const beginFrom = (address: string, id: string, into: RecordStore) =>
  store.write(into.beginWrites(startWith({ reference: id, state: `state-${id}`, address })));
const countOpen = () => store.count(keys.signIns('open'));
/** The end of an attempt whose state had expired. */
const expired = () => ({ steps: [], endedAt: now, outcome: 'failed', failure: 'state_expired' }) as const;
const numbersBelow = (count: number) => Array.from({ length: count }, (_, n) => n);

test('R54 R6 limits the starts of one address per minute, and the number of all starts', async () => {
  await Promise.all(numbersBelow(500).map(begin));
  expect(await countOpen()).toBe(300);
  for (let minute = 1; minute < 8; minute += 1) {
    now += 60_000;
    await Promise.all(numbersBelow(300).map((n) => begin(1_000 * minute + n)));
  }
  expect(await countOpen()).toBe(2_400);

  await records.trim();
  expect(await countOpen()).toBe(2_000);
  // The oldest are deleted, and are no longer found by their state.
  expect(await records.byState('state-1')).toBeUndefined();
  expect(await records.byState('state-7299')).toBeDefined();
});

test('R95 during a flood from one network, failures of other networks and with a genuine state are recorded', async () => {
  const addWithoutState = (n: number, address: string) =>
    records.add(undefined, { ...expired(), reference: `bare-${n}`, browserHash: 'h', address });
  const ids = await Promise.all(numbersBelow(1_000).map((n) => addWithoutState(n, `2001:db8::${n.toString(16)}`)));
  expect(ids.filter((id) => id !== undefined)).toHaveLength(300);

  expect(await addWithoutState(5_000, '2001:db8:0:1::1')).toBe('bare-5000');
  await records.add('state-1', { ...expired(), reference: 'genuine1', address: '2001:db8::1' });
  expect(await records.find('GENUINE1')).toMatchObject({ failure: 'state_expired' });

  now += 60_000;
  expect(await addWithoutState(6_000, '2001:db8::1')).toBe('bare-6000');
});

test('R54 an address leaves ten records a minute of callbacks without a genuine state and without a cookie', async () => {
  const add = (n: number, address: string) => records.add(undefined, { ...expired(), reference: `none-${n}`, address });
  const ids = await Promise.all(numbersBelow(30).map((n) => add(n, `2001:db8::${n.toString(16)}`)));
  expect(ids.filter((id) => id !== undefined)).toHaveLength(10);
  expect(await add(100, '2001:db8:0:1::1')).toBe('none-100');
  await beginFrom('2001:db8::1', 'r0000001', records);
  expect(await countOpen()).toBe(1);
  now += 60_000;
  expect(await add(101, '2001:db8::1')).toBe('none-101');
});

test('R54 limits the records of callbacks from one address whose genuine states were collected before', async () => {
  const addWithState = (n: number, address: string) =>
    records.add(`state-${n}`, { ...expired(), reference: `old-${n}`, address });
  const ids = await Promise.all(numbersBelow(1_000).map((n) => addWithState(n, '192.0.2.1')));
  expect(ids.filter((id) => id !== undefined)).toHaveLength(300);
  expect(await addWithState(2_000, '192.0.2.2')).toBe('old-2000');

  // The end of a pending request is always recorded.
  const changes = { ...expired(), reference: 'pending1', address: '192.0.2.1' };
  expect(await records.add('state-3000', changes, { id: 'gone0001' })).toBe('pending1');
});

test.each([
  ['starts without a callback', false],
  ['failing callbacks of genuine requests', true],
])('R95 a flood of %s from one network displaces only records of that network', async (_flood, isFailing) => {
  const smallStore = createRecordStore({ store, clock: () => now, maxRecords: { open: 100, all: 100 } });
  const attempt = async (id: string, address: string) => {
    now += 1_000;
    await beginFrom(address, id, smallStore);
    const refused = { steps: [], endedAt: now, outcome: 'refused', failure: 'access_denied', address } as const;
    if (isFailing) await smallStore.add(`state-${id}`, { ...refused, reference: `page-${id}` });
  };
  const others = numbersBelow(30).map((n) => ({ id: `other-${n}`, address: `192.0.2.${n % 10}` }));

  for (const { id, address } of others) await attempt(id, address);
  for (let n = 0; n < 200; n += 1) await attempt(`flood-${n}`, `2001:db8::${n.toString(16)}`);
  await smallStore.trim();

  const recordsOfOthers = await Promise.all(others.map(({ id }) => smallStore.find(id)));
  expect(recordsOfOthers).not.toContain(undefined);
  expect(await store.count(keys.signIns('all'))).toBe(100);
  expect(await smallStore.find('flood-129')).toBeUndefined();
  expect(await smallStore.find('flood-130')).toMatchObject({ id: 'flood-130' });
});

test('R54 deletes the oldest records if there are more addresses than allowed records', async () => {
  const smallStore = createRecordStore({ store, clock: () => now, maxRecords: { open: 5, all: 5 } });
  for (let n = 0; n < 9; n += 1) {
    now += 1_000;
    await beginFrom(`192.0.2.${n}`, `start-${n}`, smallStore);
  }
  await smallStore.trim();
  const { items } = await smallStore.page({ limit: 9 });
  expect(items.map(({ id }) => id)).toEqual(['start-8', 'start-7', 'start-6', 'start-5', 'start-4']);
});

test('R54 a callback that is opened many times stores at most 10 references', async () => {
  await begin(1);
  for (let n = 0; n < 30; n += 1) await records.add('state-1', { steps: [], reference: `request-${n}` });
  expect((await records.byState('state-1'))?.references).toHaveLength(10);
  expect(await records.find('request-8')).toBeDefined();
  expect(await records.find('request-9')).toBeUndefined();
});

test('creates a record for a callback without a recorded start, and adds later requests with the same state', async () => {
  const changes = { steps: [], reference: 'PAGE0001', app: 'platform', purpose: 'connect' } as const;
  await records.add('state-1', changes);
  expect(await records.byState('state-1')).toMatchObject({ id: 'page0001', purpose: 'connect', startedAt: now });
  await records.add('state-1', { steps: [], reference: 'page0002' });
  expect(await records.find('PAGE0002')).toMatchObject({ id: 'page0001', references: ['PAGE0001', 'page0002'] });

  // Without a state, the record is found only by its reference.
  await records.add(undefined, { steps: [], reference: 'page0003' });
  expect(await records.find('page0003')).toMatchObject({ app: 'unknown', purpose: 'unknown', facts: {} });
});

test('R10 an attempt that has ended changes only by its own callback', async () => {
  await begin(1);
  const refused = { endedAt: now, failure: 'access_denied', outcome: 'refused', steps: [] } as const;
  await records.add('state-1', { ...refused, reference: 'x1' });
  const refusedRecord = await records.find('r0000001');

  expect(await records.add('state-1', { ...refused, failure: 'cookie_missing', reference: 'x2' })).toBe('r0000001');
  expect(await records.find('r0000001')).toEqual(refusedRecord);
  expect(await records.find('x2')).toBeUndefined();

  const success = { endedAt: now, failure: undefined, outcome: 'signed_in', steps: [], reference: 'x3' } as const;
  await records.add('state-1', success, { id: 'r0000001' });
  expect(await records.find('r0000001')).toMatchObject({ outcome: 'signed_in', references: ['r0000001', 'x1', 'x3'] });
});

test('an attempt is open until it ends, and among the failed ones only if it failed', async () => {
  const listIds = async (filter: { list?: 'open' | 'failed' }) => {
    const { items } = await records.page({ limit: 9, ...filter });
    return items.map(({ id }) => id);
  };
  await begin(1);
  now += 1_000;
  await begin(2);
  expect([await countOpen(), await listIds({ list: 'failed' })]).toEqual([2, []]);
  expect(await listIds({ list: 'open' })).toEqual(['r0000002', 'r0000001']);

  await records.add('state-1', { ...expired(), reference: 'x1' });
  expect([await countOpen(), await listIds({ list: 'failed' })]).toEqual([1, ['r0000001']]);

  const success = { endedAt: now, failure: undefined, outcome: 'signed_in', steps: [] } as const;
  await records.add('state-1', { ...success, reference: 'x2' }, { id: 'r0000001' });
  await records.add('state-2', { endedAt: now, outcome: 'signed_in', steps: [], reference: 'x3' });
  expect([await countOpen(), await listIds({ list: 'open' })]).toEqual([0, []]);
  expect(await listIds({})).toEqual(['r0000002', 'r0000001']);
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
  await Promise.all(numbersBelow(250).map(begin));
  now += 1;
  await begin(999);

  now += 30 * DAY;
  await records.trim();
  expect((await records.page({ limit: 9 })).items.map(({ id }) => id)).toEqual(['r0000999']);
  expect([await countOpen(), await store.count(keys.signIns('all'))]).toEqual([1, 1]);
});

test('unfinished attempts have their own limit, within the limit of all', async () => {
  const smallStore = createRecordStore({ store, clock: () => now, maxRecords: { open: 2, all: 4 } });
  for (let n = 0; n < 8; n += 1) {
    now += 1_000;
    await beginFrom('192.0.2.1', `start-${n}`, smallStore);
    const success = { endedAt: now, outcome: 'signed_in', steps: [], reference: `end-${n}` } as const;
    if (n < 4) await smallStore.add(`state-start-${n}`, success);
  }
  await smallStore.trim();
  const { items } = await smallStore.page({ limit: 9 });
  expect(items.map(({ id }) => id)).toEqual(['start-7', 'start-6', 'start-3', 'start-2']);

  // Another run deletes nothing, since the records are within the limits.
  await smallStore.trim();
  expect(await store.count(keys.signIns('all'))).toBe(4);
});

test('the scheduled task that deletes old records runs at least once an hour', async () => {
  const events = { signInEnded: () => undefined };
  const module = createSignInRecords({ store, clock: () => now, events });
  await begin(1);
  now += 31 * DAY;
  for (const { name, everyMilliseconds, work } of module.scheduledTasks) {
    expect(name).toMatch(/^[a-z-]+$/);
    expect(everyMilliseconds).toBeGreaterThanOrEqual(60_000);
    expect(everyMilliseconds).toBeLessThanOrEqual(3_600_000);
    await work(ENDLESS_TURN);
  }
  expect(await module.store.find('r0000001')).toBeUndefined();
});

test('R54 the limit of an address counts all starts within the same minute', async () => {
  for (let n = 0; n < 150; n += 1) await begin(n);
  now += 59_999;
  for (let n = 150; n < 350; n += 1) await begin(n);
  expect(await countOpen()).toBe(300);
  now += 1;
  await begin(350);
  expect(await countOpen()).toBe(301);
});

test('R95 callbacks with a genuine state are not counted with starts, but those without a state are', async () => {
  await Promise.all(numbersBelow(301).map(begin));

  expect(await records.add(undefined, { ...expired(), reference: 'bare0001', browserHash: 'h' })).toBeUndefined();
  expect(await records.add('state-old', { ...expired(), reference: 'stale001' })).toBe('stale001');
});

test('finds an attempt by id or reference, trimmed and without regard to case, and by no other text', async () => {
  await begin(1);
  await records.add('state-1', { steps: [], reference: 'Page0001' });

  for (const term of ['r0000001', ' R0000001 ', 'page0001', '\tPAGE0001\n'])
    expect(await records.find(term)).toMatchObject({ id: 'r0000001' });
  for (const term of ['', 'r000000', 'state-1']) expect(await records.find(term)).toBeUndefined();
  expect(await records.byState('state-1')).toMatchObject({ id: 'r0000001' });
  expect(await records.byState('state-2')).toBeUndefined();
});

test('pages through all, failed and open attempts, and those of one e-mail address', async () => {
  for (let n = 0; n < 4; n += 1) {
    now += 1_000;
    await begin(n);
    if (n < 2) await records.add(`state-${n}`, { ...expired(), email: 'ada@example.test', reference: `x${n}` });
  }
  const listIdsOfTwoPages = async (filter: object) => {
    const first = await records.page({ limit: 1, ...filter });
    const second = await records.page({ limit: 1, after: first.next, ...filter });
    return [...first.items, ...second.items].map(({ id }) => id);
  };

  expect(await listIdsOfTwoPages({})).toEqual(['r0000003', 'r0000002']);
  expect(await listIdsOfTwoPages({ list: 'open' })).toEqual(['r0000003', 'r0000002']);
  expect(await listIdsOfTwoPages({ list: 'failed' })).toEqual(['r0000001', 'r0000000']);
  expect(await listIdsOfTwoPages({ user: ' ADA@example.test' })).toEqual(['r0000001', 'r0000000']);
  expect(await listIdsOfTwoPages({ user: 'ada@example.tes' })).toEqual([]);
});

test('adds all requests that end at the same time, even if their record was prefetched', async () => {
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
  const failingStore = { ...store, get: unavailable, write: unavailable };
  const failingRecords = createRecordStore({ store: failingStore, clock: () => now });

  await beginFrom('192.0.2.1', 'start-1', failingRecords);
  failingRecords.prefetch('start-1');
  expect(await failingRecords.add('state-start-1', { steps: [], reference: 'page0001' })).toBeUndefined();
});

describe('the attempts of a user', () => {
  const addEnded = async (n: number, changes: { userId?: string; email?: string; app?: string }) => {
    now += 1_000;
    await begin(n);
    await records.add(`state-${n}`, { ...changes, steps: [], reference: `page000${n}`, endedAt: now });
  };
  beforeEach(async () => {
    await addEnded(1, { userId: 'u1', email: 'Ada@example.test' });
    await addEnded(2, { email: 'ada@EXAMPLE.test' });
    await addEnded(3, { userId: 'u1', app: 'second' });
    await addEnded(4, { userId: 'u2', email: 'ben@example.test' });
  });

  test('are listed by id and e-mail address together, newest first, with a filter', async () => {
    const listIds = async (user: { id: string; email?: string }, accepts = (_record: SignInRecord) => true) => {
      const source = records.merged(user, accepts);
      const positions = await source.page({ after: undefined, limit: 9 });
      return (await source.load(positions)).map((record) => record?.id);
    };

    const ada = { id: 'u1', email: 'ADA@example.test' };
    expect(await listIds(ada)).toEqual(['r0000003', 'r0000002', 'r0000001']);
    expect(await listIds({ id: 'u1' })).toEqual(['r0000003', 'r0000001']);
    expect(await listIds({ id: 'u3' })).toEqual([]);
    expect(await listIds(ada, ({ app }) => app === 'platform')).toEqual([undefined, 'r0000002', 'r0000001']);

    const source = records.merged(ada, () => true);
    const positions = await source.page({ after: undefined, limit: 2 });
    expect(positions.map(({ member }) => member)).toEqual(['r0000003', 'r0000002']);
    expect(await source.load([{ member: 'deleted', score: now }])).toEqual([undefined]);
  });

  test('are deleted with the user, from every list and under every reference', async () => {
    await store.write([{ put: keys.signInReturn('r0000001'), value: 'sealed' }]);
    await records.forgetUser({ id: 'u1', email: 'ADA@example.test' });
    expect(await store.get(keys.signInReturn('r0000001'))).toBeUndefined();
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
  const page = await records.page({ limit: 9, user: 'ada@example.TEST' });
  expect(page.items).toMatchObject([{ id: 'r0000001', references: ['r0000001', 'page0001'] }]);
  expect((await records.page({ limit: 9, list: 'failed' })).items).toHaveLength(1);
  await records.forgetUser({ id: 'u1', email: 'ada@example.test' });
  expect(await records.find('page0001')).toBeUndefined();
  expect((await records.page({ limit: 9 })).items).toEqual([]);
});
