/** Loads the settings of a program into one frozen object, or reports all faults at once. */
import { isKeyOfCertificate } from './pem.ts';
import { wouldCollide } from './rules.ts';
import { type ConfigSource, readSettings, type ValuesOf } from './setting.ts';
import { SETTINGS, type SettingValues } from './settings.ts';

/** The type is inferred, because the schemas of `SETTINGS` declare the type of each value. */
export type Config = ReturnType<typeof toConfig>;
export type TracingSettings = NonNullable<Config['tracing']>;

/** The settings of the storage, for commands that do not need the other settings of a server. */
export type StorageConfig = ReturnType<typeof toStorage>;

/**
 * Loads the settings of Gatehouse. `config` is undefined if there are faults. `values` has a stand-in for each faulty
 * setting: use it only to check the files that settings name.
 */
export function loadConfig(source: ConfigSource): {
  config: Config | undefined;
  values: Config;
  /** The values of the settings that may come from files, by name, to be compared at a reload. */
  secrets: ReadonlyMap<string, string>;
  faults: string[];
} {
  const read = readSettings(SETTINGS, source);
  const values = deepFreeze(toConfig(read.values));
  const combinationFaults = [...serverFaults(read.values, read.faulty), ...redisChoiceFaults(read.values, read.faulty)];
  const faults = [...read.faults, ...combinationFaults];
  const secrets = new Map(SECRET_SETTINGS.map((name) => [name, JSON.stringify(read.values[name]) ?? '']));
  return { config: faults.length === 0 ? values : undefined, values, secrets, faults };
}

export function loadStorageConfig(source: ConfigSource): { values: StorageConfig; faults: string[] } {
  const read = readSettings(STORAGE_SETTINGS, source);
  const faults = [...read.faults, ...redisChoiceFaults(read.values, read.faulty)];
  return { values: deepFreeze(toStorage(read.values)), faults };
}

/** Loads the settings of BIN lookups, for commands. */
export function loadBinConfig(source: ConfigSource) {
  const { values, faults } = readSettings(BIN_SETTINGS, source);
  return { values: deepFreeze({ ...toBin(values), ...toOutbound(values) }), faults };
}

/** Loads the lifetimes of sessions, for commands. */
export function loadSessionConfig(source: ConfigSource) {
  const { values, faults } = readSettings(pick('SESSION_IDLE_SECONDS', 'SESSION_MAX_SECONDS'), source);
  return { values: toSession(values), faults };
}

/** Loads the address of the management listener, for commands. */
export function loadManagementConfig(source: ConfigSource) {
  const { values, faults } = readSettings(pick('MANAGEMENT_HOST', 'MANAGEMENT_PORT'), source);
  return { values: { host: values.MANAGEMENT_HOST, port: values.MANAGEMENT_PORT }, faults };
}

/** The settings whose values may come from files, which a reload reads again. */
const SECRET_SETTINGS = (Object.keys(SETTINGS) as (keyof typeof SETTINGS)[]).filter(
  (name) => 'secret' in SETTINGS[name] || 'file' in SETTINGS[name],
);
const REDIS_SETTINGS = pick(
  'REDIS_URL',
  'REDIS_CLUSTER',
  'REDIS_SENTINELS',
  'REDIS_SENTINEL_NAME',
  'REDIS_SENTINEL_USERNAME',
  'REDIS_SENTINEL_PASSWORD',
  'REDIS_CERT_FILE',
  'REDIS_KEY_FILE',
  'REDIS_DURABILITY',
  'REDIS_TIMEOUT_MS',
);
const STORAGE_SETTINGS = { ...REDIS_SETTINGS, ...pick('ENCRYPTION_KEYS', 'DATA_DIR', 'CA_FILE') };
const OUTBOUND_SETTINGS = pick('INTERNAL_HOSTS', 'HTTPS_PROXY', 'NO_PROXY');
const BIN_SETTINGS = {
  ...pick(
    'BIN_DATASET_FILE',
    'BIN_SERVICE_URL',
    'BIN_SERVICE_API_KEY',
    'BIN_SERVICE_AUTH',
    'BIN_SERVICE_MONTHLY_QUOTA',
  ),
  ...pick('BIN_SERVICE_MONTHLY_USER_RESERVE', 'BIN_SERVICE_USER_DAILY_QUOTA'),
  ...OUTBOUND_SETTINGS,
};

function pick<N extends keyof typeof SETTINGS>(...names: N[]): Pick<typeof SETTINGS, N> {
  return Object.fromEntries(names.map((name) => [name, SETTINGS[name]])) as Pick<typeof SETTINGS, N>;
}

