/** The main flow on Redis, as a user with the documented permissions alone, for `npm test`. The long suite has faults, clusters and several processes. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { createUserAgent } from '../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { createDocumentedUser } from '../../support/redis-acl.ts';
import { missingRedis, type RedisServer, startRedis } from '../../support/redis-server.ts';
import { until } from '../../support/until.ts';

let redis: RedisServer;
let site: TestSite;
beforeAll(async () => {
  if (missingRedis) return;
  redis = await startRedis();
  site = await startSite({ env: { REDIS_URL: createDocumentedUser(redis) } });
});
beforeEach((context) => skipIfMissing(context, missingRedis));
afterAll(async () => {
  await site?.close();
  await redis?.dispose();
});

test('on Redis a user signs in, reads the thread, looks up a BIN, and is still signed in after a restart', async () => {
  const { agent } = await signIn(site);
  await site.restart();
  expect((await getJson(agent, `${site.url}/threads/current`)).json).toHaveProperty('thread.title');
  expect((await getJson(agent, `${site.url}/bin/45717360`)).json).toMatchObject({ scheme: 'visa' });
  expect((await getJson(agent, `${site.url}/connections`)).json).toMatchObject({
    items: [{ app: 'platform', health: 'active' }],
  });
});

test('R62: on Redis a signed-out session stays ended, and the next sign-in starts another', async () => {
  const { agent } = await signIn(site, 'second@example.test');
  const old = agent.cookies.header(site.url);
  const { json } = await getJson(agent, `${site.url}/session`);
  const form = { method: 'POST', body: new URLSearchParams({ _csrf: String(json.csrfToken) }), follow: false };
  expect((await agent.request(`${site.url}/sign-out`, form)).status).toBe(303);
  const again = await signIn(site, 'second@example.test', { agent: createUserAgent() });
  expect(again.agent.cookies.header(site.url)).not.toBe(old);
  const stale = await fetch(`${site.url}/threads/current`, { headers: { cookie: old, accept: 'application/json' } });
  expect(stale.status).toBe(401);
});

test('F4: without Redis returns 503 with Retry-After, stays alive, and serves again after Redis recovers', async () => {
  const { agent } = await signIn(site, 'admin@example.test');
  await redis.kill();
  try {
    const { status, json, headers } = await getJson(agent, `${site.url}/threads/current`);
    expect([status, json.code, Number(headers.get('retry-after')) > 0]).toEqual([503, 'storage_unavailable', true]);
    expect((await fetch(`${site.managementUrl}/healthz`)).status).toBe(200);
    expect((await fetch(`${site.managementUrl}/readyz`)).status).toBe(503);
  } finally {
    await redis.start();
    createDocumentedUser(redis);
  }
  await until(async () => (await getJson(agent, `${site.url}/threads/current`)).status === 200);
});

test('R126 a permission that is taken away makes a process not ready, and it goes on once it is back', async () => {
  const { agent } = await signIn(site, 'second@example.test');
  const readiness = async () => (await fetch(`${site.managementUrl}/readyz`)).status;
  createDocumentedUser(redis, 'resetkeys');
  const { status, json } = await getJson(agent, `${site.url}/threads/current`);
  expect([status, json.code]).toEqual([503, 'storage_unavailable']);
  await until(async () => (await readiness()) === 503);
  expect((await fetch(`${site.managementUrl}/healthz`)).status).toBe(200);
  createDocumentedUser(redis);
  await until(async () => (await getJson(agent, `${site.url}/threads/current`)).status === 200);
  await until(async () => (await readiness()) === 200);
});
