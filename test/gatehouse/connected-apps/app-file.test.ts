import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseConnectedApps, placeholderWarnings } from '../../../src/gatehouse/connected-apps/app-file.ts';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import {
  callbackUrlOf,
  isOpenIdApp,
  isUsable,
  PROTOCOL_PARAMETERS,
} from '../../../src/shared/provider/connected-app.ts';

const SECRET = 'canary_secret-8d2f';
const GOOD = {
  id: 'platform',
  name: 'Collaboration platform',
  issuer: 'https://idp.example.com',
  clientId: 'client-1',
  clientSecret: { env: 'PLATFORM_CLIENT_SECRET' },
  scopes: ['openid', 'profile', 'offline_access'],
  callbackUrls: ['https://gatehouse.example.com/oauth/callback/platform'],
  signIn: { allow: 'everyone' },
};

function parse(entries: unknown, files: Record<string, string> = {}) {
  const text = typeof entries === 'string' ? entries : JSON.stringify(entries);
  return parseConnectedApps(text, {
    env: { PLATFORM_CLIENT_SECRET: SECRET, EMPTY: ' ' },
    readFile: (path) => files[path] ?? missing(path),
  });
}

function missing(path: string): string {
  throw new Error(`ENOENT ${path}`);
}

function faultsUnder(internalHosts: string[], changes: Record<string, unknown>): string[] {
  const source = { env: { PLATFORM_CLIENT_SECRET: SECRET }, readFile: missing };
  return parseConnectedApps(JSON.stringify([{ ...GOOD, ...changes }]), source, createAddressPolicy(internalHosts))
    .faults;
}

const faultsOf = (changes: Record<string, unknown>) => parse([{ ...GOOD, ...changes }]).faults;
const places = (faults: string[]) => faults.map((fault) => /, (\/[^:]*|whole entry):/.exec(fault)?.[1]);

test('warns of example values from the documents', () => {
  const warningsOf = (changes: object, secret = SECRET) =>
    placeholderWarnings(
      parseConnectedApps(JSON.stringify([{ ...GOOD, issuer: 'https://idp.test', ...changes }]), {
        env: { PLATFORM_CLIENT_SECRET: secret },
        readFile: missing,
      }).apps,
    );
  expect(warningsOf({ apiBaseUrl: 'https://platform.test', clientId: 'the client' })).toEqual([]);
  const changes = {
    issuer: 'https://example.my.example.com',
    clientId: 'the client ID',
    apiBaseUrl: 'https://example.com/v1',
  };
  expect(warningsOf(changes, 'the-secret-that-the-provider-gave')).toEqual([
    'the app "platform" still has example values from the documentation in issuer, clientId, clientSecret, apiBaseUrl.',
  ]);
});

test('reads the valid entries of a file, and names the faulty one', () => {
  const { apps, faults, faultyIds } = parse([GOOD, { ...GOOD, id: 'second', issuer: 'no address' }, 7]);
  expect(apps.map(({ id }) => id)).toEqual(['platform']);
  expect(faults.length).toBeGreaterThanOrEqual(2);
  expect(faultyIds).toEqual(['second', undefined]);
});

describe('a valid entry', () => {
  test('is read with its secret and its defaults, and frozen', () => {
    const { apps, faults } = parse([GOOD]);
    expect(faults).toEqual([]);
    expect(apps).toEqual([
      {
        ...GOOD,
        clientSecret: SECRET,
        tokenEndpointAuthMethod: 'client_secret_basic',
        threadPath: '/1/threads/current',
        returnUrls: [],
        endsEarlierTokens: false,
        providerSignOut: true,
        par: 'auto',
        dpop: 'auto',
      },
    ]);
    expect(Object.isFrozen(apps[0])).toBe(true);
  });

  test('can read its secret from a file that ends with a line break', () => {
    const { apps, faults } = parse([{ ...GOOD, clientSecret: { file: '/run/s' } }], { '/run/s': `${SECRET}\n` });
    expect([faults, apps[0]?.clientSecret]).toEqual([[], SECRET]);
  });

  test('may have return URLs', () => {
    const returnUrls = ['https://app.example.com/welcome', 'https://app.example.com/settings?tab=access'];
    const { apps, faults } = parse([{ ...GOOD, returnUrls }]);
    expect([faults, apps[0]?.returnUrls]).toEqual([[], returnUrls]);
  });

  test('of a public client has no secret', () => {
    const { clientSecret: _, ...rest } = GOOD;
    expect(parse([{ ...rest, tokenEndpointAuthMethod: 'none' }]).faults).toEqual([]);
  });

  test('of a plain OAuth app needs no openid scope, and may set all endpoints by hand', () => {
    const endpoints = { authorization: 'https://a.example.com/a', token: 'https://a.example.com/t' };
    expect(faultsOf({ signIn: undefined, scopes: [], endpoints, apiBaseUrl: 'https://a.example.com/api' })).toEqual([]);
  });
});

