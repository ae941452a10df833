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
const AT_ONCE = 200;
const MAX_READ = 1_250;

let directory: string;
let store: Store;
let users: UserStore;
let read: number;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-'));
  const opened = await createSqliteStore({ directory });
  store = { ...opened, get: (key) => opened.get(key).finally(() => (read += 1)) };
  users = createUserStore({ store, clock: Date.now });
  for (let from = 0; from < USERS; from += AT_ONCE) {
    await Promise.all(
      Array.from({ length: AT_ONCE }, (_, at) => {
        const id = `u${from + at}`;
        const name = `Anna ${from + at}`;
        return users.noteSignIn({
          id,
          issuer: 'https://idp.test',
          subject: id,
          name,
          email: `anna.${from + at}@x.test`,
        });
      }),
    );
  }
});
afterAll(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

async function walk(q: string, after?: string): Promise<{ found: string[]; mostRead: number }> {
  const found: string[] = [];
  let [cursor, mostRead] = [after, 0];
  do {
    read = 0;
    const page = await users.page({ q, limit: 200, after: cursor });
    found.push(...page.users.map(({ id }) => id));
    cursor = page.next;
    mostRead = Math.max(mostRead, read);
  } while (cursor !== undefined);
  return { found, mostRead };
}

test('lists each user once, and reads a bounded number of records per page', async () => {
  const { found, mostRead } = await walk('anna');
  expect([found.length, new Set(found).size]).toEqual([USERS, USERS]);
  expect(mostRead).toBeLessThan(MAX_READ);
});

test('lists no user a second time by address; the page ends early and the next one continues', async () => {
  const addresses = encodeCursor({ score: 0, member: 'anna.' });
  const page = await users.page({ q: 'anna', limit: 50, after: addresses });
  expect(page).toEqual({ users: [], next: expect.any(String) });
  expect((await walk('anna', addresses)).found).toEqual([]);
  expect((await walk('anna.1')).found).toContain('u1999');
});
