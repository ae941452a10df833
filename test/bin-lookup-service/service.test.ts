import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createBinService } from '../../src/bin-lookup-service/service.ts';
import { testCards } from '../../src/shared/bin/test-cards.ts';
import { AppError } from '../../src/shared/errors.ts';
import { datasetOf } from '../support/bins.ts';

let server: Server;
let serviceUrl: string;
beforeAll(async () => {
  server = createServer(createBinService()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  serviceUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => void server.close());

test('returns the published example exactly', async () => {
  const response = await fetch(`${serviceUrl}/45717360`);
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(response.headers.get('x-powered-by')).toBeNull();
  expect(response.headers.get('gatehouse-digits-matched')).toBe('8');
  expect(await response.json()).toEqual({
    number: { length: 16, luhn: true },
    scheme: 'visa',
    type: 'debit',
    brand: 'Visa/Dankort',
    prepaid: false,
    country: {
      numeric: '208',
      alpha2: 'DK',
      name: 'Denmark',
      emoji: '🇩🇰',
      currency: 'DKK',
      latitude: 56,
      longitude: 10,
    },
    bank: { name: 'Jyske Bank', url: 'www.jyskebank.dk', phone: '+4589893300', city: 'Hjørring' },
  });
});

test('falls back to a shorter prefix and reports its length', async () => {
  const response = await fetch(`${serviceUrl}/42765099`);
  expect(response.headers.get('gatehouse-digits-matched')).toBe('5');
  expect(await response.json()).toMatchObject({ bank: { name: 'Sberbank' } });
});

test.each([
  ['411111', 'visa', 16],
  ['42424242', 'visa', 16],
  ['555555', 'mastercard', 16],
])('%s falls back to the rules of its network, with that source in a header', async (digits, scheme, length) => {
  const response = await fetch(`${serviceUrl}/${digits}`);
  expect(response.status).toBe(200);
  expect(await response.json()).toEqual({ scheme, number: { length, luhn: true } });
  expect(response.headers.get('gatehouse-source')).toBe('rules');
  expect(response.headers.get('gatehouse-as-of')).toBe('2026-11-30');
  expect(response.headers.get('gatehouse-outdated')).toBeNull();
});

test.each([
  ['424242', 'credit', 'Visa Credit', false, 'US'],
  ['51051051', 'debit', 'Mastercard Prepaid', true, 'US'],
  ['400005', 'debit', 'Visa Debit', false, 'US'],
  ['62509470', 'credit', 'UnionPay', false, 'CN'],
  ['62509460', 'debit', 'UnionPay', false, 'CN'],
])('with test data, the test card %s has all facts and is marked', async (digits, type, brand, prepaid, alpha2) => {
  const sandbox = createServer(createBinService({ testData: testCards() })).listen(0, '127.0.0.1');
  await once(sandbox, 'listening');
  const response = await fetch(`http://127.0.0.1:${(sandbox.address() as AddressInfo).port}/${digits}`);
  expect(response.headers.get('gatehouse-test-data')).toBe('true');
  expect(await response.json()).toMatchObject({
    ...{ type, brand, prepaid, country: { alpha2 }, bank: { name: 'Test card, no bank' } },
  });
  sandbox.close();
});

test('test data apply only to BINs that no data set has', async () => {
  const testData = datasetOf({ start: '427650', end: '427650', country: 'US', brand: 'Test' });
  const sandbox = createServer(createBinService({ testData })).listen(0, '127.0.0.1');
  await once(sandbox, 'listening');
  const response = await fetch(`http://127.0.0.1:${(sandbox.address() as AddressInfo).port}/427650`);
  expect(response.headers.get('gatehouse-test-data')).toBeNull();
  expect(await response.json()).toMatchObject({ bank: { name: 'Sberbank' } });
  sandbox.close();
});

test('facts of 2017 are marked as outdated', async () => {
  const { headers } = await fetch(`${serviceUrl}/427650`);
  expect(headers.get('gatehouse-source')).toBe('dataset');
  expect(headers.get('gatehouse-as-of')).toBe('2017-07-16');
  expect(headers.get('gatehouse-outdated')).toBe('true');
});

test.each([
  ['GET', '/45717', 400, 'invalid_bin'],
  ['GET', '/4111111111111111', 400, 'invalid_bin'],
  ['GET', '/457173601', 400, 'invalid_bin'],
  ['GET', '/4571%207360', 400, 'invalid_bin'],
  ['GET', '/%D9%A4%D9%A5%D9%A7%D9%A1%D9%A7%D9%A3', 400, 'invalid_bin'],
  ['GET', '/4571%E0%A4', 400, 'invalid_bin'],
  ['GET', '/4.57e5', 400, 'invalid_bin'],
  ['GET', '/999999', 404, 'bin_not_found'],
  ['GET', '/', 404, 'not_found'],
  ['GET', '/45717360/more', 404, 'not_found'],
  ['POST', '/45717360', 405, 'method_not_allowed'],
  ['DELETE', '/4111111111111111', 405, 'method_not_allowed'],
])('R85: %s %s returns %i and a problem document that repeats no digits', async (method, path, status, code) => {
  const response = await fetch(serviceUrl + path, { method });
  expect(response.status).toBe(status);
  expect(response.headers.get('content-type')).toMatch(/^application\/problem\+json/);
  expect(response.headers.get('allow')).toBe(status === 405 ? 'GET, HEAD' : null);
  const { instance, ...problem } = (await response.json()) as Record<string, unknown>;
  expect(instance).toMatch(/^urn:uuid:/);
  expect(problem).toMatchObject({ status, code, title: expect.any(String), detail: expect.any(String) });
  expect(JSON.stringify(problem)).not.toMatch(/\d{4}/);
});

test('an internal error is logged, and its text is not in the response', async () => {
  const failures: unknown[] = [];
  const broken = {
    ...datasetOf(),
    find: () => {
      throw new Error('inner text');
    },
  };
  const service = createBinService({ datasets: [() => broken], onFailure: (error) => failures.push(error) });
  const failingServer = createServer(service).listen(0, '127.0.0.1');
  await once(failingServer, 'listening');
  const response = await fetch(`http://127.0.0.1:${(failingServer.address() as AddressInfo).port}/457173`);
  expect(response.status).toBe(500);
  expect(await response.text()).not.toContain('inner text');
  expect(failures).toHaveLength(1);
  failingServer.close();
});

test('R65 while the storage is unavailable, returns 503 with Retry-After and grants nothing', async () => {
  const take = () => Promise.reject(new AppError('storage_unavailable'));
  const quota = { take, used: async () => 0, close: async () => undefined };
  const down = createServer(createBinService({ quota })).listen(0, '127.0.0.1');
  await once(down, 'listening');
  const response = await fetch(`http://127.0.0.1:${(down.address() as AddressInfo).port}/457173`);
  expect(response.status).toBe(503);
  expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(await response.json()).toMatchObject({ code: 'storage_unavailable' });
  down.close();
});

test('without options it counts in memory', async () => {
  const { headers } = await fetch(`${serviceUrl}/45717360`);
  expect(headers.get('ratelimit-policy')).toMatch(/^"free";q=10000;w=\d+$/);
  expect(headers.get('ratelimit')).toMatch(/^"free";r=99\d\d;t=\d+$/);
});
