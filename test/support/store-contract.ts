/** The contract of a store as tests: one suite for every implementation of the port. */
import fc from 'fast-check';
import { test as baseTest, beforeEach, describe, expect, type TestAPI } from 'vitest';
import type { CopyItem, Store } from '../../src/shared/storage/store.ts';
import { appendTo } from './append-to.ts';
import { skipIfMissing } from './missing.ts';

export interface StoreHarness {
  /** Opens a store on the same data, like another process. The suite closes it. */
  open(): Promise<Store>;
  /** Advances the time of every open store. */
  elapse(milliseconds: number): Promise<void>;
  /** Called after the stores were closed. */
  dispose(): Promise<void>;
}

interface Pair {
  first: Store;
  second: Store;
  elapse: StoreHarness['elapse'];
}

/** Longer than any test takes. */
const LONG_SECONDS = 600;

type ContractTest = TestAPI<{ pair: Pair }>;

/** @param missing the program that is missing on this machine, if any */
export function storeContract(name: string, makeStore: () => Promise<StoreHarness>, missing?: string): void {
  const test: ContractTest = baseTest.extend<{ pair: Pair }>({
    pair: async ({ task: _task }, use) => {
      const { open, elapse, dispose } = await makeStore();
      const first = await open();
      const second = await open();
      await use({ first, second, elapse });
      await first.close();
      await second.close();
      await dispose();
    },
  });

  // Concurrent, because half of the tests wait for an expiry, each in a separate store. A test that polls must use the
  // `expect` of its context, because the global one cannot tell which of the concurrent tests is running.
  describe.concurrent(`${name} fulfils the store contract:`, () => {
    beforeEach(({ skip }) => skipIfMissing({ skip }, missing));

    testRecords(test);
    testWalk(test);
    testWrites(test);
    testIndexes(test);
    testCounters(test);
    testLogs(test);
    testLeases(test);
    testMessages(test);
    testCopies(test);
    testClosing(test);
  });
}

function testRecords(test: ContractTest): void {
  describe('records', () => {
    test('a process reads the exact value that another process wrote', async ({ pair }) => {
      const value = 'ünï\u0000 "\\ \n 😀';
      expect(await pair.first.write([{ put: 'a', value }])).toBeDefined();
      expect((await pair.second.get('a'))?.value).toBe(value);
      expect(await pair.first.get('missing')).toBeUndefined();
    });

    test('getIfChanged returns the record only if its version differs', async ({ pair }) => {
      await pair.first.write([{ put: 'a', value: '1', lifetimeSeconds: 60 }]);
      const first = await pair.second.getIfChanged('a', undefined);
      if (typeof first !== 'object') throw new Error('Without a version, the record must be returned.');
      expect(first.value).toBe('1');
      expect(await pair.second.getIfChanged('a', first.version)).toBe('unchanged');

      await pair.first.write([{ put: 'a', value: '1' }]);
      const second = await pair.second.getIfChanged('a', first.version);
      expect(second).toEqual(await pair.first.get('a'));
      expect(second).not.toMatchObject({ version: first.version });

      await pair.first.write([{ delete: 'a' }]);
      expect(await pair.second.getIfChanged('a', first.version)).toBeUndefined();

      await pair.first.write([{ put: 'a', value: '1' }]);
      expect(await pair.second.getIfChanged('a', first.version)).toMatchObject({ value: '1' });
      expect(await pair.first.getIfChanged('missing', undefined)).toBeUndefined();
    });

    test('getIfChanged returns undefined for an expired record', async ({ pair }) => {
      await pair.first.write([{ put: 'a', value: '1', lifetimeSeconds: 1 }]);
      const version = (await pair.first.get('a'))?.version;
      await pair.elapse(1_100);
      expect(await pair.first.getIfChanged('a', version)).toBeUndefined();
    });

    test('a write returns the version of every record that it put', async ({ pair }) => {
      const writes = [
        { put: 'a:{t}', value: '1' },
        { put: 'b:{t}', value: '1' },
      ];
      for (const store of [pair.first, pair.second]) {
        await store.write([{ delete: 'b:{t}' }]);
        const version = await store.write(writes);
        expect(version).toBeGreaterThan(0);
        const records = [await pair.first.get('a:{t}'), await pair.second.get('b:{t}')];
        expect(records.map((record) => record?.version)).toEqual([version, version]);
      }
      expect(await pair.first.write([{ delete: 'a:{t}' }])).toBeGreaterThan(0);
      expect(await pair.first.write([{ delete: 'missing' }])).toBeGreaterThan(0);
    });

    test('a version grows with each write and never repeats, even after the key was deleted', async ({ pair }) => {
      const versions: number[] = [];
      for (const store of [pair.first, pair.second, pair.first]) {
        await store.write([{ put: 'a', value: 'same' }]);
        versions.push((await store.get('a'))?.version ?? 0);
        await store.write([{ delete: 'a' }]);
      }
      expect(versions[0]).toBeGreaterThan(0);
      expect(versions[1]).toBeGreaterThan(versions[0] ?? 0);
      expect(versions[2]).toBeGreaterThan(versions[1] ?? 0);
    });

    test('a put with an unchanged lifetime keeps the expiry time of the record, or that it never expires', async ({
      pair,
    }) => {
      await pair.first.write([{ put: 'a', value: '1', lifetimeSeconds: 3 }]);
      await pair.first.write([{ put: 'b', value: '1' }]);
      await pair.elapse(1_000);
      for (const put of ['a', 'b', 'c']) await pair.second.write([{ put, value: '2', lifetimeSeconds: 'unchanged' }]);
      expect((await pair.first.get('a'))?.value).toBe('2');

      await pair.elapse(2_100);
      expect(await pair.first.get('a')).toBeUndefined();
      expect((await pair.first.get('b'))?.value).toBe('2');
      expect((await pair.first.get('c'))?.value).toBe('2');
    });

    test('a value may be large, and a lifetime long', async ({ pair }) => {
      const value = 'ü'.repeat(200_000);
      await pair.first.write([{ put: 'a', value, lifetimeSeconds: 3_000_000_000 }]);
      expect((await pair.second.get('a'))?.value === value).toBe(true);
    });

    test('an expired record is absent for reads and conditions', async ({ pair }) => {
      await pair.first.write([{ put: 'a', value: '1', lifetimeSeconds: 3 }]);
      await pair.elapse(1_000);
      expect((await pair.first.get('a'))?.value).toBe('1');

      await pair.elapse(2_100);
      expect(await pair.second.get('a')).toBeUndefined();
      expect(await pair.first.write([{ put: 'a', value: '2', ifVersion: 0 }])).toBeDefined();
    });

    test('a put without a lifetime never expires, even if it replaces a record that does', async ({ pair }) => {
      await pair.first.write([{ put: 'a', value: '1', lifetimeSeconds: 1 }]);
      await pair.first.write([{ put: 'a', value: '2' }]);
      await pair.elapse(1_200);
      expect((await pair.first.get('a'))?.value).toBe('2');
    });

    test('a put with a lifetime of zero or less deletes the record', async ({ pair }) => {
      await pair.first.write([{ put: 'a', value: '1' }]);
      await pair.first.write([{ put: 'a', value: '2', lifetimeSeconds: 0 }]);
      expect(await pair.first.get('a')).toBeUndefined();

      await pair.first.write([{ put: 'b', value: '2', lifetimeSeconds: -5 }]);
      expect(await pair.first.get('b')).toBeUndefined();
    });

    test('exactly one of many callers can delete the version that they read', async ({ pair }) => {
      await pair.first.write([{ put: 'a', value: 'once' }]);
      const ifVersion = (await pair.first.get('a'))?.version ?? 0;
      const stores = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? pair.first : pair.second));
      const deleted = await Promise.all(stores.map((store) => store.write([{ delete: 'a', ifVersion }])));
      expect(deleted.filter(Boolean)).toHaveLength(1);
      expect(await pair.first.get('a')).toBeUndefined();
    });
  });
}

