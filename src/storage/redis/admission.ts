/** What a Redis must promise before Gatehouse keeps anything in it: to delete nothing on its own, and to forget nothing. */

import { Cluster, type Redis } from 'ioredis';
import { toStoreError } from './faults.ts';
import { RedisRefusedError } from './refused.ts';

/** `aof`: an append-only file. `replicas`: at least one replica, which confirms each write. `none`: it may forget. */
export type RedisDurability = 'aof' | 'replicas' | 'none';

/**
 * Rejects with `RedisRefusedError`, or `storage_unavailable` where there is no answer. Asks `INFO`, since managed services
 * refuse `CONFIG`; whether the append-only file is written through at once (`appendfsync always`) does not stand there.
 */
export async function admitRedis(client: Redis | Cluster, durability: RedisDurability): Promise<void> {
  const servers = client instanceof Cluster ? client.nodes('master') : [client];
  await Promise.all(
    servers.map(async (server) => {
      const name =
        client instanceof Cluster ? `The Redis at ${server.options.host}:${server.options.port}` : 'The Redis';
      const info = readInfo(await askInfo(server, name));
      if (server === client) await assertSingleServer(server, info.get('redis_mode'));
      judge(name, info, durability);
    }),
  );
}

async function askInfo(server: Redis, name: string): Promise<string> {
  try {
    return await server.info();
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('NOPERM')) {
      throw new RedisRefusedError('unknown', `${name} does not allow INFO. Allow it to this user (ACL +info).`, error);
    }
    throw toStoreError(error);
  }
}

function readInfo(text: string): Map<string, string> {
  const lines = text.split('\r\n').filter((line) => line.includes(':'));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]));
}

async function assertSingleServer(server: Redis, mode: string | undefined): Promise<void> {
  const refuse = (kind: string, setting: string) => {
    throw new RedisRefusedError('wrong_setting', `The Redis is a ${kind}. Set ${setting} instead of REDIS_URL.`);
  };
  if (mode === 'sentinel') refuse('sentinel', 'REDIS_SENTINELS');
  if (mode === 'cluster' && !(await servesAlone(server))) refuse('node of a cluster', 'REDIS_CLUSTER');
}

/** A cluster of one master holds every slot, so it serves as a single server does. A node that has just started says size 1. */
async function servesAlone(server: Redis): Promise<boolean> {
  const info = readInfo(String(await server.cluster('INFO').catch(() => '')));
  return info.get('cluster_size') === '1' && info.get('cluster_slots_assigned') === '16384';
}

function judge(name: string, info: ReadonlyMap<string, string>, durability: RedisDurability): void {
  const policy = info.get('maxmemory_policy');
  if (policy !== 'noeviction') {
    const said = policy === undefined ? 'it does not say its maxmemory-policy' : `its maxmemory-policy is ${policy}`;
    throw new RedisRefusedError(
      policy === undefined ? 'unknown' : 'may_evict',
      `${name} may delete grants and sessions to make room: ${said}. Set maxmemory-policy to noeviction.`,
    );
  }
  if (durability === 'aof' && info.get('aof_enabled') !== '1') {
    throw new RedisRefusedError(
      'may_forget',
      `${name} keeps no append-only file, so a restart would forget what was stored. Set appendonly to yes, ` +
        'or set REDIS_DURABILITY to replicas or none.',
    );
  }
  if (durability === 'replicas' && !(Number(info.get('connected_slaves')) >= 1)) {
    throw new RedisRefusedError(
      'no_replica',
      `${name} has no connected replica that would keep what it forgets. Connect one, or set REDIS_DURABILITY to aof or none.`,
    );
  }
}
