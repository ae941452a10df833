/** Checks a Redis before Gatehouse uses it: it must evict no keys, and lose none at a restart. */
import { Cluster, type Redis } from 'ioredis';
import { StorageRefused } from '../refused.ts';
import { toStoreError } from './faults.ts';

/** `aof`: an append-only file. `replicas`: at least one replica, which confirms each write. `none`: it may forget. */
export type RedisDurability = 'aof' | 'replicas' | 'none';

/**
 * Asks `INFO`, because managed services refuse `CONFIG`. `INFO` does not say whether the append-only file is flushed after
 * each write (`appendfsync always`).
 * @throws StorageRefused, or AppError `storage_unavailable` if a server does not answer
 */
export async function admitRedis(client: Redis | Cluster, durability: RedisDurability): Promise<void> {
  const servers = client instanceof Cluster ? client.nodes('master') : [client];
  await Promise.all(
    servers.map(async (server) => {
      const name =
        client instanceof Cluster ? `The Redis at ${server.options.host}:${server.options.port}` : 'The Redis';
      const info = readInfo(await askInfo(server, name));
      if (server === client) await assertSingleServer(server, info.get('redis_mode'));
      assertDurable(name, info, durability);
    }),
  );
}

async function askInfo(server: Redis, name: string): Promise<string> {
  try {
    return await server.info();
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('NOPERM'))
      throw new StorageRefused(`${name} does not allow INFO. Allow it to this user (ACL +info).`, error);
    throw toStoreError(error);
  }
}

function readInfo(text: string): Map<string, string> {
  const lines = text.split('\r\n').filter((line) => line.includes(':'));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]));
}

async function assertSingleServer(server: Redis, mode: string | undefined): Promise<void> {
  if (mode === 'sentinel')
    throw new StorageRefused('The Redis is a sentinel. Set REDIS_SENTINELS instead of REDIS_URL.');
  if (mode === 'cluster' && !(await servesAlone(server)))
    throw new StorageRefused('The Redis is a node of a cluster. Set REDIS_CLUSTER instead of REDIS_URL.');
}

/** A cluster with one master holds every slot, so it serves like a single server. A node that has just started reports size 1. */
async function servesAlone(server: Redis): Promise<boolean> {
  const info = readInfo(String(await server.cluster('INFO').catch(() => '')));
  return info.get('cluster_size') === '1' && info.get('cluster_slots_assigned') === '16384';
}

function assertDurable(name: string, info: ReadonlyMap<string, string>, durability: RedisDurability): void {
  const policy = info.get('maxmemory_policy');
  if (policy !== 'noeviction') {
    const found = policy === undefined ? 'it does not say its maxmemory-policy' : `its maxmemory-policy is ${policy}`;
    throw new StorageRefused(
      `${name} may delete grants and sessions to make room: ${found}. Set maxmemory-policy to noeviction.`,
    );
  }
  if (durability === 'aof' && info.get('aof_enabled') !== '1') {
    throw new StorageRefused(
      `${name} keeps no append-only file, so a restart would forget what was stored. Set appendonly to yes, ` +
        'or set REDIS_DURABILITY to replicas or none.',
    );
  }
  if (durability === 'replicas' && !(Number(info.get('connected_slaves')) >= 1)) {
    throw new StorageRefused(
      `${name} has no connected replica that would keep what it forgets. Connect one, or set REDIS_DURABILITY to aof or none.`,
    );
  }
}
