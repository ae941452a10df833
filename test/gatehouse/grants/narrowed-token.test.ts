/**
 * Access tokens with fewer scopes than the grant, with a scripted provider: issued by a refresh, and never stored in
 * the grant.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import type { Grant, ReadableGrant } from '../../../src/gatehouse/grants/grant.ts';
import { createGrantStore, type GrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { createNarrowedTokens, type NarrowedTokens } from '../../../src/gatehouse/grants/narrowed-token.ts';
import { createRefresher, type Refresher, refreshTimes } from '../../../src/gatehouse/grants/refresh.ts';
import { createServiceShare } from '../../../src/gatehouse/grants/service-share.ts';
import { AppError } from '../../../src/shared/errors.ts';
import type { Events } from '../../../src/shared/observability/events.ts';
import { type Outbound, OutboundError } from '../../../src/shared/outbound/outbound.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import type { ProviderClient } from '../../../src/shared/provider/provider-client.ts';
import type { RefreshOutcome, TokenRefresh } from '../../../src/shared/provider/token-refresh.ts';
import { generateEncryptionKey, parseEncryptionKeys } from '../../../src/shared/storage/key-ring.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createLeases } from '../../../src/shared/storage/lease.ts';
import { createSealer } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { PLATFORM } from '../../support/apps.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { until } from '../../support/until.ts';

const APP = { ...PLATFORM, name: 'Platform', scopes: ['read', 'write'] } as ConnectedApp;
const NOW = 1_800_000_000_000;

let directory: string;
let store: Store;
let grants: GrantStore;
let refresher: Refresher;
let otherRefresher: Refresher;
let narrowedTokens: NarrowedTokens;
let otherNarrowedTokens: NarrowedTokens;
let now: number;
let calls: { refreshToken: string; scopes: readonly string[] | undefined }[];
let runInServiceShare: Outbound['runInServiceShare'];
let respond: (request: TokenRefresh) => Promise<RefreshOutcome>;
beforeEach(async () => {
  now = NOW;
  calls = [];
  runInServiceShare = (_host, _service, work) => work();
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-narrow-'));
  store = await createSqliteStore({ directory, clock: () => now, random: Math.random });
  const parsed = parseEncryptionKeys(generateEncryptionKey(new Date()));
  if ('faults' in parsed) throw new Error(parsed.faults.join());
  const provider = {
    refresh(_app: ConnectedApp, request: TokenRefresh) {
      calls.push({ refreshToken: request.refreshToken, scopes: request.scopes });
      return respond(request);
    },
    revoke: async () => ({ outcome: 'revoked' }),
    tokenOrigin: () => 'https://provider.test',
  } as unknown as ProviderClient;
  const nothing = () => undefined;
  const events = {
    refreshEnded: nothing,
    reconnectNeeded: nothing,
    connectionRecovered: nothing,
  } as unknown as Events;
  const clock = () => now;
  grants = createGrantStore({ store, sealedJson: createSealedJson(createSealer(parsed.keys)), clock });
  const shared = {
    grants,
    provider,
    revokeUnowned: provider.revoke,
    events,
    clock,
    random: () => 0.5,
  };
  const leases = createLeases({ store, milliseconds: 4_000 });
  refresher = createRefresher({ ...shared, leases, times: refreshTimes(300) });
  otherRefresher = createRefresher({ ...shared, leases, times: refreshTimes(300) });
  const inServiceShare = createServiceShare({ runInServiceShare: (...call) => runInServiceShare(...call) }, provider);
  narrowedTokens = createNarrowedTokens({ grants, refresher, inServiceShare, store, clock });
  otherNarrowedTokens = createNarrowedTokens({ grants, refresher: otherRefresher, inServiceShare, store, clock });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

const newTokens = (accessToken: string, refreshToken?: string, changes: object = {}): RefreshOutcome => {
  const otherMembers = { idToken: undefined, scopes: undefined, expiresInSeconds: 60, claims: undefined };
  return { kind: 'tokens', response: { accessToken, refreshToken, ...otherMembers, ...changes } } as RefreshOutcome;
};

async function storeGrant(changes: Partial<Grant> = {}): Promise<void> {
  const grant: Grant = {
    id: 'c1',
    userId: 'u1',
    appId: APP.id,
    registration: registrationOf(APP),
    accessToken: 'at1',
    refreshToken: 'rt1',
    scopes: APP.scopes,
    account: {},
    obtainedAt: now - 60_000,
    expiresAt: now + 3_600_000,
    connectedAt: now - 60_000,
    consentedAt: NOW,
    failure: undefined,
    refresh: undefined,
    ...changes,
  };
  const version = (await grants.loadStored('u1', APP.id))?.version ?? 0;
  expect(await grants.save(grant, version)).toBeDefined();
}

async function readGrant(): Promise<Grant> {
  const storedGrant = await grants.loadStored('u1', APP.id);
  if (!storedGrant || 'unreadable' in storedGrant) throw new Error('There is no grant.');
  return storedGrant.grant;
}

const requestNarrowed = (scopes: readonly string[] = ['read'], app = APP) =>
  narrowedTokens.accessToken('u1', app, { scopes }, 'service');
/** Advances the clock: after it was set back, a lease becomes free only when its length has passed. */
const startClock = () => {
  const timer = setInterval(() => {
    now += 500;
  }, 10);
  return () => clearInterval(timer);
};
const failureOfKind = (kind: 'reconnect_needed' | 'passing') =>
  ({ failure: { kind, cause: 'provider_unavailable', since: now, failures: 1, retryAt: now + 30_000 } }) as const;

