/** Refreshing with a scripted provider, which can change the stored grant between two steps of a refresh. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import { type AccessTokens, createAccessTokens } from '../../../src/gatehouse/grants/access-tokens.ts';
import { createConnections } from '../../../src/gatehouse/grants/connections.ts';
import type { Grant } from '../../../src/gatehouse/grants/grant.ts';
import { createGrantStore, type GrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { createRefresher, type Refresher, refreshTimes } from '../../../src/gatehouse/grants/refresh.ts';
import { createRevocations } from '../../../src/gatehouse/grants/revocations.ts';
import { createServiceShare } from '../../../src/gatehouse/grants/service-share.ts';
import { AppError } from '../../../src/shared/errors.ts';
import type { Events } from '../../../src/shared/observability/events.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import type { ProviderClient } from '../../../src/shared/provider/provider-client.ts';
import type { RefreshOutcome, TokenRefresh } from '../../../src/shared/provider/token-refresh.ts';
import type { TokenResponse } from '../../../src/shared/provider/token-response.ts';
import { generateEncryptionKey, parseEncryptionKeys } from '../../../src/shared/storage/key-ring.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createLeases } from '../../../src/shared/storage/lease.ts';
import { createSealer } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson, type SealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { PLATFORM } from '../../support/apps.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { LONG_TIMEOUT } from '../../support/until.ts';

const APP = { ...PLATFORM, name: 'Platform', scopes: ['openid'] } as ConnectedApp;
const NOW = 1_800_000_000_000;
const LEASE_MS = 4_000;

let directory: string;
let store: Store;
let sealedJson: SealedJson;
let grants: GrantStore;
let refresher: Refresher;
let accessTokens: AccessTokens;
let now = NOW;
/** The refresh tokens that were sent to the provider. */
let sentRefreshTokens: string[];
let revokedTokens: string[];
/** The causes of the events that a user must reconnect. */
let reconnectCauses: string[];
/** The events that a connection works again. */
let recoveryEvents: object[];
/** The log entries of the calls to the provider. */
let refreshLogEntries: object[];
/** How the provider responds. */
let respond: (refreshToken: string) => Promise<RefreshOutcome>;

const provider = {
  refresh(_app: ConnectedApp, { refreshToken }: TokenRefresh) {
    sentRefreshTokens.push(refreshToken);
    return respond(refreshToken);
  },
  async revoke(_app: ConnectedApp, requestToken: string) {
    revokedTokens.push(requestToken);
    return { outcome: 'revoked' as const };
  },
} as unknown as ProviderClient;
const providerCalls = { provider, revokeUnowned: provider.revoke };

const events = {
  refreshEnded: (facts: object) => void refreshLogEntries.push(facts),
  reconnectNeeded: ({ cause }: { cause: string }) => void reconnectCauses.push(cause),
  connectionCreated: () => undefined,
  connectionRecovered: (facts: object) => void recoveryEvents.push(facts),
  connectionRemoved: () => undefined,
} as unknown as Events;

