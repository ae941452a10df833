/** Owns the settings: reads them from the environment, checks every one, and hands on one frozen object. */
import {
  doMeet,
  internalHostFault,
  type PublicUrl,
  parseNetwork,
  parsePublicUrl,
  splitList,
  weakSecretFault,
} from './config-rules.ts';

/** Every setting with what `.env.example` says about it. The order is that of the documentation. */
export const SETTINGS = {
  PUBLIC_URL: { required: true },
  HOST: {},
  PORT: {},
  MANAGEMENT_HOST: {},
  MANAGEMENT_PORT: {},
  SESSION_SECRETS: { required: true, secret: true },
  ENCRYPTION_KEYS: { required: true, secret: true },
  DATA_DIR: {},
  REDIS_URL: { secret: true },
  REDIS_CLUSTER: { secret: true },
  REDIS_SENTINELS: { secret: true },
  REDIS_SENTINEL_NAME: {},
  REDIS_DURABILITY: {},
  CONNECTED_APPS_FILE: {},
  ADMIN_APP: {},
  ADMIN_CLAIM: {},
  ADMIN_VALUES: {},
  TRUSTED_PROXIES: {},
  INTERNAL_HOSTS: {},
  OPERATOR_NAME: {},
  SUPPORT_CONTACT: {},
  SESSION_IDLE_SECONDS: {},
  SESSION_MAX_SECONDS: {},
  BIN_DATASET_FILE: {},
  BIN_SERVICE_URL: {},
  BIN_SERVICE_API_KEY: { secret: true },
  BIN_SERVICE_AUTH: {},
  BIN_SERVICE_MONTHLY_QUOTA: {},
  SHUTDOWN_SECONDS: {},
  LOG_LEVEL: {},
  SANDBOX_PORT: {},
} as const satisfies Record<string, { required?: true; secret?: true }>;

type SettingName = keyof typeof SETTINGS;

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
const REDIS_DURABILITIES = ['aof', 'replicas', 'none'] as const;
const BIN_AUTHS = ['bearer', 'query', 'basic'] as const;

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
  admin: { app: string | undefined; claim: string; values: readonly string[] };
  /** CIDRs. */
  trustedProxies: readonly string[];
  /** Host names, addresses and CIDRs inside loopback or private ranges. */
  internalHosts: readonly string[];
  pages: { operatorName: string; supportContact: string | undefined };
  session: { idleSeconds: number; maxSeconds: number };
  bin: {
    datasetFile: string | undefined;
    service:
      | { url: string; apiKey: string | undefined; auth: (typeof BIN_AUTHS)[number]; monthlyQuota: number }
      | undefined;
  };
  shutdownSeconds: number;
  logLevel: (typeof LOG_LEVELS)[number];
  sandboxPort: number;
}

/** Where shared storage is, in exactly one of three ways, and what it has to promise. */
export type RedisSettings = ({ url: string } | { cluster: string } | { sentinels: string; sentinelName: string }) & {
  durability: (typeof REDIS_DURABILITIES)[number];
};

export interface ConfigSource {
  env: Readonly<Record<string, string | undefined>>;
  /** Reads a text file; throws when it cannot. */
  readFile: (path: string) => string;
}

/** `values` is what was understood, with a stand-in for each fault: to check what they point at, never to open anything. */
export type LoadedConfig =
  | { config: Config; values: Config; faults: [] }
  | { config?: never; values: Config; faults: string[] };

