import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../../src/shared/config/config.ts';
import { isLoopbackHost } from '../../../src/shared/config/rules.ts';
import { SETTINGS } from '../../../src/shared/config/settings.ts';
import { anyText } from '../../support/any-text.ts';

const SECRET = 'kJ8sLq2Zx9Vb4Nm7Qw1Er6Ty3Ui5Op0As';
const REQUIRED = { PUBLIC_URL: 'https://gatehouse.example.com', SESSION_SECRETS: SECRET, ENCRYPTION_KEYS: 'k1:abc' };
const throwMissingFile = (path: string): string => {
  throw new Error(`no file ${path}`);
};

function load(env: Record<string, string | undefined>, files: Record<string, string> = {}) {
  const readFile = (path: string) => files[path] ?? throwMissingFile(path);
  return loadConfig({ env, readFile });
}

const faultsOf = (changes: Record<string, string | undefined>, files?: Record<string, string>) =>
  load({ ...REQUIRED, ...changes }, files).faults;

describe('defaults', () => {
  test('equal those of the documentation', () => {
    expect(load(REQUIRED).config).toEqual({
      publicUrl: {
        href: 'https://gatehouse.example.com',
        origin: 'https://gatehouse.example.com',
        host: 'gatehouse.example.com',
        basePath: '',
        secure: true,
      },
      listen: { host: '127.0.0.1', port: 3000 },
      management: { host: '127.0.0.1', port: 3009 },
      sessionSecrets: [SECRET],
      encryptionKeys: 'k1:abc',
      dataDirectory: './data',
      redis: undefined,
      authorities: [],
      connectedAppsFile: undefined,
      admin: { app: undefined, claim: 'groups', values: [] },
      trustedProxies: [],
      internalHosts: [],
      proxy: undefined,
      outbound: { concurrency: 64, waiting: 1_000 },
      pages: { operatorName: 'Gatehouse', supportContact: undefined },
      session: { idleSeconds: 1800, maxSeconds: 28_800 },
      bin: { datasetFile: undefined, service: undefined },
      connectionCheckSeconds: 86_400,
      auditDays: 365,
      rateLimits: { address: 30_000, signIns: 60, session: 6_000, relayToken: 6_000 },
      shutdown: { delaySeconds: 0, graceSeconds: 25 },
      logLevel: 'info',
      accessLog: false,
      tracing: undefined,
      sandboxPort: 3001,
    });
  });

  test('do not exist for PUBLIC_URL and secrets', () => {
    for (const name of ['PUBLIC_URL', 'SESSION_SECRETS', 'ENCRYPTION_KEYS']) {
      const faults = faultsOf({ [name]: undefined });
      expect(faults).toHaveLength(1);
      expect(faults[0]).toMatch(new RegExp(`^${name} is required: `));
      expect(faultsOf({ [name]: '  ' })).toEqual(faults);
    }
  });

  test('the settings are deeply frozen', () => {
    const { config } = load({ ...REQUIRED, TRUSTED_PROXIES: '10.0.0.0/8' });
    expect(Object.isFrozen(config)).toBe(true);
    expect(Object.isFrozen(config?.publicUrl)).toBe(true);
    expect(Object.isFrozen(config?.trustedProxies)).toBe(true);
  });
});

test('reports all faults at once, each with the name of its setting', () => {
  const invalidSettings: Record<string, string> = {
    PUBLIC_URL: 'http://gatehouse.example.com',
    PORT: '70000',
    MANAGEMENT_PORT: '-1',
    SESSION_SECRETS: 'short',
    ADMIN_ACR: 'mfa otp',
    TRUSTED_PROXIES: '10.0.0.0/8,somewhere',
    INTERNAL_HOSTS: '8.8.8.8',
    HTTPS_PROXY: 'socks5://proxy',
    OUTBOUND_CONCURRENT_CALLS: '0',
    OUTBOUND_WAITING_CALLS: '-1',
    SESSION_IDLE_SECONDS: '7200',
    SESSION_MAX_SECONDS: '3600',
    BIN_SERVICE_URL: 'ftp://bins',
    BIN_SERVICE_AUTH: 'digest',
    BIN_SERVICE_MONTHLY_QUOTA: '1e3',
    REDIS_TIMEOUT_MS: '299',
    SHUTDOWN_SECONDS: '0',
    SHUTDOWN_DELAY_SECONDS: '-1',
    LOG_LEVEL: 'loud',
    OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318',
    OTEL_EXPORTER_OTLP_HEADERS: 'no pair',
    OTEL_TRACES_SAMPLER: 'sometimes',
    OTEL_TRACES_SAMPLER_ARG: '1.5',
    SANDBOX_PORT: '65534',
  };
  const faults = load(invalidSettings).faults;
  const namedSettings = new Set(faults.map((fault) => fault.split(/[ :]/)[0]));
  // ENCRYPTION_KEYS is missing.
  const expectedNames = new Set([...Object.keys(invalidSettings), 'ENCRYPTION_KEYS']);
  // The fault of SESSION_IDLE_SECONDS is that it exceeds SESSION_MAX_SECONDS, which has no fault of its own.
  expectedNames.delete('SESSION_MAX_SECONDS');
  expect(namedSettings).toEqual(expectedNames);
  expect(load(invalidSettings).config).toBeUndefined();
});

