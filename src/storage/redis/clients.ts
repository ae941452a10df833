/** The settings of every ioredis client: no queue while disconnected, nothing sent twice, back soon after an outage. */

import { Cluster, Redis } from 'ioredis';
import type { RedisAddress, RedisPlace } from './target.ts';

/** Between 0 and 1. */
export type RandomNumber = () => number;

const CONNECT_MILLISECONDS = 1_000;
const SENTINEL_MILLISECONDS = 500;
const MAX_PAUSE_MS = 200;
const TOPOLOGY_MILLISECONDS = 10_000;

/** A client of the whole target. ioredis starts to connect at once. */
export function createClient(place: RedisPlace, random: RandomNumber): Redis | Cluster {
  if (place.kind === 'cluster') return createCluster(place, random);
  const { addresses, sentinelName } = place;
  const base = { ...nodeOptions(place, random), db: place.database };
  if (place.kind === 'single') return new Redis({ ...base, ...addresses[0] });
  return new Redis({
    ...base,
    sentinels: addresses,
    name: sentinelName,
    role: 'master',
    ...(place.credentials.tls ? { enableTLSForSentinelMode: true, sentinelTLS: place.credentials.tls } : {}),
    // Told of a failover while it looks for the master, ioredis 6 stops looking for good. Silence and READONLY tell as well.
    failoverDetector: false,
    sentinelCommandTimeout: SENTINEL_MILLISECONDS,
    sentinelRetryStrategy: (times: number) => pauseMilliseconds(times, random),
  });
}

/** A client of one server alone; it does not come back once it is disconnected. */
export function createNodeClient(place: RedisPlace, address: RedisAddress, random: RandomNumber): Redis {
  return new Redis({ ...nodeOptions(place, random), ...address, retryStrategy: () => null });
}

function createCluster(place: RedisPlace, random: RandomNumber): Cluster {
  const { retryStrategy: _, enableOfflineQueue, ...redisOptions } = nodeOptions(place, random);
  return new Cluster(place.addresses, {
    enableOfflineQueue: false,
    redisOptions,
    clusterRetryStrategy: (times: number) => pauseMilliseconds(times, random),
    slotsRefreshTimeout: SENTINEL_MILLISECONDS,
    slotsRefreshInterval: TOPOLOGY_MILLISECONDS,
    // A command whose connection broke may have been done: whoever asked decides whether to ask again.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    // Certificates carry names; ioredis would connect to the addresses behind them.
    ...(place.credentials.tls ? { dnsLookup: (address, callback) => callback(null, address) } : {}),
  });
}

function nodeOptions({ credentials }: RedisPlace, random: RandomNumber) {
  return {
    ...credentials,
    protocol: 2 as const,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    connectTimeout: CONNECT_MILLISECONDS,
    disconnectTimeout: 100,
    keepAlive: 5_000,
    maxLoadingRetryTime: 200,
    retryStrategy: (times: number) => pauseMilliseconds(times, random),
    // The server was made a replica: whoever is the master now is found by connecting again.
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
  };
}

function pauseMilliseconds(times: number, random: RandomNumber): number {
  return Math.min(25 * 2 ** Math.min(times, 10), MAX_PAUSE_MS) * (0.5 + random() / 2);
}
