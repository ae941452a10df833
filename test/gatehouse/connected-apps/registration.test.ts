/** R116 the registration that tokens are issued for: changes of an app that set its connections aside, and others. */
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
/** A copy, as read from the storage. */
const stored = (app: App): Registration => JSON.parse(JSON.stringify(registrationOf(app)));
const isUsable = (before: App, after: App) => isIssuedFor(stored(before), after);

/** Every field with a URL or host that tokens are sent to. */
const PLACES: readonly Place[] = [
  ['discoveryUrl', (app, discoveryUrl) => ({ ...app, discoveryUrl })],
  ['apiBaseUrl', (app, apiBaseUrl) => ({ ...app, apiBaseUrl })],
  ['account.url', (app, url) => ({ ...app, account: { field: 'id', url } })],
  ...Object.keys(connectedAppSchema.shape.endpoints.unwrap().shape).map(
    (name): Place => [`endpoints.${name}`, (app, url) => ({ ...app, endpoints: { ...app.endpoints, [name]: url } })],
  ),
];
/** The most sensitive data that each of them receives. */
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

/** A copy with all members in another order. */
function reordered<T extends object>(value: T): T {
  const members = Object.entries(value).map(([name, member]) => [
    name,
    typeof member === 'object' && !Array.isArray(member) ? reordered(member) : member,
  ]);
  return Object.fromEntries(members.toReversed()) as T;
}

