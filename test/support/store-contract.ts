/** The duties of a store as tests: one suite for every implementation of the port. */

import fc from 'fast-check';
import { test as baseTest, beforeEach, describe, expect, type TestAPI } from 'vitest';
import type { CopyItem, Store } from '../../src/shared/storage/store.ts';
import { appendTo } from './append-to.ts';
import { skipWithout } from './missing.ts';

export interface StoreHarness {
  /** Opens a store on the same data, as another process would; the suite closes it. */
  open(): Promise<Store>;
  /** Lets that much time pass for every store that was opened. */
  elapse(milliseconds: number): Promise<void>;
  /** Called when the stores are closed. */
  dispose(): Promise<void>;
}

interface Pair {
  one: Store;
  other: Store;
  elapse: StoreHarness['elapse'];
}

/** Longer than any test takes. */
const LONG_SECONDS = 600;

type DutyTest = TestAPI<{ pair: Pair }>;

/** @param missing why no store can be opened on this machine, if so */
export function storeContract(name: string, makeStore: () => Promise<StoreHarness>, missing?: string): void {
  const test: DutyTest = baseTest.extend<{ pair: Pair }>({
    pair: async ({ task: _task }, use) => {
      const { open, elapse, dispose } = await makeStore();
      const one = await open();
      const other = await open();
      await use({ one, other, elapse });
      await one.close();
      await other.close();
      await dispose();
    },
  });

  // Half of them wait for something to expire, each in a store of its own. What polls takes the `expect` of its own test:
  // the other one asks which test is running, of which there are several.
  describe.concurrent(`${name} keeps the duties of a store:`, () => {
    beforeEach(({ skip }) => skipWithout({ skip }, missing));

    recordDuties(test);
    walkDuties(test);
    writeDuties(test);
    indexDuties(test);
    counterDuties(test);
    logDuties(test);
    leaseDuties(test);
    messageDuties(test);
    copyDuties(test);
    closingDuties(test);
  });
}

function recordDuties(test: DutyTest): void {
  describe('records', () => {
    test('what one process wrote, the other reads, byte for byte', async ({ pair }) => {
      const value = 'ünï\u0000 "\\ \n 😀';
      expect(await pair.one.write([{ put: 'a', value }])).toBeDefined();
      expect((await pair.other.get('a'))?.value).toBe(value);
      expect(await pair.one.get('missing')).toBeUndefined();
    });

    test('what is known is not read again while it has the same version, and is once another process wrote it', async ({
      pair,
    }) => {
      await pair.one.write([{ put: 'a', value: '1', lifetimeSeconds: 60 }]);
      const first = await pair.other.getUnless('a', undefined);
      if (typeof first !== 'object') throw new Error('Of what nobody knows yet the value is told.');
      expect(first.value).toBe('1');
      expect(await pair.other.getUnless('a', first.version)).toBe('unchanged');
      await pair.one.write([{ put: 'a', value: '1' }]);
      const second = await pair.other.getUnless('a', first.version);
      expect(second).toEqual(await pair.one.get('a'));
      expect(second).not.toMatchObject({ version: first.version });
      await pair.one.write([{ delete: 'a' }]);
      expect(await pair.other.getUnless('a', first.version)).toBeUndefined();
      await pair.one.write([{ put: 'a', value: '1' }]);
      expect(await pair.other.getUnless('a', first.version)).toMatchObject({ value: '1' });
      expect(await pair.one.getUnless('missing', undefined)).toBeUndefined();
    });

    test('what is known has ended all the same once its lifetime is over', async ({ pair }) => {
      await pair.one.write([{ put: 'a', value: '1', lifetimeSeconds: 1 }]);
      const version = (await pair.one.get('a'))?.version;
      await pair.elapse(1_100);
      expect(await pair.one.getUnless('a', version)).toBeUndefined();
    });

    test('a write returns the version that every record has which it put', async ({ pair }) => {
      const both = [
        { put: 'a:{t}', value: '1' },
        { put: 'b:{t}', value: '1' },
      ];
      for (const store of [pair.one, pair.other]) {
        await store.write([{ delete: 'b:{t}' }]);
        const version = await store.write(both);
        expect(version).toBeGreaterThan(0);
        const read = [await pair.one.get('a:{t}'), await pair.other.get('b:{t}')];
        expect(read.map((record) => record?.version)).toEqual([version, version]);
      }
      expect(await pair.one.write([{ delete: 'a:{t}' }])).toBeGreaterThan(0);
      expect(await pair.one.write([{ delete: 'missing' }])).toBeGreaterThan(0);
    });

    test('a version grows with each write and never repeats, not even after the key was deleted', async ({ pair }) => {
      const seen: number[] = [];
      for (const store of [pair.one, pair.other, pair.one]) {
        await store.write([{ put: 'a', value: 'same' }]);
        seen.push((await store.get('a'))?.version ?? 0);
        await store.write([{ delete: 'a' }]);
      }
      expect(seen[0]).toBeGreaterThan(0);
      expect(seen[1]).toBeGreaterThan(seen[0] ?? 0);
      expect(seen[2]).toBeGreaterThan(seen[1] ?? 0);
    });

    test('a put that leaves the lifetime unchanged ends when the record would have ended, and lasts where it lasted', async ({
      pair,
    }) => {
      await pair.one.write([{ put: 'a', value: '1', lifetimeSeconds: 3 }]);
      await pair.one.write([{ put: 'b', value: '1' }]);
      await pair.elapse(1_000);
      for (const put of ['a', 'b', 'c']) await pair.other.write([{ put, value: '2', lifetimeSeconds: 'unchanged' }]);
      expect((await pair.one.get('a'))?.value).toBe('2');
      await pair.elapse(2_100);
      expect(await pair.one.get('a')).toBeUndefined();
      expect((await pair.one.get('b'))?.value).toBe('2');
      expect((await pair.one.get('c'))?.value).toBe('2');
    });

    test('a value may be large, and a lifetime long', async ({ pair }) => {
      const value = 'ü'.repeat(200_000);
      await pair.one.write([{ put: 'a', value, lifetimeSeconds: 3_000_000_000 }]);
      expect((await pair.other.get('a'))?.value === value).toBe(true);
    });

    test('an expired record is gone from everything: reads and conditions', async ({ pair }) => {
      await pair.one.write([{ put: 'a', value: '1', lifetimeSeconds: 3 }]);
      await pair.elapse(1_000);
      expect((await pair.one.get('a'))?.value).toBe('1');
      await pair.elapse(2_100);
      expect(await pair.other.get('a')).toBeUndefined();
      expect(await pair.one.write([{ put: 'a', value: '2', ifVersion: 0 }])).toBeDefined();
    });

    test('a put without a lifetime lasts, even over one that had a lifetime', async ({ pair }) => {
      await pair.one.write([{ put: 'a', value: '1', lifetimeSeconds: 1 }]);
      await pair.one.write([{ put: 'a', value: '2' }]);
      await pair.elapse(1_200);
      expect((await pair.one.get('a'))?.value).toBe('2');
    });

    test('a put with a lifetime of zero or less leaves nothing behind', async ({ pair }) => {
      await pair.one.write([{ put: 'a', value: '1' }]);
      await pair.one.write([{ put: 'a', value: '2', lifetimeSeconds: 0 }]);
      expect(await pair.one.get('a')).toBeUndefined();
      await pair.one.write([{ put: 'b', value: '2', lifetimeSeconds: -5 }]);
      expect(await pair.one.get('b')).toBeUndefined();
    });

    test('of many callers that delete the version they read exactly one succeeds', async ({ pair }) => {
      await pair.one.write([{ put: 'a', value: 'once' }]);
      const ifVersion = (await pair.one.get('a'))?.version ?? 0;
      const stores = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? pair.one : pair.other));
      const deleted = await Promise.all(stores.map((store) => store.write([{ delete: 'a', ifVersion }])));
      expect(deleted.filter(Boolean)).toHaveLength(1);
      expect(await pair.one.get('a')).toBeUndefined();
    });
  });
}

