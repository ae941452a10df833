/** Copies of what is in Redis: given out tag by tag while others write, and put in its place again. */

import { Cluster } from 'ioredis';
import { keyTag } from '../key-tag.ts';
import { kindOf, LISTING_KINDS } from '../keys.ts';
import { patiently } from '../patience.ts';
import type { KeptItem, Store } from '../store.ts';
import { redisIndexes } from './indexes.ts';
import { redisLogs } from './logs.ts';
import { type RedisParts, readRecord } from './records.ts';
import { runScript } from './scripts.ts';
import { scanNames } from './walk.ts';

type CopyMethods = 'dump' | 'load' | 'logIdAt' | 'clear';

/** Read in one step, if they have one tag. Few enough not to delay other commands of Redis. */
const KEYS_AT_ONCE = 64;
/** Larger indexes and all logs are read page by page. */
const PAGE = 1_000;
/** Few enough that all are on the disk before the deadline of a command. */
const PUT_AT_ONCE = 200;
/** The first that tells when a key ends (`PEXPIRETIME`). */
const OLDEST_VERSION = 7;

export function redisCopies(parts: RedisParts): Pick<Store, CopyMethods> {
  const { runWrite, names } = parts;
  return {
    dump: () => dump(parts),
    load: (items) => load(parts, items),
    // A stream takes such ids before those that it makes of the time.
    logIdAt: (place) => `0-${place}`,
    async clear(spared) {
      for await (const items of dump(parts)) {
        const keys = new Set(items.map(keyOf));
        keys.delete(spared);
        await Promise.all([...keys].map((key) => runWrite((client) => client.unlink(names.of(key)))));
      }
    },
  };
}

function keyOf(item: KeptItem): string {
  if ('record' in item) return item.record;
  if ('index' in item) return item.index;
  return 'counter' in item ? item.counter : item.log;
}

async function* dump(parts: RedisParts): AsyncGenerator<KeptItem[]> {
  await assertVersion(parts);
  const [streams, texts, sets] = await Promise.all([
    keysOf(parts, 'stream'),
    keysOf(parts, 'string'),
    keysOf(parts, 'zset'),
  ]);
  for (const log of [...streams].toSorted()) yield* entriesOf(parts, log);
  const groups = [...Map.groupBy([...texts, ...sets], keyTag).values()];
  const isLate = (group: readonly string[]) =>
    group.every((key) => !texts.has(key) || LISTING_KINDS.includes(kindOf(key)));
  for (const some of [groups.filter((group) => !isLate(group)), groups.filter(isLate)]) {
    for (const batch of batchesOf(some)) {
      // A cluster refuses a script with keys of several slots.
      const scripts = parts.connection.client instanceof Cluster ? batch : [batch.flat()];
      const found = await Promise.all(scripts.map((keys) => patiently(() => readTogether(parts, keys))));
      const items = found.flatMap((part) => part.items);
      if (items.length > 0) yield items;
      for (const index of found.flatMap((part) => part.large)) yield* membersOf(parts, index);
    }
  }
}

async function assertVersion({ connection }: RedisParts): Promise<void> {
  const info = await connection.run((client) => client.info('server'));
  const version = /^redis_version:(\S+)/m.exec(info)?.[1] ?? '';
  if (Number.parseInt(version, 10) >= OLDEST_VERSION) return;
  throw new Error(`Copies take Redis ${OLDEST_VERSION} or later; this one has version ${version}.`);
}

async function keysOf(parts: RedisParts, type: 'string' | 'zset' | 'stream'): Promise<Set<string>> {
  const keys = new Set<string>();
  for await (const { found } of scanNames(parts, type)) {
    for (const key of found.map(parts.names.keyOf)) if (key !== undefined) keys.add(key);
  }
  return keys;
}

/** Lists of keys that are read at once, and in each of those what is read in one step. */
function* batchesOf(groups: readonly string[][]): Generator<string[][]> {
  let batch: string[][] = [];
  let size = 0;
  for (const group of groups) {
    for (let start = 0; start < group.length; start += KEYS_AT_ONCE) {
      const keys = group.slice(start, start + KEYS_AT_ONCE);
      if (size + keys.length > KEYS_AT_ONCE) {
        yield batch;
        [batch, size] = [[], 0];
      }
      batch.push(keys);
      size += keys.length;
    }
  }
  if (batch.length > 0) yield batch;
}