function toConfig(values: SettingValues) {
  return {
    ...toServer(values),
    ...toStorage(values),
    ...toOutbound(values),
    ...toBin(values),
    /** The first secret signs cookies, and all verify them. */
    sessionSecrets: values.SESSION_SECRETS,
    connectedAppsFile: values.CONNECTED_APPS_FILE,
    admin: {
      app: values.ADMIN_APP,
      claim: values.ADMIN_CLAIM,
      values: values.ADMIN_VALUES,
      /** The `acr` that a sign-in must have for the admin pages (step-up). */
      acr: values.ADMIN_ACR,
    },
    /** Calls to one host: how many may run at a time, and how many more may wait. */
    outbound: { concurrency: values.OUTBOUND_CONCURRENT_CALLS, waiting: values.OUTBOUND_WAITING_CALLS },
    connectionCheckSeconds: values.CONNECTION_CHECK_SECONDS,
    /** The audit trail keeps entries for this many days. */
    auditDays: values.AUDIT_DAYS,
    /** Requests a minute; 0 for no limit. */
    rateLimits: {
      address: values.RATE_LIMIT_PER_ADDRESS_PER_MINUTE,
      signIns: values.RATE_LIMIT_SIGN_INS_PER_ADDRESS_PER_MINUTE,
      session: values.RATE_LIMIT_PER_SESSION_PER_MINUTE,
      relayToken: values.RATE_LIMIT_PER_RELAY_TOKEN_PER_MINUTE,
    },
    accessLog: values.ACCESS_LOG === 'on',
    tracing: toTracing(values),
    sandboxPort: values.SANDBOX_PORT,
  };
}

type ServerSettings =
  | ('PUBLIC_URL' | 'HOST' | 'PORT' | 'MANAGEMENT_HOST' | 'MANAGEMENT_PORT' | 'TRUSTED_PROXIES')
  | ('OPERATOR_NAME' | 'SUPPORT_CONTACT' | 'SESSION_IDLE_SECONDS' | 'SESSION_MAX_SECONDS')
  | ('SHUTDOWN_SECONDS' | 'SHUTDOWN_DELAY_SECONDS' | 'LOG_LEVEL');

/** Returns the settings that every program with pages has. */
export function toServer(values: Pick<SettingValues, ServerSettings>) {
  return {
    publicUrl: values.PUBLIC_URL,
    listen: { host: values.HOST, port: values.PORT },
    management: { host: values.MANAGEMENT_HOST, port: values.MANAGEMENT_PORT },
    trustedProxies: values.TRUSTED_PROXIES,
    pages: { operatorName: values.OPERATOR_NAME, supportContact: values.SUPPORT_CONTACT },
    session: toSession(values),
    shutdown: { delaySeconds: values.SHUTDOWN_DELAY_SECONDS, graceSeconds: values.SHUTDOWN_SECONDS },
    logLevel: values.LOG_LEVEL,
  };
}

function toSession(values: Pick<SettingValues, 'SESSION_IDLE_SECONDS' | 'SESSION_MAX_SECONDS'>) {
  return { idleSeconds: values.SESSION_IDLE_SECONDS, maxSeconds: values.SESSION_MAX_SECONDS };
}

function toStorage(values: ValuesOf<typeof STORAGE_SETTINGS>) {
  return {
    /** `kid:base64url` texts, comma-separated. */
    encryptionKeys: values.ENCRYPTION_KEYS,
    /** The directory of the SQLite database, which is used if Redis is not configured. */
    dataDirectory: values.DATA_DIR,
    redis: toRedis(values),
    /** Certificates in PEM form, trusted in addition to those of Node. */
    authorities: values.CA_FILE,
  };
}

/** Returns the settings of the chosen way to connect to Redis; undefined if none is chosen. */
export function toRedis(values: ValuesOf<typeof REDIS_SETTINGS>) {
  const { REDIS_CERT_FILE: cert, REDIS_KEY_FILE: key } = values;
  const common = {
    durability: values.REDIS_DURABILITY,
    deadlineMilliseconds: values.REDIS_TIMEOUT_MS,
    ...(cert && key && { clientCertificate: { cert: cert.join('\n'), key } }),
  };
  const { REDIS_URL: url, REDIS_CLUSTER: cluster, REDIS_SENTINELS: sentinels } = values;
  if (url !== undefined) return { url, ...common };
  if (cluster !== undefined) return { cluster, ...common };
  if (sentinels === undefined) return undefined;
  const { REDIS_SENTINEL_USERNAME: username, REDIS_SENTINEL_PASSWORD: password } = values;
  const sentinelCredentials = { ...(username && { username }), ...(password && { password }) };
  return { sentinels, sentinelName: values.REDIS_SENTINEL_NAME ?? '', sentinelCredentials, ...common };
}

/** Returns the settings of outgoing calls. */
export function toOutbound(values: ValuesOf<typeof OUTBOUND_SETTINGS>) {
  const { INTERNAL_HOSTS: internalHosts, HTTPS_PROXY: url, NO_PROXY: bypass } = values;
  return { internalHosts, proxy: url === undefined ? undefined : { url, bypass } };
}

