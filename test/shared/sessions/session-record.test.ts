/** The lifetimes of sessions, and that ended sessions stay ended, with a fake clock. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SessionData } from 'express-session';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AppError } from '../../../src/shared/errors.ts';
import { createSessionLists } from '../../../src/shared/sessions/session-lists.ts';
import { createSessionRecords, dataOf, type SessionRecords } from '../../../src/shared/sessions/session-record.ts';
import { createUserSessions, type UserSessions } from '../../../src/shared/sessions/user-sessions.ts';
import { hashOf, keys } from '../../../src/shared/storage/keys.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { makeSealer } from '../../support/encryption-keys.ts';
import { breakStore } from '../../support/store-fault.ts';
import { USER } from './user.ts';

const LIFETIMES = { idleSeconds: 600, maxSeconds: 3600 };
const DATA = { cookie: { originalMaxAge: null }, user: USER, csrfToken: 'token', app: 'platform' } as SessionData;
const ID = 'session-id-of-this-test';

let now: number;
let directory: string;
let store: Store;
let records: SessionRecords;
const advanceSeconds = (seconds: number) => {
  now += seconds * 1000;
};
beforeEach(async () => {
  now = Date.parse('2026-03-15T12:00:00Z');
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-sessions-'));
  store = await createSqliteStore({ directory, clock: () => now });
  records = recordsWith(LIFETIMES);
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

const sealedJson = createSealedJson(makeSealer());
const listsOf = (of: Store) => createSessionLists({ store: of, maxSeconds: LIFETIMES.maxSeconds, clock: () => now });
const recordsWith = (lifetimes: { idleSeconds: number; maxSeconds: number }) =>
  createSessionRecords({ store, sealedJson, lists: listsOf(store), lifetimes, clock: () => now });
const readAndExtend = () => records.read(ID, { extend: true });
const readWithoutExtending = () => records.read(ID, { extend: false });
const readData = async () => {
  const session = await readAndExtend();
  return session ? dataOf(session) : DATA;
};
/** Stores session data without the checks of `write`. */
const storeUnchecked = async (data: object) => {
  const key = keys.session(hashOf(ID));
  const value = await sealedJson.seal({ data, createdAt: now, seenAt: now }, key);
  await store.write([{ put: key, value }]);
};

