/** Append-only logs in Redis: streams, whose ids ascend even if the server's clock is set back. */
import { assertOneTag } from '../key-tag.ts';
import { assertFinite, assertLimit, invalidCursor, pageOf } from '../paging.ts';
import type { LogPage, Store } from '../store.ts';
import type { RedisParts } from './records.ts';
import { runScript } from './scripts.ts';

type LogMethods = 'append' | 'readLog' | 'logEntries' | 'removeEntries';

export function redisLogs({ connection, runWrite, names }: RedisParts): Pick<Store, LogMethods> {
  return {
    async append(log, entries) {
      const keys = [log, ...entries.flatMap(({ indexes = [] }) => indexes)];
      assertOneTag(keys);
      const args = entries.flatMap(({ entry, at, indexes = [] }) => [assertFinite(at), entry, indexes.length]);
      const ids = await runWrite((client) => runScript(client, 'gatehouseAppend', keys.map(names.of), args));
      return (ids as string[]).map(String);
    },
    async readLog(log, { after, limit, order }) {
      const count = assertLimit(limit) + 1;
      const beyond = after === undefined ? undefined : `(${assertId(after)}`;
      const entries = await connection.run((client) =>
        order === 'descending'
          ? client.xrevrange(names.of(log), beyond ?? '+', '-', 'COUNT', count)
          : client.xrange(names.of(log), beyond ?? '-', '+', 'COUNT', count),
      );
      return pageOf(entries.map(readEntry), limit, ({ id }) => id);
    },
    async logEntries(log, ids) {
      const key = names.of(log);
      const results = await connection.run((client) =>
        Promise.all(ids.filter((id) => ID.test(id)).map((id) => client.xrange(key, id, id))),
      );
      return results.flat().map(readEntry);
    },
    async removeEntries(log, ids) {
      const validIds = ids.filter((id) => ID.test(id));
      if (validIds.length > 0) await connection.run((client) => client.xdel(names.of(log), ...validIds));
    },
  };
}

function readEntry([id, [, at, , entry = '']]: [id: string, fields: string[]]): LogPage['items'][number] {
  return { id, at: Number(at), entry };
}

/** Limits the digits so that Redis can parse both numbers. */
const ID = /^\d{1,15}-\d{1,15}$/;

function assertId(id: string): string {
  if (!ID.test(id)) throw invalidCursor();
  return id;
}