function testWalk(test: ContractTest): void {
  describe('a walk', () => {
    const walkAll = async (pair: Pair) => (await Array.fromAsync(pair.second.walk())).flat();

    test('returns every record with its value and version, and no counter, index, log, lease or expired record', async ({
      pair,
    }) => {
      expect(await walkAll(pair)).toEqual([]);

      await pair.first.write([
        { put: 'a:{t}', value: '1:x' },
        { index: 'i:{t}', add: 'm', score: 1 },
      ]);
      await pair.first.write([{ put: 'b', value: 'ü\n', lifetimeSeconds: 60 }]);
      await pair.first.write([{ put: 'c', value: '', lifetimeSeconds: 1 }]);
      await pair.first.increment('n', 12, { lifetimeSeconds: 60 });
      await appendTo(pair.first, 'l', '1:entry', 1);
      await pair.first.acquireLease('e', 'owner', 60_000);
      await pair.first.ready();
      await pair.elapse(1_100);
      const versionOf = async (key: string) => (await pair.first.get(key))?.version;
      const records = (await walkAll(pair)).toSorted((x, y) => (x.key < y.key ? -1 : 1));
      expect(records).toEqual([
        { key: 'a:{t}', value: '1:x', version: await versionOf('a:{t}') },
        { key: 'b', value: 'ü\n', version: await versionOf('b') },
      ]);
    });

    test('misses no existing record despite concurrent writes and deletions', async ({ pair }) => {
      const keys = Array.from({ length: 1_500 }, (_, n) => `stays ${n} {${n}}`);
      await Promise.all(keys.map((key) => pair.first.write([{ put: key, value: 'v' }])));
      const seen = new Set<string>();
      let pages = 0;
      for await (const page of pair.second.walk()) {
        pages += 1;
        for (const { key } of page) seen.add(key);
        const temporary = Array.from({ length: 100 }, (_, n) => `temporary ${pages} ${n}`);
        await Promise.all(temporary.map((key) => pair.first.write([{ put: key, value: 'v', lifetimeSeconds: 60 }])));
        await Promise.all(
          page.slice(0, 50).map(({ key, version }) => pair.first.write([{ put: key, value: 'w', ifVersion: version }])),
        );
        await Promise.all(temporary.slice(0, 90).map((key) => pair.first.write([{ delete: key }])));
      }
      expect(keys.filter((key) => !seen.has(key))).toEqual([]);
      expect(pages).toBeGreaterThan(2);
    });
  });
}

