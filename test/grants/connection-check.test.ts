/** R113: idle connections are checked without a call, each once in an interval, by any number of processes. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { ConnectedApp } from '../../src/connected-apps/connected-app.ts';
import type { ProviderClient } from '../../src/connected-apps/provider-client.ts';
import type { RefreshOutcome, TokenRefresh } from '../../src/connected-apps/token-refresh.ts';
import type { TokenResponse } from '../../src/connected-apps/token-response.ts';
import { createConnectionCheck } from '../../src/grants/connection-check.ts';
import { createConnectionIndex } from '../../src/grants/connection-index.ts';
import type { Grant } from '../../src/grants/grant.ts';
import { createGrantStore, type GrantStore } from '../../src/grants/grant-store.ts';
import { createRefresher } from '../../src/grants/refresh.ts';
import { checkedAtOf, refreshTimes } from '../../src/grants/refresh-state.ts';
import type { Events } from '../../src/observability/events.ts';
import { generateEncryptionKey, parseEncryptionKeys } from '../../src/storage/key-ring.ts';
import { keys } from '../../src/storage/keys.ts';
import { createLeases } from '../../src/storage/lease.ts';
import { createRedisStore } from '../../src/storage/redis/store.ts';
import { createSealer } from '../../src/storage/sealed.ts';
import { createSqliteStore } from '../../src/storage/sqlite/store.ts';
import type { Store } from '../../src/storage/store.ts';
import { DAY_MS } from '../../src/time.ts';
import { skipWithout } from '../support/missing.ts';
import { missingRedis, type RedisServer, startRedis } from '../support/redis-server.ts';

const APP = { id: 'platform', name: 'Platform', issuer: 'https://idp.test', scopes: ['openid'] } as ConnectedApp;
const START = 1_800_000_000_000;
const SECONDS = 400;
/** A quarter of the interval is a round, and a tenth of that the time between two calls of the chore. */
const STEP_MS = 10_000;

