/** The session and the grant are read in one round trip to the store, and belong to the same user. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sessionCookieName } from '../../../src/shared/sessions/browser-sessions.ts';
import { hashOf, keys } from '../../../src/shared/storage/keys.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis, startRedis } from '../../support/redis-server.ts';
import { roundTrips } from '../../support/round-trips.ts';
import { openStorageOf } from '../grants/storage-access.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site.close());

const readThread = (agent: UserAgent, { url } = site) => getJson(agent, `${url}/threads/current`);

function sessionKeyOf(agent: UserAgent): string {
  const cookie = decodeURIComponent(agent.cookies.get(sessionCookieName(site.url)) ?? '');
  return keys.session(hashOf(cookie.slice('s:'.length, cookie.lastIndexOf('.'))));
}

test('on Redis, a session in use costs one round trip per thread', async (context) => {
  skipIfMissing(context, missingRedis);
  const redis = await startRedis();
  const siteOnRedis = await startSite({ env: { REDIS_URL: redis.url } });
  try {
    const { agent } = await signIn(siteOnRedis);
    expect((await readThread(agent, siteOnRedis)).status).toBe(200);
    const countReads = () => Number(/keyspace_hits:(\d+)/.exec(redis.sendCommand('INFO', 'stats'))?.[1]);
    const readsBefore = countReads();
    const { min: minRoundTrips } = await roundTrips(redis, async () => {
      for (let calls = 0; calls < 100; calls += 1) expect((await readThread(agent, siteOnRedis)).status).toBe(200);
    });
    // The session and the grant are read each time.
    expect(countReads() - readsBefore).toBeGreaterThanOrEqual(200);
    expect(minRoundTrips).toBeLessThan(160);
  } finally {
    await siteOnRedis.close();
    await redis.dispose();
  }
});

test('R46: returns the thread of the user whom the stored session names, even if the process remembers another one', async () => {
  const { agent } = await signIn(site);
  const { agent: secondUser } = await signIn(site, 'second@example.test');
  const { json: thread } = await readThread(agent);
  const { json: threadOfSecondUser } = await readThread(secondUser);
  expect(thread).not.toEqual(threadOfSecondUser);

  // Replaces the first user’s session by that of the second user.
  const storage = await openStorageOf(site);
  try {
    const record = await storage.store.get(sessionKeyOf(secondUser));
    const session = await storage.sealer.open(record?.value ?? '', sessionKeyOf(secondUser));
    const value = await storage.sealer.seal(session, sessionKeyOf(agent));
    await storage.store.write([{ put: sessionKeyOf(agent), value, lifetimeSeconds: 600 }]);
  } finally {
    await storage.close();
  }

  expect((await readThread(agent)).json).toEqual(threadOfSecondUser);
});

test('uses the grant that is stored now, not the one of the last request', async () => {
  const { agent } = await signIn(site);
  expect((await readThread(agent)).status).toBe(200);
  const storage = await openStorageOf(site);
  try {
    const { json } = await getJson(agent, `${site.url}/session`);
    const userId = (json.user as { id: string }).id;
    const stored = await storage.grants.loadStored(userId, 'platform');
    expect(await storage.grants.remove(userId, 'platform', stored?.version ?? 0)).toBe(true);
  } finally {
    await storage.close();
  }
  expect((await readThread(agent)).json).toMatchObject({ status: 403, code: 'not_connected' });
});