describe('a narrower token', () => {
  test('is requested by its scopes; the grant keeps its access token and stores a new refresh token', async () => {
    await storeGrant();
    respond = async () => newTokens('narrow', 'rt2');

    expect(await requestNarrowed()).toEqual({
      kind: 'narrowed',
      accessToken: 'narrow',
      scopes: ['read'],
      expiresAt: now + 60_000,
    });
    expect(calls).toEqual([{ refreshToken: 'rt1', scopes: ['read'] }]);
    expect(await readGrant()).toMatchObject({ accessToken: 'at1', refreshToken: 'rt2', refresh: undefined });
    expect(await grants.listUnfinishedRefreshes()).toEqual([]);
  });

  test('is returned from the cache for equal requests, also after the refresh token was rotated', async () => {
    await storeGrant();
    respond = async ({ scopes }) => newTokens(`narrow ${calls.length} ${scopes?.join()}`);
    const firstResult = await requestNarrowed(['read', 'write']);

    expect(await requestNarrowed(['write', 'read'])).toEqual(firstResult);
    expect(calls).toHaveLength(1);
    expect(await requestNarrowed(['read'])).not.toEqual(firstResult);

    now += 29_000;
    expect(await requestNarrowed(['read', 'write'])).toEqual(firstResult);

    now += 2_000;
    expect(await requestNarrowed(['read', 'write'])).not.toEqual(firstResult);
    expect(calls).toHaveLength(3);

    await storeGrant({ refreshToken: 'rt9' });
    await requestNarrowed(['read', 'write']);
    expect(calls.map(({ refreshToken }) => refreshToken)).toEqual(['rt1', 'rt1', 'rt1']);
  });

  test('is not returned again after a rotation, if the provider ends earlier access tokens', async () => {
    const app = { ...APP, endsEarlierTokens: true };
    await storeGrant();
    respond = async () => newTokens(`narrow ${calls.length}`);

    expect(await requestNarrowed(['read'], app)).toMatchObject({ accessToken: 'narrow 1' });
    expect(await requestNarrowed(['read'], app)).toMatchObject({ accessToken: 'narrow 1' });
    expect(await refresher.refresh({ userId: 'u1', app, rejected: 'at1' })).toMatchObject({
      grant: { accessToken: 'narrow 2' },
    });

    now += 29_999;
    expect(await requestNarrowed(['read'], app)).toEqual({ kind: 'too_many', retryAfterSeconds: 1 });

    now += 1;
    expect(await requestNarrowed(['read'], app)).toMatchObject({ accessToken: 'narrow 3' });
  });

  test('is returned from the cache while more than 30 seconds of its lifetime remain', async () => {
    await storeGrant();
    respond = async () => newTokens(`narrow ${calls.length}`);
    await requestNarrowed();
    now += 29_999;

    expect(await requestNarrowed()).toMatchObject({ accessToken: 'narrow 1' });

    now += 1;
    expect(await requestNarrowed()).toMatchObject({ accessToken: 'narrow 2' });
  });

  test('RFC 8707: for one resource has the scopes of the grant, and is not returned for another resource', async () => {
    await storeGrant();
    respond = async () => newTokens(`narrow ${calls.length}`);
    const requestFor = (resource: string) => narrowedTokens.accessToken('u1', APP, { resource }, 'service');

    expect(await requestFor('urn:a')).toMatchObject({ kind: 'narrowed', accessToken: 'narrow 1', scopes: APP.scopes });
    expect(await requestFor('urn:b')).toMatchObject({ accessToken: 'narrow 2' });
    expect(await requestFor('urn:a')).toMatchObject({ accessToken: 'narrow 1' });

    respond = async () => ({ kind: 'unclear_refusal', reason: 'invalid_target' });
    expect(await requestFor('urn:c')).toEqual({ kind: 'unsupported' });
  });

  test('is not returned from the cache once the connection needs reconnecting', async () => {
    await storeGrant();
    respond = async () => newTokens('narrow');

    expect(await requestNarrowed()).toMatchObject({ kind: 'narrowed' });

    await storeGrant(failureOfKind('reconnect_needed'));
    expect(await requestNarrowed()).toEqual({ kind: 'no_grant' });
    expect(calls).toHaveLength(1);
  });

  test('R31: callers at the same time share one call', async () => {
    await storeGrant();
    respond = async () => newTokens('narrow');

    const results = await Promise.all(Array.from({ length: 20 }, () => requestNarrowed()));
    expect(new Set(results.map((result) => JSON.stringify(result))).size).toBe(1);
    expect(calls).toHaveLength(1);
  });

  test.each<[string, Partial<Grant>]>([
    [
      'connected another account',
      { id: 'c2', accessToken: 'at9', refreshToken: 'rt9', account: { subject: 'mallory' } },
    ],
    ['consented anew', { accessToken: 'at9', consentedAt: NOW + 1 }],
  ])('R118 is not that of the earlier connection if the user has %s during the call', async (_description, changes) => {
    await storeGrant({ account: { subject: 'alice' } });
    respond = async () => {
      await storeGrant({ account: { subject: 'alice' }, ...changes });
      return newTokens('of the earlier connection', undefined);
    };

    expect(await requestNarrowed()).toMatchObject({ kind: 'unavailable' });

    respond = async () => newTokens('narrow');
    expect(await requestNarrowed()).toMatchObject({ kind: 'narrowed', accessToken: 'narrow' });
  });

  test('R118 is not returned from the cache after a new consent, even if the refresh token stays', async () => {
    await storeGrant();
    respond = async () => newTokens(`narrow ${calls.length}`);

    expect(await requestNarrowed()).toMatchObject({ accessToken: 'narrow 1' });

    await storeGrant({ consentedAt: NOW + 1 });
    expect(await requestNarrowed()).toMatchObject({ accessToken: 'narrow 2' });
  });

  test('R101 is refused if its ID token has another subject, and the grant keeps its tokens', async () => {
    await storeGrant({ account: { subject: 'alice' } });
    respond = async ({ saveRefreshToken }) => {
      await saveRefreshToken?.('rt-of-mallory');
      return newTokens('of-mallory', 'rt-of-mallory', { claims: { sub: 'mallory' } });
    };

    expect(await requestNarrowed()).toMatchObject({ kind: 'unavailable' });
    expect(await readGrant()).toMatchObject({ accessToken: 'at1', refreshToken: 'rt1', refresh: undefined });
    expect((await readGrant()).failure).toMatchObject({ kind: 'passing', cause: 'unusable_response' });
  });

  test('is refused if it has more scopes than requested, and returned with its scopes if it has fewer', async () => {
    await storeGrant();
    respond = async () => newTokens('wide', undefined, { scopes: ['read', 'write'] });

    expect(await requestNarrowed()).toEqual({ kind: 'unsupported' });

    respond = async () => newTokens('narrower', undefined, { scopes: ['read'] });
    expect(await requestNarrowed(['read', 'write'])).toMatchObject({ kind: 'narrowed', scopes: ['read'] });
  });

  test('has the lifetime that the app sets if its response names none; without either, it is requested each time', async () => {
    await storeGrant();
    respond = async () => newTokens(`narrow ${calls.length}`, undefined, { expiresInSeconds: undefined });

    expect(await requestNarrowed(['read'], { ...APP, accessTokenLifetimeSeconds: 90 })).toMatchObject({
      expiresAt: now + 90_000,
    });
    expect(await requestNarrowed(['write'])).toMatchObject({ accessToken: 'narrow 2', expiresAt: undefined });
    expect(await requestNarrowed(['write'])).toMatchObject({ accessToken: 'narrow 3' });
  });
});

