/** R116 what tokens were issued for: which changes of an app leave its connections usable, and which set them aside. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  isIssuedFor,
  newDestinations,
  type Registration,
  registrationOf,
} from '../../../src/gatehouse/connected-apps/registration.ts';
import { type ConnectedAppRegistration, connectedAppSchema } from '../../../src/shared/provider/connected-app.ts';

type Endpoints = NonNullable<ConnectedAppRegistration['endpoints']>;
type App = Pick<ConnectedAppRegistration, 'issuer' | 'clientId' | 'discoveryUrl' | 'apiBaseUrl' | 'account'> & {
  endpoints?: Endpoints;
  apiBaseUrlFrom?: { member: 'instance_url'; hosts: string[] } | undefined;
};
type Place = [name: string, set: (app: App, url: string | undefined) => App];

const MEMBER = 'instance_url' as const;
const NEW_HOST = 'moved.example';
/** As it is read from the store. */
const stored = (app: App): Registration => JSON.parse(JSON.stringify(registrationOf(app)));
const isUsable = (before: App, after: App) => isIssuedFor(stored(before), after);

/** Every field that names a place to which tokens go. */
const PLACES: readonly Place[] = [
  ['discoveryUrl', (app, discoveryUrl) => ({ ...app, discoveryUrl })],
  ['apiBaseUrl', (app, apiBaseUrl) => ({ ...app, apiBaseUrl })],
  ['account.url', (app, url) => ({ ...app, account: { field: 'id', url } })],
  ...Object.keys(connectedAppSchema.shape.endpoints.unwrap().shape).map(
    (name): Place => [`endpoints.${name}`, (app, url) => ({ ...app, endpoints: { ...app.endpoints, [name]: url } })],
  ),
];
/** What each of them gets at most. */
const ROLES: Record<string, 'refresh tokens' | 'access tokens' | 'neither'> = {
  discoveryUrl: 'refresh tokens',
  'endpoints.token': 'refresh tokens',
  'endpoints.revocation': 'refresh tokens',
  'endpoints.introspection': 'refresh tokens',
  apiBaseUrl: 'access tokens',
  'account.url': 'access tokens',
  'endpoints.userinfo': 'access tokens',
  'endpoints.authorization': 'neither',
  'endpoints.endSession': 'neither',
  'endpoints.jwks': 'neither',
};
const withHosts = (app: App, hosts: string[]): App => ({ ...app, apiBaseUrlFrom: { member: MEMBER, hosts } });

const label = fc.stringMatching(/^[a-z]{1,6}$/);
const origin = fc
  .tuple(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('', ':8443'))
  .map(([name, port]) => `https://${name}.test${port}`);
const path = fc.array(label, { maxLength: 3 }).map((labels) => `/${labels.join('/')}`);
const url = fc.tuple(origin, path).map((parts) => parts.join(''));
const host = fc
  .tuple(fc.constantFrom('', '.', '.eu.'), fc.constantFrom('a.test', 'b.test'))
  .map((parts) => parts.join(''));
const hosts = fc.uniqueArray(host, { minLength: 1, maxLength: 4 });
const app: fc.Arbitrary<App> = fc
  .record({
    ...{ issuer: url, clientId: label },
    places: fc.array(fc.tuple(fc.constantFrom(...PLACES), url), { maxLength: 5 }),
    hosts: fc.option(hosts, { nil: undefined }),
  })
  .map(({ issuer, clientId, places, hosts: patterns }) => {
    const named = places.reduce<App>((before, [[, set], place]) => set(before, place), { issuer, clientId });
    return patterns ? withHosts(named, patterns) : named;
  });

/** With its members, and those of its members, in another order. */
function reordered<T extends object>(value: T): T {
  const members = Object.entries(value).map(([name, member]) => [
    name,
    typeof member === 'object' && !Array.isArray(member) ? reordered(member) : member,
  ]);
  return Object.fromEntries(members.toReversed()) as T;
}

