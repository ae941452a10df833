/** The lists of grants: open refreshes, removals, and a list per state. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import {
  type ConnectionIndex,
  createConnectionIndex,
  memberOf,
} from '../../../src/gatehouse/grants/connection-index.ts';
import type { Grant } from '../../../src/gatehouse/grants/grant.ts';
import { createGrantStore, type GrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { generateEncryptionKey, parseEncryptionKeys } from '../../../src/shared/storage/key-ring.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createSealer } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson, type SealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { PLATFORM } from '../../support/apps.ts';

const NOW = 1_800_000_000_000;
const HOUR = 3_600_000;

let directory: string;
let store: Store;
let now: number;
let sealedJson: SealedJson;
let index: ConnectionIndex;
let grants: GrantStore;
beforeEach(async () => {
  now = NOW;
  const clock = () => now;
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-lists-'));
  store = await createSqliteStore({ directory, clock, random: Math.random });
  const parsed = parseEncryptionKeys(generateEncryptionKey(new Date()));
  if ('faults' in parsed) throw new Error(parsed.faults.join());
  sealedJson = createSealedJson(createSealer(parsed.keys));
  index = createConnectionIndex({ store, clock });
  grants = createGrantStore({ store, sealedJson, clock, connectionIndex: index });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

async function storeGrant(userId: string, changes: Partial<Grant> = {}): Promise<void> {
  const replacedGrant = await grants.loadStored(userId, changes.appId ?? 'platform');
  const version = replacedGrant?.version ?? 0;
  const grant: Grant = {
    id: `c of ${userId}`,
    userId,
    appId: PLATFORM.id,
    registration: registrationOf(PLATFORM),
    accessToken: `at of ${userId}`,
    refreshToken: `rt of ${userId}`,
    scopes: ['openid'],
    account: {},
    obtainedAt: now,
    expiresAt: now + HOUR,
    connectedAt: now,
    consentedAt: now,
    failure: undefined,
    refresh: undefined,
    ...changes,
  };
  expect(await grants.save(grant, version)).toBeDefined();
}

const failure = (kind: 'passing' | 'unverified' | 'reconnect_needed') =>
  ({ failure: { kind, cause: 'grant_refused', since: now, failures: 1, retryAt: now } }) as const;
const usersOf = async (state?: Parameters<ConnectionIndex['page']>[0]['state']) =>
  (await index.page({ limit: 9, ...(state && { state }) })).items.map(({ userId }) => userId);

test('a refresh is listed from its start to its end', async () => {
  await grants.addUnfinishedRefresh('u1', 'platform');
  await grants.addUnfinishedRefresh('u"2', 'platform');

  expect(await grants.listUnfinishedRefreshes()).toEqual([
    { userId: 'u1', appId: 'platform' },
    { userId: 'u"2', appId: 'platform' },
  ]);

  await grants.removeUnfinishedRefresh('u1', 'platform');
  expect(await grants.listUnfinishedRefreshes()).toEqual([{ userId: 'u"2', appId: 'platform' }]);
});

test('a page of one app and state has its connections, even behind a page of others', async () => {
  await storeGrant('wanted', { appId: 'other', ...failure('unverified') });
  for (const number of [1, 2, 3]) {
    now += 1;
    await storeGrant(`u${number}`, failure('unverified'));
  }

  const page = await index.page({ limit: 2, appId: 'other', state: 'unverified' });
  expect(page).toEqual({ items: [{ userId: 'wanted', appId: 'other' }] });
});

test('a removed grant is not read from the cache, even after another one has replaced it', async () => {
  await storeGrant('u1');
  const removedGrant = await grants.loadStored('u1', 'platform');

  expect(await grants.remove('u1', 'platform', removedGrant?.version ?? 0)).toBe(true);
  expect(await grants.loadStored('u1', 'platform')).toBeUndefined();

  await storeGrant('u1', { accessToken: 'another' });
  expect(await grants.loadStored('u1', 'platform')).toMatchObject({ grant: { accessToken: 'another' } });
});

test('the oldest connections of an app are listed up to a number and a time', async () => {
  for (const number of [0, 1, 2]) {
    now = NOW + number;
    await storeGrant(`u${number}`);
  }
  await storeGrant('u9', { appId: 'other', connectedAt: NOW });
  const oldestUsers = async (limit: number, until: number) =>
    (await index.oldest('platform', limit, until)).map(({ userId }) => userId);

  expect(await oldestUsers(9, NOW + 1)).toEqual(['u0', 'u1']);
  expect(await oldestUsers(1, NOW + 1)).toEqual(['u0']);
  expect(await oldestUsers(9, NOW - 1)).toEqual([]);
  expect(await index.oldest('other', 9, NOW)).toEqual([{ userId: 'u9', appId: 'other' }]);
});

test('a page lists the connections of one user, of one app, of given apps, or all', async () => {
  await storeGrant('u1', { connectedAt: NOW });
  await storeGrant('u1', { appId: 'files', connectedAt: NOW + 1 });
  await storeGrant('u2', { connectedAt: NOW + 2 });
  const pageItems = async (request: Partial<Parameters<ConnectionIndex['page']>[0]>) =>
    (await index.page({ limit: 9, ...request })).items.map(({ userId, appId }) => `${userId} ${appId}`);

  expect(await pageItems({})).toEqual(['u2 platform', 'u1 files', 'u1 platform']);
  expect(await pageItems({ appId: 'platform' })).toEqual(['u2 platform', 'u1 platform']);
  expect((await pageItems({ userId: 'u1' })).toSorted()).toEqual(['u1 files', 'u1 platform']);
  expect(await pageItems({ userId: 'u1', appId: 'files' })).toEqual(['u1 files']);
  expect(await pageItems({ apps: ['files'] })).toEqual(['u1 files']);
  expect(await pageItems({ userId: 'u1', apps: ['platform'] })).toEqual(['u1 platform']);
  expect(await pageItems({ apps: [] })).toEqual([]);

  const first = await index.page({ limit: 1 });
  expect(await pageItems({ limit: 1, after: first.next })).toEqual(['u1 files']);
  expect([await index.count(), await index.count('files'), await index.total({})]).toEqual([3, 1, 3]);
});

test('a list that lags behind the grants is corrected: removed connections leave it, renewed ones stay', async () => {
  await storeGrant('gone', { refreshToken: undefined });
  await storeGrant('renewed', { refreshToken: undefined });
  await storeGrant('later', { refreshToken: undefined, expiresAt: NOW + 2 * HOUR });
  // Like a process that is killed between the write of a grant and that of the lists.
  const grantsWithoutIndex = createGrantStore({ store, sealedJson, clock: () => now });
  const { version = 0 } = (await grantsWithoutIndex.loadStored('gone', 'platform')) ?? {};
  await grantsWithoutIndex.remove('gone', 'platform', version);
  const storedGrant = await grantsWithoutIndex.loadStored('renewed', 'platform');
  if (!storedGrant || 'unreadable' in storedGrant) throw new Error('There is no grant.');
  await grantsWithoutIndex.save({ ...storedGrant.grant, refreshToken: 'rt' }, storedGrant.version);
  now += HOUR;
  await index.updateExpired(grantsWithoutIndex.loadStored);

  expect((await usersOf('unrenewable')).toSorted()).toEqual(['later', 'renewed']);
  expect([await usersOf('reconnect_needed'), await index.count()]).toEqual([[], 2]);
});

test('a connection that lacks scopes is listed as lacking them, whether they were announced or declined', async () => {
  await storeGrant('announced', { announcedScopes: ['files'] });
  await storeGrant('declined', { declinedScopes: ['files'] });
  await storeGrant('neither', { announcedScopes: [], declinedScopes: [] });

  expect((await usersOf('lacking')).toSorted()).toEqual(['announced', 'declined']);
});

describe('the list of each state', () => {
  test('has a connection from its first write on', async () => {
    await storeGrant('renewable');
    await storeGrant('lasting', { refreshToken: undefined, expiresAt: undefined });
    await storeGrant('ending', { refreshToken: undefined });
    await storeGrant('passing', { ...failure('passing'), expiresAt: undefined });
    await storeGrant('unverified', failure('unverified'));
    await storeGrant('broken', failure('reconnect_needed'));

    expect((await usersOf('active')).sort()).toEqual(['lasting', 'passing', 'renewable']);
    expect(await usersOf('unrenewable')).toEqual(['ending']);
    expect(await usersOf('unverified')).toEqual(['unverified']);
    expect(await usersOf('reconnect_needed')).toEqual(['broken']);
    expect(await usersOf()).toHaveLength(6);
    expect(await index.count()).toBe(6);
  });

  test('loses a connection when its state changes, and when the grant is removed', async () => {
    await storeGrant('u1');
    await storeGrant('u1', failure('unverified'));
    expect([await usersOf('active'), await usersOf('unverified')]).toEqual([[], ['u1']]);

    await storeGrant('u1');
    expect([await usersOf('active'), await usersOf('unverified')]).toEqual([['u1'], []]);

    const { version = 0 } = (await grants.loadStored('u1', 'platform')) ?? {};
    await grants.remove('u1', 'platform', version);
    expect([await usersOf('active'), await usersOf(), await index.count('platform')]).toEqual([[], [], 0]);
  });

  test('loses a connection that changes its state, even if another process added it to the list', async () => {
    const indexOfOtherProcess = createConnectionIndex({ store, clock: () => now });
    const grantsOfOtherProcess = createGrantStore({
      store,
      sealedJson,
      clock: () => now,
      connectionIndex: indexOfOtherProcess,
    });
    const changeGrant = async (writer: GrantStore, changes: Partial<Grant>) => {
      const storedGrant = await writer.loadStored('u1', 'platform');
      if (!storedGrant || 'unreadable' in storedGrant) throw new Error('There is no grant.');
      expect(await writer.save({ ...storedGrant.grant, ...changes }, storedGrant.version)).toBeDefined();
    };
    await storeGrant('u1');
    await changeGrant(grantsOfOtherProcess, failure('reconnect_needed'));

    expect(await usersOf('reconnect_needed')).toEqual(['u1']);

    await changeGrant(grants, { failure: undefined });
    expect([await usersOf('reconnect_needed'), await usersOf('active')]).toEqual([[], ['u1']]);

    await changeGrant(grants, { announcedScopes: ['files'] });
    await changeGrant(grantsOfOtherProcess, { announcedScopes: undefined });

    expect(await usersOf('lacking')).toEqual([]);

    await changeGrant(grants, { announcedScopes: ['mail'] });
    expect(await usersOf('lacking')).toEqual(['u1']);
  });

  test('counts a connection whose refresh failed as unverified once its access token expires or is refused', async () => {
    await storeGrant('u1', failure('passing'));
    expect(await index.countByHealth()).toMatchObject({ active: 1, unverified: 0 });
    expect([await usersOf('unverified'), await index.total({ state: 'unverified' })]).toEqual([[], 0]);

    now += HOUR - 1;
    expect(await index.countByHealth()).toMatchObject({ active: 1, unverified: 0 });

    now += 1;
    expect(await index.countByHealth()).toMatchObject({ active: 0, unverified: 1 });
    expect([await usersOf('unverified'), await index.total({ state: 'unverified' })]).toEqual([['u1'], 1]);
    expect([await index.total({ appId: 'platform' }), await index.total({ appId: 'none' })]).toEqual([1, 0]);
    expect(await index.total({ appId: 'platform', state: 'unverified' })).toBeUndefined();

    await storeGrant('u2', { failure: { ...failure('passing').failure, tokenRefused: true } });
    await storeGrant('u3', { ...failure('passing'), expiresAt: now - 9 });
    await storeGrant('u4', failure('passing'));

    expect(await index.countByHealth()).toEqual({ active: 1, expiring: 0, unverified: 3, reconnect_needed: 0 });

    await storeGrant('u1');
    expect(await index.countByHealth()).toMatchObject({ active: 2, unverified: 2 });
  });

  test('counts a connection without a refresh token as expiring shortly before its end, then as to be reconnected', async () => {
    await storeGrant('renewable');
    await storeGrant('ending', { refreshToken: undefined });
    await storeGrant('lasting', { refreshToken: undefined, expiresAt: undefined });

    expect(await index.countByHealth()).toEqual({ active: 3, expiring: 0, unverified: 0, reconnect_needed: 0 });

    now += HOUR - 1_000;
    expect(await index.countByHealth()).toMatchObject({ active: 2, expiring: 1, reconnect_needed: 0 });

    now += 2_000;
    expect(await index.countByHealth()).toMatchObject({ active: 2, expiring: 0, reconnect_needed: 1 });

    await index.updateExpired(grants.loadStored);
    expect([await usersOf('unrenewable'), await usersOf('reconnect_needed')]).toEqual([[], ['ending']]);
  });
});

test('a page of one app ends early among thousands of connections of others, and the next page continues', async () => {
  const indexEntry = (app: string, score: number) => ({
    index: keys.connections('state', 'unverified'),
    add: memberOf({ userId: `u${score}`, appId: app }),
    score,
  });
  const entriesOfOthers = Array.from({ length: 12_000 }, (_, number) => indexEntry('other', number + 1));
  await store.write([indexEntry('wanted', 0), ...entriesOfOthers]);

  const firstPage = await index.page({ limit: 50, state: 'unverified', appId: 'wanted' });
  expect(firstPage).toEqual({ items: [], next: expect.any(String) });

  const secondPage = await index.page({ limit: 50, state: 'unverified', appId: 'wanted', after: firstPage.next });
  expect(secondPage).toEqual({ items: [{ userId: 'u0', appId: 'wanted' }] });
});