describe('R135 at a provider that ends earlier access tokens', () => {
  const app = { ...APP, endsEarlierTokens: true };
  const scopeSets = [['read'], ['write'], ['read', 'write']];
  const requestFor = (scopes: readonly string[], service = 'flood') =>
    narrowedTokens.accessToken('u1', app, { scopes }, service);

  test('a service that sends many requests causes one refresh in 30 seconds, and another service still gets a token', async () => {
    await storeGrant();
    respond = async () => newTokens(`narrow ${calls.length}`, `rt${calls.length + 1}`);
    const kinds: string[] = [];
    for (let call = 0; call < 42; call += 1) {
      const { kind } = await requestFor(scopeSets[call % 3] ?? []);
      kinds.push(kind);
    }

    expect(calls).toHaveLength(1);
    expect(kinds.filter((kind) => kind === 'narrowed')).toHaveLength(14);
    expect(await requestFor(['write'])).toEqual({ kind: 'too_many', retryAfterSeconds: 30 });
    expect(await requestFor(['write'], 'beside')).toMatchObject({ kind: 'narrowed', accessToken: 'narrow 2' });

    now += 29_001;
    expect(await requestFor(['write', 'read'])).toEqual({ kind: 'too_many', retryAfterSeconds: 1 });

    now += 1_000;
    expect(await requestFor(['write', 'read'])).toMatchObject({ kind: 'narrowed', accessToken: 'narrow 3' });
    expect(calls).toHaveLength(3);
  });

  test('equal requests of one service at the same time share one refresh', async () => {
    await storeGrant();
    respond = async () => newTokens('narrow');

    const results = await Promise.all(Array.from({ length: 20 }, () => requestFor(['read'])));
    expect(new Set(results.map(({ kind }) => kind))).toEqual(new Set(['narrowed']));
    expect(calls).toHaveLength(1);
  });

  test('during the pause after a failed refresh, the result is that the provider is unavailable, with the longer wait', async () => {
    await storeGrant();
    respond = async () =>
      ({ kind: 'unavailable', reason: 'status', sent: true, retryAfterSeconds: 7 }) as RefreshOutcome;
    await requestFor(['read']);

    expect(await requestFor(['write'])).toMatchObject({ kind: 'unavailable', retryAfterSeconds: 30 });
  });

  test('a token that a later refresh ended is not returned again, even if the refresh token stays the same', async () => {
    await storeGrant();
    respond = async () => newTokens(`narrow ${calls.length}`, undefined, { expiresInSeconds: 3_600 });

    expect(await requestFor(['read'])).toMatchObject({ accessToken: 'narrow 1' });
    expect(await requestFor(['write'], 'beside')).toMatchObject({ accessToken: 'narrow 2' });

    now += 31_000;
    expect(await requestFor(['read'])).toMatchObject({ accessToken: 'narrow 3' });
  });

  describe('after a refresh that another service caused, a cached token', () => {
    const unavailable = (changes: object): RefreshOutcome =>
      ({ kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined, ...changes }) as RefreshOutcome;
    const requestAfterRefresh = async (refreshOutcome: () => Promise<RefreshOutcome>) => {
      await storeGrant();
      respond = async () => newTokens('cached', undefined, { expiresInSeconds: 3_600 });
      expect(await requestFor(['read'])).toMatchObject({ accessToken: 'cached' });
      respond = refreshOutcome;
      await requestFor(['write'], 'beside').catch(() => undefined);
      respond = async () => newTokens('new', undefined, { expiresInSeconds: 3_600 });
      now += 120_000;
      return requestFor(['read']);
    };

    test.each<[string, RefreshOutcome]>([
      ['refused the scopes', { kind: 'unclear_refusal', reason: 'invalid_scope' }],
      ['refused the refresh without a clear reason', { kind: 'unclear_refusal', reason: 'server_error' }],
      ['refused the client', { kind: 'app_fault', reason: 'invalid_client' }],
      ['was not available', unavailable({ reason: 'status_503' })],
      ['was not reached', unavailable({ unsent: true })],
    ])('is returned if the provider %s', async (_description, refreshOutcome) => {
      expect(await requestAfterRefresh(async () => refreshOutcome)).toMatchObject({
        kind: 'narrowed',
        accessToken: 'cached',
      });
      expect(calls).toHaveLength(2);
    });

    test.each<[string, RefreshOutcome]>([
      ['issued tokens', newTokens('narrow')],
      ['sent a response that cannot be used', { kind: 'unusable', reason: 'other', refreshToken: undefined }],
      ['sent no response', unavailable({})],
    ])('is not returned if the provider %s', async (_description, refreshOutcome) => {
      expect(await requestAfterRefresh(async () => refreshOutcome)).toMatchObject({
        kind: 'narrowed',
        accessToken: 'new',
      });
    });

    test('is not returned if the provider issued tokens before a kill, even if it refuses later scopes', async () => {
      await storeGrant({ rotates: false });
      respond = async () => newTokens('cached', undefined, { expiresInSeconds: 3_600 });

      expect(await requestFor(['read'])).toMatchObject({ accessToken: 'cached' });

      const { grant, version } = (await grants.loadStored('u1', APP.id)) as ReadableGrant;
      await grants.save({ ...grant, refresh: { startedAt: now, received: undefined } }, version);
      now += 89_999;

      expect(await requestFor(['read'])).toMatchObject({ accessToken: 'cached' });

      now += 1;
      respond = async () => ({ kind: 'unclear_refusal', reason: 'invalid_scope' });

      expect(await requestFor(['write'], 'beside')).toEqual({ kind: 'unsupported' });
      expect((await readGrant()).refresh).toBeUndefined();

      respond = async () => newTokens('new');
      expect(await requestFor(['read'])).toMatchObject({ accessToken: 'new' });
    });

    test('is returned after the grant was sealed with another key', async () => {
      await storeGrant();
      respond = async () => newTokens(`narrow ${calls.length}`);

      expect(await requestFor(['read'])).toMatchObject({ accessToken: 'narrow 1' });

      const { grant, version } = (await grants.loadStored('u1', APP.id)) as ReadableGrant;
      await grants.save(grant, version);

      expect(await requestFor(['read'])).toMatchObject({ accessToken: 'narrow 1' });
    });
  });

  test('calls that wait for a slot together cause one refresh', async () => {
    await storeGrant();
    const slot = Promise.withResolvers<void>();
    runInServiceShare = async (_host, _service, work) => {
      await slot.promise;
      return work();
    };
    respond = async () => newTokens(`narrow ${calls.length}`);
    const results = Promise.all(scopeSets.map((scopes) => requestFor(scopes)));
    slot.resolve();

    expect((await results).map(({ kind }) => kind).toSorted()).toEqual(['narrowed', 'too_many', 'too_many']);
    expect(calls).toHaveLength(1);
  });

  test('while the grant backs off, requests take no slot at the provider and cause no call', async () => {
    await storeGrant(failureOfKind('passing'));
    runInServiceShare = () => expect.unreachable();

    for (const scopes of scopeSets) expect(await requestFor(scopes)).toMatchObject({ kind: 'unavailable' });
    expect(calls).toEqual([]);
  });

  test('the pause of 30 seconds begins at the end of a refresh, which may have taken long', async () => {
    await storeGrant();
    respond = async () => {
      now += 40_000;
      return newTokens(`narrow ${calls.length}`);
    };

    expect(await requestFor(['read'])).toMatchObject({ kind: 'narrowed' });
    expect(await requestFor(['write'])).toEqual({ kind: 'too_many', retryAfterSeconds: 30 });

    now += 30_000;
    expect(await requestFor(['write'])).toMatchObject({ kind: 'narrowed' });
  });

  test('the pause does not become longer if the clock is set back', async () => {
    await storeGrant();
    respond = async () => newTokens(`narrow ${calls.length}`);

    expect(await requestFor(['read'])).toMatchObject({ kind: 'narrowed' });

    // The clock of another process is behind.
    now -= 29_999;
    expect(await requestFor(['write'])).toEqual({ kind: 'too_many', retryAfterSeconds: 30 });

    now -= 3_600_000;
    const stopClock = startClock();

    expect(await requestFor(['write'])).toMatchObject({ kind: 'narrowed', accessToken: 'narrow 2' });

    stopClock();
    expect(await requestFor(['read', 'write'])).toMatchObject({ kind: 'too_many' });
  });

  test('while a refresh runs, other requests are told to wait for the whole pause', async () => {
    await storeGrant();
    const isReleased = Promise.withResolvers<void>();
    respond = async () => {
      await isReleased.promise;
      return newTokens('narrow');
    };
    const firstResult = requestFor(['read']);
    await until(() => calls.length === 1);
    now += 40_000;

    expect(await requestFor(['write'])).toEqual({ kind: 'too_many', retryAfterSeconds: 30 });

    isReleased.resolve();
    expect(await firstResult).toMatchObject({ kind: 'narrowed' });
    expect(await requestFor(['write'])).toEqual({ kind: 'too_many', retryAfterSeconds: 30 });
  });

  test('a refresh that the storage refuses before it begins is not counted', async () => {
    await storeGrant();
    const { assertWritable } = grants;
    grants.assertWritable = () => Promise.reject(new AppError('storage_unavailable'));

    await expect(requestFor(['read'])).rejects.toMatchObject({ code: 'storage_unavailable' });

    grants.assertWritable = assertWritable;
    respond = async () => newTokens('narrow');

    expect(await requestFor(['read'])).toMatchObject({ kind: 'narrowed' });
  });

  test('a refresh that needs no call after all is not counted', async () => {
    await storeGrant();
    const { attempt } = refresher;
    refresher.attempt = async () => ({ stored: await grants.loadStored('u1', APP.id) });

    expect(await requestFor(['read'])).toEqual({ kind: 'unavailable', isUnverified: false, retryAfterSeconds: 5 });

    refresher.attempt = attempt;
    respond = async () => newTokens('narrow');

    expect(await requestFor(['read'])).toMatchObject({ kind: 'narrowed' });
  });

  test('a call that finds no slot at the provider is not counted', async () => {
    await storeGrant();
    runInServiceShare = () => Promise.reject(new OutboundError('busy', 'no slot'));

    expect(await requestFor(['read'])).toEqual({ kind: 'unavailable', isUnverified: false, retryAfterSeconds: 2 });

    runInServiceShare = (_host, _service, work) => work();
    respond = async () => newTokens('narrow');

    expect(await requestFor(['read'])).toMatchObject({ kind: 'narrowed' });
  });
});

