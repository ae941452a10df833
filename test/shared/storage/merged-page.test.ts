/**
 * A merged list of several indexes has every item once, newest first, and reads a bounded number of positions per page.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type MergedPage, type MergedSource, mergedPage, unionPage } from '../../../src/shared/storage/merged-page.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import type { StoreKind } from '../../support/fleet.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { createTestStorage, type TestStorage } from '../../support/test-storage.ts';

const KINDS: readonly StoreKind[] = ['SQLite', 'Redis'];

describe.each(KINDS)('on %s', (kind) => {
  const isMissing = kind === 'Redis' && missingRedis !== undefined;
  let storage: TestStorage;
  beforeAll(async () => {
    if (!isMissing) storage = await createTestStorage(kind);
  });
  afterAll(() => storage?.dispose());

  let lists = 0;
  /** @param members members of one index, with their times */
  const fillIndex = async (store: Store, members: readonly (readonly [string, number])[]) => {
    lists += 1;
    const index = `list:{merged}:${lists}`;
    const writes = members.map(([add, score]) => ({ index, add, score }));
    for (let start = 0; start < writes.length; start += 500) await store.write(writes.slice(start, start + 500));
    return index;
  };
  const sourceOf = (
    store: Store,
    indexes: readonly string[],
    accepts = (_member: string) => true,
  ): MergedSource<string> & { reads: number } => ({
    reads: 0,
    page: (options) => unionPage(store, indexes, options),
    async load(positions) {
      this.reads += positions.length;
      return positions.map(({ member }) => (accepts(member) ? member : undefined));
    },
  });
  const readAll = async (sources: readonly MergedSource<string>[], limit: number) => {
    const pages: MergedPage<string>[] = [];
    for (let after: string | undefined; ; ) {
      const page = await mergedPage(sources, { after, limit });
      pages.push(page);
      if (page.next === undefined) return pages;
      after = page.next;
    }
  };

  test.skipIf(isMissing)(
    'a merged list has every item once, newest first, even if sources share members and times',
    async () => {
      const member = fc.tuple(fc.constantFrom(...'abcdefghij'), fc.integer({ min: 0, max: 5 }));
      const list = fc.uniqueArray(member, { selector: ([name]) => name, maxLength: 10 });
      await storage.withStore((store) =>
        fc.assert(
          fc.asyncProperty(
            fc.array(list, { minLength: 1, maxLength: 4 }),
            fc.integer({ min: 1, max: 7 }),
            async (lists, limit) => {
              // The two indexes of a source have the same members at the same times.
              const sources = lists.map((members) => [members, members.slice(0, 3)]);
              const indexes = await Promise.all(
                sources.map(async (pair) => Promise.all(pair.map((members) => fillIndex(store, members)))),
              );
              const pages = await readAll(
                indexes.map((pair) => sourceOf(store, pair)),
                limit,
              );
              const expected = lists
                .flatMap((members, source) => members.map(([name, time]) => ({ name, time, source })))
                .sort((a, b) => b.time - a.time || a.source - b.source || (a.name < b.name ? 1 : -1))
                .map(({ name }) => name);
              expect(pages.flatMap(({ items }) => items)).toEqual(expected);
              expect(pages.slice(0, -1).every(({ items }) => items.length === limit)).toBe(true);
            },
          ),
          { numRuns: kind === 'Redis' ? 40 : 100 },
        ),
      );
    },
  );

  test.skipIf(isMissing)(
    'a page searches a bounded number of positions, and reports the time that the search reached',
    async () => {
      await storage.withStore(async (store) => {
        const frequentMembers = Array.from({ length: 5_000 }, (_, n): [string, number] => [`m${n}`, n]);
        const [rare, other] = [
          await fillIndex(store, frequentMembers),
          await fillIndex(store, [
            ['old', 3],
            ['new', 4_999.5],
          ]),
        ];
        const source = sourceOf(store, [rare], (name) => name === 'm7');
        const first = await mergedPage([source, sourceOf(store, [other])], { limit: 20 });
        expect(first.items).toEqual(['new']);
        expect(first.searchedTo).toBe(4_000);
        expect(source.reads).toBe(1_000);
        const rest = await readAll([source, sourceOf(store, [other])], 20);
        expect(rest.flatMap(({ items }) => items)).toEqual(['new', 'm7', 'old']);
      });
    },
  );

  test.skipIf(isMissing)('the cursor of another list is refused', async () => {
    await storage.withStore(async (store) => {
      const index = await fillIndex(store, [
        ['a', 1],
        ['b', 2],
      ]);
      const sources = [sourceOf(store, [index])];
      const { next } = await store.page(index, { limit: 1 });
      for (const after of ['x', next, Buffer.from('[1,"9 a"]').toString('base64url')]) {
        await expect(mergedPage(sources, { after, limit: 1 })).rejects.toMatchObject({ code: 'invalid_request' });
      }
    });
  });
});