describe('an issuer template', () => {
  const TEMPLATE = {
    issuer: 'https://idp.example.com/{tenantid}/v2.0',
    discoveryUrl: 'https://idp.example.com/common/v2.0/.well-known/openid-configuration',
    signIn: { allow: { claim: 'tid', values: ['8eaef023-2b34-4da1-9baa-8bc8c9d6a490', 'Tenant-2'] } },
  };

  test('is valid for an app that names its tenants, and may end the path', () => {
    expect(faultsOf(TEMPLATE)).toEqual([]);
    expect(faultsOf({ ...TEMPLATE, issuer: 'https://idp.example.com/{tenantid}' })).toEqual([]);
  });

  const naming = (claim: string, ...values: string[]) => ({ signIn: { allow: { claim, values } } });
  test.each<[string, Record<string, unknown>, string[]]>([
    ['used only for connections', { signIn: undefined }, ['/signIn']],
    ['for everyone', { signIn: { allow: 'everyone' } }, ['/signIn']],
    ['for members of groups', naming('groups', 'staff'), ['/signIn']],
    ['that asks for no ID token', { scopes: ['profile'] }, ['/scopes']],
    [
      'of a tenant in the form of a path',
      naming('tid', 'a', 'b/../c', '{tenantid}'),
      ['/signIn/allow/values/1', '/signIn/allow/values/2'],
    ],
    ['of a tenant that is too long', naming('tid', 'a'.repeat(65)), ['/signIn/allow/values/0']],
    ['without a place of its metadata', { discoveryUrl: undefined }, ['/discoveryUrl']],
    ['in a wrong rule, which is reported once', { signIn: { allow: 'nobody' } }, ['/signIn/allow']],
  ])('is refused in an app %s', (_words, changes, where) => {
    const faults = faultsOf({ ...TEMPLATE, ...changes });
    expect(places(faults)).toEqual(where);
    if (where[0] === '/signIn') expect(faults[0]).toContain('{"allow": {"claim": "tid", "values": ["TENANT ID"]}}');
  });
});

