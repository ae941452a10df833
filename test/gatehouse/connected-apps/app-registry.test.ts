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
let openRegistries: AppRegistry[];
let registry: AppRegistry;
let apps: ReturnType<typeof createCurrentApps>;
beforeEach(async () => {
  now = NOW;
  sealer = makeSealer();
  openRegistries = [];
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-registry-'));
  store = await createSqliteStore({ directory });
  ({ registry, apps } = await openProcess([]));
});
afterEach(async () => {
  for (const registry of openRegistries) await registry.close();
  await store.close();
  rmSync(directory, { recursive: true });
});

/** Opens the registry and the apps in use, as each process of a deployment has them. */
async function openProcess(fileApps: ConnectedApp[], keySealer = sealer) {
  const apps = createCurrentApps(fileApps);
  const sealedJson = createSealedJson(keySealer);
  const registry = await createAppRegistry({ store, sealedJson, apps, clock: () => now });
  openRegistries.push(registry);
  return { registry, apps };
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
const appOfFile = (id: string) =>
  Object.freeze({ ...registrationOf(id, { name: 'Of the file' }), clientSecret: 'file' });
const idsOf = (list: readonly { id: string }[]) => list.map(({ id }) => id).toSorted();

/** @param extras the expiry of the secret and the management of the registration, if the app has them */
async function createApp(id: string, secret: string | undefined = 's1', extras?: object): Promise<RegisteredApp> {
  const app = await registry.create(registrationOf(id), secret, extras);
  if (!app) throw new Error(`${id} is taken.`);
  return app;
}

describe('a registered app', () => {
  test('is used at once, frozen, with its secret and the times of both', async () => {
    const { app, version, ...times } = await createApp('a');
    expect(app).toEqual({ ...registrationOf('a'), clientSecret: 's1' });
    expect(Object.isFrozen(app)).toBe(true);
    expect(times).toEqual({ createdAt: NOW, changedAt: NOW, secretSetAt: NOW });
    expect(apps.find('a')).toBe((await registry.find('a'))?.app);
    expect((await registry.create(registrationOf('b'), undefined))?.secretSetAt).toBeUndefined();
  });

  test('is not created if its id is taken', async () => {
    await createApp('a');
    expect(await registry.create(registrationOf('a', { name: 'Second' }), 's2')).toBeUndefined();
    expect(apps.find('a')?.name).toBe('App a');
    expect(await registry.list()).toHaveLength(1);
  });

  test('is used by every other process', async () => {
    const otherProcess = await openProcess([]);

    await createApp('a');
    await vi.waitFor(() => expect(otherProcess.apps.find('a')?.name).toBe('App a'), LONG_TIMEOUT);

    const registeredApp = await otherProcess.registry.find('a');
    await registry.remove('a', registeredApp?.version ?? 0);
    await vi.waitFor(() => expect(otherProcess.apps.find('a')).toBeUndefined(), LONG_TIMEOUT);
  });

  test('stays the same object if another app is changed', async () => {
    await createApp('a');
    const appInUse = apps.find('a');
    await createApp('b');
    expect(apps.find('a')).toBe(appInUse);
  });

  test('is replaced by an app of the file with the same id until the file no longer has it', async () => {
    await createApp('a', 's1', { secretExpiresAt: NOW + 5 });
    await createApp('b', 's1', { secretExpiresAt: NOW + 7 });
    await createApp('c');
    expect(registry.secretEnds()).toEqual([
      { app: 'a', endsAt: NOW + 5 },
      { app: 'b', endsAt: NOW + 7 },
    ]);
    registry.useFile([appOfFile('a'), appOfFile('f')]);
    expect([registry.isFromFile('a'), registry.isFromFile('b')]).toEqual([true, false]);
    expect([idsOf(apps.list()), apps.find('a')?.name]).toEqual([['a', 'b', 'c', 'f'], 'Of the file']);
    expect(registry.secretEnds()).toEqual([{ app: 'b', endsAt: NOW + 7 }]);
    registry.useFile([]);
    expect([idsOf(apps.list()), apps.find('a')?.name]).toEqual([['a', 'b', 'c'], 'App a']);
  });
});

describe('a change', () => {
  test('without a new secret preserves its times and the management of the registration', async () => {
    const createdApp = await createApp('a', 's1', { secretExpiresAt: NOW + 5, management: MANAGEMENT });
    now += 1_000;
    const changedApp = await registry.replace(createdApp, registrationOf('a', { name: 'Renamed' }), 'kept');
    expect(changedApp).toMatchObject({
      app: { name: 'Renamed', clientSecret: 's1' },
      createdAt: NOW,
      changedAt: NOW + 1_000,
      secretSetAt: NOW,
      secretExpiresAt: NOW + 5,
      management: MANAGEMENT,
    });
  });

  test('of the secret sets its time, and clears its expiry', async () => {
    const createdApp = await createApp('a', 's1', { secretExpiresAt: NOW + 5 });
    now += 1_000;
    const changedApp = await registry.replace(createdApp, registrationOf('a'), 's2');
    expect(changedApp).toMatchObject({ app: { clientSecret: 's2' }, secretSetAt: NOW + 1_000 });
    expect(changedApp?.secretExpiresAt).toBeUndefined();
  });

  test('can remove the secret', async () => {
    const changedApp = await registry.replace(await createApp('a'), registrationOf('a'), undefined);
    expect([changedApp?.app.clientSecret, changedApp?.secretSetAt]).toEqual([undefined, undefined]);
  });

  test.each([
    ['client ID', { clientId: 'c2' }],
    ['issuer', { issuer: 'https://other.test' }],
  ])('to another %s drops the management of the registration', async (_words, changes) => {
    const createdApp = await createApp('a', 's1', { management: MANAGEMENT });
    const changedApp = await registry.replace(createdApp, registrationOf('a', changes), 'kept');
    expect(changedApp?.management).toBeUndefined();
  });

  test('preserves fields of a newer version, and drops omitted fields', async () => {
    const registration = registrationOf('a', { ofNewerVersion: 1, threadPath: '/1' });
    const createdApp = await registry.create(registration, 's1');
    if (!createdApp) throw new Error('The id is taken.');

    const changedApp = await registry.replace(createdApp, registrationOf('a'), 'kept');

    expect(changedApp?.app).toEqual({ ...registrationOf('a'), clientSecret: 's1', ofNewerVersion: 1 });
  });

  test('of a version that was already replaced changes and removes nothing', async () => {
    const replacedVersion = await createApp('a');
    await registry.replace(replacedVersion, registrationOf('a', { name: 'First' }), 'kept');

    expect(await registry.replace(replacedVersion, registrationOf('a', { name: 'Late' }), 'kept')).toBeUndefined();
    expect(await registry.remove('a', replacedVersion.version)).toBe(false);
    expect(apps.find('a')?.name).toBe('First');

    const currentVersion = await registry.find('a');
    expect(await registry.remove('a', currentVersion?.version ?? 0)).toBe(true);
    expect([apps.find('a'), await registry.list()]).toEqual([undefined, []]);
  });
});

describe('several apps in one write', () => {
  test('are created and changed together', async () => {
    const createdApp = await createApp('a');
    now += 1_000;
    const writes = [
      { registration: registrationOf('a', { name: 'Renamed' }), secret: 'kept' as const, before: createdApp },
      { registration: registrationOf('b'), secret: 's2', before: undefined },
    ];
    expect(await registry.putAll(writes)).toBe(true);
    expect([apps.find('a'), apps.find('b')]).toMatchObject([
      { name: 'Renamed', clientSecret: 's1' },
      { name: 'App b', clientSecret: 's2' },
    ]);
    expect(await registry.find('b')).toMatchObject({ createdAt: NOW + 1_000, secretSetAt: NOW + 1_000 });
  });

  test('are not written if one of them has changed in the meantime', async () => {
    const replacedVersion = await createApp('a');
    await registry.replace(replacedVersion, registrationOf('a', { name: 'First' }), 'kept');
    const writes = [
      { registration: registrationOf('b'), secret: 's2', before: undefined },
      { registration: registrationOf('a', { name: 'Late' }), secret: 'kept' as const, before: replacedVersion },
    ];
    expect(await registry.putAll(writes)).toBe(false);
    expect([apps.find('a')?.name, apps.find('b')]).toEqual(['First', undefined]);
  });

  test('may be an empty list, which writes nothing', async () => {
    const storedVersion = async () => (await store.get(keys.connectedAppsChange))?.version;
    const versionBeforeWrite = await storedVersion();
    expect(await registry.putAll([])).toBe(true);
    expect(await storedVersion()).toBe(versionBeforeWrite);
  });
});

describe('an app whose key is lost', () => {
  test('is listed by its id, does not hide others, and is not used', async () => {
    await createApp('a');
    const processWithOtherKey = await openProcess([], makeSealer());
    await processWithOtherKey.registry.create(registrationOf('b'), 's1');
    expect(await processWithOtherKey.registry.list()).toEqual([
      { id: 'a', unreadable: true },
      expect.objectContaining({ app: expect.objectContaining({ id: 'b' }) }),
    ]);
    expect(idsOf(processWithOtherKey.apps.list())).toEqual(['b']);
    const { isUnreadable } = processWithOtherKey.registry;
    expect(await Promise.all(['a', 'b', 'none'].map(isUnreadable))).toEqual([true, false, false]);
  });

  test('can be removed as unreadable; an app that can be read cannot', async () => {
    await createApp('a');
    const processWithOtherKey = await openProcess([], makeSealer());
    await processWithOtherKey.registry.create(registrationOf('b'), 's1');
    const { removeUnreadable } = processWithOtherKey.registry;
    expect(await Promise.all(['b', 'none'].map(removeUnreadable))).toEqual([false, false]);
    expect(await removeUnreadable('a')).toBe(true);
    expect(await processWithOtherKey.registry.list()).toHaveLength(1);
  });
});

test('R117 an app counts as registered while its tokens may be sent to all of its current origins', async () => {
  const { app } = await createApp('one');
  expect(await registry.isRegistered(app)).toBe(true);
  expect(await registry.isRegistered({ ...app, clientId: 'c2' })).toBe(false);
  expect(await registry.isRegistered({ ...app, apiBaseUrl: 'https://api.test' })).toBe(true);
  expect(await registry.isRegistered({ ...app, id: 'two' })).toBe(false);

  const otherProcess = await openProcess([]);
  const registeredApp = await registry.find('one');
  await otherProcess.registry.remove('one', registeredApp?.version ?? 0);
  expect(await registry.isRegistered(app)).toBe(false);
});
