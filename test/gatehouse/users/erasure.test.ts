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
import { generateEncryptionKey, parseEncryptionKeys } from '../../../src/shared/storage/key-ring.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createSealer } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { CopyItem, Store } from '../../../src/shared/storage/store.ts';
import { unavailable } from '../../../src/shared/storage/unavailable.ts';
import { PLATFORM } from '../../support/apps.ts';

const USER = { id: 'u-gone', issuer: 'https://idp.test', subject: 'gone', name: 'Gone', email: 'gone@example.test' };
const OTHER = { id: 'u-other', issuer: 'https://idp.test', subject: 'other', name: 'Other', email: 'o@example.test' };
const APPS = ['one', 'two'].map((id) => ({ ...PLATFORM, id, scopes: ['openid'] }));
const MINUTE = 60_000;

let directory: string;
let store: Store;
let now: number;
/** Counts down with each write. The write at 0 fails, either after it was made or before, and so do all later ones. */
let fault: { writesLeft: number; isMade: boolean } | undefined;
let erased: string[];
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-erasure-'));
  [now, fault, erased] = [Date.now(), undefined, []];
  store = await createSqliteStore({ directory, clock: () => now });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

const [sealingKey] = [generateEncryptionKey(new Date())].map(parseEncryptionKeys);
if (!sealingKey || 'faults' in sealingKey) throw new Error('There is no key.');
const sealedJson = createSealedJson(createSealer(sealingKey.keys));

/** Runs once before a module executes this method for a deletion. */
interface Meanwhile {
  before: 'end' | 'endAll' | 'list' | 'remove' | 'endErasure';
  work: () => Promise<void>;
}

/** The modules of one process, on a store that fails as `fault` says. */
function rooms(meanwhile?: Meanwhile) {
  const clock = () => now;
  const faulty: Store = {
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
    { userErased: ({ userId }: { userId: string }) => void erased.push(userId) },
    { get: (target, name) => Reflect.get(target, name) ?? (() => undefined) },
  ) as Events;
  const findApp = (id: string) => APPS.find((app) => app.id === id);
  const index = createConnectionIndex({ store: faulty, clock, findApp });
  const grants = createGrantStore({ store: faulty, sealedJson, clock, connectionIndex: index });
  const revocations = createRevocations({
    ...{ store: faulty, sealedJson, grants, findApp, events, clock, random: () => 0.5 },
    provider: { revoke: async () => ({ outcome: 'revoked' }) },
  });
  const links = createConnectLinks({
    store: faulty,
    sealedJson,
    publicHref: 'https://g',
    clock,
  });
  const connections = createConnections({
    ...{ grants, revocations, links, findApp, isRegistered: async () => true, checkSeconds: 0, events, clock },
  });
  const users = createUserStore({ store: faulty, clock });
  const signIns = createRecordStore({ store: faulty, clock });
  const sessions = {
    async endAll(id: string, isDue = async () => true) {
      const session = await store.get(`session-of:{${id}}`);
      if ((await isDue()) && session)
        await faulty.write([{ delete: `session-of:{${id}}`, ifVersion: session.version }]);
    },
  };
  let isHeld = false;
  const held = <T extends object>(room: T): T =>
    new Proxy(room, {
      get(target, name) {
        const method = Reflect.get(target, name) as (...parameters: unknown[]) => unknown;
        if (name !== meanwhile?.before) return method;
        return async (...parameters: unknown[]) => {
          if (!isHeld) {
            isHeld = true;
            await meanwhile.work();
          }
          return method(...parameters);
        };
      },
    });
  const lifecycle = createUserLifecycle({
    ...{ store: faulty, users: held(users), connections: held(connections), sessions: held(sessions) },
    ...{ links, signIns, events, clock },
  });
  return { users, links, connections, signIns, revocations, lifecycle };
}

async function makeUser(user: typeof USER): Promise<void> {
  const { users, links, connections, signIns } = rooms();
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
  const begun = { app: 'one', purpose: 'sign_in' as const, startedAt: now, steps: [], facts: {} };
  await store.write(signIns.beginWrites({ ...begun, userId: user.id, reference, state: reference }));
  const link = { userId: user.id, app: 'one', scopes: [], returnUrl: undefined, relayToken: { id: 't', name: 't' } };
  await links.create(link, async () => []);
}

