/** The Redis store on a cluster of three masters with a replica each: the store contract, and the loss of a master. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createRedisStore } from '../../../../src/shared/storage/redis/store.ts';
import type { Store } from '../../../../src/shared/storage/store.ts';
import { skipIfMissing } from '../../../support/missing.ts';
import { missingRedis, type RedisServer, startCluster, untilReplicated } from '../../../support/redis-server.ts';
import { storeContract } from '../../../support/store-contract.ts';
import { until } from '../../../support/until.ts';

let servers: RedisServer[] = [];
let cluster = '';

beforeAll(async () => {
  if (missingRedis !== undefined) return;
  servers = await startCluster(6);
  cluster = servers.map(({ port }) => `127.0.0.1:${port}`).join(',');
});

afterAll(async () => {
  await Promise.all(servers.map((server) => server.dispose()));
});

storeContract(
  'the Redis store on a cluster',
  async () => {
    const keyPrefix = `${randomUUID()}:`;
    return {
      open: () => createRedisStore({ cluster, durability: 'aof', keyPrefix, deadlineMilliseconds: 5_000 }),
      elapse: (milliseconds) => sleep(milliseconds),
      dispose: async () => {},
    };
  },
  missingRedis,
);

describe('messages on a cluster', () => {
  beforeEach((context) => skipIfMissing(context, missingRedis));

  test('published after a subscription reach each subscriber once, on any node', async () => {
    const stores = await Promise.all([1, 2, 3].map(() => createRedisStore({ cluster, durability: 'none' })));
    const messages: string[] = [];
    for (let n = 0; n < 30; n += 1) {
      const listening = stores.map((store) => store.subscribe(`channel ${n}`, (message) => messages.push(message)));
      await Promise.all(listening);
      await stores[0]?.publish(`channel ${n}`, 'after');
    }
    await expect.poll(() => messages.length).toBeGreaterThanOrEqual(90);
    expect(messages).toEqual(Array(90).fill('after'));

    await Promise.all(stores.map((store) => store.close()));
  });
});

describe('when a master of the cluster dies,', () => {
  beforeEach((context) => skipIfMissing(context, missingRedis));

  test('its replica takes over within seconds, for the same store and its subscribers', async () => {
    // An earlier attempt may have left one server dead. It is started again as a replica.
    await Promise.all(
      servers.filter((server) => !server.sendCommand('PING').startsWith('PONG')).map((server) => server.start()),
    );
    const replicas = () =>
      servers.filter((server) => /master_link_status:up/.test(server.sendCommand('INFO', 'replication')));
    await until(() => replicas().length === 3);
    const store = await createRedisStore({ cluster, durability: 'replicas' });
    await expect(store.ready()).resolves.toBeUndefined();

    const names = Array.from({ length: 60 }, (_, n) => `key ${n}`);
    await Promise.all(names.map((name) => store.write([{ put: name, value: name }])));
    const messages: string[] = [];
    await store.subscribe('channel', (message) => messages.push(message));
    // On a cluster, writes are acknowledged without waiting for replicas.
    await untilReplicated(servers);

    const victim = servers.find((server) => server.sendCommand('ROLE').startsWith('master'));
    await victim?.kill();
    await until(() => acceptsAllCalls(store, names));
    const values = await Promise.all(names.map(async (name) => (await store.get(name))?.value));
    expect(values).toEqual(names);

    await until(async () => {
      await store.publish('channel', 'after').catch(() => undefined);
      return messages.includes('after');
    });
    await store.close();
  });
});

/** Returns true once the probe succeeds, and all keys can be read and written. */
async function acceptsAllCalls(store: Store, names: readonly string[]): Promise<boolean> {
  const calls = [
    store.ready(),
    ...names.flatMap((name) => [store.get(name), store.write([{ put: `${name} again`, value: 'v' }])]),
  ];
  return (await Promise.allSettled(calls)).every(({ status }) => status === 'fulfilled');
}
