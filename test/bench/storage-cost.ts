/** Counts the Redis commands of each request, as Redis itself reports them, over requests sent one after the other. */
import type { RedisServer } from '../support/redis-server.ts';
import { isGood, openConnection, type Question } from './connection.ts';

export interface StorageCost {
  /** For each request, like the others. */
  commands: number;
  /** Times that something arrived: commands that were sent together arrive together. */
  roundTrips: number;
  /** Changes of what is kept. */
  writes: number;
}

const REQUESTS = 1_000;
/** Of the asking itself. */
const OWN = /^cmdstat_(info|hello|client|command|ping|select)/;

export async function storageCost(redis: RedisServer, question: Question): Promise<StorageCost> {
  const connection = openConnection();
  const ask = (times: number) =>
    new Promise<void>((resolve, reject) => {
      let left = times;
      const step = () => {
        if (left === 0) return resolve();
        left -= 1;
        connection.ask(question, (answer) => (isGood(question, answer) ? step() : reject(new Error('A wrong answer'))));
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

/** All of it since the Redis started. */
export function counted(redis: RedisServer): StorageCost {
  const lines = redis.ask('INFO', 'everything').split(/\r?\n/);
  const field = (name: string) => Number(lines.find((line) => line.startsWith(`${name}:`))?.slice(name.length + 1));
  const commands = lines
    .filter((line) => line.startsWith('cmdstat_') && !OWN.test(line))
    .reduce((sum, line) => sum + Number(/calls=(\d+)/.exec(line)?.[1]), 0);
  return { commands, roundTrips: field('total_reads_processed'), writes: field('rdb_changes_since_last_save') };
}
