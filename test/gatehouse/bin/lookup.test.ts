import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createBinClient } from '../../../src/gatehouse/bin/bin-client.ts';
import { type BinLookupParts, createBinLookup } from '../../../src/gatehouse/bin/lookup.ts';
import { type BinCaller, type BinQuotaLimits, createBinQuota } from '../../../src/gatehouse/bin/quota.ts';
import type { DatasetEntry } from '../../../src/shared/bin/dataset-builder.ts';
import type { LookupFound } from '../../../src/shared/bin/lookup-result.ts';
import type { Bin } from '../../../src/shared/bin/parse-bin.ts';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound, type Outbound } from '../../../src/shared/outbound/outbound.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import type { LookupTask } from '../../support/bin-lookup-process.ts';
import { bin, datasetOf } from '../../support/bins.ts';
import { type Child, startChild } from '../../support/child.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis, startRedis } from '../../support/redis-server.ts';
import {
  type ScriptedBinService,
  sendJson,
  startScriptedBinService,
} from '../../support/scripted-bin-lookup-service.ts';
import { until } from '../../support/until.ts';

const imported = datasetOf(
  { start: '400000', end: '400000', brand: 'imported', country: 'DK' },
  { start: '40000011', end: '40000011', brand: 'imported 8', country: 'DK' },
);
const builtIn = datasetOf(
  { start: '400000', end: '400000', brand: 'built-in', country: 'SE' },
  { start: '410000', end: '410000', brand: 'built-in', country: 'SE' },
);
const FROM_IMPORTED = { source: 'dataset', asOf: '2026-01-02', digitsMatched: 6, record: { brand: 'imported' } };
const FROM_BUILT_IN = { source: 'dataset', asOf: '2026-01-02', digitsMatched: 6, record: { brand: 'built-in' } };
const FROM_RULES = {
  ...{ source: 'rules', asOf: '2026-11-30', digitsMatched: 1 },
  record: { scheme: 'visa', number: { length: 16, luhn: true } },
};

let directory: string;
let store: Store;
let outbound: Outbound;
let service: ScriptedBinService;
let now: number;
let events: string[];
const clock = () => now;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'bin-lookup-'));
  now = Date.parse('2026-11-21T12:00:00Z');
  store = await createSqliteStore({ directory, clock });
  outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']) });
  service = await startScriptedBinService();
  service.respondWith((response) => sendJson(response, { scheme: 'visa', brand: 'remote', country: { alpha2: 'DE' } }));
  events = [];
});
afterEach(async () => {
  await service.close();
  await outbound.close();
  await store.close();
  rmSync(directory, { recursive: true });
});

const ALICE: BinCaller = { kind: 'user', id: 'alice' };
const BOB: BinCaller = { kind: 'user', id: 'bob' };
const BATCH: BinCaller = { kind: 'relay_token', id: 'batch', callsPerMonth: null };

/** Creates a lookup whose calls are those of Alice, unless a test names another caller. */
function lookupWith(parts: Partial<BinLookupParts & BinQuotaLimits> = {}) {
  const { monthlyQuota = 100, userReserve = 0, userDailyQuota = 1_000, ...rest } = parts;
  const lookup = createBinLookup({
    builtIn: () => builtIn,
    client: createBinClient({ url: service.url, auth: 'bearer', fetch: outbound.fetch, store, clock }),
    quota: createBinQuota({ store, monthlyQuota, userReserve, userDailyQuota, clock }),
    store,
    clock,
    events: {
      lookedUp: (outcome, count) => events.push(...Array(count).fill(outcome)),
      remoteResponded: (outcome, reason) => events.push(reason ? `remote ${outcome} ${reason}` : `remote ${outcome}`),
    },
    ...rest,
  });
  return {
    lookUp: (digits: Bin, caller = ALICE) => lookup.lookUp(digits, caller),
    lookUpMany: (bins: readonly Bin[], caller = ALICE) => lookup.lookUpMany(bins, caller),
  };
}

