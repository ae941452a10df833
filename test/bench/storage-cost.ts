/** Counts the Redis commands of each request, as reported by Redis, over requests sent one after the other. */
import type { RedisServer } from '../support/redis-server.ts';
import { isExpected, openConnection, type PreparedRequest } from './connection.ts';

export interface StorageCost {
  /** Per request, like the other members. */
  commands: number;
  /** Number of reads from connections. Commands that are sent together arrive together. */
  roundTrips: number;
  /** Changes of stored data. */
  writes: number;
}

const REQUESTS = 1_000;
/** Commands that this measurement and connections send, which are not counted. */
const IGNORED_COMMANDS = /^cmdstat_(info|hello|client|command|ping|select)/;

export async function storageCost(redis: RedisServer, request: PreparedRequest): Promise<StorageCost> {
  const connection = openConnection();
  const sendRepeatedly = (times: number) =>
    new Promise<void>((resolve, reject) => {
      let remaining = times;
      const sendNext = () => {
        if (remaining === 0) return resolve();
        remaining -= 1;
        connection.send(request, (response) =>
          isExpected(request, response) ? sendNext() : reject(new Error('Unexpected response')),
        );
      };
      sendNext();
    });
  // The first request may extend the session.
  await sendRepeatedly(10);
  const before = countCommands(redis);
  await sendRepeatedly(REQUESTS);
  const after = countCommands(redis);
  connection.close();
  const perRequest = (key: keyof StorageCost) => (after[key] - before[key]) / REQUESTS;
  return { commands: perRequest('commands'), roundTrips: perRequest('roundTrips'), writes: perRequest('writes') };
}

/** Total counts since the start of Redis. */
export function countCommands(redis: RedisServer): StorageCost {
  const lines = redis.sendCommand('INFO', 'everything').split(/\r?\n/);
  const field = (name: string) => Number(lines.find((line) => line.startsWith(`${name}:`))?.slice(name.length + 1));
  const commands = lines
    .filter((line) => line.startsWith('cmdstat_') && !IGNORED_COMMANDS.test(line))
    .reduce((sum, line) => sum + Number(/calls=(\d+)/.exec(line)?.[1]), 0);
  return { commands, roundTrips: field('total_reads_processed'), writes: field('rdb_changes_since_last_save') };
}