test('returns the valid values next to the faults', () => {
  const { values } = load(
    { SESSION_SECRETS: 'short', ENCRYPTION_KEYS_FILE: '/run/k', ADMIN_APP: 'platform', REDIS_URL: 'redis://a' },
    { '/run/k': 'k1:abc\n' },
  );
  expect(values).toMatchObject({ encryptionKeys: 'k1:abc', admin: { app: 'platform' }, redis: { url: 'redis://a' } });
});

describe('PORT and MANAGEMENT_PORT', () => {
  test.each([
    { PORT: '3009' },
    { MANAGEMENT_PORT: '3000' },
    { PORT: '4000', MANAGEMENT_PORT: '4000', HOST: 'LOCALHOST', MANAGEMENT_HOST: 'localhost' },
    { PORT: '4000', MANAGEMENT_PORT: '4000', HOST: '0.0.0.0' },
  ])('cannot be the same port of one host: %o', (changes) => {
    expect(faultsOf(changes)).toEqual([expect.stringMatching(/^PORT and MANAGEMENT_PORT are both \d+ on one host: /)]);
  });

  test.each([
    { PORT: '0', MANAGEMENT_PORT: '0' },
    { PORT: '4000', MANAGEMENT_PORT: '4000', MANAGEMENT_HOST: '127.0.0.2' },
  ])('can be the same port of two hosts, or 0: %o', (changes) => {
    expect(faultsOf(changes)).toEqual([]);
  });

  test('an invalid port causes one fault only', () => {
    expect(faultsOf({ PORT: '70000', MANAGEMENT_PORT: '3000' })).toHaveLength(1);
  });
});

describe('PUBLIC_URL', () => {
  test.each([
    ['https://gatehouse.example.com/', 'https://gatehouse.example.com', ''],
    ['https://gatehouse.example.com:8443', 'https://gatehouse.example.com:8443', ''],
    [
      'https://example.com/apps/gate-house_1.2~3/',
      'https://example.com/apps/gate-house_1.2~3',
      '/apps/gate-house_1.2~3',
    ],
    ['HTTPS://Example.COM/Path', 'https://example.com/Path', '/Path'],
    ['http://127.0.0.1:3000', 'http://127.0.0.1:3000', ''],
    ['http://[::1]:3000', 'http://[::1]:3000', ''],
    ['http://localhost', 'http://localhost', ''],
    ['https://bücher.example', 'https://xn--bcher-kva.example', ''],
    ['https://BÜCHER.Example./gate', 'https://xn--bcher-kva.example/gate', '/gate'],
    ['https://bu\u0308cher.example:8443', 'https://xn--bcher-kva.example:8443', ''],
    ['https://例え。jp', 'https://xn--r8jz45g.jp', ''],
    ['https://gatehouse.example.com:443', 'https://gatehouse.example.com', ''],
    ['https://gatehouse.example.com.', 'https://gatehouse.example.com', ''],
    ['https://gatehouse.example.com.:8443', 'https://gatehouse.example.com:8443', ''],
    ['http://BÜCHER.localhost.:3000', 'http://xn--bcher-kva.localhost:3000', ''],
  ])('%s', (text, href, basePath) => {
    const { publicUrl } = load({ ...REQUIRED, PUBLIC_URL: text }).config ?? {};
    expect(publicUrl).toMatchObject({ href, basePath, secure: text.toLowerCase().startsWith('https') });
    expect(`${publicUrl?.origin}${publicUrl?.basePath}`).toBe(href);
  });

  test.each([
    'gatehouse.example.com',
    '/gatehouse',
    'ftp://gatehouse.example.com',
    'http://gatehouse.example.com',
    'http://127.0.0.1.example.com',
    'http://localhost.example.com',
    'http://10.0.0.1',
    'http://0.0.0.0',
    'https://user@gatehouse.example.com',
    'https://gatehouse.example.com/?a=b',
    'https://gatehouse.example.com/#a',
    'https://gatehouse.example.com/a%20b',
    'https://gatehouse.example.com//a',
    'https://gatehouse.example.com/a;b',
  ])('%s is refused', (text) => {
    const faults = faultsOf({ PUBLIC_URL: text });
    expect(faults).toHaveLength(1);
    expect(faults[0]).toMatch(/^PUBLIC_URL /);
  });
});

