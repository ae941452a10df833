/** Registered apps in the storage: what a change preserves and refuses, and what each process uses. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  type AppRegistry,
  createAppRegistry,
  type RegisteredApp,
} from '../../../src/gatehouse/connected-apps/app-registry.ts';
import { createCurrentApps } from '../../../src/gatehouse/connected-apps/current-apps.ts';
import type { ConnectedApp, ConnectedAppRegistration } from '../../../src/shared/provider/connected-app.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { makeSealer } from '../../support/encryption-keys.ts';
import { LONG_TIMEOUT } from '../../support/until.ts';

const NOW = 1_800_000_000_000;
const MANAGEMENT = { url: 'https://idp.test/register/c1', token: 'rat-1' };

let directory: string;
let store: Store;
let now: number;
let sealer: ReturnType<typeof makeSealer>;
let opened: AppRegistry[];
let registry: AppRegistry;
let apps: ReturnType<typeof createCurrentApps>;
beforeEach(async () => {
  [now, sealer, opened] = [NOW, makeSealer(), []];
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-registry-'));
  store = await createSqliteStore({ directory });
  ({ registry, apps } = await open([]));
});
afterEach(async () => {
  for (const registry of opened) await registry.close();
  await store.close();
  rmSync(directory, { recursive: true });
});

/** The registry of another process. */
async function open(fromFile: ConnectedApp[], keySealer = sealer) {
  const current = createCurrentApps(fromFile);
  const registry = await createAppRegistry({
    store,
    sealedJson: createSealedJson(keySealer),
    apps: current,
    clock: () => now,
  });
  opened.push(registry);
  return { registry, apps: current };
}

const registrationOf = (id: string, changes: object = {}) =>
  ({
    id,
    name: `App ${id}`,
    issuer: 'https://idp.test',
    clientId: 'c1',
    scopes: [],
    ...changes,
  }) as unknown as ConnectedAppRegistration;
const fileApp = (id: string) => Object.freeze({ ...registrationOf(id, { name: 'Of the file' }), clientSecret: 'file' });
const idsOf = (list: readonly { id: string }[]) => list.map(({ id }) => id).toSorted();

async function created(id: string, secret: string | undefined = 's1', extras?: object): Promise<RegisteredApp> {
  const app = await registry.create(registrationOf(id), secret, extras);
  if (!app) throw new Error(`${id} is taken.`);
  return app;
}

describe('a registered app', () => {
  test('is used at once, frozen, with its secret and the times of both', async () => {
    const { app, version, ...times } = await created('a');
    expect(app).toEqual({ ...registrationOf('a'), clientSecret: 's1' });
    expect(Object.isFrozen(app)).toBe(true);
    expect(times).toEqual({ createdAt: NOW, changedAt: NOW, secretSetAt: NOW });
    expect(apps.find('a')).toBe((await registry.find('a'))?.app);
    expect((await registry.create(registrationOf('b'), undefined))?.secretSetAt).toBeUndefined();
  });

  test('is not created if its id is taken', async () => {
    await created('a');
    expect(await registry.create(registrationOf('a', { name: 'Second' }), 's2')).toBeUndefined();
    expect(apps.find('a')?.name).toBe('App a');
    expect(await registry.list()).toHaveLength(1);
  });

  test('is used by every other process', async () => {
    const other = await open([]);
    await created('a');
    await vi.waitFor(() => expect(other.apps.find('a')?.name).toBe('App a'), LONG_TIMEOUT);
    const before = await other.registry.find('a');
    await registry.remove('a', before?.version ?? 0);
    await vi.waitFor(() => expect(other.apps.find('a')).toBeUndefined(), LONG_TIMEOUT);
  });

  test('stays the same object if another app is changed', async () => {
    await created('a');
    const before = apps.find('a');
    await created('b');
    expect(apps.find('a')).toBe(before);
  });

  test('is replaced by an app of the file with the same id, and used again without it', async () => {
    await created('a', 's1', { secretExpiresAt: NOW + 5 });
    await created('b', 's1', { secretExpiresAt: NOW + 7 });
    await created('c');
    expect(registry.secretEnds()).toEqual([
      { app: 'a', endsAt: NOW + 5 },
      { app: 'b', endsAt: NOW + 7 },
    ]);
    registry.useFile([fileApp('a'), fileApp('f')]);
    expect([registry.isFromFile('a'), registry.isFromFile('b')]).toEqual([true, false]);
    expect([idsOf(apps.list()), apps.find('a')?.name]).toEqual([['a', 'b', 'c', 'f'], 'Of the file']);
    expect(registry.secretEnds()).toEqual([{ app: 'b', endsAt: NOW + 7 }]);
    registry.useFile([]);
    expect([idsOf(apps.list()), apps.find('a')?.name]).toEqual([['a', 'b', 'c'], 'App a']);
  });
});

