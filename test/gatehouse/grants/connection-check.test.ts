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
const OF_APP = keys.connections('app', APP.id);
const START = 1_800_000_000_000;
const SECONDS = 400;
/** The time between two runs of the scheduled task. A round takes a sixth of the interval. */
const STEP_MS = 10_000;

describe('R113', () => {
  let directory: string;
  let store: Store;
  let grants: GrantStore;
  let now: number;
  let disabled: string[];
  let apps: ConnectedApp[];
  /** Remaining calls in the budget of the app. */
  let left: number;
  /** Refresh tokens that the provider was sent. */
  let used: string[];
  let broken: string[];
  let lacking: string[];
  let outcomeOf: (refreshToken: string) => RefreshOutcome;

  beforeEach(async () => {
    [now, disabled, apps, left, used, broken, lacking] = [START, [], [APP], 1_000, [], [], []];
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
      used.push(refreshToken);
      return outcomeOf(refreshToken);
    },
  } as unknown as ProviderClient;
  const events = {
    refreshEnded: () => undefined,
    reconnectNeeded: ({ userId, cause }: { userId: string; cause: string }) => void broken.push(`${userId} ${cause}`),
    connectionRecovered: () => undefined,
    connectionCreated: () => undefined,
    scopesMissing: ({ userId, scopes }: { userId: string; scopes: string[] }) =>
      void lacking.push(`${userId} ${scopes.join(' ')}`),
  } as unknown as Events;

  /** The scheduled task of one process. */
  const processOf = (over: Store = store, seconds = SECONDS): (() => Promise<unknown>) => {
    const clock = () => now;
    const refresher = createRefresher({
      ...{ grants, provider, events, clock, random: () => 0.5, times: refreshTimes(300) },
      revokeUnowned: async () => ({ outcome: 'revoked' as const }),
      leases: createLeases({ store, milliseconds: 4_000 }),
    });
    const index = createConnectionIndex({ store, clock });
    const missing = createMissingScopes({ grants, index, events });
    const scheduledTasks = createConnectionCheck({
      ...{ store: over, grants, refresher, missing, seconds, clock },
      apps: { list: () => apps, find: (id) => apps.find((app) => app.id === id) },
    });
    const [task] = scheduledTasks({
      isDisabled: async (userId) => disabled.includes(userId),
      chargeCheck: async (app) => (app.id === APP.id && left-- <= 0 ? 60 : undefined),
    });
    if (!task) throw new Error('There is no task.');
    return () => task.work(ENDLESS_TURN);
  };

  const connect = async (userId: string, changes: Partial<Grant> = {}) => {
    const grant: Grant = {
      ...{ id: newConnectionId(), userId, appId: APP.id, registration: registrationOf(APP) },
      ...{ accessToken: `at-${userId}`, refreshToken: `rt-${userId}`, scopes: [], account: {} },
      ...{ obtainedAt: now, expiresAt: now + DAY_MS, connectedAt: now, consentedAt: now },
      ...{ failure: undefined, refresh: undefined, ...changes },
    };
    expect(await grants.save(grant, 0)).toBeDefined();
  };
  const pass = async (milliseconds: number, works: readonly (() => Promise<unknown>)[]) => {
    for (const end = now + milliseconds; now < end; ) {
      now += STEP_MS;
      await Promise.all(works.map((work) => work()));
    }
  };
  const users = (count: number) => Array.from({ length: count }, (_, at) => `u${String(at).padStart(2, '0')}`);
  const firstTokens = (ids: readonly string[]) => ids.map((id) => `rt-${id}`);

  test('refreshes each connection once before the interval ends, even with two processes', async () => {
    for (const id of users(30)) await connect(id);
    const works = [processOf(), processOf()];
    await pass(SECONDS * 750 - STEP_MS, works);
    expect(used).toEqual([]);
    await pass(SECONDS * 250 + STEP_MS, works);
    expect(used.toSorted()).toEqual(firstTokens(users(30)));
  });

  test('counts a refresh by a use as a check', async () => {
    await connect('u1', { obtainedAt: now + SECONDS * 500 });
    await pass(SECONDS * 1_200, [processOf()]);
    expect(used).toEqual([]);
    await pass(SECONDS * 400, [processOf()]);
    expect(used).toEqual(['rt-u1']);
  });

  test('finds a revoked connection and announces it once, without a call of the user', async () => {
    for (const id of users(3)) await connect(id);
    const tokens = outcomeOf;
    outcomeOf = (refreshToken) => (refreshToken === 'rt-u01' ? { kind: 'refused' } : tokens(refreshToken));
    await pass(SECONDS * 1_000 + STEP_MS, [processOf(), processOf()]);
    expect(broken).toEqual(['u01 grant_refused']);
    const ended = await grants.loadStored('u01', APP.id);
    if (!ended || 'unreadable' in ended) throw new Error('There is no grant.');
    expect(checkedAtOf(ended.grant)).toBe(ended.grant.failure?.since);
    expect(ended.grant.obtainedAt).toBe(START);
    await pass(SECONDS * 1_000, [processOf()]);
    expect(used.filter((token) => token === 'rt-u01')).toHaveLength(1);
  });

  test('R115 announces a new scope of the app once per connection without it, by one of two processes', async () => {
    const granted = { scopes: ['openid'], requestedScopes: ['openid'] };
    for (const id of users(20)) await connect(id, granted);
    await connect('has-it', { ...granted, requestedScopes: ['openid', 'files'] });
    await connect('declined', { ...granted, declinedScopes: ['files'] });
    await connect('importing', { ...granted, accessToken: '' });
    const ended = { kind: 'reconnect_needed', cause: 'grant_refused', since: now, failures: 1, retryAt: now } as const;
    await connect('ended', { ...granted, failure: ended });
    await connect('in-refresh', { ...granted, refresh: { startedAt: now, received: undefined } });
    apps = [{ ...APP, scopes: ['openid', 'files'] }];
    await pass(SECONDS * 250, [processOf(), processOf()]);
    expect(lacking.toSorted()).toEqual(users(20).map((id) => `${id} files`));
    expect(used).toEqual([]);
    await pass(SECONDS * 250, [processOf()]);
    expect(lacking).toHaveLength(20);

    // Another scope is announced, but a scope that was removed and added again is not.
    apps = [{ ...APP, scopes: ['openid', 'mail'] }];
    await pass(SECONDS * 250, [processOf(), processOf()]);
    expect(lacking.slice(20).toSorted()).toEqual([
      'declined mail',
      'has-it mail',
      ...users(20).map((id) => `${id} mail`),
    ]);
    apps = [{ ...APP, scopes: ['openid', 'files'] }];
    await pass(SECONDS * 250, [processOf(), processOf()]);
    // These two may have been refreshed in between: two processes divide the work by chance, without a lease.
    expect(lacking.filter((one) => !/^(?:in-refresh|importing) /.test(one))).toHaveLength(42);
  });

  test('does not check connections of disabled users and apps, or connections unused for 90 days', async () => {
    const old = now - 91 * DAY_MS;
    await connect('disabled', { obtainedAt: old });
    await connect('unused', { obtainedAt: old, consentedAt: old });
    await connect('used', { obtainedAt: old, consentedAt: old });
    await grants.noteUse('used', APP.id);
    await connect('of-disabled-app', { obtainedAt: old, appId: 'off' });
    await connect('of-no-app', { obtainedAt: old, appId: 'gone' });
    await connect('without', { obtainedAt: old, refreshToken: undefined });
    await connect('ended', {
      obtainedAt: old,
      failure: { kind: 'reconnect_needed', cause: 'grant_refused', since: old, failures: 1, retryAt: old },
    });
    await connect('importing', { obtainedAt: 0, accessToken: '' });
    disabled = ['disabled'];
    apps = [APP, { ...APP, id: 'off', disabled: true } as ConnectedApp];
    await pass(SECONDS * 300, [processOf()]);
    expect(used).toEqual(['rt-used']);
  });

  test('sends an unavailable provider only a few calls at a time, and keeps the grants', async () => {
    for (const id of users(60)) await connect(id, { obtainedAt: now - DAY_MS });
    outcomeOf = () => ({ kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined });
    await processOf()();
    now += SECONDS * 1_000;
    const before = used.length;
    await processOf()();
    expect(used.length - before).toBeLessThanOrEqual(16);
    expect(broken).toEqual([]);
  });

  test('calls a provider that limits its calls only after the time that it names', async () => {
    for (const id of users(60)) await connect(id, { obtainedAt: now - DAY_MS });
    outcomeOf = () => ({ kind: 'unavailable', reason: 'status_429', retryAfterSeconds: 90 });
    const work = processOf();
    await pass(STEP_MS, [work]);
    const before = used.length;
    expect(before).toBeGreaterThan(0);
    await pass(8 * STEP_MS, [work]);
    expect(used).toHaveLength(before);
    const tokens = {
      kind: 'tokens',
      response: { accessToken: 'at', expiresInSeconds: 86_400 } as TokenResponse,
    } as const;
    outcomeOf = (token) =>
      token < 'rt-u20' ? tokens : { kind: 'unavailable', reason: 'status_429', retryAfterSeconds: 600 };
    await pass(60 * STEP_MS, [work]);
    // Concurrent calls may have been sent, but none after the refusal.
    expect(used.filter((token) => token >= 'rt-u20').length).toBeLessThanOrEqual(before + 16);
  });

  test('charges each refresh to the budget of the app, and defers it until the budget permits it', async () => {
    for (const id of users(30)) await connect(id, { obtainedAt: now - DAY_MS });
    left = 10;
    const work = processOf();
    await pass(SECONDS * 1_000, [work]);
    expect(used).toHaveLength(10);
    left = 20;
    await pass(STEP_MS, [work]);
    expect(used.toSorted()).toEqual(firstTokens(users(30)));
  });

  test('a spent budget or an unavailable provider delays no other app', async () => {
    apps = [APP, { ...APP, id: 'other' } as ConnectedApp];
    for (const id of users(20)) await connect(id, { obtainedAt: now - DAY_MS });
    for (const id of users(20))
      await connect(id, { obtainedAt: now - DAY_MS, appId: 'other', refreshToken: `of-${id}` });
    const tokens = outcomeOf;
    left = 0;
    await pass(SECONDS * 250, [processOf()]);
    expect(used.toSorted()).toEqual(users(20).map((id) => `of-${id}`));
    [left, used] = [1_000, []];
    outcomeOf = (token) =>
      token.startsWith('of-')
        ? tokens(token)
        : { kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined };
    await pass(SECONDS * 1_000 + STEP_MS, [processOf()]);
    expect(used.filter((token) => token.startsWith('of-'))).toHaveLength(20);
  });

  test('checks all connections after an outage, at the first run after the back-off, and none stays unverified', async () => {
    for (const id of users(30)) await connect(id, { obtainedAt: now - DAY_MS, expiresAt: now });
    const tokens = outcomeOf;
    outcomeOf = () => ({ kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined });
    const work = processOf();
    await pass(SECONDS * 600, [work]);
    const health = async (userId: string) => {
      const stored = await grants.loadStored(userId, APP.id);
      return stored && 'grant' in stored ? healthOf(stored.grant, now) : undefined;
    };
    const healths = async () => Promise.all(users(30).map(health));
    expect(await healths()).toContain('unverified');
    // One call per back-off, not one per connection.
    expect(used.length).toBeGreaterThan(2);
    expect(used.length).toBeLessThanOrEqual(12);
    outcomeOf = tokens;
    // The longest back-off.
    now += 75_000;
    await work();
    expect(await healths()).toEqual(users(30).map(() => 'active'));
    expect(broken).toEqual([]);
  });

  test('between two rounds, retries only connections whose refresh failed in an outage', async () => {
    const failure = { cause: 'provider_unavailable', since: now, failures: 1, retryAt: now } as const;
    const old = { obtainedAt: now - DAY_MS, expiresAt: now };
    await connect('outage', { ...old, failure: { ...failure, kind: 'passing' } });
    // A provider that refuses without a clear reason would get many calls.
    await connect('unclear', { ...old, failure: { ...failure, kind: 'unverified', cause: 'unclear_refusal' } });
    const withoutLists = { ...store, count: async () => 0 };
    await pass(STEP_MS, [processOf(withoutLists)]);
    expect(used).toEqual(['rt-outage']);
  });

  test('a connection whose refresh always fails delays no other', async () => {
    for (const id of users(30)) await connect(id);
    const tokens = outcomeOf;
    outcomeOf = (token) =>
      token === 'rt-u03' ? { kind: 'unavailable', reason: 'status_500', retryAfterSeconds: undefined } : tokens(token);
    // It delays the others at most by two back-offs, since it is tried twice.
    await pass(SECONDS * 1_000 + STEP_MS + 150_000, [processOf()]);
    expect(new Set(used)).toEqual(new Set(firstTokens(users(30))));
  });

  test('repeats a check that throws in the next round, and makes the other checks', async () => {
    for (const id of users(3)) await connect(id, { obtainedAt: now - DAY_MS });
    const load = grants.load;
    vi.spyOn(grants, 'load').mockImplementation((userId, ...rest) =>
      userId === 'u01' ? Promise.reject(new Error('unexpected')) : load(userId, ...rest),
    );
    await pass(SECONDS * 500, [processOf()]);
    expect(used.toSorted()).toEqual(firstTokens(['u00', 'u02']));
  });

  test('the task fails while the storage is unavailable, and then repeats the same part', async () => {
    for (const id of users(3)) await connect(id, { obtainedAt: now - DAY_MS });
    const load = vi.spyOn(grants, 'load').mockRejectedValue(new AppError('storage_unavailable'));
    const work = processOf();
    now += STEP_MS;
    await expect(work()).rejects.toMatchObject({ code: 'storage_unavailable' });
    expect(await store.get(keys.connectionCheck(APP.id))).toBeUndefined();
    load.mockRestore();
    await pass(SECONDS * 500, [work]);
    expect(used.toSorted()).toEqual(firstTokens(users(3)));
  });

  test('R132 a slow provider delays only the checks of its own app', async () => {
    const other = { ...APP, id: 'other' } as ConnectedApp;
    apps = [APP, other];
    await connect('slow', { obtainedAt: now - DAY_MS });
    await connect('good', { appId: other.id, registration: registrationOf(other), obtainedAt: now - DAY_MS });
    const { promise, resolve } = Promise.withResolvers<void>();
    vi.spyOn(provider, 'refresh').mockImplementation(async ({ id }, { refreshToken }) => {
      used.push(refreshToken);
      await (id === APP.id ? promise : sleep(200));
      return outcomeOf(refreshToken);
    });
    now += STEP_MS;
    const turn = processOf(store, 4)();
    // This connection comes due while the slow provider has not responded yet.
    await until(() => used.length === 2);
    await connect('late', { appId: other.id, registration: registrationOf(other), obtainedAt: now - DAY_MS });
    // The clock advances: how much of a list is due depends on the time since its last part ended.
    await until(() => {
      now += 20;
      return used.includes('rt-late');
    });
    resolve();
    await turn;
    expect(used.filter((token) => token === 'rt-slow')).toHaveLength(1);
  });

  test('checks connections that a slow provider left unchecked together with the next part', async () => {
    for (const id of users(30)) await connect(id, { obtainedAt: now - DAY_MS });
    const { now: elapsed } = performance;
    let waited = 0;
    const spy = vi.spyOn(performance, 'now').mockImplementation(() => elapsed.call(performance) + waited);
    const page: Store['page'] = (index, ...parameters) => {
      if (index === OF_APP) waited += 3_000;
      return store.page(index, ...parameters);
    };
    await pass(SECONDS * 400, [processOf({ ...store, page })]).finally(() => spy.mockRestore());
    expect(used.toSorted()).toEqual(firstTokens(users(30)));
  });

  test('repeats the part of a process that was killed, and refreshes no connection twice', async () => {
    for (const id of users(30)) await connect(id, { obtainedAt: now - DAY_MS });
    let pages = 0;
    const page: Store['page'] = async (index, ...parameters) => {
      if (index === OF_APP && ++pages > 1) throw new Error('killed');
      return store.page(index, ...parameters);
    };
    const killed = { ...store, page, write: () => Promise.reject(new Error('killed')) };
    await processOf()();
    now += SECONDS * 200;
    await expect(processOf(killed)()).rejects.toThrow('killed');
    const done = used.length;
    expect(done).toBeGreaterThan(0);
    expect(done).toBeLessThan(30);
    await pass(SECONDS * 260, [processOf()]);
    expect(used.toSorted()).toEqual(firstTokens(users(30)));
  });

  test('reads only the due share of a long list, in small pages', async () => {
    const index = keys.connections('app', APP.id);
    const listed = Array.from({ length: 2_000 }, (_, at) => ({
      index,
      add: JSON.stringify([`n${at}`, APP.id]),
      score: at,
    }));
    await store.write(listed);
    const page = vi.fn(store.page);
    const count = vi.fn(store.count);
    const work = processOf({ ...store, page, count });
    await pass(4 * STEP_MS, [work]);
    // On SQLite, counting a long list delays every request.
    expect(count).toHaveBeenCalledTimes(1);
    const limits = page.mock.calls.filter(([name]) => name === index).map(([, { limit }]) => limit);
    expect(Math.max(...limits)).toBe(16);
    // Six tenths of a round.
    const read = limits.reduce((sum, limit) => sum + limit, 0);
    expect(read).toBeGreaterThanOrEqual(1_200);
    expect(read).toBeLessThanOrEqual(1_210);
  });

  test('an interval of 0 s switches the checks off', () => {
    const none = {} as Parameters<typeof createConnectionCheck>[0];
    const options = { isDisabled: async () => false, chargeCheck: async () => undefined };
    expect(createConnectionCheck({ ...none, seconds: 0 })(options)).toEqual([]);
  });
});

test.each([
  [1, 1_000],
  [60, 2_500],
  [240, 10_000],
  [86_400, 10_000],
])('R113 with an interval of %i s the task runs every %i ms', (seconds, everyMilliseconds) => {
  const none = {} as Parameters<typeof createConnectionCheck>[0];
  const options = { isDisabled: async () => false, chargeCheck: async () => undefined };
  expect(createConnectionCheck({ ...none, seconds })(options)).toMatchObject([
    { name: 'check-connections', everyMilliseconds },
  ]);
});
