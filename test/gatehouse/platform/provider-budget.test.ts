/**
 * The provider's budget: no minute exceeds the limit, all processes obey the provider's limits, and browsers keep a
 * share.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ThreadApp } from '../../../src/gatehouse/connected-apps/current-apps.ts';
import type { AuthorizedFetch } from '../../../src/gatehouse/grants/authorized-fetch.ts';
import { createCallWindows } from '../../../src/gatehouse/platform/call-windows.ts';
import { CALL_LIMITS, createPlatformCalls, threadCall } from '../../../src/gatehouse/platform/platform-call.ts';
import {
  type BudgetedCall,
  createProviderBudget,
  type ProviderBudget,
} from '../../../src/gatehouse/platform/provider-budget.ts';
import { createRateLimits } from '../../../src/shared/http/rate-limit.ts';
import { createStop } from '../../../src/shared/outbound/stop.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { createTestStorage } from '../../support/test-storage.ts';

const directory = mkdtempSync(join(tmpdir(), 'gatehouse-budget-'));
let now = Date.parse('2026-11-21T12:00:00Z');
const clock = () => now;
let store: Store;
beforeAll(async () => {
  store = await createSqliteStore({ directory });
});
afterAll(async () => {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

/** The budget as one process has it. */
const createBudgetOn = (usedStore: Store) =>
  createProviderBudget({ store: usedStore, windows: createCallWindows({ store: usedStore, clock }), clock });
const createBudget = () => createBudgetOn(store);
const callOf = (app: BudgetedCall['app'], changes: Partial<BudgetedCall> = {}): BudgetedCall => ({
  app,
  ownerId: 'u1',
  caller: 'service',
  ...changes,
});
/** Counts a call if the budget allows it. `charge` returns the seconds to wait, or undefined. */
const isAllowed = async (budget: ProviderBudget, call: BudgetedCall) => (await budget.charge(call)) === undefined;
/** Makes this many calls one after the other, and returns the number of those that were allowed. */
async function countAllowed(calls: number, isCallAllowed: () => Promise<boolean>): Promise<number> {
  let allowed = 0;
  for (let call = 0; call < calls; call += 1) if (await isCallAllowed()) allowed += 1;
  return allowed;
}
/** Lets writes in the background end. */
const pause = () => new Promise((resolve) => setTimeout(resolve, 20));

test('no minute has more calls than the limit, at any time and across processes', async () => {
  let run = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat(15_000), { minLength: 5, maxLength: 40 }),
      fc.integer({ min: 1, max: 6 }),
      async (pauses, limit) => {
        run += 1;
        const windowsOfProcesses = [createCallWindows({ store, clock }), createCallWindows({ store, clock })];
        const callTimes: number[] = [];
        for (const [index, milliseconds] of pauses.entries()) {
          now += milliseconds;
          const wait = await windowsOfProcesses[index % 2]?.reserve(`app${run}`, 'all', limit);
          if (wait === undefined) callTimes.push(now);
          else expect(wait).toBeGreaterThan(0);
        }

        for (const start of callTimes) {
          const timesInMinute = callTimes.filter((time) => time >= start && time < start + 60_000);
          expect(timesInMinute.length).toBeLessThanOrEqual(limit);
        }
      },
    ),
    { numRuns: 30 },
  );
});