describe('R55 lifetimes', () => {
  test('an unused session ends after exactly the idle time', async () => {
    await records.write(ID, DATA);
    advanceSeconds(599);
    expect(await readWithoutExtending()).toBeDefined();

    advanceSeconds(1);
    expect(await readWithoutExtending()).toBeUndefined();
  });

  test('an unused session ends even if the store still has its record', async () => {
    await records.write(ID, DATA);
    const put = keys.session(hashOf(ID));
    await store.write([{ put, value: (await store.get(put))?.value ?? '' }]);
    advanceSeconds(599);
    expect(await readWithoutExtending()).toBeDefined();

    advanceSeconds(1);
    expect(await store.get(put)).toBeDefined();
    expect([await readWithoutExtending(), await readAndExtend()]).toEqual([undefined, undefined]);
  });

  test('an expired session leaves nothing in the store', async () => {
    await records.write(ID, DATA);
    advanceSeconds(599);
    expect(await store.get(keys.session(hashOf(ID)))).toBeDefined();

    advanceSeconds(1);
    expect(await store.get(keys.session(hashOf(ID)))).toBeUndefined();
  });

  test('only use extends the idle time', async () => {
    await records.write(ID, DATA);
    advanceSeconds(300);
    expect(await readWithoutExtending()).toMatchObject({ expiresAt: now + 300_000 });
    expect(await readAndExtend()).toMatchObject({ expiresAt: now + 600_000 });

    advanceSeconds(599);
    expect(await readAndExtend()).toBeDefined();
  });

  test('no use, write or read extends a session past its absolute end', async () => {
    await records.write(ID, DATA);
    const end = now + LIFETIMES.maxSeconds * 1000;
    while (now + 240_000 < end) {
      advanceSeconds(240);
      const live = await readAndExtend();
      expect(live?.expiresAt).toBeLessThanOrEqual(end);
      if (live) await records.write(ID, dataOf(live));
    }
    expect(await readAndExtend()).toMatchObject({ expiresAt: end });

    now = end - 1;
    expect(await readWithoutExtending()).toBeDefined();

    now = end;
    expect(await readWithoutExtending()).toBeUndefined();
  });

  test('a slow request cannot restore an expired session, even after its record is gone', async () => {
    await records.write(ID, DATA);
    const data = await readData();
    advanceSeconds(600);
    await records.write(ID, data);
    expect(await readWithoutExtending()).toBeUndefined();

    advanceSeconds(LIFETIMES.maxSeconds);
    await records.write(ID, data);
    expect(await readWithoutExtending()).toBeUndefined();
  });

  test.each([60, 90, 300, 600, 1_800])(
    'a session with use within nine tenths of %i s stays valid',
    async (idleSeconds) => {
      const ownRecords = recordsWith({ idleSeconds, maxSeconds: 28_800 });
      await ownRecords.write(ID, DATA);
      for (const share of [0.05, 0.85, 0.11, 0.9, 0.5, 0.05, 0.9]) {
        advanceSeconds(idleSeconds * share);
        expect([share, (await ownRecords.read(ID, { extend: true }))?.ref]).toEqual([share, expect.any(String)]);
      }
      advanceSeconds(idleSeconds);
      expect(await ownRecords.read(ID, { extend: true })).toBeUndefined();
    },
  );

  test.each([
    [600, 60],
    [1_800, 180],
    [86_400, 300],
  ])('with an idle time of %i s, use is written at most once in %i s', async (idleSeconds, seconds) => {
    const ownRecords = recordsWith({ idleSeconds, maxSeconds: 172_800 });
    const expiresIn = async () => ((await ownRecords.read(ID, { extend: true }))?.expiresAt ?? 0) - now;
    await ownRecords.write(ID, DATA);
    advanceSeconds(seconds - 1);
    expect(await expiresIn()).toBe((idleSeconds - seconds + 1) * 1_000);

    advanceSeconds(1);
    expect(await expiresIn()).toBe(idleSeconds * 1_000);
  });

  test('the session keeps its remaining time while the store is read-only', async () => {
    await records.write(ID, DATA);
    advanceSeconds(120);
    const recordsOfFullStore = createSessionRecords({
      sealedJson,
      store: {
        ...store,
        write: async () => {
          const heal = breakStore();
          try {
            return await store.increment('anything', 1, { lifetimeSeconds: 1 });
          } finally {
            heal();
          }
        },
      },
      lists: listsOf(store),
      lifetimes: LIFETIMES,
      clock: () => now,
    });
    expect(await recordsOfFullStore.read(ID, { extend: true })).toMatchObject({ expiresAt: now + 480_000 });
  });
});