function testWrites(test: ContractTest): void {
  describe('writes', () => {
    test('only one compare-and-set succeeds on the version that was read', async ({ pair }) => {
      await pair.first.write([{ put: 'a', value: '1' }]);
      const version = (await pair.first.get('a'))?.version ?? 0;
      const attempts = [pair.first, pair.second, pair.first].map((store, index) =>
        store.write([{ put: 'a', value: `winner ${index}`, ifVersion: version }]),
      );
      expect((await Promise.all(attempts)).filter(Boolean)).toHaveLength(1);
      expect((await pair.first.get('a'))?.value).toMatch(/^winner/);
    });

    test('a compare-and-set sets a lifetime, and changes none if it fails', async ({ pair }) => {
      const [short, long] = [{ lifetimeSeconds: 2 }, { lifetimeSeconds: LONG_SECONDS }];
      await pair.first.write([{ put: 'lasting', value: '1' }]);
      await pair.first.write([{ put: 'refused', value: '1' }]);
      const lasting = await pair.second.get('lasting');
      expect(
        await pair.second.write([{ put: 'lasting', value: '2', ifVersion: lasting?.version ?? 0, ...short }]),
      ).toBeDefined();
      expect(await pair.second.write([{ put: 'refused', value: '2', ifVersion: 0, ...short }])).toBeUndefined();

      for (const put of ['new', 'extended'])
        expect(await pair.first.write([{ put, value: '1', ifVersion: 0, ...short }])).toBeDefined();
      const ending = await pair.second.get('extended');
      expect(
        await pair.second.write([{ put: 'extended', value: '2', ifVersion: ending?.version ?? 0, ...long }]),
      ).toBeDefined();

      await pair.elapse(2_100);
      const values = ['lasting', 'refused', 'new', 'extended'].map(async (key) => (await pair.first.get(key))?.value);
      expect(await Promise.all(values)).toEqual([undefined, '1', undefined, '2']);
    });

    test('ifVersion 0 requires that the key is absent', async ({ pair }) => {
      expect(await pair.first.write([{ put: 'a', value: '1', ifVersion: 0 }])).toBeDefined();
      expect(await pair.second.write([{ put: 'a', value: '2', ifVersion: 0 }])).toBeUndefined();
      expect((await pair.first.get('a'))?.value).toBe('1');
    });

    test('a delete may have a condition, too', async ({ pair }) => {
      await pair.first.write([{ put: 'a', value: '1' }]);
      const version = (await pair.first.get('a'))?.version ?? 0;
      expect(await pair.first.write([{ delete: 'a', ifVersion: version + 1 }])).toBeUndefined();
      expect(await pair.first.write([{ delete: 'a', ifVersion: version }])).toBeDefined();
      expect(await pair.first.get('a')).toBeUndefined();
    });

    test('a write changes nothing if one condition fails', async ({ pair }) => {
      await pair.first.write([
        { put: 'x:{t}', value: 'old' },
        { index: 'i:{t}', add: 'kept', score: 1 },
      ]);
      const refused = await pair.first.write([
        { put: 'x:{t}', value: 'new' },
        { put: 'z:{t}', value: 'new' },
        { index: 'i:{t}', add: 'added', score: 2 },
        { index: 'i:{t}', remove: 'kept' },
        { delete: 'y:{t}', ifVersion: 99 },
      ]);
      expect(refused).toBeUndefined();
      expect((await pair.first.get('x:{t}'))?.value).toBe('old');
      expect(await pair.first.get('z:{t}')).toBeUndefined();
      expect((await pair.first.page('i:{t}', { limit: 9 })).items).toEqual([{ member: 'kept', score: 1 }]);
    });

    test('one write applies steps of every kind', async ({ pair }) => {
      await pair.first.write([
        ...['there:{t}', 'changed:{t}', 'gone:{t}'].map((put) => ({ put, value: '1' })),
        ...['old', 'moved'].map((add) => ({ index: 'i:{t}', add, score: 1 })),
      ]);
      const there = await pair.first.get('there:{t}');
      const changed = await pair.first.get('changed:{t}');
      const steps = [
        { exists: 'there:{t}' },
        { put: 'changed:{t}', value: '2', ifVersion: changed?.version ?? 0, lifetimeSeconds: LONG_SECONDS },
        { put: 'new:{t}', value: '2', ifVersion: 0 },
        { delete: 'gone:{t}' },
        { index: 'i:{t}', remove: 'old' },
        { index: 'i:{t}', add: 'moved', score: 3 },
        { index: 'i:{t}', add: 'new', score: 2 },
        { index: 'j:{t}', add: 'new', score: 2 },
      ];
      expect(await pair.second.write(steps)).toBeDefined();
      expect(await pair.first.get('there:{t}')).toEqual(there);

      const values = ['changed:{t}', 'new:{t}', 'gone:{t}'].map(async (key) => (await pair.first.get(key))?.value);
      expect(await Promise.all(values)).toEqual(['2', '2', undefined]);
      expect([await walk(pair.first, 'i:{t}', 9), await walk(pair.first, 'j:{t}', 9)]).toEqual([
        ['new', 'moved'],
        ['new'],
      ]);
    });

    test('conditions are checked against the state before the first step', async ({ pair }) => {
      const steps = [
        { put: 'a:{t}', value: '1', ifVersion: 0 },
        { put: 'a:{t}', value: '2', ifVersion: 0 },
      ];
      expect(await pair.first.write(steps)).toBeDefined();
      expect((await pair.first.get('a:{t}'))?.value).toBe('2');
    });

    test('a write that requires a record changes nothing if the record is missing or expired', async ({ pair }) => {
      const steps = [{ put: 'note:{t}', value: '1' }, { index: 'i:{t}', add: 'm', score: 1 }, { exists: 'owner:{t}' }];
      expect(await pair.first.write(steps)).toBeUndefined();
      expect([await pair.first.get('note:{t}'), await pair.first.count('i:{t}')]).toEqual([undefined, 0]);

      await pair.second.write([{ put: 'owner:{t}', value: 'x', lifetimeSeconds: 3 }]);
      const owner = await pair.first.get('owner:{t}');
      expect(await pair.first.write(steps)).toBeDefined();
      expect([(await pair.first.get('note:{t}'))?.value, await pair.first.count('i:{t}')]).toEqual(['1', 1]);
      expect(await pair.first.get('owner:{t}')).toEqual(owner);

      await pair.elapse(3_100);
      expect(await pair.first.write([{ exists: 'owner:{t}' }, { delete: 'note:{t}' }])).toBeUndefined();
      expect((await pair.first.get('note:{t}'))?.value).toBe('1');

      // Checked before the first step, like every condition.
      const putAndRequire = [{ put: 'owner:{t}', value: 'x' }, { exists: 'owner:{t}' }];
      expect([await pair.first.write(putAndRequire), await pair.first.get('owner:{t}')]).toEqual([
        undefined,
        undefined,
      ]);

      for (const mistake of [
        [{ exists: 'a:{one}' }, { put: 'a:{two}', value: '1' }],
        [{ exists: 'owner:{t}', ifVersion: 1 }],
      ])
        await expect(pair.first.write(mistake)).rejects.toThrow(TypeError);
    });

    test('a write that requires a version of a record changes nothing if the version differs', async ({ pair }) => {
      const note = (version: number) => [
        { exists: 'owner:{t}', version },
        { put: 'note:{t}', value: `${version}` },
      ];
      // No record has the version 0.
      for (const version of [0, 1]) expect(await pair.first.write(note(version))).toBeUndefined();
      const first = (await pair.second.write([{ put: 'owner:{t}', value: 'x', lifetimeSeconds: 3 }])) ?? 0;
      expect(await pair.first.write(note(first))).toBeDefined();
      expect((await pair.first.get('owner:{t}'))?.version).toBe(first);

      const second = (await pair.second.write([{ put: 'owner:{t}', value: 'x', lifetimeSeconds: 3 }])) ?? 0;
      for (const version of [0, first, second + 1]) expect(await pair.first.write(note(version))).toBeUndefined();
      expect((await pair.first.get('note:{t}'))?.value).toBe(`${first}`);
      // Checked before the first step, like every condition.
      expect(await pair.first.write([{ delete: 'owner:{t}' }, ...note(second)])).toBeDefined();
      expect(await pair.first.write(note(second))).toBeUndefined();

      const third = (await pair.first.write([{ put: 'owner:{t}', value: 'x', lifetimeSeconds: 3 }])) ?? 0;
      await pair.elapse(3_100);
      expect(await pair.first.write(note(third))).toBeUndefined();
      expect((await pair.first.get('note:{t}'))?.value).toBe(`${second}`);
    });

    test('only one of several writes that require and replace one version succeeds', async ({ pair }) => {
      const version = (await pair.first.write([{ put: 'owner:{t}', value: 'x' }])) ?? 0;
      const attempts = Array.from({ length: 20 }, (_, n) =>
        (n % 2 === 0 ? pair.first : pair.second).write([
          { exists: 'owner:{t}', version },
          { put: 'owner:{t}', value: `${n}` },
          { index: 'owners:{t}', add: `${n}`, score: n },
        ]),
      );
      expect((await Promise.all(attempts)).filter((result) => result !== undefined)).toHaveLength(1);

      const { items } = await pair.first.page('owners:{t}', { limit: 99 });
      expect(items.map(({ member }) => member)).toEqual([(await pair.second.get('owner:{t}'))?.value]);
    });

    test('keys with different tags are refused with a TypeError, including the lease of the fence', async ({
      pair,
    }) => {
      const steps = [
        { put: 'a:{one}', value: '1' },
        { index: 'i:{two}', add: 'm', score: 1 },
      ];
      await expect(pair.first.write(steps)).rejects.toBeInstanceOf(TypeError);

      const fence = { lease: 'lease:{two}', number: 1 };
      await expect(pair.first.write(steps.slice(0, 1), { fence })).rejects.toBeInstanceOf(TypeError);
      expect(await pair.first.get('a:{one}')).toBeUndefined();
    });

    test('a write without steps succeeds', async ({ pair }) => {
      expect(await pair.first.write([])).toBeDefined();
    });
  });
}

