/** The shared store: assembles its parts on one Redis, a Redis behind sentinels, or a Redis cluster. */

import { once } from '../../once.ts';
import { MIN_ROOM_BYTES, type Store } from '../store.ts';
import { admitRedis, type RedisDurability } from './admission.ts';
import type { RandomNumber } from './clients.ts';
import { openRedisConnection, type RedisConnection } from './connection.ts';
import { redisCopies } from './copies.ts';
import { redisCounters } from './counters.ts';
import { createDurableWrites, type RunWrite } from './durable.ts';
import { redisIndexes } from './indexes.ts';
import { redisLeases } from './leases.ts';
import { redisLogs } from './logs.ts';
import { createRedisNames, type RedisNames } from './names.ts';
import { openRedisNotices } from './notices.ts';
import { redisRecords } from './records.ts';
import { type RedisPlace, type RedisTarget, readTarget } from './target.ts';
import { redisWalk } from './walk.ts';

export type RedisStoreOptions = RedisTarget & {
  /**
   * What the Redis must have for the start not to be refused. With `replicas`, on a single server and behind sentinels,
   * each write, lease and log entry is answered once a replica has it.
   */
  durability: RedisDurability;
  /** Stands before every key and channel, where one Redis serves several. Default none. */
  keyPrefix?: string;
  /** How long a command waits for its reply before it rejects with `storage_unavailable`, and its connection ends. */
  deadlineMilliseconds?: number;
  /** Between 0 and 1; spreads the attempts of processes to connect again. */
  random?: RandomNumber;
};

const DEADLINE_MILLISECONDS = 2_000;

/**
 * Rejects with `RedisRefusedError` where the Redis must not be used, with `storage_unavailable` where it cannot be now, and
 * with a TypeError where the target cannot be read.
 */
export async function createRedisStore(options: RedisStoreOptions): Promise<Store> {
  const { durability, keyPrefix = '', deadlineMilliseconds = DEADLINE_MILLISECONDS, random = Math.random } = options;
  const place = readTarget(options);
  const names = createRedisNames(keyPrefix);
  const closers: (() => void | Promise<void>)[] = [];
  const closeAll = once(async () => {
    await Promise.all(closers.map((close) => close()));
  });
  const open = async (): Promise<RedisConnection> => {
    const connection = await openRedisConnection({ place, deadlineMilliseconds, random });
    closers.push(connection.close);
    return connection;
  };

  try {
    const connection = await open();
    await admitRedis(connection.client, durability);
    // Redis Cluster has no way to wait for the replica of the one node that wrote.
    const waits = durability === 'replicas' && place.kind !== 'cluster';
    const runWrite = waits ? createDurableWrites(await open(), deadlineMilliseconds) : connection.run;
    const notices = await openRedisNotices({ place, connection, names, deadlineMilliseconds, random });
    closers.push(notices.close);
    const parts = { connection, runWrite, names };
    return {
      ...redisRecords(parts),
      ...redisWalk(parts),
      ...redisIndexes(parts),
      ...redisCounters(parts),
      ...redisLogs(parts),
      ...redisLeases(parts),
      ...redisCopies(parts),
      publish: notices.publish,
      subscribe: notices.subscribe,
      ready: createProbe(place, runWrite, names),
      close: closeAll,
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/**
 * A replica reads well, and so does a Redis without memory or disk; only a write shows that the store works. Redis takes
 * any write while it is not past `maxmemory` yet: that the second is taken shows that there is room for the first. It fills
 * that with zeros itself, so nothing large is sent.
 */
function createProbe(place: RedisPlace, runWrite: RunWrite, names: RedisNames): Store['ready'] {
  const probes = place.kind === 'cluster' ? names.probes : names.probes.slice(0, 1);
  return async (bytes = 0) => {
    const probe = (key: string) =>
      runWrite((client) =>
        Promise.all([client.setrange(key, MIN_ROOM_BYTES + bytes - 1, '1'), client.append(key, '1'), client.del(key)]),
      );
    await Promise.all(probes.map(probe));
  };
}
