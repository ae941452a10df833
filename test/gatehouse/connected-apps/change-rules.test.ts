/** Rules for a changed registration: when to enter its secret again, and what may not change with connected users. */
import { describe, expect, test } from 'vitest';
import {
  changedFields,
  connectedUsers,
  MISSING_SECRET,
  movedFaults,
  needsSecret,
  secretAfter,
  secretFaults,
  sharedIssuerFaults,
} from '../../../src/gatehouse/connected-apps/change-rules.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';

const appOf = (changes: object = {}) =>
  ({
    id: 'platform',
    name: 'Platform',
    issuer: 'https://idp.test',
    clientId: 'c1',
    clientSecret: 's1',
    tokenEndpointAuthMethod: 'client_secret_basic',
    scopes: ['openid'],
    signIn: { allow: 'everyone' },
    ...changes,
  }) as unknown as ConnectedApp;

describe('a client secret', () => {
  test.each([
    ['client_secret_basic', true],
    ['client_secret_post', true],
    ['private_key_jwt', false],
    ['none', false],
  ])('with %s is required: %s', (tokenEndpointAuthMethod, isNeeded) => {
    const app = appOf({ tokenEndpointAuthMethod });
    expect(needsSecret(app)).toBe(isNeeded);
    expect([secretAfter(app, 'new'), secretAfter(app, undefined)]).toEqual(
      isNeeded ? ['new', 'kept'] : [undefined, undefined],
    );
    const before = appOf({ clientSecret: undefined });
    expect(secretFaults(app, undefined, before)).toEqual(isNeeded ? [MISSING_SECRET] : []);
    expect(secretFaults(app, 'entered', before)).toEqual([]);
  });

  test.each<[string, object, boolean]>([
    ['another name', { name: 'Renamed' }, false],
    ['another issuer', { issuer: 'https://other.test' }, true],
    ['another client ID', { clientId: 'c2' }, true],
    ['a discovery URL at the same host', { discoveryUrl: 'https://idp.test/metadata' }, true],
    ['a discovery URL at another host', { discoveryUrl: 'https://a.test/metadata' }, true],
    [
      'an endpoint at the same host, which may be that of another tenant',
      { endpoints: { token: 'https://idp.test/token' } },
      true,
    ],
    ['another host of the API', { apiBaseUrl: 'https://a.test' }, false],
    ['an endpoint at another host', { endpoints: { token: 'https://a.test/token' } }, true],
  ])('must be entered again with %s: %s', (_description, changes, isRequired) => {
    const faults = secretFaults(appOf(changes), undefined, appOf());
    const detail =
      'The provider has changed: enter the client secret again, since the stored one is sent only to the earlier provider.';
    expect(faults).toEqual(isRequired ? [{ pointer: '#/clientSecret', rule: 'give_again', detail }] : []);
    expect(secretFaults(appOf(changes), 'entered', appOf())).toEqual([]);
  });

  test('is reported as missing if none is stored', () => {
    const [fault] = secretFaults(appOf(), undefined, appOf({ clientSecret: undefined }));
    expect(fault?.rule).toBe('missing');
  });
});

test('a change names the fields that differ, and the secret if a new one is entered', () => {
  const storedApp = appOf({ parameters: { audience: 'a' } });
  expect(changedFields(storedApp, appOf({ parameters: { audience: 'a' } }), undefined)).toEqual([]);

  const changedApp = appOf({ name: 'Renamed', parameters: { audience: 'b' } });
  expect(changedFields(storedApp, changedApp, undefined)).toEqual(['name', 'parameters']);
  expect(changedFields(storedApp, changedApp, 's2')).toEqual(['name', 'parameters', 'clientSecret']);

  // A field of a newer version is not on the form, so it is preserved.
  expect(changedFields(appOf({ ofNewerVersion: 1 }), appOf(), undefined)).toEqual([]);
});

