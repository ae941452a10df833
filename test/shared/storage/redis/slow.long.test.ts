/** R127: connects to a Redis that responds within REDIS_TIMEOUT_MS, and reports one that takes longer as too slow. */
import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { generateEncryptionKey } from '../../../../src/shared/storage/key-ring.ts';
import { createRedisStore } from '../../../../src/shared/storage/redis/store.ts';
import type { Store } from '../../../../src/shared/storage/store.ts';
import { skipIfMissing } from '../../../support/missing.ts';
import { freePort } from '../../../support/ports.ts';
import { type Program, runServer, startProgram } from '../../../support/program.ts';
import { type DelayingProxy, startDelayingProxy } from '../../../support/redis-proxy.ts';
import { missingRedis, type RedisServer, startRedis } from '../../../support/redis-server.ts';
import { until } from '../../../support/until.ts';

let redis: RedisServer;
beforeAll(async () => {
  if (!missingRedis) redis = await startRedis();
});
afterAll(() => redis?.dispose());
beforeEach((context) => skipIfMissing(context, missingRedis));

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function slowRedis(milliseconds: number): Promise<DelayingProxy> {
  const proxy = await startDelayingProxy(redis.port, milliseconds);
  closers.push(proxy.close);
  return proxy;
}

const settings = async (port: number, timeout: number): Promise<Record<string, string>> => ({
  PUBLIC_URL: 'http://127.0.0.1:3000',
  SESSION_SECRETS: randomBytes(48).toString('base64'),
  ENCRYPTION_KEYS,
  REDIS_URL: `redis://127.0.0.1:${port}`,
  REDIS_TIMEOUT_MS: String(timeout),
  PORT: String(await freePort()),
  MANAGEMENT_PORT: String(await freePort()),
});
const ENCRYPTION_KEYS = generateEncryptionKey(new Date());

async function stop(program: Program): Promise<void> {
  program.signal('SIGKILL');
  await program.ended;
}

test('R127 a start with a Redis that takes 600 ms for each response succeeds', async () => {
  const { port } = await slowRedis(600);
  const program = startProgram(['node', 'src/server.ts'], await settings(port, 2_000));
  closers.push(() => stop(program));
  await program.printed('Gatehouse is ready');
});

test('R127 a start with a Redis that takes longer than REDIS_TIMEOUT_MS reports that it is too slow', async () => {
  const { port } = await slowRedis(1_400);
  const { status, stderr } = await runServer(await settings(port, 500));
  expect([status, stderr]).toEqual([1, expect.stringMatching(/responded too slowly. Set a longer REDIS_TIMEOUT_MS/)]);
});

test('R127 a process reconnects to a Redis that takes 700 ms after its connection was cut', async () => {
  const proxy = await slowRedis(0);
  const store: Store = await createRedisStore({ url: `redis://127.0.0.1:${proxy.port}`, durability: 'aof' });
  closers.push(() => store.close());
  proxy.delayMilliseconds = 700;
  await store.write([{ put: 'a', value: 'stored' }]);
  proxy.cut();
  const read = () => store.get('a').catch(() => undefined);
  await until(async () => (await read())?.value === 'stored', 10_000);
});
