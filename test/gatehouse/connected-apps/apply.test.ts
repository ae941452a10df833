/** Applies a file of apps to the registered ones: the plan with every fault, and the single write. */
import { describe, expect, test } from 'vitest';
import type { RegisteredApp } from '../../../src/gatehouse/connected-apps/app-registry.ts';
import { applyApps, type PlannedApp, planApps } from '../../../src/gatehouse/connected-apps/apply.ts';
import type { AddressRule } from '../../../src/shared/outbound/address-policy.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';

const appOf = (id: string, changes: object = {}) =>
  ({
    ...{ id, name: `App ${id}`, issuer: `https://${id}.test`, clientId: 'c1', clientSecret: 's1' },
    ...{ tokenEndpointAuthMethod: 'client_secret_basic', scopes: ['openid'], signIn: { allow: 'everyone' } },
    ...changes,
  }) as unknown as ConnectedApp;

/** @param there the registered apps. @param more `inFile`: ids of `CONNECTED_APPS_FILE` */
function plan(
  wanted: ConnectedApp[],
  there: ConnectedApp[] = [],
  more: { inFile?: string[]; unreadable?: string[]; connections?: number } = {},
) {
  const { inFile = [], unreadable = [], connections = 0 } = more;
  const registered = (app: ConnectedApp | undefined) => app && ({ app, version: 7 } as RegisteredApp);
  return planApps(
    {
      registry: {
        find: async (id) => registered(there.find((app) => app.id === id)),
        isFromFile: (id) => inFile.includes(id),
        isUnreadable: async (id) => unreadable.includes(id),
      },
      apps: there,
      examine: async (url): Promise<AddressRule | undefined> =>
        url.includes('10.0.0.1') ? 'private_address' : undefined,
      countSetAside: async () => connections,
    },
    wanted,
  );
}
const actions = async (...given: Parameters<typeof plan>) =>
  (await plan(...given)).apps.map(({ app, action, changed }) => [app.id, action, changed]);

describe('a plan', () => {
  test('creates what is new, changes what differs, and leaves the rest', async () => {
    const there = [appOf('same'), appOf('named'), appOf('keyed'), appOf('unmentioned')];
    const wanted = [
      appOf('new'),
      appOf('same'),
      appOf('named', { name: 'Renamed' }),
      appOf('keyed', { clientSecret: 's2' }),
    ];
    expect(await actions(wanted, there)).toEqual([
      ['new', 'create', []],
      ['same', 'leave', []],
      ['named', 'change', ['name']],
      ['keyed', 'change', ['clientSecret']],
    ]);
    expect((await plan(wanted, there)).faults).toEqual([]);
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
    const moved = appOf('a', { issuer: 'https://other.test' });
    expect((await plan([moved], [appOf('a')], { connections: 1 })).faults).toEqual([
      'a, /issuer: One user is connected with the current registration: disconnect all users first, or register another app.',
    ]);
    expect((await plan([moved], [appOf('a')])).faults).toEqual([]);
    expect((await plan([moved], [], { connections: 1 })).faults).toEqual([
      'a, /id: One user is connected with an earlier app of this id: end these connections first, or register the app with the same issuer, client ID and hosts as before.',
    ]);
  });

  test('R19 compares apps of one issuer as they will be after the change', async () => {
    const issuer = 'https://idp.test';
    const elsewhere = { issuer, discoveryUrl: 'https://idp.test/other' };
    const there = [appOf('a', { issuer }), appOf('c', { issuer })];
    expect((await plan([appOf('b', elsewhere)], there)).faults).toEqual([
      'b, /issuer: Users already sign in with this issuer through "a": set the same discoveryUrl and endpoints.jwks as there.',
    ]);
    const all = ['a', 'b', 'c'].map((id) => appOf(id, elsewhere));
    expect((await plan(all, there)).faults).toEqual([]);
    // An app of CONNECTED_APPS_FILE stays as it is.
    expect((await plan(all, there, { inFile: ['a'] })).faults).toHaveLength(3);
  });
});

test('creates and changes the apps in one write, and preserves unchanged secrets', async () => {
  const before = (app: ConnectedApp) => ({ app, version: 7 }) as RegisteredApp;
  const planned = (action: PlannedApp['action'], app: ConnectedApp, there?: ConnectedApp): PlannedApp => ({
    ...{ app, action, changed: [], before: there && before(there) },
  });
  type Wanted = Parameters<Parameters<typeof applyApps>[0]['registry']['putAll']>[0];
  const written: Wanted[] = [];
  const registry = {
    putAll: async (wanted: Wanted) => written.push(wanted) > 0,
    ...{ find: async () => undefined, replace: async () => undefined },
  };
  const apps = [
    planned('create', appOf('new')),
    planned('leave', appOf('same'), appOf('same')),
    planned('change', appOf('named', { name: 'Renamed' }), appOf('named')),
    planned('change', appOf('keyed', { clientSecret: 's2' }), appOf('keyed')),
    planned('change', appOf('open', { tokenEndpointAuthMethod: 'none', clientSecret: undefined }), appOf('open')),
  ];
  expect(await applyApps({ registry, countSetAside: async () => 0 }, apps)).toEqual([]);
  expect(written).toEqual([
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
  for (const { registration } of written.flat()) expect(registration).not.toHaveProperty('clientSecret');
});
