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
const VALID_ENTRY = {
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
    readFile: (path) => files[path] ?? throwNotFound(path),
  });
}

function throwNotFound(path: string): string {
  throw new Error(`ENOENT ${path}`);
}

/** The faults of the valid entry with these changes. */
function faultsWithInternalHosts(internalHosts: string[], changes: Record<string, unknown>): string[] {
  const source = { env: { PLATFORM_CLIENT_SECRET: SECRET }, readFile: throwNotFound };
  return parseConnectedApps(JSON.stringify([{ ...VALID_ENTRY, ...changes }]), source, {
    policy: createAddressPolicy(internalHosts),
  }).faults;
}

test('R71 on its own host, Gatehouse receives the callbacks of an app at one URL only', () => {
  const faultsWith = (callbackUrls: string[], publicHref?: string) =>
    parseConnectedApps(
      JSON.stringify([{ ...VALID_ENTRY, id: 'platform', callbackUrls }]),
      { env: { PLATFORM_CLIENT_SECRET: SECRET }, readFile: throwNotFound },
      { publicHref },
    ).faults;
  const [own, near] = ['platform', 'Platform/'].map((id) => `https://gate.test/oauth/callback/${id}`) as [
    string,
    string,
  ];
  expect(faultsWith([near], 'https://gate.test')).toEqual([
    `CONNECTED_APPS_FILE, app 1 (platform), /callbackUrls/0: Did you mean ${own}? Providers compare every character.`,
  ]);
  expect(faultsWith([own, 'https://other.test/cb'], 'https://gate.test')).toEqual([]);
  expect(faultsWith([near], 'https://other.test')).toEqual([]);
  expect(faultsWith([near])).toEqual([]);
});

const faultsOf = (changes: Record<string, unknown>) => parse([{ ...VALID_ENTRY, ...changes }]).faults;
/** The pointer to the faulty field in each fault, such as `/scopes/1`. */
const pointersOf = (faults: string[]) => faults.map((fault) => /, (\/[^:]*|whole entry):/.exec(fault)?.[1]);

test('warns of example values from the documentation', () => {
  const warningsOf = (changes: object, secret = SECRET) =>
    placeholderWarnings(
      parseConnectedApps(JSON.stringify([{ ...VALID_ENTRY, issuer: 'https://idp.test', ...changes }]), {
        env: { PLATFORM_CLIENT_SECRET: secret },
        readFile: throwNotFound,
      }).apps,
    );
  expect(warningsOf({ apiBaseUrl: 'https://platform.test', clientId: 'the client' })).toEqual([]);

  const exampleValues = {
    issuer: 'https://example.my.example.com',
    clientId: 'the client ID',
    apiBaseUrl: 'https://example.com/v1',
  };
  expect(warningsOf(exampleValues, 'the-secret-that-the-provider-gave')).toEqual([
    'the app "platform" still has example values from the documentation in issuer, clientId, clientSecret, apiBaseUrl.',
  ]);
});

test('reads the valid entries of a file, and lists the ids of the faulty ones', () => {
  const { apps, faults, faultyIds } = parse([VALID_ENTRY, { ...VALID_ENTRY, id: 'second', issuer: 'no address' }, 7]);
  expect(apps.map(({ id }) => id)).toEqual(['platform']);
  expect(faults.length).toBeGreaterThanOrEqual(2);
  expect(faultyIds).toEqual(['second', undefined]);
});

