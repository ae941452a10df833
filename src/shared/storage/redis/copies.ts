/** Copies of the data in Redis: reads it tag by tag while other processes write, and loads it. */
import { allPages } from '../paging.ts';
import { StorageRefused } from '../refused.ts';
import { retryWhileUnavailable } from '../retry.ts';
import type { CopyItem, PageOptions, Store } from '../store.ts';
import { membersOf, redisIndexes } from './indexes.ts';
import { createKeyList } from './key-list.ts';
import { redisLogs } from './logs.ts';
import { type RedisParts, readRecord } from './records.ts';
import { runScript } from './scripts.ts';
import { scanNames } from './walk.ts';

type CopyMethods = 'dump' | 'load' | 'logIdAt' | 'clear';

/** Keys of one tag that are read together. Small enough not to delay other commands of Redis. */
const KEYS_PER_GROUP = 64;
const GROUPS_AT_ONCE = 64;
/** Indexes with more members, and all logs, are read in pages of this size. */
const PAGE = 1_000;
/** Writes that are sent at once: few enough that all are on disk before the deadline of a command. */
const WRITES_AT_ONCE = 200;
/** The first version with `PEXPIRETIME`. */
const OLDEST_VERSION = 7;

export function redisCopies(parts: RedisParts): Pick<Store, CopyMethods> {
  const { runWrite, names } = parts;
  return {
    dump: () => dump(parts),
    load: (items) => load(parts, items),
    // The ids that a stream generates are times, so they are higher.
    logIdAt: (position) => `0-${position}`,
    async clear(exceptKey) {
      for await (const items of dump(parts)) {
        const keys = new Set(items.map(keyOf));
        keys.delete(exceptKey);
        await Promise.all([...keys].map((key) => runWrite((client) => client.unlink(names.of(key)))));
      }
    },
  };
}

function keyOf(item: CopyItem): string {
  if ('record' in item) return item.record;
  if ('index' in item) return item.index;
  return 'counter' in item ? item.counter : item.log;
}

async function* dump(parts: RedisParts): AsyncGenerator<CopyItem[]> {
  await assertVersion(parts);
  const { page } = redisIndexes(parts);
  const { readLog } = redisLogs(parts);
  const list = createKeyList();
  try {
    const logs = await logsOf(parts);
    for await (const keys of keysOf(parts, 'string')) list.add(keys, false);
    for await (const keys of keysOf(parts, 'zset')) list.add(keys, true);
    for (const log of logs) {
      const read = (options: PageOptions) => retryWhileUnavailable(() => readLog(log, options));
      for await (const entries of allPages(read, PAGE)) yield entries.map((entry) => ({ log, ...entry }));
    }
    for (const groups of inBatches(list.inGroups(KEYS_PER_GROUP))) {
      const results = await Promise.all(groups.map((keys) => retryWhileUnavailable(() => readTogether(parts, keys))));
      const items = results.flatMap((result) => result.items);
      if (items.length > 0) yield items;
      for (const index of results.flatMap((result) => result.largeIndexes)) {
        const read = (options: PageOptions) => retryWhileUnavailable(() => page(index, options));
        for await (const members of allPages(read, PAGE)) yield members.map((member) => ({ index, ...member }));
      }
    }
  } finally {
    list.close();
  }
}

async function assertVersion({ connection }: RedisParts): Promise<void> {
  const info = await connection.run((client) => client.info('server'));
  const version = /^redis_version:(\S+)/m.exec(info)?.[1] ?? '';
  if (Number.parseInt(version, 10) >= OLDEST_VERSION) return;
  throw new StorageRefused(`Copies need Redis ${OLDEST_VERSION} or later; this one has version ${version}.`);
}

async function logsOf(parts: RedisParts): Promise<string[]> {
  const keys = await Array.fromAsync(keysOf(parts, 'stream'));
  return [...new Set(keys.flat())].toSorted();
}

/** Finds all keys of this type. A key may be returned more than once. */
async function* keysOf(parts: RedisParts, type: 'string' | 'zset' | 'stream'): AsyncGenerator<string[]> {
  for await (const { redisKeys } of scanNames(parts, type))
    yield redisKeys.map(parts.names.keyOf).filter((key) => key !== undefined);
}

function* inBatches<T>(items: Iterable<T>): Generator<T[]> {
  let batch: T[] = [];
  for (const item of items) {
    batch.push(item);
    if (batch.length < GROUPS_AT_ONCE) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

type ReadResult = ['text', text: string, expiresAt: number] | ['index', flat: string[]] | [type: string];

async function readTogether(
  { connection, names }: RedisParts,
  keys: readonly string[],
): Promise<{ items: CopyItem[]; largeIndexes: string[] }> {
  const results = (await connection.run((client) =>
    runScript(client, 'gatehouseRead', keys.map(names.of), [PAGE]),
  )) as ReadResult[];
  const items: CopyItem[] = [];
  const largeIndexes: string[] = [];
  for (const [n, result] of results.entries()) {
    const key = keys[n] ?? '';
    if (isText(result)) items.push(...textItem(key, result[1], result[2]));
    else if (isIndex(result)) items.push(...membersOf(result[1]).map((member) => ({ index: key, ...member })));
    else if (result[0] === 'zset') largeIndexes.push(key);
  }
  return { items, largeIndexes };
}

const isText = (result: ReadResult): result is ['text', string, number] => result[0] === 'text';
const isIndex = (result: ReadResult): result is ['index', string[]] => result[0] === 'index';

/**
 * Returns the item of a text. A record begins with its version; a counter is a number that expires. Any other text
 * belongs to another program.
 */
function textItem(key: string, text: string, expiresAt: number): CopyItem[] {
  if (/^\d+:/.test(text)) return [{ record: key, ...readRecord(text), ...(expiresAt < 0 ? {} : { expiresAt }) }];
  return expiresAt >= 0 && /^-?\d+$/.test(text) ? [{ counter: key, value: Number(text), expiresAt }] : [];
}

async function load({ connection, runWrite, names }: RedisParts, items: readonly CopyItem[]): Promise<void> {
  const lastPositions = new Map<string, number>();
  for (const log of new Set(items.flatMap((item) => ('log' in item ? [item.log] : [])))) {
    const [last] = await connection.run((client) => client.xrevrange(names.of(log), '+', '-', 'COUNT', 1));
    lastPositions.set(log, positionOf(last?.[0]));
  }
  const put = (item: CopyItem): Promise<unknown> => {
    if ('record' in item) return putText(item.record, `${item.version}:${item.value}`, item.expiresAt);
    if ('counter' in item) return putText(item.counter, String(item.value), item.expiresAt);
    if ('index' in item) return runWrite((client) => client.zadd(names.of(item.index), item.score, item.member));
    if (positionOf(item.id) <= (lastPositions.get(item.log) ?? 0)) return Promise.resolve();
    const { log, id, at, entry } = item;
    return runWrite((client) => client.xadd(names.of(log), id, 'at', at, 'entry', entry));
  };
  const putText = (key: string, text: string, expiresAt: number | undefined): Promise<unknown> =>
    runWrite((client) =>
      expiresAt === undefined
        ? client.set(names.of(key), text)
        : client.set(names.of(key), text, 'PXAT', Math.ceil(expiresAt)),
    );
  for (let start = 0; start < items.length; start += WRITES_AT_ONCE)
    await Promise.all(items.slice(start, start + WRITES_AT_ONCE).map(put));
}

/** Returns the position in an id of `logIdAt`. */
function positionOf(id: string | undefined): number {
  return Number(id?.split('-')[1] ?? 0);
}
