/** Discovery with a real listener and a fake monotonic clock. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { parseConnectedApps } from '../../../src/gatehouse/connected-apps/app-file.ts';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound, type Outbound } from '../../../src/shared/outbound/outbound.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import { ProviderError } from '../../../src/shared/provider/provider-error.ts';
import {
  createProviderMetadata,
  hasDiscovery,
  ineffectiveEndpoints,
  type ProviderMetadataSource,
} from '../../../src/shared/provider/provider-metadata.ts';
import { status } from '../../support/broken-responses.ts';
import { BAD_METADATA } from '../../support/hostile-modes.ts';
import { type HostileProvider, type ModeName, startHostileProvider } from '../../support/hostile-provider.ts';

let provider: HostileProvider;
let outbound: Outbound;
let source: ProviderMetadataSource;
let now: number;

beforeAll(async () => {
  provider = await startHostileProvider();
  outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']) });
});
beforeEach(() => {
  now = 0;
  source = createProviderMetadata({ outbound, monotonicClock: () => now, random: () => 0.5 });
});
afterEach(() => {
  vi.useRealTimers();
  provider.reset();
});
afterAll(async () => {
  await outbound.close();
  await provider.close();
});

function appOf(changes: Record<string, unknown> = {}): ConnectedApp {
  const text = JSON.stringify([provider.app('https://gatehouse.example.com', changes)]);
  const env = { HOSTILE_CLIENT_SECRET: provider.clientSecret };
  const { apps, faults } = parseConnectedApps(text, { env, readFile: () => '' });
  if (!apps[0] || faults.length > 0) throw new Error(faults.join());
  return apps[0];
}

async function errorOf(app: ConnectedApp): Promise<ProviderError> {
  const error: unknown = await source.load(app).catch((thrown: unknown) => thrown);
  if (error instanceof ProviderError) return error;
  throw new Error(`No ProviderError: ${JSON.stringify(error)}`);
}

const countDiscoveries = () => provider.hitsOf('discovery').length;

describe('lazy discovery (F14)', () => {
  test('reads metadata on first use, once for concurrent callers, and again after an hour', async () => {
    const app = appOf();
    expect(countDiscoveries()).toBe(0);

    const all = await Promise.all(Array.from({ length: 20 }, () => source.load(app)));
    expect(new Set(all).size).toBe(1);

    now += 3_599_000;
    expect(await source.load(app)).toBe(all[0]);
    expect(countDiscoveries()).toBe(1);

    now += 2_000;
    expect(await source.load(app)).not.toBe(all[0]);
    expect(countDiscoveries()).toBe(2);
  });

  test('backs off while the provider is down, and callers learn when the next read is', async () => {
    const app = appOf();
    provider.setModes('discovery-status-500');
    const readAt: number[] = [];
    for (let second = 0; second < 60; second += 1) {
      const discoveriesBefore = countDiscoveries();
      const { failure, facts } = await errorOf(app);
      expect(failure).toBe('unavailable');
      if (countDiscoveries() > discoveriesBefore) readAt.push(second);
      else expect(facts.retryAfterSeconds).toBeGreaterThanOrEqual(1);
      now += 1_000;
    }
    expect(readAt).toEqual([0, 1, 3, 7, 15, 30, 45]);

    provider.setModes();
    now += 15_000;
    expect((await source.load(app)).issuer).toBe(provider.issuer);
  });

  test.each([
    ['120', 120, () => '120'],
    ['a date', 120, () => new Date(Date.now() + 120_000).toUTCString()],
    ['a date in the past', 1, () => 'Sun Nov  6 08:49:37 1994'],
    ['a year', 600, () => '31536000'],
    ['nonsense', 1, () => 'soon'],
  ])(
    'after 429 with Retry-After of %s, reads nothing for about %i s, and calls it a limit',
    async (_name, wait, header) => {
      const app = appOf();
      provider.setModes({ responses: { discovery: status(429, {}, { 'retry-after': header() }) } });
      expect((await errorOf(app)).facts).toMatchObject({ status: 429, limited: true });
      provider.setModes();
      now += wait * 1_000 - 30_000;
      if (wait > 30) {
        const { facts } = await errorOf(app);
        expect(facts.limited).toBe(true);
        expect(facts.retryAfterSeconds).toBeGreaterThan(20);
        expect(countDiscoveries()).toBe(1);
      }
      now += 30_000;
      expect((await source.load(app)).issuer).toBe(provider.issuer);
    },
  );

  test('F26 reads discovery after the back-off even if the clock is set back by an hour', async () => {
    const app = appOf();
    provider.setModes('discovery-status-500');
    await errorOf(app);
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(Date.now() - 3_600_000);
    provider.setModes();
    expect((await errorOf(app)).facts.retryAfterSeconds).toBe(1);

    now += 1_000;
    expect((await source.load(app)).issuer).toBe(provider.issuer);
  });

  test('uses old metadata for up to a day while the provider is down, and new metadata after that', async () => {
    const app = appOf();
    const firstMetadata = await source.load(app);
    provider.setModes('discovery-status-500');
    now += 86_390_000;
    expect(await source.load(app)).toBe(firstMetadata);
    expect(await source.load(app)).toBe(firstMetadata);
    expect(countDiscoveries()).toBe(2);

    now += 20_000;
    expect((await errorOf(app)).reason).toBe('discovery_failed');

    provider.setModes();
    now += 15_000;
    expect((await source.load(app)).issuer).toBe(provider.issuer);
  });

  test('reads metadata again for a changed registration', async () => {
    await source.load(appOf());
    await source.load(appOf());
    expect(countDiscoveries()).toBe(2);
  });
});

describe('R20: invalid metadata', () => {
  test.each(Object.keys(BAD_METADATA) as (keyof typeof BAD_METADATA)[])('%s', async (mode) => {
    provider.setModes(mode);
    const { failure, reason } = await errorOf(appOf());
    if (mode === 'discovery-no-issuer') return expect([failure, reason]).toEqual(['unavailable', 'discovery_not_json']);
    expect(failure).toBe('misconfigured');

    let expectedReason = 'endpoint_refused';
    if (mode.includes('issuer')) expectedReason = 'issuer_mismatch';
    else if (mode.includes('-no-')) expectedReason = 'endpoint_missing';
    expect(reason).toBe(expectedReason);
  });

  test('an issuer with a trailing slash differs from one without', async () => {
    expect((await errorOf(appOf({ issuer: `${provider.issuer}/` }))).reason).toBe('issuer_mismatch');
    provider.setModes({ metadata: (metadata) => ({ ...metadata, issuer: `${provider.issuer}/` }) });
    expect((await source.load(appOf({ issuer: `${provider.issuer}/` }))).issuer).toBe(`${provider.issuer}/`);
    expect(provider.hits.map(({ url }) => url)).toEqual(Array(2).fill('/.well-known/openid-configuration'));
  });
});

test.each<[ModeName, () => object]>([
  ['discovery-status-404', () => ({ status: 404 })],
  ['discovery-issuer-with-slash', () => ({ issuer: `${provider.issuer}/` })],
  ['discovery-http-token-endpoint', () => ({ endpoint: 'token_endpoint' })],
  ['discovery-private-token-endpoint', () => ({ endpoint: 'token_endpoint' })],
])('%s: the error has the facts for administrators', async (mode, facts) => {
  provider.setModes(mode);
  expect((await errorOf(appOf())).facts).toMatchObject(facts());
});

describe('R25, R28: an unusable discovery response', () => {
  test.each<[ModeName, string]>([
    ['discovery-redirect-301', 'discovery_failed'],
    ['discovery-redirect', 'discovery_failed'],
    ['discovery-status-404', 'discovery_failed'],
    ['discovery-status-500', 'discovery_failed'],
    ['discovery-html', 'discovery_not_json'],
    ['discovery-truncated', 'discovery_not_json'],
    ['discovery-array', 'discovery_not_json'],
    ['discovery-null', 'discovery_not_json'],
    ['discovery-empty', 'discovery_not_json'],
    ['discovery-huge', 'too_large'],
    ['discovery-gzip-cut-off', 'encoding'],
    ['discovery-unknown-encoding', 'encoding'],
    ['discovery-reset', 'connection'],
    ['discovery-hang', 'timeout'],
    ['discovery-drip', 'timeout'],
  ])('%s: %s', async (mode, reason) => {
    provider.setModes(mode);
    const error = await errorOf(appOf());
    expect([error.failure, error.reason]).toEqual(['unavailable', reason]);
    expect(provider.trapped).toEqual([]);
  });
});

describe('configured endpoints', () => {
  test('replace discovery if all are set', async () => {
    const metadata = await source.load(appOf({ endpoints: provider.endpointSettings() }));
    expect(metadata).toEqual({
      issuer: provider.issuer,
      authorization_endpoint: `${provider.issuer}/authorize`,
      token_endpoint: `${provider.issuer}/token`,
      jwks_uri: `${provider.issuer}/jwks`,
      userinfo_endpoint: `${provider.issuer}/userinfo`,
      revocation_endpoint: `${provider.issuer}/revocation`,
      end_session_endpoint: `${provider.issuer}/end_session`,
    });
    expect(provider.hits).toEqual([]);
  });

  test('add only the endpoints that discovery lacks', async () => {
    provider.setModes('no-revocation-endpoint');
    const endpoints = { revocation: `${provider.issuer}/by-hand`, userinfo: `${provider.issuer}/by-hand` };
    const metadata = await source.load(appOf({ endpoints }));
    expect(metadata.revocation_endpoint).toBe(`${provider.issuer}/by-hand`);
    expect(metadata.userinfo_endpoint).toBe(`${provider.issuer}/userinfo`);
  });

  test('replace the end-session endpoint of discovery', async () => {
    const endSession = `${provider.issuer}/logout?logout_uri=https%3A%2F%2Fa.example%2F`;
    expect((await source.load(appOf({ endpoints: { endSession } }))).end_session_endpoint).toBe(endSession);
  });

  test.each<[string, (issuer: string) => object, string[]]>([
    ['another address', (issuer) => ({ revocation: `${issuer}/by-hand` }), ['revocation']],
    ['several', (issuer) => ({ userinfo: `${issuer}/a`, jwks: `${issuer}/b` }), ['userinfo', 'jwks']],
    ['the same address', (issuer) => ({ revocation: `${issuer}/revocation` }), []],
    ['the same address, written differently', (issuer) => ({ jwks: `${issuer}/x/../jwks` }), []],
    ['a query that discovery lacks', (issuer) => ({ userinfo: `${issuer}/userinfo?schema=openid` }), ['userinfo']],
    ['what discovery lacks', (issuer) => ({ introspection: `${issuer}/introspect` }), []],
    ['the end of the session', (issuer) => ({ endSession: `${issuer}/logout` }), []],
    ['nothing', () => ({}), []],
  ])('have no effect beside discovery, except for sign-out: %s', async (_name, endpoints, ineffective) => {
    const app = appOf({ endpoints: endpoints(provider.issuer) });
    expect(ineffectiveEndpoints(app, await source.load(app))).toEqual(ineffective);
  });

  test('that replace discovery have an effect, but not beside a discovery URL', async () => {
    const endpoints = {
      ...provider.endpointSettings(),
      authorization: `${provider.issuer}/authorize?scope=x&tenant=7`,
    };
    const app = appOf({ endpoints });
    expect(ineffectiveEndpoints(app, await source.load(app))).toEqual([]);
    const discoveryUrl = `${provider.issuer}/.well-known/openid-configuration`;
    const withBoth = appOf({ endpoints, discoveryUrl });
    expect(ineffectiveEndpoints(withBoth, await source.load(withBoth))).toEqual(['authorization']);
  });

  test('are refused at a private address', async () => {
    const endpoints = { ...provider.endpointSettings(), revocation: 'https://10.0.0.1/revoke' };
    const { reason, facts } = await errorOf(appOf({ endpoints }));
    expect([reason, facts.endpoint]).toEqual(['endpoint_refused', 'revocation_endpoint']);
  });

  test('discovery at another URL', async () => {
    provider.setModes('discovery-elsewhere');
    expect((await errorOf(appOf())).reason).toBe('discovery_failed');
    const discoveryUrl = `${provider.issuer}/tenant/metadata/`;
    expect((await source.load(appOf({ discoveryUrl }))).issuer).toBe(provider.issuer);
  });

  test('members that are null count as absent', async () => {
    provider.setModes('null-members');
    expect(await source.load(appOf())).not.toHaveProperty('revocation_endpoint');
  });
});

test('R3: removes protocol parameters from the query of an authorization endpoint', async () => {
  provider.setModes('endpoint-with-our-parameters');
  const { authorization_endpoint: endpoint } = await source.load(appOf({ parameters: { audience: 'a' } }));
  expect(endpoint).toBe(`${provider.issuer}/authorize?tenant=7`);
  expect((await source.load(appOf({ parameters: { tenant: '8' } }))).authorization_endpoint).toBe(
    `${provider.issuer}/authorize`,
  );
});

test.each([
  [{}, true],
  [{ endpoints: { revocation: 'https://a.example/revoke' } }, true],
  [{ endpoints: { authorization: 'https://a.example/auth' } }, false],
  [{ endpoints: { authorization: 'https://a.example/auth' }, discoveryUrl: 'https://a.example/metadata' }, true],
])('an app with %j uses discovery: %s', (app, usesDiscovery) => {
  expect(hasDiscovery(app as Parameters<typeof hasDiscovery>[0])).toBe(usesDiscovery);
});

describe('R131 metadata whose endpoints are gone', () => {
  test('is read again before the next call, at most once in 10 s', async () => {
    const app = appOf();
    const first = await source.load(app);
    source.markStale(app);
    source.markStale(app);
    const second = await source.load(app);
    expect(second).not.toBe(first);
    expect(countDiscoveries()).toBe(2);

    now += 9_999;
    source.markStale(app);
    expect(await source.load(app)).toBe(second);

    now += 1;
    source.markStale(app);
    await source.load(app);
    expect(countDiscoveries()).toBe(3);
  });

  test('stays in use while it cannot be read again', async () => {
    const app = appOf();
    const first = await source.load(app);
    provider.setModes('discovery-status-503');
    source.markStale(app);
    expect([await source.load(app), await source.load(app)]).toEqual([first, first]);
    expect(countDiscoveries()).toBe(2);
  });

  test('is read again for every app after a reload of the settings', async () => {
    const [first, second] = [appOf(), appOf()];
    await Promise.all([source.load(first), source.load(second)]);
    now += 1;
    source.markAllStale();
    now += 1;
    await Promise.all([source.load(first), source.load(second)]);
    await Promise.all([source.load(first), source.load(second)]);
    expect(countDiscoveries()).toBe(4);
  });
});