const fail = (status: number, headers = {}) =>
  service.respondWith((response) => response.writeHead(status, headers).end());

describe('the order of sources', () => {
  test('an imported data set is used if it matches all digits', async () => {
    const lookup = lookupWith({ imported: () => imported });
    expect(await lookup.lookUp(bin('400000'))).toMatchObject(FROM_IMPORTED);
    expect(await lookup.lookUp(bin('40000011'))).toMatchObject({ digitsMatched: 8, record: { brand: 'imported 8' } });
    expect(service.hits).toHaveLength(0);
  });

  test('otherwise the service is used, then the cache, each with its date', async () => {
    const lookup = lookupWith({ imported: () => imported });
    const found = { digitsMatched: 8, record: { brand: 'remote', country: { alpha2: 'DE', name: 'Germany' } } };
    expect(await lookup.lookUp(bin('40000012'))).toMatchObject({ ...found, source: 'service', asOf: '2026-11-21' });
    now += 29 * 24 * 3_600_000;
    expect(await lookup.lookUp(bin('40000012'))).toMatchObject({ ...found, source: 'cache', asOf: '2026-11-21' });
    expect(service.hits).toHaveLength(1);
    now += 2 * 24 * 3_600_000;
    expect(await lookup.lookUp(bin('40000012'))).toMatchObject({ source: 'service', asOf: '2026-12-22' });
    expect(events).toEqual(['remote found', 'service', 'cache', 'remote found', 'service']);
  });

  test('"not found" is cached for a day; the shorter match, the built-in data set or the rules are used instead', async () => {
    fail(404);
    const lookup = lookupWith({ imported: () => imported });
    expect(await lookup.lookUp(bin('40000012'))).toMatchObject(FROM_IMPORTED);
    expect(await lookup.lookUp(bin('41000012'))).toMatchObject(FROM_BUILT_IN);
    expect(await lookup.lookUp(bin('42000012'))).toEqual(FROM_RULES);
    expect(await lookup.lookUp(bin('99000012'))).toEqual({ problem: 'bin_not_found' });
    expect(service.hits).toHaveLength(4);
    expect(await lookup.lookUp(bin('99000012'))).toEqual({ problem: 'bin_not_found' });
    expect(service.hits).toHaveLength(4);
    now += 25 * 3_600_000;
    await lookup.lookUp(bin('99000012'));
    expect(service.hits).toHaveLength(5);
  });

  test('without a service, the built-in data set and the rules are used at once', async () => {
    const lookup = createBinLookup({ builtIn: () => builtIn, store, clock });
    expect(await lookup.lookUp(bin('410000'), ALICE)).toMatchObject(FROM_BUILT_IN);
    expect(await lookup.lookUp(bin('420000'), ALICE)).toMatchObject({ source: 'rules' });
    expect(await lookup.lookUp(bin('990000'), ALICE)).toEqual({ problem: 'bin_not_found' });
  });

  describe('if rows of one BIN have different facts', () => {
    const row = (start: string, facts: Partial<DatasetEntry>, end = start): DatasetEntry => {
      return { start, end, scheme: 'visa', country: 'DK', ...facts };
    };
    const countries = [
      { type: 'debit', country: 'DK' },
      { type: 'debit', country: 'SE' },
    ] as const;
    const conflicting = datasetOf(
      ...countries.map((facts) => row('41000012', facts)),
      ...countries.map((facts) => row('42000012', facts)),
      row('43000012', { scheme: 'unionpay', country: 'CN' }),
      row('43000012', { country: 'US' }),
      row('44000010', { brand: 'ten BINs' }, '44000019'),
    );
    const lookUp = (digits: string) => lookupWith({ imported: () => conflicting }).lookUp(bin(digits));

    test('the service is called if they share no country or no facts, or if the range covers more BINs', async () => {
      for (const digits of ['41000012', '42000012', '43000012', '44000012', '440000'])
        expect(await lookUp(digits)).toMatchObject({ source: 'service', record: { brand: 'remote' } });
      expect(service.hits).toHaveLength(5);
    });

    test('without its response, a match with a country is preferred, then shared facts, then the rules', async () => {
      fail(404);
      expect(await lookUp('41000012')).toMatchObject(FROM_BUILT_IN);
      const shared = { scheme: 'visa', type: 'debit', number: { length: 16, luhn: true } };
      expect(await lookUp('42000012')).toMatchObject({ source: 'dataset', digitsMatched: 8, record: shared });
      expect(await lookUp('43000012')).toEqual(FROM_RULES);
      const part = { source: 'dataset', record: { brand: 'ten BINs' } };
      expect(await lookUp('44000012')).toMatchObject({ ...part, digitsMatched: 7 });
      expect(await lookUp('440000')).toEqual(FROM_RULES);
    });

    test('facts without a country do not hide a shorter match of the service', async () => {
      service.respondWith((response) => {
        response.setHeader('Gatehouse-Digits-Matched', '6');
        sendJson(response, { brand: 'remote', country: { alpha2: 'DE' } });
      });
      expect(await lookUp('42000012')).toMatchObject({ source: 'service', digitsMatched: 6 });
    });
  });

  test('the service is called before the built-in data set is used', async () => {
    expect(await lookupWith().lookUp(bin('410000'))).toMatchObject({ source: 'service', record: { brand: 'remote' } });
  });
});

