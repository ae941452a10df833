/** Loads the settings of a program into one frozen object, or reports every fault at once. */
import { type PublicUrl, wouldCollide } from './rules.ts';
import { type ConfigSource, readSettings } from './setting.ts';
import { SETTINGS, type SettingValues } from './settings.ts';

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
  /** `acr`: required of sign-ins for the admin pages (step-up). */
  admin: { app: string | undefined; claim: string; values: readonly string[]; acr: string | undefined };
  /** CIDRs. */
  trustedProxies: readonly string[];
  /** Host names, addresses and CIDRs in loopback or private ranges that may be called. */
  internalHosts: readonly string[];
  proxy: ProxySettings | undefined;
  /** Calls to one host: how many at a time, and how many more may wait for their turn. */
  upstream: { concurrency: number; waiting: number };
  pages: { operatorName: string; supportContact: string | undefined };
  session: { idleSeconds: number; maxSeconds: number };
  bin: { datasetFile: string | undefined; service: BinServiceSettings | undefined };
  /** Retention of the audit trail. */
  auditDays: number;
  /** Requests a minute; 0 for no limit. */
  rateLimits: { address: number; signIns: number; session: number; relayToken: number };
  shutdownSeconds: number;
  logLevel: SettingValues['LOG_LEVEL'];
  /** Undefined: no span is ever made. */
  tracing: TracingSettings | undefined;
  sandboxPort: number;
}

/** How to connect to Redis, in exactly one of three ways, and the durability that it must have. */
export type RedisSettings = ({ url: string } | { cluster: string } | { sentinels: string; sentinelName: string }) & {
  durability: SettingValues['REDIS_DURABILITY'];
  /** How long a command waits for its reply. */
  deadlineMilliseconds: number;
};

/** The proxy for https calls; `bypass`: hosts that are called without it, comma-separated. */
export interface ProxySettings {
  url: string;
  bypass: string;
}

export interface BinServiceSettings {
  url: string;
  apiKey: string | undefined;
  auth: SettingValues['BIN_SERVICE_AUTH'];
  monthlyQuota: number;
  /** The part of that quota that is reserved for users. */
  userReserve: number;
  /** Calls that one user may cause in a day (UTC). */
  userDailyQuota: number;
}

/** Where spans are sent, and which requests are sampled (names of the OpenTelemetry specification). */
export interface TracingSettings {
  /** `/v1/traces` is added. */
  endpoint: string;
  headers: Readonly<Record<string, string>>;
  serviceName: string | undefined;
  sampler: SettingValues['OTEL_TRACES_SAMPLER'];
  /** From 0 to 1; only for the samplers by ratio. */
  ratio: number;
}

/** The settings of the storage alone, for commands that run without the settings of a server. */
export type StorageConfig = Pick<Config, 'encryptionKeys' | 'dataDirectory' | 'redis'>;

/** The settings of BIN look-ups, in addition to the storage's. */
export type BinConfig = Pick<Config, 'bin' | 'internalHosts' | 'proxy'>;

/** `values` has a stand-in for each faulty setting: use it to check the files that settings name, never to open anything. */
export type LoadedConfig =
  | { config: Config; values: Config; faults: [] }
  | { config?: never; values: Config; faults: string[] };

export function loadConfig(source: ConfigSource): LoadedConfig {
  const read = readSettings(SETTINGS, source);
  const values: Config = deepFreeze(toConfig(read.values));
  const together = [...serverFaults(read.values, read.faulty), ...redisFaults(read.values, read.faulty)];
  const faults = [...read.faults, ...together];
  return faults.length === 0 ? { config: values, values, faults: [] } : { values, faults };
}

export function loadStorageConfig(source: ConfigSource): { values: StorageConfig; faults: string[] } {
  const read = readSettings(STORAGE_SETTINGS, source);
  return {
    values: deepFreeze(toStorage(read.values)),
    faults: [...read.faults, ...redisFaults(read.values, read.faulty)],
  };
}

export function loadBinConfig(source: ConfigSource): { values: BinConfig; faults: string[] } {
  const { values, faults } = readSettings(BIN_SETTINGS, source);
  return { values: deepFreeze({ ...toBin(values), ...toOutbound(values) }), faults };
}

