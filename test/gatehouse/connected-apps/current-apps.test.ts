import { describe, expect, test } from 'vitest';
import { parseConnectedApps } from '../../../src/gatehouse/connected-apps/app-file.ts';
import { createCurrentApps, threadUrlOf } from '../../../src/gatehouse/connected-apps/current-apps.ts';

function storeOf(...changes: Record<string, unknown>[]) {
  const entries = changes.map((changed) => ({
    name: 'App',
    issuer: 'https://idp.example.com',
    clientId: 'c',
    tokenEndpointAuthMethod: 'none',
    scopes: ['openid'],
    callbackUrls: ['https://gatehouse.example.com/cb'],
    ...changed,
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
  (end) => {
    const host = 'https://platform.example.com';
    const app = storeOf({ id: 'a', apiBaseUrl: host + end }).threadApp('a');
    const base = end.startsWith('/api') ? '/api' : '';
    expect(threadUrlOf(app)).toBe(`${host}${base}/1/threads/current`);
  },
);

describe('the app of a route', () => {
  test('can serve threads, sign users in, both or neither', () => {
    const store = storeOf(
      { id: 'a', ...THREADS },
      { id: 'b', ...SIGN_IN },
      { id: 'c', ...THREADS, ...SIGN_IN },
      { id: 'd' },
    );
    expect(ids(store.list())).toEqual(['a', 'b', 'c', 'd']);
    expect(ids(store.threadApps())).toEqual(['a', 'c']);
    expect(ids(store.signInApps())).toEqual(['b', 'c']);
    expect([store.find('d')?.id, store.find('e'), store.find('__proto__')]).toEqual(['d', undefined, undefined]);
  });

  test('apps for every user come first', () => {
    const some = { signIn: { allow: { claim: 'groups', values: ['staff'] } } };
    expect(ids(storeOf({ id: 'a', ...some }, { id: 'b' }, { id: 'c', ...SIGN_IN }).signInApps())).toEqual(['c', 'a']);
  });

  test('without an id is the app that the user signed in with', () => {
    const several = storeOf({ id: 'a', ...THREADS }, { id: 'b', ...THREADS, ...SIGN_IN }, { id: 'c', ...SIGN_IN });
    expect([several.threadApp(undefined, 'b').id, several.threadApp('a', 'b').id]).toEqual(['b', 'a']);
    expect(several.usualThreadApp('c')).toBeUndefined();
    const apps = storeOf({ id: 'a', ...THREADS }, { id: 'c', ...SIGN_IN });
    expect(apps.threadApp(undefined, 'c').id).toBe('a');
  });

  test('without an id and a sign-in must be the only one', () => {
    expect(storeOf({ id: 'a', ...THREADS }, { id: 'b' }).threadApp(undefined).id).toBe('a');
    const several = storeOf({ id: 'a', ...THREADS }, { id: 'b', ...THREADS });
    expect(several.threadApp('b').id).toBe('b');
    expect(() => several.threadApp(undefined)).toThrow(expect.objectContaining({ code: 'invalid_request' }));
    expect(() => storeOf({ id: 'a' }).threadApp(undefined)).toThrow(
      expect.objectContaining({ code: 'invalid_request' }),
    );
  });

  test('is not found if the named app serves no threads', () => {
    for (const id of ['b', 'nobody', '']) {
      const store = storeOf({ id: 'a', ...THREADS }, { id: 'b' });
      expect(() => store.threadApp(id)).toThrow(expect.objectContaining({ code: 'not_found' }));
    }
  });
});

describe('a change by an administrator', () => {
  test('applies to the next call; a disabled app can be found but not used', () => {
    const store = storeOf({ id: 'a', ...THREADS, ...SIGN_IN });
    const [app] = store.list();
    if (!app) throw new Error('There is no app.');
    store.replace([{ ...app, disabled: true }]);
    expect([ids(store.signInApps()), ids(store.threadApps()), store.find('a')?.disabled]).toEqual([[], [], true]);
    expect(() => store.threadApp('a')).toThrow('An administrator has disabled this connected app.');
    expect(() => store.threadApp(undefined)).toThrow('No connected app serves threads.');
    store.replace([]);
    expect([store.list(), store.find('a')]).toEqual([[], undefined]);
  });
});
