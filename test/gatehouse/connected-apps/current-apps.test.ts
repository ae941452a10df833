import { describe, expect, test } from 'vitest';
import { parseConnectedApps } from '../../../src/gatehouse/connected-apps/app-file.ts';
import { createCurrentApps, threadUrlOf } from '../../../src/gatehouse/connected-apps/current-apps.ts';

/** The apps in use that have these settings. */
function appsWith(...settings: Record<string, unknown>[]) {
  const entries = settings.map((setting) => ({
    name: 'App',
    issuer: 'https://idp.example.com',
    clientId: 'c',
    tokenEndpointAuthMethod: 'none',
    scopes: ['openid'],
    callbackUrls: ['https://gatehouse.example.com/cb'],
    ...setting,
  }));
  const { apps, faults } = parseConnectedApps(JSON.stringify(entries), { env: {}, readFile: () => '' });
  expect(faults).toEqual([]);
  return createCurrentApps(apps);
}

const THREADS = { apiBaseUrl: 'https://platform.example.com' };
const SIGN_IN = { signIn: { allow: 'everyone' } };
const ids = (apps: readonly { id: string }[]) => apps.map(({ id }) => id);

test.each(['', '/', '//', '/api', '/api/', '/api//'])(
  'the thread URL is below the API base URL that ends with %j',
  (ending) => {
    const origin = 'https://platform.example.com';
    const app = appsWith({ id: 'a', apiBaseUrl: `${origin}${ending}` }).threadApp('a');
    const basePath = ending.startsWith('/api') ? '/api' : '';
    expect(threadUrlOf(app)).toBe(`${origin}${basePath}/1/threads/current`);
  },
);

test('the names of apps differ: those that several have are followed by the id', () => {
  const apps = appsWith({ id: 'a', name: 'Wiki' }, { id: 'b', name: 'Calendar' }, { id: 'c', name: 'Wiki' });
  expect(apps.named().map(({ name }) => name)).toEqual(['Wiki (a)', 'Calendar', 'Wiki (c)']);
  expect(['a', 'b', 'gone'].map(apps.nameOf)).toEqual(['Wiki (a)', 'Calendar', 'gone']);
});

describe('the app of a route', () => {
  test('can serve threads, sign users in, both or neither', () => {
    const apps = appsWith(
      { id: 'a', ...THREADS },
      { id: 'b', ...SIGN_IN },
      { id: 'c', ...THREADS, ...SIGN_IN },
      { id: 'd' },
    );
    expect(ids(apps.list())).toEqual(['a', 'b', 'c', 'd']);
    expect(ids(apps.threadApps())).toEqual(['a', 'c']);
    expect(ids(apps.signInApps())).toEqual(['b', 'c']);
    expect(apps.find('d')?.id).toBe('d');
    expect(apps.find('e')).toBeUndefined();
    expect(apps.find('__proto__')).toBeUndefined();
  });

  test('for sign-in comes first if every user may sign in with it', () => {
    const SIGN_IN_OF_STAFF = { signIn: { allow: { claim: 'groups', values: ['staff'] } } };
    const apps = appsWith({ id: 'a', ...SIGN_IN_OF_STAFF }, { id: 'b' }, { id: 'c', ...SIGN_IN });
    expect(ids(apps.signInApps())).toEqual(['c', 'a']);
  });

  test('without an id is the app that the user signed in with, or the only one', () => {
    const twoThreadApps = appsWith(
      { id: 'a', ...THREADS },
      { id: 'b', ...THREADS, ...SIGN_IN },
      { id: 'c', ...SIGN_IN },
    );
    expect(twoThreadApps.threadApp(undefined, 'b').id).toBe('b');
    expect(twoThreadApps.threadApp('a', 'b').id).toBe('a');
    expect(twoThreadApps.usualThreadApp('c')).toBeUndefined();

    const oneThreadApp = appsWith({ id: 'a', ...THREADS }, { id: 'c', ...SIGN_IN });
    expect(oneThreadApp.threadApp(undefined, 'c').id).toBe('a');
  });

  test('must be named if no user is signed in, unless it is the only one', () => {
    const invalidRequest = expect.objectContaining({ code: 'invalid_request' });

    const oneThreadApp = appsWith({ id: 'a', ...THREADS }, { id: 'b' });
    expect(oneThreadApp.threadApp(undefined).id).toBe('a');

    const twoThreadApps = appsWith({ id: 'a', ...THREADS }, { id: 'b', ...THREADS });
    expect(twoThreadApps.threadApp('b').id).toBe('b');
    expect(() => twoThreadApps.threadApp(undefined)).toThrow(invalidRequest);

    const noThreadApp = appsWith({ id: 'a' });
    expect(() => noThreadApp.threadApp(undefined)).toThrow(invalidRequest);
  });

  test('is not found if the named app serves no threads', () => {
    const apps = appsWith({ id: 'a', ...THREADS }, { id: 'b' });
    for (const id of ['b', 'nobody', '']) {
      expect(() => apps.threadApp(id)).toThrow(expect.objectContaining({ code: 'not_found' }));
    }
  });
});

describe('a change by an administrator', () => {
  test('applies to the next call; a disabled app can be found but not used', () => {
    const apps = appsWith({ id: 'a', ...THREADS, ...SIGN_IN });
    const [app] = apps.list();
    if (!app) throw new Error('There is no app.');

    apps.replace([{ ...app, disabled: true }]);
    expect(apps.signInApps()).toEqual([]);
    expect(apps.threadApps()).toEqual([]);
    expect(apps.find('a')?.disabled).toBe(true);
    expect(() => apps.threadApp('a')).toThrow('An administrator has disabled this connected app.');
    expect(() => apps.threadApp(undefined)).toThrow('No connected app serves threads.');

    apps.replace([]);
    expect(apps.list()).toEqual([]);
    expect(apps.find('a')).toBeUndefined();
  });
});
