/** Copies of a Redis store with more keys than fit in memory, and the order in which keys are read. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { createKeyList } from '../../../../src/shared/storage/redis/key-list.ts';
import { skipIfMissing } from '../../../support/missing.ts';
import { IN_MEMORY, missingRedis, type RedisServer, startRedis } from '../../../support/redis-server.ts';

const SOURCE = join(import.meta.dirname, '..', '..', '..', '..', 'src');
/** Half of the keys have one tag. */
const KEYS = 70_000;
/** With long names, few keys fill the heap. */
const NAME_LENGTH = 450;
const HEAP_MEGABYTES = 40;

const COUNT_ITEMS = `
  const { createRedisStore } = await import(process.env.SOURCE + '/shared/storage/redis/store.ts');
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
  const fill = `
    local name = string.rep('x', ${NAME_LENGTH})
    for n = 1, ${KEYS / 2} do
      redis.call('SET', 'bin:{' .. name .. n .. '}', '1:v')
      redis.call('ZADD', 'audit-actor:{audit}:' .. name .. n, 1, 'm')
    end`;
  await client.eval(fill, 0);
  await client.quit();
});
afterAll(() => server?.dispose());

test('a copy of many keys fits in a small heap', async (context: TestContext) => {
  skipIfMissing(context, missingRedis);
  expect(await countItems(server?.url)).toBe(String(KEYS));
});

test('a copy without disk space for its list of keys says where it needs space', async (context: TestContext) => {
  skipIfMissing(context, missingRedis);
  const noLargeFiles = 'ulimit -f 20000;';
  await expect(countItems(server?.url, noLargeFiles)).rejects.toThrow(/needs a temporary file.*: .*Set TMPDIR/);
});

test('lists come after the records that they list: last in their tag, or after all other tags', () => {
  const list = createKeyList();
  list.add(['sessions-of-sid:{a}', 'b:{t}', 'sessions-of:{t}', 'd:{t}', 'e'], false);
  list.add(['c:{t}', 'users:{users}', 'a:{t}'], true);
  list.add(['d:{t}'], false);
  const groups = [...list.inGroups(3)];
  list.close();
  expect(groups).toEqual([
    ['e'],
    ['b:{t}', 'd:{t}', 'a:{t}'],
    ['c:{t}', 'sessions-of:{t}'],
    ['sessions-of-sid:{a}'],
    ['users:{users}'],
  ]);
});
