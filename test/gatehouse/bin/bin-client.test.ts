import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type BinClientParts, createBinClient } from '../../../src/gatehouse/bin/bin-client.ts';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound, type Outbound } from '../../../src/shared/outbound/outbound.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { bin } from '../../support/bins.ts';
import {
  type ScriptedBinService,
  sendJson,
  startScriptedBinService,
} from '../../support/scripted-bin-lookup-service.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { until } from '../../support/until.ts';

const NUMBER = bin('45717360');
let directory: string;
let store: Store;
let outbound: Outbound;
let service: ScriptedBinService;
let now: number;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'bin-client-'));
  now = Date.parse('2026-11-21T12:00:00Z');
  store = await createSqliteStore({ directory, clock: () => now });
  outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']) });
  service = await startScriptedBinService();
});
afterEach(async () => {
  vi.useRealTimers();
  await service.close();
  await outbound.close();
  await store.close();
  rmSync(directory, { recursive: true });
});

function createClient(parts: Partial<BinClientParts> = {}) {
  const { fetch } = outbound;
  return createBinClient({ url: service.url, auth: 'bearer', fetch, store, clock: () => now, ...parts });
}

describe('the request', () => {
  test('has the BIN as the last segment of the path, the version, and no key if none is set', async () => {
    await createClient({ url: `${service.url}/v1/` }).lookUp(NUMBER);
    expect(service.hits).toMatchObject([{ method: 'GET', url: '/v1/45717360', headers: { 'accept-version': '3' } }]);
    expect(service.hits[0]?.headers).not.toHaveProperty('authorization');
  });

  test.each([
    ['bearer', '/45717360', 'Bearer k&y'],
    ['basic', '/45717360', `Basic ${Buffer.from('k&y:').toString('base64')}`],
    ['query', '/45717360?apiKey=k%26y', undefined],
  ] as const)('sends the key as %s', async (auth, url, authorization) => {
    await createClient({ auth, apiKey: 'k&y' }).lookUp(NUMBER);
    expect(service.hits[0]?.url).toBe(url);
    expect(service.hits[0]?.headers.authorization).toBe(authorization);
  });
});

describe('the response', () => {
  test('a record', async () => {
    service.respondWith((response) => sendJson(response, { scheme: 'visa', country: { alpha2: 'DK' }, bank: null }));
    expect(await createClient().lookUp(NUMBER)).toMatchObject({
      outcome: 'found',
      record: { scheme: 'visa', country: { alpha2: 'DK', numeric: '208' } },
      digitsMatched: 8,
    });
  });

  test.each([
    ['0', 0],
    ['1', 1],
    ['5', 5],
    ['6', 6],
    ['9', 8],
    ['x', 8],
  ])('has the digits matched that the service states, if they are possible (%s)', async (stated, digitsMatched) => {
    service.respondWith((response) => {
      response.setHeader('Gatehouse-Digits-Matched', stated);
      sendJson(response, { scheme: 'visa' });
    });
    expect(await createClient().lookUp(NUMBER)).toMatchObject({ digitsMatched });
  });

  test('F20: 404 with an empty body, and a record without a fact, are "not found"', async () => {
    expect(await createClient().lookUp(NUMBER)).toEqual({ outcome: 'not_found' });
    service.respondWith((response) => sendJson(response, { number: {}, country: {}, bank: {} }));
    expect(await createClient().lookUp(NUMBER)).toEqual({ outcome: 'not_found' });
  });

  test.each([
    ['HTML', '<html>'],
    ['truncated JSON', '{"scheme":"vi'],
    ['an array', '[]'],
    ['null', 'null'],
    ['an empty body', ''],
  ])('F20: %s instead of a record is "unavailable"', async (_name, body) => {
    service.respondWith((response) => response.end(body));
    expect(await createClient().lookUp(NUMBER)).toEqual({ outcome: 'unavailable', reason: 'response' });
  });

  test('F20 reads at most 64 KB', async () => {
    service.respondWith((response) => sendJson(response, { scheme: 'visa', brand: 'x'.repeat(70_000) }));
    expect(await createClient().lookUp(NUMBER)).toEqual({ outcome: 'unavailable', reason: 'response' });
  });

  test.each([
    [500, { reason: 'status' }],
    [503, { reason: 'status', retryAfterSeconds: 7 }],
    [401, { reason: 'key_refused' }],
    [403, { reason: 'key_refused' }],
  ])('F20 status %i has its own result', async (status, rest) => {
    service.respondWith((response) => response.writeHead(status, status === 503 ? { 'retry-after': '7' } : {}).end());
    const response = await createClient({ apiKey: 'secret-key', auth: 'query' }).lookUp(NUMBER);
    expect(response).toEqual({ outcome: 'unavailable', ...rest });
    expect(JSON.stringify(response)).not.toContain('secret-key');
  });

  test('R79 follows no redirect', async () => {
    service.respondWith((response) => response.writeHead(302, { location: `${service.url}/elsewhere` }).end());
    expect(await createClient().lookUp(NUMBER)).toEqual({ outcome: 'unavailable', reason: 'status' });
    expect(service.hits).toHaveLength(1);
  });

  test('F20 reports a service that does not respond in time, and one that resets the connection', async () => {
    service.respondWith((response) => response.write('{'));
    const elapsed = startStopwatch();
    const response = await createClient({ deadlineMilliseconds: 200 }).lookUp(NUMBER);
    expect(response).toEqual({ outcome: 'unavailable', reason: 'timeout' });
    expect(elapsed()).toBeLessThan(2_000);
    service.respondWith((response) => response.destroy());
    expect(await createClient().lookUp(NUMBER)).toEqual({ outcome: 'unavailable', reason: 'connection' });
    expect(service.hits).toHaveLength(2);
  });

  test('R79 does not call an address that the policy forbids', async () => {
    const strict = createOutbound({ policy: createAddressPolicy([]) });
    expect(await createClient({ fetch: strict.fetch }).lookUp(NUMBER)).toEqual({
      outcome: 'unavailable',
      reason: 'connection',
    });
    await strict.close();
    expect(service.hits).toHaveLength(0);
  });
});

