/** Owns the settings: reads them from the environment, checks every one, and hands on one frozen object. */
import {
  type BinServiceSettings,
  type ProxySettings,
  type RedisSettings,
  readAcr,
  readBinService,
  readInternalHosts,
  readListeners,
  readProxy,
  readPublicUrl,
  readSessionLifetimes,
  readSessionSecrets,
  readStorage,
  readTracing,
  type TracingSettings,
} from './config-groups.ts';
import { type ConfigSource, createSettingReader } from './config-reader.ts';
import type { PublicUrl } from './config-rules.ts';

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

export interface Config {
  publicUrl: PublicUrl;
  listen: { host: string; port: number };
  management: { host: string; port: number };
  /** The first signs, all verify. */
  sessionSecrets: readonly string[];
  /** `kid:base64url` texts, comma-separated; the key ring checks them. */
  encryptionKeys: string;
  /** Used where no Redis is set. */
  dataDirectory: string;
  redis: RedisSettings | undefined;
  connectedAppsFile: string | undefined;
  /** `acr`: what pages of the administration demand of the sign-in (step-up). */
  admin: { app: string | undefined; claim: string; values: readonly string[]; acr: string | undefined };
  /** CIDRs. */
  trustedProxies: readonly string[];
  /** Host names, addresses and CIDRs inside loopback or private ranges. */
  internalHosts: readonly string[];
  proxy: ProxySettings | undefined;
  /** Calls to one host: how many at a time, and how many more may wait for their turn. */
  upstream: { concurrency: number; waiting: number };
  pages: { operatorName: string; supportContact: string | undefined };
  session: { idleSeconds: number; maxSeconds: number };
  bin: { datasetFile: string | undefined; service: BinServiceSettings | undefined };
  /** How long the audit trail is kept. */
  auditDays: number;
  /** Requests a minute; 0 for no limit. */
  rateLimits: { address: number; session: number; relayToken: number };
  shutdownSeconds: number;
  logLevel: (typeof LOG_LEVELS)[number];
  /** Undefined: no span is ever made. */
  tracing: TracingSettings | undefined;
  sandboxPort: number;
}

/** What opening the storage takes, and nothing else: commands run without the settings of a server. */
export type StorageConfig = Pick<Config, 'encryptionKeys' | 'dataDirectory' | 'redis'>;

/** `values` is what was understood, with a stand-in for each fault: to check what they point at, never to open anything. */
export type LoadedConfig =
  | { config: Config; values: Config; faults: [] }
  | { config?: never; values: Config; faults: string[] };

/** Answers the settings, or every fault at once, each as one sentence that names the setting and what to do. */
export function loadConfig(source: ConfigSource): LoadedConfig {
  const faults: string[] = [];
  const read = createSettingReader(source, faults);
  const values: Config = deepFreeze({
    publicUrl: readPublicUrl(read),
    ...readListeners(read),
    sessionSecrets: readSessionSecrets(read),
    ...readStorage(read),
    connectedAppsFile: read.optional('CONNECTED_APPS_FILE'),
    admin: {
      app: read.optional('ADMIN_APP'),
      claim: read.text('ADMIN_CLAIM', 'groups'),
      values: read.list('ADMIN_VALUES', ['gatehouse-admins']),
      acr: readAcr(read),
    },
    trustedProxies: read.networks('TRUSTED_PROXIES'),
    internalHosts: readInternalHosts(read),
    proxy: readProxy(read),
    upstream: {
      concurrency: read.integer('UPSTREAM_CONCURRENCY', 64, 1, 10_000),
      waiting: read.integer('UPSTREAM_WAITING', 1_000, 0, 1_000_000),
    },
    pages: { operatorName: read.text('OPERATOR_NAME', 'Gatehouse'), supportContact: read.optional('SUPPORT_CONTACT') },
    session: readSessionLifetimes(read),
    bin: { datasetFile: read.optional('BIN_DATASET_FILE'), service: readBinService(read) },
    auditDays: read.integer('AUDIT_DAYS', 365, 1, 3650),
    rateLimits: {
      address: read.integer('RATE_LIMIT_PER_ADDRESS', 30_000, 0, 100_000_000),
      session: read.integer('RATE_LIMIT_PER_SESSION', 6_000, 0, 100_000_000),
      relayToken: read.integer('RATE_LIMIT_PER_RELAY_TOKEN', 6_000, 0, 100_000_000),
    },
    shutdownSeconds: read.integer('SHUTDOWN_SECONDS', 25, 1, 600),
    logLevel: read.choice('LOG_LEVEL', LOG_LEVELS, 'info'),
    tracing: readTracing(read),
    sandboxPort: read.integer('SANDBOX_PORT', 3001, 1, 65533),
  });
  return faults.length === 0 ? { config: values, values, faults: [] } : { values, faults };
}

/** The same for what look-ups of BINs take beside the storage. */
export function loadBinConfig(source: ConfigSource): {
  values: Pick<Config, 'bin' | 'internalHosts' | 'proxy'>;
  faults: string[];
} {
  const faults: string[] = [];
  const read = createSettingReader(source, faults);
  const bin = { datasetFile: read.optional('BIN_DATASET_FILE'), service: readBinService(read) };
  return { values: deepFreeze({ bin, internalHosts: readInternalHosts(read), proxy: readProxy(read) }), faults };
}

/** The same for the settings of the storage alone. */
export function loadStorageConfig(source: ConfigSource): { values: StorageConfig; faults: string[] } {
  const faults: string[] = [];
  return { values: deepFreeze(readStorage(createSettingReader(source, faults))), faults };
}

function deepFreeze<T extends object>(value: T): T {
  for (const inner of Object.values(value)) {
    if (typeof inner === 'object' && inner !== null) deepFreeze(inner);
  }
  return Object.freeze(value);
}
