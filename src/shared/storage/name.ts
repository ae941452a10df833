/** Names the storage for operators: in the log, the health endpoints and the results of commands. */
import { resolve } from 'node:path';
import type { StorageConfig } from '../config/config.ts';
import { hostsOf, readTarget } from './redis/target.ts';

/** Without credentials. @throws TypeError if the address of Redis is malformed; `redisAddressFaults` has refused it before */
export function storageName({ redis, dataDirectory }: Pick<StorageConfig, 'redis' | 'dataDirectory'>): string {
  return redis ? `Redis at ${hostsOf(readTarget(redis))}` : `SQLite in ${resolve(dataDirectory)}`;
}
