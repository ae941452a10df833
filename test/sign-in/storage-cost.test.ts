/** What a sign-in costs the storage: what can be asked for or written at the same time is. */
import { expect, test } from 'vitest';
import { signIn, startSite } from '../support/gatehouse.ts';
import { skipWithout } from '../support/missing.ts';
import { missingRedis, startRedis } from '../support/redis-server.ts';
import { roundTrips } from '../support/round-trips.ts';

const SIGN_INS = 10;
/** One to start, eight at the callback, three for GET /session, one for the audit trail: 13. It was 33. */
const MOST_ROUND_TRIPS = 16;

test('on Redis a whole sign-in with its session costs so many round trips at most', async (context) => {
  skipWithout(context, missingRedis);
  const redis = await startRedis();
  const site = await startSite({ env: { REDIS_URL: redis.url } });
  const path = '/sign-in?return_to=/session';
  try {
    await signIn(site, undefined, { path });
    const { least, most } = await roundTrips(redis, async () => {
      for (let times = 0; times < SIGN_INS; times += 1) {
        const { page } = await signIn(site, undefined, { path });
        expect(JSON.parse(page.body)).toMatchObject({ signedIn: true, connections: [{ app: 'platform' }] });
      }
    });
    expect(most / SIGN_INS).toBeGreaterThan(5);
    expect(least / SIGN_INS).toBeLessThan(MOST_ROUND_TRIPS);
  } finally {
    await site.close();
    await redis.dispose();
  }
});
