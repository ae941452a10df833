/** The state of the user and the grant are read in one round trip to the store, and both must allow the call. */
import { expect, test } from 'vitest';
import { openSharedStorage } from '../../support/fleet.ts';
import { signIn, startSite } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis, startRedis } from '../../support/redis-server.ts';
import { roundTrips } from '../../support/round-trips.ts';
import { sessionOf } from '../grants/storage-access.ts';
import { codeOf, createAdministrator, relayThread } from './service.ts';

const CALLS = 100;
/** High, because a service reserves a sixteenth of the platform's stated limit at a time. */
const UNREACHED_LIMIT = 1_000_000;
const RATE_LIMITS = {
  perUserPerMinute: UNREACHED_LIMIT,
  perUserPerHour: UNREACHED_LIMIT,
  perCompanyPerMinute: UNREACHED_LIMIT,
};

test('on Redis a service’s call for a user takes one round trip, and is refused once the user is disabled', async (context) => {
  skipIfMissing(context, missingRedis);
  const redis = await startRedis();
  const site = await startSite({ env: { REDIS_URL: redis.url }, sandbox: { rateLimits: RATE_LIMITS } });
  const storage = await openSharedStorage(site.env);
  try {
    const { agent } = await signIn(site);
    const { userId } = await sessionOf(site, agent);
    const admin = await createAdministrator(site, storage);
    const { token } = await admin.createRelayToken({ assertUser: true });
    const readThread = () => relayThread(site, token, { 'gatehouse-user': userId });
    expect((await readThread()).status).toBe(200);
    const { min, max, seconds } = await roundTrips(redis, async () => {
      for (let calls = 0; calls < CALLS; calls += 1) expect((await readThread()).status).toBe(200);
    });
    // On a busy machine two packets may be read as one.
    expect(max / CALLS).toBeGreaterThan(0.5);
    // Several times a second the relay token is also read, and counts are written.
    expect(min).toBeLessThan(1.25 * CALLS + 6 * seconds);

    expect((await admin.call('POST', `/users/${userId}/disable`)).status).toBeLessThan(300);
    const refused = await readThread();
    expect([refused.status, codeOf(refused)]).toEqual([403, 'not_allowed']);
    expect(refused.headers['ratelimit-policy']).toBe('"relay-token";q=6000;w=60');
    expect((await admin.call('POST', `/users/${userId}/enable`)).status).toBeLessThan(300);
    expect((await readThread()).status).toBe(200);
  } finally {
    await storage.store.close();
    await site.close();
    await redis.dispose();
  }
});