describe('faults', () => {
  test.each<[string, Record<string, unknown>, string[]]>([
    ['id', { id: 'Platform' }, ['/id']],
    ['id too long', { id: 'a'.repeat(41) }, ['/id']],
    ['id missing', { id: undefined }, ['/id']],
    ['issuer with a query', { issuer: 'https://idp.example.com?a=b' }, ['/issuer']],
    ['issuer not absolute', { issuer: 'idp.example.com' }, ['/issuer']],
    ['issuer with user name', { issuer: 'https://a@idp.example.com' }, ['/issuer']],
    ['issuer with fragment', { issuer: 'https://idp.example.com#a' }, ['/issuer']],
    ...[
      ...['https://{tenantid}/v2.0', 'https://{tenantid}.example.com', 'https://idp.example.com/t-{tenantid}/v2.0'],
      ...['https://idp.example.com/{tenant}/v2.0', 'https://idp.example.com/{tenantid}/{tenantid}'],
      ...['https://idp.example.com/{tenantid}x', 'https://idp.example.com/{TenantID}', 'https://idp.example.com/{'],
    ].map((issuer): [string, Record<string, unknown>, string[]] => [`issuer ${issuer}`, { issuer }, ['/issuer']]),
    ['discoveryUrl', { discoveryUrl: 'file:///etc' }, ['/discoveryUrl']],
    ['auth method, no secret', { tokenEndpointAuthMethod: 'x', clientSecret: undefined }, ['/tokenEndpointAuthMethod']],
    ['auth method', { tokenEndpointAuthMethod: 'client_secret_jwt' }, ['/tokenEndpointAuthMethod']],
    ['scope with a space', { scopes: ['openid', 'a b'] }, ['/scopes/1']],
    ['scope with a quote', { scopes: ['openid', 'a"b'] }, ['/scopes/1']],
    ['no callback URLs', { callbackUrls: [] }, ['/callbackUrls']],
    [
      'callback URL',
      { callbackUrls: ['https://*.example.com', 'http://a.example.com'] },
      ['/callbackUrls/0', '/callbackUrls/1'],
    ],
    [
      'callback URL with dots between its slashes',
      { callbackUrls: ['https://a.example.com/b/../c', 'https://a.example.com/%2e'] },
      ['/callbackUrls/0', '/callbackUrls/1'],
    ],
    ['return URL', { returnUrls: ['https://a.example.com/#a'] }, ['/returnUrls/0']],
    ['protocol parameter', { parameters: { audience: 'a', Redirect_URI: 'b' } }, ['/parameters/Redirect_URI']],
    [
      'protocol parameter of the token request',
      { tokenParameters: { refresh_token: 'a' } },
      ['/tokenParameters/refresh_token'],
    ],
    ['path of nested tokens', { tokenPath: 'a..b' }, ['/tokenPath']],
    ['unknown field', { client_secret: 'x' }, ['whole entry']],
    ['unknown endpoint', { endpoints: { tokens: 'https://a.example.com' } }, ['/endpoints']],
    [
      'authorization without token',
      { endpoints: { authorization: 'https://a.example.com' } },
      ['/endpoints/token', '/endpoints/jwks'],
    ],
    [
      'token without authorization',
      { endpoints: { token: 'https://a.example.com' } },
      ['/endpoints/authorization', '/endpoints/jwks'],
    ],
    [
      'sign-in by hand without keys',
      { endpoints: { token: 'https://a.example.com', authorization: 'https://a.example.com' } },
      ['/endpoints/jwks'],
    ],
    ['sign-in without openid', { scopes: ['profile'] }, ['/scopes']],
    ['sign-in for nobody', { signIn: {} }, ['/signIn/allow']],
    ['sign-in without values', { signIn: { allow: { claim: 'groups', values: [] } } }, ['/signIn/allow/values']],
    [
      'hosts of calls without an API base URL',
      { apiBaseUrlFrom: { member: 'instance_url', hosts: ['.my.example.com'] } },
      ['/apiBaseUrl'],
    ],
    [
      'hosts of calls, none of them',
      { apiBaseUrl: 'https://api.example.com', apiBaseUrlFrom: { member: 'instance_url', hosts: [] } },
      ['/apiBaseUrlFrom/hosts'],
    ],
    [
      'hosts of calls, not named',
      { apiBaseUrl: 'https://api.example.com', apiBaseUrlFrom: { member: 'instance_url' } },
      ['/apiBaseUrlFrom/hosts'],
    ],
    [
      'hosts of calls in another member, everywhere',
      { apiBaseUrl: 'https://api.example.com', apiBaseUrlFrom: { member: 'access_token', hosts: ['*'] } },
      ['/apiBaseUrlFrom/member', '/apiBaseUrlFrom/hosts/0'],
    ],
    ['thread path with dots', { threadPath: '/1/../admin' }, ['/threadPath']],
    ['thread path with query', { threadPath: '/1?a=b' }, ['/threadPath']],
    ['prompt that shows no page', { prompt: ['none'] }, ['/prompt/0']],
    ['prompt as text', { prompt: 'consent' }, ['/prompt']],
    ['prompt without a value', { prompt: [] }, ['/prompt']],
    ['account without a member', { account: { url: 'https://a.example.com/me' } }, ['/account/field']],
    [
      'account without a URL',
      {
        ...{ signIn: undefined, account: { field: 'id' } },
        endpoints: { authorization: 'https://a.example.com/a', token: 'https://a.example.com/t' },
      },
      ['/account/url'],
    ],
    ['lifetime', { accessTokenLifetimeSeconds: 0 }, ['/accessTokenLifetimeSeconds']],
    ['api base with query', { apiBaseUrl: 'https://a.example.com?x' }, ['/apiBaseUrl']],
    ['secret in the file', { clientSecret: SECRET }, ['/clientSecret']],
    ['secret missing', { clientSecret: undefined }, ['/clientSecret']],
    ['secret elsewhere missing', { clientSecret: { env: 'NOT_SET' } }, ['/clientSecret', '/clientSecret']],
    ['secret elsewhere empty', { clientSecret: { env: 'EMPTY' } }, ['/clientSecret', '/clientSecret']],
    ['secret file missing', { clientSecret: { file: '/nowhere' } }, ['/clientSecret', '/clientSecret']],
  ])('%s', (_what, changes, expected) => {
    const { faults } = parse([{ ...GOOD, ...changes }]);
    expect(new Set(places(faults))).toEqual(new Set(expected));
    for (const fault of faults) expect(fault).toMatch(/: \S.{8,}\.$/);
    expect(faults.join()).not.toContain(SECRET);
  });

  test.each([
    [{ env: 'NOT_SET' }, 'the variable NOT_SET is not set.'],
    [{ env: 'EMPTY' }, 'the variable EMPTY is empty.'],
    [{ env: SECRET.replaceAll('-', '_') }, 'the variable that it names is not set.'],
    [{ file: '/run/denied' }, '/run/denied: this user has no permission for it. Check its owner'],
    [{ file: '/run/none' }, '/run/none: there is no such file or folder.'],
    [{ file: '/run/empty' }, '/run/empty is empty.'],
    [{ file: '/run/lines' }, '/run/lines has more than one line.'],
    [{ env: 'LINES' }, 'the variable LINES has more than one line.'],
    [{ file: '/run/strange' }, '/run/strange cannot be read.'],
    [{ file: SECRET }, 'the file that it names: there is no such file or folder.'],
  ])('name the location of a client secret that cannot be read, and why: %o', (clientSecret, expected) => {
    const codes: Record<string, string> = { '/run/denied': 'EACCES', '/run/strange': 'ESTRANGE' };
    const readFile = (path: string) => {
      if (path === '/run/empty') return ' \n';
      if (path === '/run/lines') return `${SECRET}\nas-gatehouse npm run\n`;
      throw Object.assign(new Error(path), { code: codes[path] ?? 'ENOENT' });
    };
    const { faults } = parseConnectedApps(JSON.stringify([{ ...GOOD, clientSecret }]), {
      env: { EMPTY: ' ', LINES: `${SECRET}\r\n${SECRET}` },
      readFile,
    });
    expect(faults[0]).toContain(`app 1 (platform), /clientSecret: ${expected}`);
  });

  test('of all apps are reported at once, including secrets and ids', () => {
    const { faults } = parse([
      { ...GOOD, id: '!', clientSecret: { env: 'NOT_SET' }, scopes: ['profile'], callbackUrls: ['*', '#'] },
      { ...GOOD, issuer: 'x' },
      GOOD,
      { ...GOOD, name: '' },
    ]);
    const text = faults.join('\n');
    for (const part of [
      'app 1, /id',
      'app 1, /clientSecret',
      'app 1, /scopes',
      'app 1, /callbackUrls/0',
      'app 1, /callbackUrls/1',
      'app 2 (platform), /issuer',
      'app 4 (platform), /name',
      'the id "platform" is used twice',
    ]) {
      expect(text).toContain(part);
    }
    expect(faults.filter((fault) => fault.includes('used twice'))).toHaveLength(2);
  });

  test('an entry that is not an object has one fault', () => {
    for (const entry of [5, null, 'text', []]) expect(parse([entry]).faults).toHaveLength(1);
  });

  test.each(['{"id":"platform"}', 'null', '7', '"text"'])('%s is not a list of apps', (text) => {
    expect(parse(text)).toEqual({
      apps: [],
      faults: ['CONNECTED_APPS_FILE must hold a JSON array of connected apps.'],
      faultyIds: [undefined],
    });
  });

  test('R22 do not repeat text that is not JSON', () => {
    const { faults } = parse(`[{"clientSecret": ${SECRET}}]`);
    expect(faults).toHaveLength(1);
    expect(faults[0]).not.toContain('canary');
  });

  test('R22 never contain a value of the file, and nothing throws', () => {
    const canary = fc.constantFrom(
      SECRET,
      `${SECRET} x`,
      `https://${SECRET}@a`,
      { env: `${SECRET}!` },
      { file: SECRET },
    );
    const value = fc.oneof(
      canary,
      fc.array(canary),
      fc.jsonValue() as fc.Arbitrary<unknown>,
      fc.constant({ allow: SECRET }),
    );
    const changes = fc.dictionary(fc.constantFrom(...Object.keys(GOOD), 'endpoints', 'parameters', 'refresh'), value);
    fc.assert(
      fc.property(changes, (changed) => {
        for (const fault of parse([{ ...GOOD, ...changed }]).faults) expect(fault).not.toContain('canary');
      }),
      { numRuns: 500 },
    );
  });
});