function testIndexes(test: ContractTest): void {
  const add = (member: string, score: number) => ({ index: 'i', add: member, score });

  describe('indexes', () => {
    test('members are ordered by score, then by their bytes, in both directions and over several pages', async ({
      pair,
    }) => {
      const members = [add('b', 2), add('ｚ', 1), add('😀', 1), add('a', 1), add('c', -1.5), add('B', 1)];
      await pair.first.write(members);
      const expected = ['c', 'B', 'a', 'ｚ', '😀', 'b'];
      expect(await walk(pair.second, 'i', 4)).toEqual(expected);
      expect(await walk(pair.second, 'i', 1)).toEqual(expected);
      expect(await walk(pair.second, 'i', 4, 'descending')).toEqual(expected.toReversed());
      expect(await pair.second.count('i')).toBe(6);
      expect(await Promise.all([-2, -1.5, 1, 9].map((score) => pair.second.count('i', score)))).toEqual([0, 1, 5, 6]);
      await expect(pair.first.count('i', Number.NaN)).rejects.toThrow(TypeError);
    });

    test('more than a thousand members are read in large pages, in both directions', async ({ pair }) => {
      const members = Array.from({ length: 1_200 }, (_, n) => `m${String(n).padStart(4, '0')}`);
      await pair.first.write(members.map((member, n) => add(member, Math.floor(n / 7))));
      for (const limit of [100, 500, 1_000]) {
        expect(await walk(pair.second, 'i', limit)).toEqual(members);
        expect(await walk(pair.second, 'i', limit, 'descending')).toEqual(members.toReversed());
      }
    });

    test('adding a member again moves it, the last page has no next, and an unknown index is empty', async ({
      pair,
    }) => {
      await pair.first.write([add('a', 1), add('b', 2)]);
      await pair.first.write([add('a', 3)]);
      const page = await pair.first.page('i', { limit: 2 });
      expect(page).toEqual({
        items: [
          { member: 'b', score: 2 },
          { member: 'a', score: 3 },
        ],
      });

      await pair.first.write([
        { index: 'i', remove: 'a' },
        { index: 'i', remove: 'absent' },
      ]);
      expect(await pair.first.count('i')).toBe(1);
      expect(await pair.first.page('unknown', { limit: 5 })).toEqual({ items: [] });
      expect(await pair.first.count('unknown')).toBe(0);
    });

    test('a page continues after the last member even if that member was removed', async ({ pair }) => {
      await pair.first.write([add('a', 1), add('b', 1), add('c', 1), add('d', 2)]);
      const { next } = await pair.first.page('i', { limit: 2 });
      await pair.second.write([{ index: 'i', remove: 'b' }]);
      const rest = await pair.first.page('i', { limit: 9, ...(next === undefined ? {} : { after: next }) });
      expect(rest.items.map((item) => item.member)).toEqual(['c', 'd']);
    });

    test('the cursor of another list is an invalid request, and a bad limit or score is a TypeError', async ({
      pair,
    }) => {
      for (const after of ['junk', '', 'WzEsMl0']) {
        await expect(pair.first.page('i', { limit: 2, after })).rejects.toMatchObject({ code: 'invalid_request' });
      }
      for (const limit of [0, -1, 1.5]) {
        await expect(pair.first.page('i', { limit })).rejects.toBeInstanceOf(TypeError);
      }
      await expect(pair.first.write([add('a', Number.NaN)])).rejects.toBeInstanceOf(TypeError);
    });

    test('paging during concurrent changes neither skips nor repeats an unchanged member', async ({ pair }) => {
      let round = 0;
      const scores = fc.integer({ min: 0, max: 3 });
      const staying = fc.array(scores, { minLength: 1, maxLength: 12 });
      const churn = fc.array(fc.record({ add: fc.boolean(), name: fc.integer({ min: 0, max: 9 }), score: scores }), {
        maxLength: 20,
      });
      const order = fc.constantFrom('ascending' as const, 'descending' as const);
      await fc.assert(
        fc.asyncProperty(
          staying,
          churn,
          fc.integer({ min: 1, max: 4 }),
          order,
          async (stay, changes, limit, direction) => {
            round += 1;
            const index = `i${round}`;
            await pair.first.write(stay.map((score, n) => ({ index, add: `stays ${n}`, score })));
            const pending = [...changes];
            const seen = await walk(pair.first, index, limit, direction, async () => {
              for (const { add: adds, name, score } of pending.splice(0, 3)) {
                const member = `${name % 2 === 0 ? 'a' : 'z'}${name}`;
                await pair.second.write([adds ? { index, add: member, score } : { index, remove: member }]);
              }
            });
            const stayed = seen.filter((member) => member.startsWith('stays'));
            expect(stayed.toSorted()).toEqual(stay.map((_, n) => `stays ${n}`).toSorted());
          },
        ),
        { numRuns: 60 },
      );
    });
  });
}

