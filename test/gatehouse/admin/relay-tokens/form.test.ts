/** The forms of a relay token: refusals, saved values, and the example call of a new token. */
import { describe, expect, test } from 'vitest';
import { inputOf, newTokenForm, tokenForm, valuesOfToken } from '../../../../src/gatehouse/admin/relay-tokens/form.ts';
import { callsOf } from '../../../../src/gatehouse/admin/relay-tokens/idle-scopes.ts';
import type { RelayToken } from '../../../../src/gatehouse/relay/relay-token.ts';

const ENTERED = {
  ...{ name: 'reports', scopes: ['threads:read'], apps: ['crm'], users: 'none', listed: '', networks: '' },
  ...{ expiry: '90', expiresOn: '', confirmed: '' },
  ...{ assertUser: '', fullScope: '', acceptIdTokens: '', binCallsPerMonth: '', routes: [] },
};
const faultsOf = (form: typeof newTokenForm | typeof tokenForm, entered: object) =>
  form.safeParse(entered).error?.issues.map(({ path, message }) => `${path.join('/')}: ${message}`) ?? [];

/** What the form showed. */
const BASE = '1 name=abcdef';

const NO_APP = 'apps: Choose a connected app. Without one, these scopes allow nothing.';
const NO_USERS = 'users: Choose users. Without any, these scopes allow nothing.';
const DATE = 'expiresOn: Enter a date such as 2027-01-31.';
const CHOICE = 'expiry: Choose when the token expires.';
const CALLS = 'binCallsPerMonth: Enter a whole number of calls from 0 to 999999999, or nothing.';

test.each<[string, object, string[]]>([
  ['valid values', {}, []],
  ['no name', { name: ' ' }, ['name: Enter a name.']],
  ['a name of 100 characters', { name: 'x'.repeat(100) }, []],
  ['a longer name', { name: 'x'.repeat(101) }, ['name: Enter a name of at most 100 characters.']],
  ['no app', { apps: [] }, [NO_APP]],
  ['no app, for BIN lookups', { apps: [], scopes: ['bin:read'] }, []],
  ['no app, for BIN lookups and more', { apps: [], scopes: ['threads:read', 'bin:read'] }, []],
  ['no user, for the state of connections', { scopes: ['connections:read'] }, [NO_USERS]],
  ['no user, for BIN lookups', { scopes: ['connections:read', 'bin:read'] }, []],
  ['all users', { users: 'all', scopes: ['connections:read'] }, []],
  ['no choice of users', { users: '' }, ['users: Choose for which users.']],
  [
    'no listed users, although "listed" is chosen',
    { users: 'listed' },
    ['listed: Enter the users, or choose “All users” or “No users”.'],
  ],
  ['listed users', { users: 'listed', listed: 'a@example.test\nu1' }, []],
  [
    'listed users, but others chosen',
    { users: 'all', listed: 'u1' },
    ['listed: Choose “Chosen users”, or empty this list.'],
  ],
  ['a date', { expiry: 'date', expiresOn: '2027-01-31' }, []],
  ['another number of days', { expiry: '7' }, [CHOICE]],
  ['no date', { expiry: 'date' }, [DATE]],
  ['an impossible date', { expiry: 'date', expiresOn: '2027-02-30' }, [DATE]],
  ['a date in another form', { expiry: 'date', expiresOn: '31.1.2027' }, [DATE]],
  ['no date and no name', { expiry: 'date', name: '' }, ['name: Enter a name.', DATE]],
  ['no BIN calls', { binCallsPerMonth: '0' }, []],
  ['many BIN calls', { binCallsPerMonth: '999999999' }, []],
  ['too many BIN calls', { binCallsPerMonth: '1000000000' }, [CALLS]],
  ['a negative number of BIN calls', { binCallsPerMonth: '-1' }, [CALLS]],
])('a new token with %s', (_name, changes, faults) => {
  expect(faultsOf(newTokenForm, { ...ENTERED, ...changes })).toEqual(faults);
});

test.each<[string, object, string[]]>([
  ['with the expiry as before', { expiry: 'keep' }, []],
  ['with another expiry', { expiry: '30' }, []],
  ['with no date', { expiry: 'date', expiresOn: 'x' }, [DATE]],
  ['without apps and users, since they may have been deleted', { apps: [], scopes: ['connections:read'] }, []],
  [
    'without listed users, although "listed" is chosen',
    { users: 'listed' },
    ['listed: Enter the users, or choose “All users” or “No users”.'],
  ],
])('a changed token %s', (_name, changes, faults) => {
  expect(faultsOf(tokenForm, { ...ENTERED, base: BASE, ...changes })).toEqual(faults);
});

