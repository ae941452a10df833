/**
 * A deletion of a user that the storage interrupts: it says what is not deleted yet, and a scheduled task finishes it.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createConnectLinks } from '../../../src/gatehouse/grants/connect-links.ts';
import { createConnectionIndex } from '../../../src/gatehouse/grants/connection-index.ts';
import { createConnections } from '../../../src/gatehouse/grants/connections.ts';
import { createGrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { createRevocations } from '../../../src/gatehouse/grants/revocations.ts';
import { PENDING_REQUEST_SECONDS } from '../../../src/gatehouse/sign-in/pending-requests.ts';
import { createRecordStore } from '../../../src/gatehouse/sign-in-record/record-store.ts';
import { createUserStore } from '../../../src/gatehouse/users/user-store.ts';
import { createUserLifecycle } from '../../../src/gatehouse/users/users.ts';
import { AppError } from '../../../src/shared/errors.ts';
import type { Events } from '../../../src/shared/observability/events.ts';

import { keys } from '../../../src/shared/storage/keys.ts';

import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { CopyItem, Store } from '../../../src/shared/storage/store.ts';
import { unavailable } from '../../../src/shared/storage/unavailable.ts';
import { PLATFORM } from '../../support/apps.ts';
import { makeSealer } from '../../support/encryption-keys.ts';

const USER = { id: 'u-gone', issuer: 'https://idp.test', subject: 'gone', name: 'Gone', email: 'gone@example.test' };
const OTHER = { id: 'u-other', issuer: 'https://idp.test', subject: 'other', name: 'Other', email: 'o@example.test' };
const APPS = ['one', 'two'].map((id) => ({ ...PLATFORM, id, scopes: ['openid'] }));
const MINUTE = 60_000;

let directory: string;
let store: Store;
let now: number;
/** Counts down with each write. The write at 0 fails, either after it was made or before, and so do all later ones. */
let fault: { writesLeft: number; isMade: boolean } | undefined;
let erasedIds: string[];
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-erasure-'));
  now = Date.now();
  fault = undefined;
  erasedIds = [];
  store = await createSqliteStore({ directory, clock: () => now });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

const sealedJson = createSealedJson(makeSealer());

/** Work that is done once, right before a module executes this method for a deletion. */
interface Meanwhile {
  before: 'end' | 'endAll' | 'list' | 'remove' | 'endErasure';
  work: () => Promise<void>;
}

/** The modules of one process, on a store that fails as `fault` says. */
function createModules(meanwhile?: Meanwhile) {
  const clock = () => now;
  const failingStore: Store = {
    ...store,
    async write(...parameters) {
      if (!fault) return store.write(...parameters);
      fault.writesLeft -= 1;
      if (fault.writesLeft > 0) return store.write(...parameters);
      if (fault.writesLeft === 0 && fault.isMade) await store.write(...parameters);
      throw unavailable('The disk is gone.');
    },
  };
  const events = new Proxy(
    { userErased: ({ userId }: { userId: string }) => void erasedIds.push(userId) },
    { get: (target, name) => Reflect.get(target, name) ?? (() => undefined) },
  ) as Events;
  const findApp = (id: string) => APPS.find((app) => app.id === id);
  const index = createConnectionIndex({ store: failingStore, clock, findApp });
  const grants = createGrantStore({ store: failingStore, sealedJson, clock, connectionIndex: index });
  const revocations = createRevocations({
    store: failingStore,
    sealedJson,
    grants,
    findApp,
    events,
    clock,
    random: () => 0.5,
    provider: { revoke: async () => ({ outcome: 'revoked' }) },
  });
  const links = createConnectLinks({
    store: failingStore,
    sealedJson,
    publicHref: 'https://g',
    clock,
  });
  const connections = createConnections({
    grants,
    revocations,
    links,
    findApp,
    isRegistered: async () => true,
    checkSeconds: 0,
    events,
    clock,
  });
  const users = createUserStore({ store: failingStore, clock });
  const signIns = createRecordStore({ store: failingStore, clock });
  const sessions = {
    async endAll(id: string, isDue = async () => true) {
      const session = await store.get(`session-of:{${id}}`);
      if ((await isDue()) && session)
        await failingStore.write([{ delete: `session-of:{${id}}`, ifVersion: session.version }]);
    },
  };
  let isWorkDone = false;
  const withWorkBefore = <T extends object>(module: T): T =>
    new Proxy(module, {
      get(target, name) {
        const method = Reflect.get(target, name) as (...parameters: unknown[]) => unknown;
        if (name !== meanwhile?.before) return method;
        return async (...parameters: unknown[]) => {
          if (!isWorkDone) {
            isWorkDone = true;
            await meanwhile.work();
          }
          return method(...parameters);
        };
      },
    });
  const lifecycle = createUserLifecycle({
    store: failingStore,
    users: withWorkBefore(users),
    connections: withWorkBefore(connections),
    sessions: withWorkBefore(sessions),
    links,
    signIns,
    events,
    clock,
  });
  return { users, links, connections, signIns, revocations, lifecycle };
}

