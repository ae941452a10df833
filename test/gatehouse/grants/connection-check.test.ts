/** R113: any number of processes check idle connections, each connection once per interval. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import { checkedAtOf } from '../../../src/gatehouse/grants/connection.ts';
import { createConnectionCheck } from '../../../src/gatehouse/grants/connection-check.ts';
import { newConnectionId } from '../../../src/gatehouse/grants/connection-ids.ts';
import { createConnectionIndex } from '../../../src/gatehouse/grants/connection-index.ts';
import { type Grant, healthOf } from '../../../src/gatehouse/grants/grant.ts';
import { createGrantStore, type GrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { createMissingScopes } from '../../../src/gatehouse/grants/missing-scopes.ts';
import { createRefresher, refreshTimes } from '../../../src/gatehouse/grants/refresh.ts';
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
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { DAY_MS } from '../../../src/shared/time.ts';
import { PLATFORM } from '../../support/apps.ts';
import { ENDLESS_TURN } from '../../support/task-turn.ts';
import { until } from '../../support/until.ts';

const APP = { ...PLATFORM, name: 'Platform', scopes: ['openid'] } as ConnectedApp;
const CONNECTIONS_OF_APP = keys.connections('app', APP.id);
const START = 1_800_000_000_000;
const INTERVAL_SECONDS = 400;
const INTERVAL_MS = INTERVAL_SECONDS * 1_000;
/** The time between two runs of the scheduled task. A round takes a sixth of the interval. */
const STEP_MS = 10_000;
/** When a check that exceeds the budget may be repeated. */
const RETRY_AFTER_SECONDS = 60;
/** How many connections of one app a run checks at the same time. */
const MAX_CONCURRENT_CHECKS = 16;
/** The longest time that a failed refresh delays the next one. */
const MAX_BACK_OFF_MS = 75_000;

/** The scheduled tasks for an interval, of a check whose other parts are not used. */
function scheduledTasksOf(seconds: number) {
  const noParts = {} as Parameters<typeof createConnectionCheck>[0];
  const createTasks = createConnectionCheck({ ...noParts, seconds });
  return createTasks({ isDisabled: async () => false, chargeCheck: async () => undefined });
}

