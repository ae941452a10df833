/** How long a session lives, and that nothing brings an ended one back, with a clock that the test moves. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SessionData } from 'express-session';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
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
