/** Owns the settings that are judged together: what a group of them means, and which of them do not fit each other. */
import type { SettingReader } from './config-reader.ts';
import {
  doMeet,
  internalHostFault,
  type PublicUrl,
  parseOtlpHeaders,
  parsePublicUrl,
  splitList,
  weakSecretFault,
} from './config-rules.ts';

const REDIS_DURABILITIES = ['aof', 'replicas', 'none'] as const;
const TRACE_SAMPLERS = [
  ...['parentbased_always_on', 'parentbased_traceidratio', 'parentbased_always_off'],
  ...['always_on', 'traceidratio', 'always_off'],
] as const;
const BIN_AUTHS = ['bearer', 'query', 'basic'] as const;

/** Where spans go, and of which requests there are any (names of the OpenTelemetry specification). */
export interface TracingSettings {
  /** `/v1/traces` is added. */
  endpoint: string;
  headers: Readonly<Record<string, string>>;
  serviceName: string | undefined;
  sampler: (typeof TRACE_SAMPLERS)[number];
  /** From 0 to 1; of the samplers by ratio. */
  ratio: number;
}

/** Where shared storage is, in exactly one of three ways, and what it has to promise. */
export type RedisSettings = ({ url: string } | { cluster: string } | { sentinels: string; sentinelName: string }) & {
  durability: (typeof REDIS_DURABILITIES)[number];
};

/** The way out for https; `bypass`: hosts that are called without it, comma-separated. */
export interface ProxySettings {
  url: string;
  bypass: string;
}

export interface BinServiceSettings {
  url: string;
  apiKey: string | undefined;
  auth: (typeof BIN_AUTHS)[number];
  monthlyQuota: number;
  /** Calls of that quota that bulk jobs leave alone. */
  bulkReserve: number;
}

export function readAcr(read: SettingReader): string | undefined {
  const given = read.optional('ADMIN_ACR');
  // Spaces would ask for several, of which none is the whole.
  if (given !== undefined && /\s/.test(given)) read.faults.push('ADMIN_ACR must be one value, without spaces.');
  return given;
}

export function readStorage(read: SettingReader) {
  return {
    encryptionKeys: read.required('ENCRYPTION_KEYS', 'make one with: npm run -s gatehouse -- keys generate'),
    dataDirectory: read.text('DATA_DIR', './data'),
    redis: readRedis(read),
  };
}

export function readPublicUrl(read: SettingReader): PublicUrl {
  const how = 'the URL under which browsers reach Gatehouse, such as https://gatehouse.example.com';
  const given = read.required('PUBLIC_URL', how);
  const checked = given === '' ? undefined : parsePublicUrl(given);
  if (checked?.fault) read.faults.push(`PUBLIC_URL ${checked.fault}`);
  return checked?.publicUrl ?? { href: '', origin: '', host: '', basePath: '', secure: true };
}

export function readListeners(read: SettingReader) {
  const before = read.faults.length;
  const listen = { host: read.text('HOST', '127.0.0.1'), port: read.integer('PORT', 3000, 0, 65535) };
  const management = {
    host: read.text('MANAGEMENT_HOST', '127.0.0.1'),
    port: read.integer('MANAGEMENT_PORT', 3009, 0, 65535),
  };
  if (
    read.faults.length === before &&
    listen.port !== 0 &&
    listen.port === management.port &&
    doMeet(listen, management)
  )
    read.faults.push(`PORT and MANAGEMENT_PORT are both ${listen.port} on one host: choose two different ports.`);
  return { listen, management };
}

export function readSessionSecrets(read: SettingReader): string[] {
  const how = 'comma-separated random texts of 32 characters or more; make one with: openssl rand -base64 48';
  const given = read.required('SESSION_SECRETS', how);
  const secrets = splitList(given);
  if (given !== '' && secrets.length === 0) read.faults.push(`SESSION_SECRETS is a list without a secret: give ${how}`);
  secrets.forEach((secret, position) => {
    const fault = weakSecretFault(secret);
    if (fault)
      read.faults.push(`SESSION_SECRETS: number ${position + 1} ${fault}; make one with: openssl rand -base64 48`);
  });
  return secrets;
}

export function readInternalHosts(read: SettingReader): string[] {
  return read.list('INTERNAL_HOSTS').filter((entry) => {
    const fault = internalHostFault(entry);
    if (fault) read.faults.push(`INTERNAL_HOSTS: "${entry}" ${fault}`);
    return !fault;
  });
}