describe('a service that states the source of its facts', () => {
  const respondWithHeaders = (headers: Record<string, string>) =>
    service.respondWith((response) => {
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      sendJson(response, { scheme: 'visa', brand: 'remote', country: { alpha2: 'DE' } });
    });
  const respondWithMatch = (digits: number, asOf: string) =>
    respondWithHeaders({
      'gatehouse-source': 'dataset',
      'gatehouse-digits-matched': String(digits),
      'gatehouse-as-of': asOf,
    });

  test('has the date of its facts, also from the cache', async () => {
    respondWithMatch(8, '2017-07-16');
    const lookup = lookupWith();
    const facts = { asOf: '2017-07-16', outdated: true, record: { brand: 'remote' } };
    expect(await lookup.lookUp(bin('42000012'))).toMatchObject({ ...facts, source: 'service' });
    expect(await lookup.lookUp(bin('42000012'))).toMatchObject({ ...facts, source: 'cache' });
    expect(service.hits).toHaveLength(1);
  });

  test.each(['2017-13-40', '2017-02-31', 'yesterday', '2099-01-01', ''])('%s is no date of facts', async (asOf) => {
    respondWithMatch(8, asOf);
    const result = await lookupWith().lookUp(bin('42000012'));
    expect(result).toMatchObject({ asOf: '2026-11-21' });
    expect(result).not.toHaveProperty('outdated');
  });

  test('a test card keeps its mark in the cache', async () => {
    respondWithHeaders({ 'gatehouse-test-data': 'true' });
    const lookup = lookupWith();
    for (const source of ['service', 'cache'])
      expect(await lookup.lookUp(bin('424242'))).toMatchObject({ source, testData: true });
    respondWithHeaders({ 'gatehouse-test-data': 'false' });
    for (const source of ['service', 'cache']) {
      const other = await lookup.lookUp(bin('42424242'));
      expect(other).toMatchObject({ source });
      expect(other).not.toHaveProperty('testData');
    }
  });

  test('returns the same rules with and without the service', async () => {
    respondWithHeaders({
      'gatehouse-source': 'rules',
      'gatehouse-digits-matched': '1',
      'gatehouse-as-of': '2026-11-30',
    });
    const lookup = lookupWith({ imported: () => imported });
    expect(await lookup.lookUp(bin('42000012'))).toEqual(FROM_RULES);
    expect(await lookup.lookUp(bin('41000012'))).toMatchObject(FROM_BUILT_IN);
    fail(503);
    const { serviceProblem: _problem, ...down } = (await lookup.lookUp(bin('42000013'))) as LookupFound;
    expect(down).toEqual(FROM_RULES);
  });

  test('loses to local facts that match more digits, or as many with a newer date', async () => {
    const lookup = lookupWith({ imported: () => imported });
    respondWithMatch(6, '2025-12-31');
    expect(await lookup.lookUp(bin('40000012'))).toMatchObject(FROM_IMPORTED);
    expect(await lookup.lookUp(bin('41000012'))).toMatchObject(FROM_BUILT_IN);
    respondWithMatch(6, '2026-01-03');
    expect(await lookup.lookUp(bin('40000013'))).toMatchObject({ source: 'service', asOf: '2026-01-03' });
    expect(await lookup.lookUp(bin('41000013'))).toMatchObject({ source: 'service' });
    respondWithMatch(7, '2017-07-16');
    expect(await lookup.lookUp(bin('40000014'))).toMatchObject({ source: 'service', digitsMatched: 7 });
  });
});

