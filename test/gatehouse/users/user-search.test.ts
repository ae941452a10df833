/** A search lists each user once, at the first matching term, however many other matching terms the user has. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createUserStore, type UserStore } from '../../../src/gatehouse/users/user-store.ts';
import { encodeCursor } from '../../../src/shared/storage/paging.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';

const USERS = 2_400;
const CONCURRENT_WRITES = 200;
const MAX_READS = 1_250;

let directory: string;
let store: Store;
let users: UserStore;
let reads: number;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-'));
  const sqliteStore = await createSqliteStore({ directory });
  store = { ...sqliteStore, get: (key) => sqliteStore.get(key).finally(() => (reads += 1)) };
  users = createUserStore({ store, clock: Date.now });
  for (let start = 0; start < USERS; start += CONCURRENT_WRITES) {
    await Promise.all(
      Array.from({ length: CONCURRENT_WRITES }, (_, index) => {
        const id = `u${start + index}`;
        const name = `Anna ${start + index}`;
        return users.noteSignIn({
          id,
          issuer: 'https://idp.test',
          subject: id,
          name,
          email: `anna.${start + index}@x.test`,
        });
      }),
    );
  }
});
afterAll(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

/** Reads all pages of a search. `maxReads`: the most records that one page took */
async function readAllPages(query: string, after?: string): Promise<{ ids: string[]; maxReads: number }> {
  const ids: string[] = [];
  let cursor = after;
  let maxReads = 0;
  do {
    reads = 0;
    const page = await users.page({ q: query, limit: 200, after: cursor });
    ids.push(...page.users.map(({ id }) => id));
    cursor = page.next;
    maxReads = Math.max(maxReads, reads);
  } while (cursor !== undefined);
  return { ids, maxReads };
}

test('lists each user once, and reads a bounded number of records per page', async () => {
  const { ids, maxReads } = await readAllPages('anna');
  expect(ids).toHaveLength(USERS);
  expect(new Set(ids).size).toBe(USERS);
  expect(maxReads).toBeLessThan(MAX_READS);
});

test('lists no user by address who was listed by name, even if that leaves a page empty', async () => {
  const cursorOfAddresses = encodeCursor({ score: 0, member: 'anna.' });
  const page = await users.page({ q: 'anna', limit: 50, after: cursorOfAddresses });
  expect(page).toEqual({ users: [], next: expect.any(String) });
  expect((await readAllPages('anna', cursorOfAddresses)).ids).toEqual([]);

  // A user who matches only by address is listed.
  expect((await readAllPages('anna.1')).ids).toContain('u1999');
});