describe('R116 tokens of an app', () => {
  test('may be used by the unchanged app', () => {
    fc.assert(
      fc.property(app, (original) => {
        expect(isUsable(original, structuredClone(original))).toBe(true);
      }),
    );
  });

  test('have the issuer and client ID of the app, and its origins, sorted and unique', () => {
    const original: App = {
      ...{ issuer: 'https://idp.test/{tenantid}', clientId: 'c1', discoveryUrl: 'https://idp.test/metadata' },
      endpoints: {
        ...{ token: 'https://b.test:8443/t', revocation: 'https://b.test:8443/r', introspection: undefined },
        ...{ userinfo: 'https://users.test/', authorization: 'https://login.test/a' },
        ...{ endSession: 'https://login.test/out', jwks: 'https://keys.test/' },
      },
      apiBaseUrl: 'https://a.test/v1',
      ...{ account: { field: 'id' }, apiBaseUrlFrom: { member: MEMBER, hosts: ['api.test', '.api.test'] } },
    };
    const { issuer, clientId } = original;
    const refreshTokenOrigins = ['https://b.test:8443', 'https://idp.test'];
    const accessTokenOrigins = ['.api.test', 'api.test', 'https://a.test', 'https://users.test'];
    const otherOrigins = ['https://keys.test', 'https://login.test'];
    expect(registrationOf(original)).toEqual({
      issuer,
      clientId,
      refreshTokenOrigins,
      accessTokenOrigins,
      otherOrigins,
    });
  });

  test.each(PLACES)('may not go to a new host in %s', (_name, set) => {
    fc.assert(
      fc.property(app, path, fc.constantFrom('https', 'http'), (original, rest, scheme) => {
        expect(isUsable(original, set(original, `${scheme}://${NEW_HOST}${rest}`))).toBe(false);
      }),
    );
  });

  test.each(PLACES)('may not go to another port or scheme of the host in %s', (_name, set) => {
    fc.assert(
      fc.property(app, path, (original, rest) => {
        const before = set(original, `https://${NEW_HOST}${rest}`);
        expect(isUsable(before, set(before, `https://${NEW_HOST}:444${rest}`))).toBe(false);
        expect(isUsable(before, set(before, `http://${NEW_HOST}${rest}`))).toBe(false);
      }),
    );
  });

  test.each(PLACES)('may go to another path, or another spelling of the host, in %s', (_name, set) => {
    fc.assert(
      fc.property(app, path, path, (original, rest, otherRest) => {
        const before = set(original, `https://${NEW_HOST}${rest}`);
        expect(isUsable(before, set(before, `https://${NEW_HOST}${otherRest}`))).toBe(true);
        expect(isUsable(before, set(before, `HTTPS://${NEW_HOST.toUpperCase()}:443${otherRest}`))).toBe(true);
      }),
    );
  });

  test('have a role for each field with a URL or host', () => {
    expect(Object.keys(ROLES).sort()).toEqual(PLACES.map(([name]) => name).sort());
  });

  test.each(PLACES)('may go to the host of the issuer in %s', (_name, set) => {
    fc.assert(
      fc.property(app, path, (original, rest) => {
        expect(isUsable(original, set(original, new URL(original.issuer).origin + rest))).toBe(true);
      }),
    );
  });

  test.each(PLACES)('may go in %s to the host of another field only if that host may receive as much', (name, set) => {
    fc.assert(
      fc.property(app, path, fc.constantFrom(...PLACES), (original, rest, [other, setOther]) => {
        const before = setOther(original, `https://${NEW_HOST}/v1`);
        const [may, needs] = [ROLES[other], ROLES[name]];
        expect(isUsable(before, set(before, `https://${NEW_HOST}${rest}`))).toBe(
          may === 'refresh tokens' || may === needs,
        );
      }),
    );
  });

  test('are set aside with the path of a field that names a host of another role', () => {
    const endpoints = {
      token: 'https://b.test/t',
      endSession: 'https://login.test/out',
      userinfo: 'https://users.test/',
    };
    const original: App = { issuer: 'https://idp.test', clientId: 'c1', endpoints, apiBaseUrl: 'https://a.test/v1' };
    const pathsOf = (changes: Partial<App>) => newDestinations(stored(original), { ...original, ...changes });
    for (const host of ['https://login.test', 'https://users.test', 'https://a.test'])
      expect(pathsOf({ endpoints: { ...endpoints, token: host } })).toEqual([['endpoints', 'token']]);
    expect(pathsOf({ apiBaseUrl: 'https://login.test' })).toEqual([['apiBaseUrl']]);
    expect(pathsOf({ apiBaseUrl: 'https://users.test' })).toEqual([]);
    expect(pathsOf({ endpoints: { ...endpoints, jwks: 'https://a.test' } })).toEqual([['endpoints', 'jwks']]);
    expect(pathsOf({ endpoints: { ...endpoints, jwks: 'https://b.test', userinfo: 'https://b.test' } })).toEqual([]);
  });

  test('are set aside exactly if a field is named', () => {
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
      fc.property(app, url, (original, place) => {
        expect(isUsable(set(original, place), set(original, undefined))).toBe(true);
      }),
    );
  });

  test('may not go to hosts of a new pattern, such as a wider one', () => {
    fc.assert(
      fc.property(app, hosts, host, fc.nat(), (original, patterns, pattern, at) => {
        const before = withHosts(original, patterns);
        const after = withHosts(original, patterns.toSpliced(at % (patterns.length + 1), 0, pattern));
        expect(isUsable(before, after)).toBe(patterns.includes(pattern));
        expect(isUsable(after, before)).toBe(true);
        expect(isUsable(before, { ...original, apiBaseUrlFrom: undefined })).toBe(true);
        expect(isUsable(before, withHosts(original, [`.${NEW_HOST}`]))).toBe(false);
      }),
    );
    const original: App = { issuer: 'https://idp.test', clientId: 'c1' };
    const narrow = withHosts(original, ['.eu.api.test']);
    expect(isUsable(narrow, withHosts(original, ['.api.test']))).toBe(false);
    expect(isUsable(withHosts(original, ['eu.api.test']), narrow)).toBe(false);
    // A pattern is compared as written, even with an origin.
    expect(isUsable(original, withHosts(original, ['idp.test']))).toBe(false);
  });

  test('belong to one issuer and one client ID', () => {
    fc.assert(
      fc.property(app, label, (original, suffix) => {
        for (const issuer of [`${original.issuer}${suffix}`, `${original.issuer}/`, original.issuer.toUpperCase()])
          expect(isUsable(original, { ...original, issuer })).toBe(false);
        for (const clientId of [`${original.clientId}${suffix}`, original.clientId.toUpperCase(), ''])
          expect(isUsable(original, { ...original, clientId })).toBe(false);
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
    ...['dpop', 'accessTokenLifetimeSeconds', 'endsEarlierTokens', 'rateLimit'],
  ];

  test('depend on the fields of one list, and not on those of the other: every field is in one of them', () => {
    expect([...WEIGHED, ...OTHERS].sort()).toEqual(Object.keys(connectedAppSchema.shape).sort());
  });

  test.each(OTHERS)('do not depend on %s', (field) => {
    fc.assert(
      fc.property(app, fc.anything(), fc.anything(), (original, before, after) => {
        expect(isUsable({ ...original, [field]: before }, { ...original, [field]: after })).toBe(true);
      }),
    );
  });

  test('do not depend on the member that names the API, nor on that of the account', () => {
    fc.assert(
      fc.property(app, hosts, url, (original, patterns, account) => {
        const before = { ...withHosts(original, patterns), account: { field: 'id', url: account } };
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
      fc.property(app, (original) => {
        const other = reordered(original);
        const { apiBaseUrlFrom: from } = other;
        if (from) other.apiBaseUrlFrom = { ...from, hosts: from.hosts.toReversed() };
        expect(registrationOf(other)).toEqual(registrationOf(original));
      }),
    );
  });
});
