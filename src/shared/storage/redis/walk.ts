/** Walks over all records in Redis, and starts again if a failover or a move of slots has made its positions invalid. */
import { Cluster, type Redis } from 'ioredis';
import type { KeyedRecord, Store } from '../store.ts';
import { unavailable } from '../unavailable.ts';
import type { RedisConnection } from './connection.ts';
import { type RedisParts, readRecord } from './records.ts';

const WALKED_AT_ONCE = 300;
/** If neither servers nor slots change, the first attempt succeeds. */
const MAX_ATTEMPTS = 5;

export function redisWalk(parts: RedisParts): Pick<Store, 'walk'> {
  const { connection, names } = parts;
  const records = async (node: Redis, found: readonly string[]): Promise<KeyedRecord[]> => {
    const texts = await connection.run(() => Promise.all(found.map((name) => node.get(name))));
    return found.flatMap((name, at) => {
      const [key, text] = [names.keyOf(name), texts[at]];
      // Counters are texts as well, but do not begin with a version.
      return key !== undefined && text && /^\d+:/.test(text) ? [{ key, ...readRecord(text) }] : [];
    });
  };
  return {
    async *walk() {
      for await (const { node, found } of scanNames(parts, 'string')) {
        const page = await records(node, found);
        if (page.length > 0) yield page;
      }
    },
  };
}

/**
 * All names of that type, with the server that has them. A name may come more than once.
 * A cursor of `SCAN` is valid only in the process that returned it, so the walk is complete if the servers have not changed.
 */
export async function* scanNames(
  { connection, names }: RedisParts,
  type: 'string' | 'zset' | 'stream',
): AsyncGenerator<{ node: Redis; found: string[] }> {
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
    const before = await layoutOf(connection);
    for (const node of before.masters) {
      let cursor = '0';
      do {
        const [next, found] = await connection.run(() =>
          node.scan(cursor, 'MATCH', names.pattern, 'COUNT', WALKED_AT_ONCE, 'TYPE', type),
        );
        cursor = next;
        yield { node, found };
      } while (cursor !== '0');
    }
    if ((await layoutOf(connection)).mark === before.mark) return;
  }
  throw unavailable('The servers changed again and again while their records were walked');
}

interface Layout {
  masters: Redis[];
  /** Changes if a server restarts, or if slots move to another server. */
  mark: string;
}

async function layoutOf(connection: RedisConnection): Promise<Layout> {
  const { client } = connection;
  if (!(client instanceof Cluster)) return { masters: [client], mark: await runIdOf(connection, client) };
  const masters = client.nodes('master');
  const [first] = masters;
  if (!first) throw unavailable('The cluster has no master');
  const runIds = await Promise.all(masters.map((node) => runIdOf(connection, node)));
  const nodes = await connection.run(() => first.cluster('NODES'));
  return { masters, mark: JSON.stringify([runIds.toSorted(), slotsOf(String(nodes))]) };
}

async function runIdOf(connection: RedisConnection, node: Redis): Promise<string> {
  const info = await connection.run(() => node.info('server'));
  return /^run_id:(\w+)/m.exec(info)?.[1] ?? '';
}

/** Each line: id, address, flags, master, ping, pong, epoch, link, and then the slots, including those that are moving. */
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
