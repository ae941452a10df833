/** Owns the settings of the BIN lookup service: those that it shares with Gatehouse by the same rules, and its own. */
import { randomBytes } from 'node:crypto';
import { type Config, loadConfig } from '../config.ts';
import type { ConfigSource } from '../config-reader.ts';
import { isLoopbackHost, splitList } from '../config-rules.ts';
import { ADDRESS_ADVICE, createAddressPolicy } from '../outbound/address-policy.ts';
import { type Plan, parsePlans } from './plans.ts';
import { BAN_DEFAULTS, FREE_MONTHLY_REQUESTS } from './service.ts';

/** Every setting with what `.env.bin-service.example` says about it, in that order; `shared` ones mean what they mean to Gatehouse. */
export const BIN_SERVICE_SETTINGS = {
  PUBLIC_URL: { shared: true },
  HOST: { shared: true },
  PORT: { shared: true },
  MANAGEMENT_HOST: { shared: true },
  MANAGEMENT_PORT: { shared: true },
  DATA_DIR: { shared: true },
  REDIS_URL: { shared: true, secret: true },
  REDIS_CLUSTER: { shared: true, secret: true },
  REDIS_SENTINELS: { shared: true, secret: true },
  REDIS_SENTINEL_NAME: { shared: true },
  REDIS_DURABILITY: { shared: true },
  BIN_DATASET_FILE: { shared: true },
  FREE_MONTHLY_REQUESTS: {},
  PLANS: {},
  BAN_REFUSALS: {},
  BAN_SECONDS: {},
  TRUSTED_PROXIES: { shared: true },
  SIGN_IN_ISSUER: {},
  SIGN_IN_NAME: {},
  SIGN_IN_CLIENT_ID: {},
  SIGN_IN_CLIENT_SECRET: { secret: true },
  INTERNAL_HOSTS: { shared: true },
  HTTPS_PROXY: { shared: true },
  NO_PROXY: { shared: true },
  OPERATOR_NAME: { shared: true },
  SUPPORT_CONTACT: { shared: true },
  SESSION_IDLE_SECONDS: { shared: true },
  SESSION_MAX_SECONDS: { shared: true },
  SHUTDOWN_SECONDS: { shared: true },
  LOG_LEVEL: { shared: true },
} as const satisfies Record<string, { shared?: true; secret?: true }>;

export interface SignInSettings {
  issuer: string;
  name: string;
  clientId: string;
  clientSecret: string;
}

export interface BinServiceSettings
  extends Pick<
    Config,
    | 'publicUrl'
    | 'listen'
    | 'management'
    | 'dataDirectory'
    | 'redis'
    | 'trustedProxies'
    | 'internalHosts'
    | 'proxy'
    | 'pages'
    | 'session'
    | 'shutdownSeconds'
    | 'logLevel'
  > {
  datasetFile: string | undefined;
  freeMonthlyRequests: number;
  plans: readonly Plan[];
  bans: { refusals: number; seconds: number };
  /** Undefined: nobody registers, and there is the free tier alone. */
  signIn: SignInSettings | undefined;
}

export type LoadedSettings = { settings: BinServiceSettings; faults: [] } | { settings?: never; faults: string[] };

const DEFAULTS = {
  HOST: '127.0.0.1',
  PORT: '3003',
  MANAGEMENT_PORT: '3008',
  // Beside Gatehouse's own: they share no cookie, no key and no record.
  DATA_DIR: './data/bin-service',
  OPERATOR_NAME: 'BIN look-up',
  PLANS: 'starter:100000,business:1000000',
};

type Environment = Record<string, string | undefined>;

