/**
 * The settings of every ioredis client: no queue while disconnected, no command sent twice, a fast reconnect after an
 * outage.
 */
import { subscribe } from 'node:diagnostics_channel';
import { TLSSocket } from 'node:tls';
import { Cluster, Redis } from 'ioredis';
import type { RedisAddress, RedisLocation } from './target.ts';

/** Returns a number between 0 and 1. */
export type RandomNumber = () => number;

const MAX_PAUSE_MS = 200;
const TOPOLOGY_MS = 10_000;

/**
 * A TLS connection can emit a second error, such as an alert by the server after its certificate was refused. ioredis
 * listens for only one error (redis/ioredis#962), and an `error` event without a listener ends the process. ioredis
 * does not expose its connections to sentinels, or connections that are not ready; this diagnostics channel of Node
 * reaches all of them.
 */
subscribe('net.client.socket', (message) => {
  const { socket } = message as { socket: unknown };
  if (socket instanceof TLSSocket) socket.on('error', () => {});
});

export interface ClientParts {
  location: RedisLocation;
  /** The time limit for each response, also while connecting. */
  deadlineMilliseconds: number;
  random: RandomNumber;
}

/** Creates a client of the whole target, which begins to connect at once. */
export function createClient(parts: ClientParts): Redis | Cluster {
  const { location, deadlineMilliseconds, random } = parts;
  if (location.kind === 'cluster') return createCluster(parts);
  const { addresses, sentinelName, sentinelCredentials: { username, password } = {} } = location;
  const base = { ...nodeOptions(parts), db: location.database };
  if (location.kind === 'single') return new Redis({ ...base, ...addresses[0] });
  return new Redis({
    ...base,
    sentinels: addresses,
    name: sentinelName,
    role: 'master',
    ...(username === undefined ? {} : { sentinelUsername: username }),
    ...(password === undefined ? {} : { sentinelPassword: password }),
    ...(location.credentials.tls ? { enableTLSForSentinelMode: true, sentinelTLS: location.credentials.tls } : {}),
    // ioredis 6 stops for ever if its detector reports a failover while it looks for the master. A silent connection
    // and READONLY also reveal a failover.
    failoverDetector: false,
    sentinelCommandTimeout: deadlineMilliseconds,
    sentinelRetryStrategy: (times: number) => pauseMilliseconds(times, random),
  });
}

/** Creates a client of one server, which does not reconnect. */
export function createNodeClient(parts: ClientParts, address: RedisAddress): Redis {
  return new Redis({ ...nodeOptions(parts), ...address, retryStrategy: () => null });
}

function createCluster(parts: ClientParts): Cluster {
  const { location, deadlineMilliseconds, random } = parts;
  const { retryStrategy: _, enableOfflineQueue, ...redisOptions } = nodeOptions(parts);
  return new Cluster(location.addresses, {
    enableOfflineQueue: false,
    redisOptions,
    clusterRetryStrategy: (times: number) => pauseMilliseconds(times, random),
    slotsRefreshTimeout: deadlineMilliseconds,
    slotsRefreshInterval: TOPOLOGY_MS,
    // A command on a broken connection may have been executed, so the caller decides whether to repeat it.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    // Keeps host names, which the certificates contain. By default ioredis connects to the resolved addresses.
    ...(location.credentials.tls ? { dnsLookup: (address, callback) => callback(null, address) } : {}),
  });
}

function nodeOptions({ location: { credentials }, deadlineMilliseconds, random }: ClientParts) {
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
    // If the server has become a replica, a new connection finds the current master.
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
  };
}

function pauseMilliseconds(times: number, random: RandomNumber): number {
  return Math.min(25 * 2 ** Math.min(times, 10), MAX_PAUSE_MS) * (0.5 + random() / 2);
}
