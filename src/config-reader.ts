/** Owns which settings there are, and how one of them is read: from the environment or a file, checked, its fault noted. */
import { parseNetwork, splitList } from './config-rules.ts';

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
  ADMIN_ACR: {},
  TRUSTED_PROXIES: {},
  INTERNAL_HOSTS: {},
  HTTPS_PROXY: {},
  NO_PROXY: {},
  UPSTREAM_CONCURRENCY: {},
  UPSTREAM_WAITING: {},
  OPERATOR_NAME: {},
  SUPPORT_CONTACT: {},
  SESSION_IDLE_SECONDS: {},
  SESSION_MAX_SECONDS: {},
  BIN_DATASET_FILE: {},
  BIN_SERVICE_URL: {},
  BIN_SERVICE_API_KEY: { secret: true },
  BIN_SERVICE_AUTH: {},
  BIN_SERVICE_MONTHLY_QUOTA: {},
  BIN_SERVICE_BULK_RESERVE: {},
  AUDIT_DAYS: {},
  RATE_LIMIT_PER_ADDRESS: {},
  RATE_LIMIT_PER_SESSION: {},
  RATE_LIMIT_PER_RELAY_TOKEN: {},
  SHUTDOWN_SECONDS: {},
  LOG_LEVEL: {},
  OTEL_EXPORTER_OTLP_ENDPOINT: {},
  OTEL_EXPORTER_OTLP_HEADERS: { secret: true },
  OTEL_SERVICE_NAME: {},
  OTEL_TRACES_SAMPLER: {},
  OTEL_TRACES_SAMPLER_ARG: {},
  SANDBOX_PORT: {},
} as const satisfies Record<string, { required?: true; secret?: true }>;

type SettingName = keyof typeof SETTINGS;

export interface ConfigSource {
  env: Readonly<Record<string, string | undefined>>;
  /** Reads a text file; throws when it cannot. */
  readFile: (path: string) => string;
}

export type SettingReader = ReturnType<typeof createSettingReader>;

/** Each method answers a stand-in where there is a fault, which is then one more of `faults`. */
export function createSettingReader(source: ConfigSource, faults: string[]) {
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

  return { faults, optional, isGiven, text, list, required, integer, choice, networks };
}