export function readProxy(read: SettingReader): ProxySettings | undefined {
  const url = read.optional('HTTPS_PROXY');
  const bypass = read.text('NO_PROXY', '');
  if (url === undefined) return undefined;
  const parsed = URL.parse(url);
  // It may hold a password: no fault repeats it.
  if (parsed && /^https?:$/.test(parsed.protocol) && /^\/?$/.test(parsed.pathname + parsed.search + parsed.hash)) {
    return { url, bypass };
  }
  read.faults.push('HTTPS_PROXY must be the URL of a proxy, such as http://proxy.example.com:3128.');
  return undefined;
}

export function readSessionLifetimes(read: SettingReader) {
  const idleSeconds = read.integer('SESSION_IDLE_SECONDS', 1800, 60, 31_536_000);
  const maxSeconds = read.integer('SESSION_MAX_SECONDS', 28_800, 60, 31_536_000);
  if (idleSeconds > maxSeconds) read.faults.push('SESSION_IDLE_SECONDS must not be longer than SESSION_MAX_SECONDS.');
  return { idleSeconds, maxSeconds };
}

export function readTracing(read: SettingReader): TracingSettings | undefined {
  const endpoint = read.optional('OTEL_EXPORTER_OTLP_ENDPOINT');
  const headers = parseOtlpHeaders(read.optional('OTEL_EXPORTER_OTLP_HEADERS') ?? '');
  if (!headers)
    read.faults.push('OTEL_EXPORTER_OTLP_HEADERS must be name=value pairs, comma-separated, percent-encoded.');
  const sampler = read.choice('OTEL_TRACES_SAMPLER', TRACE_SAMPLERS, 'parentbased_always_on');
  const ratio = Number(read.optional('OTEL_TRACES_SAMPLER_ARG') ?? 1);
  if (!(ratio >= 0 && ratio <= 1)) read.faults.push('OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1.');
  const serviceName = read.optional('OTEL_SERVICE_NAME');
  if (endpoint === undefined) return undefined;
  const parsed = URL.parse(endpoint);
  if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.username || parsed.search || parsed.hash) {
    read.faults.push(
      'OTEL_EXPORTER_OTLP_ENDPOINT must be the base URL of a collector for OTLP over HTTP, such as http://127.0.0.1:4318.',
    );
    return undefined;
  }
  return { endpoint: endpoint.replace(/\/+$/, ''), headers: headers ?? {}, serviceName, sampler, ratio };
}

export function readBinService(read: SettingReader): BinServiceSettings | undefined {
  const url = read.optional('BIN_SERVICE_URL');
  const apiKey = read.optional('BIN_SERVICE_API_KEY');
  const auth = read.choice('BIN_SERVICE_AUTH', BIN_AUTHS, 'bearer');
  const monthlyQuota = read.integer('BIN_SERVICE_MONTHLY_QUOTA', 10_000, 0, 999_999_999);
  const bulkReserve = read.integer('BIN_SERVICE_BULK_RESERVE', Math.floor(monthlyQuota / 10), 0, 999_999_999);
  if (url === undefined) return undefined;
  const parsed = URL.parse(url);
  if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.search || parsed.hash || parsed.username) {
    read.faults.push('BIN_SERVICE_URL must be an absolute https URL without user name, query or fragment.');
    return undefined;
  }
  return { url: url.replace(/\/+$/, ''), apiKey, auth, monthlyQuota, bulkReserve };
}

function readRedis(read: SettingReader): RedisSettings | undefined {
  const durability = read.choice('REDIS_DURABILITY', REDIS_DURABILITIES, 'aof');
  const url = read.optional('REDIS_URL');
  const cluster = read.optional('REDIS_CLUSTER');
  const sentinels = read.optional('REDIS_SENTINELS');
  const sentinelName = read.optional('REDIS_SENTINEL_NAME');
  if ([url, cluster, sentinels].filter((way) => way !== undefined).length > 1) {
    read.faults.push('REDIS_URL, REDIS_CLUSTER and REDIS_SENTINELS exclude each other: keep one of them.');
  }
  if (read.isGiven('REDIS_SENTINELS') !== read.isGiven('REDIS_SENTINEL_NAME')) {
    read.faults.push('REDIS_SENTINELS and REDIS_SENTINEL_NAME belong together: give both or neither.');
  }
  if (url !== undefined) return { url, durability };
  if (cluster !== undefined) return { cluster, durability };
  return sentinels === undefined ? undefined : { sentinels, sentinelName: sentinelName ?? '', durability };
}