test('calls that are counted while a window ends stay within the limit', async () => {
  const LIMIT = 4;
  // 10 ms before a window ends.
  now = Math.ceil(now / 10_000) * 10_000 + 9_990;

  // A slow process reads the clock now, and writes only when `startWrites` is called.
  const { promise: writesMayStart, resolve: startWrites } = Promise.withResolvers<void>();
  let waitingWrites = 0;
  const slowStore: Store = {
    ...store,
    async increment(key, by, options) {
      waitingWrites += 1;
      if (waitingWrites <= LIMIT) await writesMayStart;
      return store.increment(key, by, options);
    },
  };
  const slowWindows = createCallWindows({ store: slowStore, clock });
  const slowReservations = Array.from({ length: LIMIT }, () => slowWindows.reserve('turning', 'all', LIMIT));
  while (waitingWrites < LIMIT) await pause();

  // Another process reserves in the next window, before the slow one writes.
  now += 20;
  const windows = createCallWindows({ store, clock });
  const waits = [];
  for (let call = 0; call < LIMIT; call += 1) waits.push(await windows.reserve('turning', 'all', LIMIT));
  startWrites();
  waits.push(...(await Promise.all(slowReservations)));
  expect(waits.filter((wait) => wait === undefined)).toHaveLength(LIMIT);

  now += 70_000;
  // The calls that were refused were released, and delay no later call.
  for (let call = 0; call < LIMIT; call += 1) expect(await windows.reserve('turning', 'all', LIMIT)).toBeUndefined();
});

test('after the returned wait a call is allowed, and not a second earlier', async () => {
  const windows = createCallWindows({ store, clock });
  for (let count = 0; count < 3; count += 1) await windows.reserve('honest', 'all', 3);
  const wait = (await windows.reserve('honest', 'all', 3)) ?? 0;
  now += (wait - 1) * 1000;
  expect(await windows.reserve('honest', 'all', 3)).toBeGreaterThan(0);
  now += 1_000;
  expect(await windows.reserve('honest', 'all', 3)).toBeUndefined();
});