async function storeUser(user: typeof USER): Promise<void> {
  const { users, links, connections, signIns } = createModules();
  await users.noteSignIn(user);
  for (const app of APPS) {
    const response = { accessToken: `at-${app.id}`, refreshToken: `rt-${app.id}` };
    const writesOfUser = async () => {
      const condition = await users.conditionFor(user.id, now + 1);
      return condition ? { writes: [condition] } : 'gone';
    };
    const consent = { userId: user.id, app, response, scopes: ['openid'], account: { subject: user.subject } };
    expect(await connections.connect({ ...consent, writesOfUser } as never)).toBe('connected');
  }
  await store.write([{ put: `session-of:{${user.id}}`, value: user.id }]);
  const reference = user === OTHER ? 'AAAA1111' : 'BBBB2222';
  const attempt = { app: 'one', purpose: 'sign_in' as const, startedAt: now, steps: [], facts: {} };
  await store.write(signIns.beginWrites({ ...attempt, userId: user.id, reference, state: reference }));
  const link = { userId: user.id, app: 'one', scopes: [], returnUrl: undefined, relayToken: { id: 't', name: 't' } };
  await links.create(link, async () => []);
}

/**
 * Every item of the store that names the user, by its key or index; without the lists of connections, which may lag.
 */
async function storedItemsOf({ id, name, email, subject }: typeof USER): Promise<string[]> {
  const found: string[] = [];
  const namesUser = (item: CopyItem) =>
    [id, name, email, subject].some((text) => JSON.stringify(item).toLowerCase().includes(text.toLowerCase()));
  for await (const items of store.dump()) {
    for (const item of items.filter(namesUser)) {
      if ('record' in item) found.push(item.record);
      else found.push('index' in item ? item.index : '');
    }
  }
  return found.filter((key) => !key.startsWith('connections:')).sort();
}

const TOMBSTONE = keys.erasedUser(USER.id);

/** Deletes the user as the administration does. Returns the error, if there is one. */
async function eraseUser(): Promise<unknown> {
  const { lifecycle } = createModules();
  try {
    await lifecycle.beginErasure(USER.id);
    await lifecycle.erase(USER.id, {});
    return undefined;
  } catch (error) {
    return error;
  }
}

/** Runs the scheduled tasks two minutes later, with a storage that works. */
async function finishLater(): Promise<void> {
  fault = undefined;
  now += 2 * MINUTE;
  const { revocations, lifecycle } = createModules();
  await lifecycle.finishErasures();
  await revocations.retryDue();
}

test('R117 a deletion that another process finished deletes no new data, and is recorded once', async () => {
  await storeUser(USER);
  const { lifecycle, users, connections } = createModules();
  await lifecycle.beginErasure(USER.id);
  await lifecycle.erase(USER.id, {});
  now += 1;
  await storeUser(USER);
  await lifecycle.erase(USER.id, {});
  expect([(await users.find(USER.id))?.name, erasedIds]).toEqual([USER.name, [USER.id]]);
  const remainingConnections = await connections.list(USER.id);
  expect(remainingConnections.length).toBe(APPS.length);
  for (const { id = '' } of remainingConnections) expect(await connections.findById(id)).toBeDefined();
});

