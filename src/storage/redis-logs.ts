/** Owns append-only logs in Redis: streams, whose ids ascend even when the server's clock steps back. */

import { invalidCursor } from './index-cursor.ts';
import { assertOneTag } from './key-tag.ts';
import { assertLimit } from './redis-indexes.ts';
import type { RedisParts } from './redis-records.ts';
import { runScript } from './redis-scripts.ts';
import type { LogPage, Store } from './store.ts';

const TRIM_BATCH = 500;

type LogMethods = 'append' | 'readLog' | 'logEntries' | 'trimLog';

export function redisLogs({ connection, runWrite, names }: RedisParts): Pick<Store, LogMethods> {
  return {
    async append(log, entry, at, indexes = []) {
      assertOneTag([log, ...indexes]);
      const keys = [log, ...indexes].map(names.of);
      const id = await runWrite((client) => runScript(client, 'gatehouseAppend', keys, [assertTime(at), entry]));
      return String(id);
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
    async logEntries(log, ids) {
      const key = names.of(log);
      const found = await connection.run((client) =>
        Promise.all(ids.filter((id) => ID.test(id)).map((id) => client.xrange(key, id, id))),
      );
      return found.flat().map(readEntry);
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

function assertTime(at: number): number {
  if (!Number.isFinite(at)) throw new TypeError('The time of a log entry must be a finite number.');
  return at;
}

/** Bounded, so that Redis can read both numbers. */
const ID = /^\d{1,15}-\d{1,15}$/;

function assertId(id: string): string {
  if (!ID.test(id)) throw invalidCursor();
  return id;
}