type Found = ['text', text: string, expiresAt: number] | ['index', flat: string[]] | [type: string];

async function readTogether(
  { connection, names }: RedisParts,
  keys: readonly string[],
): Promise<{ items: KeptItem[]; large: string[] }> {
  const answers = (await connection.run((client) =>
    runScript(client, 'gatehouseRead', keys.map(names.of), [PAGE]),
  )) as Found[];
  const items: KeptItem[] = [];
  const large: string[] = [];
  for (const [at, answer] of answers.entries()) {
    const key = keys[at] ?? '';
    if (isText(answer)) items.push(...textItem(key, answer[1], answer[2]));
    else if (isIndex(answer)) items.push(...memberItems(key, answer[1]));
    else if (answer[0] === 'zset') large.push(key);
  }
  return { items, large };
}

const isText = (found: Found): found is ['text', string, number] => found[0] === 'text';
const isIndex = (found: Found): found is ['index', string[]] => found[0] === 'index';

/** A record has a version before it; a counter is a number that ends. Anything else is another program's. */
function textItem(key: string, text: string, end: number): KeptItem[] {
  if (/^\d+:/.test(text)) return [{ record: key, ...readRecord(text), ...(end < 0 ? {} : { expiresAt: end }) }];
  return end >= 0 && /^-?\d+$/.test(text) ? [{ counter: key, value: Number(text), expiresAt: end }] : [];
}

function memberItems(index: string, flat: readonly string[]): KeptItem[] {
  const items: KeptItem[] = [];
  for (let at = 0; at + 1 < flat.length; at += 2)
    items.push({ index, member: flat[at] ?? '', score: Number(flat[at + 1]) });
  return items;
}

async function* membersOf(parts: RedisParts, index: string): AsyncGenerator<KeptItem[]> {
  const { page } = redisIndexes(parts);
  let after: string | undefined;
  do {
    const options = { limit: PAGE, ...(after === undefined ? {} : { after }) };
    const { items, next } = await patiently(() => page(index, options));
    yield items.map((item) => ({ index, ...item }));
    after = next;
  } while (after !== undefined);
}

async function* entriesOf(parts: RedisParts, log: string): AsyncGenerator<KeptItem[]> {
  const { readLog } = redisLogs(parts);
  let after: string | undefined;
  do {
    const options = { limit: PAGE, ...(after === undefined ? {} : { after }) };
    const { items, next } = await patiently(() => readLog(log, options));
    yield items.map((item) => ({ log, ...item }));
    after = next;
  } while (after !== undefined);
}

async function load({ connection, runWrite, names }: RedisParts, items: readonly KeptItem[]): Promise<void> {
  const lastPlaces = new Map<string, number>();
  for (const log of new Set(items.flatMap((item) => ('log' in item ? [item.log] : [])))) {
    const [last] = await connection.run((client) => client.xrevrange(names.of(log), '+', '-', 'COUNT', 1));
    lastPlaces.set(log, placeOf(last?.[0]));
  }
  const put = (item: KeptItem): Promise<unknown> => {
    if ('record' in item) return putText(item.record, `${item.version}:${item.value}`, item.expiresAt);
    if ('counter' in item) return putText(item.counter, String(item.value), item.expiresAt);
    if ('index' in item) return runWrite((client) => client.zadd(names.of(item.index), item.score, item.member));
    if (placeOf(item.id) <= (lastPlaces.get(item.log) ?? 0)) return Promise.resolve();
    const { log, id, at, entry } = item;
    return runWrite((client) => client.xadd(names.of(log), id, 'at', at, 'entry', entry));
  };
  const putText = (key: string, text: string, expiresAt: number | undefined): Promise<unknown> =>
    runWrite((client) =>
      expiresAt === undefined
        ? client.set(names.of(key), text)
        : client.set(names.of(key), text, 'PXAT', Math.ceil(expiresAt)),
    );
  for (let start = 0; start < items.length; start += PUT_AT_ONCE)
    await Promise.all(items.slice(start, start + PUT_AT_ONCE).map(put));
}

/** Of ids that `logIdAt` made. */
function placeOf(id: string | undefined): number {
  return Number(id?.split('-')[1] ?? 0);
}