describe('a service that cannot be reached', () => {
  test('R87 retries once if no connection is made, and then releases the reservation', async () => {
    const fetches: string[] = [];
    const watched: Outbound['fetch'] = (...args) => {
      fetches.push(args[0]);
      return outbound.fetch(...args);
    };
    let releasedCount = 0;
    const reserve = async () => ({ granted: true as const, release: async () => void releasedCount++ });
    // No server listens on port 1.
    const clientOfClosedPort = createClient({ url: 'http://127.0.0.1:1', fetch: watched });
    expect(await clientOfClosedPort.lookUp(NUMBER, reserve)).toEqual({ outcome: 'unavailable', reason: 'connection' });
    expect([fetches.length, releasedCount]).toEqual([2, 1]);
    service.respondWith((response) => response.destroy());
    const clientOfResets = createClient({ fetch: watched });
    expect(await clientOfResets.lookUp(NUMBER, reserve)).toEqual({ outcome: 'unavailable', reason: 'connection' });
    expect([fetches.length, releasedCount]).toEqual([3, 1]);
  });

  test('R87 releases the reservation of a call that is refused as busy', async () => {
    const busyOutbound = createOutbound({
      policy: createAddressPolicy(['127.0.0.1']),
      limits: { concurrency: 1, waiting: 0 },
    });
    let releasedCount = 0;
    const reserve = async () => ({ granted: true as const, release: async () => void releasedCount++ });
    service.respondWith(() => undefined);
    const client = createClient({ fetch: busyOutbound.fetch, deadlineMilliseconds: 500 });
    const results = await Promise.all([client.lookUp(NUMBER, reserve), client.lookUp(NUMBER, reserve)]);
    expect(results).toMatchObject([{ reason: 'timeout' }, { reason: 'busy' }]);
    expect([service.hits.length, releasedCount]).toEqual([1, 1]);
    await busyOutbound.close();
  });

  test('R134 a service that floods the BIN lookup service neither delays nor pauses the lookups of a user', async () => {
    const outbound = createOutbound({
      policy: createAddressPolicy(['127.0.0.1']),
      limits: { concurrency: 8, waiting: 8 },
    });
    const responses: Parameters<Parameters<typeof service.respondWith>[0]>[0][] = [];
    service.respondWith((response) => void responses.push(response));
    const binClient = createClient({ fetch: outbound.fetch });
    const flood = Array.from({ length: 20 }, () => binClient.lookUp(NUMBER, undefined, 'flood'));
    const busy = { outcome: 'unavailable', reason: 'busy' };
    expect(await Promise.all(flood.slice(4))).toEqual(Array(16).fill(busy));
    await until(() => responses.length === 2);
    const ofUser = binClient.lookUp(NUMBER);
    await until(() => responses.length === 3);
    service.respondWith((response) => sendJson(response, { scheme: 'visa' }));
    for (const response of responses) sendJson(response, { scheme: 'visa' });
    const results = await Promise.all([ofUser, ...flood.slice(0, 4)]);
    expect(results.map(({ outcome }) => outcome)).toEqual(Array(5).fill('found'));
    await outbound.close();
  });

  test('F20 pauses after several failures in a row, then sends one call', async () => {
    vi.useFakeTimers({ toFake: ['Date', 'performance'] });
    service.respondWith((response) => response.writeHead(500).end());
    const client = createClient({ breaker: { failures: 3, openMilliseconds: 300 } });
    let reservedCount = 0;
    const reserve = async () => {
      reservedCount++;
      return { granted: true as const, release: async () => undefined };
    };
    for (let call = 0; call < 10; call++) await client.lookUp(NUMBER, reserve);
    expect([service.hits.length, reservedCount]).toEqual([3, 3]);
    const paused = { outcome: 'unavailable', reason: 'paused', retryAfterSeconds: 1 };
    expect(await client.lookUp(NUMBER, reserve)).toEqual(paused);
    expect(await client.refusal()).toEqual(paused);
    vi.advanceTimersByTime(350);
    expect(await client.lookUp(NUMBER, reserve)).toMatchObject({ reason: 'status' });
    expect(await client.lookUp(NUMBER, reserve)).toMatchObject({ reason: 'paused' });
    service.respondWith((response) => sendJson(response, { scheme: 'visa' }));
    vi.advanceTimersByTime(350);
    for (let call = 0; call < 3; call++)
      expect(await client.lookUp(NUMBER, reserve)).toMatchObject({ outcome: 'found' });
    expect([service.hits.length, reservedCount]).toEqual([7, 7]);
  });

  test('F12 F20 the pause does not depend on the system clock', async () => {
    service.respondWith((response) => response.writeHead(500).end());
    const client = createClient({ breaker: { failures: 1, openMilliseconds: 100 } });
    const realNow = Date.now;
    await client.lookUp(NUMBER);
    try {
      Date.now = () => realNow() - 3_600_000;
      await setTimeout(150);
      expect(await client.lookUp(NUMBER)).toMatchObject({ reason: 'status' });
    } finally {
      Date.now = realNow;
    }
  });
});

