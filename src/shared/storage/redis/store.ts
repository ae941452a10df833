/** The shared store: one Redis, a Redis behind sentinels, or a Redis cluster. */
import { once } from '../../once.ts';
import { MIN_FREE_BYTES, type Store } from '../store.ts';
import { createAdmission, type RedisDurability } from './admission.ts';
import type { RandomNumber } from './clients.ts';
import { openRedisConnection, type RedisConnection } from './connection.ts';
import { redisCopies } from './copies.ts';
import { createDurableWrites, type RunWrite } from './durable.ts';
import { redisIndexes } from './indexes.ts';
import { redisLogs } from './logs.ts';
import { createRedisNames, type RedisNames } from './names.ts';
import { openRedisNotices } from './notices.ts';
import { lifetimeMilliseconds, type RedisParts, redisRecords } from './records.ts';
import { runScript } from './scripts.ts';
import { type ClientCertificate, type RedisPlace, type RedisTarget, readTarget } from './target.ts';
import { redisWalk } from './walk.ts';

export type RedisStoreOptions = RedisTarget & {
  /**
   * What Redis must have, or the start is refused. With `replicas`, on a single server and behind sentinels, each write,
   * lease and log entry waits until a replica has it.
   */
  durability: RedisDurability;
  /** Stands before every key and channel, if several programs use one Redis. Default none. */
  keyPrefix?: string;
  /** For a Redis that wants one; only over TLS. */
  clientCertificate?: ClientCertificate | undefined;
  /** How long a command waits for its response before it rejects with `storage_unavailable`, and its connection ends. */
  deadlineMilliseconds?: number;
  /** Between 0 and 1; spreads the reconnects of processes. */
  random?: RandomNumber;
  /** Called in the moment in which a connection that was lost is there again, before a command is sent on it. */
  onReconnect?: (() => void) | undefined;
};

const DEADLINE_MS = 2_000;

/**
 * @throws StorageRefused if the Redis must not be used, AppError `storage_unavailable` if it cannot be used now, TypeError if
 *   the target cannot be parsed
 */
export async function createRedisStore(options: RedisStoreOptions): Promise<Store> {
  const { durability, keyPrefix = '', deadlineMilliseconds = DEADLINE_MS, random = Math.random, onReconnect } = options;
  const place = readTarget(options);
  const names = createRedisNames(keyPrefix);
  const closers: (() => void | Promise<void>)[] = [];
  const closeAll = once(async () => {
    await Promise.all(closers.map((close) => close()));
  });
  const open = async (): Promise<RedisConnection> => {
    const connection = await openRedisConnection({ place, deadlineMilliseconds, random, onReconnect });
    closers.push(connection.close);
    return connection;
  };

  try {
    const connection = await open();
    const admission = createAdmission({ connection, place, durability, names });
    await admission.atStart();
    // Redis Cluster has no way to wait for the replica of the node that wrote.
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
      admit: admission.again,
      ready: createProbe(place, runWrite, names),
      close: closeAll,
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/**
 * A replica can be read, and so can a Redis without memory or disk: only a write shows that the store works. Redis accepts
 * any write until it is past `maxmemory`, so the second write shows that there was room for the first. Redis fills that one
 * with zeros itself, so nothing large is sent.
 */
function createProbe(place: RedisPlace, runWrite: RunWrite, names: RedisNames): Store['ready'] {
  const probes = place.kind === 'cluster' ? names.probes : names.probes.slice(0, 1);
  return async (bytes = 0) => {
    const probe = (key: string) =>
      runWrite((client) =>
        Promise.all([client.setrange(key, MIN_FREE_BYTES + bytes - 1, '1'), client.append(key, '1'), client.del(key)]),
      );
    await Promise.all(probes.map(probe));
  };
}

/** Counters with a lifetime. */
function redisCounters({ connection, names }: RedisParts): Pick<Store, 'increment' | 'counter'> {
  return {
    async increment(key, by, { lifetimeSeconds, limit }) {
      const args = [by, lifetimeMilliseconds(lifetimeSeconds), limit ?? ''];
      const value = await connection.run((client) => runScript(client, 'gatehouseIncrement', [names.of(key)], args));
      return typeof value === 'number' ? value : undefined;
    },
    counter: async (key) => Number(await connection.run((client) => client.get(names.of(key)))),
  };
}

type LeaseMethods = 'acquireLease' | 'renewLease' | 'releaseLease';

/** Leases: the owner of each by the server's clock, and the fencing number that reveals a stale holder. */
function redisLeases({ connection, runWrite, names }: RedisParts): Pick<Store, LeaseMethods> {
  const extend = async (lease: string, ...args: (string | number)[]) =>
    (await connection.run((client) => runScript(client, 'gatehouseExtend', [names.of(lease)], args))) === 1;
  return {
    // As durable as the writes that it protects: if a failover lost the lease, its holder could store nothing.
    async acquireLease(lease, owner, milliseconds) {
      const args = [owner, Math.ceil(milliseconds)];
      const number = await runWrite((client) => runScript(client, 'gatehouseAcquire', [names.of(lease)], args));
      return typeof number === 'number' ? number : undefined;
    },
    renewLease: (lease, owner, milliseconds) => extend(lease, owner, Math.ceil(milliseconds)),
    releaseLease: (lease, owner) => extend(lease, owner),
  };
}
