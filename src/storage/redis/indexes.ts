/** Ordered indexes in Redis: sorted sets, and the pages over them. */

import { assertLimit, decodeCursor, encodeCursor, pageOf } from '../paging.ts';
import type { IndexPage, Store } from '../store.ts';
import type { RedisConnection } from './connection.ts';
import type { RedisParts } from './records.ts';
import { runScript } from './scripts.ts';

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
      return pageOf(found, limit, encodeCursor);
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
