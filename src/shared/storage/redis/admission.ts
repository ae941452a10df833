/** Checks a Redis at the start and while it is used: it must evict no keys, and lose none at a restart. */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { Cluster, type Redis } from 'ioredis';
import { AppError } from '../../errors.ts';
import { StorageRefused } from '../refused.ts';
import { StorageReplaced } from '../replaced.ts';
import type { Admission } from '../store.ts';
import type { RedisConnection } from './connection.ts';
import { causeCode } from './faults.ts';
import type { RedisNames } from './names.ts';
import type { RedisPlace } from './target.ts';

/** `aof`: an append-only file. `replicas`: at least one replica, which confirms each write. `none`: it may forget. */
export type RedisDurability = 'aof' | 'replicas' | 'none';

type Info = ReadonlyMap<string, string>;

/** What `master_replid2` is until a server takes over from another (Redis, INFO replication). */
const NO_FORMER_MASTER = /^0*$/;

/**
 * Asks `INFO`, because managed services refuse `CONFIG`. `INFO` does not say whether the append-only file is flushed after
 * each write (`appendfsync always`).
 */
export function createAdmission(parts: {
  connection: Pick<RedisConnection, 'client' | 'run'>;
  place: Pick<RedisPlace, 'kind'>;
  durability: RedisDurability;
  names: Pick<RedisNames, 'marks'>;
}) {
  const { connection, place, durability, names } = parts;
  const { client } = connection;
  /** The run ids of the servers at the last check. A server has a new one after each start. */
  let knownRuns: ReadonlySet<string> = new Set();
  // Redis Cluster has no way to wait for the replica of the node that wrote.
  const losesWrites = durability !== 'replicas' || place.kind === 'cluster';

  const ask = async (server: Redis): Promise<Info> => {
    try {
      return readInfo(await connection.run(() => server.info()));
    } catch (error) {
      if (error instanceof AppError && causeCode(error.cause) === 'NOPERM')
        throw new StorageRefused(`${nameOf(server)} does not allow INFO. Allow it to this user (ACL +info).`, error);
      throw error;
    }
  };
  const nameOf = ({ options: { host, port } }: Redis) =>
    client instanceof Cluster ? `The Redis at ${host}:${port}` : 'The Redis';

  const inspect = async (isStart: boolean): Promise<Admission> => {
    const servers = client instanceof Cluster ? client.nodes('master') : [client];
    const infos = await Promise.all(
      servers.map(async (server) => {
        const info = await ask(server);
        if (isStart && place.kind === 'single') await assertSingleMaster(connection, server, info);
        assertKeepsAll(nameOf(server), info, durability);
        if (isStart && durability === 'replicas') assertReplica(nameOf(server), info);
        return info;
      }),
    );
    const runs = infos.map((info) => ({ id: info.get('run_id') ?? '', former: info.get('master_replid2') ?? '' }));
    const hasNewMaster = runs.some(({ id, former }) => !knownRuns.has(id) && !NO_FORMER_MASTER.test(former));
    const failedOver = losesWrites && knownRuns.size > 0 && hasNewMaster;
    knownRuns = new Set(runs.map(({ id }) => id));
    return { failedOver };
  };

  /** What the marks of a cluster were at the first check. The identity of the store lies on one of its masters. */
  let knownMarks: readonly unknown[] | undefined;
  const assertWhole = async (): Promise<void> => {
    if (place.kind !== 'cluster') return;
    const each = <T>(command: (name: string) => Promise<T>) => Promise.all(names.marks.map(command));
    if (!knownMarks) await each((name) => connection.run((all) => all.set(name, randomUUID(), 'NX')));
    const found = await each((name) => connection.run((all) => all.get(name)));
    knownMarks ??= found;
    if (isDeepStrictEqual(found, knownMarks)) return;
    throw new StorageReplaced(
      'A master of the Redis cluster has lost its data. Bring the data back, and this process goes on. Otherwise restore a ' +
        'backup, and restart every Gatehouse process.',
    );
  };

  return {
    /** @throws StorageRefused, or AppError `storage_unavailable` if a server does not respond */
    atStart: () => inspect(true),
    /**
     * The same while Redis is used. A server that has become a replica, or has lost its replica, is left out: reads go on, and
     * the writes themselves are refused. @throws as above, StorageReplaced
     */
    async again() {
      await assertWhole();
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
  if (mode === 'cluster' && !(await servesAlone(connection, server)))
    throw new StorageRefused('The Redis is a node of a cluster. Set REDIS_CLUSTER instead of REDIS_URL.');
  if (info.get('role') !== 'slave') return;
  const master = `${info.get('master_host')}:${info.get('master_port')}`;
  throw new StorageRefused(
    `The Redis is a replica, which takes no writes. Name its master in REDIS_URL: ${master}. If sentinels decide which ` +
      'server is the master, set REDIS_SENTINELS instead.',
  );
}

/** A cluster with one master holds every slot, so it serves like a single server. A node that has just started reports size 1. */
async function servesAlone({ run }: Pick<RedisConnection, 'run'>, server: Redis): Promise<boolean> {
  const info = readInfo(String(await run(() => server.cluster('INFO')).catch(() => '')));
  return info.get('cluster_size') === '1' && info.get('cluster_slots_assigned') === '16384';
}

function assertReplica(name: string, info: Info): void {
  if (Number(info.get('connected_slaves')) >= 1) return;
  throw new StorageRefused(
    `${name} has no connected replica that would keep what it forgets. Connect one, or set REDIS_DURABILITY to aof or none.`,
  );
}

function assertKeepsAll(name: string, info: Info, durability: RedisDurability): void {
  const policy = info.get('maxmemory_policy');
  if (policy !== 'noeviction') {
    const found = policy === undefined ? 'it does not say its maxmemory-policy' : `its maxmemory-policy is ${policy}`;
    const evicted = Number(info.get('evicted_keys') ?? 0);
    const deleted = evicted > 0 ? `, and it has deleted ${evicted} keys since it was started` : '';
    throw new StorageRefused(
      `${name} may delete grants and sessions to make room: ${found}${deleted}. Set maxmemory-policy to noeviction.`,
    );
  }
  if (durability === 'aof' && info.get('aof_enabled') !== '1') {
    throw new StorageRefused(
      `${name} keeps no append-only file, so a restart would forget what was stored. Set appendonly to yes, ` +
        'or set REDIS_DURABILITY to replicas or none.',
    );
  }
}
