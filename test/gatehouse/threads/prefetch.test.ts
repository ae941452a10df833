/** Session and grant are read together: one round trip to the store, and never the thread of another user. */

import { afterAll, beforeAll, expect, test } from 'vitest';
import { sessionCookieName } from '../../../src/shared/sessions/browser-sessions.ts';
import { hashOf, keys } from '../../../src/shared/storage/keys.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { skipWithout } from '../../support/missing.ts';
import { missingRedis, startRedis } from '../../support/redis-server.ts';
import { roundTrips } from '../../support/round-trips.ts';
import { openStorageOf } from '../grants/storage-access.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site.close());

const thread = (agent: UserAgent, at = site) => getJson(agent, `${at.url}/threads/current`);

function sessionKeyOf(agent: UserAgent): string {
  const cookie = decodeURIComponent(agent.cookies.get(sessionCookieName(site.url)) ?? '');
  return keys.session(hashOf(cookie.slice('s:'.length, cookie.lastIndexOf('.'))));
}

test('on Redis, a session in use costs one round trip per thread', async (context) => {
  skipWithout(context, missingRedis);
  const redis = await startRedis();
  const shared = await startSite({ env: { REDIS_URL: redis.url } });
  try {
    const { agent } = await signIn(shared);
    expect((await thread(agent, shared)).status).toBe(200);
    const found = () => Number(/keyspace_hits:(\d+)/.exec(redis.sendCommand('INFO', 'stats'))?.[1]);
    const before = found();
    const { min: least } = await roundTrips(redis, async () => {
      for (let times = 0; times < 100; times += 1) expect((await thread(agent, shared)).status).toBe(200);
    });
    // Session and grant are read each time.
    expect(found() - before).toBeGreaterThanOrEqual(200);
    expect(least).toBeLessThan(160);
  } finally {
    await shared.close();
    await redis.dispose();
  }
});

test('R46: returns the thread of the session’s present user, even if the process remembers another one', async () => {
  const { agent } = await signIn(site);
  const { agent: other } = await signIn(site, 'second@example.test');
  const [own, others] = [(await thread(agent)).json, (await thread(other)).json];
  expect(own).not.toEqual(others);
  const storage = await openStorageOf(site);
  try {
    const record = await storage.store.get(sessionKeyOf(other));
    const session = await storage.sealer.open(record?.value ?? '', sessionKeyOf(other));
    const value = await storage.sealer.seal(session, sessionKeyOf(agent));
    await storage.store.write([{ put: sessionKeyOf(agent), value, lifetimeSeconds: 600 }]);
  } finally {
    await storage.close();
  }
  expect((await thread(agent)).json).toEqual(others);
});

test('uses the grant as it is stored now, not as it was at the last request', async () => {
  const { agent } = await signIn(site);
  expect((await thread(agent)).status).toBe(200);
  const storage = await openStorageOf(site);
  try {
    const { json } = await getJson(agent, `${site.url}/session`);
    const userId = (json.user as { id: string }).id;
    const stored = await storage.grants.loadStored(userId, 'platform');
    expect(await storage.grants.remove(userId, 'platform', stored?.version ?? 0)).toBe(true);
  } finally {
    await storage.close();
  }
  expect((await thread(agent)).json).toMatchObject({ status: 403, code: 'not_connected' });
});
