/** F23 on Redis: memory runs out while a strict provider responds, which accepts each refresh token once. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Crowd, startCrowd } from '../support/crowd.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { until } from '../support/until.ts';

const USER_COUNT = 10;
const KILOBYTE = 1_024;
/** The memory that other writes use while the provider responds. */
const USED_KILOBYTES = 256;

let redis: RedisServer;
let crowd: Crowd;

beforeAll(async () => {
  redis = await startRedis();
  const env = { REDIS_URL: redis.url, REDIS_DURABILITY: 'none' };
  crowd = await startCrowd({ kind: 'Redis', processes: 1, users: USER_COUNT, env });
});
afterAll(async () => {
  await crowd?.close();
  await redis?.dispose();
});

/** Limits the memory to its current use plus this much. 0: no limit. */
function leaveFree(kilobytes: number): void {
  const used = Number(/used_memory:(\d+)/.exec(redis.sendCommand('INFO', 'memory'))?.[1]);
  redis.sendCommand('CONFIG', 'SET', 'maxmemory', String(kilobytes === 0 ? 0 : used + kilobytes * KILOBYTE));
}

test.for([
  { kilobytes: USED_KILOBYTES - 56, status: 503 },
  { kilobytes: 8 * KILOBYTE, status: 200 },
])(
  'F23: $kilobytes KB of memory free in Redis, strict provider, kill -9: no user must reconnect',
  async ({ kilobytes, status }) => {
    const { users, provider } = crowd;
    const member = crowd.member(0);
    const threadStatuses = async () => {
      const responses = await Promise.all(users.map((user) => crowd.thread(member, user)));
      return responses.map(({ status }) => status);
    };
    for (const user of users) await crowd.expire(user);
    const refreshesBefore = provider.refreshes();
    leaveFree(kilobytes);
    provider.delayMilliseconds = () => 1_000;
    let hasEnded = false;
    const pendingStatuses = threadStatuses().finally(() => {
      hasEnded = true;
    });
    await until(() => hasEnded || provider.refreshes() === refreshesBefore + USER_COUNT);
    redis.sendCommand('SETRANGE', 'taken', String(USED_KILOBYTES * KILOBYTE), '1');
    expect(new Set(await pendingStatuses)).toEqual(new Set([status]));

    provider.delayMilliseconds = () => 0;
    if (status === 503) {
      expect(provider.refreshes()).toBe(refreshesBefore);
      const detail = 'Redis responded OOM';
      expect(JSON.parse((await crowd.callManagement(member, '/readyz')).body)).toMatchObject({
        reason: 'storage',
        detail,
      });
    }
    await member.kill();
    redis.sendCommand('DEL', 'taken');
    leaveFree(0);
    await member.start();
    expect(new Set(await threadStatuses())).toEqual(new Set([200]));
    expect([provider.refreshes(), provider.refusals()]).toEqual([refreshesBefore + USER_COUNT, 0]);
  },
);