describe('R135 a user whose own token is due waits for at most one refresh of a service', () => {
  test.each([
    ['in one process', () => refresher],
    ['in another process', () => otherRefresher],
  ])('while 20 narrower tokens of one grant are requested, %s', async (_description, refresherOfUser) => {
    await storeGrant({ expiresAt: now - 1 });
    const calledProvider = Promise.withResolvers<void>();
    const isReleased = Promise.withResolvers<void>();
    respond = async ({ scopes }) => {
      calledProvider.resolve();
      await isReleased.promise;
      return newTokens(scopes ? 'narrow' : 'own', undefined, { expiresInSeconds: 3_600 });
    };
    const narrowedResults = Array.from({ length: 20 }, (_, number) => requestNarrowed([`scope ${number}`]));
    await calledProvider.promise;
    const ownResult = refresherOfUser().refresh({ userId: 'u1', app: APP });
    // Once this record exists, the user's request waits for the lease.
    await until(async () => (await store.get(keys.awaitedRefresh('u1', APP.id))) !== undefined);
    isReleased.resolve();

    expect(await ownResult).toMatchObject({ grant: { accessToken: 'own' } });
    expect(calls.slice(0, 2).map(({ scopes }) => scopes)).toEqual([[expect.any(String)], undefined]);

    const kinds = (await Promise.all(narrowedResults)).map(({ kind }) => kind);
    expect(new Set(kinds)).toEqual(new Set(['narrowed']));
    expect(await store.get(keys.awaitedRefresh('u1', APP.id))).toBeUndefined();
  });
});