describe('a session in the store', () => {
  /** Records over a store that logs its calls; `firstWrites` replace the first writes of the session. */
  function createLoggingRecords(firstWrites: (() => Promise<undefined>)[] = []) {
    const calls: string[] = [];
    const isOfSession = (write: object) => 'put' in write && write.put === keys.session(hashOf(ID));
    const loggingStore: Store = {
      ...store,
      getIfChanged: (key, version) => {
        calls.push(`get ${key.split(':')[0]}`);
        return store.getIfChanged(key, version);
      },
      write: async (writes) => {
        const [session] = writes.filter(isOfSession);
        calls.push(session && 'ifVersion' in session ? `write over ${session.ifVersion}` : 'list');
        const first = session && firstWrites.shift();
        return first ? first() : store.write(writes);
      },
    };
    const ownRecords = createSessionRecords({
      store: loggingStore,
      sealedJson,
      lists: listsOf(store),
      lifetimes: LIFETIMES,
      clock: () => now,
    });
    return { ownRecords, calls };
  }

  test('is inserted without a read if it is new', async () => {
    const { ownRecords, calls } = createLoggingRecords();
    await ownRecords.write(ID, DATA);
    expect(calls).toEqual(['list', 'list', 'write over 0']);
    expect(await readWithoutExtending()).toMatchObject({ seenAt: now, expiresAt: now + 600_000, createdAt: now });
  });

  test('is not decrypted again by the process that wrote or extended it', async () => {
    const open = () => Promise.reject(new Error('opened'));
    const ownRecords = createSessionRecords({
      store,
      sealedJson: { ...sealedJson, open },
      lists: listsOf(store),
      lifetimes: LIFETIMES,
      clock: () => now,
    });
    await ownRecords.write(ID, DATA);
    for (const idleSeconds of [0, 60, 0]) {
      advanceSeconds(idleSeconds);
      expect(await ownRecords.read(ID, { extend: true })).toMatchObject({ ...DATA, seenAt: now });
    }
    await records.end(ID);
    expect(await ownRecords.read(ID, { extend: true })).toBeUndefined();
  });

  test('is overwritten if it already exists, and keeps its start', async () => {
    await records.write(ID, DATA);
    const createdAt = now;
    advanceSeconds(60);
    await records.write(ID, { ...DATA, csrfToken: 'another' } as SessionData);
    expect(await readWithoutExtending()).toMatchObject({ seenAt: now, csrfToken: 'another', createdAt: createdAt });
  });

  test('is inserted again if its record has gone before the read', async () => {
    const { ownRecords, calls } = createLoggingRecords([async () => undefined]);
    await ownRecords.write(ID, DATA);
    expect(calls).toEqual(['list', 'list', 'write over 0', 'get session', 'list', 'list', 'write over 0']);
    expect(await readWithoutExtending()).toBeDefined();
  });

  test('is written again after a concurrent change', async () => {
    await records.write(ID, DATA);
    const data = await readData();
    const { ownRecords } = createLoggingRecords([async () => undefined]);
    await ownRecords.write(ID, { ...data, csrfToken: 'another' });
    expect((await readWithoutExtending())?.csrfToken).toBe('another');
  });

  test('fails to be read if extending it fails, except during a storage outage', async () => {
    await records.write(ID, DATA);
    advanceSeconds(60);
    for (const error of [new Error('a fault'), new AppError('internal')]) {
      const { ownRecords } = createLoggingRecords([() => Promise.reject(error)]);
      await expect(ownRecords.read(ID, { extend: true })).rejects.toBe(error);
    }
    const outage = new AppError('storage_unavailable');
    const { ownRecords } = createLoggingRecords([() => Promise.reject(outage)]);
    expect(await ownRecords.read(ID, { extend: true })).toMatchObject({ seenAt: now - 60_000 });
  });

  test('keeps its known lifetime if another request has extended it', async () => {
    await records.write(ID, DATA);
    advanceSeconds(60);
    const { ownRecords } = createLoggingRecords([async () => undefined]);
    expect(await ownRecords.read(ID, { extend: true })).toMatchObject({
      seenAt: now - 60_000,
      expiresAt: now + 540_000,
    });
  });

  test('is cached after a read or write', async () => {
    const hash = hashOf(ID);
    const other = recordsWith(LIFETIMES);
    expect(records.cached(hash)).toBeUndefined();

    await records.write(ID, DATA);
    expect(other.cached(hash)).toBeUndefined();

    await other.read(ID, { extend: false });
    for (const reader of [records, other])
      expect(reader.cached(hash)).toMatchObject({ user: USER, csrfToken: 'token', app: 'platform' });
    await records.end(ID);
    await readWithoutExtending();
    expect(records.cached(hash)).toBeUndefined();

    await storeUnchecked({ ...DATA, user: undefined });
    await readWithoutExtending();
    expect(records.cached(hash)).toBeUndefined();
  });

  test('leaves no tombstone if it never existed', async () => {
    await records.end(ID);
    expect(await store.get(keys.session(hashOf(ID)))).toBeUndefined();
  });

  test('has the beginning of its hash as reference, and is frozen', async () => {
    await records.write(ID, { ...DATA, acr: undefined });
    const live = await readWithoutExtending();
    expect(live?.ref).toBe(hashOf(ID).slice(0, 16));
    expect(Object.isFrozen(live?.user)).toBe(true);
    expect(Object.isFrozen(live?.cookie)).toBe(true);
  });
});

