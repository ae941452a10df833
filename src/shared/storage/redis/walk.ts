/** Walks over all records in Redis, and starts again if a failover or a move of slots has made its cursors invalid. */
import { Cluster, type Redis } from 'ioredis';
import type { KeyedRecord, Store } from '../store.ts';
import { unavailable } from '../unavailable.ts';
import type { RedisConnection } from './connection.ts';
import { type RedisParts, readRecord } from './records.ts';

const WALKED_AT_ONCE = 300;
/** An attempt fails only if servers or slots change. */
const MAX_ATTEMPTS = 5;

export function redisWalk(parts: RedisParts): Pick<Store, 'walk'> {
  const { connection, names } = parts;
  const readRecords = async (node: Redis, redisKeys: readonly string[]): Promise<KeyedRecord[]> => {
    const texts = await connection.run(() => Promise.all(redisKeys.map((name) => node.get(name))));
    return redisKeys.flatMap((name, n) => {
      const [key, text] = [names.keyOf(name), texts[n]];
      // Counters are texts, too, but do not begin with a version.
      return key !== undefined && text && /^\d+:/.test(text) ? [{ key, ...readRecord(text) }] : [];
    });
  };
  return {
    async *walk() {
      for await (const { node, redisKeys } of scanNames(parts, 'string')) {
        const page = await readRecords(node, redisKeys);
        if (page.length > 0) yield page;
      }
    },
  };
}

/**
 * Finds all names of that type, with the server that has them. A name may be returned more than once. A cursor of
 * `SCAN` is valid only in the process that returned it, so the walk is complete only if the servers have not changed.
 */
export async function* scanNames(
  { connection, names }: RedisParts,
  type: 'string' | 'zset' | 'stream',
): AsyncGenerator<{ node: Redis; redisKeys: string[] }> {
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
    const layout = await layoutOf(connection);
    for (const node of layout.masters) {
      let cursor = '0';
      do {
        const [nextCursor, redisKeys] = await connection.run(() =>
          node.scan(cursor, 'MATCH', names.pattern, 'COUNT', WALKED_AT_ONCE, 'TYPE', type),
        );
        cursor = nextCursor;
        yield { node, redisKeys };
      } while (cursor !== '0');
    }
    if ((await layoutOf(connection)).fingerprint === layout.fingerprint) return;
  }
  throw unavailable(`The servers changed during each of ${MAX_ATTEMPTS} attempts to read all records`);
}

interface Layout {
  masters: Redis[];
  /** Changes if a server restarts, or if slots move to another server. */
  fingerprint: string;
}

async function layoutOf(connection: RedisConnection): Promise<Layout> {
  const { client } = connection;
  if (!(client instanceof Cluster)) return { masters: [client], fingerprint: await runIdOf(connection, client) };
  const masters = client.nodes('master');
  const [first] = masters;
  if (!first) throw unavailable('The cluster has no master');
  const runIds = await Promise.all(masters.map((node) => runIdOf(connection, node)));
  const nodes = await connection.run(() => first.cluster('NODES'));
  return { masters, fingerprint: JSON.stringify([runIds.toSorted(), slotsOf(String(nodes))]) };
}

async function runIdOf(connection: RedisConnection, node: Redis): Promise<string> {
  const info = await connection.run(() => node.info('server'));
  return /^run_id:(\w+)/m.exec(info)?.[1] ?? '';
}

/**
 * Returns the slots of each server. Fields of each line: id, address, flags, master, ping, pong, epoch, link, and then
 * the slots, including moving ones.
 */
function slotsOf(nodes: string): string[] {
  const owners = nodes
    .trim()
    .split('\n')
    .map((line) => line.split(' '))
    .map(([id, , , , , , , , ...slots]) => [id, ...slots]);
  return owners
    .filter((owner) => owner.length > 1)
    .map((owner) => owner.join(' '))
    .toSorted();
}