test.each(['endAll', 'list', 'end', 'remove', 'endErasure'] as const)(
  'R117 a deletion that is slow before %s deletes nothing of a user who signed in again meanwhile',
  async (before) => {
    await storeUser(USER);
    let writtenItems: string[] = [];
    const work = async () => {
      const other = createModules();
      await other.lifecycle.beginErasure(USER.id);
      await other.lifecycle.erase(USER.id, {});
      now += 1;
      await storeUser(USER);
      writtenItems = await storedItemsOf(USER);
    };
    const slow = createModules({ before, work });
    await slow.lifecycle.beginErasure(USER.id);
    await slow.lifecycle.erase(USER.id, {});
    expect((await storedItemsOf(USER)).filter((key) => key !== keys.erasures)).toEqual(
      writtenItems.filter((key) => key !== keys.erasures),
    );
    const { items } = await store.page(keys.users, { limit: 10 });
    expect(items.map(({ member }) => member)).toEqual([USER.id]);
  },
);

test.each(['endAll', 'end', 'remove', 'endErasure'] as const)(
  'R117 a deletion that is slow before %s keeps the mark of a later deletion',
  async (before) => {
    await storeUser(USER);
    const later = createModules();
    const work = async () => {
      const other = createModules();
      await other.lifecycle.beginErasure(USER.id);
      await other.lifecycle.erase(USER.id, {});
      now += 1;
      await storeUser(USER);
      now += 1;
      await later.lifecycle.beginErasure(USER.id);
    };
    const slow = createModules({ before, work });
    await slow.lifecycle.beginErasure(USER.id);
    await slow.lifecycle.erase(USER.id, {});
    expect((await later.users.find(USER.id))?.erasingAt).toBe(now);
    expect((await later.lifecycle.erase(USER.id, {})).length).toBe(APPS.length);
    expect([await storedItemsOf(USER), await later.users.erasures(now)]).toEqual([[TOMBSTONE], []]);
  },
);

test('R117 a deletion leaves no record of a sign-in that began meanwhile', async () => {
  await storeUser(USER);
  const begin = async (reference: string) => {
    const about = { app: 'one', purpose: 'sign_in' as const, startedAt: now, steps: [], facts: {} };
    const { id: userId, email } = USER;
    await store.write(createModules().signIns.beginWrites({ ...about, userId, email, reference, state: reference }));
  };
  const { lifecycle } = createModules({ before: 'remove', work: () => begin('CCCC3333') });
  await lifecycle.beginErasure(USER.id);
  await lifecycle.erase(USER.id, {});
  expect(await storedItemsOf(USER)).toEqual([TOMBSTONE]);
});

test.each<[string, (lifecycle: ReturnType<typeof createModules>['lifecycle']) => Promise<unknown>]>([
  ['disabled and enabled', (lifecycle) => lifecycle.disable(USER.id).then(() => lifecycle.enable(USER.id))],
  [
    'deleted, and is back',
    async (lifecycle) => {
      await lifecycle.beginErasure(USER.id);
      await lifecycle.erase(USER.id, {});
      now += 1;
      await storeUser(USER);
    },
  ],
])('R114 a link that is being created is not stored once its user was %s', async (_words, change) => {
  await storeUser(USER);
  const { lifecycle, users, links } = createModules();
  const startedAt = now;
  now += 1;
  let isFirst = true;
  const conditionsOfUser = async () => {
    const conditions = await users.conditionsForImport(USER.id, startedAt);
    if (isFirst) await change(lifecycle);
    isFirst = false;
    return conditions;
  };
  const wanted = { userId: USER.id, app: 'one', scopes: [], returnUrl: undefined, relayToken: { id: 't', name: 't' } };
  expect(await links.create(wanted, conditionsOfUser)).toBeUndefined();
});