describe('R113: the connection check', () => {
  let directory: string;
  let store: Store;
  let grants: GrantStore;
  let now: number;
  let disabledUsers: string[];
  let apps: ConnectedApp[];
  /** How many refreshes the budget of the app still permits. */
  let remainingBudget: number;
  /** The refresh tokens that the provider has received. */
  let sentRefreshTokens: string[];
  /** The user and the cause of each event that a user must reconnect. */
  let reconnectEvents: string[];
  /** The user and the scopes of each event that a connection lacks scopes. */
  let missingScopeEvents: string[];
  let outcomeOf: (refreshToken: string) => RefreshOutcome;

  beforeEach(async () => {
    now = START;
    disabledUsers = [];
    apps = [APP];
    remainingBudget = 1_000;
    sentRefreshTokens = [];
    reconnectEvents = [];
    missingScopeEvents = [];
    outcomeOf = (refreshToken) => ({
      kind: 'tokens',
      response: {
        accessToken: `at-${refreshToken}+`,
        refreshToken: `${refreshToken}+`,
        expiresInSeconds: 86_400,
      } as TokenResponse,
    });
    directory = mkdtempSync(join(tmpdir(), 'gatehouse-check-'));
    const clock = () => now;
    store = await createSqliteStore({ directory, clock, random: Math.random });
    const parsed = parseEncryptionKeys(generateEncryptionKey(new Date()));
    if ('faults' in parsed) throw new Error(parsed.faults.join());
    const sealedJson = createSealedJson(createSealer(parsed.keys));
    grants = createGrantStore({ store, sealedJson, clock, connectionIndex: createConnectionIndex({ store, clock }) });
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    await store?.close();
    rmSync(directory, { recursive: true, force: true });
  });

  const provider = {
    async refresh(_app: ConnectedApp, { refreshToken }: TokenRefresh) {
      sentRefreshTokens.push(refreshToken);
      return outcomeOf(refreshToken);
    },
  } as unknown as ProviderClient;
  const events = {
    refreshEnded: () => undefined,
    reconnectNeeded: ({ userId, cause }: { userId: string; cause: string }) =>
      void reconnectEvents.push(`${userId} ${cause}`),
    connectionRecovered: () => undefined,
    connectionCreated: () => undefined,
    scopesMissing: ({ userId, scopes }: { userId: string; scopes: string[] }) =>
      void missingScopeEvents.push(`${userId} ${scopes.join(' ')}`),
  } as unknown as Events;

  /** The scheduled task of one process. */
  const newTask = (storeOfProcess: Store = store, seconds = INTERVAL_SECONDS): (() => Promise<unknown>) => {
    const clock = () => now;
    const refresher = createRefresher({
      grants,
      provider,
      events,
      clock,
      random: () => 0.5,
      times: refreshTimes(300),
      revokeUnowned: async () => ({ outcome: 'revoked' as const }),
      leases: createLeases({ store, milliseconds: 4_000 }),
    });
    const index = createConnectionIndex({ store, clock });
    const missing = createMissingScopes({ grants, index, events });
    const scheduledTasks = createConnectionCheck({
      store: storeOfProcess,
      grants,
      refresher,
      missing,
      seconds,
      clock,
      apps: { list: () => apps, find: (id) => apps.find((app) => app.id === id) },
    });
    const [task] = scheduledTasks({
      isDisabled: async (userId) => disabledUsers.includes(userId),
      async chargeCheck(app) {
        if (app.id !== APP.id) return undefined;
        remainingBudget -= 1;
        return remainingBudget < 0 ? RETRY_AFTER_SECONDS : undefined;
      },
    });
    if (!task) throw new Error('There is no task.');
    return () => task.work(ENDLESS_TURN);
  };

  const connect = async (userId: string, changes: Partial<Grant> = {}) => {
    const grant: Grant = {
      id: newConnectionId(),
      userId,
      appId: APP.id,
      registration: registrationOf(APP),
      accessToken: `at-${userId}`,
      refreshToken: `rt-${userId}`,
      scopes: [],
      account: {},
      obtainedAt: now,
      expiresAt: now + DAY_MS,
      connectedAt: now,
      consentedAt: now,
      failure: undefined,
      refresh: undefined,
      ...changes,
    };
    expect(await grants.save(grant, 0)).toBeDefined();
  };
  /** Advances the clock in steps, and runs the tasks at each step. */
  const passTime = async (milliseconds: number, tasks: readonly (() => Promise<unknown>)[]) => {
    const end = now + milliseconds;
    while (now < end) {
      now += STEP_MS;
      await Promise.all(tasks.map((runTask) => runTask()));
    }
  };
  /** The ids u00, u01 and so on. */
  const userIds = (count: number) =>
    Array.from({ length: count }, (_, number) => `u${String(number).padStart(2, '0')}`);
  /** The refresh tokens with which these users were connected. */
  const firstTokensOf = (ids: readonly string[]) => ids.map((id) => `rt-${id}`);

  test('refreshes each connection once before the interval ends, even with two processes', async () => {
    for (const id of userIds(30)) await connect(id);
    const tasks = [newTask(), newTask()];
    await passTime(INTERVAL_MS * 0.75 - STEP_MS, tasks);

    expect(sentRefreshTokens).toEqual([]);

    await passTime(INTERVAL_MS * 0.25 + STEP_MS, tasks);
    expect(sentRefreshTokens.toSorted()).toEqual(firstTokensOf(userIds(30)));
  });

  test('counts a refresh by a use as a check', async () => {
    await connect('u1', { obtainedAt: now + INTERVAL_MS * 0.5 });
    await passTime(INTERVAL_MS * 1.2, [newTask()]);
    expect(sentRefreshTokens).toEqual([]);

    await passTime(INTERVAL_MS * 0.4, [newTask()]);
    expect(sentRefreshTokens).toEqual(['rt-u1']);
  });

  test('finds a revoked connection and announces it once, without a call of the user', async () => {
    for (const id of userIds(3)) await connect(id);
    const respondWithTokens = outcomeOf;
    outcomeOf = (refreshToken) => (refreshToken === 'rt-u01' ? { kind: 'refused' } : respondWithTokens(refreshToken));
    await passTime(INTERVAL_MS + STEP_MS, [newTask(), newTask()]);

    expect(reconnectEvents).toEqual(['u01 grant_refused']);

    const endedGrant = await grants.loadStored('u01', APP.id);
    if (!endedGrant || 'unreadable' in endedGrant) throw new Error('There is no grant.');
    expect(checkedAtOf(endedGrant.grant)).toBe(endedGrant.grant.failure?.since);
    expect(endedGrant.grant.obtainedAt).toBe(START);

    await passTime(INTERVAL_MS, [newTask()]);
    expect(sentRefreshTokens.filter((token) => token === 'rt-u01')).toHaveLength(1);
  });

  test('R115 announces a new scope of the app once per connection without it, by one of two processes', async () => {
    const withoutFiles = { scopes: ['openid'], requestedScopes: ['openid'] };
    for (const id of userIds(20)) await connect(id, withoutFiles);
    await connect('has-it', { ...withoutFiles, requestedScopes: ['openid', 'files'] });
    await connect('declined', { ...withoutFiles, declinedScopes: ['files'] });
    await connect('importing', { ...withoutFiles, accessToken: '' });
    const refusal = {
      kind: 'reconnect_needed',
      cause: 'grant_refused',
      since: now,
      failures: 1,
      retryAt: now,
    } as const;
    await connect('ended', { ...withoutFiles, failure: refusal });
    await connect('in-refresh', { ...withoutFiles, refresh: { startedAt: now, received: undefined } });
    apps = [{ ...APP, scopes: ['openid', 'files'] }];
    await passTime(INTERVAL_MS * 0.25, [newTask(), newTask()]);

    expect(missingScopeEvents.toSorted()).toEqual(userIds(20).map((id) => `${id} files`));
    expect(sentRefreshTokens).toEqual([]);

    await passTime(INTERVAL_MS * 0.25, [newTask()]);
    expect(missingScopeEvents).toHaveLength(20);

    // Another scope is announced, but a scope that was removed and added again is not.
    apps = [{ ...APP, scopes: ['openid', 'mail'] }];
    await passTime(INTERVAL_MS * 0.25, [newTask(), newTask()]);
    expect(missingScopeEvents.slice(20).toSorted()).toEqual([
      'declined mail',
      'has-it mail',
      ...userIds(20).map((id) => `${id} mail`),
    ]);

    apps = [{ ...APP, scopes: ['openid', 'files'] }];
    await passTime(INTERVAL_MS * 0.25, [newTask(), newTask()]);
    // These two may have been refreshed in between: two processes divide the work by chance, without a lease.
    const ofOtherConnections = missingScopeEvents.filter((event) => !/^(?:in-refresh|importing) /.test(event));

    expect(ofOtherConnections).toHaveLength(42);
  });

  test('does not check connections of disabled users and apps, or connections unused for 90 days', async () => {
    const longAgo = now - 91 * DAY_MS;
    await connect('disabled', { obtainedAt: longAgo });
    await connect('unused', { obtainedAt: longAgo, consentedAt: longAgo });
    await connect('used', { obtainedAt: longAgo, consentedAt: longAgo });
    await grants.noteUse('used', APP.id);
    await connect('of-disabled-app', { obtainedAt: longAgo, appId: 'off' });
    await connect('of-no-app', { obtainedAt: longAgo, appId: 'gone' });
    await connect('without', { obtainedAt: longAgo, refreshToken: undefined });
    await connect('ended', {
      obtainedAt: longAgo,
      failure: { kind: 'reconnect_needed', cause: 'grant_refused', since: longAgo, failures: 1, retryAt: longAgo },
    });
    await connect('importing', { obtainedAt: 0, accessToken: '' });
    disabledUsers = ['disabled'];
    apps = [APP, { ...APP, id: 'off', disabled: true } as ConnectedApp];
    await passTime(INTERVAL_MS * 0.3, [newTask()]);

    expect(sentRefreshTokens).toEqual(['rt-used']);
  });

  test('sends an unavailable provider only a few calls at a time, and keeps the grants', async () => {
    for (const id of userIds(60)) await connect(id, { obtainedAt: now - DAY_MS });
    outcomeOf = () => ({ kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined });
    await newTask()();
    now += INTERVAL_MS;
    const callsOfFirstRun = sentRefreshTokens.length;
    await newTask()();

    expect(sentRefreshTokens.length - callsOfFirstRun).toBeLessThanOrEqual(MAX_CONCURRENT_CHECKS);
    expect(reconnectEvents).toEqual([]);
  });

  test('calls a provider that limits the rate again only after the time that it names', async () => {
    for (const id of userIds(60)) await connect(id, { obtainedAt: now - DAY_MS });
    outcomeOf = () => ({ kind: 'unavailable', reason: 'status_429', retryAfterSeconds: 90 });
    const runTask = newTask();
    await passTime(STEP_MS, [runTask]);
    const callsAtFirstRun = sentRefreshTokens.length;

    expect(callsAtFirstRun).toBeGreaterThan(0);

    await passTime(8 * STEP_MS, [runTask]);
    expect(sentRefreshTokens).toHaveLength(callsAtFirstRun);

    const tokensOutcome = {
      kind: 'tokens',
      response: { accessToken: 'at', expiresInSeconds: 86_400 } as TokenResponse,
    } as const;
    outcomeOf = (token) =>
      token < 'rt-u20' ? tokensOutcome : { kind: 'unavailable', reason: 'status_429', retryAfterSeconds: 600 };
    await passTime(60 * STEP_MS, [runTask]);
    // Concurrent calls may have been sent before the refusal, but none after it.
    const limitedCalls = sentRefreshTokens.filter((token) => token >= 'rt-u20');

    expect(limitedCalls.length).toBeLessThanOrEqual(callsAtFirstRun + MAX_CONCURRENT_CHECKS);
  });

  test('charges each refresh to the budget of the app, and defers it until the budget permits it', async () => {
    for (const id of userIds(30)) await connect(id, { obtainedAt: now - DAY_MS });
    remainingBudget = 10;
    const runTask = newTask();
    await passTime(INTERVAL_MS, [runTask]);

    expect(sentRefreshTokens).toHaveLength(10);

    remainingBudget = 20;
    await passTime(STEP_MS, [runTask]);
    expect(sentRefreshTokens.toSorted()).toEqual(firstTokensOf(userIds(30)));
  });

  test('is not delayed by a spent budget or an unavailable provider of another app', async () => {
    apps = [APP, { ...APP, id: 'other' } as ConnectedApp];
    for (const id of userIds(20)) await connect(id, { obtainedAt: now - DAY_MS });
    for (const id of userIds(20))
      await connect(id, { obtainedAt: now - DAY_MS, appId: 'other', refreshToken: `of-${id}` });
    const respondWithTokens = outcomeOf;
    remainingBudget = 0;
    await passTime(INTERVAL_MS * 0.25, [newTask()]);

    expect(sentRefreshTokens.toSorted()).toEqual(userIds(20).map((id) => `of-${id}`));

    remainingBudget = 1_000;
    sentRefreshTokens = [];
    outcomeOf = (token) =>
      token.startsWith('of-')
        ? respondWithTokens(token)
        : { kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined };
    await passTime(INTERVAL_MS + STEP_MS, [newTask()]);

    expect(sentRefreshTokens.filter((token) => token.startsWith('of-'))).toHaveLength(20);
  });

  test('checks all connections after an outage, at the first run after the back-off, and none stays unverified', async () => {
    for (const id of userIds(30)) await connect(id, { obtainedAt: now - DAY_MS, expiresAt: now });
    const respondWithTokens = outcomeOf;
    outcomeOf = () => ({ kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined });
    const runTask = newTask();
    await passTime(INTERVAL_MS * 0.6, [runTask]);
    const healthOfUser = async (userId: string) => {
      const stored = await grants.loadStored(userId, APP.id);
      return stored && 'grant' in stored ? healthOf(stored.grant, now) : undefined;
    };
    const healths = async () => Promise.all(userIds(30).map(healthOfUser));

    expect(await healths()).toContain('unverified');
    // One call per back-off, not one per connection.
    expect(sentRefreshTokens.length).toBeGreaterThan(2);
    expect(sentRefreshTokens.length).toBeLessThanOrEqual(12);

    outcomeOf = respondWithTokens;
    now += MAX_BACK_OFF_MS;
    await runTask();

    expect(await healths()).toEqual(userIds(30).map(() => 'active'));
    expect(reconnectEvents).toEqual([]);
  });

  test('between two rounds, retries only connections whose refresh failed in an outage', async () => {
    const failure = { cause: 'provider_unavailable', since: now, failures: 1, retryAt: now } as const;
    const dueForCheck = { obtainedAt: now - DAY_MS, expiresAt: now };
    await connect('outage', { ...dueForCheck, failure: { ...failure, kind: 'passing' } });
    // This one is not retried: a provider that refuses without a clear reason would get many calls.
    await connect('unclear', { ...dueForCheck, failure: { ...failure, kind: 'unverified', cause: 'unclear_refusal' } });
    // With a count of 0, the run checks no connections of the list.
    const withoutLists = { ...store, count: async () => 0 };
    await passTime(STEP_MS, [newTask(withoutLists)]);

    expect(sentRefreshTokens).toEqual(['rt-outage']);
  });

  test('is delayed by at most two back-offs by a connection whose refresh always fails', async () => {
    for (const id of userIds(30)) await connect(id);
    const respondWithTokens = outcomeOf;
    outcomeOf = (token) =>
      token === 'rt-u03'
        ? { kind: 'unavailable', reason: 'status_500', retryAfterSeconds: undefined }
        : respondWithTokens(token);
    // The failing refresh delays the others by at most two back-offs, since it is tried twice.
    await passTime(INTERVAL_MS + STEP_MS + 2 * MAX_BACK_OFF_MS, [newTask()]);

    expect(new Set(sentRefreshTokens)).toEqual(new Set(firstTokensOf(userIds(30))));
  });

  test('repeats a check that throws in the next round, and makes the other checks', async () => {
    for (const id of userIds(3)) await connect(id, { obtainedAt: now - DAY_MS });
    const loadGrant = grants.load;
    vi.spyOn(grants, 'load').mockImplementation((userId, ...rest) =>
      userId === 'u01' ? Promise.reject(new Error('unexpected')) : loadGrant(userId, ...rest),
    );
    await passTime(INTERVAL_MS * 0.5, [newTask()]);

    expect(sentRefreshTokens.toSorted()).toEqual(firstTokensOf(['u00', 'u02']));
  });

  test('fails while the storage is unavailable, and then repeats the same part', async () => {
    for (const id of userIds(3)) await connect(id, { obtainedAt: now - DAY_MS });
    const loadGrant = vi.spyOn(grants, 'load').mockRejectedValue(new AppError('storage_unavailable'));
    const runTask = newTask();
    now += STEP_MS;

    await expect(runTask()).rejects.toMatchObject({ code: 'storage_unavailable' });
    expect(await store.get(keys.connectionCheck(APP.id))).toBeUndefined();

    loadGrant.mockRestore();
    await passTime(INTERVAL_MS * 0.5, [runTask]);
    expect(sentRefreshTokens.toSorted()).toEqual(firstTokensOf(userIds(3)));
  });

  test('R132 does not wait for a slow provider before it checks the connections of other apps', async () => {
    const other = { ...APP, id: 'other' } as ConnectedApp;
    apps = [APP, other];
    await connect('slow', { obtainedAt: now - DAY_MS });
    await connect('good', { appId: other.id, registration: registrationOf(other), obtainedAt: now - DAY_MS });
    const { promise: slowResponse, resolve: releaseSlowResponse } = Promise.withResolvers<void>();
    vi.spyOn(provider, 'refresh').mockImplementation(async ({ id }, { refreshToken }) => {
      sentRefreshTokens.push(refreshToken);
      await (id === APP.id ? slowResponse : sleep(200));
      return outcomeOf(refreshToken);
    });
    now += STEP_MS;
    const run = newTask(store, 4)();
    // This connection comes due while the slow provider has not responded yet.
    await until(() => sentRefreshTokens.length === 2);
    await connect('late', { appId: other.id, registration: registrationOf(other), obtainedAt: now - DAY_MS });
    // The clock must advance: the part of a list that is due depends on the time since its last part ended.
    await until(() => {
      now += 20;
      return sentRefreshTokens.includes('rt-late');
    });
    releaseSlowResponse();
    await run;

    expect(sentRefreshTokens.filter((token) => token === 'rt-slow')).toHaveLength(1);
  });

  test('checks connections that a slow provider left unchecked together with the next part', async () => {
    for (const id of userIds(30)) await connect(id, { obtainedAt: now - DAY_MS });
    const realNow = performance.now;
    let addedMilliseconds = 0;
    const spy = vi.spyOn(performance, 'now').mockImplementation(() => realNow.call(performance) + addedMilliseconds);
    const slowPage: Store['page'] = (index, ...parameters) => {
      if (index === CONNECTIONS_OF_APP) addedMilliseconds += 3_000;
      return store.page(index, ...parameters);
    };
    await passTime(INTERVAL_MS * 0.4, [newTask({ ...store, page: slowPage })]).finally(() => spy.mockRestore());

    expect(sentRefreshTokens.toSorted()).toEqual(firstTokensOf(userIds(30)));
  });

  test('repeats the part of a process that was killed, and refreshes no connection twice', async () => {
    for (const id of userIds(30)) await connect(id, { obtainedAt: now - DAY_MS });
    let pagesRead = 0;
    const failingPage: Store['page'] = async (index, ...parameters) => {
      if (index === CONNECTIONS_OF_APP) pagesRead += 1;
      if (pagesRead > 1) throw new Error('killed');
      return store.page(index, ...parameters);
    };
    const storeOfKilledProcess = { ...store, page: failingPage, write: () => Promise.reject(new Error('killed')) };
    await newTask()();
    now += INTERVAL_MS * 0.2;

    await expect(newTask(storeOfKilledProcess)()).rejects.toThrow('killed');

    const callsBeforeKill = sentRefreshTokens.length;
    expect(callsBeforeKill).toBeGreaterThan(0);
    expect(callsBeforeKill).toBeLessThan(30);

    await passTime(INTERVAL_MS * 0.26, [newTask()]);
    expect(sentRefreshTokens.toSorted()).toEqual(firstTokensOf(userIds(30)));
  });

  test('reads only the due share of a long list, in small pages', async () => {
    const index = keys.connections('app', APP.id);
    const indexEntries = Array.from({ length: 2_000 }, (_, number) => ({
      index,
      add: JSON.stringify([`n${number}`, APP.id]),
      score: number,
    }));
    await store.write(indexEntries);
    const page = vi.fn(store.page);
    const count = vi.fn(store.count);
    const runTask = newTask({ ...store, page, count });
    await passTime(4 * STEP_MS, [runTask]);

    // On SQLite, counting a long list delays every request.
    expect(count).toHaveBeenCalledTimes(1);

    const pagesOfList = page.mock.calls.filter(([name]) => name === index);
    const limits = pagesOfList.map(([, { limit }]) => limit);
    expect(Math.max(...limits)).toBe(MAX_CONCURRENT_CHECKS);

    let entriesRead = 0;
    for (const limit of limits) entriesRead += limit;
    // The four runs take six tenths of a round, in which all 2,000 connections would be read.
    expect(entriesRead).toBeGreaterThanOrEqual(1_200);
    expect(entriesRead).toBeLessThanOrEqual(1_210);
  });

  test('is switched off by an interval of 0 s', () => {
    expect(scheduledTasksOf(0)).toEqual([]);
  });
});

test.each([
  [1, 1_000],
  [60, 2_500],
  [240, 10_000],
  [86_400, 10_000],
])('R113 with an interval of %i s the task runs every %i ms', (seconds, everyMilliseconds) => {
  expect(scheduledTasksOf(seconds)).toMatchObject([{ name: 'check-connections', everyMilliseconds }]);
});