describe('R62 an ended session stays ended', () => {
  test('after a slow write', async () => {
    await records.write(ID, DATA);
    const staleData = await readData();
    await records.end(ID);
    await records.write(ID, staleData);
    expect(await readWithoutExtending()).toBeUndefined();

    advanceSeconds(120);
    expect(await readAndExtend()).toBeUndefined();
  });

  test('until its last possible use', async () => {
    await records.write(ID, DATA);
    advanceSeconds(500);
    await readAndExtend();
    await records.end(ID);
    advanceSeconds(LIFETIMES.maxSeconds - 1);
    await records.write(ID, DATA);
    expect(await readWithoutExtending()).toBeUndefined();
  });

  test('after many concurrent writes', async () => {
    await records.write(ID, DATA);
    await Promise.all([
      ...Array.from({ length: 20 }, (_, userSessions) =>
        records.write(ID, { ...DATA, csrfToken: `token-${userSessions}` }),
      ),
      records.end(ID),
      ...Array.from({ length: 20 }, (_, index) => records.write(ID, { ...DATA, csrfToken: `late-${index}` })),
    ]);
    expect(await readWithoutExtending()).toBeUndefined();
  });
});

test('R60 the stored values cannot be used as a session id', async () => {
  await records.write(ID, DATA);
  const live = await readAndExtend();
  expect(live?.ref).toBeDefined();

  for (const value of [keys.session(hashOf(ID)), live?.ref]) expect(value).not.toContain(ID);
  expect(await records.read(live?.ref ?? '', { extend: false })).toBeUndefined();
  expect(await records.read(hashOf(ID), { extend: false })).toBeUndefined();
});

describe('R56 all sessions', () => {
  let index: UserSessions;
  beforeEach(() => {
    index = createUserSessions({ store, records, lists: listsOf(store), clock: () => now });
  });
  const startSession = async (name: string) => {
    const user = { id: name, issuer: 'https://provider.test', subject: name, admin: false };
    await records.write(`session of ${name}`, { ...DATA, user } as SessionData);
    advanceSeconds(1);
  };
  const pages = async (limit: number) => {
    const users: string[][] = [];
    for (let after: string | undefined; ; ) {
      const { items, next } = await index.page({ limit, after });
      users.push(items.map(({ user }) => user.id));
      if (next === undefined) return users;
      after = next;
    }
  };

  test('are listed by pages, newest first, without ended ones', async () => {
    for (const name of ['ann', 'bob', 'cid', 'dan', 'eve']) await startSession(name);
    expect(await pages(2)).toEqual([['eve', 'dan'], ['cid', 'bob'], ['ann']]);

    await records.end('session of dan');
    await records.end('session of cid');
    expect((await pages(2)).flat()).toEqual(['eve', 'bob', 'ann']);
    expect((await index.page({ limit: 2 })).items).toHaveLength(2);
    expect((await pages(50)).flat()).toEqual(['eve', 'bob', 'ann']);
  });

  test('fill each page, even if listed ones have expired', async () => {
    for (const name of ['ann', 'bob', 'cid', 'dan']) await startSession(name);
    advanceSeconds(LIFETIMES.idleSeconds - 60);
    for (const name of ['ann', 'bob', 'cid']) await records.read(`session of ${name}`, { extend: true });
    advanceSeconds(120);
    expect(await pages(2)).toEqual([['cid', 'bob'], ['ann']]);
  });

  test('R55 are not extended when they are listed', async () => {
    await startSession('ann');
    advanceSeconds(LIFETIMES.idleSeconds - 60);
    expect((await pages(9)).flat()).toEqual(['ann']);

    advanceSeconds(60);
    expect((await pages(9)).flat()).toEqual([]);
  });

  test('a sweep keeps several batches of recent entries', async () => {
    const recentHashes = Array.from({ length: 450 }, (_, n) => hashOf(`on its way ${n}`));
    await store.write(recentHashes.map((add) => ({ index: keys.liveSessions, add, score: now })));
    await index.sweep();
    expect(await index.count()).toBe(450);
  });

  test('leave out a listed session without a user', async () => {
    await startSession('ann');
    await storeUnchecked({ ...DATA, user: undefined });
    await store.write([{ index: keys.liveSessions, add: hashOf(ID), score: now }]);
    expect((await pages(9)).flat()).toEqual(['ann']);
    expect(await readWithoutExtending()).toBeUndefined();
  });

  test('have user, browser, address and times', async () => {
    const user = { id: 'ann', issuer: 'https://provider.test', subject: 'ann', name: 'Ann', email: 'a', admin: true };
    await records.write(ID, { ...DATA, user, browser: 'Firefox on Windows', address: '192.0.2.1' } as SessionData);
    const createdAt = now;
    advanceSeconds(120);
    await readAndExtend();
    expect((await index.page({ limit: 1 })).items[0]).toMatchObject({
      user,
      ref: hashOf(ID).slice(0, 16),
      createdAt,
      seenAt: now,
      browser: 'Firefox on Windows',
      address: '192.0.2.1',
      app: 'platform',
    });
  });

  test('a sweep removes several batches of ended sessions', async () => {
    const endedHashes = Array.from({ length: 450 }, (_, n) => hashOf(`ended ${n}`));
    await store.write(endedHashes.map((add) => ({ index: keys.liveSessions, add, score: now })));
    await startSession('ann');
    advanceSeconds(59);
    // An entry may be without a session for exactly a minute.
    await index.sweep();
    expect(await index.count()).toBe(451);

    now += 1;
    await index.sweep();
    expect([await index.count(), (await pages(9)).flat()]).toEqual([1, ['ann']]);
  });

  test('a sweep removes expired sessions only', async () => {
    await startSession('ann');
    advanceSeconds(LIFETIMES.idleSeconds - 60);
    await startSession('bob');
    advanceSeconds(120);
    expect(await index.count()).toBe(2);

    await index.sweep();
    expect([await index.count(), (await pages(9)).flat()]).toEqual([1, ['bob']]);

    // A listed session that is not written yet may still begin, for a minute.
    await store.write([{ index: keys.liveSessions, add: hashOf('on its way'), score: now }]);
    advanceSeconds(59);
    await index.sweep();
    expect(await index.count()).toBe(2);

    advanceSeconds(2);
    await index.sweep();
    expect(await index.count()).toBe(1);
  });
});