/** Answers the settings, or every fault at once, each as one sentence that names the setting and what to do. */
export function loadConfig(source: ConfigSource): LoadedConfig {
  const faults: string[] = [];
  const read = createReader(source, faults);
  const values: Config = deepFreeze({
    publicUrl: read.publicUrl(),
    ...read.listeners(),
    sessionSecrets: read.sessionSecrets(),
    encryptionKeys: read.required('ENCRYPTION_KEYS', 'make one with: npm run -s gatehouse -- keys generate'),
    dataDirectory: read.text('DATA_DIR', './data'),
    redis: read.redis(),
    connectedAppsFile: read.optional('CONNECTED_APPS_FILE'),
    admin: {
      app: read.optional('ADMIN_APP'),
      claim: read.text('ADMIN_CLAIM', 'groups'),
      values: read.list('ADMIN_VALUES', ['gatehouse-admins']),
    },
    trustedProxies: read.networks('TRUSTED_PROXIES'),
    internalHosts: read.internalHosts(),
    pages: { operatorName: read.text('OPERATOR_NAME', 'Gatehouse'), supportContact: read.optional('SUPPORT_CONTACT') },
    session: read.sessionLifetimes(),
    bin: { datasetFile: read.optional('BIN_DATASET_FILE'), service: read.binService() },
    shutdownSeconds: read.integer('SHUTDOWN_SECONDS', 25, 1, 600),
    logLevel: read.choice('LOG_LEVEL', LOG_LEVELS, 'info'),
    sandboxPort: read.integer('SANDBOX_PORT', 3001, 1, 65533),
  });
  return faults.length === 0 ? { config: values, values, faults: [] } : { values, faults };
}