function walkDuties(test: DutyTest): void {
  describe('a walk', () => {
    const walked = async (pair: Pair) => (await Array.fromAsync(pair.other.walk())).flat();

    test('gives every record with its value and version, and no counter, index, log, lease or expired record', async ({
      pair,
    }) => {
      expect(await walked(pair)).toEqual([]);
      await pair.one.write([
        { put: 'a:{t}', value: '1:x' },
        { index: 'i:{t}', add: 'm', score: 1 },
      ]);
      await pair.one.write([{ put: 'b', value: 'ü\n', lifetimeSeconds: 60 }]);
      await pair.one.write([{ put: 'c', value: '', lifetimeSeconds: 1 }]);
      await pair.one.increment('n', 12, { lifetimeSeconds: 60 });
      await appendTo(pair.one, 'l', '1:entry', 1);
      await pair.one.acquireLease('e', 'owner', 60_000);
      await pair.one.ready();
      await pair.elapse(1_100);
      const versionOf = async (key: string) => (await pair.one.get(key))?.version;
      const found = (await walked(pair)).toSorted((x, y) => (x.key < y.key ? -1 : 1));
      expect(found).toEqual([
        { key: 'a:{t}', value: '1:x', version: await versionOf('a:{t}') },
        { key: 'b', value: 'ü\n', version: await versionOf('b') },
      ]);
    });

    test('misses none of many that stay, whatever is written and deleted meanwhile', async ({ pair }) => {
      const keys = Array.from({ length: 1_500 }, (_, n) => `stays ${n} {${n}}`);
      await Promise.all(keys.map((key) => pair.one.write([{ put: key, value: 'v' }])));
      const seen = new Set<string>();
      let pages = 0;
      for await (const page of pair.other.walk()) {
        pages += 1;
        for (const { key } of page) seen.add(key);
        const passing = Array.from({ length: 100 }, (_, n) => `passes ${pages} ${n}`);
        await Promise.all(passing.map((key) => pair.one.write([{ put: key, value: 'v', lifetimeSeconds: 60 }])));
        await Promise.all(
          page.slice(0, 50).map(({ key, version }) => pair.one.write([{ put: key, value: 'w', ifVersion: version }])),
        );
        await Promise.all(passing.slice(0, 90).map((key) => pair.one.write([{ delete: key }])));
      }
      expect(keys.filter((key) => !seen.has(key))).toEqual([]);
      expect(pages).toBeGreaterThan(2);
    });
  });
}

