/** The Redis store on one server: the duties of every store. */

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll } from 'vitest';
import { createRedisStore } from '../../src/storage/redis-store.ts';
import { IN_MEMORY, missingRedis, type RedisServer, startRedis } from '../support/redis-server.ts';
import { storeContract } from '../support/store-contract.ts';

const shared = process.env.REDIS_TEST_URL;
const missing = shared === undefined ? missingRedis : undefined;
let server: RedisServer | undefined;
let url = shared ?? '';

beforeAll(async () => {
  if (shared !== undefined || missing !== undefined) return;
  server = await startRedis(IN_MEMORY);
  url = server.url;
});

afterAll(() => server?.dispose());

storeContract(
  'the Redis store',
  async () => {
    const keyPrefix = `gatehouse-test-${randomUUID()}:`;
    return {
      open: () => createRedisStore({ url, durability: 'none', keyPrefix, deadlineMilliseconds: 5_000 }),
      elapse: (milliseconds) => sleep(milliseconds),
      dispose: () => removeKeys(keyPrefix),
    };
  },
  missing,
);

async function removeKeys(prefix: string): Promise<void> {
  const client = new Redis(url);
  for await (const keys of client.scanStream({ match: `${prefix}*`, count: 1_000 })) {
    if (keys.length > 0) await client.unlink(...keys);
  }
  await client.quit();
}