/**
 * Every item of the store that names the user, by its key or index; without the lists of connections, which may lag.
 */
async function itemsOf({ id, name, email, subject }: typeof USER): Promise<string[]> {
  const found: string[] = [];
  const isOf = (item: CopyItem) =>
    [id, name, email, subject].some((text) => JSON.stringify(item).toLowerCase().includes(text.toLowerCase()));
  for await (const items of store.dump()) {
    for (const item of items.filter(isOf))
      found.push('record' in item ? item.record : 'index' in item ? item.index : '');
  }
  return found.filter((key) => !key.startsWith('connections:')).sort();
}

const TOMBSTONE = keys.erasedUser(USER.id);

/** Deletes the user like the administration. @returns the error, if any */
async function erase(): Promise<unknown> {
  const { lifecycle } = rooms();
  try {
    await lifecycle.beginErasure(USER.id);
    await lifecycle.erase(USER.id, {});
    return undefined;
  } catch (error) {
    return error;
  }
}

async function finishLater(): Promise<void> {
  fault = undefined;
  now += 2 * MINUTE;
  const { revocations, lifecycle } = rooms();
  await lifecycle.finishErasures();
  await revocations.retryDue();
}

test('R117 a deletion that another process finished deletes no new data, and is recorded once', async () => {
  await makeUser(USER);
  const { lifecycle, users, connections } = rooms();
  await lifecycle.beginErasure(USER.id);
  await lifecycle.erase(USER.id, {});
  now += 1;
  await makeUser(USER);
  await lifecycle.erase(USER.id, {});
  expect([(await users.find(USER.id))?.name, erased]).toEqual([USER.name, [USER.id]]);
  const remainingConnections = await connections.list(USER.id);
  expect(remainingConnections.length).toBe(APPS.length);
  for (const { id = '' } of remainingConnections) expect(await connections.findById(id)).toBeDefined();
});

test.each(['endAll', 'list', 'end', 'remove', 'endErasure'] as const)(
  'R117 a deletion that is slow before %s deletes nothing of a user who signed in again meanwhile',
  async (before) => {
    await makeUser(USER);
    let writtenItems: string[] = [];
    const work = async () => {
      const other = rooms();
      await other.lifecycle.beginErasure(USER.id);
      await other.lifecycle.erase(USER.id, {});
      now += 1;
      await makeUser(USER);
      writtenItems = await itemsOf(USER);
    };
    const slow = rooms({ before, work });
    await slow.lifecycle.beginErasure(USER.id);
    await slow.lifecycle.erase(USER.id, {});
    expect((await itemsOf(USER)).filter((key) => key !== keys.erasures)).toEqual(
      writtenItems.filter((key) => key !== keys.erasures),
    );
    const { items } = await store.page(keys.users, { limit: 10 });
    expect(items.map(({ member }) => member)).toEqual([USER.id]);
  },
);

test.each(['endAll', 'end', 'remove', 'endErasure'] as const)(
  'R117 a deletion that is slow before %s keeps the mark of a later deletion',
  async (before) => {
    await makeUser(USER);
    const later = rooms();
    const work = async () => {
      const other = rooms();
      await other.lifecycle.beginErasure(USER.id);
      await other.lifecycle.erase(USER.id, {});
      now += 1;
      await makeUser(USER);
      now += 1;
      await later.lifecycle.beginErasure(USER.id);
    };
    const slow = rooms({ before, work });
    await slow.lifecycle.beginErasure(USER.id);
    await slow.lifecycle.erase(USER.id, {});
    expect((await later.users.find(USER.id))?.erasingAt).toBe(now);
    expect((await later.lifecycle.erase(USER.id, {})).length).toBe(APPS.length);
    expect([await itemsOf(USER), await later.users.erasures(now)]).toEqual([[TOMBSTONE], []]);
  },
);