describe('failures of the service', () => {
  test.each([
    ['500', () => fail(500), { problem: 'bin_service_unavailable', retryAfterSeconds: 30 }],
    ['503', () => fail(503, { 'retry-after': '9' }), { problem: 'bin_service_unavailable', retryAfterSeconds: 9 }],
    ['401', () => fail(401), { problem: 'bin_service_unavailable', retryAfterSeconds: 30 }],
    ['429', () => fail(429, { 'retry-after': '77' }), { problem: 'bin_quota_exhausted', retryAfterSeconds: 77 }],
    [
      'wrong JSON',
      () => service.respondWith((response) => response.end('{')),
      { problem: 'bin_service_unavailable', retryAfterSeconds: 30 },
    ],
    [
      'a reset',
      () => service.respondWith((response) => response.destroy()),
      { problem: 'bin_service_unavailable', retryAfterSeconds: 30 },
    ],
  ])(
    'F20 R87 reports %s, does not retry or cache it, and prefers local facts',
    async (_name, breakService, problem) => {
      breakService();
      const lookup = lookupWith({ imported: () => imported });
      expect(await lookup.lookUp(bin('99000012'))).toEqual(problem);
      expect(service.hits).toHaveLength(1);
      const serviceProblem = { problem: problem.problem };
      expect(await lookup.lookUp(bin('40000012'))).toMatchObject({ ...FROM_IMPORTED, serviceProblem });
      expect(await lookup.lookUp(bin('41000012'))).toMatchObject({ ...FROM_BUILT_IN, serviceProblem });
      // A spent budget is reported even if the rules have facts, so that the caller waits or requests a larger budget.
      const isSpent = problem.problem === 'bin_quota_exhausted';
      expect(await lookup.lookUp(bin('42000012'))).toMatchObject(isSpent ? problem : { ...FROM_RULES, serviceProblem });
      service.respondWith((response) => sendJson(response, { scheme: 'visa' }));
      now += 100_000;
      expect(await lookup.lookUp(bin('42000012'))).toMatchObject({ source: 'service' });
    },
  );

  test('R87 a spent quota states when the month ends, and local and cached facts need no call', async () => {
    const lookup = lookupWith({ imported: () => imported, monthlyQuota: 1 });
    expect(await lookup.lookUp(bin('42000012'))).toMatchObject({ source: 'service' });
    const retryAfterSeconds = 9 * 24 * 3600 + 12 * 3600;
    expect(await lookup.lookUp(bin('42000013'))).toEqual({
      ...{ problem: 'bin_quota_exhausted', retryAfterSeconds, spent: 'month' },
    });
    expect(await lookup.lookUp(bin('42000012'))).toMatchObject({ source: 'cache' });
    expect(await lookup.lookUp(bin('40000012'))).toMatchObject(FROM_IMPORTED);
    expect(service.hits).toHaveLength(1);
    now = Date.parse('2026-12-01T00:00:00Z');
    expect(await lookup.lookUp(bin('42000013'))).toMatchObject({ source: 'service' });
  });

  test('R87 data set hits and cache hits do not use the quota', async () => {
    const quota = createBinQuota({ store, monthlyQuota: 100, userReserve: 0, userDailyQuota: 100, clock });
    const lookup = lookupWith({ imported: () => imported, quota });
    for (const digits of ['400000', '40000012', '40000012', '40000011']) await lookup.lookUp(bin(digits));
    expect((await quota.status()).used).toBe(1);
  });

  test('F20 returns an outdated response with its date while the service is unavailable or the quota is spent', async () => {
    const lookup = lookupWith({ monthlyQuota: 2 });
    await lookup.lookUp(bin('42000012'));
    now += 31 * 24 * 3_600_000;
    fail(503);
    const old = { source: 'cache', asOf: '2026-11-21', record: { brand: 'remote' } };
    expect(await lookup.lookUp(bin('42000012'))).toMatchObject(old);
    expect(service.hits).toHaveLength(2);
    fail(429, { 'retry-after': '60' });
    expect(await lookup.lookUp(bin('42000012'))).toMatchObject(old);
    now += 61_000;
    // Spent now: two calls were made this month.
    expect(await lookup.lookUp(bin('42000012'))).toMatchObject(old);
    expect(service.hits).toHaveLength(3);
    now += 31 * 24 * 3_600_000;
    fail(404);
    expect(await lookup.lookUp(bin('42000012'))).toMatchObject({ source: 'rules' });
  });

  test('F20 does not return a response that is older than half a year', async () => {
    const lookup = lookupWith();
    await lookup.lookUp(bin('99000012'));
    now += 181 * 24 * 3_600_000;
    fail(503);
    expect(await lookup.lookUp(bin('99000012'))).toMatchObject({ problem: 'bin_service_unavailable' });
  });

  test('R93 relay tokens do not use the calls that are reserved for users', async () => {
    const lookup = lookupWith({ monthlyQuota: 5, userReserve: 2 });
    const many = Array.from({ length: 10 }, (_, index) => bin(String(42000000 + index)));
    const responses = await lookup.lookUpMany(many, BATCH);
    expect(responses.filter(({ problem }) => problem === undefined)).toHaveLength(3);
    expect(
      responses.filter((response) => response.problem !== undefined && response.spent === 'unreserved'),
    ).toHaveLength(7);
    expect(await lookup.lookUp(bin('43000000'), BATCH)).toMatchObject({ problem: 'bin_quota_exhausted' });
    expect(await lookup.lookUp(bin('43000000'))).toMatchObject({ source: 'service' });
    expect(await lookup.lookUp(bin('43000001'))).toMatchObject({ source: 'service' });
    expect(await lookup.lookUp(bin('43000002'))).toMatchObject({ problem: 'bin_quota_exhausted', spent: 'month' });
    expect(service.hits).toHaveLength(5);
  });

  test('R93 a user with a spent budget does not affect another user’s concurrent lookup of the same BIN', async () => {
    const lookup = lookupWith({ userDailyQuota: 1 });
    expect(await lookup.lookUp(bin('42000000'))).toMatchObject({ source: 'service' });
    const [first, second] = await Promise.all([lookup.lookUp(bin('42000001')), lookup.lookUp(bin('42000001'), BOB)]);
    expect(first).toEqual({ problem: 'bin_quota_exhausted', retryAfterSeconds: 12 * 3600, spent: 'user' });
    expect(second).toMatchObject({ source: 'service' });
    expect(events).toContain('bin_user_quota_exhausted');
    expect(events).not.toContain('bin_quota_exhausted');
    // A response that another caller's call has cached costs nothing.
    expect(await lookup.lookUp(bin('42000001'))).toMatchObject({ source: 'cache' });
  });

  test('R93 returns an outdated response to a user whose budget is spent', async () => {
    const lookup = lookupWith({ userDailyQuota: 1 });
    await lookup.lookUp(bin('42000012'));
    now += 31 * 24 * 3_600_000;
    await lookup.lookUp(bin('42000013'));
    expect(await lookup.lookUpMany([bin('42000012'), bin('42000014')])).toMatchObject([
      { source: 'cache', asOf: '2026-11-21' },
      { problem: 'bin_quota_exhausted' },
    ]);
  });

  test('returns a response that cannot be cached', async () => {
    const failures: unknown[] = [];
    const broken = { ...store, write: () => Promise.reject(new Error('full')) };
    const lookup = lookupWith({ store: broken, events: { cacheFailed: (error) => failures.push(error) } });
    expect(await lookup.lookUp(bin('42000012'))).toMatchObject({ source: 'service' });
    expect(failures).toHaveLength(1);
  });
});