describe('a valid entry', () => {
  test('becomes a frozen app with its secret and the default settings', () => {
    const { apps, faults } = parse([VALID_ENTRY]);
    expect(faults).toEqual([]);
    expect(apps).toEqual([
      {
        ...VALID_ENTRY,
        clientSecret: SECRET,
        tokenEndpointAuthMethod: 'client_secret_basic',
        threadPath: '/1/threads/current',
        routes: [],
        returnUrls: [],
        endsEarlierTokens: false,
        providerSignOut: true,
        par: 'auto',
        dpop: 'auto',
        disabled: false,
      },
    ]);
    expect(Object.isFrozen(apps[0])).toBe(true);
  });

  test('can read its secret from a file that ends with a line break', () => {
    const { apps, faults } = parse([{ ...VALID_ENTRY, clientSecret: { file: '/run/s' } }], { '/run/s': `${SECRET}\n` });
    expect([faults, apps[0]?.clientSecret]).toEqual([[], SECRET]);
  });

  test('may have return URLs', () => {
    const returnUrls = ['https://app.example.com/welcome', 'https://app.example.com/settings?tab=access'];
    const { apps, faults } = parse([{ ...VALID_ENTRY, returnUrls }]);
    expect([faults, apps[0]?.returnUrls]).toEqual([[], returnUrls]);
  });

  test('of a public client has no secret', () => {
    const { clientSecret: _, ...rest } = VALID_ENTRY;
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

  const signInByClaim = (claim: string, ...values: string[]) => ({ signIn: { allow: { claim, values } } });
  test.each<[string, Record<string, unknown>, string[]]>([
    ['used only for connections', { signIn: undefined }, ['/signIn']],
    ['for everyone', { signIn: { allow: 'everyone' } }, ['/signIn']],
    ['for members of groups', signInByClaim('groups', 'staff'), ['/signIn']],
    ['that requests no ID token', { scopes: ['profile'] }, ['/scopes']],
    [
      'whose tenant IDs contain a slash or a brace',
      signInByClaim('tid', 'a', 'b/../c', '{tenantid}'),
      ['/signIn/allow/values/1', '/signIn/allow/values/2'],
    ],
    ['whose tenant ID is too long', signInByClaim('tid', 'a'.repeat(65)), ['/signIn/allow/values/0']],
    ['without a discovery URL', { discoveryUrl: undefined }, ['/discoveryUrl']],
    ['with a faulty sign-in rule, which is reported once', { signIn: { allow: 'nobody' } }, ['/signIn/allow']],
  ])('is refused in an app %s', (_description, changes, expectedPointers) => {
    const faults = faultsOf({ ...TEMPLATE, ...changes });

    expect(pointersOf(faults)).toEqual(expectedPointers);
    if (expectedPointers[0] === '/signIn') {
      expect(faults[0]).toContain('{"allow": {"claim": "tid", "values": ["TENANT ID"]}}');
    }
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
      'https://{tenantid}/v2.0',
      'https://{tenantid}.example.com',
      'https://idp.example.com/t-{tenantid}/v2.0',
      'https://idp.example.com/{tenant}/v2.0',
      'https://idp.example.com/{tenantid}/{tenantid}',
      'https://idp.example.com/{tenantid}x',
      'https://idp.example.com/{TenantID}',
      'https://idp.example.com/{',
    ].map((issuer): [string, Record<string, unknown>, string[]] => [`issuer ${issuer}`, { issuer }, ['/issuer']]),
    ['discoveryUrl of a file', { discoveryUrl: 'file:///etc' }, ['/discoveryUrl']],
    [
      'unknown authentication method without a secret',
      { tokenEndpointAuthMethod: 'x', clientSecret: undefined },
      ['/tokenEndpointAuthMethod'],
    ],
    [
      'unsupported authentication method',
      { tokenEndpointAuthMethod: 'client_secret_jwt' },
      ['/tokenEndpointAuthMethod'],
    ],
    ['scope with a space', { scopes: ['openid', 'a b'] }, ['/scopes/1']],
    ['scope with a quote', { scopes: ['openid', 'a"b'] }, ['/scopes/1']],
    ['no callback URLs', { callbackUrls: [] }, ['/callbackUrls']],
    [
      'callback URL with a wildcard, and one without TLS',
      { callbackUrls: ['https://*.example.com', 'http://a.example.com'] },
      ['/callbackUrls/0', '/callbackUrls/1'],
    ],
    [
      'callback URL with dots as a path segment',
      { callbackUrls: ['https://a.example.com/b/../c', 'https://a.example.com/%2e'] },
      ['/callbackUrls/0', '/callbackUrls/1'],
    ],
    ['return URL with a fragment', { returnUrls: ['https://a.example.com/#a'] }, ['/returnUrls/0']],
    ['protocol parameter', { parameters: { audience: 'a', Redirect_URI: 'b' } }, ['/parameters/Redirect_URI']],
    [
      'protocol parameter of the token request',
      { tokenParameters: { refresh_token: 'a' } },
      ['/tokenParameters/refresh_token'],
    ],
    ['path of nested tokens with an empty segment', { tokenPath: 'a..b' }, ['/tokenPath']],
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
      'sign-in with endpoints set by hand, without keys',
      { endpoints: { token: 'https://a.example.com', authorization: 'https://a.example.com' } },
      ['/endpoints/jwks'],
    ],
    ['sign-in without openid', { scopes: ['profile'] }, ['/scopes']],
    ['sign-in without a rule', { signIn: {} }, ['/signIn/allow']],
    ['sign-in without values', { signIn: { allow: { claim: 'groups', values: [] } } }, ['/signIn/allow/values']],
    [
      'API hosts without an API base URL',
      { apiBaseUrlFrom: { member: 'instance_url', hosts: ['.my.example.com'] } },
      ['/apiBaseUrl'],
    ],
    [
      'API hosts as an empty list',
      { apiBaseUrl: 'https://api.example.com', apiBaseUrlFrom: { member: 'instance_url', hosts: [] } },
      ['/apiBaseUrlFrom/hosts'],
    ],
    [
      'API hosts left out',
      { apiBaseUrl: 'https://api.example.com', apiBaseUrlFrom: { member: 'instance_url' } },
      ['/apiBaseUrlFrom/hosts'],
    ],
    [
      'any API host, in a member that must not name it',
      { apiBaseUrl: 'https://api.example.com', apiBaseUrlFrom: { member: 'access_token', hosts: ['*'] } },
      ['/apiBaseUrlFrom/member', '/apiBaseUrlFrom/hosts/0'],
    ],
    ['thread path with dots', { threadPath: '/1/../admin' }, ['/threadPath']],
    ['thread path with query', { threadPath: '/1?a=b' }, ['/threadPath']],
    ['routes without a platform', { routes: [{ name: 'a', method: 'GET', path: '/a' }] }, ['/apiBaseUrl']],
    [
      'a route with a scope that the app lacks',
      {
        apiBaseUrl: 'https://api.example.com',
        routes: [{ name: 'a', method: 'GET', path: '/a', scopes: ['openid', 'write'] }],
      },
      ['/routes/0/scopes'],
    ],
    [
      'a route for the calls of the current thread',
      {
        apiBaseUrl: 'https://api.example.com',
        threadPath: '/1/me',
        routes: [
          { name: 'a', method: 'GET', path: '/1/{id}' },
          { name: 'b', method: 'GET', path: '/1/me' },
          { name: 'c', method: 'PUT', path: '/1/me' },
        ],
      },
      ['/routes/1/path'],
    ],
    ['prompt that shows no page', { prompt: ['none'] }, ['/prompt/0']],
    ['prompt as text', { prompt: 'consent' }, ['/prompt']],
    ['prompt without a value', { prompt: [] }, ['/prompt']],
    ['account without a member', { account: { url: 'https://a.example.com/me' } }, ['/account/field']],
    [
      'account without a URL',
      {
        signIn: undefined,
        account: { field: 'id' },
        endpoints: { authorization: 'https://a.example.com/a', token: 'https://a.example.com/t' },
      },
      ['/account/url'],
    ],
    ['lifetime of 0 s', { accessTokenLifetimeSeconds: 0 }, ['/accessTokenLifetimeSeconds']],
    ['API base URL with a query', { apiBaseUrl: 'https://a.example.com?x' }, ['/apiBaseUrl']],
    ['secret in the file', { clientSecret: SECRET }, ['/clientSecret']],
    ['secret missing', { clientSecret: undefined }, ['/clientSecret']],
    ['secret in a variable that is not set', { clientSecret: { env: 'NOT_SET' } }, ['/clientSecret', '/clientSecret']],
    ['secret in an empty variable', { clientSecret: { env: 'EMPTY' } }, ['/clientSecret', '/clientSecret']],
    [
      'secret in a file that does not exist',
      { clientSecret: { file: '/nowhere' } },
      ['/clientSecret', '/clientSecret'],
    ],
  ])('%s', (_description, changes, expectedPointers) => {
    const faults = faultsOf(changes);

    expect(new Set(pointersOf(faults))).toEqual(new Set(expectedPointers));
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
    const errorCodes: Record<string, string> = { '/run/denied': 'EACCES', '/run/strange': 'ESTRANGE' };
    const readFile = (path: string) => {
      if (path === '/run/empty') return ' \n';
      if (path === '/run/lines') return `${SECRET}\nas-gatehouse npm run\n`;
      throw Object.assign(new Error(path), { code: errorCodes[path] ?? 'ENOENT' });
    };

    const { faults } = parseConnectedApps(JSON.stringify([{ ...VALID_ENTRY, clientSecret }]), {
      env: { EMPTY: ' ', LINES: `${SECRET}\r\n${SECRET}` },
      readFile,
    });

    expect(faults[0]).toContain(`app 1 (platform), /clientSecret: ${expected}`);
  });

  test('of all apps are reported together, including those of secrets and ids', () => {
    const { faults } = parse([
      { ...VALID_ENTRY, id: '!', clientSecret: { env: 'NOT_SET' }, scopes: ['profile'], callbackUrls: ['*', '#'] },
      { ...VALID_ENTRY, issuer: 'x' },
      VALID_ENTRY,
      { ...VALID_ENTRY, name: '' },
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
      `HTTPS://${SECRET}@ü.test/?${SECRET}`,
      `https://ü.test/?${SECRET}`,
      { env: `${SECRET}!` },
      { file: SECRET },
    );
    const value = fc.oneof(
      canary,
      fc.array(canary),
      fc.jsonValue() as fc.Arbitrary<unknown>,
      fc.constant({ allow: SECRET }),
    );
    const field = fc.constantFrom(...Object.keys(VALID_ENTRY), 'endpoints', 'parameters', 'refresh');
    fc.assert(
      fc.property(fc.dictionary(field, value), (changes) => {
        for (const fault of faultsOf(changes)) expect(fault).not.toContain('canary');
      }),
      { numRuns: 500 },
    );
  });
});

test.each([{}, { allow: 'all' }, { allow: { claim: 'groups', values: 'staff' } }])(
  'the fault of a sign-in rule shows valid rules: %o',
  (signIn) => {
    expect(faultsOf({ signIn }).join()).toContain('/signIn/allow: Enter "everyone", or {"claim": ');
  },
);

test('lists the ids of apps with faults, or undefined if the id itself is faulty', () => {
  const { faultyIds } = parse([
    { ...VALID_ENTRY, name: '' },
    { ...VALID_ENTRY, id: '!' },
    { ...VALID_ENTRY, id: 'good' },
  ]);

  expect(faultyIds).toEqual(['platform', undefined]);
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
  ])('%o', (changes, pointer, advice) => {
    const faults = faultsWithInternalHosts([], changes);

    expect(faults).toEqual([expect.stringContaining(`app 1 (platform), ${pointer}: `)]);
    expect(faults[0]).toContain(advice);
  });

  test('but hosts in INTERNAL_HOSTS are allowed, and a malformed URL is reported once', () => {
    const issuer = 'http://localhost:3001';
    expect(
      faultsWithInternalHosts(['localhost', '127.0.0.1'], { issuer, apiBaseUrl: 'http://127.0.0.1:3002' }),
    ).toEqual([]);
    expect(faultsWithInternalHosts([], { issuer: 'idp.example.com' })).toHaveLength(1);
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
    const parameters = { resource: 'https://api.example.com', audience: 'api' };
    expect(faultsOf({ parameters, tokenParameters: parameters })).toEqual([]);
  });

  test('resource cannot be set if the app declares resources', () => {
    const parameters = { resource: 'https://api.example.com', audience: 'api' };
    const faults = faultsOf({ resources: ['https://api.example.com'], parameters, tokenParameters: parameters });

    const refusedFields = faults.map((fault) => /(\w+)\/resource: remove it: .* are sent/.exec(fault)?.[1]);
    expect(refusedFields).toEqual(['parameters', 'tokenParameters']);
  });
});

