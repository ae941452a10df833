/** Checks at the start and during use that a Redis does not evict keys, or lose them at a restart. */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { Cluster, type Redis } from 'ioredis';
import { StorageRefused } from '../refused.ts';
import { StorageReplaced } from '../replaced.ts';
import type { Admission } from '../store.ts';
import type { RedisConnection } from './connection.ts';
import type { RedisNames } from './names.ts';
import { asRefusedPermission, assertPermitted, CLUSTER_COMMANDS, REPLICA_COMMANDS } from './permissions.ts';
import type { RedisLocation } from './target.ts';

/**
 * `aof`: an append-only file. `replicas`: at least one replica, which confirms each write. `none`: data may be lost.
 */
export type RedisDurability = 'aof' | 'replicas' | 'none';

type Info = ReadonlyMap<string, string>;

/** The value of `master_replid2` on a server that has never taken over from another (Redis, INFO replication). */
const NO_FORMER_MASTER = /^0*$/;

/**
 * Uses `INFO`, because managed services refuse `CONFIG`. `INFO` does not say whether the append-only file is flushed
 * after each write (`appendfsync always`).
 */
export function createAdmission(parts: {
  connection: Pick<RedisConnection, 'client' | 'run'>;
  location: Pick<RedisLocation, 'kind'>;
  durability: RedisDurability;
  names: Pick<RedisNames, 'marks' | 'of'>;
}) {
  const { connection, location, durability, names } = parts;
  const { client } = connection;
  /** The run ids of the servers at the last check. A server has a new run id after each start. */
  let lastRunIds: ReadonlySet<string> = new Set();
  // Redis Cluster has no way to wait for the replica of the node that wrote.
  const losesWrites = durability !== 'replicas' || location.kind === 'cluster';
  const further = [...(location.kind === 'cluster' ? CLUSTER_COMMANDS : []), ...(losesWrites ? [] : REPLICA_COMMANDS)];

  const fetchInfo = async (server: Redis): Promise<Info> => {
    try {
      return readInfo(await connection.run(() => server.info()));
    } catch (error) {
      throw asRefusedPermission(error, nameOf(server));
    }
  };
  const nameOf = ({ options: { host, port } }: Redis) =>
    client instanceof Cluster ? `The Redis at ${host}:${port}` : 'The Redis';

  const inspect = async (isStart: boolean): Promise<Admission> => {
    const servers = client instanceof Cluster ? client.nodes('master') : [client];
    const infos = await Promise.all(
      servers.map(async (server) => {
        const info = await fetchInfo(server);
        if (isStart && location.kind === 'single') await assertSingleMaster(connection, server, info);
        assertRetainsData(nameOf(server), info, durability);
        await assertPermitted({ run: connection.run, server, serverName: nameOf(server), names, further });
        if (isStart && durability === 'replicas') assertReplica(nameOf(server), info);
        return info;
      }),
    );
    const serverRuns = infos.map((info) => ({
      id: info.get('run_id') ?? '',
      former: info.get('master_replid2') ?? '',
    }));
    const hasNewMaster = serverRuns.some(({ id, former }) => !lastRunIds.has(id) && !NO_FORMER_MASTER.test(former));
    const failedOver = losesWrites && lastRunIds.size > 0 && hasNewMaster;
    lastRunIds = new Set(serverRuns.map(({ id }) => id));
    return { failedOver };
  };

  /** The marks of a cluster at the first check. They are needed because only one master has the store's identity. */
  let firstMarks: readonly unknown[] | undefined;
  const assertComplete = async (): Promise<void> => {
    if (location.kind !== 'cluster') return;
    const each = <T>(command: (name: string) => Promise<T>) => Promise.all(names.marks.map(command));
    if (!firstMarks) await each((name) => connection.run((cluster) => cluster.set(name, randomUUID(), 'NX')));
    const marks = await each((name) => connection.run((cluster) => cluster.get(name)));
    firstMarks ??= marks;
    if (isDeepStrictEqual(marks, firstMarks)) return;
    throw new StorageReplaced(
      'A master of the Redis cluster has lost its data. Bring the data back, and this process continues. Otherwise restore a ' +
        'backup, and restart every Gatehouse process.',
    );
  };

  return {
    /** @throws StorageRefused, or AppError `storage_unavailable` if a server does not respond */
    atStart: () => inspect(true),
    /**
     * Repeats the checks of the start. A server that has become a replica, or has lost its replica, is accepted: it can
     * still be read, and it refuses the writes itself.
     * @throws as `atStart`, and StorageReplaced
     */
    async duringUse() {
      await assertComplete();
      return inspect(false);
    },
  };
}

function readInfo(text: string): Info {
  const lines = text.split('\r\n').filter((line) => line.includes(':'));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]));
}

async function assertSingleMaster(connection: Pick<RedisConnection, 'run'>, server: Redis, info: Info): Promise<void> {
  const mode = info.get('redis_mode');
  if (mode === 'sentinel')
    throw new StorageRefused('The Redis is a sentinel. Set REDIS_SENTINELS instead of REDIS_URL.');
  if (mode === 'cluster' && !(await servesAllSlots(connection, server)))
    throw new StorageRefused('The Redis is a node of a cluster. Set REDIS_CLUSTER instead of REDIS_URL.');
  if (info.get('role') !== 'slave') return;
  const master = `${info.get('master_host')}:${info.get('master_port')}`;
  throw new StorageRefused(
    `The Redis is a replica, which accepts no writes. Name its master in REDIS_URL: ${master}. If sentinels decide which ` +
      'server is the master, set REDIS_SENTINELS instead.',
  );
}

/**
 * A cluster with one master has every slot, so it works like a single server. A node that was just started reports size
 * 1.
 */
async function servesAllSlots({ run }: Pick<RedisConnection, 'run'>, server: Redis): Promise<boolean> {
  const text = await run(() => server.cluster('INFO')).catch((error: unknown) => {
    throw asRefusedPermission(error, 'The Redis, a node of a cluster,');
  });
  const info = readInfo(String(text));
  return info.get('cluster_size') === '1' && info.get('cluster_slots_assigned') === '16384';
}

function assertReplica(name: string, info: Info): void {
  if (Number(info.get('connected_slaves')) >= 1) return;
  throw new StorageRefused(
    `${name} has no connected replica, so a restart would lose data. Connect one, or set REDIS_DURABILITY to aof or none.`,
  );
}

function assertRetainsData(name: string, info: Info, durability: RedisDurability): void {
  const policy = info.get('maxmemory_policy');
  if (policy !== 'noeviction') {
    const reason =
      policy === undefined ? 'it does not report its maxmemory-policy' : `its maxmemory-policy is ${policy}`;
    const evictedKeys = Number(info.get('evicted_keys') ?? 0);
    const evictionNote = evictedKeys > 0 ? `, and it has deleted ${evictedKeys} keys since its start` : '';
    throw new StorageRefused(
      `${name} may delete grants and sessions to free memory: ${reason}${evictionNote}. Set maxmemory-policy to noeviction.`,
    );
  }
  if (durability === 'aof' && info.get('aof_enabled') !== '1') {
    throw new StorageRefused(
      `${name} has no append-only file, so a restart would lose data. Set appendonly to yes, or set REDIS_DURABILITY to ` +
        'replicas or none.',
    );
  }
}
