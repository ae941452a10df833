/** Owns append-only logs in Redis: streams, whose ids ascend even when the server's clock steps back. */

import { invalidCursor } from './index-cursor.ts';
import { assertLimit } from './redis-indexes.ts';
import type { RedisParts } from './redis-records.ts';
import { runScript } from './redis-scripts.ts';
import type { LogPage, Store } from './store.ts';

const TRIM_BATCH = 500;

export function redisLogs({ connection, runWrite, names }: RedisParts): Pick<Store, 'append' | 'readLog' | 'trimLog'> {
  return {
    async append(log, entry, at) {
      // The script that trims relies on `at` being the first field.
      const id = await runWrite((client) => client.xadd(names.of(log), '*', 'at', at, 'entry', entry));
      if (id === null) throw new Error('Redis gave a log entry no id.');
      return id;
    },
    async readLog(log, { after, limit, order }) {
      const most = assertLimit(limit) + 1;
      const beyond = after === undefined ? undefined : `(${assertId(after)}`;
      const entries = await connection.run((client) =>
        order === 'descending'
          ? client.xrevrange(names.of(log), beyond ?? '+', '-', 'COUNT', most)
          : client.xrange(names.of(log), beyond ?? '-', '+', 'COUNT', most),
      );
      const items = entries.slice(0, limit).map(readEntry);
      const last = items.at(-1);
      return entries.length > limit && last !== undefined ? { items, next: last.id } : { items };
    },
    async trimLog(log, before) {
      let trimmed = 0;
      for (;;) {
        const args = [before, TRIM_BATCH];
        const batch = Number(
          await connection.run((client) => runScript(client, 'gatehouseTrim', [names.of(log)], args)),
        );
        trimmed += batch;
        if (batch < TRIM_BATCH) return trimmed;
      }
    },
  };
}

function readEntry([id, [, at, , entry = '']]: [id: string, fields: string[]]): LogPage['items'][number] {
  return { id, at: Number(at), entry };
}

/** Bounded, so that Redis can read both numbers. */
function assertId(id: string): string {
  if (!/^\d{1,15}-\d{1,15}$/.test(id)) throw invalidCursor();
  return id;
}
