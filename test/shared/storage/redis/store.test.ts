/** The Redis store on a single server: the store contract. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createRedisStore } from '../../../../src/shared/storage/redis/store.ts';
import { skipIfMissing } from '../../../support/missing.ts';
import { createDocumentedUser } from '../../../support/redis-acl.ts';
import { IN_MEMORY, missingRedis, type RedisServer, startRedis } from '../../../support/redis-server.ts';
import { storeContract } from '../../../support/store-contract.ts';
import { until } from '../../../support/until.ts';

const givenUrl = process.env.REDIS_TEST_URL;
const missing = givenUrl === undefined ? missingRedis : undefined;
let server: RedisServer | undefined;
let url = givenUrl ?? '';

beforeAll(async () => {
  if (givenUrl !== undefined || missing !== undefined) return;
  server = await startRedis(IN_MEMORY);
  // The documented permissions are enough for the whole contract.
  url = createDocumentedUser(server);
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

test('all reads of one turn are sent as one command, and each returns its own record', async (context) => {
  skipIfMissing(context, missing);
  const keyPrefix = `gatehouse-test-${randomUUID()}:`;
  const store = await createRedisStore({ url, durability: 'none', keyPrefix, deadlineMilliseconds: 5_000 });
  const client = new Redis(url);
  const countReads = async () => Number(/cmdstat_mget:calls=(\d+)/.exec(await client.info('commandstats'))?.[1] ?? 0);
  try {
    await store.write([{ put: 'one:{a}', value: 'of a' }]);
    await store.write([{ put: 'one:{b}', value: 'of b' }]);
    const readsBefore = await countReads();
    const values = await Promise.all(
      ['one:{b}', 'one:{nobody}', 'one:{a}', 'one:{b}'].map(async (key) => (await store.get(key))?.value),
    );
    expect(values).toEqual(['of b', undefined, 'of a', 'of b']);
    expect((await countReads()) - readsBefore).toBe(1);

    // A read sees a write that was sent earlier in the same turn.
    const written = store.write([{ put: 'one:{a}', value: 'newer' }]);
    expect((await store.get('one:{a}'))?.value).toBe('newer');

    await written;
  } finally {
    await store.close();
    await client.quit();
    await removeKeys(keyPrefix);
  }
});

test.for([
  ['that counts slots as a cluster does', ['--cluster-enabled', 'yes'], ['CLUSTER', 'ADDSLOTSRANGE', '0', '16383']],
  ['whose ACL forbids MGET', [], ['ACL', 'SETUSER', 'default', '-mget']],
] satisfies [string, string[], string[]][])(
  'reads records one by one from a server %s',
  async ([, args, command], context) => {
    skipIfMissing(context, missing);
    const server = await startRedis([...IN_MEMORY, ...args]);
    try {
      expect(server.sendCommand(...command)).toContain('OK');

      if (args.length > 0) await until(() => server.sendCommand('CLUSTER', 'INFO').includes('cluster_state:ok'));
      const store = await createRedisStore({ url: server.url, durability: 'none', deadlineMilliseconds: 5_000 });
      await store.write([{ put: 'one:{a}', value: 'of a' }]);
      await store.write([{ put: 'one:{b}', value: 'of b' }]);
      for (let round = 0; round < 2; round += 1) {
        const records = await Promise.all([store.get('one:{a}'), store.get('one:{b}')]);
        expect(records.map((record) => record?.value)).toEqual(['of a', 'of b']);
      }
      await store.close();
    } finally {
      await server.dispose();
    }
  },
);

async function removeKeys(prefix: string): Promise<void> {
  const client = new Redis(url);
  for await (const keys of client.scanStream({ match: `${prefix}*`, count: 1_000 })) {
    if (keys.length > 0) await client.unlink(...keys);
  }
  await client.quit();
}