describe('limits that the provider states', () => {
  const app = { id: 'heard', rateLimit: undefined };
  const headers = (remaining: number) => ({
    'x-ratelimit-limit': '50',
    'x-ratelimit-remaining': String(remaining),
    'x-ratelimit-reset': String(Math.ceil(now / 1000) + 30),
  });

  test('the last fifth is for browsers, in every process, until the limit is reset', async () => {
    // The provider counts in whole seconds.
    now = Math.ceil(now / 1000) * 1000;
    const [budget, otherBudget] = [await createBudget(), await createBudget()];
    budget.update(callOf(app), headers(11));
    expect(await isAllowed(budget, callOf(app))).toBe(true);
    budget.update(callOf(app), headers(10));
    await expect.poll(() => otherBudget.charge(callOf(app))).toBe(30);
    expect(await isAllowed(otherBudget, callOf(app, { caller: 'browser' }))).toBe(true);
    expect(await isAllowed(otherBudget, callOf(app, { ownerId: 'u2' }))).toBe(true);
    now += 31_000;
    expect(await isAllowed(otherBudget, callOf(app))).toBe(true);
    await Promise.all([budget.close(), otherBudget.close()]);
  });

  test('a refusal holds back every call for the user, and a company limit those for all users, until the stated time', async () => {
    const [budget, otherBudget] = [await createBudget(), await createBudget()];
    const browserCall = callOf(app, { caller: 'browser' });
    budget.refused(callOf(app), 7, true);
    await expect.poll(() => otherBudget.charge(callOf(app))).toBe(7);
    expect(await otherBudget.charge(callOf(app, { ownerId: 'u2' }))).toBeUndefined();
    now += 4_000;
    expect(await otherBudget.charge(browserCall)).toBe(3);
    budget.update(callOf(app), { 'x-company-retry-after': '12' });
    await expect.poll(() => otherBudget.charge(callOf(app, { ownerId: 'u2' }))).toBe(12);
    expect(await otherBudget.charge(browserCall)).toBe(12);
    now += 12_000;
    expect([await isAllowed(otherBudget, callOf(app)), await isAllowed(otherBudget, browserCall)]).toEqual([
      true,
      true,
    ]);
    await Promise.all([budget.close(), otherBudget.close()]);
  });

  test('calls of browsers are held back only by a refusal that names a time, not by an assumed time or by headers', async () => {
    const budget = await createBudget();
    const callWithAssumedTime = callOf(app, { ownerId: 'u3' });
    const callWithStatedTime = callOf(app, { ownerId: 'u4' });
    budget.refused(callWithAssumedTime, 60, false);
    expect([
      await budget.charge(callWithAssumedTime),
      await budget.charge({ ...callWithAssumedTime, caller: 'browser' }),
    ]).toEqual([60, undefined]);
    budget.update(callWithStatedTime, headers(0));
    expect(await budget.charge(callWithStatedTime)).toBeGreaterThan(28);
    expect(await budget.charge({ ...callWithStatedTime, caller: 'browser' })).toBeUndefined();
    budget.refused(callWithStatedTime, 40, true);
    expect(await budget.charge({ ...callWithStatedTime, caller: 'browser' })).toBe(40);
    await budget.close();
  });

  test('10,000 holds are remembered, and setting the clock back extends no wait', async () => {
    const budget = await createBudget();
    budget.update(callOf(app), { 'x-company-retry-after': '3600' });
    for (let user = 0; user < 9_999; user += 1) budget.refused(callOf(app, { ownerId: `crowd-${user}` }), 60, true);
    expect(await budget.charge(callOf(app, { ownerId: 'u9' }))).toBe(3_600);
    now -= 3_600_000;
    expect(await budget.charge(callOf(app, { ownerId: 'u9' }))).toBe(3_600);
    now += 7_300_000;
    await budget.close();
  });

  test('services share four fifths of a stated limit across processes, including calls in flight', async () => {
    const stated = { id: 'stated', rateLimit: undefined };
    const [budget, otherBudget] = [await createBudget(), await createBudget()];
    // Both processes know the window. Two calls were made before the limit was known, and count.
    budget.update(callOf(stated), headers(48));
    otherBudget.update(callOf(stated), headers(48));
    await pause();

    const calls = Array.from({ length: 60 }, (_, index) =>
      isAllowed(index % 2 === 0 ? budget : otherBudget, callOf(stated)),
    );
    const allowed = (await Promise.all(calls)).filter((isCallAllowed) => isCallAllowed).length;
    // 38 of 40, of which each process may have reserved one or two without using them.
    expect(allowed).toBeLessThanOrEqual(38);
    expect(allowed).toBeGreaterThanOrEqual(34);

    expect(await budget.charge(callOf(stated))).toBe(30);
    expect(await isAllowed(otherBudget, callOf(stated, { caller: 'browser' }))).toBe(true);
    now += 30_000;
    expect(await isAllowed(budget, callOf(stated))).toBe(true);
    await Promise.all([budget.close(), otherBudget.close()]);
  });

  test('processes share a window even if the remaining seconds give it different ends', async () => {
    const resetInSeconds = { ...headers(49), 'x-ratelimit-reset': '30' };
    const startOfMinute = Math.ceil(now / 60_000) * 60_000;
    for (let offset = 0; offset < 5_000; offset += 250) {
      const stated = { id: `edge-${offset}`, rateLimit: undefined };
      const [budget, otherBudget] = [await createBudget(), await createBudget()];
      now = startOfMinute + offset;
      budget.update(callOf(stated, { caller: 'browser' }), resetInSeconds);
      now += 1_100;
      otherBudget.update(callOf(stated, { caller: 'browser' }), resetInSeconds);

      let allowed = 0;
      for (let call = 0; call < 60; call += 1) {
        if (await isAllowed(otherBudget, callOf(stated))) allowed += 1;
        if (await isAllowed(budget, callOf(stated))) allowed += 1;
      }
      expect([offset, allowed]).toEqual([offset, 40]);
      await Promise.all([budget.close(), otherBudget.close()]);
    }
    now = startOfMinute + 60_000;
  });

  test('a call that the company limit refuses uses no ticket of its user', async () => {
    const stated = { id: 'company', rateLimit: undefined };
    const budget = await createBudget();
    const headersOfLimits = {
      ...headers(49),
      'x-company-ratelimit-limit': '5',
      'x-company-ratelimit-remaining': '4',
      'x-company-ratelimit-reset': headers(0)['x-ratelimit-reset'],
    };
    budget.update(callOf(stated, { caller: 'browser' }), headersOfLimits);
    for (let call = 0; call < 4; call += 1) expect(await isAllowed(budget, callOf(stated))).toBe(true);
    for (let call = 0; call < 60; call += 1) expect(await isAllowed(budget, callOf(stated))).toBe(false);

    // Of the 40 tickets of the user only four are used: the others serve once the company’s limit is wider.
    budget.update(callOf(stated, { caller: 'browser' }), {
      ...headersOfLimits,
      'x-company-ratelimit-limit': '100',
      'x-company-ratelimit-remaining': '99',
    });
    expect(await countAllowed(60, () => isAllowed(budget, callOf(stated)))).toBe(36);
    await budget.close();
  });

  test('a reset may be stated in fractions of a second, as in a refusal', async () => {
    const stated = { id: 'fractions', rateLimit: undefined };
    const budget = await createBudget();
    budget.update(callOf(stated), { ...headers(0), 'x-ratelimit-reset': '30.5' });
    expect(await budget.charge(callOf(stated))).toBe(31);
    await budget.close();
  });

  test('ignores malformed headers', async () => {
    const budget = await createBudget();
    for (const value of ['-1', '1e9', 'NaN', '']) {
      budget.update(callOf(app), {
        'x-ratelimit-limit': '50',
        'x-ratelimit-remaining': value,
        'x-company-retry-after': value === '1e9' ? 'x' : value,
      });
    }
    expect(await isAllowed(budget, callOf(app))).toBe(true);
    await budget.close();
  });
});

