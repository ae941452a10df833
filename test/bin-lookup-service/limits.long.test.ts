/** The free tier, keys and bans, over HTTP and with real storage. */

import { randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAccounts } from '../../src/bin-lookup-service/accounts.ts';
import { keyHint } from '../../src/bin-lookup-service/api-key.ts';
import { openBinServiceStore, readBinServiceSettings } from '../../src/bin-lookup-service/start.ts';
import { sharedAssets } from '../../src/shared/pages/assets.ts';
import type { Store } from '../../src/shared/storage/store.ts';
import { freePort } from '../support/ports.ts';
import { sendRaw } from '../support/raw-http.ts';
import { sendRequest } from '../support/send-request.ts';
import { advanceClock, advanceToNextMinute } from '../support/test-clock.ts';
import { until } from '../support/until.ts';
import { type BinSite, startBinSite, statuses } from './site.ts';

/** The public client for Node and browsers; it has no types. */
const binlookup = createRequire(import.meta.url)('binlookup') as (
  options?: string | { key?: string; url?: string },
) => (bin: string) => Promise<Record<string, unknown>>;

const from = (address: string) => ({ 'x-forwarded-for': address });
const SIGN_IN = { SIGN_IN_ISSUER: 'https://idp.example.com', SIGN_IN_CLIENT_ID: 'bins', SIGN_IN_CLIENT_SECRET: 'kept' };
/** The requests come through a trusted proxy, so that a test can use many addresses. */
const SETTINGS = { TRUSTED_PROXIES: '127.0.0.1', PLANS: 'small:40', BAN_REFUSALS: '20', BAN_SECONDS: '600' };

let site: BinSite;
let store: Store;
beforeAll(async () => {
  site = await startBinSite(SETTINGS);
  store = await openBinServiceStore(readBinServiceSettings(site.env));
});
afterAll(async () => {
  await store?.close();
  await site?.close();
});

const lookUp = (headers: Record<string, string> = {}, path = '/45717360') => fetch(site.url + path, { headers });

/** Creates an account with a plan and a key. */
async function createCustomer(networks: string[] = [], monthlyRequests = 40) {
  const accounts = createAccounts({ store, clock: Date.now, randomBytes });
  const { id } = await accounts.register({ issuer: 'https://idp.example', subject: randomBytes(8).toString('hex') });
  await accounts.requestPlan(id, { name: 'small', monthlyRequests });
  await accounts.confirmPlan(id);
  const created = await accounts.createKey(id, { name: 'test', networks });
  const account = await accounts.find(id);
  return { accounts, id, key: created?.key ?? '', keyId: account?.keys[0]?.id ?? '' };
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

describe('the free tier', () => {
  test('R87 after the 10,000th request of an address, returns 429 with Retry-After to that address only', async () => {
    const { key } = await createCustomer();
    const statusCounts = await statuses(`${site.url}/45717360`, 10_000, {
      ...{ headers: from('192.0.2.1'), connections: 32 },
    });
    expect(statusCounts).toEqual({ 200: 10_000 });
    const refused = await lookUp(from('192.0.2.1'));
    expect(refused.status).toBe(429);
    const seconds = Number(refused.headers.get('retry-after'));
    const now = new Date();
    const monthEnd = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1);
    expect(Math.abs(seconds - (monthEnd - now.getTime()) / 1000)).toBeLessThan(10);
    expect(await refused.json()).toMatchObject({
      ...{ status: 429, code: 'bin_quota_exhausted' },
      // Registration is disabled here.
      detail: 'Your address has used up its free lookups for this month. Wait for the next month (UTC).',
    });
    expect(refused.headers.get('ratelimit')).toBe(`"free";r=0;t=${seconds}`);

    expect((await lookUp(from('192.0.2.2'))).status).toBe(200);
    expect((await lookUp({ ...from('192.0.2.1'), ...bearer(key) })).status).toBe(200);
  });

  test('R104 counts all spellings of an address together, and all invalid values together', async () => {
    const remainingFor = async (address: string) =>
      Number(/r=(\d+)/.exec((await lookUp(from(address))).headers.get('ratelimit') ?? '')?.[1]);
    const spellings = ['192.0.2.40', '192.0.2.40:4711', '::ffff:192.0.2.40', '[::ffff:192.0.2.40]:80'];
    const remaining = await Promise.all(spellings.map(remainingFor));
    expect(remaining.sort()).toEqual([9_996, 9_997, 9_998, 9_999]);
    const remainingBefore = await remainingFor('junk');
    expect(await remainingFor('_hidden')).toBe(remainingBefore - 1);
  });

  test('R104 the address list of a key matches IPv4 addresses in their IPv6 form', async () => {
    const { key } = await createCustomer(['::ffff:203.0.113.5', '198.51.100.0/24']);
    const statusFrom = async (address: string) => (await lookUp({ ...from(address), ...bearer(key) })).status;
    expect(await statusFrom('203.0.113.5:99')).toBe(200);
    expect(await statusFrom('198.51.100.7')).toBe(200);
    expect(await statusFrom('203.0.113.6')).toBe(403);
    const withAddressOfProxy = await createCustomer(['127.0.0.1']);
    expect((await lookUp({ ...from('unknown'), ...bearer(withAddressOfProxy.key) })).status).toBe(403);
  });

  test('reports the remaining requests, and counts lookups with and without a result, but not invalid ones', async () => {
    const remainingFor = async (path: string) => {
      const response = await lookUp(from('192.0.2.3'), path);
      expect(response.headers.get('ratelimit-policy') ?? 'none').toMatch(
        /^("free";q=10000;w=\d+, "minute";q=12000;w=60|none)$/,
      );
      return /r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1];
    };
    expect(await remainingFor('/45717360')).toBe('9999');
    expect(await remainingFor('/999999')).toBe('9998');
    expect(await remainingFor('/4571736')).toBe('9997');
    expect(await remainingFor('/4571')).toBeUndefined();
    expect(await remainingFor('/45717360')).toBe('9996');
  });

  test('counts an IPv6 network of 64 bits as one caller', async () => {
    const remainingFor = async (address: string) =>
      /r=(\d+)/.exec((await lookUp(from(address))).headers.get('ratelimit') ?? '')?.[1];
    expect(await remainingFor('2001:db8:1:2::1')).toBe('9999');
    expect(await remainingFor('2001:db8:1:2:ffff::9')).toBe('9998');
    expect(await remainingFor('2001:db8:1:3::1')).toBe('9999');
  });
});

