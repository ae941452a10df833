/** R91: starts of sign-ins are limited per address, and store little. */

import { Agent } from 'node:http';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { DATABASE_FILE } from '../../../src/shared/storage/sqlite/store.ts';
import { getJson } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { APPEND_ONLY, missingRedis, type RedisServer, startRedis } from '../../support/redis-server.ts';
import { ACCEPT_HTML, ACCEPT_JSON, type ReceivedResponse, sendRequest } from '../../support/send-request.ts';
import {
  attempt,
  begin,
  callbackFor,
  csrfTokenOf,
  type HostileSite,
  isSignedIn,
  startHostileSite,
  textOf,
} from './attempt.ts';

const STARTS = 5_000;
const AT_ONCE = 25;
const START = '/sign-in?app=elsewhere';
const SMALL_REDIS = [...APPEND_ONLY, '--maxmemory', '32mb'];

afterEach(() => void vi.useRealTimers());
/** Stops the clock, so that every request falls into the same minute of the limit. */
const stopClock = () => vi.useFakeTimers({ toFake: ['Date'] });

async function siteOn(kind: 'SQLite' | 'Redis', env: Record<string, string> = {}, secondApp?: Record<string, unknown>) {
  const redis = kind === 'Redis' ? await startRedis(SMALL_REDIS) : undefined;
  const site = await startHostileSite({
    apps: (provider, url) => [provider.app(url), ...(secondApp ? [provider.app(url, secondApp)] : [])],
    env: {
      TRUSTED_PROXIES: '127.0.0.1',
      RATE_LIMIT_SIGN_INS_PER_ADDRESS_PER_MINUTE: '60',
      ...(redis && { REDIS_URL: redis.url }),
      ...env,
    },
  });
  onTestFinished(async () => {
    await site.close();
    await redis?.dispose();
  });
  return { site, redis, readSize: () => (redis ? readUsedMemory(redis) : readUsedPages(site)) };
}

const readUsedMemory = (redis: RedisServer) =>
  Number(/used_memory:(\d+)/.exec(redis.sendCommand('INFO', 'memory'))?.[1]);
/** @returns the bytes of all pages in use */
function readUsedPages({ dataDirectory }: HostileSite): number {
  const database = new DatabaseSync(join(dataDirectory, DATABASE_FILE), { readOnly: true });
  const { bytes } = database
    .prepare(
      'SELECT (page_count - freelist_count) * page_size AS bytes FROM pragma_page_count, pragma_freelist_count, pragma_page_size',
    )
    .get() as { bytes: number };
  database.close();
  return bytes;
}

const startFrom = (site: HostileSite, address: string, path = '/sign-in', agent?: Agent): Promise<ReceivedResponse> =>
  sendRequest(site.url + path, { headers: { ...ACCEPT_HTML, 'x-forwarded-for': address }, ...(agent && { agent }) });
/** Sends this number of starts from one address. @returns how many responses had each status */
async function flood(site: HostileSite, count: number, path?: string): Promise<Map<number, number>> {
  const statuses = new Map<number, number>();
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });
  for (let n = 0; n < count; n += AT_ONCE) {
    const starts = Array.from({ length: AT_ONCE }, () => startFrom(site, '198.51.100.7', path, agent));
    for (const { status } of await Promise.all(starts)) statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }
  agent.destroy();
  return statuses;
}

test.for(['SQLite', 'Redis'] as const)(
  'R91 5,000 starts from one address leave %s and other users unaffected',
  async (kind, context) => {
    skipIfMissing(context, kind === 'Redis' ? missingRedis : undefined);
    stopClock();
    const { site, readSize } = await siteOn(kind);
    expect((await startFrom(site, '192.0.2.1')).status).toBe(303);
    const bytesBefore = readSize();

    const statuses = await flood(site, STARTS);
    expect(statuses).toEqual(
      new Map([
        [303, 60],
        [429, STARTS - 60],
      ]),
    );
    expect(readSize() - bytesBefore).toBeLessThan(1_000_000);
    expect((await sendRequest(`${site.managementUrl}/readyz`)).status).toBe(200);
    expect((await attempt(site)).signedIn).toBe(true);
  },
);