test('a call that cannot be counted in one window is released in the windows that counted it', async () => {
  let failingKey: string | undefined;
  const failingStore: Store = {
    ...store,
    async increment(key, by, options) {
      if (failingKey && key.includes(failingKey) && by > 0) throw new Error('gone');
      return store.increment(key, by, options);
    },
  };
  const windows = createCallWindows({ store: failingStore, clock });
  const budget = await createProviderBudget({ store: failingStore, windows, clock });
  const app = { id: 'half', rateLimit: { perUserPerMinute: 6, perAppPerMinute: 100 } };
  const reset = String(Math.ceil(now / 1000) + 30);
  budget.update(callOf(app, { caller: 'browser' }), {
    'x-ratelimit-limit': '10',
    'x-ratelimit-remaining': '9',
    'x-ratelimit-reset': reset,
  });

  failingKey = 'provider-calls:{half}:all';
  for (let call = 0; call < 30; call += 1) await expect(budget.charge(callOf(app))).rejects.toThrow('gone');
  for (let call = 0; call < 30; call += 1) await expect(budget.chargeCheck(app)).rejects.toThrow('gone');
  failingKey = undefined;

  // The failed checks do not count in the quarter of checks, nor the failed calls in the limit of the user.
  for (let call = 0; call < 20; call += 1) expect(await budget.chargeCheck(app)).toBeUndefined();
  // Services may make five of the six calls a minute that the app allows each user.
  expect(await countAllowed(30, () => isAllowed(budget, callOf(app)))).toBe(5);
  await budget.close();
});

test('a call that the limit of the app refuses does not count in the limit of its user', async () => {
  const budget = await createBudget();
  const app = { id: 'given-back', rateLimit: { perUserPerMinute: 5, perAppPerMinute: 5 } };
  const callOfBrowser = (ownerId: string) => callOf(app, { ownerId, caller: 'browser' });
  for (const ownerId of ['u1', 'u2', 'u2', 'u2', 'u2']) {
    expect(await isAllowed(budget, callOfBrowser(ownerId))).toBe(true);
  }
  for (let call = 0; call < 9; call += 1) expect(await isAllowed(budget, callOfBrowser('u1'))).toBe(false);

  // Of the five calls of u1, one is used.
  const windows = createCallWindows({ store, clock });
  for (let count = 0; count < 4; count += 1) expect(await windows.reserve(app.id, 'owner:u1', 5)).toBeUndefined();
  expect(await windows.reserve(app.id, 'owner:u1', 5)).toBeGreaterThan(0);
  await budget.close();
});