function testCounters(test: ContractTest): void {
  describe('counters', () => {
    test('increments of both processes add up, and a missing counter is 0', async ({ pair }) => {
      expect(await pair.first.counter('c')).toBe(0);

      const options = { lifetimeSeconds: 60 };
      await Promise.all(
        Array.from({ length: 30 }, (_, n) => (n % 2 ? pair.first : pair.second).increment('c', 2, options)),
      );
      expect(await pair.first.counter('c')).toBe(60);
      expect(await pair.second.increment('c', -10, options)).toBe(50);
    });

    test('the lifetime starts with the first increment, and later increments do not extend it', async ({ pair }) => {
      await pair.first.increment('c', 1, { lifetimeSeconds: 3 });
      await pair.elapse(1_000);
      expect(await pair.first.increment('c', 1, { lifetimeSeconds: 3 })).toBe(2);

      await pair.elapse(2_100);
      expect(await pair.second.counter('c')).toBe(0);
      expect(await pair.second.increment('c', 1, { lifetimeSeconds: 3 })).toBe(1);
    });

    test('an increment that would exceed the limit changes nothing', async ({ pair }) => {
      const options = { lifetimeSeconds: 60, limit: 10 };
      expect(await pair.first.increment('c', 8, options)).toBe(8);
      expect(await pair.second.increment('c', 3, options)).toBeUndefined();
      expect(await pair.first.increment('c', 2, options)).toBe(10);
      expect(await pair.first.increment('c', 1, options)).toBeUndefined();
      expect(await pair.first.counter('c')).toBe(10);
      expect(await pair.first.increment('fresh', 11, options)).toBeUndefined();
      expect(await pair.first.counter('fresh')).toBe(0);
    });
  });
}