function createReader(source: ConfigSource, faults: string[]) {
  const optional = (name: SettingName): string | undefined => {
    const direct = source.env[name]?.trim();
    const file = 'secret' in SETTINGS[name] ? source.env[`${name}_FILE`]?.trim() : undefined;
    if (direct && file) faults.push(`${name} and ${name}_FILE are both set: keep one of them.`);
    if (direct || !file) return direct || undefined;
    try {
      return source.readFile(file).trim() || undefined;
    } catch {
      faults.push(`${name}_FILE names a file that cannot be read: check the path and its permissions.`);
      return undefined;
    }
  };
  const isGiven = (name: SettingName) => Boolean(source.env[name]?.trim() || source.env[`${name}_FILE`]?.trim());
  const text = (name: SettingName, fallback: string): string => optional(name) ?? fallback;
  const list = (name: SettingName, fallback: readonly string[] = []): string[] => {
    const given = optional(name);
    return given === undefined ? [...fallback] : splitList(given);
  };
  const required = (name: SettingName, how: string): string => {
    const before = faults.length;
    const given = optional(name);
    if (given === undefined && faults.length === before) faults.push(`${name} is required: ${how}`);
    return given ?? '';
  };
  const integer = (name: SettingName, fallback: number, least: number, most: number): number => {
    const given = optional(name);
    if (given === undefined) return fallback;
    const value = /^\d{1,9}$/.test(given) ? Number(given) : Number.NaN;
    if (value >= least && value <= most) return value;
    faults.push(`${name} must be a whole number from ${least} to ${most}.`);
    return fallback;
  };
  const choice = <T extends string>(name: SettingName, choices: readonly T[], fallback: T): T => {
    const given = optional(name);
    const found = choices.find((one) => one === given);
    if (given !== undefined && found === undefined) faults.push(`${name} must be one of: ${choices.join(', ')}.`);
    return found ?? fallback;
  };
  const networks = (name: SettingName): string[] =>
    list(name).filter((network) => {
      if (parseNetwork(network)) return true;
      faults.push(`${name}: "${network}" is not an address or a CIDR such as 10.0.0.0/8.`);
      return false;
    });

  return {
    optional,
    text,
    list,
    required,
    integer,
    choice,
    networks,

    publicUrl(): PublicUrl {
      const how = 'the URL under which browsers reach Gatehouse, such as https://gatehouse.example.com';
      const given = required('PUBLIC_URL', how);
      const checked = given === '' ? undefined : parsePublicUrl(given);
      if (checked?.fault) faults.push(`PUBLIC_URL ${checked.fault}`);
      return checked?.publicUrl ?? { href: '', origin: '', host: '', basePath: '', secure: true };
    },

    listeners(): Pick<Config, 'listen' | 'management'> {
      const before = faults.length;
      const listen = { host: text('HOST', '127.0.0.1'), port: integer('PORT', 3000, 0, 65535) };
      const management = {
        host: text('MANAGEMENT_HOST', '127.0.0.1'),
        port: integer('MANAGEMENT_PORT', 3009, 0, 65535),
      };
      if (
        faults.length === before &&
        listen.port !== 0 &&
        listen.port === management.port &&
        doMeet(listen, management)
      )
        faults.push(`PORT and MANAGEMENT_PORT are both ${listen.port} on one host: choose two different ports.`);
      return { listen, management };
    },

    sessionSecrets(): string[] {
      const how = 'comma-separated random texts of 32 characters or more; make one with: openssl rand -base64 48';
      const given = required('SESSION_SECRETS', how);
      const secrets = splitList(given);
      if (given !== '' && secrets.length === 0) faults.push(`SESSION_SECRETS is a list without a secret: give ${how}`);
      secrets.forEach((secret, position) => {
        const fault = weakSecretFault(secret);
        if (fault)
          faults.push(`SESSION_SECRETS: number ${position + 1} ${fault}; make one with: openssl rand -base64 48`);
      });
      return secrets;
    },

    internalHosts(): string[] {
      return list('INTERNAL_HOSTS').filter((entry) => {
        const fault = internalHostFault(entry);
        if (fault) faults.push(`INTERNAL_HOSTS: "${entry}" ${fault}`);
        return !fault;
      });
    },

    sessionLifetimes() {
      const idleSeconds = integer('SESSION_IDLE_SECONDS', 1800, 60, 31_536_000);
      const maxSeconds = integer('SESSION_MAX_SECONDS', 28_800, 60, 31_536_000);
      if (idleSeconds > maxSeconds) faults.push('SESSION_IDLE_SECONDS must not be longer than SESSION_MAX_SECONDS.');
      return { idleSeconds, maxSeconds };
    },

    redis(): RedisSettings | undefined {
      const durability = choice('REDIS_DURABILITY', REDIS_DURABILITIES, 'aof');
      const url = optional('REDIS_URL');
      const cluster = optional('REDIS_CLUSTER');
      const sentinels = optional('REDIS_SENTINELS');
      const sentinelName = optional('REDIS_SENTINEL_NAME');
      if ([url, cluster, sentinels].filter((way) => way !== undefined).length > 1) {
        faults.push('REDIS_URL, REDIS_CLUSTER and REDIS_SENTINELS exclude each other: keep one of them.');
      }
      if (isGiven('REDIS_SENTINELS') !== isGiven('REDIS_SENTINEL_NAME')) {
        faults.push('REDIS_SENTINELS and REDIS_SENTINEL_NAME belong together: give both or neither.');
      }
      if (url !== undefined) return { url, durability };
      if (cluster !== undefined) return { cluster, durability };
      return sentinels === undefined ? undefined : { sentinels, sentinelName: sentinelName ?? '', durability };
    },

    binService(): Config['bin']['service'] {
      const url = optional('BIN_SERVICE_URL');
      const apiKey = optional('BIN_SERVICE_API_KEY');
      const auth = choice('BIN_SERVICE_AUTH', BIN_AUTHS, 'bearer');
      const monthlyQuota = integer('BIN_SERVICE_MONTHLY_QUOTA', 10_000, 0, 999_999_999);
      if (url === undefined) return undefined;
      const parsed = URL.parse(url);
      if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.search || parsed.hash || parsed.username) {
        faults.push('BIN_SERVICE_URL must be an absolute https URL without user name, query or fragment.');
        return undefined;
      }
      return { url: url.replace(/\/+$/, ''), apiKey, auth, monthlyQuota };
    },
  };
}

function deepFreeze<T extends object>(value: T): T {
  for (const inner of Object.values(value)) {
    if (typeof inner === 'object' && inner !== null) deepFreeze(inner);
  }
  return Object.freeze(value);
}
