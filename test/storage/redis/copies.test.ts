/** Copies of a Redis store with more keys than memory holds. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { skipWithout } from '../../support/missing.ts';
import { IN_MEMORY, missingRedis, type RedisServer, startRedis } from '../../support/redis-server.ts';

const SOURCE = join(import.meta.dirname, '..', '..', '..', 'src');
/** Long names, so that fewer keys take as much memory: 120 MB with their tags. */
const [KEYS, NAME_LENGTH] = [60_000, 1_000];
const HEAP_MEGABYTES = 40;

const COUNT_ITEMS = `
  const { createRedisStore } = await import(process.env.SOURCE + '/storage/redis/store.ts');
  const store = await createRedisStore({ url: process.env.URL, durability: 'none' });
  let count = 0;
  for await (const items of store.dump()) count += items.length;
  console.log(count);
  await store.close();
`;

async function countItems(url: string | undefined, shell = ''): Promise<string> {
  const command = `${shell} exec "$NODE" --max-old-space-size=${HEAP_MEGABYTES} --input-type=module --eval "$CODE"`;
  const env = { ...process.env, NODE: process.execPath, CODE: COUNT_ITEMS, SOURCE, URL: url };
  return (await promisify(execFile)('sh', ['-c', command], { env })).stdout.trim();
}

let server: RedisServer | undefined;
beforeAll(async () => {
  if (missingRedis) return;
  server = await startRedis(IN_MEMORY);
  const client = new Redis(server.url);
  const fill = `for n = 1, ${KEYS} do redis.call('SET', 'bin:{' .. n .. string.rep('x', ${NAME_LENGTH}) .. '}', '1:v') end`;
  await client.eval(fill, 0);
  await client.quit();
});
afterAll(() => server?.dispose());

test('a copy of many keys takes no more memory than one of few', async (context: TestContext) => {
  skipWithout(context, missingRedis);
  expect(await countItems(server?.url)).toBe(String(KEYS));
});

test('a copy that finds no room for its list of keys says where it needs some', async (context: TestContext) => {
  skipWithout(context, missingRedis);
  const noLargeFiles = 'ulimit -f 20000;';
  await expect(countItems(server?.url, noLargeFiles)).rejects.toThrow(/no room in the temporary folder.*Set TMPDIR/);
});