test.each([{}, { allow: 'all' }, { allow: { claim: 'groups', values: 'staff' } }])(
  'a faulty rule for who may sign in gets advice: %o',
  (signIn) => {
    expect(faultsOf({ signIn }).join()).toContain('/signIn/allow: Enter "everyone", or {"claim": ');
  },
);

test('lists the ids of apps with faults, or undefined without an id', () => {
  expect(
    parse([
      { ...GOOD, name: '' },
      { ...GOOD, id: '!' },
      { ...GOOD, id: 'good' },
    ]).faultyIds,
  ).toEqual(['platform', undefined]);
});

describe('R79: a URL that must not be called is a fault at the start', () => {
  const HTTPS = 'must begin with https://, or be on a loopback host that INTERNAL_HOSTS names';
  const PRIVATE = 'add the host to INTERNAL_HOSTS';
  const PRIVATE_ENDPOINTS = { revocation: 'https://10.0.0.1/r', userinfo: 'https://idp.example.com/u' };
  test.each<[Record<string, unknown>, string, string]>([
    [{ issuer: 'http://idp.example.com' }, '/issuer', HTTPS],
    [{ discoveryUrl: 'http://localhost/d' }, '/discoveryUrl', HTTPS],
    [{ apiBaseUrl: 'http://127.0.0.1:3002' }, '/apiBaseUrl', PRIVATE],
    [{ apiBaseUrl: 'https://169.254.169.254' }, '/apiBaseUrl', 'may never be called'],
    [{ endpoints: PRIVATE_ENDPOINTS }, '/endpoints/revocation', PRIVATE],
    [{ account: { field: 'id', url: 'https://10.0.0.8/me' } }, '/account/url', PRIVATE],
  ])('%o', (changes, place, advice) => {
    expect(faultsUnder([], changes)).toEqual([expect.stringContaining(`app 1 (platform), ${place}: `)]);
    expect(faultsUnder([], changes)[0]).toContain(advice);
  });

  test('allows hosts in INTERNAL_HOSTS, and reports a malformed URL once', () => {
    const issuer = 'http://localhost:3001';
    expect(faultsUnder(['localhost', '127.0.0.1'], { issuer, apiBaseUrl: 'http://127.0.0.1:3002' })).toEqual([]);
    expect(faultsUnder([], { issuer: 'idp.example.com' })).toHaveLength(1);
  });
});