describe('cached sessions', () => {
  test('R56, R62: a session that another process ended is invalid at the next read, and cannot be restored', async () => {
    const recordsOfOtherProcess = recordsWith(LIFETIMES);
    await records.write(ID, DATA);
    expect(await readAndExtend()).toBeDefined();

    await recordsOfOtherProcess.end(ID);
    expect(await readAndExtend()).toBeUndefined();
    expect(await records.readHashed(hashOf(ID), { extend: true })).toBeUndefined();

    await recordsOfOtherProcess.write(ID, DATA);
    expect(await readAndExtend()).toBeUndefined();
  });

  test('R56: a change by another process is visible at the next read', async () => {
    const elsewhere = recordsWith(LIFETIMES);
    await records.write(ID, DATA);
    expect((await readWithoutExtending())?.csrfToken).toBe('token');

    await elsewhere.write(ID, { ...DATA, csrfToken: 'another' } as SessionData);
    expect((await readWithoutExtending())?.csrfToken).toBe('another');
  });

  test('have all data of the session', async () => {
    const data = { ...DATA, user: { id: 'u1', admin: false }, acr: 'gold', authTime: 1_700_000_000 } as SessionData;
    await records.write(ID, data);
    const times = { createdAt: now, seenAt: now, expiresAt: now + 600_000 };
    expect(await readWithoutExtending()).toEqual({ ...data, ...times, ref: hashOf(ID).slice(0, 16) });
  });

  test.each(['user', 'csrfToken', 'app'])('are invalid without %s', async (part) => {
    await storeUnchecked(DATA);
    expect(await readWithoutExtending()).toBeDefined();
    await storeUnchecked({ ...DATA, [part]: undefined });
    expect(await readWithoutExtending()).toBeUndefined();
  });

  test('cannot be changed by a caller', async () => {
    await records.write(ID, { ...DATA, user: { id: 'u1', admin: false } } as SessionData);
    const first = await readWithoutExtending();
    for (const part of [first, first?.user, first?.cookie])
      expect(() => Object.assign(part ?? {}, { csrfToken: 'changed', admin: true })).toThrow(TypeError);
    const second = await readWithoutExtending();
    expect([second?.csrfToken, second?.user.admin]).toEqual(['token', false]);
  });
});