test('R135 after a step back of the clock, a request that waited before it delays no narrower token', async () => {
  await storeGrant();
  await grants.addAwaitedRefresh('u1', APP.id);
  // The clock of another process is behind.
  now -= 29_999;

  expect(await grants.isRefreshAwaited('u1', APP.id)).toBe(true);

  now -= 1;
  expect(await grants.isRefreshAwaited('u1', APP.id)).toBe(false);

  respond = async () => newTokens('narrow');
  expect(await requestNarrowed()).toMatchObject({ kind: 'narrowed' });
});

describe('R135 services that request narrower tokens of one grant take turns', () => {
  test.each([
    ['in one process', () => narrowedTokens],
    ['in two processes', () => otherNarrowedTokens],
  ])(
    'a service that keeps 20 requests in flight delays another one by at most four calls, %s',
    async (_description, narrowedTokensOfOther) => {
      await storeGrant();
      const calledProvider = Promise.withResolvers<void>();
      const isReleased = Promise.withResolvers<void>();
      respond = async () => {
        calledProvider.resolve();
        await isReleased.promise;
        return newTokens('narrow', undefined, { expiresInSeconds: undefined });
      };
      let isFlooding = true;
      const floodingRequests = Array.from({ length: 20 }, async (_, number) => {
        for (let round = 0; isFlooding; round += 1)
          expect(await requestNarrowed([`flood ${number} ${round}`])).toMatchObject({ kind: 'narrowed' });
      });
      await calledProvider.promise;
      const resultOfOther = narrowedTokensOfOther().accessToken('u1', APP, { scopes: ['beside'] }, 'other');
      isReleased.resolve();

      expect(await resultOfOther).toMatchObject({ kind: 'narrowed' });

      isFlooding = false;
      expect(calls.findIndex(({ scopes }) => scopes?.[0] === 'beside')).toBeLessThanOrEqual(4);

      await Promise.all(floodingRequests);
    },
  );
});

