/** Refreshing with a scripted provider, for what happens between two steps of a refresh. */
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

let directory: string;
let store: Store;
let sealedJson: SealedJson;
let grants: GrantStore;
let refresher: Refresher;
let accessTokens: AccessTokens;
let now = NOW;
/** The refresh tokens that were sent to the provider. */
let refreshed: string[];
let revoked: string[];
let broken: string[];
let recovered: object[];
/** The log entries of the calls to the provider. */
let ended: object[];
/** How the provider responds. */
let respond: (refreshToken: string) => Promise<RefreshOutcome>;

const provider = {
  refresh(_app: ConnectedApp, { refreshToken }: TokenRefresh) {
    refreshed.push(refreshToken);
    return respond(refreshToken);
  },
  async revoke(_app: ConnectedApp, token: string) {
    revoked.push(token);
    return { outcome: 'revoked' as const };
  },
} as unknown as ProviderClient;
const atProvider = { provider, revokeUnowned: provider.revoke };

const events = {
  refreshEnded: (facts: object) => void ended.push(facts),
  reconnectNeeded: ({ cause }: { cause: string }) => void broken.push(cause),
  connectionCreated: () => undefined,
  connectionRecovered: (facts: object) => void recovered.push(facts),
  connectionRemoved: () => undefined,
} as unknown as Events;