describe('traces', () => {
  const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'https://collector.example.com/otlp/' };

  test('go to the endpoint, with its headers', () => {
    const { config } = load({
      ...REQUIRED,
      ...ENDPOINT,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-key=a%2Cb, authorization = Basic%20c2VjcmV0',
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.25',
    });
    expect(config?.tracing).toEqual({
      endpoint: 'https://collector.example.com/otlp',
      headers: { 'x-key': 'a,b', authorization: 'Basic c2VjcmV0' },
      serviceName: undefined,
      sampler: 'parentbased_traceidratio',
      ratio: 0.25,
    });
  });

  test.each(['x', '=a', 'x-key=%', 'x-key=a%0d%0ab', 'x y=a'])(
    'headers that cannot be sent are refused: %j',
    (text) => {
      const faults = faultsOf({ ...ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS: text });
      expect(faults).toEqual([expect.stringMatching(/^OTEL_EXPORTER_OTLP_HEADERS must/)]);
    },
  );

  test.each(['http://user:pw@collector', 'grpc://collector:4317', 'http://collector/?a=b', 'x'])(
    '%s is refused',
    (text) => {
      const faults = faultsOf({ OTEL_EXPORTER_OTLP_ENDPOINT: text });
      expect(faults).toEqual([expect.stringMatching(/^OTEL_EXPORTER_OTLP_ENDPOINT must/)]);
    },
  );
});

