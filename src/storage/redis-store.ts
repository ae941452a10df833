/** Owns the shared store: assembles its parts on one Redis, a Redis behind sentinels, or a Redis cluster. */

import { admitRedis, type RedisDurability } from './redis-admission.ts';
import type { RandomNumber } from './redis-clients.ts';
import { openRedisConnection, type RedisConnection } from './redis-connection.ts';
import { redisCopies } from './redis-copies.ts';
import { redisCounters } from './redis-counters.ts';
import { createDurableWrites, type RunWrite } from './redis-durable.ts';
import { redisIndexes } from './redis-indexes.ts';
import { redisLeases } from './redis-leases.ts';
import { redisLogs } from './redis-logs.ts';
import { createRedisNames, type RedisNames } from './redis-names.ts';
import { openRedisNotices } from './redis-notices.ts';
import { redisRecords } from './redis-records.ts';
import { type RedisPlace, type RedisTarget, readTarget } from './redis-target.ts';
import { redisWalk } from './redis-walk.ts';
import type { Store } from './store.ts';

export type RedisStoreOptions = RedisTarget & {
  /**
   * What the Redis must have for the start not to be refused. With `replicas`, on a single server and behind sentinels,
   * each write, take, lease and log entry is answered once a replica has it.
   */
  durability: RedisDurability;
  /** Stands before every key and channel, where one Redis serves several. Default none. */
  keyPrefix?: string;
  /** How long a command waits for its answer before it rejects with `storage_unavailable`. */
  deadlineMilliseconds?: number;
  /** Between 0 and 1; spreads the attempts of processes to connect again. */
  random?: RandomNumber;
};

/**
 * Rejects with `RedisRefusedError` where the Redis must not be used, with `storage_unavailable` where it cannot be now, and
 * with a TypeError where the target cannot be read.
 */
export async function createRedisStore(options: RedisStoreOptions): Promise<Store> {
  const { durability, keyPrefix = '', deadlineMilliseconds = 300, random = Math.random } = options;
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
    const runWrite = waits ? createDurableWrites(await open()) : connection.run;
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

const PROBE_MILLISECONDS = 60_000;

/** A replica reads well, and so does a Redis without memory or disk; only a write shows that the store works. */
function createProbe(place: RedisPlace, runWrite: RunWrite, names: RedisNames): () => Promise<void> {
  const probes = place.kind === 'cluster' ? names.probes : names.probes.slice(0, 1);
  return async () => {
    await Promise.all(probes.map((key) => runWrite((client) => client.set(key, '', 'PX', PROBE_MILLISECONDS))));
  };
}

function once(work: () => Promise<void>): () => Promise<void> {
  let result: Promise<void> | undefined;
  return () => {
    result ??= work();
    return result;
  };
}
