/** The shared store: a single Redis, a Redis behind sentinels, or a Redis cluster. */
import { once } from '../../once.ts';
import { MIN_FREE_BYTES, type Store } from '../store.ts';
import { createAdmission, type RedisDurability } from './admission.ts';
import type { RandomNumber } from './clients.ts';
import { openRedisConnection, type RedisConnection } from './connection.ts';
import { redisCopies } from './copies.ts';
import { createDurableWrites, type RunWrite } from './durable.ts';
import { redisIndexes } from './indexes.ts';
import { redisLogs } from './logs.ts';
import { openRedisMessages } from './messages.ts';
import { createRedisNames, type RedisNames } from './names.ts';
import { lifetimeMilliseconds, type RedisParts, redisRecords } from './records.ts';
import { runScript } from './scripts.ts';
import { type ClientCertificate, type RedisLocation, type RedisTarget, readTarget } from './target.ts';
import { redisWalk } from './walk.ts';

export type RedisStoreOptions = RedisTarget & {
  /**
   * The durability that Redis must have; without it, the start is refused. With `replicas`, on a single server and
   * behind sentinels, each write, lease and log entry waits until a replica has it.
   */
  durability: RedisDurability;
  /** Prefix of every key and channel, if several programs share one Redis. Default: none. */
  keyPrefix?: string;
  /** The certificate for a Redis that requires one. It needs TLS. */
  clientCertificate?: ClientCertificate | undefined;
  /**
   * The time after which a command without a response rejects with `storage_unavailable`, and its connection may end.
   */
  deadlineMilliseconds?: number;
  /** Returns a number between 0 and 1, which spreads the reconnects of processes. */
  random?: RandomNumber;
  /** Called when a lost connection is open again, before a command is sent on it. */
  onReconnect?: (() => void) | undefined;
};

const DEADLINE_MS = 2_000;

/**
 * @throws StorageRefused if the Redis must not be used, AppError `storage_unavailable` if it cannot be used now,
 *   TypeError if the target cannot be parsed
 */
export async function createRedisStore(options: RedisStoreOptions): Promise<Store> {
  const { durability, keyPrefix = '', deadlineMilliseconds = DEADLINE_MS, random = Math.random, onReconnect } = options;
  const location = readTarget(options);
  const names = createRedisNames(keyPrefix);
  const closers: (() => void | Promise<void>)[] = [];
  const closeAll = once(async () => {
    await Promise.all(closers.map((close) => close()));
  });
  const open = async (): Promise<RedisConnection> => {
    const connection = await openRedisConnection({ location, deadlineMilliseconds, random, onReconnect });
    closers.push(connection.close);
    return connection;
  };

  try {
    const connection = await open();
    const admission = createAdmission({ connection, location, durability, names });
    await admission.atStart();
    // Redis Cluster has no way to wait for the replica of the node that wrote.
    const waitsForReplica = durability === 'replicas' && location.kind !== 'cluster';
    const runWrite = waitsForReplica ? createDurableWrites(await open(), deadlineMilliseconds) : connection.run;
    const messages = await openRedisMessages({ location, connection, names, deadlineMilliseconds, random });
    closers.push(messages.close);
    const parts = { connection, runWrite, names };
    return {
      ...redisRecords(parts),
      ...redisWalk(parts),
      ...redisIndexes(parts),
      ...redisCounters(parts),
      ...redisLogs(parts),
      ...redisLeases(parts),
      ...redisCopies(parts),
      publish: messages.publish,
      subscribe: messages.subscribe,
      admit: admission.duringUse,
      ready: createProbe(location, runWrite, names),
      close: closeAll,
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/**
 * Creates `ready`. Only a write shows that the store works, because a replica or a Redis without memory or disk space
 * can still be read. Redis accepts any write until it exceeds `maxmemory`, so the second write shows that there was
 * memory for the first. Redis fills the first value with zeros itself, so nothing large is sent.
 */
function createProbe(location: RedisLocation, runWrite: RunWrite, names: RedisNames): Store['ready'] {
  const probes = location.kind === 'cluster' ? names.probes : names.probes.slice(0, 1);
  return async (bytes = 0) => {
    const probe = (key: string) =>
      runWrite((client) =>
        Promise.all([client.setrange(key, MIN_FREE_BYTES + bytes - 1, '1'), client.append(key, '1'), client.del(key)]),
      );
    await Promise.all(probes.map(probe));
  };
}

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

/** Leases by the server's clock, with the fencing number that reveals a stale holder. */
function redisLeases({ connection, runWrite, names }: RedisParts): Pick<Store, LeaseMethods> {
  const extend = async (lease: string, ...args: (string | number)[]) =>
    (await connection.run((client) => runScript(client, 'gatehouseExtend', [names.of(lease)], args))) === 1;
  return {
    // The lease is as durable as the writes that it protects: if a failover lost it, they would be refused.
    async acquireLease(lease, owner, milliseconds) {
      const args = [owner, Math.ceil(milliseconds)];
      const number = await runWrite((client) => runScript(client, 'gatehouseAcquire', [names.of(lease)], args));
      return typeof number === 'number' ? number : undefined;
    },
    renewLease: (lease, owner, milliseconds) => extend(lease, owner, Math.ceil(milliseconds)),
    releaseLease: (lease, owner) => extend(lease, owner),
  };
}
