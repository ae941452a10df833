/** Records and their versions in Redis, and the atomic write of records and indexes. */
import { assertOneTag, keyOf } from '../key-tag.ts';
import { assertFinite } from '../paging.ts';
import type { Store, StoredRecord, Write, WriteOptions } from '../store.ts';
import type { RedisConnection } from './connection.ts';
import type { RunWrite } from './durable.ts';
import type { RedisNames } from './names.ts';
import { runScript } from './scripts.ts';

export interface RedisParts {
  connection: RedisConnection;
  runWrite: RunWrite;
  names: RedisNames;
}

/** 3,000 years. Redis cannot represent longer lifetimes. */
const MAX_LIFETIME_MS = 1e14;

export function redisRecords({
  connection,
  runWrite,
  names,
}: RedisParts): Pick<Store, 'get' | 'getIfChanged' | 'write'> {
  const get = async (key: string): Promise<StoredRecord | undefined> => {
    const text = await connection.get(names.of(key));
    return text === null ? undefined : readRecord(text);
  };

  return {
    get,
    async getIfChanged(key, knownVersion) {
      const record = await get(key);
      return record && record.version === knownVersion ? 'unchanged' : record;
    },
    async write(writes, options = {}) {
      const script = writeScript(writes, options, names);
      if (script === undefined) return connection.run(async () => 1);
      const version = await runWrite((client) => runScript(client, 'gatehouseWrite', script.keys, script.args));
      return typeof version === 'number' ? version : undefined;
    },
  };
}

/**
 * Parses a stored record, which is `version:value` in one string: reading that is cheaper than reading a hash with two
 * fields.
 */
export function readRecord(text: string): StoredRecord {
  const end = text.indexOf(':');
  return { value: text.slice(end + 1), version: Number(text.slice(0, end)) };
}

interface WriteScript {
  keys: string[];
  args: (string | number)[];
}

/** Returns the keys and arguments of the script, or undefined if there is nothing to do. */
function writeScript(writes: readonly Write[], { fence }: WriteOptions, names: RedisNames): WriteScript | undefined {
  const stepKeys = writes.map(keyOf);
  const [anyKey] = fence === undefined ? stepKeys : [fence.lease];
  if (anyKey === undefined) return undefined;
  assertOneTag([anyKey, ...stepKeys]);
  const floor = names.floorOf(anyKey);
  const keys = [floor, fence === undefined ? floor : names.of(fence.lease), ...stepKeys.map(names.of)];
  // Lua counts from 1, and the keys of the steps begin at position 3.
  const args = writes.flatMap((step, n) => stepArguments(step, n + 3));
  return { keys, args: [fence === undefined ? '' : fence.number, ...args] };
}

function stepArguments(step: Write, keyPosition: number): (string | number)[] {
  if ('index' in step) {
    if ('remove' in step) return ['remove', keyPosition, '', '', step.remove];
    return ['add', keyPosition, assertFinite(step.score), '', step.add];
  }
  if ('exists' in step) return ['exists', keyPosition, step.version ?? '', '', ''];
  const condition = step.ifVersion ?? '';
  if ('delete' in step) return ['delete', keyPosition, condition, '', ''];
  const { lifetimeSeconds } = step;
  const lifetime =
    typeof lifetimeSeconds === 'number' ? lifetimeMilliseconds(lifetimeSeconds) : (lifetimeSeconds ?? '');
  return ['put', keyPosition, condition, lifetime, step.value];
}

/** Converts a lifetime to whole milliseconds; 0 for a lifetime that has passed. */
export function lifetimeMilliseconds(seconds: number): number {
  if (Number.isNaN(seconds)) throw new TypeError('A lifetime must be a number of seconds.');
  return Math.min(Math.max(Math.ceil(seconds * 1000), 0), MAX_LIFETIME_MS);
}