function writeDuties(test: DutyTest): void {
  describe('writes', () => {
    test('a compare-and-set succeeds on the version that was read, and only once', async ({ pair }) => {
      await pair.one.write([{ put: 'a', value: '1' }]);
      const version = (await pair.one.get('a'))?.version ?? 0;
      const attempts = [pair.one, pair.other, pair.one].map((store, index) =>
        store.write([{ put: 'a', value: `winner ${index}`, ifVersion: version }]),
      );
      expect((await Promise.all(attempts)).filter(Boolean)).toHaveLength(1);
      expect((await pair.one.get('a'))?.value).toMatch(/^winner/);
    });

    test('a compare-and-set gives a lifetime, and changes none where it fails', async ({ pair }) => {
      const [short, long] = [{ lifetimeSeconds: 2 }, { lifetimeSeconds: LONG_SECONDS }];
      await pair.one.write([{ put: 'lasting', value: '1' }]);
      await pair.one.write([{ put: 'refused', value: '1' }]);
      const lasting = await pair.other.get('lasting');
      expect(
        await pair.other.write([{ put: 'lasting', value: '2', ifVersion: lasting?.version ?? 0, ...short }]),
      ).toBeDefined();
      expect(await pair.other.write([{ put: 'refused', value: '2', ifVersion: 0, ...short }])).toBeUndefined();
      for (const put of ['new', 'extended'])
        expect(await pair.one.write([{ put, value: '1', ifVersion: 0, ...short }])).toBeDefined();
      const ending = await pair.other.get('extended');
      expect(
        await pair.other.write([{ put: 'extended', value: '2', ifVersion: ending?.version ?? 0, ...long }]),
      ).toBeDefined();
      await pair.elapse(2_100);
      const values = ['lasting', 'refused', 'new', 'extended'].map(async (key) => (await pair.one.get(key))?.value);
      expect(await Promise.all(values)).toEqual([undefined, '1', undefined, '2']);
    });

    test('ifVersion 0 demands that the key is absent', async ({ pair }) => {
      expect(await pair.one.write([{ put: 'a', value: '1', ifVersion: 0 }])).toBeDefined();
      expect(await pair.other.write([{ put: 'a', value: '2', ifVersion: 0 }])).toBeUndefined();
      expect((await pair.one.get('a'))?.value).toBe('1');
    });

    test('a delete may carry a condition too', async ({ pair }) => {
      await pair.one.write([{ put: 'a', value: '1' }]);
      const version = (await pair.one.get('a'))?.version ?? 0;
      expect(await pair.one.write([{ delete: 'a', ifVersion: version + 1 }])).toBeUndefined();
      expect(await pair.one.write([{ delete: 'a', ifVersion: version }])).toBeDefined();
      expect(await pair.one.get('a')).toBeUndefined();
    });

    test('all steps or none: one condition that fails leaves everything as it was', async ({ pair }) => {
      await pair.one.write([
        { put: 'x:{t}', value: 'old' },
        { index: 'i:{t}', add: 'kept', score: 1 },
      ]);
      const refused = await pair.one.write([
        { put: 'x:{t}', value: 'new' },
        { put: 'z:{t}', value: 'new' },
        { index: 'i:{t}', add: 'added', score: 2 },
        { index: 'i:{t}', remove: 'kept' },
        { delete: 'y:{t}', ifVersion: 99 },
      ]);
      expect(refused).toBeUndefined();
      expect((await pair.one.get('x:{t}'))?.value).toBe('old');
      expect(await pair.one.get('z:{t}')).toBeUndefined();
      expect((await pair.one.page('i:{t}', { limit: 9 })).items).toEqual([{ member: 'kept', score: 1 }]);
    });

    test('steps of every kind are done together', async ({ pair }) => {
      await pair.one.write([
        ...['there:{t}', 'changed:{t}', 'gone:{t}'].map((put) => ({ put, value: '1' })),
        ...['old', 'moved'].map((add) => ({ index: 'i:{t}', add, score: 1 })),
      ]);
      const there = await pair.one.get('there:{t}');
      const changed = await pair.one.get('changed:{t}');
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
      expect(await pair.other.write(steps)).toBeDefined();
      expect(await pair.one.get('there:{t}')).toEqual(there);
      const values = ['changed:{t}', 'new:{t}', 'gone:{t}'].map(async (key) => (await pair.one.get(key))?.value);
      expect(await Promise.all(values)).toEqual(['2', '2', undefined]);
      expect([await walk(pair.one, 'i:{t}', 9), await walk(pair.one, 'j:{t}', 9)]).toEqual([['new', 'moved'], ['new']]);
    });

    test('conditions are judged against the state before the first step', async ({ pair }) => {
      const steps = [
        { put: 'a:{t}', value: '1', ifVersion: 0 },
        { put: 'a:{t}', value: '2', ifVersion: 0 },
      ];
      expect(await pair.one.write(steps)).toBeDefined();
      expect((await pair.one.get('a:{t}'))?.value).toBe('2');
    });

    test('a write that demands a record changes nothing where there is none, or none any more', async ({ pair }) => {
      const steps = [{ put: 'note:{t}', value: '1' }, { index: 'i:{t}', add: 'm', score: 1 }, { exists: 'owner:{t}' }];
      expect(await pair.one.write(steps)).toBeUndefined();
      expect([await pair.one.get('note:{t}'), await pair.one.count('i:{t}')]).toEqual([undefined, 0]);
      await pair.other.write([{ put: 'owner:{t}', value: 'x', lifetimeSeconds: 3 }]);
      const owner = await pair.one.get('owner:{t}');
      expect(await pair.one.write(steps)).toBeDefined();
      expect([(await pair.one.get('note:{t}'))?.value, await pair.one.count('i:{t}')]).toEqual(['1', 1]);
      expect(await pair.one.get('owner:{t}')).toEqual(owner);
      await pair.elapse(3_100);
      expect(await pair.one.write([{ exists: 'owner:{t}' }, { delete: 'note:{t}' }])).toBeUndefined();
      expect((await pair.one.get('note:{t}'))?.value).toBe('1');
      // Judged, as every condition, before the first step.
      const made = [{ put: 'owner:{t}', value: 'x' }, { exists: 'owner:{t}' }];
      expect([await pair.one.write(made), await pair.one.get('owner:{t}')]).toEqual([undefined, undefined]);
      for (const mistake of [
        [{ exists: 'a:{one}' }, { put: 'a:{two}', value: '1' }],
        [{ exists: 'owner:{t}', ifVersion: 1 }],
      ])
        await expect(pair.one.write(mistake)).rejects.toThrow(TypeError);
    });

    test('a write that demands a version of a record changes nothing once that has another', async ({ pair }) => {
      const note = (version: number) => [
        { exists: 'owner:{t}', version },
        { put: 'note:{t}', value: `${version}` },
      ];
      // No record has the version 0.
      for (const version of [0, 1]) expect(await pair.one.write(note(version))).toBeUndefined();
      const first = (await pair.other.write([{ put: 'owner:{t}', value: 'x', lifetimeSeconds: 3 }])) ?? 0;
      expect(await pair.one.write(note(first))).toBeDefined();
      expect((await pair.one.get('owner:{t}'))?.version).toBe(first);
      const second = (await pair.other.write([{ put: 'owner:{t}', value: 'x', lifetimeSeconds: 3 }])) ?? 0;
      for (const version of [0, first, second + 1]) expect(await pair.one.write(note(version))).toBeUndefined();
      expect((await pair.one.get('note:{t}'))?.value).toBe(`${first}`);
      // Judged, as every condition, before the first step.
      expect(await pair.one.write([{ delete: 'owner:{t}' }, ...note(second)])).toBeDefined();
      expect(await pair.one.write(note(second))).toBeUndefined();
      const third = (await pair.one.write([{ put: 'owner:{t}', value: 'x', lifetimeSeconds: 3 }])) ?? 0;
      await pair.elapse(3_100);
      expect(await pair.one.write(note(third))).toBeUndefined();
      expect((await pair.one.get('note:{t}'))?.value).toBe(`${second}`);
    });

    test('of several writes that demand one version and replace it, one wins', async ({ pair }) => {
      const version = (await pair.one.write([{ put: 'owner:{t}', value: 'x' }])) ?? 0;
      const attempts = Array.from({ length: 20 }, (_, at) =>
        (at % 2 === 0 ? pair.one : pair.other).write([
          { exists: 'owner:{t}', version },
          { put: 'owner:{t}', value: `${at}` },
          { index: 'made:{t}', add: `${at}`, score: at },
        ]),
      );
      expect((await Promise.all(attempts)).filter((one) => one !== undefined)).toHaveLength(1);
      const { items } = await pair.one.page('made:{t}', { limit: 99 });
      expect(items.map(({ member }) => member)).toEqual([(await pair.other.get('owner:{t}'))?.value]);
    });

    test('keys that differ in their tag are refused with a TypeError, the lease of the fence included', async ({
      pair,
    }) => {
      const steps = [
        { put: 'a:{one}', value: '1' },
        { index: 'i:{two}', add: 'm', score: 1 },
      ];
      await expect(pair.one.write(steps)).rejects.toBeInstanceOf(TypeError);
      const fence = { lease: 'lease:{two}', number: 1 };
      await expect(pair.one.write(steps.slice(0, 1), { fence })).rejects.toBeInstanceOf(TypeError);
      expect(await pair.one.get('a:{one}')).toBeUndefined();
    });

    test('a write of nothing succeeds', async ({ pair }) => {
      expect(await pair.one.write([])).toBeDefined();
    });
  });
}

