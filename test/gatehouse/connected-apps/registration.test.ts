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
type UrlField = [name: string, setUrl: (anyApp: App, anyUrl: string | undefined) => App];

const MEMBER = 'instance_url' as const;
const NEW_HOST = 'moved.example';
/** A copy, as read from the storage. */
const storedRegistration = (app: App): Registration => JSON.parse(JSON.stringify(registrationOf(app)));
/** Whether tokens of the app may still be used after the app is changed. */
const isUsable = (appOfTokens: App, changedApp: App) => isIssuedFor(storedRegistration(appOfTokens), changedApp);

/** Every field with a URL or host that tokens are sent to. */
const URL_FIELDS: readonly UrlField[] = [
  ['discoveryUrl', (app, discoveryUrl) => ({ ...app, discoveryUrl })],
  ['apiBaseUrl', (app, apiBaseUrl) => ({ ...app, apiBaseUrl })],
  ['account.url', (app, url) => ({ ...app, account: { field: 'id', url } })],
  ...Object.keys(connectedAppSchema.shape.endpoints.unwrap().shape).map(
    (name): UrlField => [`endpoints.${name}`, (app, url) => ({ ...app, endpoints: { ...app.endpoints, [name]: url } })],
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

const anyLabel = fc.stringMatching(/^[a-z]{1,6}$/);
const anyOrigin = fc
  .tuple(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('', ':8443'))
  .map(([name, port]) => `https://${name}.test${port}`);
const anyPath = fc.array(anyLabel, { maxLength: 3 }).map((labels) => `/${labels.join('/')}`);
const anyUrl = fc.tuple(anyOrigin, anyPath).map(([origin, path]) => `${origin}${path}`);
const anyHost = fc
  .tuple(fc.constantFrom('', '.', '.eu.'), fc.constantFrom('a.test', 'b.test'))
  .map(([prefix, name]) => `${prefix}${name}`);
const anyHosts = fc.uniqueArray(anyHost, { minLength: 1, maxLength: 4 });
const anyApp: fc.Arbitrary<App> = fc
  .record({
    issuer: anyUrl,
    clientId: anyLabel,
    urls: fc.array(fc.tuple(fc.constantFrom(...URL_FIELDS), anyUrl), { maxLength: 5 }),
    hosts: fc.option(anyHosts, { nil: undefined }),
  })
  .map(({ issuer, clientId, urls, hosts }) => {
    let app: App = { issuer, clientId };
    for (const [[, setUrl], url] of urls) app = setUrl(app, url);
    return hosts ? withHosts(app, hosts) : app;
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
      fc.property(anyApp, (original) => {
        expect(isUsable(original, structuredClone(original))).toBe(true);
      }),
    );
  });

  test('are stored with the issuer and client ID of the app, and its origins by role, sorted and without repetition', () => {
    const original: App = {
      issuer: 'https://idp.test/{tenantid}',
      clientId: 'c1',
      discoveryUrl: 'https://idp.test/metadata',
      endpoints: {
        token: 'https://b.test:8443/t',
        revocation: 'https://b.test:8443/r',
        introspection: undefined,
        userinfo: 'https://users.test/',
        authorization: 'https://login.test/a',
        endSession: 'https://login.test/out',
        jwks: 'https://keys.test/',
      },
      apiBaseUrl: 'https://a.test/v1',
      account: { field: 'id' },
      apiBaseUrlFrom: { member: MEMBER, hosts: ['api.test', '.api.test'] },
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

  test.each(URL_FIELDS)('may not go to a new host in %s', (_name, setUrl) => {
    fc.assert(
      fc.property(anyApp, anyPath, fc.constantFrom('https', 'http'), (original, path, scheme) => {
        expect(isUsable(original, setUrl(original, `${scheme}://${NEW_HOST}${path}`))).toBe(false);
      }),
    );
  });

  test.each(URL_FIELDS)('may not go to another port or scheme of the host in %s', (_name, setUrl) => {
    fc.assert(
      fc.property(anyApp, anyPath, (original, path) => {
        const app = setUrl(original, `https://${NEW_HOST}${path}`);
        expect(isUsable(app, setUrl(app, `https://${NEW_HOST}:444${path}`))).toBe(false);
        expect(isUsable(app, setUrl(app, `http://${NEW_HOST}${path}`))).toBe(false);
      }),
    );
  });

  test.each(URL_FIELDS)('may go to another path, or another spelling of the host, in %s', (_name, setUrl) => {
    fc.assert(
      fc.property(anyApp, anyPath, anyPath, (original, path, otherPath) => {
        const app = setUrl(original, `https://${NEW_HOST}${path}`);
        expect(isUsable(app, setUrl(app, `https://${NEW_HOST}${otherPath}`))).toBe(true);
        expect(isUsable(app, setUrl(app, `HTTPS://${NEW_HOST.toUpperCase()}:443${otherPath}`))).toBe(true);
      }),
    );
  });

  test('have a role for each field with a URL or host', () => {
    expect(Object.keys(ROLES).sort()).toEqual(URL_FIELDS.map(([name]) => name).sort());
  });

  test.each(URL_FIELDS)('may go to the host of the issuer in %s', (_name, setUrl) => {
    fc.assert(
      fc.property(anyApp, anyPath, (original, path) => {
        expect(isUsable(original, setUrl(original, new URL(original.issuer).origin + path))).toBe(true);
      }),
    );
  });

  test.each(URL_FIELDS)(
    'may go in %s to the host of another field only if that host may receive as much',
    (name, setUrl) => {
      fc.assert(
        fc.property(anyApp, anyPath, fc.constantFrom(...URL_FIELDS), (original, path, [otherField, setOtherUrl]) => {
          const app = setOtherUrl(original, `https://${NEW_HOST}/v1`);
          const hostMayReceive = ROLES[otherField];
          const fieldReceives = ROLES[name];
          expect(isUsable(app, setUrl(app, `https://${NEW_HOST}${path}`))).toBe(
            hostMayReceive === 'refresh tokens' || hostMayReceive === fieldReceives,
          );
        }),
      );
    },
  );

  test('are set aside because of a field that names a host of another role, whose path is returned', () => {
    const endpoints = {
      token: 'https://b.test/t',
      endSession: 'https://login.test/out',
      userinfo: 'https://users.test/',
    };
    const original: App = { issuer: 'https://idp.test', clientId: 'c1', endpoints, apiBaseUrl: 'https://a.test/v1' };
    const pathsOf = (changes: Partial<App>) =>
      newDestinations(storedRegistration(original), { ...original, ...changes });
    for (const origin of ['https://login.test', 'https://users.test', 'https://a.test'])
      expect(pathsOf({ endpoints: { ...endpoints, token: origin } })).toEqual([['endpoints', 'token']]);
    expect(pathsOf({ apiBaseUrl: 'https://login.test' })).toEqual([['apiBaseUrl']]);
    expect(pathsOf({ apiBaseUrl: 'https://users.test' })).toEqual([]);
    expect(pathsOf({ endpoints: { ...endpoints, jwks: 'https://a.test' } })).toEqual([['endpoints', 'jwks']]);
    expect(pathsOf({ endpoints: { ...endpoints, jwks: 'https://b.test', userinfo: 'https://b.test' } })).toEqual([]);
  });

  test('are set aside exactly if there is a path of a new destination', () => {
    fc.assert(
      fc.property(anyApp, anyApp, (app, otherApp) => {
        const hasNone = (changedApp: App) => newDestinations(storedRegistration(app), changedApp).length === 0;
        expect(hasNone(otherApp)).toBe(isUsable(app, otherApp));

        const changedApp = { ...otherApp, issuer: app.issuer, clientId: app.clientId };
        expect(hasNone(changedApp)).toBe(isUsable(app, changedApp));
      }),
    );
  });

  test.each(URL_FIELDS)('stay usable without %s', (_name, setUrl) => {
    fc.assert(
      fc.property(anyApp, anyUrl, (original, url) => {
        expect(isUsable(setUrl(original, url), setUrl(original, undefined))).toBe(true);
      }),
    );
  });

  test('may not go to hosts of a new pattern, such as a wider one', () => {
    fc.assert(
      fc.property(anyApp, anyHosts, anyHost, fc.nat(), (original, hosts, addedHost, number) => {
        const position = number % (hosts.length + 1);
        const app = withHosts(original, hosts);
        const appWithAddedHost = withHosts(original, hosts.toSpliced(position, 0, addedHost));

        expect(isUsable(app, appWithAddedHost)).toBe(hosts.includes(addedHost));
        expect(isUsable(appWithAddedHost, app)).toBe(true);
        expect(isUsable(app, { ...original, apiBaseUrlFrom: undefined })).toBe(true);
        expect(isUsable(app, withHosts(original, [`.${NEW_HOST}`]))).toBe(false);
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
      fc.property(anyApp, anyLabel, (original, suffix) => {
        for (const issuer of [`${original.issuer}${suffix}`, `${original.issuer}/`, original.issuer.toUpperCase()])
          expect(isUsable(original, { ...original, issuer })).toBe(false);
        for (const clientId of [`${original.clientId}${suffix}`, original.clientId.toUpperCase(), ''])
          expect(isUsable(original, { ...original, clientId })).toBe(false);
      }),
    );
  });

  const FIELDS_THAT_COUNT = [
    'issuer',
    'clientId',
    'discoveryUrl',
    'endpoints',
    'apiBaseUrl',
    'account',
    'apiBaseUrlFrom',
  ];
  const OTHER_FIELDS = [
    'id',
    'name',
    'tokenEndpointAuthMethod',
    'callbackUrls',
    'returnUrls',
    'disabled',
    'signIn',
    'scopes',
    'prompt',
    'parameters',
    'tokenParameters',
    'resources',
    'tokenPath',
    'threadPath',
    'routes',
    'refresh',
    'providerSignOut',
    'par',
    'dpop',
    'accessTokenLifetimeSeconds',
    'endsEarlierTokens',
    'rateLimit',
  ];

  test('depend on the fields of one list only: each field of an app is in one of the two lists', () => {
    expect([...FIELDS_THAT_COUNT, ...OTHER_FIELDS].sort()).toEqual(Object.keys(connectedAppSchema.shape).sort());
  });

  test.each(OTHER_FIELDS)('do not depend on %s', (field) => {
    fc.assert(
      fc.property(anyApp, fc.anything(), fc.anything(), (original, value, otherValue) => {
        expect(isUsable({ ...original, [field]: value }, { ...original, [field]: otherValue })).toBe(true);
      }),
    );
  });

  test('do not depend on the member that names the API, nor on that of the account', () => {
    fc.assert(
      fc.property(anyApp, anyHosts, anyUrl, (original, hosts, url) => {
        const app = { ...withHosts(original, hosts), account: { field: 'id', url } };
        const appWithOtherMembers = {
          ...app,
          account: { field: 'data.id', url },
          apiBaseUrlFrom: { member: 'api_domain' as const, hosts },
        };
        expect(isIssuedFor(storedRegistration(app), appWithOtherMembers)).toBe(true);
      }),
    );
  });

  test('do not depend on the order of the members and of the API hosts', () => {
    fc.assert(
      fc.property(anyApp, (original) => {
        const otherField = reordered(original);
        const { apiBaseUrlFrom: from } = otherField;
        if (from) otherField.apiBaseUrlFrom = { ...from, hosts: from.hosts.toReversed() };
        expect(registrationOf(otherField)).toEqual(registrationOf(original));
      }),
    );
  });
});