describe('no narrower token is issued', () => {
  const UNAVAILABLE = { kind: 'unavailable', isUnverified: false, retryAfterSeconds: 30 };

  test.each([
    ['no refresh token', () => ({ refreshToken: undefined }), { kind: 'unsupported' }],
    ['a grant that has ended', () => failureOfKind('reconnect_needed'), { kind: 'no_grant' }],
    ['a grant that backs off', () => failureOfKind('passing'), UNAVAILABLE],
  ] as const)('with %s, and the provider is not called', async (_what, changes, result) => {
    await storeGrant(changes());
    expect(await requestNarrowed()).toEqual(result);
    expect(calls).toEqual([]);
  });

  test('while the connection is unverified, for at least 5 seconds, and the result says so', async () => {
    await storeGrant({ failure: { ...failureOfKind('passing').failure, tokenRefused: true, retryAt: now + 2_000 } });
    expect(await requestNarrowed()).toEqual({ kind: 'unavailable', isUnverified: true, retryAfterSeconds: 5 });

    await storeGrant({ failure: { ...failureOfKind('passing').failure, retryAt: now + 5_001 } });
    expect(await requestNarrowed()).toEqual({ kind: 'unavailable', isUnverified: false, retryAfterSeconds: 6 });
  });

  test('without a grant', async () => {
    expect(await requestNarrowed()).toEqual({ kind: 'no_grant' });
  });

  test.each(['invalid_scope', 'invalid_request'])(
    'if the provider refuses with %s, and the grant stays active',
    async (reason) => {
      await storeGrant();
      respond = async () => ({ kind: 'unclear_refusal', reason });

      expect(await requestNarrowed()).toEqual({ kind: 'unsupported' });
      expect(await readGrant()).toMatchObject({ failure: undefined, refresh: undefined });
      expect(await grants.listUnfinishedRefreshes()).toEqual([]);
    },
  );

  test('for five minutes after the provider refused one with these scopes, without another call', async () => {
    await storeGrant();
    respond = async () => ({ kind: 'unclear_refusal', reason: 'invalid_scope' });

    for (let request = 0; request < 300; request += 1) expect(await requestNarrowed()).toEqual({ kind: 'unsupported' });
    expect(calls).toHaveLength(1);
    expect(await requestNarrowed(['write'])).toEqual({ kind: 'unsupported' });
    expect(calls).toHaveLength(2);

    respond = async () => newTokens('narrow');
    now += 299_999;

    expect(await requestNarrowed()).toEqual({ kind: 'unsupported' });

    now += 1;
    expect(await requestNarrowed()).toMatchObject({ kind: 'narrowed' });
  });

  test('after the provider granted more scopes than were requested, without another call', async () => {
    await storeGrant();
    respond = async () => newTokens('wide', undefined, { scopes: ['read', 'write'] });

    for (let request = 0; request < 300; request += 1) expect(await requestNarrowed()).toEqual({ kind: 'unsupported' });
    expect(calls).toHaveLength(1);
  });

  test('after a refusal, until a new consent or a step back of the clock', async () => {
    await storeGrant();
    respond = async () => ({ kind: 'unclear_refusal', reason: 'invalid_scope' });

    expect(await requestNarrowed()).toEqual({ kind: 'unsupported' });

    await storeGrant({ consentedAt: NOW + 1 });
    expect(await requestNarrowed()).toEqual({ kind: 'unsupported' });
    expect(calls).toHaveLength(2);

    respond = async () => newTokens('narrow');
    now -= 3_600_000;
    const stopClock = startClock();

    expect(await requestNarrowed()).toMatchObject({ kind: 'narrowed' });

    stopClock();
  });

  test('while the provider is unavailable, until the back-off of the grant ends', async () => {
    await storeGrant();
    respond = async () =>
      ({ kind: 'unavailable', reason: 'timeout', sent: false, retryAfterSeconds: 7 }) as RefreshOutcome;

    expect(await requestNarrowed()).toEqual(UNAVAILABLE);

    now += 60_000;
    respond = async () => newTokens('narrow');

    expect(await requestNarrowed()).toMatchObject({ kind: 'narrowed' });
  });
});

