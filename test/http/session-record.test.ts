/** How long a session lives, and that nothing brings an ended one back, with a clock that the test moves. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SessionData } from 'express-session';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createSessionIndex, type SessionIndex } from '../../src/http/session-index.ts';
import { createSessionLists } from '../../src/http/session-lists.ts';
import { createSessionRecords, type SessionRecords } from '../../src/http/session-record.ts';
import { hashOf, keys } from '../../src/storage/keys.ts';
import { createSqliteStore } from '../../src/storage/sqlite-store.ts';
import type { Store } from '../../src/storage/store.ts';
import { breakStore } from '../support/store-fault.ts';

const LIFETIMES = { idleSeconds: 600, maxSeconds: 3600 };
const DATA = { cookie: { originalMaxAge: null }, csrfToken: 'token', app: 'platform' } as SessionData;
const ID = 'session-id-of-this-test';

let now: number;
let directory: string;
let store: Store;
let records: SessionRecords;
const pass = (seconds: number) => {
  now += seconds * 1000;
};
beforeEach(async () => {
  now = Date.parse('2026-03-15T12:00:00Z');
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-sessions-'));
  store = await createSqliteStore({ directory, clock: () => now });
  records = createSessionRecords({ store, lists: listsOf(store), lifetimes: LIFETIMES, clock: () => now });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

const listsOf = (of: Store) => createSessionLists({ store: of, maxSeconds: LIFETIMES.maxSeconds, clock: () => now });
const read = () => records.read(ID, { extend: true });
const look = () => records.read(ID, { extend: false });

describe('R55 lifetimes', () => {
  test('a session that nobody uses ends after the idle time, to the second', async () => {
    await records.write(ID, DATA);
    pass(599);
    expect(await look()).toBeDefined();
    pass(1);
    expect(await look()).toBeUndefined();
  });

  test('and leaves nothing in the store then', async () => {
    await records.write(ID, DATA);
    pass(599);
    expect(await store.get(keys.session(hashOf(ID)))).toBeDefined();
    pass(1);
    expect(await store.get(keys.session(hashOf(ID)))).toBeUndefined();
  });

  test('use extends the idle time, and only use does', async () => {
    await records.write(ID, DATA);
    pass(300);
    expect(await look()).toMatchObject({ expiresAt: now + 300_000 });
    expect(await read()).toMatchObject({ expiresAt: now + 600_000 });
    pass(599);
    expect(await read()).toBeDefined();
  });

  test('no use, write or looking on extends it past the absolute end', async () => {
    await records.write(ID, DATA);
    const end = now + LIFETIMES.maxSeconds * 1000;
    while (now + 240_000 < end) {
      pass(240);
      const live = await read();
      expect(live?.expiresAt).toBeLessThanOrEqual(end);
      if (live) await records.write(ID, live.data);
    }
    expect(await read()).toMatchObject({ expiresAt: end });
    now = end - 1;
    expect(await look()).toBeDefined();
    now = end;
    expect(await look()).toBeUndefined();
  });

  test('a slow request cannot write an expired session back, neither at once nor when the store has forgotten it', async () => {
    await records.write(ID, DATA);
    const live = await read();
    pass(600);
    await records.write(ID, live?.data ?? DATA);
    expect(await look()).toBeUndefined();
    pass(LIFETIMES.maxSeconds);
    await records.write(ID, live?.data ?? DATA);
    expect(await look()).toBeUndefined();
  });

  test('the idle time is written at most once a minute', async () => {
    await records.write(ID, DATA);
    pass(59);
    expect(await read()).toMatchObject({ expiresAt: now + 541_000 });
    pass(1);
    expect(await read()).toMatchObject({ expiresAt: now + 600_000 });
  });

  test('where the store can be read and not written, the session goes on with the time it had', async () => {
    await records.write(ID, DATA);
    pass(120);
    const full = createSessionRecords({
      store: {
        ...store,
        write: async () => {
          const heal = breakStore();
          try {
            return await store.increment('anything', 1, { lifetimeSeconds: 1 }).then(() => true);
          } finally {
            heal();
          }
        },
      },
      lists: listsOf(store),
      lifetimes: LIFETIMES,
      clock: () => now,
    });
    expect(await full.read(ID, { extend: true })).toMatchObject({ expiresAt: now + 480_000 });
  });
});

describe('R62 an ended session stays ended', () => {
  test('whatever was under way when it ended', async () => {
    await records.write(ID, DATA);
    const slow = await read();
    await records.end(ID);
    await records.write(ID, slow?.data ?? DATA);
    expect(await look()).toBeUndefined();
    pass(120);
    expect(await read()).toBeUndefined();
  });

  test('until its last possible use, and the tombstone goes afterwards', async () => {
    await records.write(ID, DATA);
    pass(500);
    await read();
    await records.end(ID);
    pass(LIFETIMES.maxSeconds - 1);
    await records.write(ID, DATA);
    expect(await look()).toBeUndefined();
  });

  test('of many writes at once none is lost in the middle of another, and none survives the end', async () => {
    await records.write(ID, DATA);
    await Promise.all([
      ...Array.from({ length: 20 }, (_, index) => records.write(ID, { ...DATA, csrfToken: `token-${index}` })),
      records.end(ID),
      ...Array.from({ length: 20 }, (_, index) => records.write(ID, { ...DATA, csrfToken: `late-${index}` })),
    ]);
    expect(await look()).toBeUndefined();
  });
});

test('R60 what the store holds does not let anybody take a session over', async () => {
  await records.write(ID, DATA);
  const live = await read();
  expect(live?.ref).toBeDefined();
  for (const known of [keys.session(hashOf(ID)), live?.ref]) expect(known).not.toContain(ID);
  expect(await records.read(live?.ref ?? '', { extend: false })).toBeUndefined();
  expect(await records.read(hashOf(ID), { extend: false })).toBeUndefined();
});

describe('R56 all that are signed in', () => {
  let index: SessionIndex;
  beforeEach(() => {
    index = createSessionIndex({ store, records, clock: () => now });
  });
  const begin = async (name: string) => {
    const user = { id: name, issuer: 'https://provider.test', subject: name, admin: false };
    await records.write(`session of ${name}`, { ...DATA, user } as SessionData);
    pass(1);
  };
  const pages = async (limit: number) => {
    const seen: string[][] = [];
    for (let after: string | undefined; ; ) {
      const { items, next } = await index.page({ limit, after });
      seen.push(items.map(({ user }) => user.id));
      if (next === undefined) return seen;
      after = next;
    }
  };

  test('are listed by pages, the newest first, without those that have ended meanwhile', async () => {
    for (const name of ['ann', 'bob', 'cid', 'dan', 'eve']) await begin(name);
    expect(await pages(2)).toEqual([['eve', 'dan'], ['cid', 'bob'], ['ann']]);
    await records.end('session of dan');
    await records.end('session of cid');
    expect((await pages(2)).flat()).toEqual(['eve', 'bob', 'ann']);
    expect((await index.page({ limit: 2 })).items).toHaveLength(2);
    expect((await pages(50)).flat()).toEqual(['eve', 'bob', 'ann']);
  });

  test('are as many on a page as it takes, where some of those listed were idle for too long', async () => {
    for (const name of ['ann', 'bob', 'cid', 'dan']) await begin(name);
    pass(LIFETIMES.idleSeconds - 60);
    for (const name of ['ann', 'bob', 'cid']) await records.read(`session of ${name}`, { extend: true });
    pass(120);
    expect(await pages(2)).toEqual([['cid', 'bob'], ['ann']]);
  });

  test('R55 are not in use because somebody looks at them', async () => {
    await begin('ann');
    pass(LIFETIMES.idleSeconds - 60);
    expect((await pages(9)).flat()).toEqual(['ann']);
    pass(60);
    expect((await pages(9)).flat()).toEqual([]);
  });

  test('a sweep of more than it reads at once comes to its end', async () => {
    const fresh = Array.from({ length: 450 }, (_, n) => hashOf(`on its way ${n}`));
    await store.write(fresh.map((add) => ({ index: keys.liveSessions, add, score: now })));
    await index.sweep();
    expect(await index.count()).toBe(450);
  });

  test('who came back to nothing is swept out, and nobody else', async () => {
    await begin('ann');
    pass(LIFETIMES.idleSeconds - 60);
    await begin('bob');
    pass(120);
    expect(await index.count()).toBe(2);
    await index.sweep();
    expect([await index.count(), (await pages(9)).flat()]).toEqual([1, ['bob']]);
    // One that is listed and not written yet may still be on its way, for a minute.
    await store.write([{ index: keys.liveSessions, add: hashOf('on its way'), score: now }]);
    pass(59);
    await index.sweep();
    expect(await index.count()).toBe(2);
    pass(2);
    await index.sweep();
    expect(await index.count()).toBe(1);
  });
});

describe('what was read before counts for nothing', () => {
  test('R56, R62: a session that another process ended is dead here at the next look, and so is its next life', async () => {
    const elsewhere = createSessionRecords({ store, lists: listsOf(store), lifetimes: LIFETIMES, clock: () => now });
    await records.write(ID, DATA);
    expect(await read()).toBeDefined();
    await elsewhere.end(ID);
    expect(await read()).toBeUndefined();
    expect(await records.readHashed(hashOf(ID), { extend: true })).toBeUndefined();
    await elsewhere.write(ID, DATA);
    expect(await read()).toBeUndefined();
  });

  test('R56: what another process wrote is seen at the next look', async () => {
    const elsewhere = createSessionRecords({ store, lists: listsOf(store), lifetimes: LIFETIMES, clock: () => now });
    await records.write(ID, DATA);
    expect((await look())?.data.csrfToken).toBe('token');
    await elsewhere.write(ID, { ...DATA, csrfToken: 'another' } as SessionData);
    expect((await look())?.data.csrfToken).toBe('another');
  });

  test('whoever changes what was read changes nobody else’s', async () => {
    await records.write(ID, { ...DATA, user: { id: 'u1', admin: false } } as SessionData);
    const first = await look();
    if (first) first.data.csrfToken = 'changed';
    expect(() => Object.assign(first?.data.user ?? {}, { admin: true })).toThrow(TypeError);
    const second = await look();
    expect([second?.data.csrfToken, second?.data.user.admin]).toEqual(['token', false]);
  });
});
