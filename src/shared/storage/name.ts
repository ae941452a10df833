/** Names the storage for operators: in the log, the health endpoints and the results of commands. */
import { resolve } from 'node:path';
import type { StorageConfig } from '../config/config.ts';
import { hostsOf, readTarget } from './redis/target.ts';

/**
 * Returns the name of the storage, without credentials.
 * @throws TypeError for a malformed address of Redis, which `redisAddressFaults` reports first
 */
export function storageName({ redis, dataDirectory }: Pick<StorageConfig, 'redis' | 'dataDirectory'>): string {
  return redis ? `Redis at ${hostsOf(readTarget(redis))}` : `SQLite in ${resolve(dataDirectory)}`;
}