describe.each(['SQLite', 'Redis'] as const)('on %s', (kind) => {
  let directory: string;
  let redis: RedisServer | undefined;
  let store: Store;
  let grants: GrantStore;
  let now: number;
  let disabled: string[];
  let apps: ConnectedApp[];
  /** Calls that the budget of the app has room for. */
  let left: number;
  /** Refresh tokens that the provider was sent. */
  let used: string[];
  let broken: string[];
  let outcomeOf: (refreshToken: string) => RefreshOutcome;

  beforeEach(async (context) => {
    if (kind === 'Redis') skipWithout(context, missingRedis);
    [now, disabled, apps, left, used, broken] = [START, [], [APP], 1_000, [], []];
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
    redis = kind === 'Redis' ? await startRedis() : undefined;
    store = redis
      ? await createRedisStore({ url: redis.url, durability: 'none' })
      : await createSqliteStore({ directory, clock, random: Math.random });
    const parsed = parseEncryptionKeys(generateEncryptionKey(new Date()));
    if ('faults' in parsed) throw new Error(parsed.faults.join());
    const sealer = createSealer(parsed.keys);
    grants = createGrantStore({ store, sealer, clock, connectionIndex: createConnectionIndex({ store, clock }) });
  });
  afterEach(async () => {
    await store?.close();
    await redis?.dispose();
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
    connectionBroken: ({ userId, cause }: { userId: string; cause: string }) => void broken.push(`${userId} ${cause}`),
    connectionRecovered: () => undefined,
  } as unknown as Events;

  /** The chore of one process. */
  const processOf = (over: Store = store): (() => Promise<unknown>) => {
    const clock = () => now;
    const refresher = createRefresher({
      ...{ grants, provider, events, clock, random: () => 0.5, times: refreshTimes(300) },
      revokeUnowned: async () => ({ outcome: 'revoked' as const }),
      leases: createLeases({ store, milliseconds: 4_000 }),
    });
    const findApp = (id: string) => apps.find((app) => app.id === id);
    const chores = createConnectionCheck({ store: over, grants, refresher, findApp, clock });
    const [chore] = chores({
      seconds: SECONDS,
      isDisabled: async (userId) => disabled.includes(userId),
      charge: async () => (left-- > 0 ? undefined : 60),
    });
    if (!chore) throw new Error('There is no chore.');
    return chore.work;
  };

  const connect = async (userId: string, changes: Partial<Grant> = {}) => {
    const grant: Grant = {
      ...{ userId, appId: APP.id, accessToken: `at-${userId}`, refreshToken: `rt-${userId}`, scopes: [], account: {} },
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

  test('each is refreshed once before the interval ends, also by two processes at once', async () => {
    for (const id of users(30)) await connect(id);
    const works = [processOf(), processOf()];
    await pass(SECONDS * 750 - STEP_MS, works);
    expect(used).toEqual([]);
    await pass(SECONDS * 250 + STEP_MS, works);
    expect(used.toSorted()).toEqual(firstTokens(users(30)));
  });

  test('a refresh by use counts as a check', async () => {
    await connect('u1', { obtainedAt: now + SECONDS * 500 });
    await pass(SECONDS * 1_200, [processOf()]);
    expect(used).toEqual([]);
    await pass(SECONDS * 400, [processOf()]);
    expect(used).toEqual(['rt-u1']);
  });

  test('one that was revoked is found and announced once, without a call of the user', async () => {
    for (const id of users(3)) await connect(id);
    const tokens = outcomeOf;
    outcomeOf = (refreshToken) => (refreshToken === 'rt-u01' ? { kind: 'refused' } : tokens(refreshToken));
    await pass(SECONDS * 1_000 + STEP_MS, [processOf(), processOf()]);
    expect(broken).toEqual(['u01 grant_refused']);
    const ended = await grants.load('u01', APP.id);
    if (!ended || 'unreadable' in ended) throw new Error('There is no grant.');
    expect(checkedAtOf(ended.grant)).toBe(ended.grant.failure?.since);
    expect(ended.grant.obtainedAt).toBe(START);
    await pass(SECONDS * 1_000, [processOf()]);
    expect(used.filter((token) => token === 'rt-u01')).toHaveLength(1);
  });

  test('users and apps that are disabled, and connections unused for 90 days, are left to expire', async () => {
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

  test('a provider that is away gets a few calls at a time, and the grants stay', async () => {
    for (const id of users(60)) await connect(id, { obtainedAt: now - DAY_MS });
    outcomeOf = () => ({ kind: 'unavailable', reason: 'timeout', retryAfterSeconds: undefined });
    await processOf()();
    now += SECONDS * 1_000;
    const before = used.length;
    await processOf()();
    expect(used.length - before).toBeLessThanOrEqual(16);
    expect(broken).toEqual([]);
  });

  test('a provider that limits its calls gets none before the time that it names', async () => {
    for (const id of users(60)) await connect(id, { obtainedAt: now - DAY_MS });
    outcomeOf = () => ({ kind: 'unavailable', reason: 'status_429', retryAfterSeconds: 90 });
    const work = processOf();
    await pass(STEP_MS, [work]);
    const before = used.length;
    expect(before).toBeGreaterThan(0);
    await pass(8 * STEP_MS, [work]);
    expect(used).toHaveLength(before);
  });

  test('each refresh is charged to the budget of the app, and is left to a later round where that is spent', async () => {
    for (const id of users(30)) await connect(id, { obtainedAt: now - DAY_MS });
    left = 10;
    await pass(SECONDS * 260, [processOf()]);
    expect(used).toHaveLength(10);
    left = 20;
    await pass(SECONDS * 260, [processOf()]);
    expect(used.toSorted()).toEqual(firstTokens(users(30)));
  });

  test('a process that ends in the middle loses nothing: the next one repeats its part, and refreshes none twice', async () => {
    for (const id of users(30)) await connect(id, { obtainedAt: now - DAY_MS });
    const killed = { ...store, page: vi.fn(store.page), write: () => Promise.reject(new Error('killed')) };
    killed.page.mockImplementationOnce(store.page).mockRejectedValueOnce(new Error('killed'));
    await processOf()();
    now += SECONDS * 250;
    await expect(processOf(killed)()).rejects.toThrow('killed');
    const done = used.length;
    expect(done).toBeGreaterThan(0);
    expect(done).toBeLessThan(30);
    await pass(SECONDS * 260, [processOf()]);
    expect(used.toSorted()).toEqual(firstTokens(users(30)));
  });

  test('reads no more of a long list than its share, a few at a time', async () => {
    const index = keys.connections('all');
    const listed = Array.from({ length: 2_000 }, (_, at) => ({
      index,
      add: JSON.stringify([`n${at}`, APP.id]),
      score: at,
    }));
    await store.write(listed);
    const page = vi.fn(store.page);
    const count = vi.fn(store.count);
    const work = processOf({ ...store, page, count });
    await pass(5 * STEP_MS, [work]);
    // On SQLite, counting a long list holds up every request.
    expect(count).toHaveBeenCalledTimes(1);
    const limits = page.mock.calls.map(([, { limit }]) => limit);
    expect(Math.max(...limits)).toBe(16);
    // Half of a round.
    const read = limits.reduce((sum, limit) => sum + limit, 0);
    expect(read).toBeGreaterThanOrEqual(1_000);
    expect(read).toBeLessThanOrEqual(1_010);
  });

  test('0 s switches it off', () => {
    const none = {} as Parameters<typeof createConnectionCheck>[0];
    const options = { seconds: 0, isDisabled: async () => false, charge: async () => undefined };
    expect(createConnectionCheck(none)(options)).toEqual([]);
  });
});