describe('R116 tokens of an app', () => {
  test('may be used by it as it is', () => {
    fc.assert(
      fc.property(app, (one) => {
        expect(isUsable(one, structuredClone(one))).toBe(true);
      }),
    );
  });

  test('have the issuer and client ID of the app, and its origins once and in order', () => {
    const one: App = {
      ...{ issuer: 'https://idp.test/{tenantid}', clientId: 'c1', discoveryUrl: 'https://idp.test/metadata' },
      endpoints: {
        ...{ token: 'https://b.test:8443/t', revocation: 'https://b.test:8443/r', introspection: undefined },
        ...{ userinfo: 'https://users.test/', authorization: 'https://login.test/a' },
        ...{ endSession: 'https://login.test/out', jwks: 'https://keys.test/' },
      },
      apiBaseUrl: 'https://a.test/v1',
      ...{ account: { field: 'id' }, apiBaseUrlFrom: { member: MEMBER, hosts: ['api.test', '.api.test'] } },
    };
    const { issuer, clientId } = one;
    const refreshTokenOrigins = ['https://b.test:8443', 'https://idp.test'];
    const accessTokenOrigins = ['.api.test', 'api.test', 'https://a.test', 'https://users.test'];
    const otherOrigins = ['https://keys.test', 'https://login.test'];
    expect(registrationOf(one)).toEqual({ issuer, clientId, refreshTokenOrigins, accessTokenOrigins, otherOrigins });
  });

  test.each(PLACES)('may not go to a new host in %s', (_name, set) => {
    fc.assert(
      fc.property(app, path, fc.constantFrom('https', 'http'), (one, rest, scheme) => {
        expect(isUsable(one, set(one, `${scheme}://${NEW_HOST}${rest}`))).toBe(false);
      }),
    );
  });

  test.each(PLACES)('may not go to another port or scheme of the host in %s', (_name, set) => {
    fc.assert(
      fc.property(app, path, (one, rest) => {
        const before = set(one, `https://${NEW_HOST}${rest}`);
        expect(isUsable(before, set(before, `https://${NEW_HOST}:444${rest}`))).toBe(false);
        expect(isUsable(before, set(before, `http://${NEW_HOST}${rest}`))).toBe(false);
      }),
    );
  });

  test.each(PLACES)('may go to another path, or another writing of the host, in %s', (_name, set) => {
    fc.assert(
      fc.property(app, path, path, (one, rest, otherRest) => {
        const before = set(one, `https://${NEW_HOST}${rest}`);
        expect(isUsable(before, set(before, `https://${NEW_HOST}${otherRest}`))).toBe(true);
        expect(isUsable(before, set(before, `HTTPS://${NEW_HOST.toUpperCase()}:443${otherRest}`))).toBe(true);
      }),
    );
  });

  test('have a role for each field that names a place', () => {
    expect(Object.keys(ROLES).sort()).toEqual(PLACES.map(([name]) => name).sort());
  });

  test.each(PLACES)('may go to the host of the issuer in %s', (_name, set) => {
    fc.assert(
      fc.property(app, path, (one, rest) => {
        expect(isUsable(one, set(one, new URL(one.issuer).origin + rest))).toBe(true);
      }),
    );
  });

  test.each(PLACES)('may go in %s to a host of another field only if it may get as much there', (name, set) => {
    fc.assert(
      fc.property(app, path, fc.constantFrom(...PLACES), (one, rest, [other, setOther]) => {
        const before = setOther(one, `https://${NEW_HOST}/v1`);
        const [may, needs] = [ROLES[other], ROLES[name]];
        expect(isUsable(before, set(before, `https://${NEW_HOST}${rest}`))).toBe(
          may === 'refresh tokens' || may === needs,
        );
      }),
    );
  });

  test('are set aside with the path of the field that names a host of another role', () => {
    const endpoints = {
      token: 'https://b.test/t',
      endSession: 'https://login.test/out',
      userinfo: 'https://users.test/',
    };
    const one: App = { issuer: 'https://idp.test', clientId: 'c1', endpoints, apiBaseUrl: 'https://a.test/v1' };
    const pathsOf = (changes: Partial<App>) => newDestinations(stored(one), { ...one, ...changes });
    for (const host of ['https://login.test', 'https://users.test', 'https://a.test'])
      expect(pathsOf({ endpoints: { ...endpoints, token: host } })).toEqual([['endpoints', 'token']]);
    expect(pathsOf({ apiBaseUrl: 'https://login.test' })).toEqual([['apiBaseUrl']]);
    expect(pathsOf({ apiBaseUrl: 'https://users.test' })).toEqual([]);
    expect(pathsOf({ endpoints: { ...endpoints, jwks: 'https://a.test' } })).toEqual([['endpoints', 'jwks']]);
    expect(pathsOf({ endpoints: { ...endpoints, jwks: 'https://b.test', userinfo: 'https://b.test' } })).toEqual([]);
  });

  test('are set aside exactly where a field is named', () => {
    fc.assert(
      fc.property(app, app, (before, after) => {
        expect(newDestinations(stored(before), after).length === 0).toBe(isUsable(before, after));
        const same = { ...after, issuer: before.issuer, clientId: before.clientId };
        expect(newDestinations(stored(before), same).length === 0).toBe(isUsable(before, same));
      }),
    );
  });

  test.each(PLACES)('stay usable without %s', (_name, set) => {
    fc.assert(
      fc.property(app, url, (one, place) => {
        expect(isUsable(set(one, place), set(one, undefined))).toBe(true);
      }),
    );
  });

  test('may not go to hosts of a new pattern, such as a wider one', () => {
    fc.assert(
      fc.property(app, hosts, host, fc.nat(), (one, patterns, pattern, at) => {
        const before = withHosts(one, patterns);
        const after = withHosts(one, patterns.toSpliced(at % (patterns.length + 1), 0, pattern));
        expect(isUsable(before, after)).toBe(patterns.includes(pattern));
        expect(isUsable(after, before)).toBe(true);
        expect(isUsable(before, { ...one, apiBaseUrlFrom: undefined })).toBe(true);
        expect(isUsable(before, withHosts(one, [`.${NEW_HOST}`]))).toBe(false);
      }),
    );
    const one: App = { issuer: 'https://idp.test', clientId: 'c1' };
    const narrow = withHosts(one, ['.eu.api.test']);
    expect(isUsable(narrow, withHosts(one, ['.api.test']))).toBe(false);
    expect(isUsable(withHosts(one, ['eu.api.test']), narrow)).toBe(false);
    // A pattern is compared as it is written, also with an origin.
    expect(isUsable(one, withHosts(one, ['idp.test']))).toBe(false);
  });

  test('are of one issuer and one client ID', () => {
    fc.assert(
      fc.property(app, label, (one, suffix) => {
        for (const issuer of [`${one.issuer}${suffix}`, `${one.issuer}/`, one.issuer.toUpperCase()])
          expect(isUsable(one, { ...one, issuer })).toBe(false);
        for (const clientId of [`${one.clientId}${suffix}`, one.clientId.toUpperCase(), ''])
          expect(isUsable(one, { ...one, clientId })).toBe(false);
      }),
    );
  });

  const WEIGHED = ['issuer', 'clientId', 'discoveryUrl', 'endpoints', 'apiBaseUrl', 'account', 'apiBaseUrlFrom'];
  const OTHERS = [
    ...[
      'id',
      'name',
      'tokenEndpointAuthMethod',
      'callbackUrls',
      'returnUrls',
      'disabled',
      'signIn',
      'scopes',
      'prompt',
    ],
    ...['parameters', 'tokenParameters', 'resources', 'tokenPath', 'threadPath', 'refresh', 'providerSignOut', 'par'],
    ...['dpop', 'accessTokenLifetimeSeconds', 'rateLimit'],
  ];

  test('depend on a field, or do not: each new one is in one of the two lists, by where tokens go for it', () => {
    expect([...WEIGHED, ...OTHERS].sort()).toEqual(Object.keys(connectedAppSchema.shape).sort());
  });

  test.each(OTHERS)('do not depend on %s', (field) => {
    fc.assert(
      fc.property(app, fc.anything(), fc.anything(), (one, before, after) => {
        expect(isUsable({ ...one, [field]: before }, { ...one, [field]: after })).toBe(true);
      }),
    );
  });

  test('do not depend on the member that names the API, nor on that of the account', () => {
    fc.assert(
      fc.property(app, hosts, url, (one, patterns, account) => {
        const before = { ...withHosts(one, patterns), account: { field: 'id', url: account } };
        const after = {
          ...{ ...before, account: { ...before.account, field: 'data.id' } },
          apiBaseUrlFrom: { member: 'api_domain' as const, hosts: patterns },
        };
        expect(isIssuedFor(stored(before), after)).toBe(true);
      }),
    );
  });

  test('do not depend on the order in which the app is written', () => {
    fc.assert(
      fc.property(app, (one) => {
        const other = reordered(one);
        const { apiBaseUrlFrom: from } = other;
        if (from) other.apiBaseUrlFrom = { ...from, hosts: from.hosts.toReversed() };
        expect(registrationOf(other)).toEqual(registrationOf(one));
      }),
    );
  });
});