test('R117 a deletion leaves no record of a sign-in that ended meanwhile, and keeps that of a later one', async () => {
  await makeUser(USER);
  const begin = async (reference: string) => {
    const about = { app: 'one', purpose: 'sign_in' as const, startedAt: now, steps: [], facts: {} };
    const { id: userId, email } = USER;
    await store.write(rooms().signIns.beginWrites({ ...about, userId, email, reference, state: reference }));
  };
  const { lifecycle } = rooms({ before: 'remove', work: () => begin('CCCC3333') });
  await lifecycle.beginErasure(USER.id);
  await lifecycle.erase(USER.id, {});
  expect(await itemsOf(USER)).toEqual([TOMBSTONE]);
});

test.each<[string, (lifecycle: ReturnType<typeof rooms>['lifecycle']) => Promise<unknown>]>([
  ['disabled and enabled', (lifecycle) => lifecycle.disable(USER.id).then(() => lifecycle.enable(USER.id))],
  [
    'deleted, and is back',
    async (lifecycle) => {
      await lifecycle.beginErasure(USER.id);
      await lifecycle.erase(USER.id, {});
      now += 1;
      await makeUser(USER);
    },
  ],
])('R114 a link that is being created is not stored once its user was %s', async (_words, change) => {
  await makeUser(USER);
  const { lifecycle, users, links } = rooms();
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
  await makeUser(USER);
  const killed = async () => Promise.reject(new Error('killed'));
  const { lifecycle } = rooms({ before: 'list', work: killed });
  await lifecycle.beginErasure(USER.id);
  await expect(lifecycle.erase(USER.id, {})).rejects.toThrow('killed');
  expect(await store.get(`session-of:{${USER.id}}`)).toBeUndefined();
});

test.each([1, 2, 3, 4, 5])('R56 after a failure at write %i, no disabled user has a session', async (writesLeft) => {
  await makeUser(USER);
  fault = { writesLeft, isMade: false };
  await rooms()
    .lifecycle.disable(USER.id)
    .catch(() => undefined);
  const isDisabled = (await rooms().users.find(USER.id))?.disabledAt !== undefined;
  const hasSession = (await store.get(`session-of:{${USER.id}}`)) !== undefined;
  expect(isDisabled && hasSession).toBe(false);
});

test('R117 a deletion that was killed before its audit entry is recorded, even if the user signed in again', async () => {
  await makeUser(USER);
  const { lifecycle, users } = rooms({ before: 'endErasure', work: async () => Promise.reject(new Error('killed')) });
  now += 1;
  await lifecycle.beginErasure(USER.id);
  await lifecycle.erase(USER.id, {});
  now += 1;
  await makeUser(USER);
  erased = [];
  await finishLater();
  expect([erased, await users.erasures(now)]).toEqual([[USER.id], []]);
  expect((await users.find(USER.id))?.name).toBe(USER.name);
});

test('R117 a request that began before a user was disabled stores nothing once the user is enabled again', async () => {
  await makeUser(USER);
  const { lifecycle, users } = rooms();
  const begun = now;
  now += 1;
  await lifecycle.disable(USER.id);
  await lifecycle.enable(USER.id);
  expect(await users.conditionFor(USER.id, begun)).toBeUndefined();
  expect(await users.signInWrites(USER, begun)).toBe('gone');
  expect(await users.conditionFor(USER.id, now + 1)).toBeDefined();
});

test('R117 a request that began before a deletion stores nothing for the user who signed in again since', async () => {
  await makeUser(USER);
  const { lifecycle, users } = rooms();
  const begun = now;
  now += 1;
  await users.beginErasure(USER.id);
  await lifecycle.erase(USER.id, {});
  now += 1;
  const back = now;
  expect(await users.noteSignIn(USER)).toBe('noted');
  expect([await users.signInWrites(USER, begun), await users.conditionsForImport(USER.id, begun)]).toEqual([
    'gone',
    undefined,
  ]);
  expect(await users.signInWrites(USER, back)).toMatchObject({ writes: expect.any(Array) });
  expect(await users.conditionsForImport(USER.id, back)).toBeDefined();
});