describe('a registration with connected users', () => {
  const apiHosts = (...hosts: string[]) => ({ member: 'api', hosts });
  /** @param stored the changes of the stored app, or undefined if there is none */
  const faultsOf = (stored: object | undefined, wanted: object, connectionCount = 2) =>
    movedFaults(stored && appOf(stored), appOf(wanted), async ({ id }) => (id === 'platform' ? connectionCount : 0));
  const DETAIL =
    '2 users are connected with the current registration: disconnect all users first, or register another app.';

  test.each<[string, object, object, string[]]>([
    ['nothing', {}, {}, []],
    ['the name', {}, { name: 'Renamed' }, []],
    ['the issuer', {}, { issuer: 'https://idp.test/' }, ['#/issuer']],
    ['the client ID', {}, { clientId: 'c2' }, ['#/clientId']],
    ['the issuer and the client ID', {}, { issuer: 'https://a.test', clientId: 'c2' }, ['#/issuer', '#/clientId']],
    ['the issuer and its endpoints', {}, { issuer: 'https://a.test', discoveryUrl: 'https://b.test/x' }, ['#/issuer']],
    ['an endpoint at the same host', {}, { endpoints: { revocation: 'https://idp.test/revoke' } }, []],
    [
      'an endpoint at a host that was called before',
      { discoveryUrl: 'https://b.test/x' },
      { endpoints: { token: 'https://b.test/t' } },
      [],
    ],
    ['an endpoint at another host', {}, { endpoints: { revocation: 'https://a.test/r' } }, ['#/endpoints/revocation']],
    ['an endpoint at another port', {}, { endpoints: { token: 'https://idp.test:8443/t' } }, ['#/endpoints/token']],
    ['the discovery URL', {}, { discoveryUrl: 'https://a.test/x' }, ['#/discoveryUrl']],
    [
      'the API',
      {},
      { apiBaseUrl: 'https://api.test', account: { field: 'id', url: 'https://api.test/me' } },
      ['#/apiBaseUrl', '#/account/url'],
    ],
    [
      'the hosts of the API',
      { apiBaseUrlFrom: apiHosts('.a.test') },
      { apiBaseUrlFrom: apiHosts('.a.test', '.test') },
      ['#/apiBaseUrlFrom/hosts/1'],
    ],
    ['the API, which is removed', { apiBaseUrl: 'https://api.test' }, {}, []],
  ])('a change of %s', async (_description, stored, wanted, pointers) => {
    expect(await faultsOf(stored, wanted)).toEqual(
      pointers.map((pointer) => ({ pointer, rule: 'has_connections', detail: DETAIL })),
    );
    expect(await faultsOf(stored, wanted, 0)).toEqual([]);
  });

  test('of an earlier app refuses a new app with its id', async () => {
    const detail =
      '2 users are connected with an earlier app of this id: end these connections first, or register the app with the same issuer, client ID and hosts as before.';
    expect(await faultsOf(undefined, {})).toEqual([{ pointer: '#/id', rule: 'has_connections', detail }]);
    expect(await faultsOf(undefined, {}, 0)).toEqual([]);
  });

  test.each([
    [1, 'One user is connected'],
    [2, '2 users are connected'],
    [12_345, '12,345 users are connected'],
  ])('counts %i users in words', (count, words) => expect(connectedUsers(count)).toBe(words));
});

describe('R19 apps that share the users of an issuer', () => {
  const OTHER = appOf({ id: 'other' });
  const faultsOf = (app: object, other: object = {}) =>
    sharedIssuerFaults(appOf(app), [appOf(), appOf({ ...OTHER, ...other })]);
  const BY_HAND = { authorization: 'https://idp.test/a', token: 'https://idp.test/t', jwks: 'https://idp.test/jwks' };
  const STANDARD = 'https://idp.test/.well-known/openid-configuration';

  test.each<[string, object, object, boolean]>([
    ['read the same metadata', {}, {}, false],
    ['name the address of the metadata that follows from the issuer', { discoveryUrl: STANDARD }, {}, false],
    ['read other metadata', { discoveryUrl: 'https://idp.test/x' }, {}, true],
    ['set a key set by hand', { endpoints: { jwks: 'https://idp.test/jwks' } }, {}, true],
    ['are set by hand', { endpoints: BY_HAND }, {}, true],
    ['are set by hand in the same way', { endpoints: BY_HAND }, { endpoints: BY_HAND }, false],
    ['differ only in other endpoints', { endpoints: { revocation: 'https://a.test/r' } }, {}, false],
    [
      'of which the changed one is not for sign-in',
      { discoveryUrl: 'https://idp.test/x', signIn: undefined },
      {},
      false,
    ],
    ['of which the other one is not for sign-in', { discoveryUrl: 'https://idp.test/x' }, { signIn: undefined }, false],
    ['have another issuer', { discoveryUrl: 'https://idp.test/x' }, { issuer: 'https://b.test' }, false],
  ])('%s', (_description, app, other, isRefused) => {
    const detail =
      'Users already sign in with this issuer through "other": set the same discoveryUrl and endpoints.jwks as there.';
    expect(faultsOf(app, other)).toEqual(isRefused ? [{ pointer: '#/issuer', rule: 'issuer_taken', detail }] : []);
  });

  test('with issuer templates are compared only if both name the same tenant', () => {
    const templateOf = (tenants: string[], changes: object = {}) => ({
      issuer: 'https://idp.test/{tenantid}',
      discoveryUrl: 'https://idp.test/metadata',
      signIn: { allow: { claim: 'tid', values: tenants } },
      ...changes,
    });
    const otherMetadata = { discoveryUrl: 'https://idp.test/other' };

    expect(faultsOf(templateOf(['ink', 'book']), templateOf(['book'], otherMetadata))).toHaveLength(1);
    expect(faultsOf(templateOf(['ink']), templateOf(['book'], otherMetadata))).toEqual([]);
    expect(faultsOf(templateOf(['ink']), { issuer: 'https://idp.test/ink' })).toHaveLength(1);
  });
});