describe('secrets', () => {
  test('each can come from the file that NAME_FILE names', () => {
    for (const [name, setting] of Object.entries(SETTINGS)) {
      if (!('secret' in setting)) continue;
      const env = {
        ...REQUIRED,
        BIN_SERVICE_URL: 'https://bins.example.com',
        OTEL_EXPORTER_OTLP_ENDPOINT: 'https://collector.example.com',
        ...(name === 'REDIS_SENTINELS' ? { REDIS_SENTINEL_NAME: 'mymaster' } : {}),
        ...(name === 'REDIS_SENTINEL_PASSWORD' ? { REDIS_SENTINELS: 'a:1', REDIS_SENTINEL_NAME: 'mymaster' } : {}),
        [name]: undefined,
        [`${name}_FILE`]: '/run/s',
      };
      const value = name === 'OTEL_EXPORTER_OTLP_HEADERS' ? `x-key=${SECRET}` : SECRET;
      const { config, faults } = load(env, { '/run/s': `${value}\n` });
      expect(faults).toEqual([]);
      expect(JSON.stringify(config)).toContain(SECRET);
      expect(load(env).faults).toEqual([
        `${name}_FILE names a file that cannot be read: check the path and its permissions.`,
      ]);
      const both = { ...env, [name]: value };
      expect(load(both, { '/run/s': value }).faults).toEqual([
        `${name} and ${name}_FILE are both set: keep one of them.`,
      ]);
    }
  });

  test('an empty file counts as no value', () => {
    const env = { SESSION_SECRETS: undefined, SESSION_SECRETS_FILE: '/run/s' };
    expect(faultsOf(env, { '/run/s': '\n' })[0]).toMatch(/^SESSION_SECRETS is required/);
  });

  test.each([',', ' , ,'])('R49: a list without a secret is refused: %j', (list) => {
    expect(faultsOf({ SESSION_SECRETS: list })).toEqual([expect.stringMatching(/^SESSION_SECRETS is a list without/)]);
  });

  test.each(['\n', '\r\n', ',\n', '\n\n'])('a file may hold one secret per line: %j', (separator) => {
    const other = SECRET.toUpperCase();
    const env = { ...REQUIRED, SESSION_SECRETS: undefined, SESSION_SECRETS_FILE: '/run/s' };
    expect(load(env, { '/run/s': `${SECRET}${separator}${other}\n` }).config?.sessionSecrets).toEqual([SECRET, other]);
  });

  test('a setting that is not secret is not read from a file', () => {
    expect(load({ ...REQUIRED, LOG_LEVEL_FILE: '/etc/passwd' }).config?.logLevel).toBe('info');
  });

  test.each([
    ['shorter than 32 characters', 'kJ8sLq2Zx9Vb4Nm7Qw1Er6Ty3Ui5Op0'],
    ['pattern', 'abcdefghijklmnopqrstuvwxyzabcdef'],
    ['pattern', '0123456789abcdef0123456789abcdef'],
    ['pattern', 'abcabcabcabcabcabcabcabcabcabcabcabc'],
    ['placeholder', 'change-me-kJ8sLq2Zx9Vb4Nm7Qw1Er6Ty3Ui5'],
  ])('R49: a weak secret is refused (%s) and never repeated', (cause, weak) => {
    const faults = faultsOf({ SESSION_SECRETS: `${SECRET},${weak}` });
    expect(faults).toHaveLength(1);
    expect(faults[0]).toContain('number 2');
    expect(faults[0]).toContain(cause);
    expect(faults[0]).not.toContain(weak);
  });

  test('no fault repeats any secret', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z0-9]{12,40}$/), (secret) => {
        const { faults } = load({ SESSION_SECRETS: secret, ENCRYPTION_KEYS: secret, BIN_SERVICE_API_KEY: secret });
        expect(faults.join()).not.toContain(secret);
      }),
    );
  });
});

describe('INTERNAL_HOSTS and TRUSTED_PROXIES', () => {
  test.each([
    '127.0.0.1',
    '10.0.0.0/8',
    '192.168.4.0/24',
    '::1',
    'fd00::/8',
    'idp.internal',
    'localhost',
    '100.64.0.0/10',
  ])('INTERNAL_HOSTS accepts %s', (entry) => {
    expect(load({ ...REQUIRED, INTERNAL_HOSTS: entry }).config?.internalHosts).toEqual([entry]);
  });
  test.each([
    '8.8.8.8',
    '0.0.0.0/0',
    '10.0.0.0/4',
    '169.254.169.254',
    '169.254.0.0/16',
    'https://idp.internal',
    '*.internal',
    'a b',
    '1.2.3',
    '::/0',
    '10.0.0.0/33',
  ])('INTERNAL_HOSTS refuses %s', (entry) => {
    expect(faultsOf({ INTERNAL_HOSTS: `127.0.0.1,${entry}` })[0]).toMatch(/^INTERNAL_HOSTS: /);
  });
  test.each(['10.0.0.0/33', 'proxy', '10.0.0', '10.0.0.0/', '1.2.3.4/a'])('TRUSTED_PROXIES refuses %s', (entry) => {
    expect(faultsOf({ TRUSTED_PROXIES: entry })).toHaveLength(1);
  });
  test.each(['https://user:secret@host.test', 'https://host.test/?secret', 'secret=a'])(
    'R22 %s is refused, and not repeated',
    (entry) => {
      for (const name of ['TRUSTED_PROXIES', 'INTERNAL_HOSTS']) {
        expect(faultsOf({ [name]: `127.0.0.1,${entry}` })).toEqual([
          expect.stringMatching(new RegExp(`^${name}: an entry is not (?!.*secret)`)),
        ]);
      }
    },
  );
  test.each(['0.0.0.0/0', '::/0', '::ffff:0.0.0.0/96'])('R104 TRUSTED_PROXIES refuses every address: %s', (entry) => {
    expect(faultsOf({ TRUSTED_PROXIES: entry })).toEqual([
      `TRUSTED_PROXIES: "${entry}" trusts every peer: name the addresses of your proxies.`,
    ]);
  });
  test.each(['TRUSTED_PROXIES', 'INTERNAL_HOSTS'])(
    'R104 %s refuses an address inside a network, and names its start',
    (name) => {
      expect(faultsOf({ [name]: '10.1.2.3/8' })).toEqual([
        `${name}: "10.1.2.3/8" is not the start of its network: write 10.0.0.0/8.`,
      ]);
    },
  );
});