function testLogs(test: ContractTest): void {
  describe('logs', () => {
    test('entries of all processes are read in the order of appending, in both directions and over several pages', async ({
      pair,
    }) => {
      const ids: string[] = [];
      for (const [n, store] of [pair.first, pair.second, pair.first, pair.second, pair.first].entries()) {
        ids.push(await appendTo(store, 'l', `entry ${n}`, 1_000 - n));
        await appendTo(store, 'another', 'not this one', 5);
      }
      const first = await pair.first.readLog('l', { limit: 2 });
      expect(first.items).toEqual([
        { id: ids[0], at: 1_000, entry: 'entry 0' },
        { id: ids[1], at: 999, entry: 'entry 1' },
      ]);

      const rest = await pair.second.readLog('l', {
        limit: 3,
        ...(first.next === undefined ? {} : { after: first.next }),
      });
      expect(rest.items.map((item) => item.entry)).toEqual(['entry 2', 'entry 3', 'entry 4']);
      expect(rest.next).toBeUndefined();

      const back = await pair.first.readLog('l', { limit: 9, order: 'descending', after: ids[2] ?? '' });
      expect(back.items.map((item) => item.entry)).toEqual(['entry 1', 'entry 0']);
      expect(await pair.first.readLog('empty', { limit: 2 })).toEqual({ items: [] });

      const some = await pair.second.logEntries('l', [ids[3] ?? '', ids[0] ?? '', 'no id', '999999999999999']);
      expect(some.map((item) => item.entry).sort()).toEqual(['entry 0', 'entry 3']);
      expect(await pair.second.logEntries('empty', ids)).toEqual([]);
      // Two logs may have the same id. Each returns its own entry.
      expect((await pair.second.logEntries('another', ids)).filter(({ entry }) => entry !== 'not this one')).toEqual(
        [],
      );
    });

    test('several entries are appended together or not at all, in order, each to its own indexes', async ({ pair }) => {
      const entries = [
        { entry: 'third', at: 30, indexes: ['i:{l}'] },
        { entry: 'fourth', at: 40 },
        { entry: 'fifth', at: 50, indexes: ['j:{l}', 'i:{l}'] },
      ];
      const [third = '', fourth = '', fifth = ''] = await pair.first.append('log:{l}', entries);
      const membersOf = async (index: string) =>
        (await pair.second.page(index, { limit: 9 })).items
          .filter(({ score }) => score >= 30)
          .map(({ member }) => member);
      expect([await membersOf('i:{l}'), await membersOf('j:{l}')]).toEqual([[third, fifth], [fifth]]);

      const newest = await pair.second.readLog('log:{l}', { limit: 3, order: 'descending' });
      expect(newest.items.map(({ id, entry }) => [id, entry])).toEqual([
        [fifth, 'fifth'],
        [fourth, 'fourth'],
        [third, 'third'],
      ]);

      const invalid = [...entries, { entry: 'invalid', at: Number.NaN }];
      await expect(pair.first.append('log:{l}', invalid)).rejects.toThrow(TypeError);
      expect((await pair.second.readLog('log:{l}', { limit: 1, order: 'descending' })).items[0]?.id).toBe(fifth);
    });

    test('an entry and its index members are added together or not at all', async ({ pair }) => {
      const indexes = ['i:{l}', 'j:{l}'];
      const ids = await Promise.all([
        appendTo(pair.first, 'log:{l}', 'first', 20, indexes),
        appendTo(pair.second, 'log:{l}', 'second', 10, ['i:{l}']),
      ]);
      expect((await pair.second.page('i:{l}', { limit: 9 })).items).toEqual([
        { member: ids[1], score: 10 },
        { member: ids[0], score: 20 },
      ]);
      expect((await pair.second.page('j:{l}', { limit: 9 })).items).toEqual([{ member: ids[0], score: 20 }]);
      expect((await pair.first.logEntries('log:{l}', ids)).map(({ entry }) => entry).sort()).toEqual([
        'first',
        'second',
      ]);
      await expect(appendTo(pair.first, 'log:{l}', 'invalid', Number.NaN, indexes)).rejects.toThrow(TypeError);
      await expect(appendTo(pair.first, 'log:{l}', 'elsewhere', 1, ['i:{m}'])).rejects.toThrow(TypeError);
      expect((await pair.first.readLog('log:{l}', { limit: 9 })).items).toHaveLength(2);
      expect((await pair.first.page('j:{l}', { limit: 9 })).items).toHaveLength(1);
    });

    test('removeEntries deletes only the entries with the given ids', async ({ pair }) => {
      const elsewhere = await appendTo(pair.first, 'another', 'kept', 0);
      const ids: string[] = [];
      for (let n = 0; n < 5; n += 1) ids.push(await appendTo(pair.first, 'l', `${n}`, n));
      const [first = '', , third = ''] = ids;
      await pair.first.removeEntries('l', [third, first, first, elsewhere, 'no id', '']);
      expect((await pair.second.readLog('l', { limit: 9 })).items.map((item) => item.entry)).toEqual(['1', '3', '4']);
      expect(await pair.second.logEntries('l', [first, third])).toEqual([]);

      await pair.first.removeEntries('l', ids);
      await pair.first.removeEntries('l', []);
      const id = await appendTo(pair.first, 'l', 'after', 9);
      expect(ids).not.toContain(id);
      expect((await pair.first.readLog('l', { limit: 9 })).items).toEqual([{ id, at: 9, entry: 'after' }]);
      expect((await pair.first.readLog('another', { limit: 9 })).items).toHaveLength(1);
    });

    test('hundreds of entries can be read, looked up and removed at once, and an empty list has no effect', async ({
      pair,
    }) => {
      const appended = Array.from({ length: 300 }, (_, n) => appendTo(pair.first, 'log:{l}', `${n}`, n, ['i:{l}']));
      const ids = (await Promise.all(appended)).toSorted();
      const entries = (await pair.second.readLog('log:{l}', { limit: 1_000 })).items;
      expect(entries.map(({ id }) => id).toSorted()).toEqual(ids);
      expect(await pair.second.logEntries('log:{l}', [])).toEqual([]);
      expect(await pair.second.logEntries('log:{l}', ids)).toHaveLength(300);

      await pair.second.removeEntries('log:{l}', ids.slice(1));
      expect((await pair.first.readLog('log:{l}', { limit: 1_000 })).items.map(({ id }) => id)).toEqual(
        ids.slice(0, 1),
      );
    });

    test('the cursor of another list is an invalid request', async ({ pair }) => {
      await expect(pair.first.readLog('l', { limit: 2, after: 'x; DROP' })).rejects.toMatchObject({
        code: 'invalid_request',
      });
    });
  });
}