test('R117 a deletion ends the sessions first, so that a kill leaves none of them', async () => {
  await storeUser(USER);
  const killed = async () => Promise.reject(new Error('killed'));
  const { lifecycle } = createModules({ before: 'list', work: killed });
  await lifecycle.beginErasure(USER.id);
  await expect(lifecycle.erase(USER.id, {})).rejects.toThrow('killed');
  expect(await store.get(`session-of:{${USER.id}}`)).toBeUndefined();
});

test.each([1, 2, 3, 4, 5])('R56 after a failure at write %i, no disabled user has a session', async (writesLeft) => {
  await storeUser(USER);
  fault = { writesLeft, isMade: false };
  await createModules()
    .lifecycle.disable(USER.id)
    .catch(() => undefined);
  const isDisabled = (await createModules().users.find(USER.id))?.disabledAt !== undefined;
  const hasSession = (await store.get(`session-of:{${USER.id}}`)) !== undefined;
  expect(isDisabled && hasSession).toBe(false);
});

test('R117 a deletion that was killed before its audit entry is recorded, even if the user signed in again', async () => {
  await storeUser(USER);
  const { lifecycle, users } = createModules({
    before: 'endErasure',
    work: async () => Promise.reject(new Error('killed')),
  });
  now += 1;
  await lifecycle.beginErasure(USER.id);
  await lifecycle.erase(USER.id, {});
  now += 1;
  await storeUser(USER);
  erasedIds = [];
  await finishLater();
  expect([erasedIds, await users.erasures(now)]).toEqual([[USER.id], []]);
  expect((await users.find(USER.id))?.name).toBe(USER.name);
});

test('R117 a request that began before a user was disabled stores nothing once the user is enabled again', async () => {
  await storeUser(USER);
  const { lifecycle, users } = createModules();
  const requestTime = now;
  now += 1;
  await lifecycle.disable(USER.id);
  await lifecycle.enable(USER.id);
  expect(await users.conditionFor(USER.id, requestTime)).toBeUndefined();
  expect(await users.signInWrites(USER, requestTime)).toBe('gone');
  expect(await users.conditionFor(USER.id, now + 1)).toBeDefined();
});

test('R117 a request that began before a deletion stores nothing for the user who signed in again since', async () => {
  await storeUser(USER);
  const { lifecycle, users } = createModules();
  const requestTime = now;
  now += 1;
  await users.beginErasure(USER.id);
  await lifecycle.erase(USER.id, {});
  now += 1;
  const timeOfReturn = now;
  expect(await users.noteSignIn(USER)).toBe('noted');
  expect([await users.signInWrites(USER, requestTime), await users.conditionsForImport(USER.id, requestTime)]).toEqual([
    'gone',
    undefined,
  ]);
  expect(await users.signInWrites(USER, timeOfReturn)).toMatchObject({ writes: expect.any(Array) });
  expect(await users.conditionsForImport(USER.id, timeOfReturn)).toBeDefined();
});

test('R117 the second of two concurrent first sign-ins succeeds', async () => {
  const { users } = createModules();
  const requestTime = now;
  now += 1;
  expect(await users.noteSignIn(USER)).toBe('noted');
  expect(await users.signInWrites(USER, requestTime)).toMatchObject({ writes: expect.any(Array) });
});

