/** Counts the Redis commands of each request, as reported by Redis, over requests sent one after the other. */
import type { RedisServer } from '../support/redis-server.ts';
import { isGood, openConnection, type Question } from './connection.ts';

export interface StorageCost {
  /** Per request, like the other members. */
  commands: number;
  /** Number of reads from connections. Commands that are sent together arrive together. */
  roundTrips: number;
  /** Changes of stored data. */
  writes: number;
}

const REQUESTS = 1_000;
/** Commands of this measurement. */
const OWN = /^cmdstat_(info|hello|client|command|ping|select)/;

export async function storageCost(redis: RedisServer, question: Question): Promise<StorageCost> {
  const connection = openConnection();
  const ask = (times: number) =>
    new Promise<void>((resolve, reject) => {
      let left = times;
      const step = () => {
        if (left === 0) return resolve();
        left -= 1;
        connection.ask(question, (response) =>
          isGood(question, response) ? step() : reject(new Error('Unexpected response')),
        );
      };
      step();
    });
  // The first request may extend the session.
  await ask(10);
  const before = counted(redis);
  await ask(REQUESTS);
  const after = counted(redis);
  connection.close();
  const each = (key: keyof StorageCost) => (after[key] - before[key]) / REQUESTS;
  return { commands: each('commands'), roundTrips: each('roundTrips'), writes: each('writes') };
}

/** Total counts since the start of Redis. */
export function counted(redis: RedisServer): StorageCost {
  const lines = redis.sendCommand('INFO', 'everything').split(/\r?\n/);
  const field = (name: string) => Number(lines.find((line) => line.startsWith(`${name}:`))?.slice(name.length + 1));
  const commands = lines
    .filter((line) => line.startsWith('cmdstat_') && !OWN.test(line))
    .reduce((sum, line) => sum + Number(/calls=(\d+)/.exec(line)?.[1]), 0);
  return { commands, roundTrips: field('total_reads_processed'), writes: field('rdb_changes_since_last_save') };
}