describe('many at once', () => {
  test('callers for the same BIN share one call', async () => {
    const lookup = lookupWith();
    const responses = await Promise.all(Array.from({ length: 50 }, () => lookup.lookUp(bin('42000012'))));
    expect(new Set(responses.map((response) => response.problem ?? response.source))).toEqual(new Set(['service']));
    expect(service.hits).toHaveLength(1);
  });

  describe('by 2 processes with 50 lookups each', () => {
    let processes: Child[];
    beforeAll(() => {
      processes = [startProcess(), startProcess()];
    });
    afterAll(async () => {
      for (const { endInput } of processes) endInput();
      await Promise.all(processes.map(({ ended }) => ended));
    });

    const startProcess = () => startChild('bin-lookup-process.ts', []);
    const sendTask = (process: Child, task: Omit<LookupTask, 'url'>) =>
      process.send(JSON.stringify({ ...task, url: service.url }));
    const outcomesOf = async (process: Child, task: Omit<LookupTask, 'url'>): Promise<string[]> => {
      const linesBefore = process.lines.length;
      sendTask(process, task);
      await until(() => process.lines.length > linesBefore);
      return JSON.parse(process.lines[linesBefore] ?? '[]');
    };
    /** @param firstBins the first BIN of each process @returns the outcomes of both processes */
    const runBoth = async (
      storage: string,
      monthlyQuota: number,
      firstBins: string[],
      variant?: LookupTask['variant'],
    ) => {
      const task = { storage, monthlyQuota, ...(variant && { variant }) };
      const outcomes = await Promise.all(
        processes.map((process, index) => outcomesOf(process, { ...task, first: firstBins[index] ?? '' })),
      );
      return outcomes.flat();
    };
    const expectOneCall = (outcomes: string[]) => {
      expect(outcomes.filter((outcome) => outcome === 'service')).toHaveLength(1);
      expect(outcomes.filter((outcome) => outcome === 'bin_quota_exhausted')).toHaveLength(99);
      expect(service.hits).toHaveLength(1);
    };

    test('R87: with 1 call left in the month: 1 outbound call', async () => {
      expectOneCall(await runBoth(directory, 1, ['99000000', '99000100']));
    });

    test('R87 R93: on Redis, with 1 call left in the month or to the user: 1 outbound call', async (context) => {
      skipIfMissing(context, missingRedis);
      const redis = await startRedis();
      try {
        expectOneCall(await runBoth(redis.url, 1, ['99000000', '99000100']));
        service.hits.length = 0;
        expectOneCall(await runBoth(redis.url, 100, ['98000000', '98000100'], 'one left'));
      } finally {
        await redis.dispose();
      }
    });

    test('R93: with 1 call left to the user for today: 1 outbound call', async () => {
      expectOneCall(await runBoth(directory, 100, ['99000000', '99000100'], 'one left'));
    });

    test('R87: lookups of the same BIN share the response of 1 outbound call', async () => {
      service.respondWith((response) => setTimeout(() => sendJson(response, { scheme: 'visa' }), 1_500));
      const outcomes = await runBoth(directory, 100, ['99000000', '99000000'], 'same');
      expect(new Set(outcomes)).toEqual(new Set(['service', 'cache']));
      expect(service.hits).toHaveLength(1);
    });

    test('R87 a reservation of a killed process stays spent', async () => {
      service.respondWith(() => undefined);
      const task = { storage: directory, monthlyQuota: 1, first: '99000000' };
      const killed = startProcess();
      sendTask(killed, task);
      await until(() => service.hits.length === 1);
      killed.kill('SIGKILL');
      service.respondWith((response) => sendJson(response, { scheme: 'visa' }));
      const [process] = processes as [Child, Child];
      expect(await outcomesOf(process, task)).toEqual(Array(50).fill('bin_quota_exhausted'));
      expect(service.hits).toHaveLength(1);
    });
  });

  test('a bulk lookup keeps the order, looks up duplicates once, and makes a few calls at a time', async () => {
    let openCalls = 0;
    let maxOpenCalls = 0;
    service.respondWith((response, hit) => {
      openCalls += 1;
      maxOpenCalls = Math.max(maxOpenCalls, openCalls);
      setTimeout(() => {
        openCalls -= 1;
        if (hit.url.startsWith('/99')) response.writeHead(404).end();
        else sendJson(response, { scheme: 'visa', brand: hit.url });
      }, 10);
    });
    const digits = Array.from({ length: 40 }, (_, index) => String(42000000 + index));
    const requested = ['99000001', ...digits, '400000', ...digits, '99000001'];
    const responses = await lookupWith({ imported: () => imported }).lookUpMany(requested.map(bin));
    expect(responses).toHaveLength(requested.length);
    for (const [index, number] of requested.entries()) {
      if (number === '99000001') expect(responses[index]).toEqual({ problem: 'bin_not_found' });
      else if (number === '400000') expect(responses[index]).toMatchObject(FROM_IMPORTED);
      else expect(responses[index]).toMatchObject({ source: 'service', record: { brand: `/${number}` } });
    }
    expect(service.hits).toHaveLength(41);
    expect(maxOpenCalls).toBeGreaterThan(1);
    expect(maxOpenCalls).toBeLessThanOrEqual(8);
  });

  test('F20 a bulk lookup stops calling an unavailable service', async () => {
    fail(500);
    const numbers = Array.from({ length: 500 }, (_, index) => bin(String(99000000 + index)));
    const responses = await lookupWith({ monthlyQuota: 1_000 }).lookUpMany(numbers);
    expect(new Set(responses.map(({ problem }) => problem))).toEqual(new Set(['bin_service_unavailable']));
    expect(service.hits.length).toBeLessThanOrEqual(10);
  });

  test('refuses more than a thousand BINs', async () => {
    const numbers = Array.from({ length: 1_001 }, () => bin('400000'));
    await expect(lookupWith().lookUpMany(numbers)).rejects.toMatchObject({ code: 'invalid_request' });
    expect(await lookupWith({ imported: () => imported }).lookUpMany(numbers.slice(1))).toHaveLength(1_000);
  });
});

test('R85 R86: events contain no digits, and calls and the store no more than the BIN', async () => {
  const lookup = lookupWith({ imported: () => imported });
  await lookup.lookUpMany([bin('42000012'), bin('420000')]);
  expect(events.join(' ')).not.toMatch(/\d/);
  expect(service.hits.map(({ url }) => url).sort()).toEqual(['/420000', '/42000012']);
  const stored = readdirSync(directory).map((name) => readFileSync(join(directory, name), 'latin1'));
  expect(stored.join('')).not.toMatch(/42000012[0-9]/);
});