describe('RFC 8707: a resource is an absolute URI without fragment', () => {
  test.each([['https://api.example.com/'], ['urn:example:reports'], ['https://api.example.com/v1?tenant=7']])(
    'accepts %s',
    (resource) => {
      expect(faultsOf({ resources: [resource] })).toEqual([]);
    },
  );

  test.each([
    ['a fragment', ['https://api.example.com/#part']],
    ['only a path', ['/v1']],
    ['only a host', ['api.example.com']],
    ['a space', ['https://api.example.com/a b']],
    ['an empty list', []],
    ['eleven resources', Array.from({ length: 11 }, (_, n) => `https://api.example.com/${n}`)],
    ['a resource of 501 characters', [`urn:${'x'.repeat(497)}`]],
  ])('refuses %s', (_description, resources) => {
    expect(faultsOf({ resources })).toHaveLength(1);
  });
});

describe('a registration', () => {
  const [app] = parse([VALID_ENTRY]).apps;
  if (!app) throw new Error('The valid entry was refused.');

  test('R5 has a redirect URI with the id of the app', () => {
    expect(callbackUrlOf('platform', 'https://g.example.com/base')).toBe(
      'https://g.example.com/base/oauth/callback/platform',
    );
  });

  test('is usable only if its callback URL is exactly that URL', () => {
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