describe('a change', () => {
  test('without a new secret preserves its times and the management of the registration', async () => {
    const before = await created('a', 's1', { secretExpiresAt: NOW + 5, management: MANAGEMENT });
    now += 1_000;
    expect(await registry.replace(before, registrationOf('a', { name: 'Renamed' }), 'kept')).toMatchObject({
      ...{ app: { name: 'Renamed', clientSecret: 's1' }, createdAt: NOW, changedAt: NOW + 1_000 },
      ...{ secretSetAt: NOW, secretExpiresAt: NOW + 5, management: MANAGEMENT },
    });
  });

  test('of the secret sets its time, and clears its expiry', async () => {
    const before = await created('a', 's1', { secretExpiresAt: NOW + 5 });
    now += 1_000;
    const after = await registry.replace(before, registrationOf('a'), 's2');
    expect(after).toMatchObject({ app: { clientSecret: 's2' }, secretSetAt: NOW + 1_000 });
    expect(after?.secretExpiresAt).toBeUndefined();
  });

  test('can remove the secret', async () => {
    const after = await registry.replace(await created('a'), registrationOf('a'), undefined);
    expect([after?.app.clientSecret, after?.secretSetAt]).toEqual([undefined, undefined]);
  });

  test.each([
    ['client ID', { clientId: 'c2' }],
    ['issuer', { issuer: 'https://other.test' }],
  ])('to another %s drops the management of the registration', async (_words, changes) => {
    const before = await created('a', 's1', { management: MANAGEMENT });
    expect((await registry.replace(before, registrationOf('a', changes), 'kept'))?.management).toBeUndefined();
  });

  test('preserves fields of a newer version, and drops omitted fields', async () => {
    const newer = registrationOf('a', { ofNewerVersion: 1, threadPath: '/1' });
    const before = await registry.create(newer, 's1');
    if (!before) throw new Error('The id is taken.');
    const { app } = (await registry.replace(before, registrationOf('a'), 'kept')) ?? {};
    expect(app).toEqual({ ...registrationOf('a'), clientSecret: 's1', ofNewerVersion: 1 });
  });

  test('of a version that was replaced or removed changes nothing', async () => {
    const before = await created('a');
    await registry.replace(before, registrationOf('a', { name: 'First' }), 'kept');
    expect(await registry.replace(before, registrationOf('a', { name: 'Late' }), 'kept')).toBeUndefined();
    expect(await registry.remove('a', before.version)).toBe(false);
    expect(apps.find('a')?.name).toBe('First');
    const after = await registry.find('a');
    expect(await registry.remove('a', after?.version ?? 0)).toBe(true);
    expect([apps.find('a'), await registry.list()]).toEqual([undefined, []]);
  });
});

describe('several apps in one write', () => {
  test('are created and changed together', async () => {
    const before = await created('a');
    now += 1_000;
    const wanted = [
      { registration: registrationOf('a', { name: 'Renamed' }), secret: 'kept' as const, before },
      { registration: registrationOf('b'), secret: 's2', before: undefined },
    ];
    expect(await registry.putAll(wanted)).toBe(true);
    expect([apps.find('a'), apps.find('b')]).toMatchObject([
      { name: 'Renamed', clientSecret: 's1' },
      { name: 'App b', clientSecret: 's2' },
    ]);
    expect(await registry.find('b')).toMatchObject({ createdAt: NOW + 1_000, secretSetAt: NOW + 1_000 });
  });

  test('are all unchanged if one was changed since', async () => {
    const before = await created('a');
    await registry.replace(before, registrationOf('a', { name: 'First' }), 'kept');
    const wanted = [
      { registration: registrationOf('b'), secret: 's2', before: undefined },
      { registration: registrationOf('a', { name: 'Late' }), secret: 'kept' as const, before },
    ];
    expect(await registry.putAll(wanted)).toBe(false);
    expect([apps.find('a')?.name, apps.find('b')]).toEqual(['First', undefined]);
  });

  test('may be an empty list', async () => {
    const before = (await store.get(keys.connectedAppsChange))?.version;
    expect(await registry.putAll([])).toBe(true);
    expect((await store.get(keys.connectedAppsChange))?.version).toBe(before);
  });
});

describe('an app whose key is lost', () => {
  test('is listed by its id, does not hide others, and is not used', async () => {
    await created('a');
    const other = await open([], makeSealer());
    await other.registry.create(registrationOf('b'), 's1');
    expect(await other.registry.list()).toEqual([
      { id: 'a', unreadable: true },
      expect.objectContaining({ app: expect.objectContaining({ id: 'b' }) }),
    ]);
    expect(idsOf(other.apps.list())).toEqual(['b']);
    expect(await Promise.all(['a', 'b', 'none'].map(other.registry.isUnreadable))).toEqual([true, false, false]);
  });

  test('can be removed as unreadable, unlike other apps', async () => {
    await created('a');
    const other = await open([], makeSealer());
    await other.registry.create(registrationOf('b'), 's1');
    expect(await Promise.all(['b', 'none'].map(other.registry.removeUnreadable))).toEqual([false, false]);
    expect(await other.registry.removeUnreadable('a')).toBe(true);
    expect(await other.registry.list()).toHaveLength(1);
  });
});

test('R117 an app counts as registered while its tokens may be sent to all of its current origins', async () => {
  const { app } = await created('one');
  expect(await registry.isRegistered(app)).toBe(true);
  expect(await registry.isRegistered({ ...app, clientId: 'c2' })).toBe(false);
  expect(await registry.isRegistered({ ...app, apiBaseUrl: 'https://api.test' })).toBe(true);
  expect(await registry.isRegistered({ ...app, id: 'two' })).toBe(false);
  await (await open([])).registry.remove('one', (await registry.find('one'))?.version ?? 0);
  expect(await registry.isRegistered(app)).toBe(false);
});