describe('R113 checks of connections', () => {
  const appWithLimit = (id: string, perAppPerMinute: number) => ({ id, rateLimit: { perAppPerMinute } });
  const countChecks = (budget: ProviderBudget, app: BudgetedCall['app'], calls: number) =>
    countAllowed(calls, async () => (await budget.chargeCheck(app)) === undefined);

  test('use at most a quarter of services’ share of the app’s limit across processes', async () => {
    const app = appWithLimit('checked', 100);
    const [budget, otherBudget] = [await createBudget(), await createBudget()];
    expect((await countChecks(budget, app, 30)) + (await countChecks(otherBudget, app, 30))).toBe(20);
    expect(await budget.chargeCheck(app)).toBeGreaterThan(0);

    // Services have 80 of the 100 calls, of which the checks used 20.
    expect(await countAllowed(100, () => isAllowed(otherBudget, callOf(app)))).toBe(60);

    now += 70_000;
    expect(await countChecks(otherBudget, app, 30)).toBe(20);
    await Promise.all([budget.close(), otherBudget.close()]);
  });

  test('are refused while services have used up their share, and the refused checks count in no later minute', async () => {
    const app = appWithLimit('used-up', 10);
    const budget = await createBudget();
    expect(await countAllowed(100, () => isAllowed(budget, callOf(app)))).toBe(8);
    expect(await countChecks(budget, app, 5)).toBe(0);

    now += 70_000;
    expect(await countChecks(budget, app, 5)).toBe(2);
    await budget.close();
  });

  test('are allowed for an app without a limit, and stop while services are held back', async () => {
    const budget = await createBudget();
    const appWithoutLimit = { id: 'no-limit', rateLimit: { perUserPerMinute: 1 } };
    expect(await countChecks(budget, appWithoutLimit, 40)).toBe(40);
    budget.update(callOf(appWithoutLimit), { 'x-company-retry-after': '30' });
    expect(await budget.chargeCheck(appWithoutLimit)).toBe(30);
    await budget.close();
  });
});