const STORAGE_SETTINGS = pick(SETTINGS, [
  ...(['ENCRYPTION_KEYS', 'DATA_DIR', 'REDIS_URL', 'REDIS_CLUSTER', 'REDIS_SENTINELS'] as const),
  ...(['REDIS_SENTINEL_NAME', 'REDIS_DURABILITY', 'REDIS_TIMEOUT_MS'] as const),
]);
const BIN_SETTINGS = pick(SETTINGS, [
  ...(['BIN_DATASET_FILE', 'BIN_SERVICE_URL', 'BIN_SERVICE_API_KEY', 'BIN_SERVICE_AUTH'] as const),
  ...(['BIN_SERVICE_MONTHLY_QUOTA', 'BIN_SERVICE_USER_RESERVE', 'BIN_SERVICE_USER_DAILY_QUOTA'] as const),
  ...(['INTERNAL_HOSTS', 'HTTPS_PROXY', 'NO_PROXY'] as const),
]);

/** Some settings of a table. */
export function pick<T, N extends keyof T>(table: T, names: readonly N[]): Pick<T, N> {
  return Object.fromEntries(names.map((name) => [name, table[name]])) as Pick<T, N>;
}

function toConfig(values: SettingValues): Config {
  return {
    ...toServer(values),
    ...toStorage(values),
    ...toOutbound(values),
    ...toBin(values),
    sessionSecrets: values.SESSION_SECRETS,
    connectedAppsFile: values.CONNECTED_APPS_FILE,
    admin: {
      app: values.ADMIN_APP,
      claim: values.ADMIN_CLAIM,
      values: values.ADMIN_VALUES,
      acr: values.ADMIN_ACR,
    },
    upstream: { concurrency: values.UPSTREAM_CONCURRENCY, waiting: values.UPSTREAM_WAITING },
    auditDays: values.AUDIT_DAYS,
    rateLimits: {
      address: values.RATE_LIMIT_PER_ADDRESS,
      signIns: values.RATE_LIMIT_SIGN_INS_PER_ADDRESS,
      session: values.RATE_LIMIT_PER_SESSION,
      relayToken: values.RATE_LIMIT_PER_RELAY_TOKEN,
    },
    tracing: toTracing(values),
    sandboxPort: values.SANDBOX_PORT,
  };
}

type Values<N extends keyof SettingValues> = Pick<SettingValues, N>;

/** The settings of every program that serves pages. */
export function toServer(
  values: Values<
    | ('PUBLIC_URL' | 'HOST' | 'PORT' | 'MANAGEMENT_HOST' | 'MANAGEMENT_PORT' | 'TRUSTED_PROXIES')
    | ('OPERATOR_NAME' | 'SUPPORT_CONTACT' | 'SESSION_IDLE_SECONDS' | 'SESSION_MAX_SECONDS')
    | ('SHUTDOWN_SECONDS' | 'LOG_LEVEL')
  >,
) {
  return {
    publicUrl: values.PUBLIC_URL,
    listen: { host: values.HOST, port: values.PORT },
    management: { host: values.MANAGEMENT_HOST, port: values.MANAGEMENT_PORT },
    trustedProxies: values.TRUSTED_PROXIES,
    pages: { operatorName: values.OPERATOR_NAME, supportContact: values.SUPPORT_CONTACT },
    session: { idleSeconds: values.SESSION_IDLE_SECONDS, maxSeconds: values.SESSION_MAX_SECONDS },
    shutdownSeconds: values.SHUTDOWN_SECONDS,
    logLevel: values.LOG_LEVEL,
  };
}

type RedisNames =
  | ('REDIS_URL' | 'REDIS_CLUSTER' | 'REDIS_SENTINELS' | 'REDIS_SENTINEL_NAME')
  | ('REDIS_DURABILITY' | 'REDIS_TIMEOUT_MS');

function toStorage(values: Values<RedisNames | 'ENCRYPTION_KEYS' | 'DATA_DIR'>): StorageConfig {
  return { encryptionKeys: values.ENCRYPTION_KEYS, dataDirectory: values.DATA_DIR, redis: toRedis(values) };
}

