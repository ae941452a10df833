/**
 * The provider's budget: no minute exceeds the limit, all processes obey the provider's limits, and browsers keep a
 * share.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ThreadApp } from '../../../src/gatehouse/connected-apps/current-apps.ts';
import type { AuthorizedFetch } from '../../../src/gatehouse/grants/authorized-fetch.ts';
import { createCallWindows } from '../../../src/gatehouse/threads/call-windows.ts';
import {
  type BudgetedCall,
  createProviderBudget,
  type ProviderBudget,
} from '../../../src/gatehouse/threads/provider-budget.ts';
import { createThreadCall, THREAD_LIMITS } from '../../../src/gatehouse/threads/thread-call.ts';
import { createRateLimits } from '../../../src/shared/http/rate-limit.ts';
import { createStop } from '../../../src/shared/outbound/stop.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';

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

const process = () => createProviderBudget({ store, windows: createCallWindows({ store, clock }), clock });
const callOf = (app: BudgetedCall['app'], changes: Partial<BudgetedCall> = {}): BudgetedCall => ({
  ...{ app, ownerId: 'u1', caller: 'service' },
  ...changes,
});
const takes = async (budget: ProviderBudget, call: BudgetedCall) => (await budget.charge(call)) === undefined;
const quiet = () => new Promise((resolve) => setTimeout(resolve, 20));

test('no minute has more calls than the limit, at any time and across processes', async () => {
  let run = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat(15_000), { minLength: 5, maxLength: 40 }),
      fc.integer({ min: 1, max: 6 }),
      async (gaps, limit) => {
        run += 1;
        const windows = [createCallWindows({ store, clock }), createCallWindows({ store, clock })];
        const made: number[] = [];
        for (const [at, gap] of gaps.entries()) {
          now += gap;
          const wait = await windows[at % 2]?.reserve(`app${run}`, 'all', limit);
          if (wait === undefined) made.push(now);
          else expect(wait).toBeGreaterThan(0);
        }
        for (const start of made) {
          expect(made.filter((time) => time >= start && time < start + 60_000).length).toBeLessThanOrEqual(limit);
        }
      },
    ),
    { numRuns: 30 },
  );
});

test('calls that are counted while a window ends stay within the limit', async () => {
  now = Math.ceil(now / 10_000) * 10_000 + 9_990;
  const { promise: turned, resolve: turn } = Promise.withResolvers<void>();
  let held = 0;
  // A process that has read the clock and writes slowly.
  const slow: Store = {
    ...store,
    async increment(key, by, options) {
      held += 1;
      if (held <= 4) await turned;
      return store.increment(key, by, options);
    },
  };
  const late = createCallWindows({ store: slow, clock });
  const reserved = Array.from({ length: 4 }, () => late.reserve('turning', 'all', 4));
  while (held < 4) await quiet();
  now += 20;
  const windows = createCallWindows({ store, clock });
  const made = [];
  for (let count = 0; count < 4; count += 1) made.push(await windows.reserve('turning', 'all', 4));
  turn();
  made.push(...(await Promise.all(reserved)));
  expect(made.filter((wait) => wait === undefined)).toHaveLength(4);
  now += 70_000;
  // Released calls delay no later call.
  for (let count = 0; count < 4; count += 1) expect(await windows.reserve('turning', 'all', 4)).toBeUndefined();
});

test('the returned wait is right: no call is free before it, and one is free after it', async () => {
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
    const [here, there] = [await process(), await process()];
    here.update(callOf(app), headers(11));
    expect(await takes(here, callOf(app))).toBe(true);
    here.update(callOf(app), headers(10));
    await expect.poll(() => there.charge(callOf(app))).toBe(30);
    expect(await takes(there, callOf(app, { caller: 'browser' }))).toBe(true);
    expect(await takes(there, callOf(app, { ownerId: 'u2' }))).toBe(true);
    now += 31_000;
    expect(await takes(there, callOf(app))).toBe(true);
    await Promise.all([here.close(), there.close()]);
  });

  test('a refusal holds back all calls for the user, and a company limit those of all users, for the rest of the wait', async () => {
    const [here, there] = [await process(), await process()];
    const browser = callOf(app, { caller: 'browser' });
    here.refused(callOf(app), 7, true);
    await expect.poll(() => there.charge(callOf(app))).toBe(7);
    expect(await there.charge(callOf(app, { ownerId: 'u2' }))).toBeUndefined();
    now += 4_000;
    expect(await there.charge(browser)).toBe(3);
    here.update(callOf(app), { 'x-company-retry-after': '12' });
    await expect.poll(() => there.charge(callOf(app, { ownerId: 'u2' }))).toBe(12);
    expect(await there.charge(browser)).toBe(12);
    now += 12_000;
    expect([await takes(there, callOf(app)), await takes(there, browser)]).toEqual([true, true]);
    await Promise.all([here.close(), there.close()]);
  });

  test('a user is held back only by a refusal that names its time, not by an assumed time or by headers', async () => {
    const budget = await process();
    const guessed = callOf(app, { ownerId: 'u3' });
    const told = callOf(app, { ownerId: 'u4' });
    budget.refused(guessed, 60, false);
    expect([await budget.charge(guessed), await budget.charge({ ...guessed, caller: 'browser' })]).toEqual([
      60,
      undefined,
    ]);
    budget.update(told, headers(0));
    expect(await budget.charge(told)).toBeGreaterThan(28);
    expect(await budget.charge({ ...told, caller: 'browser' })).toBeUndefined();
    budget.refused(told, 40, true);
    expect(await budget.charge({ ...told, caller: 'browser' })).toBe(40);
    await budget.close();
  });

  test('more holds than the maximum free only the oldest one, and setting the clock back extends no wait', async () => {
    const budget = await process();
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
    const [here, there] = [await process(), await process()];
    // Both processes have the window; two calls were made before the limit was known, and count.
    for (const budget of [here, there]) budget.update(callOf(stated), headers(48));
    await quiet();
    const taken: Promise<boolean>[] = [];
    for (let count = 0; count < 60; count += 1) taken.push(takes(count % 2 === 0 ? here : there, callOf(stated)));
    const made = (await Promise.all(taken)).filter(Boolean).length;
    // A process may have one or two unused tickets.
    expect(made).toBeLessThanOrEqual(38);
    expect(made).toBeGreaterThanOrEqual(34);
    expect(await here.charge(callOf(stated))).toBe(30);
    expect(await takes(there, callOf(stated, { caller: 'browser' }))).toBe(true);
    now += 30_000;
    expect(await takes(here, callOf(stated))).toBe(true);
    await Promise.all([here.close(), there.close()]);
  });

  test('processes share a window even if the remaining seconds give it different ends', async () => {
    const left = { ...headers(49), 'x-ratelimit-reset': '30' };
    const begin = Math.ceil(now / 60_000) * 60_000;
    for (let offset = 0; offset < 5_000; offset += 250) {
      const stated = { id: `edge-${offset}`, rateLimit: undefined };
      const [here, there] = [await process(), await process()];
      now = begin + offset;
      here.update(callOf(stated, { caller: 'browser' }), left);
      now += 1_100;
      there.update(callOf(stated, { caller: 'browser' }), left);
      let made = 0;
      for (let count = 0; count < 120; count += 1)
        made += Number(await takes(count % 2 ? here : there, callOf(stated)));
      expect([offset, made]).toEqual([offset, 40]);
      await Promise.all([here.close(), there.close()]);
    }
    now = begin + 60_000;
  });

  test('a call that the company limit refuses uses no ticket of its user', async () => {
    const stated = { id: 'company', rateLimit: undefined };
    const budget = await process();
    const both = { ...headers(49), 'x-company-ratelimit-limit': '5', 'x-company-ratelimit-remaining': '4' };
    const said = { ...both, 'x-company-ratelimit-reset': headers(0)['x-ratelimit-reset'] };
    budget.update(callOf(stated, { caller: 'browser' }), said);
    for (let count = 0; count < 4; count += 1) expect(await takes(budget, callOf(stated))).toBe(true);
    for (let count = 0; count < 60; count += 1) expect(await takes(budget, callOf(stated))).toBe(false);
    // Of the 40 tickets of the user only the four that were used are gone: the others serve once the company’s limit is
    // wider.
    budget.update(callOf(stated, { caller: 'browser' }), {
      ...said,
      'x-company-ratelimit-limit': '100',
      'x-company-ratelimit-remaining': '99',
    });
    let more = 0;
    while (more < 60 && (await takes(budget, callOf(stated)))) more += 1;
    expect(more).toBe(36);
    await budget.close();
  });

  test('ignores malformed headers', async () => {
    const budget = await process();
    for (const value of ['-1', '1e9', 'NaN', '']) {
      budget.update(callOf(app), {
        'x-ratelimit-limit': '50',
        'x-ratelimit-remaining': value,
        'x-company-retry-after': value === '1e9' ? 'x' : value,
      });
    }
    expect(await takes(budget, callOf(app))).toBe(true);
    await budget.close();
  });
});

test('a call that cannot be counted everywhere is released where it was counted', async () => {
  const failsAt = { key: '' };
  const failing: Store = {
    ...store,
    async increment(key, by, options) {
      if (failsAt.key && key.includes(failsAt.key) && by > 0) throw new Error('gone');
      return store.increment(key, by, options);
    },
  };
  const windows = createCallWindows({ store: failing, clock });
  const budget = await createProviderBudget({ store: failing, windows, clock });
  const app = { id: 'half', rateLimit: { perUserPerMinute: 6, perAppPerMinute: 100 } };
  const reset = String(Math.ceil(now / 1000) + 30);
  budget.update(callOf(app, { caller: 'browser' }), {
    ...{ 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': '9', 'x-ratelimit-reset': reset },
  });
  failsAt.key = 'provider-calls:{half}:all';
  for (let count = 0; count < 30; count += 1) await expect(budget.charge(callOf(app))).rejects.toThrow('gone');
  for (let count = 0; count < 30; count += 1) await expect(budget.chargeCheck(app)).rejects.toThrow('gone');
  failsAt.key = '';
  // Nothing counted in the app's limit, and only calls that were made in the checks' quarter.
  for (let count = 0; count < 20; count += 1) expect(await budget.chargeCheck(app)).toBeUndefined();
  let made = 0;
  while (made < 30 && (await takes(budget, callOf(app)))) made += 1;
  // Services have a share of six a minute; of the stated ten they have eight.
  expect(made).toBe(5);
  await budget.close();
});

test('a call that the app’s limit refuses does not count for its user', async () => {
  const budget = await process();
  const app = { id: 'given-back', rateLimit: { perUserPerMinute: 5, perAppPerMinute: 5 } };
  const browser = (ownerId: string) => callOf(app, { ownerId, caller: 'browser' });
  for (const ownerId of ['u1', 'u2', 'u2', 'u2', 'u2']) expect(await takes(budget, browser(ownerId))).toBe(true);
  for (let count = 0; count < 9; count += 1) expect(await takes(budget, browser('u1'))).toBe(false);
  const windows = createCallWindows({ store, clock });
  for (let count = 0; count < 4; count += 1) expect(await windows.reserve(app.id, 'owner:u1', 5)).toBeUndefined();
  expect(await windows.reserve(app.id, 'owner:u1', 5)).toBeGreaterThan(0);
  await budget.close();
});

describe('R113 checks of connections', () => {
  const app = (id: string, perAppPerMinute?: number): BudgetedCall['app'] => ({
    id,
    rateLimit: perAppPerMinute === undefined ? { perUserPerMinute: 1 } : { perAppPerMinute },
  });
  const checks = async (budget: ProviderBudget, of: BudgetedCall['app'], calls: number) => {
    let made = 0;
    for (let call = 0; call < calls; call += 1) if ((await budget.chargeCheck(of)) === undefined) made += 1;
    return made;
  };

  test('use at most a quarter of services’ share of the app’s limit across processes', async () => {
    const limited = app('checked', 100);
    const budgets = [await process(), await process()] as const;
    expect((await checks(budgets[0], limited, 30)) + (await checks(budgets[1], limited, 30))).toBe(20);
    expect(await budgets[0].chargeCheck(limited)).toBeGreaterThan(0);
    let served = 0;
    while (await takes(budgets[1], callOf(limited))) served += 1;
    expect(served).toBe(60);
    now += 70_000;
    expect(await checks(budgets[1], limited, 30)).toBe(20);
    for (const budget of budgets) await budget.close();
  });

  test('use nothing of a share that services have used up, and release their own reservation', async () => {
    const limited = app('used-up', 10);
    const budget = await process();
    while (await takes(budget, callOf(limited)));
    expect(await checks(budget, limited, 5)).toBe(0);
    now += 70_000;
    expect(await checks(budget, limited, 5)).toBe(2);
    await budget.close();
  });

  test('stop while services are held back, and need no limit', async () => {
    const budget = await process();
    const free = app('no-limit');
    expect(await checks(budget, free, 40)).toBe(40);
    budget.update(callOf(free), { 'x-company-retry-after': '30' });
    expect(await budget.chargeCheck(free)).toBe(30);
    await budget.close();
  });
});

test('a released call leaves the window that counted it, and frees none in a later window', async () => {
  const windows = createCallWindows({ store, clock });
  now = Math.ceil(now / 10_000) * 10_000 + 9_900;
  const reservedAt = now;
  await windows.reserve('turn', 'all', 2);
  now += 200;
  await windows.release('turn', 'all', reservedAt);
  const made = [];
  for (let count = 0; count < 3; count += 1) made.push(await windows.reserve('turn', 'all', 2));
  expect(made.slice(0, 2)).toEqual([undefined, undefined]);
  now += 55_000;
  // The window of the released call is over: the other two still count.
  expect(await windows.reserve('turn', 'all', 2)).toBeGreaterThan(0);
});

describe('counted calls', () => {
  const statusCodes: number[] = [];
  const inner: AuthorizedFetch = {
    async get({ beforeSending }) {
      const statusCode = statusCodes.shift();
      if (statusCode === undefined) return { kind: 'not_connected' };
      await beforeSending?.();
      if (statusCode === 401) await beforeSending?.();
      return { kind: 'response', response: { statusCode: 200, headers: {}, body: Readable.from([]) } as never };
    },
  };
  const app = {
    ...{ id: 'counted', rateLimit: { perAppPerMinute: 5 } },
    ...{ apiBaseUrl: 'https://platform.test', threadPath: '/threads/current' },
  } as unknown as ThreadApp;

  test('a call that is not sent does not count, and one that is repeated after a 401 counts twice', async () => {
    const budget = await process();
    const threads = createThreadCall({
      ...{ authorizedFetch: inner, budget, caller: 'browser', clock },
      ...{ publicHref: 'https://gatehouse.test', limits: THREAD_LIMITS, canConsent: true },
    });
    const call = () => threads.stream({ ownerId: 'u1', app }, createStop());
    for (let count = 0; count < 9; count += 1) await expect(call()).rejects.toMatchObject({ code: 'not_connected' });
    statusCodes.push(401, 401, 200);
    for (let count = 0; count < 3; count += 1) expect((await call()).status).toBe(200);
    statusCodes.push(200);
    await expect(call()).rejects.toMatchObject({
      code: 'upstream_rate_limited',
      retryAfterSeconds: expect.any(Number),
    });
    await budget.close();
  });
});

test('R89 our own limit counts the calls of all processes, and a caller far below it costs no write', async () => {
  let writes = 0;
  const counted: Pick<Store, 'increment'> = {
    increment(...given) {
      writes += 1;
      return store.increment(...given);
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
  const [here, there] = [
    createRateLimits({ store: counted, clock, perMinute }),
    createRateLimits({ store: counted, clock, perMinute }),
  ];
  for (let count = 0; count < 4; count += 1) here.take('relay-token', '192.0.2.1');
  await here.flush();
  expect(writes).toBe(0);
  for (let count = 0; count < 40; count += 1) here.take('address', '192.0.2.1');
  await here.flush();
  // R54: unauthenticated callers write nothing to the store until they make many calls.
  expect(writes).toBe(0);
  for (let count = 0; count < 60; count += 1) here.take('relay-token', '192.0.2.1');
  for (let count = 0; count < 30; count += 1) there.take('relay-token', '192.0.2.1');
  await here.flush();
  await there.flush();
  for (let count = 0; count < 6; count += 1) there.take('relay-token', '192.0.2.1');
  expect(() => there.take('relay-token', '192.0.2.1')).toThrow(expect.objectContaining({ code: 'rate_limited' }));
  const taken = there.take('relay-token', '192.0.2.2');
  expect(there.headers('relay-token', taken).RateLimit).toMatch(/^"relay-token";r=99;t=\d+$/);
  expect(there.headers('session', there.take('session', 'anybody'))).toEqual({});
  for (let count = 0; count < 100; count += 1) there.take('guess', '2001:db8::1');
  expect(() => there.take('guess', '2001:db8::ffff')).toThrow(expect.objectContaining({ code: 'rate_limited' }));
  now += 60_000;
  expect(() => there.take('relay-token', '192.0.2.1')).not.toThrow();
  here.close();
  there.close();
});