function testLeases(test: ContractTest): void {
  describe('leases', () => {
    test('a lease has one owner at a time, and its number grows with every acquisition', async ({ pair }) => {
      const first = (await pair.first.acquireLease('l', 'A', 2_000)) ?? 0;
      expect(first).toBeGreaterThan(0);
      expect(await pair.second.acquireLease('l', 'B', 2_000)).toBeUndefined();
      expect(await pair.first.releaseLease('l', 'A')).toBe(true);

      const second = (await pair.second.acquireLease('l', 'B', 2_000)) ?? 0;
      expect(second).toBeGreaterThan(first);

      await pair.elapse(2_100);
      const third = (await pair.first.acquireLease('l', 'A', 2_000)) ?? 0;
      expect(third).toBeGreaterThan(second);
      expect(await pair.first.acquireLease('l', 'A', 2_000)).toBeGreaterThan(third);
    });

    test('exactly one of many simultaneous callers acquires the lease', async ({ pair }) => {
      const numbers = await Promise.all(
        Array.from({ length: 20 }, (_, n) => (n % 2 ? pair.first : pair.second).acquireLease('l', `owner ${n}`, 5_000)),
      );
      expect(numbers.filter((number) => number !== undefined)).toHaveLength(1);
    });

    test('only the holder can renew a lease, and only before it expires', async ({ pair }) => {
      await pair.first.acquireLease('l', 'A', 3_000);
      await pair.elapse(1_600);
      expect(await pair.first.renewLease('l', 'A', 3_000)).toBe(true);
      expect(await pair.second.renewLease('l', 'B', 3_000)).toBe(false);

      await pair.elapse(1_600);
      expect(await pair.second.acquireLease('l', 'B', 3_000)).toBeUndefined();

      await pair.elapse(1_500);
      expect(await pair.first.renewLease('l', 'A', 3_000)).toBe(false);
      expect(await pair.second.acquireLease('l', 'B', 3_000)).toBeDefined();
    });

    test('a release does not end the lease of another owner', async ({ pair }) => {
      await pair.first.acquireLease('l', 'A', 1_000);
      await pair.elapse(1_100);
      await pair.second.acquireLease('l', 'B', 5_000);
      expect(await pair.first.releaseLease('l', 'A')).toBe(false);
      expect(await pair.first.acquireLease('l', 'A', 1_000)).toBeUndefined();
    });

    test('R36: the fence refuses a stale holder, even after the later holder has released the lease', async ({
      pair,
    }) => {
      const write = (store: Store, number: number, value: string) =>
        store.write([{ put: 'grant:{g}', value }], { fence: { lease: 'lease:{g}', number } });
      const stale = (await pair.first.acquireLease('lease:{g}', 'A', 1_000)) ?? 0;
      expect(await write(pair.first, stale, 'by A')).toBeDefined();

      await pair.elapse(1_100);
      expect(await write(pair.first, stale, 'late, but not stale')).toBeDefined();

      const later = (await pair.second.acquireLease('lease:{g}', 'B', 1_000)) ?? 0;
      expect(await write(pair.first, stale, 'stale')).toBeUndefined();
      expect(await write(pair.second, later, 'by B')).toBeDefined();

      await pair.second.releaseLease('lease:{g}', 'B');
      expect(await write(pair.first, stale, 'stale')).toBeUndefined();
      expect((await pair.first.get('grant:{g}'))?.value).toBe('by B');
    });

    test('R36: the fence of an unknown lease is refused', async ({ pair }) => {
      expect(
        await pair.first.write([{ put: 'a:{g}', value: '1' }], { fence: { lease: 'l:{g}', number: 7 } }),
      ).toBeUndefined();
    });
  });
}

function testMessages(test: ContractTest): void {
  describe('messages', () => {
    test('reach every subscriber of the channel in every process, once and in order', async ({ pair, expect }) => {
      const received: string[] = [];
      await pair.first.subscribe('c', (message) => received.push(`first ${message}`));
      await pair.first.subscribe('c', (message) => received.push(`first again ${message}`));
      await pair.second.subscribe('c', (message) => received.push(`second ${message}`));
      await pair.first.subscribe('d', (message) => received.push(`wrong channel ${message}`));
      await pair.first.publish('c', '1');
      await pair.first.publish('c', '2');
      await expect.poll(() => received.length).toBe(6);

      await pair.second.publish('c', '3');
      await expect.poll(() => received.length).toBe(9);

      await quiet();
      const linesOf = (subscriber: string) => ['1', '2', '3'].map((message) => `${subscriber} ${message}`);
      expect(received.toSorted()).toEqual(
        [...linesOf('first'), ...linesOf('first again'), ...linesOf('second')].toSorted(),
      );
      expect(received.filter((line) => line.startsWith('second'))).toEqual(linesOf('second'));
    });

    test('do not reach a subscription that was ended, but still the others', async ({ pair, expect }) => {
      const received: string[] = [];
      const end = await pair.second.subscribe('c', () => received.push('ended'));
      await pair.second.subscribe('c', () => received.push('continues'));
      await end();
      await pair.first.publish('c', '1');
      await expect.poll(() => received).toEqual(['continues']);

      await quiet();
      expect(received).toEqual(['continues']);
    });
  });
}

