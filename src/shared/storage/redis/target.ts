/** Parses the three forms of Redis settings into addresses and credentials for ioredis. */
import type { ConnectionOptions } from 'node:tls';
import { hostAndPort, splitList } from '../../config/rules.ts';

/**
 * Entries of the two lists are separated by commas: `host:port`, or a URL as for a single server. The credentials and
 * the scheme of the first entry are used for every Redis server. Sentinels get only `sentinelCredentials`.
 */
export type RedisTarget =
  | { /** `redis://[user:password@]host[:port][/database]`, or `rediss://` for TLS. */ url: string }
  | { cluster: string }
  | { sentinels: string; sentinelName: string; sentinelCredentials?: { username?: string; password?: string } };

/** A certificate and its key in PEM, for servers and sentinels that require a client certificate. */
export interface ClientCertificate {
  cert: string;
  key: string;
}

export interface RedisAddress {
  host: string;
  port: number;
}

interface RedisCredentials {
  username?: string;
  password?: string;
  tls?: ConnectionOptions;
}

/** A parsed target. `addresses` has one element for a single server. */
export interface RedisLocation {
  kind: 'single' | 'cluster' | 'sentinel';
  addresses: RedisAddress[];
  credentials: RedisCredentials;
  database: number;
  sentinelName?: string;
  sentinelCredentials?: { username?: string; password?: string };
}

const DEFAULT_PORT = 6379;
const DEFAULT_SENTINEL_PORT = 26379;

/** @throws TypeError, which does not repeat the text, since it may contain a password */
export function readTarget(target: RedisTarget & { clientCertificate?: ClientCertificate | undefined }): RedisLocation {
  const location = readLocation(target);
  const { tls } = location.credentials;
  const { clientCertificate } = target;
  if (!tls || !clientCertificate) return location;
  return { ...location, credentials: { ...location.credentials, tls: { ...tls, ...clientCertificate } } };
}

function readLocation(target: RedisTarget): RedisLocation {
  if ('url' in target) {
    const entry = readEntry(target.url, DEFAULT_PORT);
    return { kind: 'single', ...locationOf([entry]), database: entry.database };
  }
  if ('cluster' in target) {
    return { kind: 'cluster', ...locationOf(readList(target.cluster, DEFAULT_PORT)), database: 0 };
  }
  const entries = readList(target.sentinels, DEFAULT_SENTINEL_PORT);
  const { sentinelName, sentinelCredentials = {} } = target;
  return { kind: 'sentinel', ...locationOf(entries), database: 0, sentinelName, sentinelCredentials };
}

/** Returns the name of the setting that has the address. */
export function settingOf(target: RedisTarget): string {
  if ('url' in target) return 'REDIS_URL';
  return 'cluster' in target ? 'REDIS_CLUSTER' : 'REDIS_SENTINELS';
}

/** Returns `host:port` of each server, separated by commas. */
export function hostsOf({ addresses }: Pick<RedisLocation, 'addresses'>): string {
  return addresses.map(hostAndPort).join(', ');
}

interface Entry {
  address: RedisAddress;
  credentials: RedisCredentials;
  database: number;
}

function locationOf(entries: readonly Entry[]): Pick<RedisLocation, 'addresses' | 'credentials'> {
  const [first] = entries;
  if (first === undefined) throw new TypeError('The list of Redis servers is empty.');
  return { addresses: entries.map((entry) => entry.address), credentials: first.credentials };
}

function readList(list: string, defaultPort: number): Entry[] {
  return splitList(list).map((entry) => readEntry(entry, defaultPort));
}

function readEntry(text: string, defaultPort: number): Entry {
  const url = URL.parse(text.includes('://') ? text : `redis://${text}`);
  const database = url?.pathname.slice(1) ?? '';
  if (!url || !/^rediss?:$/.test(url.protocol) || url.hostname === '' || !/^\d{0,4}$/.test(database)) {
    throw new TypeError('Name a Redis server as redis://[user:password@]host:port/database or host:port.');
  }
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  return {
    address: { host, port: url.port === '' ? defaultPort : Number(url.port) },
    credentials: {
      ...(url.username === '' ? {} : { username: decodeURIComponent(url.username) }),
      ...(url.password === '' ? {} : { password: decodeURIComponent(url.password) }),
      ...(url.protocol === 'rediss:' ? { tls: {} } : {}),
    },
    database: Number(database),
  };
}