describe('R3: a parameter of the protocol cannot be set, in any case', () => {
  test.each([...PROTOCOL_PARAMETERS])('%s', (name) => {
    expect(faultsOf({ parameters: { [name]: 'x' } })).toHaveLength(1);
    expect(faultsOf({ parameters: { [name.toUpperCase()]: 'x' } })).toHaveLength(1);
    expect(faultsOf({ tokenParameters: { [name]: 'x' } })).toHaveLength(1);
  });

  test('a parameter with its own field is refused with the name of the field', () => {
    expect(faultsOf({ parameters: { prompt: 'login' } })[0]).toContain('set prompt instead');
  });

  test('resource and audience can be set', () => {
    const both = { resource: 'https://api.example.com', audience: 'api' };
    expect(faultsOf({ parameters: both, tokenParameters: both })).toEqual([]);
  });

  test('resource cannot be set if the app declares resources', () => {
    const both = { resource: 'https://api.example.com', audience: 'api' };
    const faults = faultsOf({ resources: ['https://api.example.com'], parameters: both, tokenParameters: both });
    expect(faults.map((fault) => /(\w+)\/resource: remove it: .* are sent/.exec(fault)?.[1])).toEqual([
      'parameters',
      'tokenParameters',
    ]);
  });
});

describe('RFC 8707: a resource is an absolute URI without fragment', () => {
  test.each([['https://api.example.com/'], ['urn:example:reports'], ['https://api.example.com/v1?tenant=7']])(
    '%s',
    (resource) => {
      expect(faultsOf({ resources: [resource] })).toEqual([]);
    },
  );

  test.each([
    ['a fragment', ['https://api.example.com/#part']],
    ['a path alone', ['/v1']],
    ['a host alone', ['api.example.com']],
    ['a space', ['https://api.example.com/a b']],
    ['none', []],
    ['eleven', Array.from({ length: 11 }, (_, n) => `https://api.example.com/${n}`)],
    ['one of 501 characters', [`urn:${'x'.repeat(497)}`]],
  ])('not %s', (_what, resources) => {
    expect(faultsOf({ resources })).toHaveLength(1);
  });
});

describe('a registration', () => {
  const [app] = parse([GOOD]).apps;
  if (!app) throw new Error('The good entry was refused.');

  test('R5 has a redirect URI with the id of the app', () => {
    expect(callbackUrlOf('platform', 'https://g.example.com/base')).toBe(
      'https://g.example.com/base/oauth/callback/platform',
    );
  });

  test('is usable only if it has exactly that URL', () => {
    expect(isUsable(app, 'https://gatehouse.example.com')).toBe(true);
    for (const publicUrl of [
      'https://GATEHOUSE.example.com',
      'http://gatehouse.example.com',
      'https://gatehouse.example.com/',
    ]) {
      expect(isUsable(app, publicUrl)).toBe(false);
    }
  });

  test('expects an ID token only with the scope openid', () => {
    expect([isOpenIdApp(app), isOpenIdApp({ ...app, scopes: ['openid2', 'profile'] })]).toEqual([true, false]);
  });
});
