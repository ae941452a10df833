/** Ordered indexes in Redis: sorted sets. */
import { assertFinite, assertLimit, decodeCursor, encodeCursor, pageOf } from '../paging.ts';
import type { IndexPage, Store } from '../store.ts';
import type { RedisParts } from './records.ts';
import { runScript } from './scripts.ts';

export function redisIndexes({ connection, names }: RedisParts): Pick<Store, 'page' | 'count'> {
  const readFirst = async (key: string, limit: number, isDescending: boolean) => {
    const last = String(limit - 1);
    return membersOf(
      await connection.run((client) =>
        isDescending ? client.zrange(key, 0, last, 'REV', 'WITHSCORES') : client.zrange(key, 0, last, 'WITHSCORES'),
      ),
    );
  };
  const readBeyond = async (key: string, after: string, limit: number, isDescending: boolean) => {
    const { score, member } = decodeCursor(after);
    const args = [score, member, limit, isDescending ? 'descending' : 'ascending'];
    const flat = await connection.run((client) => runScript(client, 'gatehousePage', [key], args));
    const items = membersOf(flat as string[]);
    return isDescending ? items.reverse() : items;
  };
  return {
    async page(index, { after, limit, order }) {
      const isDescending = order === 'descending';
      const key = names.of(index);
      const count = assertLimit(limit) + 1;
      const items =
        after === undefined
          ? await readFirst(key, count, isDescending)
          : await readBeyond(key, after, count, isDescending);
      return pageOf(items, limit, encodeCursor);
    },
    count: (index, upTo) =>
      connection.run((client) =>
        upTo === undefined ? client.zcard(names.of(index)) : client.zcount(names.of(index), '-inf', assertFinite(upTo)),
      ),
  };
}

/** Returns the members of an index. @param flat alternating members and scores, as Redis returns them */
export function membersOf(flat: readonly string[]): IndexPage['items'] {
  const items: IndexPage['items'] = [];
  for (let n = 0; n + 1 < flat.length; n += 2) items.push({ member: flat[n] ?? '', score: Number(flat[n + 1]) });
  return items;
}