function testCopies(test: ContractTest): void {
  describe('a copy', () => {
    const dumpAll = async (pair: Pair) => (await Array.fromAsync(pair.second.dump())).flat();
    const byName = (x: CopyItem, y: CopyItem) => (JSON.stringify(x) < JSON.stringify(y) ? -1 : 1);
    const fill = async (pair: Pair) => {
      await pair.first.write([
        { put: 'a:{t}', value: '1:ünï\u0000 "\u2028\\\n 😀' },
        { index: 'i:{t}', add: '😀', score: -1.5 },
        { index: 'i:{t}', add: 'm', score: 1_800_000_000_000.25 },
      ]);
      await pair.first.write([{ put: 'b', value: '', lifetimeSeconds: LONG_SECONDS }]);
      await pair.first.write([{ put: 'c', value: 'gone', lifetimeSeconds: 1 }]);
      await pair.first.increment('n', 12, { lifetimeSeconds: LONG_SECONDS });
      await pair.first.increment('gone', 12, { lifetimeSeconds: 1 });
      for (const [at, entry] of ['first', 'second', 'third'].entries()) await appendTo(pair.first, 'l', entry, 7 - at);
      await pair.first.acquireLease('e', 'owner', 60_000);
      await pair.first.ready();
      await pair.elapse(1_100);
    };

    test('has everything with version and expiry, logs first, and no leases or expired items', async ({ pair }) => {
      expect(await dumpAll(pair)).toEqual([]);

      await fill(pair);
      const items = await dumpAll(pair);
      const versionOf = async (key: string) => (await pair.first.get(key))?.version;
      const entries = (await pair.first.readLog('l', { limit: 9 })).items.map((item) => ({ log: 'l', ...item }));
      expect(items.slice(0, 3)).toEqual(entries);
      expect(items.slice(3).toSorted(byName)).toEqual([
        { counter: 'n', value: 12, expiresAt: expect.any(Number) },
        { index: 'i:{t}', member: 'm', score: 1_800_000_000_000.25 },
        { index: 'i:{t}', member: '😀', score: -1.5 },
        { record: 'a:{t}', value: '1:ünï\u0000 "\u2028\\\n 😀', version: await versionOf('a:{t}') },
        { record: 'b', value: '', version: await versionOf('b'), expiresAt: expect.any(Number) },
      ]);
    });

    test('can be loaded again, even twice, into a store that was cleared except for one record', async ({ pair }) => {
      await fill(pair);
      const items = await dumpAll(pair);
      await pair.first.clear('b');
      const remaining = await dumpAll(pair);
      expect(remaining).toEqual([
        { record: 'b', value: '', version: expect.any(Number), expiresAt: expect.any(Number) },
      ]);

      const withIds = items.map((item, n) => ('log' in item ? { ...item, id: pair.first.logIdAt(n + 1) } : item));
      await pair.first.load(withIds);
      await pair.first.load(withIds);
      expect((await dumpAll(pair)).toSorted(byName)).toEqual(withIds.toSorted(byName));

      const before = await pair.second.get('a:{t}');
      const highestVersion = Math.max(...items.map((item) => ('version' in item ? item.version : 0)));
      expect(await pair.second.write([{ put: 'a:{t}', value: 'new', ifVersion: before?.version ?? 0 }])).toBeDefined();
      expect((await pair.first.get('a:{t}'))?.version).toBeGreaterThan(highestVersion);

      const id = await appendTo(pair.first, 'l', 'fourth', 1);
      const log = await pair.first.readLog('l', { limit: 9 });
      expect(log.items.map(({ entry }) => entry)).toEqual(['first', 'second', 'third', 'fourth']);
      expect(log.items.at(-1)?.id).toBe(id);
      expect((await pair.first.logEntries('l', [pair.first.logIdAt(2)])).map(({ entry }) => entry)).toEqual(['second']);
      expect(await pair.second.increment('n', 1, { lifetimeSeconds: LONG_SECONDS })).toBe(13);

      // Loads the same items with expiry times that have most likely passed by now.
      const earlier = (LONG_SECONDS - 1) * 1_000;
      const expiring = items.flatMap((item) =>
        'expiresAt' in item && item.expiresAt !== undefined ? [{ ...item, expiresAt: item.expiresAt - earlier }] : [],
      );
      expect(expiring).toHaveLength(2);

      await pair.first.load(expiring);
      await pair.elapse(1_100);
      expect(await pair.first.counter('n')).toBe(0);
      expect(await pair.first.get('b')).toBeUndefined();
    });

    test('never has only a part of a concurrent write', async ({ pair }) => {
      const keys = ['x:{t}', 'y:{t}'];
      await Promise.all(Array.from({ length: 600 }, (_, n) => pair.first.write([{ put: `filler ${n}`, value: 'v' }])));
      await pair.first.write(keys.map((put) => ({ put, value: 'start' })));
      let busy = true;
      const writing = (async () => {
        for (let n = 0; busy; n += 1) await pair.first.write(keys.map((put) => ({ put, value: `${n}` })));
      })();
      const seen = new Set<string>();
      for (let round = 0; round < 200 && seen.size < 5; round += 1) {
        await new Promise((resolve) => setTimeout(resolve, 2));
        const items = await dumpAll(pair);
        const [x, y] = keys.map((key) => items.find((item) => 'record' in item && item.record === key));
        const values = [x, y].map((item) => (item && 'value' in item ? item.value : undefined));
        expect(values[0]).toBe(values[1]);
        seen.add(String(values[0]));
      }
      busy = false;
      await writing;
      expect(seen.size).toBe(5);
    });

    test('misses no existing record or member despite concurrent writes', async ({ pair }) => {
      const keys = Array.from({ length: 1_500 }, (_, n) => `stays ${n} {${n % 500}}`);
      await Promise.all(keys.map((put) => pair.first.write([{ put, value: 'v' }])));
      const members = Array.from({ length: 2_500 }, (_, n) => ({ index: 'large', add: `m${n}`, score: n % 7 }));
      await pair.first.write(members);
      const seen = new Set<string>();
      let rounds = 0;
      for await (const items of pair.second.dump()) {
        rounds += 1;
        for (const item of items) seen.add('record' in item ? item.record : 'index' in item ? item.member : '');
        await Promise.all(
          [1, 2, 3].map((n) => pair.first.write([{ put: `passes ${rounds} ${n}`, value: 'v', lifetimeSeconds: 60 }])),
        );
      }
      const all = [...keys, ...members.map(({ add }) => add)];
      expect(all.filter((name) => !seen.has(name))).toEqual([]);
      expect(rounds).toBeGreaterThan(2);
    });
  });
}

function testClosing(test: ContractTest): void {
  test('a store that accepts writes is ready', async ({ pair }) => {
    await expect(pair.first.ready()).resolves.toBeUndefined();
    await expect(pair.first.ready(100_000)).resolves.toBeUndefined();
  });

  test('after a close, or a second one, every method rejects with storage_unavailable, and the data is kept', async ({
    pair,
  }) => {
    await pair.first.write([{ put: 'b', value: 'there' }]);
    const written = pair.first.write([{ put: 'a', value: 'kept' }]);
    const reads = [pair.first.get('b'), pair.first.get('b')];
    await pair.first.close();
    await pair.first.close();
    expect(await written).toBeDefined();

    for (const record of await Promise.all(reads)) expect(record?.value).toBe('there');
    for (const call of [
      pair.first.get('a'),
      pair.first.write([]),
      pair.first.ready(),
      pair.first.count('i'),
      pair.first.load([{ record: 'b', value: '', version: 1 }]),
      Array.fromAsync(pair.first.dump()),
    ]) {
      await expect(call).rejects.toMatchObject({ code: 'storage_unavailable', status: 503 });
    }
    expect((await pair.second.get('a'))?.value).toBe('kept');
  });
}

/** Every member of the index, read page by page. */
async function walk(
  store: Store,
  index: string,
  limit: number,
  order: 'ascending' | 'descending' = 'ascending',
  between: () => Promise<void> = async () => {},
): Promise<string[]> {
  const members: string[] = [];
  let after: string | undefined;
  do {
    const page = await store.page(index, { limit, order, ...(after === undefined ? {} : { after }) });
    members.push(...page.items.map((item) => item.member));
    after = page.next;
    await between();
  } while (after !== undefined);
  return members;
}

/** Waits long enough for a duplicate delivery to arrive. */
function quiet(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 150));
}