test('R91 the limit counts every kind of start, counts an IPv6 network as one, and says how long to wait', async () => {
  stopClock();
  const { site } = await siteOn('SQLite', {
    RATE_LIMIT_SIGN_INS_PER_ADDRESS_PER_MINUTE: '3',
    TRUSTED_PROXIES: '127.0.0.1',
  });
  const { agent } = await attempt(site);
  const csrfToken = await csrfTokenOf(site, agent);
  const connecting = await agent.request(`${site.url}/connections/elsewhere`, {
    method: 'POST',
    body: new URLSearchParams({ _csrf: csrfToken }),
    follow: false,
  });
  expect(connecting.status).toBe(303);
  expect((await begin(site, { agent, path: '/sign-in?step_up=1' })).page.status).toBe(303);

  const { page } = await begin(site, { agent });
  expect([page.status, Number(page.headers.get('retry-after')) <= 60]).toEqual([429, true]);
  expect(textOf(page.body)).toContain('Too many sign-ins were started from your network address within a minute.');
  expect(await isSignedIn(site, agent)).toBe(true);

  for (const address of ['2001:db8:0:1::1', '2001:db8:0:1::2:3', '2001:db8:0:1:ffff::9']) {
    expect((await startFrom(site, address)).status).toBe(303);
  }
  const refused = await sendRequest(`${site.url}/sign-in`, {
    headers: { ...ACCEPT_JSON, 'x-forwarded-for': '2001:db8:0:1::77' },
  });
  expect([refused.status, JSON.parse(refused.body).code]).toEqual([429, 'rate_limited']);
  expect((await startFrom(site, '2001:db8:0:2::1')).status).toBe(303);
});

test('R91 a pending request takes less than 300 bytes plus return_to of at most 512 characters', async (context) => {
  skipIfMissing(context, missingRedis);
  const { site, redis } = await siteOn('Redis');
  const readKeys = () => redis?.sendCommand('--scan', '--pattern', 'pending-requests:*').trim().split('\n') ?? [];
  await startFrom(site, '192.0.2.1', '/sign-in?return_to=/');
  const [key = ''] = readKeys();
  expect(Number(redis?.sendCommand('MEMORY', 'USAGE', key))).toBeLessThan(300);

  const longest = `/${'x'.repeat(511)}`;
  const storedPaths: string[] = [];
  for (const returnTo of [longest, `${longest}y`, `/${'\u00e9'.repeat(100)}`, `/${'\u00e9'.repeat(86)}`]) {
    const keysBefore = readKeys();
    await startFrom(site, '192.0.2.1', `/sign-in?return_to=${encodeURIComponent(returnTo)}`);
    const addedKey = readKeys().find((storedKey) => !keysBefore.includes(storedKey)) ?? '';
    const record = redis?.sendCommand('GET', addedKey) ?? '';
    storedPaths.push(/"returnTo":"([^"]*)"/.exec(record)?.[1] ?? '');
  }
  expect(storedPaths).toEqual([longest, '/', '/', '/']);
});

test('R95 1,000 anonymous starts do not displace the failed attempts of other users', async () => {
  const env = { RATE_LIMIT_SIGN_INS_PER_ADDRESS_PER_MINUTE: '0', ADMIN_APP: 'elsewhere' };
  const { site } = await siteOn('SQLite', env, { id: 'unlisted', callbackUrls: ['https://elsewhere.example/cb'] });
  site.provider.setModes({ claims: (claims) => ({ ...claims, groups: ['gatehouse-admins'] }) });
  const { agent: admin } = await attempt(site, { path: START });
  site.provider.reset();
  const { agent, location } = await begin(site, { path: START });
  expect(await flood(site, 1_000, START)).toEqual(new Map([[303, 1_000]]));

  const callback = await callbackFor(location);
  callback.searchParams.delete('code');
  callback.searchParams.set('error', 'access_denied');
  const denied = await agent.get(callback.href);
  const notStarted = await agent.get(`${site.url}/sign-in?app=unlisted`);
  for (const page of [denied, notStarted]) {
    const reference = /data-copy-source>([^<]+)</.exec(page.body)?.[1];
    const { status, json } = await getJson(admin, `${site.url}/admin/api/sign-ins/${reference}`);
    expect([status, json.references]).toEqual([200, expect.arrayContaining([reference])]);
  }
});