test('days count from now, and the expiry can stay', () => {
  const { base: _, ...entered } = tokenForm.parse({ ...ENTERED, base: BASE, expiry: 'keep' });
  const options = { now: 1_000, verb: 'Save', current: 5_000 };
  expect(inputOf(entered, options)).toMatchObject({ users: 'none', expiresAt: 5_000, binCallsPerMonth: null });
  expect(inputOf({ ...entered, expiry: '30' }, options).expiresAt).toBe(1_000 + 30 * 86_400_000);
  expect(inputOf({ ...entered, users: 'listed', listed: ['u1'] }, options).users).toEqual(['u1']);
  expect(inputOf({ ...entered, users: 'all', listed: ['u1'] }, options).users).toBe('all');
});

const TOKEN = {
  ...{ id: 't', version: 3, name: 'reports', scopes: ['threads:read'], apps: ['crm', 'wiki'], users: ['u1', 'u2'] },
  ...{ networks: ['10.0.0.0/8', '192.0.2.1/32'], assertUser: true, fullScope: false, acceptIdTokens: false },
  ...{ binCallsPerMonth: 0, routes: ['thread', 'message'] },
} as unknown as RelayToken;

test('the form shows the values of a token', () => {
  expect(valuesOfToken(TOKEN, ['a@example.test', 'u2'])).toEqual({
    ...{
      name: 'reports',
      scopes: ['threads:read'],
      apps: ['crm', 'wiki'],
      routes: ['thread', 'message'],
      users: 'listed',
    },
    ...{ listed: 'a@example.test\nu2', networks: '10.0.0.0/8\n192.0.2.1/32' },
    ...{ expiry: 'keep', expiresOn: '', confirmed: '' },
    ...{ assertUser: 'yes', fullScope: '', acceptIdTokens: '', binCallsPerMonth: '0' },
  });
  expect(valuesOfToken({ ...TOKEN, routes: 'reads' }, []).routes).toEqual(['*']);
  const valuesForAllUsers = valuesOfToken({ ...TOKEN, users: 'all', binCallsPerMonth: null }, []);
  expect(valuesForAllUsers).toMatchObject({ users: 'all', binCallsPerMonth: '' });
});

describe('the first call of a new token', () => {
  const accounts = {
    page: async ({ filter }: { filter?: (account: never) => boolean }) => ({
      items: [
        { id: 'sa1', app: 'wiki' },
        { id: 'sa2', app: 'crm' },
      ].filter((account) => filter?.(account as never) ?? true),
    }),
  } as unknown as Parameters<typeof callsOf>[0]['accounts'];
  const call = async (changes: object, idle: string[] = []) => {
    const reasons = idle.map((scope) => ({ scope, reason: '' }));
    const parts = { accounts, apps: { find: () => undefined } };
    return (await callsOf(parts, { ...TOKEN, ...changes }, reasons))[0];
  };
  const defaultCall = {
    scope: 'threads:read',
    app: 'crm',
    route: undefined,
    userId: undefined,
    narrowingUnavailable: false,
    serviceAccount: undefined,
  };

  test.each<[string, object, object]>([
    ['names its first user', {}, { userId: 'u1', proof: 'none' }],
    ['proves its first user', { assertUser: false }, { userId: 'u1', proof: 'assertion' }],
    ['proves any user', { users: 'all' }, { proof: 'assertion' }],
    ['is for a service account of its first app', { users: 'none' }, { proof: 'assertion', serviceAccount: 'sa2' }],
    ['omits the accounts of other apps', { users: 'none', apps: ['mail'] }, { app: 'mail', proof: 'assertion' }],
    [
      'omits accounts for a scope other than threads:read',
      { users: 'none', scopes: ['bin:read'] },
      { scope: 'bin:read', proof: 'assertion' },
    ],
  ])('%s', async (_name, changes, members) => {
    expect(await call(changes)).toEqual({ ...defaultCall, ...members });
  });

  test('has a scope that is not idle, if there is one', async () => {
    const scopes = ['threads:read', 'bin:read'];
    expect(await call({ scopes }, ['threads:read'])).toMatchObject({ scope: 'bin:read' });
    expect(await call({ scopes }, scopes)).toBeUndefined();
  });
});