describe('R117 a deletion that the storage interrupts', () => {
  test('leaves a record that outlives every sign-in in progress', async () => {
    await storeUser(USER);
    expect((await storedItemsOf(USER)).length).toBeGreaterThan(10);
    const startedAt = now;
    expect(await eraseUser()).toBeUndefined();
    expect([await storedItemsOf(USER), erasedIds]).toEqual([[TOMBSTONE], [USER.id]]);
    // The sign-in is pending for the longest time, and then delayed by a slow provider.
    now += PENDING_REQUEST_SECONDS * 1_000 + 2 * MINUTE;
    expect(await createModules().users.signInWrites(USER, startedAt)).toBe('gone');
    now += 5 * MINUTE;
    expect(await storedItemsOf(USER)).toEqual([]);
  });

  test.each([false, true])(
    'says what is not deleted yet, and the task finishes it after a stop at any write (made before the error: %s)',
    async (isMade) => {
      await storeUser(OTHER);
      const others = await storedItemsOf(OTHER);
      const details: string[] = [];
      for (let at = 1, isDone = false; !isDone; at += 1) {
        erasedIds = [];
        await storeUser(USER);
        fault = { writesLeft: at, isMade };
        const error = await eraseUser();
        isDone = error === undefined;
        if (!isDone) {
          if (!(error instanceof AppError)) throw error;
          expect([error.status, error.retryAfterSeconds], `write ${at}`).toEqual([503, 1]);
          if (error.detail !== undefined && error.detail !== details.at(-1)) details.push(error.detail);
        }
        // The deletion is never announced before it is finished.
        const announced = [...erasedIds];
        const left = await storedItemsOf(USER);
        if (announced.length > 0) expect(left.filter((key) => ![TOMBSTONE, keys.erasures].includes(key))).toEqual([]);
        const { users } = createModules();
        const hasBegun = (await users.find(USER.id))?.erasingAt !== undefined || !(await users.find(USER.id));
        await finishLater();
        if (hasBegun) {
          expect(await storedItemsOf(USER), `write ${at}`).toEqual([TOMBSTONE]);
          expect(erasedIds, `write ${at}`).toContain(USER.id);
        } else {
          // The caller got an error before anything was deleted, and the user is unchanged.
          expect(await users.conditionFor(USER.id, now), `write ${at}`).toBeDefined();
          expect([await users.erasures(now), erasedIds]).toEqual([[], []]);
        }
        now += 16 * MINUTE;
      }
      const NAME = 'name and e-mail address';
      expect(details).toEqual(
        [
          `sessions, connections, sign-in records, connect links, ${NAME}`,
          `2 connections, sign-in records, connect links, ${NAME}`,
          `1 connection, sign-in records, connect links, ${NAME}`,
          `sign-in records, connect links, ${NAME}`,
          `connect links, ${NAME}`,
          NAME,
        ].map(
          (left) =>
            `The deletion has begun, but the storage did not respond. Not deleted yet: ${left}. Gatehouse finishes the deletion within two minutes after the storage responds again.`,
        ),
      );
      // The links of the other user expire meanwhile.
      const isLasting = (key: string) => !key.startsWith('connect-');
      expect((await storedItemsOf(OTHER)).filter(isLasting)).toEqual(others.filter(isLasting));
    },
  );

  test('does not delete a user who has signed in again since', async () => {
    await storeUser(USER);
    fault = { writesLeft: 1_000, isMade: false };
    expect(await eraseUser()).toBeUndefined();
    const needed = 1_000 - fault.writesLeft;
    fault = undefined;
    now += 16 * MINUTE;
    await storeUser(USER);
    // The last write removes the user from the list of deletions.
    fault = { writesLeft: needed, isMade: false };
    expect([await eraseUser(), await createModules().users.erasures(now)]).toMatchObject([
      undefined,
      [{ id: USER.id }],
    ]);
    fault = undefined;
    now += MINUTE / 2;
    await storeUser(USER);
    const before = await storedItemsOf(USER);
    await finishLater();
    expect(await storedItemsOf(USER)).toEqual(before.filter((key) => key !== keys.erasures));
  });

  test('of a disabled user leaves only the record that the user is disabled', async () => {
    // From about the write that deletes the name on.
    for (let at = 14, error: unknown = true; error; at += 1) {
      await storeUser(USER);
      await createModules().lifecycle.disable(USER.id);
      fault = { writesLeft: at, isMade: true };
      error = await eraseUser();
      await finishLater();
      const user = await createModules().users.find(USER.id);
      expect([user?.disabledAt !== undefined, user?.erasingAt], `write ${at}`).toEqual([true, undefined]);
      expect([user?.name, erasedIds.includes(USER.id)], `write ${at}`).toEqual([undefined, true]);
      await createModules().lifecycle.enable(USER.id);
      erasedIds = [];
    }
  });
});