test('R117 the second of two concurrent first sign-ins succeeds', async () => {
  const { users } = rooms();
  const begun = now;
  now += 1;
  expect(await users.noteSignIn(USER)).toBe('noted');
  expect(await users.signInWrites(USER, begun)).toMatchObject({ writes: expect.any(Array) });
});

describe('R117 a deletion that the storage interrupts', () => {
  test('leaves a record that outlives every sign-in in progress', async () => {
    await makeUser(USER);
    expect((await itemsOf(USER)).length).toBeGreaterThan(10);
    const startedAt = now;
    expect(await erase()).toBeUndefined();
    expect([await itemsOf(USER), erased]).toEqual([[TOMBSTONE], [USER.id]]);
    // The sign-in is pending for the longest time, and then delayed by a slow provider.
    now += PENDING_REQUEST_SECONDS * 1_000 + 2 * MINUTE;
    expect(await rooms().users.signInWrites(USER, startedAt)).toBe('gone');
    now += 5 * MINUTE;
    expect(await itemsOf(USER)).toEqual([]);
  });

  test.each([false, true])(
    'says what is not deleted yet, and the task finishes it after a stop at any write (made before the error: %s)',
    async (isMade) => {
      await makeUser(OTHER);
      const others = await itemsOf(OTHER);
      const details: string[] = [];
      for (let at = 1, isDone = false; !isDone; at += 1) {
        erased = [];
        await makeUser(USER);
        fault = { writesLeft: at, isMade };
        const error = await erase();
        isDone = error === undefined;
        if (!isDone) {
          if (!(error instanceof AppError)) throw error;
          expect([error.status, error.retryAfterSeconds], `write ${at}`).toEqual([503, 1]);
          if (error.detail !== undefined && error.detail !== details.at(-1)) details.push(error.detail);
        }
        // The deletion is never announced before it is finished.
        const announced = [...erased];
        const left = await itemsOf(USER);
        if (announced.length > 0) expect(left.filter((key) => ![TOMBSTONE, keys.erasures].includes(key))).toEqual([]);
        const { users } = rooms();
        const hasBegun = (await users.find(USER.id))?.erasingAt !== undefined || !(await users.find(USER.id));
        await finishLater();
        if (hasBegun) {
          expect(await itemsOf(USER), `write ${at}`).toEqual([TOMBSTONE]);
          expect(erased, `write ${at}`).toContain(USER.id);
        } else {
          // The caller got an error before anything was deleted, and the user is unchanged.
          expect(await users.conditionFor(USER.id, now), `write ${at}`).toBeDefined();
          expect([await users.erasures(now), erased]).toEqual([[], []]);
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
      expect((await itemsOf(OTHER)).filter(isLasting)).toEqual(others.filter(isLasting));
    },
  );

  test('does not delete a user who has signed in again since', async () => {
    await makeUser(USER);
    fault = { writesLeft: 1_000, isMade: false };
    expect(await erase()).toBeUndefined();
    const needed = 1_000 - fault.writesLeft;
    fault = undefined;
    now += 16 * MINUTE;
    await makeUser(USER);
    // The last write removes the user from the list of deletions.
    fault = { writesLeft: needed, isMade: false };
    expect([await erase(), await rooms().users.erasures(now)]).toMatchObject([undefined, [{ id: USER.id }]]);
    fault = undefined;
    now += MINUTE / 2;
    await makeUser(USER);
    const before = await itemsOf(USER);
    await finishLater();
    expect(await itemsOf(USER)).toEqual(before.filter((key) => key !== keys.erasures));
  });

  test('of a disabled user leaves only the record that the user is disabled', async () => {
    // From about the write that deletes the name on.
    for (let at = 14, error: unknown = true; error; at += 1) {
      await makeUser(USER);
      await rooms().lifecycle.disable(USER.id);
      fault = { writesLeft: at, isMade: true };
      error = await erase();
      await finishLater();
      const user = await rooms().users.find(USER.id);
      expect([user?.disabledAt !== undefined, user?.erasingAt], `write ${at}`).toEqual([true, undefined]);
      expect([user?.name, erased.includes(USER.id)], `write ${at}`).toEqual([undefined, true]);
      await rooms().lifecycle.enable(USER.id);
      erased = [];
    }
  });
});
