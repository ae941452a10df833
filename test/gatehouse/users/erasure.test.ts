/** The deletion of a user, interrupted by the storage, by a kill, or by another process that deletes the same user. */
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
/**
 * `writesUntilFailure` counts down with each write. The write at 0 and all later ones fail. `isStored`: the write at 0
 * is stored although it fails.
 */
let fault: { writesUntilFailure: number; isStored: boolean } | undefined;
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

/** Work that is done once, right before a deletion calls this method. */
interface WorkBetween {
  before: 'end' | 'endAll' | 'list' | 'remove' | 'endErasure';
  work: () => Promise<void>;
}

/** The modules of one process, on a store that fails as `fault` says. */
function createModules(workBetween?: WorkBetween) {
  const clock = () => now;
  const failingStore: Store = {
    ...store,
    async write(...parameters) {
      if (!fault) return store.write(...parameters);
      fault.writesUntilFailure -= 1;
      if (fault.writesUntilFailure > 0) return store.write(...parameters);
      if (fault.writesUntilFailure === 0 && fault.isStored) await store.write(...parameters);
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
  const withWorkBetween = <T extends object>(module: T): T =>
    new Proxy(module, {
      get(target, name) {
        const method = Reflect.get(target, name) as (...parameters: unknown[]) => unknown;
        if (name !== workBetween?.before) return method;
        return async (...parameters: unknown[]) => {
          if (!isWorkDone) {
            isWorkDone = true;
            await workBetween.work();
          }
          return method(...parameters);
        };
      },
    });
  const lifecycle = createUserLifecycle({
    store: failingStore,
    users: withWorkBetween(users),
    connections: withWorkBetween(connections),
    sessions: withWorkBetween(sessions),
    links,
    signIns,
    events,
    clock,
  });
  return { users, links, connections, signIns, revocations, lifecycle };
}

/** Stores a user with two connections, a session, a sign-in record and a connect link. */
async function storeUser(user: typeof USER): Promise<void> {
  const { users, links, connections, signIns } = createModules();
  await users.noteSignIn(user);
  for (const app of APPS) {
    const response = { accessToken: `at-${app.id}`, refreshToken: `rt-${app.id}` };
    const writesOfUser = async () => {
      const condition = await users.conditionFor(user.id, now + 1);
      return condition ? { writes: [condition] } : 'gone';
    };
    const account = { subject: user.subject };
    const connection = { userId: user.id, app, response, scopes: ['openid'], account, writesOfUser };
    expect(await connections.connect(connection as never)).toBe('connected');
  }

  await store.write([{ put: `session-of:{${user.id}}`, value: user.id }]);
  const reference = user === OTHER ? 'AAAA1111' : 'BBBB2222';
  const attempt = { app: 'one', purpose: 'sign_in' as const, startedAt: now, steps: [], facts: {} };
  await store.write(signIns.beginWrites({ ...attempt, userId: user.id, reference, state: reference }));

  const link = { userId: user.id, app: 'one', scopes: [], returnUrl: undefined, relayToken: { id: 't', name: 't' } };
  await links.create(link, async () => []);
}

/** Reads the keys of all items of the store that name the user, without the lists of connections, which may lag. */
async function readKeysOf({ id, name, email, subject }: typeof USER): Promise<string[]> {
  const keysOfUser: string[] = [];
  const namesUser = (item: CopyItem) =>
    [id, name, email, subject].some((text) => JSON.stringify(item).toLowerCase().includes(text.toLowerCase()));
  for await (const items of store.dump()) {
    for (const item of items.filter(namesUser)) {
      if ('record' in item) keysOfUser.push(item.record);
      else keysOfUser.push('index' in item ? item.index : '');
    }
  }
  return keysOfUser.filter((key) => !key.startsWith('connections:')).sort();
}

type Modules = ReturnType<typeof createModules>;

const TOMBSTONE = keys.erasedUser(USER.id);

/** Deletes the user as the administration does. */
async function erase({ lifecycle }: Modules): Promise<void> {
  await lifecycle.beginErasure(USER.id);
  await lifecycle.erase(USER.id, {});
}

/** Deletes the user. @returns the error, if there is one */
async function tryErasure(): Promise<unknown> {
  try {
    await erase(createModules());
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
  const modules = createModules();
  const { lifecycle, users, connections } = modules;
  await erase(modules);
  now += 1;
  await storeUser(USER);

  await lifecycle.erase(USER.id, {});
  expect([(await users.find(USER.id))?.name, erasedIds]).toEqual([USER.name, [USER.id]]);
  const remainingConnections = await connections.list(USER.id);
  expect(remainingConnections.length).toBe(APPS.length);
  for (const { id = '' } of remainingConnections) expect(await connections.findById(id)).toBeDefined();
});

test.each(['endAll', 'list', 'end', 'remove', 'endErasure'] as const)(
  'R117 a deletion that is slow before %s deletes nothing of a user who has signed in since another one',
  async (before) => {
    await storeUser(USER);
    let keysOfNewUser: string[] = [];
    const work = async () => {
      await erase(createModules());
      now += 1;
      await storeUser(USER);
      keysOfNewUser = await readKeysOf(USER);
    };
    await erase(createModules({ before, work }));

    const remainingKeys = await readKeysOf(USER);
    const isOfUser = (key: string) => key !== keys.erasures;
    expect(remainingKeys.filter(isOfUser)).toEqual(keysOfNewUser.filter(isOfUser));
    const { items } = await store.page(keys.users, { limit: 10 });
    expect(items.map(({ member }) => member)).toEqual([USER.id]);
  },
);

test.each(['endAll', 'end', 'remove', 'endErasure'] as const)(
  'R117 a deletion that is slow before %s keeps the mark of a later deletion',
  async (before) => {
    await storeUser(USER);
    const laterProcess = createModules();
    const work = async () => {
      await erase(createModules());
      now += 1;
      await storeUser(USER);
      now += 1;
      await laterProcess.lifecycle.beginErasure(USER.id);
    };
    await erase(createModules({ before, work }));

    expect((await laterProcess.users.find(USER.id))?.erasingAt).toBe(now);
    expect((await laterProcess.lifecycle.erase(USER.id, {})).length).toBe(APPS.length);
    expect([await readKeysOf(USER), await laterProcess.users.erasures(now)]).toEqual([[TOMBSTONE], []]);
  },
);

test('R117 a deletion leaves no record of a sign-in that begins while it runs', async () => {
  await storeUser(USER);
  const beginSignIn = async (reference: string) => {
    const start = { app: 'one', purpose: 'sign_in' as const, startedAt: now, steps: [], facts: {} };
    const { id: userId, email } = USER;
    await store.write(createModules().signIns.beginWrites({ ...start, userId, email, reference, state: reference }));
  };

  await erase(createModules({ before: 'remove', work: () => beginSignIn('CCCC3333') }));
  expect(await readKeysOf(USER)).toEqual([TOMBSTONE]);
});

test.each<[string, (modules: Modules) => Promise<unknown>]>([
  [
    'disabled and enabled',
    async ({ lifecycle }) => {
      await lifecycle.disable(USER.id);
      await lifecycle.enable(USER.id);
    },
  ],
  [
    'deleted and stored again',
    async (modules) => {
      await erase(modules);
      now += 1;
      await storeUser(USER);
    },
  ],
])('R114 a link that is being created is not stored once its user was %s', async (_change, changeUser) => {
  await storeUser(USER);
  const modules = createModules();
  const startedAt = now;
  now += 1;
  let isChanged = false;
  const conditionsOfUser = async () => {
    const conditions = await modules.users.conditionsForImport(USER.id, startedAt);
    if (!isChanged) await changeUser(modules);
    isChanged = true;
    return conditions;
  };

  const link = { userId: USER.id, app: 'one', scopes: [], returnUrl: undefined, relayToken: { id: 't', name: 't' } };
  expect(await modules.links.create(link, conditionsOfUser)).toBeUndefined();
});

test('R117 a deletion ends the sessions first, so that a kill leaves none of them', async () => {
  await storeUser(USER);
  const kill = async () => Promise.reject(new Error('killed'));
  const { lifecycle } = createModules({ before: 'list', work: kill });
  await lifecycle.beginErasure(USER.id);

  await expect(lifecycle.erase(USER.id, {})).rejects.toThrow('killed');
  expect(await store.get(`session-of:{${USER.id}}`)).toBeUndefined();
});

test.each([1, 2, 3, 4, 5])('R56 after a failure at write %i, no disabled user has a session', async (failingWrite) => {
  await storeUser(USER);
  fault = { writesUntilFailure: failingWrite, isStored: false };
  await createModules()
    .lifecycle.disable(USER.id)
    .catch(() => undefined);

  const isDisabled = (await createModules().users.find(USER.id))?.disabledAt !== undefined;
  const hasSession = (await store.get(`session-of:{${USER.id}}`)) !== undefined;
  expect(isDisabled && hasSession).toBe(false);
});

test('R117 a deletion that was killed before its audit entry is recorded, even if the user signed in again', async () => {
  await storeUser(USER);
  const kill = async () => Promise.reject(new Error('killed'));
  const modules = createModules({ before: 'endErasure', work: kill });
  now += 1;
  await erase(modules);
  now += 1;
  await storeUser(USER);
  erasedIds = [];

  await finishLater();
  expect([erasedIds, await modules.users.erasures(now)]).toEqual([[USER.id], []]);
  expect((await modules.users.find(USER.id))?.name).toBe(USER.name);
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

  expect(await users.signInWrites(USER, requestTime)).toBe('gone');
  expect(await users.conditionsForImport(USER.id, requestTime)).toBeUndefined();
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
    expect((await readKeysOf(USER)).length).toBeGreaterThan(10);
    const startedAt = now;
    expect(await tryErasure()).toBeUndefined();
    expect([await readKeysOf(USER), erasedIds]).toEqual([[TOMBSTONE], [USER.id]]);

    // The sign-in is pending for as long as possible, and then delayed by a slow provider.
    now += PENDING_REQUEST_SECONDS * 1_000 + 2 * MINUTE;
    expect(await createModules().users.signInWrites(USER, startedAt)).toBe('gone');
    now += 5 * MINUTE;
    expect(await readKeysOf(USER)).toEqual([]);
  });

  test.each([false, true])(
    'says what is not deleted yet, and is finished by a scheduled task, whichever write fails (that write is stored: %s)',
    async (isStored) => {
      await storeUser(OTHER);
      const keysOfOther = await readKeysOf(OTHER);
      const details: string[] = [];
      let isDone = false;
      for (let failingWrite = 1; !isDone; failingWrite += 1) {
        erasedIds = [];
        await storeUser(USER);
        fault = { writesUntilFailure: failingWrite, isStored };
        const error = await tryErasure();
        isDone = error === undefined;
        if (!isDone) {
          if (!(error instanceof AppError)) throw error;
          expect([error.status, error.retryAfterSeconds], `write ${failingWrite}`).toEqual([503, 1]);
          if (error.detail !== undefined && error.detail !== details.at(-1)) details.push(error.detail);
        }

        // The event of the deletion comes only once everything is deleted.
        const hasEvent = erasedIds.length > 0;
        const remainingKeys = await readKeysOf(USER);
        const isOfDeletion = (key: string) => key === TOMBSTONE || key === keys.erasures;
        if (hasEvent) expect(remainingKeys.filter((key) => !isOfDeletion(key))).toEqual([]);

        const { users } = createModules();
        const user = await users.find(USER.id);
        const hasBegun = !user || user.erasingAt !== undefined;
        await finishLater();
        if (hasBegun) {
          expect(await readKeysOf(USER), `write ${failingWrite}`).toEqual([TOMBSTONE]);
          expect(erasedIds, `write ${failingWrite}`).toContain(USER.id);
        } else {
          // The deletion failed before it began, so the user is unchanged.
          expect(await users.conditionFor(USER.id, now), `write ${failingWrite}`).toBeDefined();
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
          (notDeleted) =>
            `The deletion has begun, but the storage did not respond. Not deleted yet: ${notDeleted}. Gatehouse finishes the deletion within two minutes after the storage responds again.`,
        ),
      );

      // The connect link of the other user has expired.
      const isOfLink = (key: string) => key.startsWith('connect-');
      const remainingKeysOfOther = await readKeysOf(OTHER);
      expect(remainingKeysOfOther.filter((key) => !isOfLink(key))).toEqual(keysOfOther.filter((key) => !isOfLink(key)));
    },
  );

  test('deletes nothing of a user who has signed in since', async () => {
    await storeUser(USER);
    fault = { writesUntilFailure: 1_000, isStored: false };
    expect(await tryErasure()).toBeUndefined();
    const writesOfDeletion = 1_000 - fault.writesUntilFailure;
    fault = undefined;
    now += 16 * MINUTE;
    await storeUser(USER);
    // The last write removes the user from the list of deletions.
    fault = { writesUntilFailure: writesOfDeletion, isStored: false };
    expect(await tryErasure()).toBeUndefined();
    expect(await createModules().users.erasures(now)).toMatchObject([{ id: USER.id }]);
    fault = undefined;
    now += MINUTE / 2;
    await storeUser(USER);
    const keysBefore = await readKeysOf(USER);

    await finishLater();
    expect(await readKeysOf(USER)).toEqual(keysBefore.filter((key) => key !== keys.erasures));
  });

  test('of a disabled user leaves only the record that the user is disabled', async () => {
    // At about the 14th write the name is deleted.
    let error: unknown = new Error('not tried yet');
    for (let failingWrite = 14; error; failingWrite += 1) {
      await storeUser(USER);
      await createModules().lifecycle.disable(USER.id);
      fault = { writesUntilFailure: failingWrite, isStored: true };
      error = await tryErasure();
      await finishLater();

      const user = await createModules().users.find(USER.id);
      expect([user?.disabledAt !== undefined, user?.erasingAt], `write ${failingWrite}`).toEqual([true, undefined]);
      expect([user?.name, erasedIds.includes(USER.id)], `write ${failingWrite}`).toEqual([undefined, true]);

      await createModules().lifecycle.enable(USER.id);
      erasedIds = [];
    }
  });
});