function toBin(values: Omit<ValuesOf<typeof BIN_SETTINGS>, keyof typeof OUTBOUND_SETTINGS>) {
  const { BIN_DATASET_FILE: datasetFile, BIN_SERVICE_URL: url, BIN_SERVICE_MONTHLY_QUOTA: monthlyQuota } = values;
  const service = url !== undefined && {
    url,
    apiKey: values.BIN_SERVICE_API_KEY,
    auth: values.BIN_SERVICE_AUTH,
    monthlyQuota,
    /** The part of the quota that is reserved for users. */
    userReserve: values.BIN_SERVICE_MONTHLY_USER_RESERVE ?? Math.floor(monthlyQuota / 10),
    /** Calls that one user may cause in a day (UTC). */
    userDailyQuota: values.BIN_SERVICE_USER_DAILY_QUOTA ?? Math.ceil(monthlyQuota / 100),
  };
  return { bin: { datasetFile, service: service || undefined } };
}

/** Returns the settings of traces; undefined if tracing is off. */
function toTracing(values: SettingValues) {
  const endpoint = values.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (endpoint === undefined) return undefined;
  return {
    /** The URL to which `/v1/traces` is added. */
    endpoint,
    headers: values.OTEL_EXPORTER_OTLP_HEADERS,
    serviceName: values.OTEL_SERVICE_NAME,
    sampler: values.OTEL_TRACES_SAMPLER,
    /** The share of traced requests, from 0 to 1, for the samplers with a ratio. */
    ratio: values.OTEL_TRACES_SAMPLER_ARG,
  };
}

/** Returns the faults of settings that are valid individually, but not together. */
export function serverFaults(values: Parameters<typeof toServer>[0], faulty: ReadonlySet<string>): string[] {
  const { listen, management, session } = toServer(values);
  const faults: string[] = [];
  const listeners = ['HOST', 'PORT', 'MANAGEMENT_HOST', 'MANAGEMENT_PORT'];
  const areListenersValid = !listeners.some((name) => faulty.has(name));
  if (areListenersValid && listen.port !== 0 && listen.port === management.port && wouldCollide(listen, management)) {
    faults.push(`PORT and MANAGEMENT_PORT are both ${listen.port} on one host: choose two different ports.`);
  }
  if (session.idleSeconds > session.maxSeconds) {
    faults.push('SESSION_IDLE_SECONDS must not be longer than SESSION_MAX_SECONDS.');
  }
  return faults;
}

/**
 * Returns the faults in the choice between the three ways to connect to Redis. `redisAddressFaults` in `storage.ts`
 * checks the addresses.
 */
export function redisChoiceFaults(values: Parameters<typeof toRedis>[0], faulty: ReadonlySet<string>): string[] {
  const faults: string[] = [];
  const isSet = (name: keyof typeof values) => values[name] !== undefined || faulty.has(name);
  if ((['REDIS_URL', 'REDIS_CLUSTER', 'REDIS_SENTINELS'] as const).filter(isSet).length > 1) {
    faults.push('REDIS_URL, REDIS_CLUSTER and REDIS_SENTINELS exclude each other: keep one of them.');
  }
  if (isSet('REDIS_SENTINELS') !== isSet('REDIS_SENTINEL_NAME')) {
    faults.push('REDIS_SENTINELS and REDIS_SENTINEL_NAME belong together: set both or neither.');
  }
  if ((isSet('REDIS_SENTINEL_USERNAME') || isSet('REDIS_SENTINEL_PASSWORD')) && !isSet('REDIS_SENTINELS')) {
    faults.push(
      'REDIS_SENTINEL_USERNAME and REDIS_SENTINEL_PASSWORD are for REDIS_SENTINELS: leave them out, or set it.',
    );
  }
  if (isSet('REDIS_SENTINEL_USERNAME') && !isSet('REDIS_SENTINEL_PASSWORD')) {
    faults.push('REDIS_SENTINEL_USERNAME needs REDIS_SENTINEL_PASSWORD.');
  }
  const { REDIS_CERT_FILE: cert, REDIS_KEY_FILE: key } = values;
  if (isSet('REDIS_CERT_FILE') !== isSet('REDIS_KEY_FILE')) {
    faults.push('REDIS_CERT_FILE and REDIS_KEY_FILE belong together: set both or neither.');
  } else if (cert && key && !isKeyOfCertificate(cert, key)) {
    faults.push('REDIS_KEY_FILE is not the key of the certificate in REDIS_CERT_FILE.');
  }
  return faults;
}

export function deepFreeze<T extends object>(value: T): T {
  for (const member of Object.values(value)) {
    if (typeof member === 'object' && member !== null) deepFreeze(member);
  }
  return Object.freeze(value);
}