describe('a key', () => {
  test('counts against the plan of its account, in every place that it may be sent', async () => {
    const { key } = await createCustomer();
    const ways: [Record<string, string>, string][] = [
      [bearer(key), ''],
      [{ authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}` }, ''],
      [{}, `?apiKey=${key}`],
    ];
    for (const [index, [headers, query]] of ways.entries()) {
      const response = await lookUp({ ...from('192.0.2.10'), ...headers }, `/45717360${query}`);
      expect(response.status).toBe(200);
      expect(response.headers.get('ratelimit')).toMatch(new RegExp(`^"small";r=${39 - index};`));
    }
    const url = `${site.url}/45717360`;
    expect(await statuses(url, 60, { headers: bearer(key), connections: 4 })).toMatchObject({ 200: 37 });
    expect((await lookUp({ ...from('192.0.2.11'), ...bearer(key) })).status).toBe(429);
    expect((await lookUp(from('192.0.2.10'))).headers.get('ratelimit')).toMatch(/^"free";r=9999;/);
  });

  test('works only from the addresses on its list', async () => {
    const { key } = await createCustomer(['198.51.100.0/24', '2001:db8::/32']);
    expect((await lookUp({ ...from('198.51.100.7'), ...bearer(key) })).status).toBe(200);
    expect((await lookUp({ ...from('2001:db8:9::1'), ...bearer(key) })).status).toBe(200);
    const refused = await lookUp({ ...from('203.0.113.1'), ...bearer(key) });
    expect(refused.status).toBe(403);
    expect(await refused.json()).toMatchObject({ code: 'not_allowed', detail: expect.stringContaining('address') });
  });

  test('R81 is refused without a plan, and within a second of its revocation', async () => {
    const { accounts, id, key, keyId } = await createCustomer([], 10_000);
    const status = async () => (await lookUp({ ...from('192.0.2.20'), ...bearer(key) })).status;
    expect(await status()).toBe(200);
    await accounts.endPlan(id);
    expect(await until(async () => (await status()) === 403)).toBeLessThan(1_000);
    await accounts.revokeKey(id, keyId);
    expect(await until(async () => (await status()) === 401)).toBeLessThan(1_000);
  });

  test('R84 that is malformed or unknown gets the same refusal, and repeated guesses lead to a ban', async () => {
    const { key } = await createCustomer();
    const unknownKey = `gthb_${'A'.repeat(43)}0000000`;
    const guesses = [key.slice(0, -1), `${key}x`, unknownKey, 'abc', '%E0%A4'];
    const bodies = new Set<string>();
    for (const guess of guesses) {
      const response = await lookUp({ ...from('192.0.2.30'), ...bearer(guess) });
      expect(response.status).toBe(401);
      expect(response.headers.get('www-authenticate')).toBe('Bearer error="invalid_token"');
      const { instance: _instance, ...body } = (await response.json()) as Record<string, unknown>;
      bodies.add(JSON.stringify(body));
    }
    expect(bodies.size).toBe(1);
    for (let count = 0; count < 20; count += 1) await lookUp({ ...from('192.0.2.30'), ...bearer(unknownKey) });
    expect((await lookUp({ ...from('192.0.2.30'), ...bearer(unknownKey) })).status).toBe(403);
    expect((await lookUp(from('192.0.2.30'))).status).toBe(403);
    expect((await lookUp({ ...from('192.0.2.30'), ...bearer(key) })).status).toBe(200);
  });

  test('sent in two places at once is refused', async () => {
    const { key } = await createCustomer();
    const response = await lookUp(bearer(key), `/45717360?apiKey=${key}`);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ code: 'invalid_request' });
  });

  test('R50 R60 is in neither the store nor the log', async () => {
    const { accounts, id, key } = await createCustomer();
    await lookUp({}, `/45717360?apiKey=${key}`);
    await lookUp({}, `/x?apiKey=${key}`);
    const stored = JSON.stringify(await accounts.find(id));
    expect(stored).not.toContain(key.slice(10, 40));
    expect(stored).toContain(keyHint(key));
    expect(site.logs().join()).not.toContain(key.slice(10, 40));
  });
});

describe('the rate of a plan', () => {
  test('limits plans and the free tier, and requests over the rate do not count towards the month', async () => {
    const limitedSite = await startBinSite({ ...SETTINGS, ...SIGN_IN, FREE_REQUESTS_PER_MINUTE: '5' });
    const store = await openBinServiceStore(readBinServiceSettings(limitedSite.env));
    advanceToNextMinute();
    try {
      const accounts = createAccounts({ store, clock: Date.now, randomBytes });
      const { id } = await accounts.register({ issuer: 'https://idp.example', subject: 'fast' });
      await accounts.requestPlan(id, { name: 'small', monthlyRequests: 1_000, requestsPerMinute: 9 });
      await accounts.confirmPlan(id);
      const { key = '' } = (await accounts.createKey(id, { name: 'test', networks: [] })) ?? {};
      const url = `${limitedSite.url}/45717360`;
      expect(await statuses(url, 12, { headers: from('192.0.2.60') })).toEqual({ 200: 5, 429: 7 });
      expect(await statuses(url, 12, { headers: bearer(key) })).toEqual({ 200: 9, 429: 3 });
      for (const [headers, limit, offer] of [
        [
          from('192.0.2.60'),
          5,
          'your address may send in a minute. Wait as long as Retry-After says, or create a key on',
        ],
        [bearer(key), 9, 'your plan allows in a minute. Wait as long as Retry-After says, or choose a larger plan on'],
      ] as const) {
        const refused = await fetch(url, { headers });
        const seconds = Number(refused.headers.get('retry-after'));
        expect(seconds).toBeLessThanOrEqual(60);
        expect(refused.headers.get('ratelimit-policy')).toBe(`"minute";q=${limit};w=60`);
        expect(refused.headers.get('ratelimit')).toBe(`"minute";r=0;t=${seconds}`);
        const detail = expect.stringContaining(`${offer} the account page (${limitedSite.url}/account).`);
        expect(await refused.json()).toMatchObject({ status: 429, code: 'rate_limited', detail });
      }
      advanceClock(60);
      const next = await fetch(url, { headers: bearer(key) });
      expect(next.headers.get('ratelimit-policy')).toMatch(/^"small";q=1000;w=\d+, "minute";q=9;w=60$/);
      expect(next.headers.get('ratelimit')).toMatch(/^"small";r=990;/);
    } finally {
      await store.close();
      await limitedSite.close();
    }
  });
});

describe('an address that continues to call over its limit', () => {
  test('is banned for a time; other addresses are not', async () => {
    const limitedSite = await startBinSite({ ...SETTINGS, FREE_MONTHLY_REQUESTS: '3', BAN_REFUSALS: '10' });
    const statusCounts = await statuses(`${limitedSite.url}/45717360`, 30, {
      headers: from('192.0.2.40'),
      connections: 1,
    });
    expect(statusCounts).toMatchObject({ 200: 3, 429: 9, 403: 18 });
    const banned = await fetch(`${limitedSite.url}/45717360`, { headers: from('192.0.2.40') });
    expect(Number(banned.headers.get('retry-after'))).toBeGreaterThan(500);
    expect(await banned.json()).toMatchObject({ code: 'not_allowed', detail: expect.stringContaining('banned') });
    expect((await fetch(`${limitedSite.url}/45717360`, { headers: from('192.0.2.41') })).status).toBe(200);
    await limitedSite.close();
  });
});

describe('the npm package binlookup, a public client', () => {
  const example = { scheme: 'visa', brand: 'Visa/Dankort', bank: { name: 'Jyske Bank' } };

  test('works unchanged without a key', async () => {
    expect(await binlookup({ url: `${site.url}/` })('45717360')).toMatchObject(example);
  });

  test('works unchanged with a key, which counts', async () => {
    const { key, accounts, id } = await createCustomer(['127.0.0.1'], 10_000);
    expect(await binlookup({ url: `${site.url}/`, key })('45717360')).toMatchObject(example);
    await accounts.endPlan(id);
    const lookUpWithPackage = binlookup({ url: `${site.url}/`, key });
    const refused = () =>
      lookUpWithPackage('45717360').then(
        () => false,
        () => true,
      );
    expect(await until(refused)).toBeLessThan(1_000);
  });
});

describe('other HTTP behaviour', () => {
  test('R68 every response has the security headers and a request id, and no cookie', async () => {
    for (const path of ['/45717360', '/999999', '/4', '/', '/1/2']) {
      const { headers } = await lookUp({}, path);
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
      expect(headers.get('cache-control')).toBe('no-store');
      expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
      expect(headers.get('x-powered-by')).toBeNull();
      expect(headers.get('set-cookie')).toBeNull();
      expect(headers.get('access-control-allow-origin')).toBeNull();
    }
  });

  test('R68 with https, every response has HSTS: lookups, pages, files and refusals', async () => {
    const secure = await startBinSite({ PUBLIC_URL: 'https://bins.test' });
    const listener = `http://127.0.0.1:${secure.env.PORT}`;
    try {
      const longPath = `/${'x'.repeat(9_000)}`;
      for (const path of [
        '/45717360',
        '/999999',
        '/4',
        '/',
        '/account',
        `${sharedAssets().path}/bin-lookup-service.css`,
        longPath,
      ]) {
        const { headers } = await sendRequest(listener + path, { headers: { host: 'bins.test' } });
        expect(headers['strict-transport-security'], path).toBe('max-age=31536000');
        expect(headers['x-content-type-options'], path).toBe('nosniff');
        expect(headers['content-security-policy'], path).toContain("frame-ancestors 'none'");
        expect(headers['cross-origin-opener-policy'], path).toBe('same-origin');
      }
      for (const path of ['/healthz', '/readyz', '/metrics', '/nothing']) {
        const { headers } = await sendRequest(secure.managementUrl + path);
        expect(headers, path).toMatchObject({
          'strict-transport-security': 'max-age=31536000',
          'x-content-type-options': 'nosniff',
          'content-security-policy': expect.stringContaining("frame-ancestors 'none'"),
          'cache-control': 'no-store',
        });
      }
      const malformed = await sendRaw(secure.managementUrl, 'GET / HTTP/9.9\r\nHost: x\r\n\r\n');
      expect([malformed.status, malformed.headers.get('strict-transport-security')]).toEqual([
        400,
        ['max-age=31536000'],
      ]);
    } finally {
      await secure.close();
    }
  });

  test('everything is below the path of PUBLIC_URL', async () => {
    const port = String(await freePort());
    const siteBelowPath = await startBinSite({ PORT: port, PUBLIC_URL: `http://127.0.0.1:${port}/bins/v1` });
    const status = async (path: string, headers = {}) =>
      (await fetch(siteBelowPath.url.replace('/bins/v1', path), { headers })).status;
    expect(await status('/bins/v1/45717360')).toBe(200);
    expect(await status('/bins/v1/account', { accept: 'text/html' })).toBe(200);
    expect(await status(`/bins/v1${sharedAssets().path}/bin-lookup-service.css`)).toBe(200);
    for (const path of ['/45717360', '/account', '/bins/v145717360', '/bins']) expect(await status(path)).toBe(404);
    await siteBelowPath.close();
  });

  test('health and metrics have a separate listener', async () => {
    const read = async (path: string) => (await fetch(site.managementUrl + path)).text();
    expect(await read('/healthz')).toBe('alive\n');
    expect(await read('/readyz')).toBe('{"ready":true}\n');
    expect(await read('/metrics')).toMatch(/^gatehouse_ready 1$/m);
    expect(await read('/metrics')).toMatch(/gatehouse_bin_lookups_total\{result="dataset"\} \d+/);
    expect((await lookUp({}, '/metrics')).status).toBe(400);
  });

  test('HEAD gets the response to GET without the body', async () => {
    const response = await fetch(`${site.url}/45717360`, { method: 'HEAD' });
    expect(response.status).toBe(200);
    expect(Number(response.headers.get('content-length'))).toBeGreaterThan(300);
  });
});
