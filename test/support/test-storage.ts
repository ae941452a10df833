/** Empty storages for tests, with their settings, access to their store, and data to fill them. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createRedisStore } from '../../src/shared/storage/redis/store.ts';
import { retryWhileUnavailable } from '../../src/shared/storage/retry.ts';
import { createSqliteStore } from '../../src/shared/storage/sqlite/store.ts';
import type { CopyItem, Store } from '../../src/shared/storage/store.ts';
import type { StoreKind } from './fleet.ts';
import { startRedis } from './redis-server.ts';
import { until } from './until.ts';

export interface TestStorage {
  env: Record<string, string>;
  /** Opens the store for some work, in addition to the processes that use it. */
  withStore<T>(work: (store: Store) => Promise<T>): Promise<T>;
  items(): Promise<CopyItem[]>;
  dispose(): Promise<void>;
}

export async function createTestStorage(kind: StoreKind): Promise<TestStorage> {
  if (kind === 'Redis') {
    const redis = await startRedis();
    const env = { REDIS_URL: redis.url };
    return testStorageOf(env, () => createRedisStore({ url: redis.url, durability: 'aof' }), redis.dispose);
  }
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-place-'));
  const env = { DATA_DIR: join(directory, 'data'), REDIS_URL: '' };
  return testStorageOf(
    env,
    () => createSqliteStore({ directory: env.DATA_DIR }),
    async () => rmSync(directory, { recursive: true, force: true }),
  );
}

function testStorageOf(
  env: Record<string, string>,
  open: () => Promise<Store>,
  dispose: () => Promise<void>,
): TestStorage {
  const withStore: TestStorage['withStore'] = async (work) => {
    const store = await open();
    return work(store).finally(() => store.close());
  };
  return {
    env,
    withStore,
    items: () => withStore(async (store) => (await Array.fromAsync(store.dump())).flat()),
    dispose,
  };
}

/** Adds so many records that a command can be ended while it works on them. */
export async function addBulk(store: Store, count: number): Promise<void> {
  for (let start = 0; start < count; start += 1_000) {
    const numbers = Array.from({ length: Math.min(1_000, count - start) }, (_, n) => start + n);
    const items = numbers.map((n) => ({ record: bulkKey(n), value: 'x'.repeat(200), version: 1 }));
    await retryWhileUnavailable(() => store.load(items));
  }
}

export const bulkKey = (n: number) => `bin:{bulk ${n}}`;

/** Resolves once one of the bulk records is in the store, in any order. */
export async function untilPartlyFilled(store: Store): Promise<void> {
  const some = Array.from({ length: 100 }, (_, n) => bulkKey(n * 20));
  await until(async () =>
    (await Promise.all(some.map((key) => store.get(key)))).some((record) => record !== undefined),
  );
}
