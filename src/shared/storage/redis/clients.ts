/** The settings of every ioredis client: no queue while disconnected, no command sent twice, a fast reconnect after an outage. */
import { subscribe } from 'node:diagnostics_channel';
import { TLSSocket } from 'node:tls';
import { Cluster, Redis } from 'ioredis';
import type { RedisAddress, RedisPlace } from './target.ts';

/** Between 0 and 1. */
export type RandomNumber = () => number;

const MAX_PAUSE_MS = 200;
const TOPOLOGY_MS = 10_000;

/**
 * A TLS connection can emit a second error, such as an alert of the server after its certificate was refused. ioredis listens
 * for one error only (redis/ioredis#962), and an `error` event without a listener ends the process. ioredis does not hand out
 * connections to sentinels, nor those that are not ready yet: this channel of Node reaches all of them.
 */
subscribe('net.client.socket', (message) => {
  const { socket } = message as { socket: unknown };
  if (socket instanceof TLSSocket) socket.on('error', () => {});
});

export interface ClientParts {
  place: RedisPlace;
  /** How long to wait for each response, also while a connection is made. */
  deadlineMilliseconds: number;
  random: RandomNumber;
}

/** A client of the whole target. ioredis begins to connect at once. */
export function createClient(parts: ClientParts): Redis | Cluster {
  const { place, deadlineMilliseconds, random } = parts;
  if (place.kind === 'cluster') return createCluster(parts);
  const { addresses, sentinelName, sentinelCredentials: { username, password } = {} } = place;
  const base = { ...nodeOptions(parts), db: place.database };
  if (place.kind === 'single') return new Redis({ ...base, ...addresses[0] });
  return new Redis({
    ...base,
    sentinels: addresses,
    name: sentinelName,
    role: 'master',
    ...(username === undefined ? {} : { sentinelUsername: username }),
    ...(password === undefined ? {} : { sentinelPassword: password }),
    ...(place.credentials.tls ? { enableTLSForSentinelMode: true, sentinelTLS: place.credentials.tls } : {}),
    // If ioredis 6 hears of a failover while it looks for the master, it stops for good. Silence and READONLY reveal one, too.
    failoverDetector: false,
    sentinelCommandTimeout: deadlineMilliseconds,
    sentinelRetryStrategy: (times: number) => pauseMilliseconds(times, random),
  });
}

/** A client of one server, which does not reconnect. */
export function createNodeClient(parts: ClientParts, address: RedisAddress): Redis {
  return new Redis({ ...nodeOptions(parts), ...address, retryStrategy: () => null });
}

function createCluster(parts: ClientParts): Cluster {
  const { place, deadlineMilliseconds, random } = parts;
  const { retryStrategy: _, enableOfflineQueue, ...redisOptions } = nodeOptions(parts);
  return new Cluster(place.addresses, {
    enableOfflineQueue: false,
    redisOptions,
    clusterRetryStrategy: (times: number) => pauseMilliseconds(times, random),
    slotsRefreshTimeout: deadlineMilliseconds,
    slotsRefreshInterval: TOPOLOGY_MS,
    // A command whose connection broke may have been executed: the caller decides whether to repeat it.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    // Certificates contain names, but ioredis would connect to their addresses.
    ...(place.credentials.tls ? { dnsLookup: (address, callback) => callback(null, address) } : {}),
  });
}

function nodeOptions({ place: { credentials }, deadlineMilliseconds, random }: ClientParts) {
  return {
    ...credentials,
    protocol: 2 as const,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    connectTimeout: deadlineMilliseconds,
    disconnectTimeout: 100,
    keepAlive: 5_000,
    maxLoadingRetryTime: 200,
    retryStrategy: (times: number) => pauseMilliseconds(times, random),
    // The server has become a replica: a new connection finds the current master.
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
  };
}

function pauseMilliseconds(times: number, random: RandomNumber): number {
  return Math.min(25 * 2 ** Math.min(times, 10), MAX_PAUSE_MS) * (0.5 + random() / 2);
}