describe('after a refresh that a kill interrupted', () => {
  test('the received refresh token is used first', async () => {
    await storeGrant({ refresh: { startedAt: now - 60_000, received: 'rt2' } });
    respond = async ({ refreshToken, scopes }) => newTokens(scopes ? 'narrow' : 'at3', `${refreshToken}+`);

    expect(await requestNarrowed()).toMatchObject({ kind: 'narrowed', accessToken: 'narrow' });
    expect(calls.at(-1)?.scopes).toEqual(['read']);
    expect(calls[0]?.refreshToken).toBe('rt2');
    expect((await readGrant()).refresh).toBeUndefined();
  });

  test.each([true, false])('a refresh token that may be spent is sent once more (rotates: %s)', async (rotates) => {
    await storeGrant({ refresh: { startedAt: now - 60_000, received: undefined }, rotates });
    respond = async () => newTokens('narrow');

    expect(await requestNarrowed()).toMatchObject({ kind: 'narrowed' });
    expect(calls).toEqual([{ refreshToken: 'rt1', scopes: ['read'] }]);
    expect((await readGrant()).refresh).toBeUndefined();
  });

  test('R39 a refresh token that the interrupted refresh spent ends the grant with the cause response_lost', async () => {
    await storeGrant({ refresh: { startedAt: now - 60_000, received: undefined }, rotates: true });
    respond = async () => ({ kind: 'refused' });

    expect(await requestNarrowed()).toEqual({ kind: 'no_grant' });
    expect((await readGrant()).failure).toMatchObject({ kind: 'reconnect_needed', cause: 'response_lost' });
  });

  test('R39 a refusal of the scopes does not hide that the refresh token may be spent, and delays no later refresh', async () => {
    await storeGrant({ refresh: { startedAt: now - 120_000, received: undefined }, rotates: true });
    respond = async () => ({ kind: 'unclear_refusal', reason: 'invalid_scope' });
    const took = startStopwatch();

    for (const scope of ['a', 'b', 'c']) expect(await requestNarrowed([scope])).toEqual({ kind: 'unsupported' });
    expect(took()).toBeLessThan(1_000);

    respond = async () => ({ kind: 'refused' });
    expect(await requestNarrowed()).toEqual({ kind: 'no_grant' });
    expect((await readGrant()).failure).toMatchObject({ kind: 'reconnect_needed', cause: 'response_lost' });
  });

  test('a start closes every open refresh, even if an app no longer exists and one refresh fails', async () => {
    await storeGrant({ refresh: { startedAt: now - 60_000, received: 'rt2' } });
    await grants.addUnfinishedRefresh('u1', APP.id);
    await grants.addUnfinishedRefresh('u1', 'gone');
    await grants.addUnfinishedRefresh('u2', APP.id);
    respond = async () => newTokens('at3', 'rt3');
    await refresher.refreshInterrupted((id) => (id === APP.id ? APP : undefined));

    expect(await grants.listUnfinishedRefreshes()).toEqual([]);
    expect(await readGrant()).toMatchObject({ refreshToken: 'rt3', refresh: undefined });
    expect(calls.map(({ refreshToken }) => refreshToken)).toEqual(['rt2']);
  });
});