/** Answers the settings, or every fault at once, each as one sentence that names the setting and what to do. */
export function loadBinServiceSettings(source: ConfigSource): LoadedSettings {
  const faults: string[] = [];
  const config = readShared(source, faults);
  const { env } = source;
  const { plans, faults: planFaults } = parsePlans(splitList(env.PLANS?.trim() || DEFAULTS.PLANS));
  faults.push(...planFaults);
  const number = (name: string, fallback: number, least: number) => {
    const given = env[name]?.trim();
    if (!given) return fallback;
    if (/^\d{1,9}$/.test(given) && Number(given) >= least) return Number(given);
    faults.push(`${name} must be a whole number from ${least} to 999999999.`);
    return fallback;
  };
  const own = {
    freeMonthlyRequests: number('FREE_MONTHLY_REQUESTS', FREE_MONTHLY_REQUESTS, 0),
    plans,
    bans: {
      refusals: number('BAN_REFUSALS', BAN_DEFAULTS.refusals, 1),
      seconds: number('BAN_SECONDS', BAN_DEFAULTS.seconds, 1),
    },
    signIn: readSignIn(source, config, faults),
  };
  const { bin, sessionSecrets: _secrets, encryptionKeys: _keys, ...shared } = config;
  if (faults.length > 0) return { faults: [...new Set(faults)] };
  return { settings: { ...shared, ...own, datasetFile: bin.datasetFile }, faults: [] };
}

/** Gatehouse's own rules judge what both have; what this service does not have is filled in for them and dropped again. */
function readShared(source: ConfigSource, faults: string[]): Config {
  const env: Environment = { ...DEFAULTS };
  for (const [name, facts] of Object.entries(BIN_SERVICE_SETTINGS)) {
    if (!('shared' in facts)) continue;
    for (const variable of [name, `${name}_FILE`]) {
      const given = source.env[variable]?.trim();
      if (given) env[variable] = given;
    }
  }
  if (!env.PUBLIC_URL) {
    // Behind it nobody else can be: programs on this machine know it by where it listens.
    const own = `http://${env.HOST?.includes(':') ? `[${env.HOST}]` : env.HOST}:${env.PORT}`;
    if (isLoopbackHost(env.HOST ?? '')) env.PUBLIC_URL = URL.canParse(own) ? own : `http://${DEFAULTS.HOST}`;
  }
  const unused = { SESSION_SECRETS: randomBytes(48).toString('base64'), ENCRYPTION_KEYS: 'none' };
  const loaded = loadConfig({ ...source, env: { ...env, ...unused } });
  faults.push(...loaded.faults);
  return loaded.values;
}

function readSignIn(source: ConfigSource, { internalHosts }: Config, faults: string[]): SignInSettings | undefined {
  const { env } = source;
  const issuer = env.SIGN_IN_ISSUER?.trim() ?? '';
  const clientId = env.SIGN_IN_CLIENT_ID?.trim() ?? '';
  const clientSecret = readSecret(source, 'SIGN_IN_CLIENT_SECRET', faults);
  const given = [issuer, clientId, clientSecret].filter((value) => value !== '').length;
  if (given === 0) return undefined;
  if (given < 3) {
    faults.push('SIGN_IN_ISSUER, SIGN_IN_CLIENT_ID and SIGN_IN_CLIENT_SECRET belong together: give all or none.');
    return undefined;
  }
  const rule = createAddressPolicy(internalHosts).checkUrl(issuer);
  if (rule) faults.push(`SIGN_IN_ISSUER: ${ADDRESS_ADVICE[rule]}`);
  return { issuer, clientId, clientSecret, name: env.SIGN_IN_NAME?.trim() || (URL.parse(issuer)?.host ?? issuer) };
}

function readSecret({ env, readFile }: ConfigSource, name: string, faults: string[]): string {
  const direct = env[name]?.trim() ?? '';
  const file = env[`${name}_FILE`]?.trim();
  if (!file) return direct;
  if (direct !== '') faults.push(`${name} and ${name}_FILE are both set: keep one of them.`);
  try {
    return readFile(file).trim();
  } catch {
    faults.push(`${name}_FILE names a file that cannot be read: check the path and its permissions.`);
    return '';
  }
}