describe.each(['SQLite', 'Redis'] as const)('R137 a relay token that floods, and the one beside it: %s', (kind) => {
  const missing = kind === 'Redis' ? missingRedis : undefined;
  let storage: Awaited<ReturnType<typeof createTestStorage>>;
  beforeAll(async () => {
    if (!missing) storage = await createTestStorage(kind);
  });
  beforeEach((context) => skipIfMissing(context, missing));
  afterAll(() => storage?.dispose());

  /** Does work with the budgets of two processes that share a storage. */
  const withTwoBudgets = (work: (here: ProviderBudget, there: ProviderBudget) => Promise<void>) =>
    storage.withStore(async (usedStore) => {
      const [here, there] = [await createBudgetOn(usedStore), await createBudgetOn(usedStore)];
      await work(here, there);
      await Promise.all([here.close(), there.close()]);
    });
  /** Makes this many calls at the processes in turn, and returns the number of those that were allowed. */
  const flood = (budgets: readonly ProviderBudget[], calls: number, callAt: (index: number) => BudgetedCall) => {
    let index = -1;
    return countAllowed(calls, () => {
      index += 1;
      return isAllowed(budgets[index % budgets.length] as ProviderBudget, callAt(index));
    });
  };
  const stated = (limit: number, seconds: number) => ({
    'x-ratelimit-limit': String(limit),
    'x-ratelimit-remaining': String(limit),
    'x-ratelimit-reset': String(Math.ceil(now / 1000) + seconds),
  });
  const statedOfCompany = (limit: number, seconds: number) =>
    Object.fromEntries(
      Object.entries(stated(limit, seconds)).map(([name, value]) => [name.replace('x-', 'x-company-'), value]),
    );

  test('one has half of services’ share of the app’s limit, and of that of one user', () =>
    withTwoBudgets(async (here, there) => {
      const app = { id: 'beside', rateLimit: { perUserPerMinute: 50, perAppPerMinute: 100 } };
      const by = (relayTokenId: string, ownerId: string) => callOf(app, { relayTokenId, ownerId });
      expect(await flood([here, there], 40, () => by('A', 'u0'))).toBe(20);
      expect(await flood([here, there], 90, (index) => by('A', `u${index % 10}`))).toBe(20);
      expect(await here.charge(by('A', 'u1'))).toBeGreaterThan(0);
      expect(await isAllowed(there, by('B', 'u0'))).toBe(true);
      expect(await flood([here, there], 90, (index) => by('B', `u${index % 10}`))).toBe(39);
      expect(await isAllowed(there, callOf(app, { ownerId: 'u0', caller: 'browser' }))).toBe(true);
      // What was refused is not counted, so both have their half in the next minute.
      now += 70_000;
      expect(await flood([here, there], 90, (index) => by('B', `u${index % 10}`))).toBe(40);
      expect(await flood([here, there], 90, (index) => by('A', `u${index % 10}`))).toBe(40);
    }));

  test('one has half of services’ share of a limit that the platform states for a user', () =>
    withTwoBudgets(async (here, there) => {
      now = Math.ceil(now / 60_000) * 60_000;
      const app = { id: 'stated-beside', rateLimit: undefined };
      const by = (relayTokenId: string) => callOf(app, { relayTokenId });
      for (const budget of [here, there])
        budget.update(callOf(app, { caller: 'browser', relayTokenId: undefined }), stated(50, 30));
      await pause();
      // Services have 40, of which the two calls of browsers are gone.
      expect(await flood([here, there], 90, () => by('A'))).toBe(20);
      expect(await here.charge(by('A'))).toBe(30);
      expect(await flood([here, there], 90, () => by('B'))).toBeGreaterThanOrEqual(16);
    }));

  test('one has half of services’ share of a limit that the platform states for the company', () =>
    withTwoBudgets(async (here, there) => {
      now = Math.ceil(now / 60_000) * 60_000;
      const app = { id: 'company-beside', rateLimit: undefined };
      const by = (relayTokenId: string, user: number) => callOf(app, { relayTokenId, ownerId: `u${user}` });
      for (const budget of [here, there]) budget.update(callOf(app, { caller: 'browser' }), statedOfCompany(100, 30));
      await pause();
      expect(await flood([here, there], 120, (index) => by('A', index % 10))).toBe(40);
      expect(await flood([here, there], 120, (index) => by('B', index % 10))).toBeGreaterThanOrEqual(34);
    }));

  test('calls that were made before the platform stated its limit count for the relay token', () =>
    withTwoBudgets(async (here) => {
      now = Math.ceil(now / 60_000) * 60_000;
      const app = { id: 'early-beside', rateLimit: undefined };
      const early = Array.from({ length: 15 }, () => callOf(app, { relayTokenId: 'A' }));
      for (const call of early) expect(await isAllowed(here, call)).toBe(true);
      for (const call of early) here.update(call, stated(50, 30));
      await pause();
      expect(await flood([here], 90, () => callOf(app, { relayTokenId: 'A' }))).toBe(5);
      expect(await flood([here], 90, () => callOf(app, { relayTokenId: 'B' }))).toBe(20);
    }));
});

test('a released call leaves the window that counted it, and frees none in a later window', async () => {
  const windows = createCallWindows({ store, clock });
  now = Math.ceil(now / 10_000) * 10_000 + 9_900;
  const reservedAt = now;
  await windows.reserve('turn', 'all', 2);
  now += 200;
  await windows.release('turn', 'all', reservedAt);
  expect(await windows.reserve('turn', 'all', 2)).toBeUndefined();
  expect(await windows.reserve('turn', 'all', 2)).toBeUndefined();
  await windows.reserve('turn', 'all', 2);
  now += 55_000;
  // The window of the released call is over: the other two still count.
  expect(await windows.reserve('turn', 'all', 2)).toBeGreaterThan(0);
});

