/** Owns ordered indexes in Redis: sorted sets, and the pages over them. */

import { decodeCursor, encodeCursor } from './index-cursor.ts';
import type { RedisConnection } from './redis-connection.ts';
import type { RedisParts } from './redis-records.ts';
import { runScript } from './redis-scripts.ts';
import type { IndexPage, Store } from './store.ts';

type Order = 'ascending' | 'descending';

export function redisIndexes({ connection, names }: RedisParts): Pick<Store, 'page' | 'count'> {
  return {
    async page(index, { after, limit, order = 'ascending' }) {
      const most = assertLimit(limit) + 1;
      const key = names.of(index);
      const found =
        after === undefined
          ? await readFirst(connection, key, most, order)
          : await readBeyond(connection, key, after, most, order);
      const items = found.slice(0, limit);
      const last = items.at(-1);
      return found.length > limit && last !== undefined ? { items, next: encodeCursor(last) } : { items };
    },
    count: (index) => connection.run((client) => client.zcard(names.of(index))),
  };
}

async function readFirst(
  connection: RedisConnection,
  key: string,
  most: number,
  order: Order,
): Promise<IndexPage['items']> {
  const flat = await connection.run((client) =>
    order === 'descending'
      ? client.zrange(key, 0, String(most - 1), 'REV', 'WITHSCORES')
      : client.zrange(key, 0, String(most - 1), 'WITHSCORES'),
  );
  return pairs(flat);
}

async function readBeyond(
  connection: RedisConnection,
  key: string,
  after: string,
  most: number,
  order: Order,
): Promise<IndexPage['items']> {
  const { score, member } = decodeCursor(after);
  const args = [score, member, most, order];
  const flat = await connection.run((client) => runScript(client, 'gatehousePage', [key], args));
  const items = pairs(flat as string[]);
  return order === 'descending' ? items.reverse() : items;
}

/** Redis answers member, score, member, score. */
function pairs(flat: readonly string[]): IndexPage['items'] {
  const items: IndexPage['items'] = [];
  for (let at = 0; at + 1 < flat.length; at += 2) items.push({ member: flat[at] ?? '', score: Number(flat[at + 1]) });
  return items;
}

export function assertLimit(limit: number): number {
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw new TypeError('The limit of a page must be a whole number from 1.');
  }
  return limit;
}