beforeEach(async () => {
  [now, refreshed, revoked, broken, recovered, ended] = [NOW, [], [], [], [], []];
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-test-'));
  store = await createSqliteStore({ directory, clock: () => now, random: Math.random });
  const parsed = parseEncryptionKeys(generateEncryptionKey(new Date()));
  if ('faults' in parsed) throw new Error(parsed.faults.join());
  const clock = () => now;
  sealedJson = createSealedJson(createSealer(parsed.keys));
  grants = createGrantStore({ store, sealedJson, clock });
  refresher = newRefresher();
  accessTokens = createAccessTokens({ grants, refresher, inServiceShare, missing, clock });
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
const missing = { announce: async () => undefined };

/** The parts of another process, which shares only the store. */
const newRefresher = (times = TIMES) =>
  createRefresher({
    grants,
    ...atProvider,
    leases: createLeases({ store, milliseconds: 4_000 }),
    times,
    events,
    clock: () => now,
    random: () => 0.5,
  });

const revocationsOf = (of: GrantStore) =>
  createRevocations({
    store,
    sealedJson,
    grants: of,
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
const connectionsOf = (of: GrantStore) =>
  createConnections({
    checkSeconds: 86_400,
    grants: of,
    revocations: revocationsOf(of),
    links: NO_LINKS,
    findApp: () => APP,
    isRegistered,
    events,
    clock: () => now,
  });

function tokens(
  accessToken: string,
  refreshToken?: string,
): RefreshOutcome & { kind: 'tokens'; response: TokenResponse } {
  const rest = { idToken: undefined, scopes: undefined, expiresInSeconds: 60, claims: undefined };
  return { kind: 'tokens', response: { accessToken, refreshToken, ...rest } };
}

/** A grant whose access token expired a second ago. */
async function stored(userId = 'u1', changes: Partial<Grant> = {}): Promise<void> {
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

async function read(userId = 'u1'): Promise<Grant> {
  const found = await grants.loadStored(userId, APP.id);
  if (!found || 'unreadable' in found) throw new Error('There is no grant.');
  return found.grant;
}

const token = (rejected?: string) =>
  rejected === undefined ? accessTokens.get('u1', APP) : accessTokens.getAnother('u1', APP, rejected);

describe('one refresh at a time', () => {
  test('R34: of two concurrent processes, one refreshes, and the other loads the result', async () => {
    await stored();
    respond = async () => {
      await new Promise((resolve) => setTimeout(resolve, 100));
      return tokens('at2', 'rt2');
    };
    const request = { userId: 'u1', app: APP, rejected: undefined };
    const found = await Promise.all([refresher, newRefresher()].map((one) => one.refresh(request)));
    expect(found).toMatchObject([{ grant: { accessToken: 'at2' } }, { grant: { accessToken: 'at2' } }]);
    expect(refreshed).toEqual(['rt1-u1']);
  });

  test('R42: does not refresh a refused token that was replaced since', async () => {
    await stored('u1', { accessToken: 'at2', obtainedAt: now - 60_000, expiresAt: now + 3_600_000 });
    respond = async () => tokens('at3', 'rt3');
    expect(await token('at1-u1')).toMatchObject({ kind: 'token', accessToken: 'at2' });
    // Nor for a direct request of a refresh, such as by a slow service or another process.
    for (const rejected of ['at1-u1', undefined]) {
      expect(await refresher.refresh({ userId: 'u1', app: APP, rejected })).toMatchObject({
        grant: { accessToken: 'at2' },
      });
    }
    expect(refreshed).toEqual([]);
    expect(await token('at2')).toMatchObject({ kind: 'token', accessToken: 'at3' });
    expect(refreshed).toEqual(['rt1-u1']);
  });

  test('R31: any number of callers share one refresh', async () => {
    await stored();
    respond = async () => tokens('at2', 'rt2');
    const results = await Promise.all(Array.from({ length: 50 }, () => token()));
    expect(new Set(results.map((result) => result.kind === 'token' && result.accessToken))).toEqual(new Set(['at2']));
    expect(refreshed).toEqual(['rt1-u1']);
  });

  test('R33: each of 200 concurrent users gets the right token, even with ids that look like pairs', async () => {
    const users = [...Array.from({ length: 198 }, (_, at) => `user-${at}`), 'a","b', 'a'];
    for (const user of users) await stored(user);
    respond = async (refreshToken) => tokens(`at2-${refreshToken}`, `rt2-${refreshToken}`);
    const results = await Promise.all([...users, ...users].map((user) => accessTokens.get(user, APP)));
    expect(results.map((result) => result.kind === 'token' && result.accessToken)).toEqual(
      [...users, ...users].map((user) => `at2-rt1-${user}`),
    );
    expect(refreshed).toHaveLength(200);
  });

  test('R33: two apps of one user are two connections', async () => {
    const other = { ...APP, id: 'second' } as ConnectedApp;
    await stored();
    await grants.save({ ...(await read()), appId: 'second', refreshToken: 'rt1-second' }, 0);
    respond = async (refreshToken) => tokens(`for-${refreshToken}`);
    const [first, second] = await Promise.all([accessTokens.get('u1', APP), accessTokens.get('u1', other)]);
    expect([first, second]).toMatchObject([{ accessToken: 'for-rt1-u1' }, { accessToken: 'for-rt1-second' }]);
  });

  test('a caller whose token was refused gets its own refresh if the shared one found nothing due', async () => {
    await stored('u1', { obtainedAt: now - 61_000, expiresAt: now + 600_000 });
    respond = async () => tokens('at2', 'rt2');
    const [, forced] = await Promise.all([
      refresher.refresh({ userId: 'u1', app: APP }),
      refresher.refresh({ userId: 'u1', app: APP, rejected: 'at1-u1' }),
    ]);
    expect(forced).toMatchObject({ grant: { accessToken: 'at2' } });
    expect(refreshed).toHaveLength(1);
  });

  test('many callers of a grant that cannot be refreshed read it a few times each', async () => {
    await stored('u1', { expiresAt: now + 600_000 });
    respond = async () => ({ kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined });
    const reads = vi.spyOn(store, 'getIfChanged');
    const results = await Promise.all(Array.from({ length: 300 }, () => token('at1-u1')));
    expect(new Set(results.map(({ kind }) => kind))).toEqual(new Set(['unavailable']));
    expect(refreshed).toHaveLength(1);
    expect(reads.mock.calls.length).toBeGreaterThanOrEqual(300);
    expect(reads.mock.calls.length).toBeLessThan(320);
  });

  test('F22, R90: close waits for refreshes in flight, even without a caller', async () => {
    await stored();
    const { promise, resolve } = Promise.withResolvers<RefreshOutcome>();
    respond = () => promise;
    const left = accessTokens.get('u1', APP);
    left.catch(() => undefined);
    await vi.waitFor(() => expect(refreshed).toHaveLength(1), LONG_TIMEOUT);
    let settled = false;
    const settling = refresher.close().then(() => {
      settled = true;
    });
    await new Promise((done) => setTimeout(done, 30));
    expect(settled).toBe(false);
    resolve(tokens('at2', 'rt2'));
    await settling;
    expect((await read()).refreshToken).toBe('rt2');
  });
});

describe('concurrent writes', () => {
  test('R37: a token that another process replaced is used instead of ending the grant', async () => {
    await stored();
    respond = async () => {
      await stored('u1', { accessToken: 'theirs', refreshToken: 'rt-theirs', expiresAt: now + 60_000 });
      return { kind: 'refused' };
    };
    expect(await token()).toMatchObject({ kind: 'token', accessToken: 'theirs' });
    expect((await read()).failure).toBeUndefined();
    expect(broken).toEqual([]);
  });

  test('R37: a refusal of the stored token ends the grant once, even if another process wrote in between', async () => {
    await stored();
    respond = async () => {
      await stored('u1', {
        failure: { kind: 'passing', cause: 'provider_unavailable', since: now, failures: 1, retryAt: now },
      });
      return { kind: 'refused' };
    };
    expect(await token()).toEqual({ kind: 'reconnect_needed', cause: 'grant_refused' });
    expect(await token()).toEqual({ kind: 'reconnect_needed', cause: 'grant_refused' });
    expect(refreshed).toHaveLength(1);
    expect(broken).toEqual(['grant_refused']);
  });

  const noted = (kind: 'passing' | 'reconnect_needed'): Partial<Grant> => ({
    failure: { kind, cause: 'grant_refused', since: now, failures: 1, retryAt: now + 30_000 },
  });

  test.each(['passing', 'reconnect_needed'] as const)(
    'R32, R36: new tokens replace a failure (%s) that was written meanwhile',
    async (kind) => {
      await stored();
      respond = async () => {
        await stored('u1', noted(kind));
        return tokens('at2', 'rt2');
      };
      expect(await token()).toMatchObject({ kind: 'token', accessToken: 'at2' });
      const { refreshToken, failure } = await read();
      expect({ refreshToken, failure }).toEqual({ refreshToken: 'rt2', failure: undefined });
    },
  );

  test('R33: tokens with an ID token of another subject replace nothing', async () => {
    await stored('u1', { account: { subject: 'mine' } });
    const theirs = tokens('at-theirs', 'rt-theirs');
    respond = async () => ({ ...theirs, response: { ...theirs.response, claims: { sub: 'theirs' } } });
    expect(await token()).toMatchObject({ kind: 'unavailable', cause: 'unusable_response' });
    const kept = await grants.loadStored('u1', APP.id);
    expect(kept).toMatchObject({ grant: { accessToken: 'at1-u1', refreshToken: 'rt1-u1' } });
  });

  /** A store that can be switched off, so that its process reads and writes nothing. */
  function shaky(isAway: () => boolean): Store {
    const guarded =
      <A extends unknown[], R>(method: (...args: A) => Promise<R>) =>
      async (...args: A): Promise<R> => {
        if (isAway()) throw new AppError('storage_unavailable');
        return method(...args);
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
    async (deadline, later) => {
      await stored();
      let away = false;
      const holder = createRefresher({
        grants: createGrantStore({ store: shaky(() => away), sealedJson, clock: () => now }),
        leases: createLeases({ store: shaky(() => away), milliseconds: 4_000 }),
        ...{ ...atProvider, times: TIMES, events, clock: () => now, random: () => 0.5 },
      });
      let next: Promise<unknown> = Promise.resolve();
      respond = async () => {
        away = true;
        now += 5_000;
        setTimeout(() => {
          next = newRefresher(refreshTimes(deadline)).refresh({ userId: 'u1', app: APP });
          // Its connection returns a little later.
          setTimeout(() => (away = false), later);
        }, 100);
        return tokens('at2', 'rt2');
      };
      await holder.refresh({ userId: 'u1', app: APP });
      await next;
      expect(refreshed).toEqual(['rt1-u1']);
      expect(await read()).toMatchObject({ accessToken: 'at2', refreshToken: 'rt2' });
      expect((await read()).refresh).toBeUndefined();
    },
  );

  /**
   * A holder of the lease that is suspended during its call until the lease expires, and the next holder with its own
   * call.
   */
  async function twoCalls() {
    await stored();
    const outcomes = [Promise.withResolvers<RefreshOutcome>(), Promise.withResolvers<RefreshOutcome>()];
    respond = () => outcomes[refreshed.length - 1]?.promise ?? Promise.reject(new Error('A third call.'));
    const first = stoppedRefresher().refresh({ userId: 'u1', app: APP });
    await vi.waitUntil(() => refreshed.length === 1, LONG_TIMEOUT);
    now += 5_000;
    const second = newRefresher().refresh({ userId: 'u1', app: APP });
    await vi.waitUntil(() => refreshed.length === 2, LONG_TIMEOUT);
    return { outcomes, first, second };
  }

  /** The process ends before it can renew its lease. */
  const stoppedRefresher = () => {
    const leases = createLeases({ store: { ...store, renewLease: async () => false }, milliseconds: 4_000 });
    return createRefresher({
      grants,
      ...atProvider,
      events,
      leases,
      times: TIMES,
      clock: () => now,
      random: () => 0.5,
    });
  };

  test('R36: of two calls with one token, the later one wins, whichever response is written first', async () => {
    const { outcomes, first, second } = await twoCalls();
    outcomes[0]?.resolve(tokens('at2', 'rt2'));
    await first;
    // The token is kept in case the second response never arrives; its journal entry stays open.
    expect(await read()).toMatchObject({ refreshToken: 'rt2', refresh: { received: undefined } });
    outcomes[1]?.resolve(tokens('at3', 'rt3'));
    await second;
    expect(await read()).toMatchObject({ accessToken: 'at3', refreshToken: 'rt3' });
    expect((await read()).refresh).toBeUndefined();
    expect([refreshed.length, revoked]).toEqual([2, []]);
  });

  test('R36: a call with an open journal entry sends the refresh token of a late response', async () => {
    await stored();
    const late = Promise.withResolvers<RefreshOutcome>();
    respond = () => (refreshed.length === 1 ? late.promise : Promise.resolve(unavailable));
    const unavailable: RefreshOutcome = { kind: 'unavailable', reason: 'status_503', retryAfterSeconds: undefined };
    const first = stoppedRefresher().refresh({ userId: 'u1', app: APP });
    await vi.waitUntil(() => refreshed.length === 1, LONG_TIMEOUT);
    now += 5_000;
    const watched: GrantStore = {
      ...grants,
      async save(grant, version, fence) {
        const isSaved = await grants.save(grant, version, fence);
        if (refreshed.length === 1) {
          late.resolve(tokens('at2', 'rt2'));
          await first;
        }
        return isSaved;
      },
    };
    const leases = createLeases({ store, milliseconds: 4_000 });
    const next = { grants: watched, ...atProvider, events, leases, times: TIMES, clock: () => now, random: () => 0.5 };
    await createRefresher(next).refresh({ userId: 'u1', app: APP });
    expect(refreshed).toEqual(['rt1-u1', 'rt2']);
    expect(await read()).toMatchObject({ accessToken: 'at2', refreshToken: 'rt2' });
    expect((await read()).refresh).toBeUndefined();
  });

  test('R36: an unusable response closes its entry, and keeps the tokens of another call', async () => {
    const { outcomes, first, second } = await twoCalls();
    outcomes[0]?.resolve(tokens('at2', 'rt2'));
    await first;
    outcomes[1]?.resolve({ kind: 'app_fault', reason: 'invalid_client' });
    await second;
    expect(await read()).toMatchObject({ accessToken: 'at2', refreshToken: 'rt2' });
    expect((await read()).refresh).toBeUndefined();
  });

  test('R37: a refusal does not end a connection that was renewed meanwhile with the same refresh token', async () => {
    await stored();
    respond = async () => {
      await stored('u1', { accessToken: 'new', expiresAt: now + 60_000 });
      return { kind: 'refused' };
    };
    expect(await token()).toMatchObject({ kind: 'token', accessToken: 'new' });
    expect(broken).toEqual([]);
  });

  test('R39: a refresh that fails before its call keeps the entry of an earlier, killed refresh', async () => {
    const left = { startedAt: now - 200_000, received: undefined };
    await stored('u1', { refresh: left });
    let isFirst = true;
    const failing: GrantStore = {
      ...grants,
      async save(...args) {
        const isSaved = await grants.save(...args);
        const fails = isFirst;
        isFirst = false;
        if (fails) throw new AppError('storage_unavailable');
        return isSaved;
      },
    };
    const leases = createLeases({ store, milliseconds: 4_000 });
    const parts = { grants: failing, ...atProvider, events, leases, times: TIMES, clock: () => now, random: () => 0.5 };
    await expect(createRefresher(parts).refresh({ userId: 'u1', app: APP })).rejects.toThrow(AppError);
    await vi.waitUntil(async () => (await read()).refresh?.startedAt === left.startedAt, LONG_TIMEOUT);
    respond = async () => ({ kind: 'refused' });
    expect(await token()).toEqual({ kind: 'reconnect_needed', cause: 'response_lost' });
    expect(refreshed).toHaveLength(1);
  });

  test('R34: a refresh that loses the storage before its call delays the next one only as long as the outage', async () => {
    await stored();
    let away = false;
    let isFirst = true;
    const own = createGrantStore({ store: shaky(() => away), sealedJson, clock: () => now });
    const first = createRefresher({
      grants: {
        ...own,
        async save(...args) {
          const isSaved = await own.save(...args);
          away = isFirst;
          isFirst = false;
          return isSaved;
        },
      },
      leases: createLeases({ store: shaky(() => away), milliseconds: 4_000 }),
      ...{ ...atProvider, times: TIMES, events, clock: () => now, random: () => 0.5 },
    });
    await expect(first.refresh({ userId: 'u1', app: APP })).rejects.toThrow(AppError);
    expect((await read()).refresh).toBeDefined();
    const took = startStopwatch();
    setTimeout(() => (away = false), 300);
    respond = async () => tokens('at2', 'rt2');
    await newRefresher().refresh({ userId: 'u1', app: APP });
    expect(took()).toBeLessThan(1_200);
    expect([refreshed, (await read()).refreshToken]).toEqual([['rt1-u1'], 'rt2']);
  });

  test('R36: if the later call is refused because the earlier one spent the token, the tokens of the earlier call stay', async () => {
    const { outcomes, first, second } = await twoCalls();
    outcomes[0]?.resolve(tokens('at2', 'rt2'));
    await first;
    outcomes[1]?.resolve({ kind: 'refused' });
    expect(await second).toMatchObject({ grant: { accessToken: 'at2' } });
    expect(await read()).toMatchObject({ accessToken: 'at2', refreshToken: 'rt2' });
    const { failure, refresh } = await read();
    expect([failure, refresh]).toEqual([undefined, undefined]);
    expect(broken).toEqual([]);
  });

  test('R32: the refresh token of an otherwise unusable response stays as well', async () => {
    await stored();
    respond = async () => {
      await stored('u1', noted('passing'));
      return { kind: 'unusable', reason: 'token_response_invalid', refreshToken: 'rt2' };
    };
    expect(await token()).toMatchObject({ kind: 'unavailable', cause: 'unusable_response' });
    expect(await read()).toMatchObject({ refreshToken: 'rt2' });
  });

  test('R36: late tokens do not replace newer ones', async () => {
    await stored();
    const theirs = { accessToken: 'theirs', refreshToken: 'rt-theirs', expiresAt: now + 60_000 };
    respond = async () => {
      await stored('u1', theirs);
      return tokens('at2', 'rt2');
    };
    expect(await token()).toMatchObject({ kind: 'token', accessToken: 'theirs' });
    expect(await read()).toMatchObject(theirs);
    expect(revoked).toEqual([]);
  });

  test.each<[string, RefreshOutcome, string[]]>([
    ['with a new refresh token: that is revoked', tokens('at2', 'rt2'), ['rt2']],
    ['without one: the access token is revoked', tokens('at2'), ['at2']],
    [
      'in an otherwise unusable response: it is revoked too',
      { kind: 'unusable', reason: 'token_response_invalid', refreshToken: 'rt2' },
      ['rt2'],
    ],
    ['with nothing: nothing is revoked', { kind: 'unclear_refusal', reason: 'status_400' }, []],
    ['with a refusal: nothing is revoked', { kind: 'refused' }, []],
  ])('R43: a disconnect during a refresh that ends %s', async (_name, outcome, expected) => {
    await stored();
    respond = async () => {
      await grants.remove('u1', APP.id, (await grants.loadStored('u1', APP.id))?.version ?? 0);
      return outcome;
    };
    expect(await token()).toEqual({ kind: 'not_connected' });
    expect(await grants.loadStored('u1', APP.id)).toBeUndefined();
    expect(revoked).toEqual(expected);
  });

  test('R43: a disconnect revokes the token of a refresh that ends at the same time', async () => {
    await stored();
    const slow = {
      ...grants,
      async loadStored(userId: string, appId: string) {
        const found = await grants.loadStored(userId, appId);
        // The refresh writes after the grant was read and before it is deleted.
        if (revoked.length === 0 && (await read()).refreshToken === 'rt1-u1')
          await stored('u1', { refreshToken: 'rt2' });
        return found;
      },
    };
    const connections = connectionsOf(slow);
    expect(await connections.end('u1', APP.id)).toEqual({ id: 'c-u1', revocation: 'revoked' });
    expect(revoked).toEqual(['rt2']);
    expect(await grants.loadStored('u1', APP.id)).toBeUndefined();
  });

  test.each<[string, RefreshOutcome]>([
    ['tokens', tokens('at2', 'rt2')],
    ['a refusal', { kind: 'refused' }],
    ['no response', { kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined }],
    ['a response of no use', { kind: 'unusable', reason: 'token_response_invalid', refreshToken: 'rt2' }],
  ])('R116 a refresh that ends with %s returns no grant of another registration of the app', async (_name, outcome) => {
    const moved = { ...APP, issuer: 'https://elsewhere.test' };
    await stored();
    respond = async () => {
      const other = { registration: registrationOf(moved), consentedAt: now, expiresAt: now + 60_000 };
      await stored('u1', { id: 'c-other', accessToken: 'at-other', refreshToken: 'rt-other', ...other });
      return outcome;
    };
    expect(await token()).toEqual({ kind: 'reconnect_needed', cause: 'registration_changed' });
    expect(await read()).toMatchObject({ accessToken: 'at-other', refreshToken: 'rt-other', failure: undefined });
  });

  test.each<[string, Partial<Grant>, ConnectedApp]>([
    ['another account', { account: { subject: 's2' } }, APP],
    ['another provider', { account: { subject: 's1' } }, { ...APP, issuer: 'https://elsewhere.test' }],
    ['another client', { account: { subject: 's1' } }, { ...APP, clientId: 'another' }],
  ])('R43 a refresh that ends after %s was connected revokes its tokens', async (_name, changes, app) => {
    await stored('u1', { account: { subject: 's1' } });
    respond = async () => {
      const registration = registrationOf(app);
      await stored('u1', { id: 'c2', accessToken: 'at-other', refreshToken: 'rt-other', registration, ...changes });
      return tokens('at2', 'rt2');
    };
    await token();
    expect([revoked, (await read()).refreshToken]).toEqual([['rt2'], 'rt-other']);
  });

  test.each<[string, ConnectedApp]>([
    ['the same account', APP],
    ['the same account, with another place of the API', { ...APP, apiBaseUrl: 'https://api.elsewhere.test' }],
  ])('R43 a refresh that ends after %s was connected again revokes nothing', async (_name, app) => {
    await stored('u1', { account: { subject: 's1' } });
    respond = async () => {
      const [registration, account] = [registrationOf(app), { subject: 's1' }];
      await stored('u1', { id: 'c2', accessToken: 'at-new', refreshToken: 'rt-new', registration, account });
      return tokens('at2', 'rt2');
    };
    await token();
    expect(revoked).toEqual([]);
  });

  test('a new consent during a refresh wins', async () => {
    await stored();
    const connections = connectionsOf(grants);
    const consent = tokens('at-consent', 'rt-consent').response;
    respond = async () => {
      await connections.connect({
        userId: 'u1',
        app: APP,
        response: consent,
        scopes: ['openid'],
        account: {},
        writesOfUser,
      });
      return tokens('at2', 'rt2');
    };
    expect(await token()).toMatchObject({ kind: 'token', accessToken: 'at-consent' });
    expect(await read()).toMatchObject({ refreshToken: 'rt-consent' });
  });

  test('R32, R36: if the consent has no refresh token, that of the refresh replaces the spent one', async () => {
    const account = { subject: 's1' };
    await stored('u1', { account });
    const connections = connectionsOf(grants);
    const consent = tokens('at-consent').response;
    respond = async () => {
      await connections.connect({
        userId: 'u1',
        app: APP,
        response: consent,
        scopes: ['openid'],
        account,
        writesOfUser,
      });
      return tokens('at2', 'rt2');
    };
    expect(await token()).toMatchObject({ kind: 'token', accessToken: 'at-consent' });
    expect(await read()).toMatchObject({ accessToken: 'at-consent', refreshToken: 'rt2', rotates: true });
  });
});

test('R38: a refresh without a response stays in the list of open refreshes until the next one', async () => {
  await stored();
  respond = async () => ({ kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined });
  await token();
  expect(await grants.listUnfinishedRefreshes()).toEqual([{ userId: 'u1', appId: APP.id }]);
  now += 120_000;
  respond = async () => tokens('at2', 'rt2');
  await token();
  expect(await grants.listUnfinishedRefreshes()).toEqual([]);
});

test('R130 a refresh that was not sent leaves no open entry, so a refusal of the next one has the cause grant_refused', async () => {
  await stored();
  respond = async () => ({ kind: 'unavailable', reason: 'connection', retryAfterSeconds: undefined, unsent: true });
  await token();
  expect((await read()).refresh).toBeUndefined();
  expect(await grants.listUnfinishedRefreshes()).toEqual([]);
  now += 120_000;
  respond = async () => ({ kind: 'refused' });
  await token();
  expect(broken).toEqual(['grant_refused']);
});

test('a provider that limits the rate is not reported as unavailable', async () => {
  await stored();
  respond = async () => ({ kind: 'unavailable', reason: 'status_429', retryAfterSeconds: 45, limited: true });
  await token();
  expect((await read()).failure).toMatchObject({ kind: 'passing', cause: 'provider_limited', reason: 'status_429' });
});

describe('the log entry of a call to the provider', () => {
  const facts = { userId: 'u1', app: APP.id, connection: 'c-u1', host: 'idp.test', seconds: expect.any(Number) };
  const failed = { kind: 'passing', cause: 'provider_unavailable', since: 1, failures: 1, retryAt: 1 } as const;

  test.each<[RefreshOutcome, object]>([
    [tokens('at2'), { outcome: 'refreshed' }],
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
    await stored();
    respond = async () => outcome;
    await token();
    expect(ended).toEqual([{ ...facts, reason: undefined, repeated: undefined, ...expected }]);
  });

  test('has the duration in seconds, to the millisecond', async () => {
    await stored();
    respond = async () => {
      await new Promise((resolve) => setTimeout(resolve, 25));
      return tokens('at2');
    };
    await token();
    const { seconds } = ended[0] as { seconds: number };
    expect(seconds).toBeGreaterThan(0.02);
    expect(seconds).toBeLessThan(60);
    expect(seconds * 1_000).toBeCloseTo(Math.round(seconds * 1_000), 6);
  });

  test('says whether the failure is repeated', async () => {
    respond = async () => ({ kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined });
    await stored('u1', { failure: failed });
    await token();
    expect(ended).toMatchObject([{ outcome: 'unavailable', repeated: true }]);
    respond = async () => tokens('at2');
    await stored('u1', { failure: failed });
    await token();
    expect(ended[1]).toMatchObject({ outcome: 'refreshed', repeated: undefined });
  });

  test('says whether it was for fewer scopes, and has the host of a configured token endpoint', async () => {
    const app = { ...APP, endpoints: { token: 'https://tokens.test:8443/token' } } as ConnectedApp;
    await stored('u1', { registration: registrationOf(app), expiresAt: NOW + 600_000 });
    respond = async () => tokens('at2');
    await refresher.attempt({ userId: 'u1', app, scopes: [] });
    expect(ended).toMatchObject([{ outcome: 'refreshed', reason: 'for a narrower token', host: 'tokens.test:8443' }]);
  });
});

describe('the result of a request for a token', () => {
  const future = { expiresAt: NOW + 600_000 };

  test('is a token, without a call to the provider if the token is fresh', async () => {
    await stored('u1', future);
    expect(await token()).toEqual({ kind: 'token', accessToken: 'at1-u1', scopes: ['openid'], wasRefused: false });
    expect(refreshed).toEqual([]);
  });

  test('is not_connected without a grant', async () => {
    expect(await token()).toEqual({ kind: 'not_connected' });
  });

  test('is another token than the refused one', async () => {
    await stored('u1', future);
    respond = async () => tokens('at2', 'rt2');
    expect(await token('at1-u1')).toMatchObject({ kind: 'token', accessToken: 'at2' });
    // A caller that still has the first token gets the second one, without another refresh.
    expect(await token('at1-u1')).toMatchObject({ kind: 'token', accessToken: 'at2' });
    expect(refreshed).toHaveLength(1);
  });

  test('R42: is still_refused for a token that was just refreshed, without another refresh', async () => {
    await stored('u1', { ...future, obtainedAt: now - 1_000 });
    expect(await token('at1-u1')).toEqual({ kind: 'still_refused' });
    expect(refreshed).toEqual([]);
    now += 1_500;
    respond = async () => tokens('at2', 'rt2');
    expect(await token('at1-u1')).toMatchObject({ accessToken: 'at2' });
  });

  test.each<[RefreshOutcome, string, number]>([
    [{ kind: 'unavailable', reason: 'x', retryAfterSeconds: undefined }, 'provider_unavailable', 30],
    [{ kind: 'unavailable', reason: 'x', retryAfterSeconds: 45 }, 'provider_unavailable', 45],
    [{ kind: 'app_fault', reason: 'x' }, 'app_refused', 30],
    [{ kind: 'unclear_refusal', reason: 'x' }, 'unclear_refusal', 30],
    [{ kind: 'unusable', reason: 'x', refreshToken: undefined }, 'unusable_response', 30],
  ])('is unavailable after %j, with the cause and when to retry', async (outcome, cause, retryAfterSeconds) => {
    await stored();
    respond = async () => outcome;
    expect(await token()).toEqual({ kind: 'unavailable', cause, isUnverified: true, retryAfterSeconds });
    now += retryAfterSeconds * 1000 - 500;
    expect(await token()).toEqual({ kind: 'unavailable', cause, isUnverified: true, retryAfterSeconds: 1 });
    expect(refreshed).toHaveLength(1);
    now += 500;
    respond = async () => tokens('at2');
    expect(await token()).toMatchObject({ kind: 'token', accessToken: 'at2' });
  });

  test('R42: is a token within its margin while the provider hangs, and the refresh continues', async () => {
    await stored('u1', { obtainedAt: now - 600_000, expiresAt: now + 30_000 });
    const { promise, resolve } = Promise.withResolvers<RefreshOutcome>();
    respond = () => promise;
    const took = startStopwatch();
    expect(await token()).toMatchObject({ kind: 'token', accessToken: 'at1-u1' });
    expect(took()).toBeLessThan(3_000);
    resolve(tokens('at2', 'rt2'));
    await refresher.close();
    expect(await token()).toMatchObject({ accessToken: 'at2' });
    expect(refreshed).toHaveLength(1);
  });

  test('R90: close starts no interrupted refresh, and waits for those in flight', async () => {
    for (let n = 0; n < 30; n += 1) {
      await stored(`u${n}`, { refresh: { startedAt: now - 100_000, received: undefined } });
      await grants.addUnfinishedRefresh(`u${n}`, APP.id);
    }
    respond = async (refreshToken) => {
      await new Promise((resolve) => setTimeout(resolve, 100));
      return tokens('at2', `${refreshToken} new`);
    };
    const settling = refresher.refreshInterrupted(() => APP);
    await vi.waitUntil(() => refreshed.length > 0, LONG_TIMEOUT);
    await refresher.close();
    const begun = refreshed.length;
    expect(begun).toBeLessThan(30);
    for (const refreshToken of refreshed)
      expect((await read(refreshToken.replace('rt1-', ''))).refreshToken).toBe(`${refreshToken} new`);
    await settling;
    expect(refreshed.length).toBe(begun);
  });

  test('is reconnect_needed for an expired access token without a refresh token', async () => {
    await stored('u1', { refreshToken: undefined });
    expect(await token()).toEqual({ kind: 'reconnect_needed', cause: 'access_ended' });
    expect(broken).toEqual(['access_ended']);
  });

  test('is reconnect_needed if the platform refuses the only token, and the health is unverified', async () => {
    await stored('u1', { ...future, refreshToken: undefined });
    expect(await token('at1-u1')).toEqual({ kind: 'reconnect_needed', cause: 'access_token_refused' });
    expect((await read()).failure?.kind).toBe('unverified');
    expect(await token()).toMatchObject({ kind: 'token', wasRefused: true });
    await accessTokens.clearRefusal('u1', APP.id, 'another-token');
    expect((await read()).failure?.kind).toBe('unverified');
    await accessTokens.clearRefusal('u1', APP.id, 'at1-u1');
    expect((await read()).failure).toBeUndefined();
  });

  test('F16: is a token that has not expired if the store cannot save a refresh, and other failures are not hidden', async () => {
    const due = { obtainedAt: now - 3_500_000, expiresAt: now + 10_000 };
    const failing = (error: Error) =>
      createAccessTokens({
        inServiceShare,
        ...{ grants, missing, clock: () => now },
        refresher: { ...refresher, refresh: () => Promise.reject(error) },
      }).get('u1', APP);
    await stored('u1', due);
    const down = new AppError('storage_unavailable');
    expect(await failing(down)).toMatchObject({ kind: 'token', accessToken: 'at1-u1' });
    await expect(failing(new AppError('internal'))).rejects.toMatchObject({ code: 'internal' });
    await expect(failing(new Error('broken'))).rejects.toThrow('broken');
    now += 10_000;
    await expect(failing(down)).rejects.toBe(down);
  });

  test('a successful refresh sends a recovery event only for an unverified connection', async () => {
    const failure = { kind: 'unverified', cause: 'unclear_refusal', since: now, failures: 1, retryAt: now } as const;
    respond = async () => tokens('at2', 'rt2');
    await stored('u1', { failure });
    await token();
    expect((await read()).failure).toBeUndefined();
    expect(recovered).toEqual([{ userId: 'u1', app: APP.id, connection: 'c-u1' }]);
    await stored('u1');
    await token();
    expect([refreshed.length, recovered.length]).toEqual([2, 1]);
  });

  test('a successful refresh after a passing failure sends no recovery event', async () => {
    const failure = { kind: 'passing', cause: 'provider_unavailable', since: now, failures: 1, retryAt: now } as const;
    respond = async () => tokens('at2', 'rt2');
    await stored('u1', { failure });
    await token();
    expect([(await read()).failure, recovered]).toEqual([undefined, []]);
  });

  test('has the key that the token is bound to and the API base URL of the grant', async () => {
    const dpopKey = { kty: 'EC', crv: 'P-256', x: 'x', y: 'y' };
    await stored('u1', { ...future, dpopKey, apiBaseUrl: 'https://eu.api.test' });
    expect(await token()).toMatchObject({ kind: 'token', dpopKey, apiBaseUrl: 'https://eu.api.test' });
  });

  test('is reconnect_needed for a grant that cannot be read', async () => {
    await stored();
    await store.write([{ put: keys.grant('u1', APP.id), value: 'not sealed' }]);
    expect(await token()).toEqual({ kind: 'reconnect_needed', cause: 'unreadable' });
    expect(refreshed).toEqual([]);
  });

  test('is unavailable, not unverified, while a working access token cannot be replaced', async () => {
    const failure = { kind: 'passing', cause: 'app_refused', since: now, failures: 1, retryAt: now + 1_500 } as const;
    await stored('u1', { ...future, failure });
    expect(await token()).toMatchObject({ kind: 'token', wasRefused: false });
    expect(await token('at1-u1')).toEqual({
      ...{ kind: 'unavailable', cause: 'app_refused', isUnverified: false, retryAfterSeconds: 2 },
    });
  });

  test('an accepted call clears the refusal, and the failed refresh is not retried sooner', async () => {
    const outage = { kind: 'passing', cause: 'provider_unavailable', since: now, failures: 1 } as const;
    const failure = { ...outage, retryAt: now + 9_000, tokenRefused: true };
    await stored('u1', { ...future, failure });
    expect(await token()).toMatchObject({ kind: 'token', wasRefused: true });
    await accessTokens.clearRefusal('u1', APP.id, 'at1-u1');
    expect((await read()).failure).toEqual({ ...failure, tokenRefused: undefined });
    expect(await token()).toMatchObject({ kind: 'token', wasRefused: false });
    // Without a grant or without the store, there is no refusal to clear.
    await accessTokens.clearRefusal('nobody', APP.id, 'at1-u1');
    vi.spyOn(grants, 'load').mockRejectedValueOnce(new Error('away'));
    await accessTokens.clearRefusal('u1', APP.id, 'at1-u1');
  });

  test('clearing a refusal keeps another failure', async () => {
    const failure = { kind: 'unverified', cause: 'unclear_refusal', since: now, failures: 1, retryAt: now } as const;
    await stored('u1', { ...future, failure });
    await accessTokens.clearRefusal('u1', APP.id, 'at1-u1');
    expect((await read()).failure).toEqual(failure);
  });
});

describe('connections', () => {
  const connections = () => connectionsOf(grants);
  const account = { subject: 's1' };
  const make = (refreshToken: string | undefined, of = account) =>
    connections().connect({
      userId: 'u1',
      app: APP,
      response: tokens('at-new', refreshToken).response,
      scopes: ['openid'],
      account: of,
      writesOfUser,
    });

  test('a second consent without a refresh token keeps the refresh token of the first', async () => {
    await stored('u1', { account });
    await make(undefined);
    expect(await read()).toMatchObject({ accessToken: 'at-new', refreshToken: 'rt1-u1', connectedAt: now - 61_000 });
  });

  test('keeps its expiry, or the refresh token that an interrupted refresh received', async () => {
    await stored('u1', { account, refreshExpiresAt: now + 9_000 });
    await make(undefined);
    expect((await read()).refreshExpiresAt).toBe(now + 9_000);
    await stored('u1', { account, refreshExpiresAt: now + 9_000, refresh: { startedAt: now, received: 'rt2' } });
    await make(undefined);
    expect(await read()).toMatchObject({ accessToken: 'at-new', refreshToken: 'rt2' });
    // The expiry of that token is not known.
    expect((await read()).refreshExpiresAt).toBeUndefined();
  });

  test('never keeps a refresh token of another account, or a refused one', async () => {
    await stored('u1', { account });
    await make(undefined, { subject: 's2' });
    expect(await read()).toMatchObject({ connectedAt: now, account: { subject: 's2' } });
    expect((await read()).refreshToken).toBeUndefined();
    const failure = { kind: 'reconnect_needed', cause: 'grant_refused', since: 1, failures: 1, retryAt: 1 } as const;
    await stored('u1', { account, failure });
    expect(await connections().needsConsent('u1', APP, ['openid', 'offline_access'], false)).toBe(true);
    await make(undefined);
    expect((await read()).refreshToken).toBeUndefined();
    expect((await read()).failure).toBeUndefined();
  });

  test('never keeps a refresh token if the provider names no account', async () => {
    await stored('u1', { account: {} });
    const consent = { userId: 'u1', app: APP, response: tokens('at-new').response, scopes: ['openid'], writesOfUser };
    await connections().connect({ ...consent, account: {} });
    expect((await read()).refreshToken).toBeUndefined();
  });

  const needsConsent = (scopes: string[], isConnecting = false, userId: string | undefined = 'u1') =>
    connections().needsConsent(userId, APP, scopes, isConnecting);

  test('requires a new consent if no stored refresh token covers the scopes; for a choice, all of them', async () => {
    const needs = (scopes: string[], isConnecting?: boolean) =>
      needsConsent([...scopes, 'offline_access'], isConnecting);
    expect([await needs(['openid']), await needsConsent(['openid'])]).toEqual([true, false]);
    expect(await needsConsent(['openid', 'offline_access'], false, undefined)).toBe(true);
    await stored('u1', { account, scopes: ['openid', 'read', 'offline_access'] });
    expect(await needs(['openid', 'read'])).toBe(false);
    expect(await needs(['openid', 'read', 'write'])).toBe(false);
    expect(await needs(['openid', 'read', 'write'], true)).toBe(true);
    expect(await needs(['openid', 'read'], true)).toBe(false);
    // Fewer scopes were chosen, and the old refresh token would bring the dropped ones back.
    expect(await needs(['openid'])).toBe(true);
    await stored('u1', { account, refreshToken: undefined });
    expect(await needs(['openid'])).toBe(true);
  });

  test('a provider with other names for scopes requires no new consent at a sign-in', async () => {
    const scopes = ['openid', 'email', 'offline_access'];
    await stored('u1', { account, scopes: ['openid', 'https://provider.test/email'], requestedScopes: scopes });
    expect(await needsConsent(scopes)).toBe(false);
  });

  test('a choice with an unknown account requires a new consent, so that the refresh token is replaced', async () => {
    await stored('u1', { account: {}, scopes: ['read'], requestedScopes: ['read'] });
    expect([await needsConsent(['read'], true), await needsConsent(['read'])]).toEqual([true, false]);
    await stored('u1', { account: { accountId: '7' }, scopes: ['read'], requestedScopes: ['read'] });
    expect(await needsConsent(['read'], true)).toBe(false);
    await stored('u1', { account: {}, scopes: ['read'], requestedScopes: ['read'], refreshToken: undefined });
    expect(await needsConsent(['read'], true)).toBe(false);
  });

  describe('the requested scopes', () => {
    const requested = ['openid', 'email', 'offline_access'];
    const consent = (scopes: string[], granted: string[] | undefined, changes: object = {}) => {
      const response = { ...tokens('at-new').response, scopes: granted };
      return connections().connect({ userId: 'u1', app: APP, response, scopes, account, writesOfUser, ...changes });
    };

    test('are stored next to the granted ones', async () => {
      await consent(requested, ['openid', 'https://provider.test/email']);
      expect(await read()).toMatchObject({
        ...{ requestedScopes: requested, scopes: ['openid', 'https://provider.test/email'] },
      });
    });

    test('decide whether offline_access was dropped, if the provider never names it', async () => {
      await stored('u1', { account, scopes: ['openid'], requestedScopes: requested });
      await consent(requested, ['openid'], { chosen: true });
      expect((await read()).refreshToken).toBe('rt1-u1');
      await consent(['openid'], ['openid'], { chosen: true });
      expect((await read()).refreshToken).toBeUndefined();
    });

    test('stay a choice if a sign-in, which requests all scopes, was granted no more', async () => {
      await stored('u1', { account, scopes: ['openid'], requestedScopes: ['openid'], chosen: true });
      await consent(requested, ['openid']);
      expect(await read()).toMatchObject({ accessToken: 'at-new', requestedScopes: ['openid'], chosen: true });
      await consent(requested, requested);
      expect((await read()).scopes).toEqual(['openid']);
    });

    test('are unknown for an imported grant, and a refresh keeps that, and fields of a newer version', async () => {
      await stored('u1', { account, ...{ ofALaterVersion: 1 } });
      respond = async () => tokens('at2');
      await token();
      expect(await read()).toMatchObject({ accessToken: 'at2', ofALaterVersion: 1 });
      expect((await read()).requestedScopes).toBeUndefined();
    });
  });

  test('offline_access counts as granted only if a stored refresh token of the same user has it', async () => {
    const requested = ['openid', 'offline_access'];
    const scopesAfter = async () => {
      const answered = { ...tokens('at-new').response, scopes: ['openid'] };
      await connections().connect({
        userId: 'u1',
        app: APP,
        response: answered,
        scopes: requested,
        account,
        writesOfUser,
      });
      return (await read()).scopes;
    };
    expect(await scopesAfter()).toEqual(['openid']);
    await stored('u1', { account, scopes: ['openid'] });
    expect(await scopesAfter()).toEqual(['openid']);
    await stored('u1', { account, scopes: requested });
    expect(await scopesAfter()).toEqual(requested);
    expect((await read()).refreshToken).toBe('rt1-u1');
  });

  test('a consent sends a recovery event only after a refusal', async () => {
    const failure = { kind: 'reconnect_needed', cause: 'grant_refused', since: 1, failures: 1, retryAt: 1 } as const;
    await stored('u1', { account, failure });
    await make('rt-new');
    expect(recovered).toMatchObject([{ userId: 'u1', app: APP.id }]);
    await make('rt-newer');
    expect(recovered).toHaveLength(1);
  });

  test('the time of use is saved at most once in five minutes, and not after the connection ends', async () => {
    await stored();
    const writes = vi.spyOn(store, 'write');
    const use = async () => {
      await grants.loadStored('u1', APP.id);
      await grants.noteUse('u1', APP.id);
    };
    await use();
    now += 299_000;
    await use();
    expect(writes).toHaveBeenCalledTimes(1);
    expect(await grants.lastUse('u1', APP.id)).toBe(NOW);
    now += 1_000;
    await grants.loadStored('u1', APP.id);
    const reads = vi.spyOn(store, 'get');
    await grants.noteUse('u1', APP.id);
    expect(reads).not.toHaveBeenCalled();
    expect(await grants.lastUse('u1', APP.id)).toBe(NOW + 300_000);
    await connections().end('u1', APP.id);
    await use();
    expect(await grants.lastUse('u1', APP.id)).toBeUndefined();
    await stored();
    await use();
    expect(await grants.lastUse('u1', APP.id)).toBe(now);
  });

  test('a failed write of the time of use does not reject', async () => {
    await stored();
    vi.spyOn(store, 'write').mockRejectedValue(new Error('disk full'));
    await expect(grants.noteUse('u1', APP.id)).resolves.toBeUndefined();
  });

  test.each([
    ['cannot be written', () => Promise.reject(new Error('disk full'))],
    ['finds no connection', () => Promise.resolve(undefined)],
  ])('if a write of the time of use %s, the next use is saved', async (_name, answered) => {
    await stored();
    await grants.loadStored('u1', APP.id);
    vi.spyOn(store, 'write').mockImplementationOnce(answered);
    await grants.noteUse('u1', APP.id);
    expect(await grants.lastUse('u1', APP.id)).toBeUndefined();
    await grants.noteUse('u1', APP.id);
    expect(await grants.lastUse('u1', APP.id)).toBe(NOW);
  });
});

describe('R39: a refusal after a refresh without a response', () => {
  const interruptedThenRefused = async (app: ConnectedApp, changes: Partial<Grant> = {}, between?: RefreshOutcome) => {
    await stored('u1', changes);
    respond = async () => ({ kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined });
    await accessTokens.get('u1', app);
    now += 120_000;
    if (between) {
      respond = async () => between;
      await accessTokens.get('u1', app);
      now += 1_200_000;
    }
    respond = async () => ({ kind: 'refused' });
    return accessTokens.get('u1', app);
  };

  test('has the cause response_lost, since the lost call may have spent the refresh token', async () => {
    expect(await interruptedThenRefused(APP)).toEqual({ kind: 'reconnect_needed', cause: 'response_lost' });
    expect(refreshed).toHaveLength(2);
  });

  test.each<[string, RefreshOutcome]>([
    ['is unavailable', { kind: 'unavailable', reason: 'status_503', retryAfterSeconds: undefined }],
    ['refuses the app', { kind: 'app_fault', reason: 'invalid_client' }],
    ['refuses unclearly', { kind: 'unclear_refusal', reason: 'status_400' }],
  ])('has the cause response_lost even if the provider meanwhile %s', async (_name, between) => {
    expect(await interruptedThenRefused(APP, {}, between)).toEqual({
      kind: 'reconnect_needed',
      cause: 'response_lost',
    });
    expect(refreshed).toHaveLength(3);
  });

  test.each([
    ['the app is set to reusable', { ...APP, refresh: 'reusable' as const }, {}],
    ['no refresh brought a new one', APP, { rotates: false }],
  ])('has the cause grant_refused if a use does not spend the token: %s', async (_name, app, changes) => {
    expect(await interruptedThenRefused(app, changes)).toEqual({ kind: 'reconnect_needed', cause: 'grant_refused' });
  });

  test('has the cause response_lost for an app with the setting rotating', async () => {
    const app = { ...APP, refresh: 'rotating' as const };
    expect(await interruptedThenRefused(app, { rotates: false })).toMatchObject({ cause: 'response_lost' });
  });
});

test('R38: a refresh succeeds even if it cannot be removed from the list of open refreshes', async () => {
  await stored();
  respond = async () => tokens('at2', 'rt2');
  const removeUnfinishedRefresh = vi.spyOn(grants, 'removeUnfinishedRefresh').mockRejectedValue(new Error('no store'));
  expect(await token()).toMatchObject({ kind: 'token', accessToken: 'at2' });
  expect(removeUnfinishedRefresh).toHaveBeenCalledOnce();
});