test('HTTPS_PROXY is the URL of a proxy, and no fault repeats its password', () => {
  const url = 'http://user:hidden@proxy.example.com:3128';
  expect(load({ ...REQUIRED, HTTPS_PROXY: url, NO_PROXY: 'a.example, b.example' }).config?.proxy).toEqual({
    url,
    bypass: 'a.example, b.example',
  });
  for (const invalid of [
    'proxy:3128',
    'ftp://hidden@proxy',
    'http://user:hidden@proxy/path',
    'http://proxy?hidden=1',
    'http://user:hidden#1@proxy',
    'http://user:hidden%@proxy',
    'http://us%zzer:hidden@proxy',
    'http://user:hidden%E4@proxy',
  ]) {
    const faults = faultsOf({ HTTPS_PROXY: invalid });
    expect(faults).toEqual([expect.stringMatching(/^HTTPS_PROXY must be .*such as % as %25\.$/)]);
    expect(faults.join()).not.toContain('hidden');
  }
  for (const HTTPS_PROXY of [
    'http://user:100%25@proxy',
    'http://user:p@ss@proxy',
    'http://[::1]:3128',
    'HTTPS://PROXY/',
  ])
    expect(load({ ...REQUIRED, HTTPS_PROXY }).config?.proxy?.url).toBe(HTTPS_PROXY);
});

test('HTTPS_PROXY and NO_PROXY are also read in lower case, which counts if both are set', () => {
  const [first, second] = ['http://first.example:3128', 'http://second.example:3128'];
  const proxyOf = (env: Record<string, string>) => load({ ...REQUIRED, ...env }).config?.proxy;
  expect(proxyOf({ https_proxy: first, no_proxy: 'a.example' })).toEqual({ url: first, bypass: 'a.example' });
  expect(proxyOf({ HTTPS_PROXY: first, no_proxy: 'a.example' })).toEqual({ url: first, bypass: 'a.example' });
  expect(proxyOf({ https_proxy: first, NO_PROXY: 'a.example' })).toEqual({ url: first, bypass: 'a.example' });
  expect(proxyOf({ https_proxy: first, HTTPS_PROXY: second, no_proxy: 'a', NO_PROXY: 'b' })).toEqual({
    url: first,
    bypass: 'a',
  });
  // An empty variable counts as one that is not set.
  expect(proxyOf({ https_proxy: ' ', HTTPS_PROXY: second })).toEqual({ url: second, bypass: '' });
  expect(proxyOf({ http_proxy: first, all_proxy: first })).toBeUndefined();
  expect(faultsOf({ https_proxy: 'proxy:3128' })).toEqual([expect.stringMatching(/^https_proxy must be the URL/)]);
});

test('numbers must be whole, decimal and within bounds', () => {
  for (const PORT of ['0', '1', '65535']) expect(load({ ...REQUIRED, PORT }).config?.listen.port).toBe(Number(PORT));
  for (const PORT of ['65536', '3000.0', '+3', '0x10', '1e3', 'NaN', '３', ' ', '-0']) {
    expect(faultsOf({ PORT })).toHaveLength(PORT.trim() === '' ? 0 : 1);
  }
});

test('loadConfig never throws, for any environment', () => {
  const names = Object.keys(SETTINGS);
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...names), anyText()), (env) => {
      const loaded = load(env);
      expect(Array.isArray(loaded.faults)).toBe(true);
      expect(loaded.config === undefined).toBe(loaded.faults.length > 0);
    }),
  );
});

test('recognises loopback hosts by address or reserved name', () => {
  for (const host of ['localhost', 'a.localhost', '127.0.0.1', '127.9.9.9', '::1', '[::1]', '::ffff:127.0.0.1']) {
    expect(isLoopbackHost(host)).toBe(true);
  }
  for (const host of ['localhost.example.com', 'notlocalhost', '128.0.0.1', '::2', '0.0.0.0', '']) {
    expect(isLoopbackHost(host)).toBe(false);
  }
});