beforeEach(async () => {
  now = NOW;
  sentRefreshTokens = [];
  revokedTokens = [];
  reconnectCauses = [];
  recoveryEvents = [];
  refreshLogEntries = [];
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-test-'));
  store = await createSqliteStore({ directory, clock: () => now, random: Math.random });
  const parsed = parseEncryptionKeys(generateEncryptionKey(new Date()));
  if ('faults' in parsed) throw new Error(parsed.faults.join());
  const clock = () => now;
  sealedJson = createSealedJson(createSealer(parsed.keys));
  grants = createGrantStore({ store, sealedJson, clock });
  refresher = newRefresher();
  accessTokens = createAccessTokens({ grants, refresher, inServiceShare, missing: noMissingScopes, clock });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

/** No service takes part in these tests. */
const inServiceShare = createServiceShare(
  { runInServiceShare: (_host, _service, work) => work() },
  { readMetadata: async () => undefined, tokenOrigin: () => undefined },
);
const TIMES = refreshTimes(300);
const noMissingScopes = { announce: async () => undefined };

/** The parts of another process, which shares only the store. */
const newRefresher = (times = TIMES) =>
  createRefresher({
    grants,
    ...providerCalls,
    leases: createLeases({ store, milliseconds: LEASE_MS }),
    times,
    events,
    clock: () => now,
    random: () => 0.5,
  });

const newRevocations = (grantStore: GrantStore) =>
  createRevocations({
    store,
    sealedJson,
    grants: grantStore,
    provider,
    findApp: () => APP,
    events,
    clock: () => now,
    random: () => 0.5,
  });
/** The writes for a user who was never deleted. */
const writesOfUser = async () => ({ writes: [{ delete: keys.erasedUser('u1'), ifVersion: 0 }] });
const isRegistered = async () => true;
const NO_LINKS = { isOpen: async () => false };
const newConnections = (grantStore: GrantStore) =>
  createConnections({
    checkSeconds: 86_400,
    grants: grantStore,
    revocations: newRevocations(grantStore),
    links: NO_LINKS,
    findApp: () => APP,
    isRegistered,
    events,
    clock: () => now,
  });

function newTokens(
  accessToken: string,
  refreshToken?: string,
): RefreshOutcome & { kind: 'tokens'; response: TokenResponse } {
  const rest = { idToken: undefined, scopes: undefined, expiresInSeconds: 60, claims: undefined };
  return { kind: 'tokens', response: { accessToken, refreshToken, ...rest } };
}

/** A grant whose access token expired a second ago. */
async function storeGrant(userId = 'u1', changes: Partial<Grant> = {}): Promise<void> {
  const grant: Grant = {
    id: `c-${userId}`,
    userId,
    appId: APP.id,
    registration: registrationOf(APP),
    accessToken: `at1-${userId}`,
    refreshToken: `rt1-${userId}`,
    scopes: ['openid'],
    account: {},
    obtainedAt: now - 61_000,
    expiresAt: now - 1_000,
    connectedAt: now - 61_000,
    consentedAt: now - 61_000,
    failure: undefined,
    refresh: undefined,
    ...changes,
  };
  const version = (await grants.loadStored(userId, APP.id))?.version ?? 0;
  expect(await grants.save(grant, version)).toBeDefined();
}

async function readGrant(userId = 'u1'): Promise<Grant> {
  const storedGrant = await grants.loadStored(userId, APP.id);
  if (!storedGrant || 'unreadable' in storedGrant) throw new Error('There is no grant.');
  return storedGrant.grant;
}

const requestToken = (rejected?: string) =>
  rejected === undefined ? accessTokens.get('u1', APP) : accessTokens.getAnother('u1', APP, rejected);

describe('concurrent requests for a token', () => {
  test('R34: of two concurrent processes, one refreshes, and the other loads the result', async () => {
    await storeGrant();
    respond = async () => {
      await new Promise((resolve) => setTimeout(resolve, 100));
      return newTokens('at2', 'rt2');
    };
    const request = { userId: 'u1', app: APP, rejected: undefined };

    const results = await Promise.all([refresher.refresh(request), newRefresher().refresh(request)]);
    expect(results).toMatchObject([{ grant: { accessToken: 'at2' } }, { grant: { accessToken: 'at2' } }]);
    expect(sentRefreshTokens).toEqual(['rt1-u1']);
  });

  test('R42: does not refresh a refused token that was replaced since', async () => {
    await storeGrant('u1', { accessToken: 'at2', obtainedAt: now - 60_000, expiresAt: now + 3_600_000 });
    respond = async () => newTokens('at3', 'rt3');

    expect(await requestToken('at1-u1')).toMatchObject({ kind: 'token', accessToken: 'at2' });
    // A direct request for a refresh, such as by a slow service or another process, makes none either.
    for (const rejected of ['at1-u1', undefined]) {
      expect(await refresher.refresh({ userId: 'u1', app: APP, rejected })).toMatchObject({
        grant: { accessToken: 'at2' },
      });
    }
    expect(sentRefreshTokens).toEqual([]);
    expect(await requestToken('at2')).toMatchObject({ kind: 'token', accessToken: 'at3' });
    expect(sentRefreshTokens).toEqual(['rt1-u1']);
  });

  test('R31: any number of callers share one refresh', async () => {
    await storeGrant();
    respond = async () => newTokens('at2', 'rt2');

    const results = await Promise.all(Array.from({ length: 50 }, () => requestToken()));
    expect(new Set(results.map((result) => result.kind === 'token' && result.accessToken))).toEqual(new Set(['at2']));
    expect(sentRefreshTokens).toEqual(['rt1-u1']);
  });

  test('R33: each of 200 concurrent users gets the right token, even if the ids look like parts of a key', async () => {
    const users = [...Array.from({ length: 198 }, (_, number) => `user-${number}`), 'a","b', 'a'];
    for (const user of users) await storeGrant(user);
    respond = async (refreshToken) => newTokens(`at2-${refreshToken}`, `rt2-${refreshToken}`);

    const results = await Promise.all([...users, ...users].map((user) => accessTokens.get(user, APP)));
    expect(results.map((result) => result.kind === 'token' && result.accessToken)).toEqual(
      [...users, ...users].map((user) => `at2-rt1-${user}`),
    );
    expect(sentRefreshTokens).toHaveLength(200);
  });

  test('R33: two apps of one user are two connections', async () => {
    const secondApp = { ...APP, id: 'second' } as ConnectedApp;
    await storeGrant();
    await grants.save({ ...(await readGrant()), appId: 'second', refreshToken: 'rt1-second' }, 0);
    respond = async (refreshToken) => newTokens(`for-${refreshToken}`);

    const results = await Promise.all([accessTokens.get('u1', APP), accessTokens.get('u1', secondApp)]);
    expect(results).toMatchObject([{ accessToken: 'for-rt1-u1' }, { accessToken: 'for-rt1-second' }]);
  });

  test('a caller whose token was refused gets its own refresh if the shared one found nothing due', async () => {
    await storeGrant('u1', { obtainedAt: now - 61_000, expiresAt: now + 600_000 });
    respond = async () => newTokens('at2', 'rt2');

    const [, resultAfterRefusal] = await Promise.all([
      refresher.refresh({ userId: 'u1', app: APP }),
      refresher.refresh({ userId: 'u1', app: APP, rejected: 'at1-u1' }),
    ]);
    expect(resultAfterRefusal).toMatchObject({ grant: { accessToken: 'at2' } });
    expect(sentRefreshTokens).toHaveLength(1);
  });

  test('each of many callers of a grant that cannot be refreshed reads it about once', async () => {
    await storeGrant('u1', { expiresAt: now + 600_000 });
    respond = async () => ({ kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined });
    const reads = vi.spyOn(store, 'getIfChanged');

    const results = await Promise.all(Array.from({ length: 300 }, () => requestToken('at1-u1')));
    expect(new Set(results.map(({ kind }) => kind))).toEqual(new Set(['unavailable']));
    expect(sentRefreshTokens).toHaveLength(1);
    expect(reads.mock.calls.length).toBeGreaterThanOrEqual(300);
    expect(reads.mock.calls.length).toBeLessThan(320);
  });

  test('F22, R90: close waits for a refresh in flight, even if no caller waits for its result', async () => {
    await storeGrant();
    const { promise, resolve } = Promise.withResolvers<RefreshOutcome>();
    respond = () => promise;
    const pendingToken = accessTokens.get('u1', APP);
    pendingToken.catch(() => undefined);
    await vi.waitFor(() => expect(sentRefreshTokens).toHaveLength(1), LONG_TIMEOUT);
    let isClosed = false;
    const closing = refresher.close().then(() => {
      isClosed = true;
    });
    await new Promise((resume) => setTimeout(resume, 30));

    expect(isClosed).toBe(false);

    resolve(newTokens('at2', 'rt2'));
    await closing;

    expect((await readGrant()).refreshToken).toBe('rt2');
  });
});

describe('concurrent writes', () => {
  test('R37: if another process has stored new tokens, a refusal does not end the grant, and they are used', async () => {
    await storeGrant();
    respond = async () => {
      await storeGrant('u1', { accessToken: 'theirs', refreshToken: 'rt-theirs', expiresAt: now + 60_000 });
      return { kind: 'refused' };
    };

    expect(await requestToken()).toMatchObject({ kind: 'token', accessToken: 'theirs' });
    expect((await readGrant()).failure).toBeUndefined();
    expect(reconnectCauses).toEqual([]);
  });

  test('R37: a refusal of the stored token ends the grant once, even if another process wrote in between', async () => {
    await storeGrant();
    respond = async () => {
      await storeGrant('u1', {
        failure: { kind: 'passing', cause: 'provider_unavailable', since: now, failures: 1, retryAt: now },
      });
      return { kind: 'refused' };
    };

    expect(await requestToken()).toEqual({ kind: 'reconnect_needed', cause: 'grant_refused' });
    expect(await requestToken()).toEqual({ kind: 'reconnect_needed', cause: 'grant_refused' });
    expect(sentRefreshTokens).toHaveLength(1);
    expect(reconnectCauses).toEqual(['grant_refused']);
  });

  const changesWithFailure = (kind: 'passing' | 'reconnect_needed'): Partial<Grant> => ({
    failure: { kind, cause: 'grant_refused', since: now, failures: 1, retryAt: now + 30_000 },
  });

  test.each(['passing', 'reconnect_needed'] as const)(
    'R32, R36: new tokens replace a failure (%s) that another process wrote during the refresh',
    async (kind) => {
      await storeGrant();
      respond = async () => {
        await storeGrant('u1', changesWithFailure(kind));
        return newTokens('at2', 'rt2');
      };

      expect(await requestToken()).toMatchObject({ kind: 'token', accessToken: 'at2' });

      const { refreshToken, failure } = await readGrant();
      expect({ refreshToken, failure }).toEqual({ refreshToken: 'rt2', failure: undefined });
    },
  );

  test('R33: tokens with an ID token of another subject replace nothing', async () => {
    await storeGrant('u1', { account: { subject: 'mine' } });
    const outcomeOfOther = newTokens('at-theirs', 'rt-theirs');
    respond = async () => ({ ...outcomeOfOther, response: { ...outcomeOfOther.response, claims: { sub: 'theirs' } } });

    expect(await requestToken()).toMatchObject({ kind: 'unavailable', cause: 'unusable_response' });

    const storedGrant = await grants.loadStored('u1', APP.id);
    expect(storedGrant).toMatchObject({ grant: { accessToken: 'at1-u1', refreshToken: 'rt1-u1' } });
  });

  /** The store of a process that can read and write nothing while `isUnavailable` is true. */
  function interruptibleStore(isUnavailable: () => boolean): Store {
    const guarded =
      <Parameters extends unknown[], Result>(method: (...parameters: Parameters) => Promise<Result>) =>
      async (...parameters: Parameters): Promise<Result> => {
        if (isUnavailable()) throw new AppError('storage_unavailable');
        return method(...parameters);
      };
    return {
      ...store,
      get: guarded(store.get),
      getIfChanged: guarded(store.getIfChanged),
      write: guarded(store.write),
      renewLease: guarded(store.renewLease),
      releaseLease: guarded(store.releaseLease),
    };
  }

  test.each([
    [300, 400],
    [2_000, 2_500],
  ])(
    'R34: a refresh whose lease expired during a storage outage is finished without a second call (deadline %i ms)',
    async (deadlineMs, remainingOutageMs) => {
      await storeGrant();
      let isStoreAway = false;
      const interruptedRefresher = createRefresher({
        grants: createGrantStore({ store: interruptibleStore(() => isStoreAway), sealedJson, clock: () => now }),
        leases: createLeases({ store: interruptibleStore(() => isStoreAway), milliseconds: LEASE_MS }),
        ...providerCalls,
        times: TIMES,
        events,
        clock: () => now,
        random: () => 0.5,
      });
      let nextRefresh: Promise<unknown> = Promise.resolve();
      respond = async () => {
        isStoreAway = true;
        now += LEASE_MS + 1_000;
        setTimeout(() => {
          nextRefresh = newRefresher(refreshTimes(deadlineMs)).refresh({ userId: 'u1', app: APP });
          // The outage of the first process ends while the next refresh waits for it.
          setTimeout(() => (isStoreAway = false), remainingOutageMs);
        }, 100);
        return newTokens('at2', 'rt2');
      };

      await interruptedRefresher.refresh({ userId: 'u1', app: APP });
      await nextRefresh;

      expect(sentRefreshTokens).toEqual(['rt1-u1']);
      expect(await readGrant()).toMatchObject({ accessToken: 'at2', refreshToken: 'rt2' });
      expect((await readGrant()).refresh).toBeUndefined();
    },
  );

  /**
   * Starts two calls to the provider with one refresh token. The first process is suspended during its call until its
   * lease expires; then a second process takes the lease and sends its own call.
   */
  async function startTwoCalls() {
    await storeGrant();
    const outcomes = [Promise.withResolvers<RefreshOutcome>(), Promise.withResolvers<RefreshOutcome>()];
    respond = () => outcomes[sentRefreshTokens.length - 1]?.promise ?? Promise.reject(new Error('A third call.'));
    const first = suspendedRefresher().refresh({ userId: 'u1', app: APP });
    await vi.waitUntil(() => sentRefreshTokens.length === 1, LONG_TIMEOUT);
    now += LEASE_MS + 1_000;
    const second = newRefresher().refresh({ userId: 'u1', app: APP });
    await vi.waitUntil(() => sentRefreshTokens.length === 2, LONG_TIMEOUT);
    return { outcomes, first, second };
  }

  /** The refresher of a process that is suspended, and so cannot renew its lease. */
  const suspendedRefresher = () => {
    const leases = createLeases({ store: { ...store, renewLease: async () => false }, milliseconds: LEASE_MS });
    return createRefresher({
      grants,
      ...providerCalls,
      events,
      leases,
      times: TIMES,
      clock: () => now,
      random: () => 0.5,
    });
  };

  test('R36: of two calls with one token, the later one wins, whichever response is written first', async () => {
    const { outcomes, first, second } = await startTwoCalls();
    outcomes[0]?.resolve(newTokens('at2', 'rt2'));
    await first;

    // The token is kept in case the second response never arrives. The journal entry of the second call stays open.
    expect(await readGrant()).toMatchObject({ refreshToken: 'rt2', refresh: { received: undefined } });

    outcomes[1]?.resolve(newTokens('at3', 'rt3'));
    await second;

    expect(await readGrant()).toMatchObject({ accessToken: 'at3', refreshToken: 'rt3' });
    expect((await readGrant()).refresh).toBeUndefined();
    expect([sentRefreshTokens.length, revokedTokens]).toEqual([2, []]);
  });

  test('R36: a call with an open journal entry sends the refresh token of a late response', async () => {
    await storeGrant();
    const lateResponse = Promise.withResolvers<RefreshOutcome>();
    respond = () => (sentRefreshTokens.length === 1 ? lateResponse.promise : Promise.resolve(unavailable));
    const unavailable: RefreshOutcome = { kind: 'unavailable', reason: 'status_503', retryAfterSeconds: undefined };
    const firstRefresh = suspendedRefresher().refresh({ userId: 'u1', app: APP });
    await vi.waitUntil(() => sentRefreshTokens.length === 1, LONG_TIMEOUT);
    now += LEASE_MS + 1_000;
    const grantsWithLateResponse: GrantStore = {
      ...grants,
      async save(grant, version, fence) {
        const isSaved = await grants.save(grant, version, fence);
        if (sentRefreshTokens.length === 1) {
          lateResponse.resolve(newTokens('at2', 'rt2'));
          await firstRefresh;
        }
        return isSaved;
      },
    };
    const leases = createLeases({ store, milliseconds: LEASE_MS });
    const refresherParts = {
      grants: grantsWithLateResponse,
      ...providerCalls,
      events,
      leases,
      times: TIMES,
      clock: () => now,
      random: () => 0.5,
    };
    await createRefresher(refresherParts).refresh({ userId: 'u1', app: APP });

    expect(sentRefreshTokens).toEqual(['rt1-u1', 'rt2']);
    expect(await readGrant()).toMatchObject({ accessToken: 'at2', refreshToken: 'rt2' });
    expect((await readGrant()).refresh).toBeUndefined();
  });

  test('R36: an unusable response closes its entry, and keeps the tokens of another call', async () => {
    const { outcomes, first, second } = await startTwoCalls();
    outcomes[0]?.resolve(newTokens('at2', 'rt2'));
    await first;
    outcomes[1]?.resolve({ kind: 'app_fault', reason: 'invalid_client' });
    await second;

    expect(await readGrant()).toMatchObject({ accessToken: 'at2', refreshToken: 'rt2' });
    expect((await readGrant()).refresh).toBeUndefined();
  });

  test('R37: a refusal does not end a connection that was renewed during the call with the same refresh token', async () => {
    await storeGrant();
    respond = async () => {
      await storeGrant('u1', { accessToken: 'new', expiresAt: now + 60_000 });
      return { kind: 'refused' };
    };

    expect(await requestToken()).toMatchObject({ kind: 'token', accessToken: 'new' });
    expect(reconnectCauses).toEqual([]);
  });

  test('R39: a refresh that fails before its call keeps the entry of an earlier, killed refresh', async () => {
    const interruptedRefresh = { startedAt: now - 200_000, received: undefined };
    await storeGrant('u1', { refresh: interruptedRefresh });
    let isFirstSave = true;
    const grantsFailingOnce: GrantStore = {
      ...grants,
      async save(...args) {
        const isSaved = await grants.save(...args);
        if (!isFirstSave) return isSaved;
        isFirstSave = false;
        throw new AppError('storage_unavailable');
      },
    };
    const leases = createLeases({ store, milliseconds: LEASE_MS });
    const refresherParts = {
      grants: grantsFailingOnce,
      ...providerCalls,
      events,
      leases,
      times: TIMES,
      clock: () => now,
      random: () => 0.5,
    };

    await expect(createRefresher(refresherParts).refresh({ userId: 'u1', app: APP })).rejects.toThrow(AppError);

    await vi.waitUntil(
      async () => (await readGrant()).refresh?.startedAt === interruptedRefresh.startedAt,
      LONG_TIMEOUT,
    );
    respond = async () => ({ kind: 'refused' });

    expect(await requestToken()).toEqual({ kind: 'reconnect_needed', cause: 'response_lost' });
    expect(sentRefreshTokens).toHaveLength(1);
  });

  test('R34: a refresh that loses the storage before its call delays the next one only as long as the outage', async () => {
    await storeGrant();
    let isStoreAway = false;
    let isFirstSave = true;
    const interruptibleGrants = createGrantStore({
      store: interruptibleStore(() => isStoreAway),
      sealedJson,
      clock: () => now,
    });
    const interruptedRefresher = createRefresher({
      grants: {
        ...interruptibleGrants,
        async save(...args) {
          const isSaved = await interruptibleGrants.save(...args);
          isStoreAway = isFirstSave;
          isFirstSave = false;
          return isSaved;
        },
      },
      leases: createLeases({ store: interruptibleStore(() => isStoreAway), milliseconds: LEASE_MS }),
      ...providerCalls,
      times: TIMES,
      events,
      clock: () => now,
      random: () => 0.5,
    });

    await expect(interruptedRefresher.refresh({ userId: 'u1', app: APP })).rejects.toThrow(AppError);
    expect((await readGrant()).refresh).toBeDefined();

    const took = startStopwatch();
    setTimeout(() => (isStoreAway = false), 300);
    respond = async () => newTokens('at2', 'rt2');
    await newRefresher().refresh({ userId: 'u1', app: APP });

    expect(took()).toBeLessThan(1_200);
    expect(sentRefreshTokens).toEqual(['rt1-u1']);
    expect((await readGrant()).refreshToken).toBe('rt2');
  });

  test('R36: if the later call is refused because the earlier one spent the token, the tokens of the earlier call stay', async () => {
    const { outcomes, first, second } = await startTwoCalls();
    outcomes[0]?.resolve(newTokens('at2', 'rt2'));
    await first;
    outcomes[1]?.resolve({ kind: 'refused' });

    expect(await second).toMatchObject({ grant: { accessToken: 'at2' } });
    expect(await readGrant()).toMatchObject({ accessToken: 'at2', refreshToken: 'rt2' });

    const { failure, refresh } = await readGrant();
    expect([failure, refresh]).toEqual([undefined, undefined]);
    expect(reconnectCauses).toEqual([]);
  });

  test('R32: the refresh token of an otherwise unusable response is stored, even after a write of another process', async () => {
    await storeGrant();
    respond = async () => {
      await storeGrant('u1', changesWithFailure('passing'));
      return { kind: 'unusable', reason: 'token_response_invalid', refreshToken: 'rt2' };
    };

    expect(await requestToken()).toMatchObject({ kind: 'unavailable', cause: 'unusable_response' });
    expect(await readGrant()).toMatchObject({ refreshToken: 'rt2' });
  });

  test('R36: late tokens do not replace newer ones', async () => {
    await storeGrant();
    const newerTokens = { accessToken: 'theirs', refreshToken: 'rt-theirs', expiresAt: now + 60_000 };
    respond = async () => {
      await storeGrant('u1', newerTokens);
      return newTokens('at2', 'rt2');
    };

    expect(await requestToken()).toMatchObject({ kind: 'token', accessToken: 'theirs' });
    expect(await readGrant()).toMatchObject(newerTokens);
    expect(revokedTokens).toEqual([]);
  });

  test.each<[string, RefreshOutcome, string[]]>([
    ['with a new refresh token: that token is revoked', newTokens('at2', 'rt2'), ['rt2']],
    ['without a new refresh token: the access token is revoked', newTokens('at2'), ['at2']],
    [
      'with a refresh token in an otherwise unusable response: that token is revoked',
      { kind: 'unusable', reason: 'token_response_invalid', refreshToken: 'rt2' },
      ['rt2'],
    ],
    ['with an unclear refusal: nothing is revoked', { kind: 'unclear_refusal', reason: 'status_400' }, []],
    ['with a refusal: nothing is revoked', { kind: 'refused' }, []],
  ])('R43: a disconnect during a refresh that ends %s', async (_name, outcome, expectedRevocations) => {
    await storeGrant();
    respond = async () => {
      const storedGrant = await grants.loadStored('u1', APP.id);
      await grants.remove('u1', APP.id, storedGrant?.version ?? 0);
      return outcome;
    };

    expect(await requestToken()).toEqual({ kind: 'not_connected' });
    expect(await grants.loadStored('u1', APP.id)).toBeUndefined();
    expect(revokedTokens).toEqual(expectedRevocations);
  });

  test('R43: a disconnect revokes the token of a refresh that ends at the same time', async () => {
    await storeGrant();
    const grantsRefreshedOnRead = {
      ...grants,
      async loadStored(userId: string, appId: string) {
        const storedGrant = await grants.loadStored(userId, appId);
        // The refresh writes after the grant was read and before it is deleted.
        if (revokedTokens.length === 0 && (await readGrant()).refreshToken === 'rt1-u1')
          await storeGrant('u1', { refreshToken: 'rt2' });
        return storedGrant;
      },
    };
    const connections = newConnections(grantsRefreshedOnRead);

    expect(await connections.end('u1', APP.id)).toEqual({ id: 'c-u1', revocation: 'revoked' });
    expect(revokedTokens).toEqual(['rt2']);
    expect(await grants.loadStored('u1', APP.id)).toBeUndefined();
  });

  test.each<[string, RefreshOutcome]>([
    ['tokens', newTokens('at2', 'rt2')],
    ['a refusal', { kind: 'refused' }],
    ['no response', { kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined }],
    ['an unusable response', { kind: 'unusable', reason: 'token_response_invalid', refreshToken: 'rt2' }],
  ])('R116 a refresh that ends with %s returns no grant of another registration of the app', async (_name, outcome) => {
    const moved = { ...APP, issuer: 'https://elsewhere.test' };
    await storeGrant();
    respond = async () => {
      const other = { registration: registrationOf(moved), consentedAt: now, expiresAt: now + 60_000 };
      await storeGrant('u1', { id: 'c-other', accessToken: 'at-other', refreshToken: 'rt-other', ...other });
      return outcome;
    };

    expect(await requestToken()).toEqual({ kind: 'reconnect_needed', cause: 'registration_changed' });
    expect(await readGrant()).toMatchObject({ accessToken: 'at-other', refreshToken: 'rt-other', failure: undefined });
  });

  test.each<[string, Partial<Grant>, ConnectedApp]>([
    ['another account', { account: { subject: 's2' } }, APP],
    ['another provider', { account: { subject: 's1' } }, { ...APP, issuer: 'https://elsewhere.test' }],
    ['another client', { account: { subject: 's1' } }, { ...APP, clientId: 'another' }],
  ])('R43 a refresh that ends after %s was connected revokes its tokens', async (_name, changes, app) => {
    await storeGrant('u1', { account: { subject: 's1' } });
    respond = async () => {
      const registration = registrationOf(app);
      await storeGrant('u1', { id: 'c2', accessToken: 'at-other', refreshToken: 'rt-other', registration, ...changes });
      return newTokens('at2', 'rt2');
    };
    await requestToken();

    expect(revokedTokens).toEqual(['rt2']);
    expect((await readGrant()).refreshToken).toBe('rt-other');
  });

  test.each<[string, ConnectedApp]>([
    ['the same account', APP],
    ['the same account, with another API base URL', { ...APP, apiBaseUrl: 'https://api.elsewhere.test' }],
  ])('R43 a refresh that ends after %s was connected again revokes nothing', async (_name, app) => {
    await storeGrant('u1', { account: { subject: 's1' } });
    respond = async () => {
      const registration = registrationOf(app);
      const account = { subject: 's1' };
      await storeGrant('u1', { id: 'c2', accessToken: 'at-new', refreshToken: 'rt-new', registration, account });
      return newTokens('at2', 'rt2');
    };
    await requestToken();

    expect(revokedTokens).toEqual([]);
  });

  test('the tokens of a new consent during a refresh replace those of the refresh', async () => {
    await storeGrant();
    const connections = newConnections(grants);
    const consent = newTokens('at-consent', 'rt-consent').response;
    respond = async () => {
      await connections.connect({
        userId: 'u1',
        app: APP,
        response: consent,
        scopes: ['openid'],
        account: {},
        writesOfUser,
      });
      return newTokens('at2', 'rt2');
    };

    expect(await requestToken()).toMatchObject({ kind: 'token', accessToken: 'at-consent' });
    expect(await readGrant()).toMatchObject({ refreshToken: 'rt-consent' });
  });

  test('R32, R36: if such a consent brings no refresh token, that of the refresh replaces the spent one', async () => {
    const account = { subject: 's1' };
    await storeGrant('u1', { account });
    const connections = newConnections(grants);
    const consent = newTokens('at-consent').response;
    respond = async () => {
      await connections.connect({
        userId: 'u1',
        app: APP,
        response: consent,
        scopes: ['openid'],
        account,
        writesOfUser,
      });
      return newTokens('at2', 'rt2');
    };

    expect(await requestToken()).toMatchObject({ kind: 'token', accessToken: 'at-consent' });
    expect(await readGrant()).toMatchObject({ accessToken: 'at-consent', refreshToken: 'rt2', rotates: true });
  });
});

test('R38: a refresh without a response stays in the list of open refreshes until a refresh succeeds', async () => {
  await storeGrant();
  respond = async () => ({ kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined });
  await requestToken();

  expect(await grants.listUnfinishedRefreshes()).toEqual([{ userId: 'u1', appId: APP.id }]);

  now += 120_000;
  respond = async () => newTokens('at2', 'rt2');
  await requestToken();

  expect(await grants.listUnfinishedRefreshes()).toEqual([]);
});

test('R130 a refresh that was not sent leaves no journal entry, so a later refusal has the cause grant_refused', async () => {
  await storeGrant();
  respond = async () => ({ kind: 'unavailable', reason: 'connection', retryAfterSeconds: undefined, unsent: true });
  await requestToken();

  expect((await readGrant()).refresh).toBeUndefined();
  expect(await grants.listUnfinishedRefreshes()).toEqual([]);

  now += 120_000;
  respond = async () => ({ kind: 'refused' });
  await requestToken();

  expect(reconnectCauses).toEqual(['grant_refused']);
});

test('a provider that limits the rate is not reported as unavailable', async () => {
  await storeGrant();
  respond = async () => ({ kind: 'unavailable', reason: 'status_429', retryAfterSeconds: 45, limited: true });
  await requestToken();

  expect((await readGrant()).failure).toMatchObject({
    kind: 'passing',
    cause: 'provider_limited',
    reason: 'status_429',
  });
});

describe('the log entry of a call to the provider', () => {
  const facts = { userId: 'u1', app: APP.id, connection: 'c-u1', host: 'idp.test', seconds: expect.any(Number) };
  const passingFailure = { kind: 'passing', cause: 'provider_unavailable', since: 1, failures: 1, retryAt: 1 } as const;

  test.each<[RefreshOutcome, object]>([
    [newTokens('at2'), { outcome: 'refreshed' }],
    [{ kind: 'refused' }, { outcome: 'refused' }],
    [
      { kind: 'app_fault', reason: 'invalid_client' },
      { outcome: 'app_fault', reason: 'invalid_client' },
    ],
    [
      { kind: 'unclear_refusal', reason: 'status_400' },
      { outcome: 'unclear_refusal', reason: 'status_400' },
    ],
    [
      { kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined },
      { outcome: 'unavailable', reason: 'timeout' },
    ],
  ])('has the outcome: %j', async (outcome, expected) => {
    await storeGrant();
    respond = async () => outcome;
    await requestToken();

    expect(refreshLogEntries).toEqual([{ ...facts, reason: undefined, repeated: undefined, ...expected }]);
  });

  test('has the duration in seconds, to the millisecond', async () => {
    await storeGrant();
    respond = async () => {
      await new Promise((resolve) => setTimeout(resolve, 25));
      return newTokens('at2');
    };
    await requestToken();
    const { seconds } = refreshLogEntries[0] as { seconds: number };

    expect(seconds).toBeGreaterThan(0.02);
    expect(seconds).toBeLessThan(60);
    expect(seconds * 1_000).toBeCloseTo(Math.round(seconds * 1_000), 6);
  });

  test('says whether the failure is repeated', async () => {
    respond = async () => ({ kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined });
    await storeGrant('u1', { failure: passingFailure });
    await requestToken();

    expect(refreshLogEntries).toMatchObject([{ outcome: 'unavailable', repeated: true }]);

    respond = async () => newTokens('at2');
    await storeGrant('u1', { failure: passingFailure });
    await requestToken();

    expect(refreshLogEntries[1]).toMatchObject({ outcome: 'refreshed', repeated: undefined });
  });

  test('says whether the call was for fewer scopes, and has the host of a configured token endpoint', async () => {
    const app = { ...APP, endpoints: { token: 'https://tokens.test:8443/token' } } as ConnectedApp;
    await storeGrant('u1', { registration: registrationOf(app), expiresAt: NOW + 600_000 });
    respond = async () => newTokens('at2');
    await refresher.attempt({ userId: 'u1', app, scopes: [] });

    expect(refreshLogEntries).toMatchObject([
      { outcome: 'refreshed', reason: 'for a narrower token', host: 'tokens.test:8443' },
    ]);
  });
});

describe('the result of a request for a token', () => {
  const unexpired = { expiresAt: NOW + 600_000 };

  test('is a token, without a call to the provider if the token is fresh', async () => {
    await storeGrant('u1', unexpired);
    expect(await requestToken()).toEqual({
      kind: 'token',
      accessToken: 'at1-u1',
      consentedAt: NOW - 61_000,
      scopes: ['openid'],
      wasRefused: false,
    });
    expect(sentRefreshTokens).toEqual([]);
  });

  test('is not_connected without a grant', async () => {
    expect(await requestToken()).toEqual({ kind: 'not_connected' });
  });

  test('is another token than the refused one', async () => {
    await storeGrant('u1', unexpired);
    respond = async () => newTokens('at2', 'rt2');

    expect(await requestToken('at1-u1')).toMatchObject({ kind: 'token', accessToken: 'at2' });
    // A caller that still has the first token gets the second one, without another refresh.
    expect(await requestToken('at1-u1')).toMatchObject({ kind: 'token', accessToken: 'at2' });
    expect(sentRefreshTokens).toHaveLength(1);
  });

  test('R42: is still_refused for a token that was just refreshed, without another refresh', async () => {
    await storeGrant('u1', { ...unexpired, obtainedAt: now - 1_000 });
    expect(await requestToken('at1-u1')).toEqual({ kind: 'still_refused' });
    expect(sentRefreshTokens).toEqual([]);

    now += 1_500;
    respond = async () => newTokens('at2', 'rt2');

    expect(await requestToken('at1-u1')).toMatchObject({ accessToken: 'at2' });
  });

  test.each<[RefreshOutcome, string, number]>([
    [{ kind: 'unavailable', reason: 'x', retryAfterSeconds: undefined }, 'provider_unavailable', 30],
    [{ kind: 'unavailable', reason: 'x', retryAfterSeconds: 45 }, 'provider_unavailable', 45],
    [{ kind: 'app_fault', reason: 'x' }, 'app_refused', 30],
    [{ kind: 'unclear_refusal', reason: 'x' }, 'unclear_refusal', 30],
    [{ kind: 'unusable', reason: 'x', refreshToken: undefined }, 'unusable_response', 30],
  ])('is unavailable after %j, with the cause and when to retry', async (outcome, cause, retryAfterSeconds) => {
    await storeGrant();
    respond = async () => outcome;

    expect(await requestToken()).toEqual({ kind: 'unavailable', cause, isUnverified: true, retryAfterSeconds });

    now += retryAfterSeconds * 1000 - 500;
    expect(await requestToken()).toEqual({ kind: 'unavailable', cause, isUnverified: true, retryAfterSeconds: 1 });
    expect(sentRefreshTokens).toHaveLength(1);

    now += 500;
    respond = async () => newTokens('at2');

    expect(await requestToken()).toMatchObject({ kind: 'token', accessToken: 'at2' });
  });

  test('R42: is a token within its margin while the provider hangs, and the refresh continues', async () => {
    await storeGrant('u1', { obtainedAt: now - 600_000, expiresAt: now + 30_000 });
    const { promise, resolve } = Promise.withResolvers<RefreshOutcome>();
    respond = () => promise;

    const took = startStopwatch();

    expect(await requestToken()).toMatchObject({ kind: 'token', accessToken: 'at1-u1' });
    expect(took()).toBeLessThan(3_000);

    resolve(newTokens('at2', 'rt2'));
    await refresher.close();

    expect(await requestToken()).toMatchObject({ accessToken: 'at2' });
    expect(sentRefreshTokens).toHaveLength(1);
  });

  test('R90: close starts no interrupted refresh, and waits for those in flight', async () => {
    for (let userNumber = 0; userNumber < 30; userNumber += 1) {
      await storeGrant(`u${userNumber}`, { refresh: { startedAt: now - 100_000, received: undefined } });
      await grants.addUnfinishedRefresh(`u${userNumber}`, APP.id);
    }
    respond = async (refreshToken) => {
      await new Promise((resolve) => setTimeout(resolve, 100));
      return newTokens('at2', `${refreshToken} new`);
    };
    const resuming = refresher.refreshInterrupted(() => APP);
    await vi.waitUntil(() => sentRefreshTokens.length > 0, LONG_TIMEOUT);
    await refresher.close();
    const refreshesAtClose = sentRefreshTokens.length;

    expect(refreshesAtClose).toBeLessThan(30);
    for (const refreshToken of sentRefreshTokens)
      expect((await readGrant(refreshToken.replace('rt1-', ''))).refreshToken).toBe(`${refreshToken} new`);

    await resuming;
    expect(sentRefreshTokens.length).toBe(refreshesAtClose);
  });

  test('is reconnect_needed for an expired access token without a refresh token', async () => {
    await storeGrant('u1', { refreshToken: undefined });
    expect(await requestToken()).toEqual({ kind: 'reconnect_needed', cause: 'access_ended' });
    expect(reconnectCauses).toEqual(['access_ended']);
  });

  test('is reconnect_needed, with the health unverified, if the platform refuses a token that cannot be replaced', async () => {
    await storeGrant('u1', { ...unexpired, refreshToken: undefined });
    expect(await requestToken('at1-u1')).toEqual({ kind: 'reconnect_needed', cause: 'access_token_refused' });
    expect((await readGrant()).failure?.kind).toBe('unverified');
    expect(await requestToken()).toMatchObject({ kind: 'token', wasRefused: true });

    await accessTokens.clearRefusal('u1', APP.id, 'another-token');
    expect((await readGrant()).failure?.kind).toBe('unverified');

    await accessTokens.clearRefusal('u1', APP.id, 'at1-u1');
    expect((await readGrant()).failure).toBeUndefined();
  });

  test('F16: is the stored token until it expires if the store cannot save a refresh; other errors are thrown', async () => {
    const dueForRefresh = { obtainedAt: now - 3_500_000, expiresAt: now + 10_000 };
    const getTokenFailingWith = (error: Error) =>
      createAccessTokens({
        inServiceShare,
        grants,
        missing: noMissingScopes,
        clock: () => now,
        refresher: { ...refresher, refresh: () => Promise.reject(error) },
      }).get('u1', APP);
    await storeGrant('u1', dueForRefresh);
    const storageError = new AppError('storage_unavailable');

    expect(await getTokenFailingWith(storageError)).toMatchObject({ kind: 'token', accessToken: 'at1-u1' });
    await expect(getTokenFailingWith(new AppError('internal'))).rejects.toMatchObject({ code: 'internal' });
    await expect(getTokenFailingWith(new Error('broken'))).rejects.toThrow('broken');

    now += 10_000;
    await expect(getTokenFailingWith(storageError)).rejects.toBe(storageError);
  });

  test('a successful refresh sends a recovery event only for an unverified connection', async () => {
    const failure = { kind: 'unverified', cause: 'unclear_refusal', since: now, failures: 1, retryAt: now } as const;
    respond = async () => newTokens('at2', 'rt2');
    await storeGrant('u1', { failure });
    await requestToken();

    expect((await readGrant()).failure).toBeUndefined();
    expect(recoveryEvents).toEqual([{ userId: 'u1', app: APP.id, connection: 'c-u1' }]);

    await storeGrant('u1');
    await requestToken();
    expect([sentRefreshTokens.length, recoveryEvents.length]).toEqual([2, 1]);
  });

  test('a successful refresh after a passing failure sends no recovery event', async () => {
    const failure = { kind: 'passing', cause: 'provider_unavailable', since: now, failures: 1, retryAt: now } as const;
    respond = async () => newTokens('at2', 'rt2');
    await storeGrant('u1', { failure });
    await requestToken();

    expect((await readGrant()).failure).toBeUndefined();
    expect(recoveryEvents).toEqual([]);
  });

  test('has the key that the token is bound to and the API base URL of the grant', async () => {
    const dpopKey = { kty: 'EC', crv: 'P-256', x: 'x', y: 'y' };
    await storeGrant('u1', { ...unexpired, dpopKey, apiBaseUrl: 'https://eu.api.test' });
    expect(await requestToken()).toMatchObject({ kind: 'token', dpopKey, apiBaseUrl: 'https://eu.api.test' });
  });

  test('is reconnect_needed for a grant that cannot be read', async () => {
    await storeGrant();
    await store.write([{ put: keys.grant('u1', APP.id), value: 'not sealed' }]);

    expect(await requestToken()).toEqual({ kind: 'reconnect_needed', cause: 'unreadable' });
    expect(sentRefreshTokens).toEqual([]);
  });

  test('is unavailable, not unverified, while a working access token cannot be replaced', async () => {
    const failure = { kind: 'passing', cause: 'app_refused', since: now, failures: 1, retryAt: now + 1_500 } as const;
    await storeGrant('u1', { ...unexpired, failure });

    expect(await requestToken()).toMatchObject({ kind: 'token', wasRefused: false });
    expect(await requestToken('at1-u1')).toEqual({
      kind: 'unavailable',
      cause: 'app_refused',
      isUnverified: false,
      retryAfterSeconds: 2,
    });
  });

  test('an accepted call clears the refusal, and the failed refresh is not retried sooner', async () => {
    const outage = { kind: 'passing', cause: 'provider_unavailable', since: now, failures: 1 } as const;
    const failure = { ...outage, retryAt: now + 9_000, tokenRefused: true };
    await storeGrant('u1', { ...unexpired, failure });

    expect(await requestToken()).toMatchObject({ kind: 'token', wasRefused: true });

    await accessTokens.clearRefusal('u1', APP.id, 'at1-u1');
    expect((await readGrant()).failure).toEqual({ ...failure, tokenRefused: undefined });
    expect(await requestToken()).toMatchObject({ kind: 'token', wasRefused: false });

    // Without a grant or without the store, there is no refusal to clear.
    await accessTokens.clearRefusal('nobody', APP.id, 'at1-u1');
    vi.spyOn(grants, 'load').mockRejectedValueOnce(new Error('away'));
    await accessTokens.clearRefusal('u1', APP.id, 'at1-u1');
  });

  test('clearing a refusal keeps another failure', async () => {
    const failure = { kind: 'unverified', cause: 'unclear_refusal', since: now, failures: 1, retryAt: now } as const;
    await storeGrant('u1', { ...unexpired, failure });
    await accessTokens.clearRefusal('u1', APP.id, 'at1-u1');

    expect((await readGrant()).failure).toEqual(failure);
  });
});

describe('connections', () => {
  const connections = () => newConnections(grants);
  const account = { subject: 's1' };
  const connect = (refreshToken: string | undefined, connectedAccount = account) =>
    connections().connect({
      userId: 'u1',
      app: APP,
      response: newTokens('at-new', refreshToken).response,
      scopes: ['openid'],
      account: connectedAccount,
      writesOfUser,
    });

  test('a second consent without a refresh token keeps the refresh token of the first', async () => {
    await storeGrant('u1', { account });
    await connect(undefined);
    expect(await readGrant()).toMatchObject({
      accessToken: 'at-new',
      refreshToken: 'rt1-u1',
      connectedAt: now - 61_000,
    });
  });

  test('such a consent keeps the expiry of that refresh token, or a newer token of an interrupted refresh', async () => {
    await storeGrant('u1', { account, refreshExpiresAt: now + 9_000 });
    await connect(undefined);

    expect((await readGrant()).refreshExpiresAt).toBe(now + 9_000);

    await storeGrant('u1', { account, refreshExpiresAt: now + 9_000, refresh: { startedAt: now, received: 'rt2' } });
    await connect(undefined);

    expect(await readGrant()).toMatchObject({ accessToken: 'at-new', refreshToken: 'rt2' });
    // The expiry of that token is not known.
    expect((await readGrant()).refreshExpiresAt).toBeUndefined();
  });

  test('a consent never keeps a refresh token of another account, or a refused one', async () => {
    await storeGrant('u1', { account });
    await connect(undefined, { subject: 's2' });

    expect(await readGrant()).toMatchObject({ connectedAt: now, account: { subject: 's2' } });
    expect((await readGrant()).refreshToken).toBeUndefined();

    const failure = { kind: 'reconnect_needed', cause: 'grant_refused', since: 1, failures: 1, retryAt: 1 } as const;
    await storeGrant('u1', { account, failure });

    expect(await connections().needsConsent('u1', APP, ['openid', 'offline_access'], false)).toBe(true);

    await connect(undefined);
    expect((await readGrant()).refreshToken).toBeUndefined();
    expect((await readGrant()).failure).toBeUndefined();
  });

  test('a consent keeps no refresh token if the provider names no account', async () => {
    await storeGrant('u1', { account: {} });
    const consent = {
      userId: 'u1',
      app: APP,
      response: newTokens('at-new').response,
      scopes: ['openid'],
      writesOfUser,
    };
    await connections().connect({ ...consent, account: {} });

    expect((await readGrant()).refreshToken).toBeUndefined();
  });

  const needsConsent = (scopes: string[], isConnecting = false, userId: string | undefined = 'u1') =>
    connections().needsConsent(userId, APP, scopes, isConnecting);

  test('a new consent is required without a refresh token, for fewer scopes, and for added scopes of a choice', async () => {
    const needsOfflineConsent = (scopes: string[], isConnecting?: boolean) =>
      needsConsent([...scopes, 'offline_access'], isConnecting);
    expect([await needsOfflineConsent(['openid']), await needsConsent(['openid'])]).toEqual([true, false]);
    expect(await needsConsent(['openid', 'offline_access'], false, undefined)).toBe(true);

    await storeGrant('u1', { account, scopes: ['openid', 'read', 'offline_access'] });
    expect(await needsOfflineConsent(['openid', 'read'])).toBe(false);
    expect(await needsOfflineConsent(['openid', 'read', 'write'])).toBe(false);
    expect(await needsOfflineConsent(['openid', 'read', 'write'], true)).toBe(true);
    expect(await needsOfflineConsent(['openid', 'read'], true)).toBe(false);
    // Fewer scopes were chosen, and the old refresh token would bring the dropped ones back.
    expect(await needsOfflineConsent(['openid'])).toBe(true);

    await storeGrant('u1', { account, refreshToken: undefined });
    expect(await needsOfflineConsent(['openid'])).toBe(true);
  });

  test('a provider with other names for scopes requires no new consent at a sign-in', async () => {
    const scopes = ['openid', 'email', 'offline_access'];
    await storeGrant('u1', { account, scopes: ['openid', 'https://provider.test/email'], requestedScopes: scopes });
    expect(await needsConsent(scopes)).toBe(false);
  });

  test('a choice with an unknown account requires a new consent, so that the refresh token is replaced', async () => {
    await storeGrant('u1', { account: {}, scopes: ['read'], requestedScopes: ['read'] });
    expect([await needsConsent(['read'], true), await needsConsent(['read'])]).toEqual([true, false]);

    await storeGrant('u1', { account: { accountId: '7' }, scopes: ['read'], requestedScopes: ['read'] });
    expect(await needsConsent(['read'], true)).toBe(false);

    await storeGrant('u1', { account: {}, scopes: ['read'], requestedScopes: ['read'], refreshToken: undefined });
    expect(await needsConsent(['read'], true)).toBe(false);
  });

  describe('the requested scopes', () => {
    const requested = ['openid', 'email', 'offline_access'];
    const consent = (scopes: string[], granted: string[] | undefined, changes: object = {}) => {
      const response = { ...newTokens('at-new').response, scopes: granted };
      return connections().connect({ userId: 'u1', app: APP, response, scopes, account, writesOfUser, ...changes });
    };

    test('are stored next to the granted ones', async () => {
      await consent(requested, ['openid', 'https://provider.test/email']);
      expect(await readGrant()).toMatchObject({
        requestedScopes: requested,
        scopes: ['openid', 'https://provider.test/email'],
      });
    });

    test('decide whether offline_access was dropped, if the provider never names it', async () => {
      await storeGrant('u1', { account, scopes: ['openid'], requestedScopes: requested });
      await consent(requested, ['openid'], { chosen: true });

      expect((await readGrant()).refreshToken).toBe('rt1-u1');

      await consent(['openid'], ['openid'], { chosen: true });
      expect((await readGrant()).refreshToken).toBeUndefined();
    });

    test('stay a choice if a later sign-in requests all scopes', async () => {
      await storeGrant('u1', { account, scopes: ['openid'], requestedScopes: ['openid'], chosen: true });
      await consent(requested, ['openid']);

      expect(await readGrant()).toMatchObject({ accessToken: 'at-new', requestedScopes: ['openid'], chosen: true });

      await consent(requested, requested);
      expect((await readGrant()).scopes).toEqual(['openid']);
    });

    test('stay unknown after a refresh of an imported grant, which also keeps fields of a newer version', async () => {
      const fieldOfNewerVersion = { ofALaterVersion: 1 };
      await storeGrant('u1', { account, ...fieldOfNewerVersion });
      respond = async () => newTokens('at2');
      await requestToken();

      expect(await readGrant()).toMatchObject({ accessToken: 'at2', ofALaterVersion: 1 });
      expect((await readGrant()).requestedScopes).toBeUndefined();
    });
  });

  test('offline_access counts as granted only if a stored refresh token of the same user has it', async () => {
    const requested = ['openid', 'offline_access'];
    const scopesAfterConsent = async () => {
      const response = { ...newTokens('at-new').response, scopes: ['openid'] };
      await connections().connect({
        userId: 'u1',
        app: APP,
        response: response,
        scopes: requested,
        account,
        writesOfUser,
      });
      return (await readGrant()).scopes;
    };

    expect(await scopesAfterConsent()).toEqual(['openid']);

    await storeGrant('u1', { account, scopes: ['openid'] });
    expect(await scopesAfterConsent()).toEqual(['openid']);

    await storeGrant('u1', { account, scopes: requested });
    expect(await scopesAfterConsent()).toEqual(requested);
    expect((await readGrant()).refreshToken).toBe('rt1-u1');
  });

  test('a consent sends a recovery event only after a refusal', async () => {
    const failure = { kind: 'reconnect_needed', cause: 'grant_refused', since: 1, failures: 1, retryAt: 1 } as const;
    await storeGrant('u1', { account, failure });
    await connect('rt-new');

    expect(recoveryEvents).toMatchObject([{ userId: 'u1', app: APP.id }]);

    await connect('rt-newer');
    expect(recoveryEvents).toHaveLength(1);
  });

  test('the time of use is saved at most once in five minutes, and not after the connection ends', async () => {
    await storeGrant();
    const writes = vi.spyOn(store, 'write');
    const useConnection = async () => {
      await grants.loadStored('u1', APP.id);
      await grants.noteUse('u1', APP.id);
    };
    await useConnection();
    now += 299_000;
    await useConnection();

    expect(writes).toHaveBeenCalledTimes(1);
    expect(await grants.lastUse('u1', APP.id)).toBe(NOW);

    now += 1_000;
    await grants.loadStored('u1', APP.id);
    const reads = vi.spyOn(store, 'get');
    await grants.noteUse('u1', APP.id);

    expect(reads).not.toHaveBeenCalled();
    expect(await grants.lastUse('u1', APP.id)).toBe(NOW + 300_000);

    await connections().end('u1', APP.id);
    await useConnection();

    expect(await grants.lastUse('u1', APP.id)).toBeUndefined();

    await storeGrant();
    await useConnection();

    expect(await grants.lastUse('u1', APP.id)).toBe(now);
  });

  test('a failed write of the time of use does not reject', async () => {
    await storeGrant();
    vi.spyOn(store, 'write').mockRejectedValue(new Error('disk full'));
    await expect(grants.noteUse('u1', APP.id)).resolves.toBeUndefined();
  });

  test.each([
    ['cannot be written', () => Promise.reject(new Error('disk full'))],
    ['finds no connection', () => Promise.resolve(undefined)],
  ])('if a write of the time of use %s, the next use is saved', async (_name, respondToWrite) => {
    await storeGrant();
    await grants.loadStored('u1', APP.id);
    vi.spyOn(store, 'write').mockImplementationOnce(respondToWrite);
    await grants.noteUse('u1', APP.id);

    expect(await grants.lastUse('u1', APP.id)).toBeUndefined();

    await grants.noteUse('u1', APP.id);
    expect(await grants.lastUse('u1', APP.id)).toBe(NOW);
  });
});

describe('R39: a refusal after a refresh without a response', () => {
  const refuseAfterInterruption = async (
    app: ConnectedApp,
    changes: Partial<Grant> = {},
    nextOutcome?: RefreshOutcome,
  ) => {
    await storeGrant('u1', changes);
    respond = async () => ({ kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined });
    await accessTokens.get('u1', app);
    now += 120_000;
    if (nextOutcome) {
      respond = async () => nextOutcome;
      await accessTokens.get('u1', app);
      now += 1_200_000;
    }
    respond = async () => ({ kind: 'refused' });
    return accessTokens.get('u1', app);
  };

  test('has the cause response_lost, since the lost call may have spent the refresh token', async () => {
    expect(await refuseAfterInterruption(APP)).toEqual({ kind: 'reconnect_needed', cause: 'response_lost' });
    expect(sentRefreshTokens).toHaveLength(2);
  });

  test.each<[string, RefreshOutcome]>([
    ['is unavailable', { kind: 'unavailable', reason: 'status_503', retryAfterSeconds: undefined }],
    ['refuses the app', { kind: 'app_fault', reason: 'invalid_client' }],
    ['refuses unclearly', { kind: 'unclear_refusal', reason: 'status_400' }],
  ])('has the cause response_lost even if the provider in between %s', async (_name, nextOutcome) => {
    expect(await refuseAfterInterruption(APP, {}, nextOutcome)).toEqual({
      kind: 'reconnect_needed',
      cause: 'response_lost',
    });
    expect(sentRefreshTokens).toHaveLength(3);
  });

  test.each([
    ['the app is set to reusable', { ...APP, refresh: 'reusable' as const }, {}],
    ['no refresh has brought a new refresh token', APP, { rotates: false }],
  ])('has the cause grant_refused if a use does not spend the token: %s', async (_name, app, changes) => {
    expect(await refuseAfterInterruption(app, changes)).toEqual({ kind: 'reconnect_needed', cause: 'grant_refused' });
  });

  test('has the cause response_lost for an app with the setting rotating', async () => {
    const app = { ...APP, refresh: 'rotating' as const };
    expect(await refuseAfterInterruption(app, { rotates: false })).toMatchObject({ cause: 'response_lost' });
  });
});

test('R38: a refresh succeeds even if it cannot be removed from the list of open refreshes', async () => {
  await storeGrant();
  respond = async () => newTokens('at2', 'rt2');
  const removeUnfinishedRefresh = vi.spyOn(grants, 'removeUnfinishedRefresh').mockRejectedValue(new Error('no store'));

  expect(await requestToken()).toMatchObject({ kind: 'token', accessToken: 'at2' });
  expect(removeUnfinishedRefresh).toHaveBeenCalledOnce();
});
