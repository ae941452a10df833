/** Redis outages with deadlines, and refused starts. `smoke/redis.test.ts` has the main flow on Redis. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { getJson, signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { skipIfMissing } from '../support/missing.ts';
import { IN_MEMORY, missingRedis, type RedisServer, startRedis } from '../support/redis-server.ts';
import { startStopwatch } from '../support/stopwatch.ts';
import { until } from '../support/until.ts';

let redis: RedisServer;
let site: TestSite;
beforeAll(async () => {
  if (missingRedis) return;
  redis = await startRedis();
  site = await startSite({ env: { REDIS_URL: redis.url } });
});
afterAll(async () => {
  await site?.close();
  await redis?.dispose();
});

describe('on Redis', () => {
  test('F4: without Redis returns 503 with Retry-After within 500 ms, stays alive, and recovers within 2 s', async (context) => {
    skipIfMissing(context, missingRedis);
    const { agent } = await signIn(site, 'second@example.test');
    await redis.kill();
    try {
      const elapsed = startStopwatch();
      const { status, json, headers } = await getJson(agent, `${site.url}/threads/current`);
      expect(elapsed()).toBeLessThan(500);
      expect([status, json.code, Number(headers.get('retry-after')) > 0]).toEqual([503, 'storage_unavailable', true]);
      expect((await fetch(`${site.managementUrl}/healthz`)).status).toBe(200);
      expect((await fetch(`${site.managementUrl}/readyz`)).status).toBe(503);
    } finally {
      await redis.start();
    }
    expect(await until(async () => (await getJson(agent, `${site.url}/threads/current`)).status === 200)).toBeLessThan(
      2_000,
    );
  });

  test('R51: refuses to start with a Redis that may evict keys or lose data', async (context) => {
    skipIfMissing(context, missingRedis);
    const evicting = await startRedis(['--appendonly', 'yes', '--maxmemory-policy', 'allkeys-lru']);
    const forgetting = await startRedis(IN_MEMORY);
    try {
      await expect(startSite({ env: { REDIS_URL: evicting.url } })).rejects.toThrow(/maxmemory-policy to noeviction/);
      await expect(startSite({ env: { REDIS_URL: forgetting.url } })).rejects.toThrow(/appendonly to yes/);
      const allowed = await startSite({ env: { REDIS_URL: forgetting.url, REDIS_DURABILITY: 'none' } });
      await allowed.close();
    } finally {
      await evicting.dispose();
      await forgetting.dispose();
    }
  });
});
