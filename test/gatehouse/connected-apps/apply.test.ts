/** Applies a file of apps to the registered ones: the plan with every fault, and the single write. */
import { describe, expect, test } from 'vitest';
import type { RegisteredApp } from '../../../src/gatehouse/connected-apps/app-registry.ts';
import { applyApps, type PlannedApp, planApps } from '../../../src/gatehouse/connected-apps/apply.ts';
import type { AddressRule } from '../../../src/shared/outbound/address-policy.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';

const appOf = (id: string, changes: object = {}) =>
  ({
    id,
    name: `App ${id}`,
    issuer: `https://${id}.test`,
    clientId: 'c1',
    clientSecret: 's1',
    tokenEndpointAuthMethod: 'client_secret_basic',
    scopes: ['openid'],
    signIn: { allow: 'everyone' },
    ...changes,
  }) as unknown as ConnectedApp;

const toRegistered = (app: ConnectedApp) => ({ app, version: 7 }) as RegisteredApp;

/** @param options `inFile` and `unreadable` are ids: of apps in `CONNECTED_APPS_FILE`, and of apps whose key is lost */
function plan(
  wantedApps: ConnectedApp[],
  registeredApps: ConnectedApp[] = [],
  options: { inFile?: string[]; unreadable?: string[]; connections?: number } = {},
) {
  const { inFile = [], unreadable = [], connections = 0 } = options;
  return planApps(
    {
      registry: {
        async find(id) {
          const found = registeredApps.find((app) => app.id === id);
          return found && toRegistered(found);
        },
        isFromFile: (id) => inFile.includes(id),
        isUnreadable: async (id) => unreadable.includes(id),
      },
      apps: registeredApps,
      examine: async (url): Promise<AddressRule | undefined> =>
        url.includes('10.0.0.1') ? 'private_address' : undefined,
      countSetAside: async () => connections,
    },
    wantedApps,
  );
}

describe('a plan', () => {
  test('creates new apps, changes those that differ, and leaves those that are the same', async () => {
    const registeredApps = [appOf('same'), appOf('named'), appOf('keyed'), appOf('unmentioned')];
    const wantedApps = [
      appOf('new'),
      appOf('same'),
      appOf('named', { name: 'Renamed' }),
      appOf('keyed', { clientSecret: 's2' }),
    ];

    const { apps, faults } = await plan(wantedApps, registeredApps);

    expect(apps.map(({ app, action, changed }) => [app.id, action, changed])).toEqual([
      ['new', 'create', []],
      ['same', 'leave', []],
      ['named', 'change', ['name']],
      ['keyed', 'change', ['clientSecret']],
    ]);
    expect(faults).toEqual([]);
  });

  test('drops a secret that the method does not use', async () => {
    const { apps } = await plan([appOf('a', { tokenEndpointAuthMethod: 'none' })]);
    expect(apps.map(({ app }) => app.clientSecret)).toEqual([undefined]);
  });

  test('refuses an app of CONNECTED_APPS_FILE, and one whose record cannot be opened', async () => {
    const { apps, faults } = await plan([appOf('a'), appOf('b'), appOf('c')], [], {
      inFile: ['a'],
      unreadable: ['b'],
    });
    expect(apps.map(({ app }) => app.id)).toEqual(['c']);
    expect(faults).toEqual([
      'a: it is in CONNECTED_APPS_FILE. Change it there.',
      'b: the stored app cannot be opened, because its key is lost. Delete it in the administration first.',
    ]);
  });

  test('R79 names an address that must not be called', async () => {
    const { faults } = await plan([appOf('a', { discoveryUrl: 'https://10.0.0.1/metadata' })]);
    expect(faults).toEqual([
      'a, /discoveryUrl: the address is private: add the host to INTERNAL_HOSTS if it may be called.',
    ]);
  });

  test('refuses a change of the provider while users are connected', async () => {
    const appOfOtherProvider = appOf('a', { issuer: 'https://other.test' });
    expect((await plan([appOfOtherProvider], [appOf('a')], { connections: 1 })).faults).toEqual([
      'a, /issuer: One user is connected with the current registration: disconnect all users first, or register another app.',
    ]);
    expect((await plan([appOfOtherProvider], [appOf('a')])).faults).toEqual([]);
    expect((await plan([appOfOtherProvider], [], { connections: 1 })).faults).toEqual([
      'a, /id: One user is connected with an earlier app of this id: end these connections first, or register the app with the same issuer, client ID and hosts as before.',
    ]);
  });

  test('R19 compares apps of one issuer as they will be after the change', async () => {
    const issuer = 'https://idp.test';
    const otherDiscovery = { issuer, discoveryUrl: 'https://idp.test/other' };
    const registeredApps = [appOf('a', { issuer }), appOf('c', { issuer })];
    expect((await plan([appOf('b', otherDiscovery)], registeredApps)).faults).toEqual([
      'b, /issuer: Users already sign in with this issuer through "a": set the same discoveryUrl and endpoints.jwks as there.',
    ]);

    const allWithOtherDiscovery = ['a', 'b', 'c'].map((id) => appOf(id, otherDiscovery));
    expect((await plan(allWithOtherDiscovery, registeredApps)).faults).toEqual([]);
    // An app of CONNECTED_APPS_FILE is not changed, so the others would still differ from it.
    expect((await plan(allWithOtherDiscovery, registeredApps, { inFile: ['a'] })).faults).toHaveLength(3);
  });
});

test('creates and changes the apps in one write, and preserves unchanged secrets', async () => {
  const plannedApp = (action: PlannedApp['action'], app: ConnectedApp, registeredApp?: ConnectedApp): PlannedApp => ({
    app,
    action,
    changed: [],
    before: registeredApp && toRegistered(registeredApp),
  });
  type AppWrites = Parameters<Parameters<typeof applyApps>[0]['registry']['putAll']>[0];
  const calls: AppWrites[] = [];
  const registry = {
    async putAll(writes: AppWrites) {
      calls.push(writes);
      return true;
    },
    find: async () => undefined,
    replace: async () => undefined,
  };
  const apps = [
    plannedApp('create', appOf('new')),
    plannedApp('leave', appOf('same'), appOf('same')),
    plannedApp('change', appOf('named', { name: 'Renamed' }), appOf('named')),
    plannedApp('change', appOf('keyed', { clientSecret: 's2' }), appOf('keyed')),
    plannedApp('change', appOf('open', { tokenEndpointAuthMethod: 'none', clientSecret: undefined }), appOf('open')),
  ];

  expect(await applyApps({ registry, countSetAside: async () => 0 }, apps)).toEqual([]);

  expect(calls).toEqual([
    [
      expect.objectContaining({
        registration: expect.objectContaining({ id: 'new' }),
        before: undefined,
        secret: 's1',
      }),
      expect.objectContaining({ registration: expect.objectContaining({ name: 'Renamed' }), secret: 'kept' }),
      expect.objectContaining({ registration: expect.objectContaining({ id: 'keyed' }), secret: 's2' }),
      expect.objectContaining({ registration: expect.objectContaining({ id: 'open' }), secret: undefined }),
    ],
  ]);
  for (const { registration } of calls.flat()) expect(registration).not.toHaveProperty('clientSecret');
});