describe('counted calls', () => {
  /** What the platform responds to the next calls. Without one, the user has no connection. */
  const statusCodes: number[] = [];
  const authorizedFetch: AuthorizedFetch = {
    async send({ beforeSending }) {
      const statusCode = statusCodes.shift();
      if (statusCode === undefined) return { kind: 'not_connected' };
      await beforeSending?.();
      if (statusCode === 401) await beforeSending?.();
      return { kind: 'response', response: { statusCode: 200, headers: {}, body: Readable.from([]) } as never };
    },
  };
  const app = {
    id: 'counted',
    rateLimit: { perAppPerMinute: 5 },
    apiBaseUrl: 'https://platform.test',
    threadPath: '/threads/current',
  } as unknown as ThreadApp;

  test('a call that is not sent does not count, and one that is repeated after a 401 counts twice', async () => {
    const budget = await createBudget();
    const threads = createPlatformCalls({
      authorizedFetch,
      budget,
      caller: 'browser',
      clock,
      publicHref: 'https://gatehouse.test',
      limits: CALL_LIMITS,
      canConsent: true,
    });
    const readThread = () => threads.stream({ ownerId: 'u1', app, call: threadCall(app) }, createStop());
    for (let calls = 0; calls < 9; calls += 1) {
      await expect(readThread()).rejects.toMatchObject({ code: 'not_connected' });
    }

    // Two calls that are repeated and one that is not use up the limit of five.
    statusCodes.push(401, 401, 200);
    for (let calls = 0; calls < 3; calls += 1) expect((await readThread()).status).toBe(200);
    statusCodes.push(200);
    await expect(readThread()).rejects.toMatchObject({
      code: 'platform_rate_limited',
      retryAfterSeconds: expect.any(Number),
    });
    await budget.close();
  });
});

test('R89 our own limit counts the calls of all processes, and a caller far below it costs no write', async () => {
  let writes = 0;
  const countingStore: Pick<Store, 'increment'> = {
    increment(...incrementArguments) {
      writes += 1;
      return store.increment(...incrementArguments);
    },
  };
  const perMinute = {
    address: 100,
    session: 0,
    'relay-token': 100,
    plan: 0,
    'sign-in': 100,
    callback: 100,
    guess: 100,
    'logout-token': 100,
  };
  const limits = createRateLimits({ store: countingStore, clock, perMinute });
  const limitsOfOtherProcess = createRateLimits({ store: countingStore, clock, perMinute });
  const takeTimes = (times: number, { take }: typeof limits, ...call: Parameters<typeof take>) => {
    for (let calls = 0; calls < times; calls += 1) take(...call);
  };
  const rateLimited = expect.objectContaining({ code: 'rate_limited' });

  takeTimes(4, limits, 'relay-token', '192.0.2.1');
  await limits.flush();
  expect(writes).toBe(0);
  // R54: unauthenticated callers write nothing to the store until they make many calls.
  takeTimes(40, limits, 'address', '192.0.2.1');
  await limits.flush();
  expect(writes).toBe(0);

  // 4 + 60 calls at one process and 30 + 6 at the other one.
  takeTimes(60, limits, 'relay-token', '192.0.2.1');
  takeTimes(30, limitsOfOtherProcess, 'relay-token', '192.0.2.1');
  await limits.flush();
  await limitsOfOtherProcess.flush();
  takeTimes(6, limitsOfOtherProcess, 'relay-token', '192.0.2.1');
  expect(() => limitsOfOtherProcess.take('relay-token', '192.0.2.1')).toThrow(rateLimited);

  const takenCall = limitsOfOtherProcess.take('relay-token', '192.0.2.2');
  expect(limitsOfOtherProcess.headers('relay-token', takenCall).RateLimit).toMatch(/^"relay-token";r=99;t=\d+$/);
  // A limit of 0 is none.
  const unlimitedCall = limitsOfOtherProcess.take('session', 'any');
  expect(limitsOfOtherProcess.headers('session', unlimitedCall)).toEqual({});

  // Addresses of one IPv6 network share the limit.
  takeTimes(100, limitsOfOtherProcess, 'guess', '2001:db8::1');
  expect(() => limitsOfOtherProcess.take('guess', '2001:db8::ffff')).toThrow(rateLimited);

  now += 60_000;
  expect(() => limitsOfOtherProcess.take('relay-token', '192.0.2.1')).not.toThrow();
  limits.close();
  limitsOfOtherProcess.close();
});