function indexDuties(test: DutyTest): void {
  const add = (member: string, score: number) => ({ index: 'i', add: member, score });

  describe('indexes', () => {
    test('members come in order of score, ties by the bytes of the member, in both directions and page by page', async ({
      pair,
    }) => {
      const members = [add('b', 2), add('ｚ', 1), add('😀', 1), add('a', 1), add('c', -1.5), add('B', 1)];
      await pair.one.write(members);
      const expected = ['c', 'B', 'a', 'ｚ', '😀', 'b'];
      expect(await walk(pair.other, 'i', 4)).toEqual(expected);
      expect(await walk(pair.other, 'i', 1)).toEqual(expected);
      expect(await walk(pair.other, 'i', 4, 'descending')).toEqual(expected.toReversed());
      expect(await pair.other.count('i')).toBe(6);
      expect(await Promise.all([-2, -1.5, 1, 9].map((score) => pair.other.count('i', score)))).toEqual([0, 1, 5, 6]);
      await expect(pair.one.count('i', Number.NaN)).rejects.toThrow(TypeError);
    });

    test('more than a thousand members are read in large pages, in both directions', async ({ pair }) => {
      const members = Array.from({ length: 1_200 }, (_, n) => `m${String(n).padStart(4, '0')}`);
      await pair.one.write(members.map((member, n) => add(member, Math.floor(n / 7))));
      for (const limit of [100, 500, 1_000]) {
        expect(await walk(pair.other, 'i', limit)).toEqual(members);
        expect(await walk(pair.other, 'i', limit, 'descending')).toEqual(members.toReversed());
      }
    });

    test('adding a member again moves it; the last page has no next; an unknown index is empty', async ({ pair }) => {
      await pair.one.write([add('a', 1), add('b', 2)]);
      await pair.one.write([add('a', 3)]);
      const page = await pair.one.page('i', { limit: 2 });
      expect(page).toEqual({
        items: [
          { member: 'b', score: 2 },
          { member: 'a', score: 3 },
        ],
      });
      await pair.one.write([
        { index: 'i', remove: 'a' },
        { index: 'i', remove: 'absent' },
      ]);
      expect(await pair.one.count('i')).toBe(1);
      expect(await pair.one.page('unknown', { limit: 5 })).toEqual({ items: [] });
      expect(await pair.one.count('unknown')).toBe(0);
    });

    test('a page goes on behind its last member even when that member was removed', async ({ pair }) => {
      await pair.one.write([add('a', 1), add('b', 1), add('c', 1), add('d', 2)]);
      const { next } = await pair.one.page('i', { limit: 2 });
      await pair.other.write([{ index: 'i', remove: 'b' }]);
      const rest = await pair.one.page('i', { limit: 9, ...(next === undefined ? {} : { after: next }) });
      expect(rest.items.map((item) => item.member)).toEqual(['c', 'd']);
    });

    test('a foreign cursor is the caller’s mistake, a bad limit or score a TypeError', async ({ pair }) => {
      for (const after of ['junk', '', 'WzEsMl0']) {
        await expect(pair.one.page('i', { limit: 2, after })).rejects.toMatchObject({ code: 'invalid_request' });
      }
      for (const limit of [0, -1, 1.5]) {
        await expect(pair.one.page('i', { limit })).rejects.toBeInstanceOf(TypeError);
      }
      await expect(pair.one.write([add('a', Number.NaN)])).rejects.toBeInstanceOf(TypeError);
    });

    test('paging while others add and remove never skips nor repeats a member that stays', async ({ pair }) => {
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
            await pair.one.write(stay.map((score, n) => ({ index, add: `stays ${n}`, score })));
            const pending = [...changes];
            const seen = await walk(pair.one, index, limit, direction, async () => {
              for (const { add: adds, name, score } of pending.splice(0, 3)) {
                const member = `${name % 2 === 0 ? 'a' : 'z'}${name}`;
                await pair.other.write([adds ? { index, add: member, score } : { index, remove: member }]);
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

function counterDuties(test: DutyTest): void {
  describe('counters', () => {
    test('increments of both processes add up; a counter that does not exist is 0', async ({ pair }) => {
      expect(await pair.one.counter('c')).toBe(0);
      const options = { lifetimeSeconds: 60 };
      await Promise.all(
        Array.from({ length: 30 }, (_, n) => (n % 2 ? pair.one : pair.other).increment('c', 2, options)),
      );
      expect(await pair.one.counter('c')).toBe(60);
      expect(await pair.other.increment('c', -10, options)).toBe(50);
    });

    test('the lifetime starts with the first increment and later ones do not extend it', async ({ pair }) => {
      await pair.one.increment('c', 1, { lifetimeSeconds: 3 });
      await pair.elapse(1_000);
      expect(await pair.one.increment('c', 1, { lifetimeSeconds: 3 })).toBe(2);
      await pair.elapse(2_100);
      expect(await pair.other.counter('c')).toBe(0);
      expect(await pair.other.increment('c', 1, { lifetimeSeconds: 3 })).toBe(1);
    });

    test('with a limit, what would pass it changes nothing', async ({ pair }) => {
      const options = { lifetimeSeconds: 60, limit: 10 };
      expect(await pair.one.increment('c', 8, options)).toBe(8);
      expect(await pair.other.increment('c', 3, options)).toBeUndefined();
      expect(await pair.one.increment('c', 2, options)).toBe(10);
      expect(await pair.one.increment('c', 1, options)).toBeUndefined();
      expect(await pair.one.counter('c')).toBe(10);
      expect(await pair.one.increment('fresh', 11, options)).toBeUndefined();
      expect(await pair.one.counter('fresh')).toBe(0);
    });
  });
}

function logDuties(test: DutyTest): void {
  describe('logs', () => {
    test('entries of all processes come in order of appending, in both directions, page by page, log by log', async ({
      pair,
    }) => {
      const ids: string[] = [];
      for (const [n, store] of [pair.one, pair.other, pair.one, pair.other, pair.one].entries()) {
        ids.push(await appendTo(store, 'l', `entry ${n}`, 1_000 - n));
        await appendTo(store, 'another', 'not this one', 5);
      }
      const first = await pair.one.readLog('l', { limit: 2 });
      expect(first.items).toEqual([
        { id: ids[0], at: 1_000, entry: 'entry 0' },
        { id: ids[1], at: 999, entry: 'entry 1' },
      ]);
      const rest = await pair.other.readLog('l', {
        limit: 3,
        ...(first.next === undefined ? {} : { after: first.next }),
      });
      expect(rest.items.map((item) => item.entry)).toEqual(['entry 2', 'entry 3', 'entry 4']);
      expect(rest.next).toBeUndefined();
      const back = await pair.one.readLog('l', { limit: 9, order: 'descending', after: ids[2] ?? '' });
      expect(back.items.map((item) => item.entry)).toEqual(['entry 1', 'entry 0']);
      expect(await pair.one.readLog('empty', { limit: 2 })).toEqual({ items: [] });
      const some = await pair.other.logEntries('l', [ids[3] ?? '', ids[0] ?? '', 'no id', '999999999999999']);
      expect(some.map((item) => item.entry).sort()).toEqual(['entry 0', 'entry 3']);
      expect(await pair.other.logEntries('empty', ids)).toEqual([]);
      // Two logs may give the same id: each answers its own entry.
      expect((await pair.other.logEntries('another', ids)).filter(({ entry }) => entry !== 'not this one')).toEqual([]);
    });

    test('several entries are there together or not at all, in their order, each in its own indexes', async ({
      pair,
    }) => {
      const together = [
        { entry: 'third', at: 30, indexes: ['i:{l}'] },
        { entry: 'fourth', at: 40 },
        { entry: 'fifth', at: 50, indexes: ['j:{l}', 'i:{l}'] },
      ];
      const [third = '', fourth = '', fifth = ''] = await pair.one.append('log:{l}', together);
      const membersOf = async (index: string) =>
        (await pair.other.page(index, { limit: 9 })).items
          .filter(({ score }) => score >= 30)
          .map(({ member }) => member);
      expect([await membersOf('i:{l}'), await membersOf('j:{l}')]).toEqual([[third, fifth], [fifth]]);
      const newest = await pair.other.readLog('log:{l}', { limit: 3, order: 'descending' });
      expect(newest.items.map(({ id, entry }) => [id, entry])).toEqual([
        [fifth, 'fifth'],
        [fourth, 'fourth'],
        [third, 'third'],
      ]);
      const torn = [...together, { entry: 'torn', at: Number.NaN }];
      await expect(pair.one.append('log:{l}', torn)).rejects.toThrow(TypeError);
      expect((await pair.other.readLog('log:{l}', { limit: 1, order: 'descending' })).items[0]?.id).toBe(fifth);
    });

    test('an entry and its members of indexes are there together or not at all', async ({ pair }) => {
      const indexes = ['i:{l}', 'j:{l}'];
      const ids = await Promise.all([
        appendTo(pair.one, 'log:{l}', 'first', 20, indexes),
        appendTo(pair.other, 'log:{l}', 'second', 10, ['i:{l}']),
      ]);
      expect((await pair.other.page('i:{l}', { limit: 9 })).items).toEqual([
        { member: ids[1], score: 10 },
        { member: ids[0], score: 20 },
      ]);
      expect((await pair.other.page('j:{l}', { limit: 9 })).items).toEqual([{ member: ids[0], score: 20 }]);
      expect((await pair.one.logEntries('log:{l}', ids)).map(({ entry }) => entry).sort()).toEqual(['first', 'second']);
      await expect(appendTo(pair.one, 'log:{l}', 'torn', Number.NaN, indexes)).rejects.toThrow(TypeError);
      await expect(appendTo(pair.one, 'log:{l}', 'elsewhere', 1, ['i:{m}'])).rejects.toThrow(TypeError);
      expect((await pair.one.readLog('log:{l}', { limit: 9 })).items).toHaveLength(2);
      expect((await pair.one.page('j:{l}', { limit: 9 })).items).toHaveLength(1);
    });

    test('removing deletes the entries that are named, and no others', async ({ pair }) => {
      const elsewhere = await appendTo(pair.one, 'another', 'kept', 0);
      const ids: string[] = [];
      for (let n = 0; n < 5; n += 1) ids.push(await appendTo(pair.one, 'l', `${n}`, n));
      const [first = '', , third = ''] = ids;
      await pair.one.removeEntries('l', [third, first, first, elsewhere, 'no id', '']);
      expect((await pair.other.readLog('l', { limit: 9 })).items.map((item) => item.entry)).toEqual(['1', '3', '4']);
      expect(await pair.other.logEntries('l', [first, third])).toEqual([]);
      await pair.one.removeEntries('l', ids);
      await pair.one.removeEntries('l', []);
      const id = await appendTo(pair.one, 'l', 'after', 9);
      expect(ids).not.toContain(id);
      expect((await pair.one.readLog('l', { limit: 9 })).items).toEqual([{ id, at: 9, entry: 'after' }]);
      expect((await pair.one.readLog('another', { limit: 9 })).items).toHaveLength(1);
    });

    test('hundreds of entries are read, looked up and removed at once, and none where none is named', async ({
      pair,
    }) => {
      const appended = Array.from({ length: 300 }, (_, n) => appendTo(pair.one, 'log:{l}', `${n}`, n, ['i:{l}']));
      const ids = (await Promise.all(appended)).toSorted();
      const entries = (await pair.other.readLog('log:{l}', { limit: 1_000 })).items;
      expect(entries.map(({ id }) => id).toSorted()).toEqual(ids);
      expect(await pair.other.logEntries('log:{l}', [])).toEqual([]);
      expect(await pair.other.logEntries('log:{l}', ids)).toHaveLength(300);
      await pair.other.removeEntries('log:{l}', ids.slice(1));
      expect((await pair.one.readLog('log:{l}', { limit: 1_000 })).items.map(({ id }) => id)).toEqual(ids.slice(0, 1));
    });

    test('a foreign cursor is the caller’s mistake', async ({ pair }) => {
      await expect(pair.one.readLog('l', { limit: 2, after: 'x; DROP' })).rejects.toMatchObject({
        code: 'invalid_request',
      });
    });
  });
}

function leaseDuties(test: DutyTest): void {
  describe('leases', () => {
    test('one owner at a time; numbers grow with every acquisition, over release and expiry', async ({ pair }) => {
      const first = (await pair.one.acquireLease('l', 'A', 2_000)) ?? 0;
      expect(first).toBeGreaterThan(0);
      expect(await pair.other.acquireLease('l', 'B', 2_000)).toBeUndefined();
      expect(await pair.one.releaseLease('l', 'A')).toBe(true);
      const second = (await pair.other.acquireLease('l', 'B', 2_000)) ?? 0;
      expect(second).toBeGreaterThan(first);
      await pair.elapse(2_100);
      const third = (await pair.one.acquireLease('l', 'A', 2_000)) ?? 0;
      expect(third).toBeGreaterThan(second);
      expect(await pair.one.acquireLease('l', 'A', 2_000)).toBeGreaterThan(third);
    });

    test('of many that ask at once exactly one gets the lease', async ({ pair }) => {
      const numbers = await Promise.all(
        Array.from({ length: 20 }, (_, n) => (n % 2 ? pair.one : pair.other).acquireLease('l', `owner ${n}`, 5_000)),
      );
      expect(numbers.filter((number) => number !== undefined)).toHaveLength(1);
    });

    test('renewing extends it for its holder, and for nobody else nor after its end', async ({ pair }) => {
      await pair.one.acquireLease('l', 'A', 3_000);
      await pair.elapse(1_600);
      expect(await pair.one.renewLease('l', 'A', 3_000)).toBe(true);
      expect(await pair.other.renewLease('l', 'B', 3_000)).toBe(false);
      await pair.elapse(1_600);
      expect(await pair.other.acquireLease('l', 'B', 3_000)).toBeUndefined();
      await pair.elapse(1_500);
      expect(await pair.one.renewLease('l', 'A', 3_000)).toBe(false);
      expect(await pair.other.acquireLease('l', 'B', 3_000)).toBeDefined();
    });

    test('releasing leaves another owner’s lease alone', async ({ pair }) => {
      await pair.one.acquireLease('l', 'A', 1_000);
      await pair.elapse(1_100);
      await pair.other.acquireLease('l', 'B', 5_000);
      expect(await pair.one.releaseLease('l', 'A')).toBe(false);
      expect(await pair.one.acquireLease('l', 'A', 1_000)).toBeUndefined();
    });

    test('R36: a stale holder cannot overwrite: the fence refuses it, even when the later holder has released', async ({
      pair,
    }) => {
      const write = (store: Store, number: number, value: string) =>
        store.write([{ put: 'grant:{g}', value }], { fence: { lease: 'lease:{g}', number } });
      const stale = (await pair.one.acquireLease('lease:{g}', 'A', 1_000)) ?? 0;
      expect(await write(pair.one, stale, 'by A')).toBeDefined();
      await pair.elapse(1_100);
      expect(await write(pair.one, stale, 'late, but nobody came')).toBeDefined();
      const later = (await pair.other.acquireLease('lease:{g}', 'B', 1_000)) ?? 0;
      expect(await write(pair.one, stale, 'stale')).toBeUndefined();
      expect(await write(pair.other, later, 'by B')).toBeDefined();
      await pair.other.releaseLease('lease:{g}', 'B');
      expect(await write(pair.one, stale, 'stale')).toBeUndefined();
      expect((await pair.one.get('grant:{g}'))?.value).toBe('by B');
    });

    test('R36: a fence of a lease that nobody knows is refused', async ({ pair }) => {
      expect(
        await pair.one.write([{ put: 'a:{g}', value: '1' }], { fence: { lease: 'l:{g}', number: 7 } }),
      ).toBeUndefined();
    });
  });
}

function messageDuties(test: DutyTest): void {
  describe('messages', () => {
    test('reach every subscriber of the channel in every process, each once and in order', async ({ pair, expect }) => {
      const heard: string[] = [];
      await pair.one.subscribe('c', (message) => heard.push(`one ${message}`));
      await pair.one.subscribe('c', (message) => heard.push(`one again ${message}`));
      await pair.other.subscribe('c', (message) => heard.push(`other ${message}`));
      await pair.one.subscribe('d', (message) => heard.push(`wrong channel ${message}`));
      await pair.one.publish('c', '1');
      await pair.one.publish('c', '2');
      await expect.poll(() => heard.length).toBe(6);
      await pair.other.publish('c', '3');
      await expect.poll(() => heard.length).toBe(9);
      await quiet();
      const each = (who: string) => ['1', '2', '3'].map((message) => `${who} ${message}`);
      expect(heard.toSorted()).toEqual([...each('one'), ...each('one again'), ...each('other')].toSorted());
      expect(heard.filter((line) => line.startsWith('other'))).toEqual(each('other'));
    });

    test('a subscription that was ended hears nothing more, the others go on', async ({ pair, expect }) => {
      const heard: string[] = [];
      const end = await pair.other.subscribe('c', () => heard.push('ended'));
      await pair.other.subscribe('c', () => heard.push('goes on'));
      await end();
      await pair.one.publish('c', '1');
      await expect.poll(() => heard).toEqual(['goes on']);
      await quiet();
      expect(heard).toEqual(['goes on']);
    });
  });
}

function copyDuties(test: DutyTest): void {
  describe('a copy', () => {
    const dumped = async (pair: Pair) => (await Array.fromAsync(pair.other.dump())).flat();
    const byName = (x: CopyItem, y: CopyItem) => (JSON.stringify(x) < JSON.stringify(y) ? -1 : 1);
    const fill = async (pair: Pair) => {
      await pair.one.write([
        { put: 'a:{t}', value: '1:ünï\u0000 "\u2028\\\n 😀' },
        { index: 'i:{t}', add: '😀', score: -1.5 },
        { index: 'i:{t}', add: 'm', score: 1_800_000_000_000.25 },
      ]);
      await pair.one.write([{ put: 'b', value: '', lifetimeSeconds: LONG_SECONDS }]);
      await pair.one.write([{ put: 'c', value: 'gone', lifetimeSeconds: 1 }]);
      await pair.one.increment('n', 12, { lifetimeSeconds: LONG_SECONDS });
      await pair.one.increment('gone', 12, { lifetimeSeconds: 1 });
      for (const [at, entry] of ['first', 'second', 'third'].entries()) await appendTo(pair.one, 'l', entry, 7 - at);
      await pair.one.acquireLease('e', 'owner', 60_000);
      await pair.one.ready();
      await pair.elapse(1_100);
    };

    test('gives everything with its version and end, logs first, and no lease or what has expired', async ({
      pair,
    }) => {
      expect(await dumped(pair)).toEqual([]);
      await fill(pair);
      const items = await dumped(pair);
      const versionOf = async (key: string) => (await pair.one.get(key))?.version;
      const logged = (await pair.one.readLog('l', { limit: 9 })).items.map((item) => ({ log: 'l', ...item }));
      expect(items.slice(0, 3)).toEqual(logged);
      expect(items.slice(3).toSorted(byName)).toEqual([
        { counter: 'n', value: 12, expiresAt: expect.any(Number) },
        { index: 'i:{t}', member: 'm', score: 1_800_000_000_000.25 },
        { index: 'i:{t}', member: '😀', score: -1.5 },
        { record: 'a:{t}', value: '1:ünï\u0000 "\u2028\\\n 😀', version: await versionOf('a:{t}') },
        { record: 'b', value: '', version: await versionOf('b'), expiresAt: expect.any(Number) },
      ]);
    });

    test('that is cleared but for one record and loaded again is the same, twice too, and lives on', async ({
      pair,
    }) => {
      await fill(pair);
      const items = await dumped(pair);
      await pair.one.clear('b');
      const kept = await dumped(pair);
      expect(kept).toEqual([{ record: 'b', value: '', version: expect.any(Number), expiresAt: expect.any(Number) }]);
      const placed = items.map((item, at) => ('log' in item ? { ...item, id: pair.one.logIdAt(at + 1) } : item));
      await pair.one.load(placed);
      await pair.one.load(placed);
      expect((await dumped(pair)).toSorted(byName)).toEqual(placed.toSorted(byName));

      const before = await pair.other.get('a:{t}');
      const lost = Math.max(...items.map((item) => ('version' in item ? item.version : 0)));
      expect(await pair.other.write([{ put: 'a:{t}', value: 'new', ifVersion: before?.version ?? 0 }])).toBeDefined();
      expect((await pair.one.get('a:{t}'))?.version).toBeGreaterThan(lost);
      const id = await appendTo(pair.one, 'l', 'fourth', 1);
      const log = await pair.one.readLog('l', { limit: 9 });
      expect(log.items.map(({ entry }) => entry)).toEqual(['first', 'second', 'third', 'fourth']);
      expect(log.items.at(-1)?.id).toBe(id);
      expect((await pair.one.logEntries('l', [pair.one.logIdAt(2)])).map(({ entry }) => entry)).toEqual(['second']);
      expect(await pair.other.increment('n', 1, { lifetimeSeconds: LONG_SECONDS })).toBe(13);

      // The same with ends that come soon after the first filling, and are most likely over by now.
      const earlier = (LONG_SECONDS - 1) * 1_000;
      const ending = items.flatMap((item) =>
        'expiresAt' in item && item.expiresAt !== undefined ? [{ ...item, expiresAt: item.expiresAt - earlier }] : [],
      );
      expect(ending).toHaveLength(2);
      await pair.one.load(ending);
      await pair.elapse(1_100);
      expect(await pair.one.counter('n')).toBe(0);
      expect(await pair.one.get('b')).toBeUndefined();
    });

    test('never tears what one write changed, while others write', async ({ pair }) => {
      const keys = ['x:{t}', 'y:{t}'];
      await Promise.all(Array.from({ length: 600 }, (_, n) => pair.one.write([{ put: `filler ${n}`, value: 'v' }])));
      await pair.one.write(keys.map((put) => ({ put, value: 'start' })));
      let busy = true;
      const writing = (async () => {
        for (let n = 0; busy; n += 1) await pair.one.write(keys.map((put) => ({ put, value: `${n}` })));
      })();
      const seen = new Set<string>();
      for (let round = 0; round < 200 && seen.size < 5; round += 1) {
        await new Promise((resolve) => setTimeout(resolve, 2));
        const found = await dumped(pair);
        const [x, y] = keys.map((key) => found.find((item) => 'record' in item && item.record === key));
        const values = [x, y].map((item) => (item && 'value' in item ? item.value : undefined));
        expect(values[0]).toBe(values[1]);
        seen.add(String(values[0]));
      }
      busy = false;
      await writing;
      expect(seen.size).toBe(5);
    });

    test('misses none of many that stay, while others write', async ({ pair }) => {
      const keys = Array.from({ length: 1_500 }, (_, n) => `stays ${n} {${n % 500}}`);
      await Promise.all(keys.map((put) => pair.one.write([{ put, value: 'v' }])));
      const members = Array.from({ length: 2_500 }, (_, n) => ({ index: 'large', add: `m${n}`, score: n % 7 }));
      await pair.one.write(members);
      const seen = new Set<string>();
      let rounds = 0;
      for await (const items of pair.other.dump()) {
        rounds += 1;
        for (const item of items) seen.add('record' in item ? item.record : 'index' in item ? item.member : '');
        await Promise.all(
          [1, 2, 3].map((n) => pair.one.write([{ put: `passes ${rounds} ${n}`, value: 'v', lifetimeSeconds: 60 }])),
        );
      }
      const all = [...keys, ...members.map(({ add }) => add)];
      expect(all.filter((name) => !seen.has(name))).toEqual([]);
      expect(rounds).toBeGreaterThan(2);
    });
  });
}

function closingDuties(test: DutyTest): void {
  test('a store that can take writes is ready', async ({ pair }) => {
    await expect(pair.one.ready()).resolves.toBeUndefined();
    await expect(pair.one.ready(100_000)).resolves.toBeUndefined();
  });

  test('closing twice is closing once; then every method rejects with storage_unavailable, and the data stays', async ({
    pair,
  }) => {
    await pair.one.write([{ put: 'b', value: 'there' }]);
    const written = pair.one.write([{ put: 'a', value: 'kept' }]);
    const asked = [pair.one.get('b'), pair.one.get('b')];
    await pair.one.close();
    await pair.one.close();
    expect(await written).toBeDefined();
    for (const record of await Promise.all(asked)) expect(record?.value).toBe('there');
    for (const call of [
      pair.one.get('a'),
      pair.one.write([]),
      pair.one.ready(),
      pair.one.count('i'),
      pair.one.load([{ record: 'b', value: '', version: 1 }]),
      Array.fromAsync(pair.one.dump()),
    ]) {
      await expect(call).rejects.toMatchObject({ code: 'storage_unavailable', status: 503 });
    }
    expect((await pair.other.get('a'))?.value).toBe('kept');
  });
}

/** Every member of the index, by following the pages. */
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

/** Long enough for a second delivery to show. */
function quiet(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 150));
}