describe('a limit', () => {
  const limitWith = (retryAfter?: string) => {
    service.respondWith((response) => response.writeHead(429, retryAfter ? { 'retry-after': retryAfter } : {}).end());
  };

  test('R87 sends no call in any process until Retry-After has passed', async () => {
    limitWith('120');
    expect(await createClient().lookUp(NUMBER)).toEqual({ outcome: 'limited', retryAfterSeconds: 120 });
    service.respondWith((response) => sendJson(response, { scheme: 'visa' }));
    now += 119_000;
    let reserved = 0;
    const reserve = async () => {
      reserved++;
      return { granted: true, release: async () => undefined } as const;
    };
    expect(await createClient().lookUp(bin('400000'), reserve)).toEqual({ outcome: 'limited', retryAfterSeconds: 1 });
    expect(service.hits).toHaveLength(1);
    expect(reserved).toBe(0);
    now += 1_000;
    expect(await createClient().lookUp(NUMBER, reserve)).toMatchObject({ outcome: 'found' });
    expect(reserved).toBe(1);
  });

  test.each([
    ['Sat, 21 Nov 2026 12:05:00 GMT', 300],
    ['Sat, 21 Nov 2026 11:00:00 GMT', 1],
    ['0', 1],
    ['9999999999', 31 * 24 * 3600],
    ['soon', 60],
    ['-5', 60],
    [undefined, 60],
  ])('Retry-After: %s', async (header, seconds) => {
    limitWith(header);
    expect(await createClient().lookUp(NUMBER)).toEqual({ outcome: 'limited', retryAfterSeconds: seconds });
  });

  test('R87 sends nothing without a reservation', async () => {
    const response = await createClient().lookUp(NUMBER, async () => ({
      granted: false,
      secondsLeft: 9,
      spent: 'month' as const,
    }));
    expect(response).toEqual({ outcome: 'not_reserved', secondsLeft: 9, spent: 'month' });
    expect(service.hits).toHaveLength(0);
  });
});