export function toRedis(values: Values<RedisNames>): RedisSettings | undefined {
  const common = { durability: values.REDIS_DURABILITY, deadlineMilliseconds: values.REDIS_TIMEOUT_MS };
  const { REDIS_URL: url, REDIS_CLUSTER: cluster, REDIS_SENTINELS: sentinels } = values;
  if (url !== undefined) return { url, ...common };
  if (cluster !== undefined) return { cluster, ...common };
  if (sentinels === undefined) return undefined;
  return { sentinels, sentinelName: values.REDIS_SENTINEL_NAME ?? '', ...common };
}

/** The settings of outgoing calls. */
export function toOutbound(values: Values<'INTERNAL_HOSTS' | 'HTTPS_PROXY' | 'NO_PROXY'>) {
  const { INTERNAL_HOSTS: internalHosts, HTTPS_PROXY: url, NO_PROXY: bypass } = values;
  return { internalHosts, proxy: url === undefined ? undefined : { url, bypass } };
}

function toBin(values: Values<Exclude<keyof typeof BIN_SETTINGS, 'INTERNAL_HOSTS' | 'HTTPS_PROXY' | 'NO_PROXY'>>) {
  const { BIN_DATASET_FILE: datasetFile, BIN_SERVICE_URL: url, BIN_SERVICE_MONTHLY_QUOTA: monthlyQuota } = values;
  const service = url !== undefined && {
    url,
    apiKey: values.BIN_SERVICE_API_KEY,
    auth: values.BIN_SERVICE_AUTH,
    monthlyQuota,
    userReserve: values.BIN_SERVICE_USER_RESERVE ?? Math.floor(monthlyQuota / 10),
    userDailyQuota: values.BIN_SERVICE_USER_DAILY_QUOTA ?? Math.ceil(monthlyQuota / 100),
  };
  return { bin: { datasetFile, service: service || undefined } };
}

function toTracing(values: SettingValues): TracingSettings | undefined {
  const endpoint = values.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (endpoint === undefined) return undefined;
  return {
    endpoint,
    headers: values.OTEL_EXPORTER_OTLP_HEADERS,
    serviceName: values.OTEL_SERVICE_NAME,
    sampler: values.OTEL_TRACES_SAMPLER,
    ratio: values.OTEL_TRACES_SAMPLER_ARG,
  };
}

/** Faults of settings that are valid by themselves, but not together. */
export function serverFaults(values: Parameters<typeof toServer>[0], faulty: ReadonlySet<string>): string[] {
  const { listen, management, session } = toServer(values);
  const faults: string[] = [];
  const listeners = ['HOST', 'PORT', 'MANAGEMENT_HOST', 'MANAGEMENT_PORT'];
  const areValid = !listeners.some((name) => faulty.has(name));
  if (areValid && listen.port !== 0 && listen.port === management.port && wouldCollide(listen, management)) {
    faults.push(`PORT and MANAGEMENT_PORT are both ${listen.port} on one host: choose two different ports.`);
  }
  if (session.idleSeconds > session.maxSeconds) {
    faults.push('SESSION_IDLE_SECONDS must not be longer than SESSION_MAX_SECONDS.');
  }
  return faults;
}

/** The same for the three ways to connect to Redis. */
export function redisFaults(values: Values<RedisNames>, faulty: ReadonlySet<string>): string[] {
  const faults: string[] = [];
  const isGiven = (name: RedisNames) => values[name] !== undefined || faulty.has(name);
  if ((['REDIS_URL', 'REDIS_CLUSTER', 'REDIS_SENTINELS'] as const).filter(isGiven).length > 1) {
    faults.push('REDIS_URL, REDIS_CLUSTER and REDIS_SENTINELS exclude each other: keep one of them.');
  }
  if (isGiven('REDIS_SENTINELS') !== isGiven('REDIS_SENTINEL_NAME')) {
    faults.push('REDIS_SENTINELS and REDIS_SENTINEL_NAME belong together: give both or neither.');
  }
  return faults;
}

export function deepFreeze<T extends object>(value: T): T {
  for (const inner of Object.values(value)) {
    if (typeof inner === 'object' && inner !== null) deepFreeze(inner);
  }
  return Object.freeze(value);
}
