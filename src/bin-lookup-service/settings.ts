/** The settings of the BIN lookup service, some of which have the schemas of Gatehouse's settings. */
import { z } from 'zod';
import {
  type Config,
  deepFreeze,
  redisChoiceFaults,
  serverFaults,
  toOutbound,
  toRedis,
  toServer,
} from '../shared/config/config.ts';
import { isLoopbackHost, type PublicUrl, parsePublicUrl, weakSecretFault } from '../shared/config/rules.ts';
import {
  type ConfigSource,
  integer,
  list,
  readSettings,
  type SettingTable,
  type ValuesOf,
} from '../shared/config/setting.ts';
import { SETTINGS } from '../shared/config/settings.ts';
import { ADDRESS_ADVICE, createAddressPolicy } from '../shared/outbound/address-policy.ts';
import { type FreeTier, type Plan, parsePlans } from './plans.ts';
import { BAN_DEFAULTS, FREE_MONTHLY_REQUESTS, FREE_REQUESTS_PER_MINUTE } from './service.ts';

const PUBLIC_URL_ADVICE =
  'the URL under which callers and browsers reach this service, such as https://bins.example.com';

const plans = list.transform((entries, context) => {
  const { plans: parsed, faults } = parsePlans(entries);
  for (const message of faults) context.addIssue({ code: 'custom', message });
  return parsed;
});

/** The characters and the length that `bearerOf` reads from an Authorization header. */
const PAYMENT_TOKEN_FORM = /^[!-~]{32,200}$/;

const paymentToken = z.string().superRefine((token, context) => {
  const formFault = 'needs 32 to 200 letters, digits and ASCII signs, without spaces';
  const fault = weakSecretFault(token) ?? (PAYMENT_TOKEN_FORM.test(token) ? undefined : formFault);
  if (fault) context.addIssue({ code: 'custom', message: ` ${fault}; generate one with: openssl rand -base64 48` });
});

/** `docs/bin-lookup-service.env.example` is generated from this table. */
export const BIN_SERVICE_SETTINGS = {
  PUBLIC_URL: {
    schema: SETTINGS.PUBLIC_URL.schema.optional(),
    about:
      'The URL under which callers and browsers reach it; may have a path. Required if HOST is not a loopback address.',
    example: 'https://bins.example.com',
  },
  HOST: SETTINGS.HOST,
  PORT: { schema: integer(0, 65_535).default(3003) },
  MANAGEMENT_HOST: SETTINGS.MANAGEMENT_HOST,
  MANAGEMENT_PORT: { schema: integer(0, 65_535).default(3008) },
  // The service has its own directory, because it shares nothing with Gatehouse.
  DATA_DIR: {
    schema: z.string().default('./data/bin-lookup-service'),
    about:
      'Counts, accounts and keys: SQLite here, or Redis for more than one machine (every key then begins with bin-lookup-service:).',
  },
  REDIS_URL: { schema: SETTINGS.REDIS_URL.schema, secret: true },
  REDIS_CLUSTER: { schema: SETTINGS.REDIS_CLUSTER.schema, secret: true },
  REDIS_SENTINELS: { schema: SETTINGS.REDIS_SENTINELS.schema, secret: true },
  REDIS_SENTINEL_NAME: { schema: SETTINGS.REDIS_SENTINEL_NAME.schema },
  REDIS_SENTINEL_USERNAME: { schema: SETTINGS.REDIS_SENTINEL_USERNAME.schema },
  REDIS_SENTINEL_PASSWORD: { schema: SETTINGS.REDIS_SENTINEL_PASSWORD.schema, secret: true },
  REDIS_CERT_FILE: { schema: SETTINGS.REDIS_CERT_FILE.schema, file: true },
  REDIS_KEY_FILE: { schema: SETTINGS.REDIS_KEY_FILE.schema, file: true },
  REDIS_DURABILITY: { schema: SETTINGS.REDIS_DURABILITY.schema },
  REDIS_TIMEOUT_MS: { schema: SETTINGS.REDIS_TIMEOUT_MS.schema },
  BIN_DATASET_FILE: {
    schema: SETTINGS.BIN_DATASET_FILE.schema,
    about: 'BIN data set (CSV, may be gzipped) that is searched before the built-in one. Its date is that of the file.',
    example: './bins.csv',
  },
  FREE_MONTHLY_REQUESTS: {
    schema: integer(0).default(FREE_MONTHLY_REQUESTS),
    about: 'Requests a month without a key, for each address (an IPv6 network of 64 bits counts as one).',
  },
  FREE_REQUESTS_PER_MINUTE: {
    schema: integer(0).default(FREE_REQUESTS_PER_MINUTE),
    about: 'Requests a minute without a key, for each address; 0 for no limit.',
  },
  PLANS: {
    schema: plans.prefault('starter:100000:60000,business:1000000:600000'),
    about: `Plans that users can choose, comma-separated: NAME:REQUESTS a month, then optionally :REQUESTS a minute, and :the support
address of the plan (an e-mail address or an https URL; otherwise SUPPORT_CONTACT).`,
    example: 'starter:100000:60000,business:1000000:600000:priority@example.com',
  },
  PAYMENT_TOKEN: {
    schema: paymentToken.optional(),
    secret: true,
    about: `A random text of 32 to 200 letters, digits and ASCII signs, with which a payment system confirms plans (docs/bin-lookup-service.md).
Without it they are confirmed only by command. Generate one: openssl rand -base64 48`,
  },
  BAN_REFUSALS: {
    schema: integer(1).default(BAN_DEFAULTS.refusals),
    about: 'A caller who is refused this often within BAN_SECONDS is banned for BAN_SECONDS.',
  },
  BAN_SECONDS: { schema: integer(1).default(BAN_DEFAULTS.seconds) },
  TRUSTED_PROXIES: {
    schema: SETTINGS.TRUSTED_PROXIES.schema,
    about: 'Addresses and CIDRs of reverse proxies whose X-Forwarded-For counts, comma-separated.',
    example: '10.0.0.0/8',
  },
  SIGN_IN_ISSUER: {
    schema: z.string().optional(),
    about:
      'The OpenID provider that users register with; without it there is only the free tier. Register PUBLIC_URL/account/callback.',
    example: 'https://idp.example.com',
  },
  SIGN_IN_NAME: { schema: z.string().optional(), example: 'Example' },
  SIGN_IN_CLIENT_ID: { schema: z.string().optional(), example: 'bin-lookup-service' },
  SIGN_IN_CLIENT_SECRET: { schema: z.string().optional(), secret: true },
  INTERNAL_HOSTS: {
    schema: SETTINGS.INTERNAL_HOSTS.schema,
    about:
      'Host names, addresses and CIDRs in loopback or private ranges that the provider may be at, comma-separated.',
    example: 'idp.internal.example',
  },
  CA_FILE: {
    schema: SETTINGS.CA_FILE.schema,
    file: true,
    about:
      'Certificates of private authorities (one PEM file), trusted in addition to the public ones, for the provider and Redis.',
    example: '/etc/bin-lookup-service/ca.pem',
  },
  HTTPS_PROXY: {
    schema: SETTINGS.HTTPS_PROXY.schema,
    lowerCase: true,
    about: `Proxy through which https calls leave, and hosts that are called without it, comma-separated. Both are also read as
https_proxy and no_proxy, which count if both spellings are set.`,
    example: 'http://proxy.example.com:3128',
  },
  NO_PROXY: { schema: SETTINGS.NO_PROXY.schema, lowerCase: true, example: 'internal.example' },
  OPERATOR_NAME: { schema: z.string().default('BIN lookup'), about: 'Shown on pages.' },
  SUPPORT_CONTACT: SETTINGS.SUPPORT_CONTACT,
  SESSION_IDLE_SECONDS: SETTINGS.SESSION_IDLE_SECONDS,
  SESSION_MAX_SECONDS: SETTINGS.SESSION_MAX_SECONDS,
  SHUTDOWN_SECONDS: SETTINGS.SHUTDOWN_SECONDS,
  SHUTDOWN_DELAY_SECONDS: SETTINGS.SHUTDOWN_DELAY_SECONDS,
  LOG_LEVEL: SETTINGS.LOG_LEVEL,
} as const satisfies SettingTable;

export const BIN_SERVICE_PREAMBLE = `Settings of the BIN lookup service (npm run bin-lookup-service). Copy this file to .env.bin-lookup-service, or set these as environment
variables. Each secret can also be given as NAME_FILE: the path of a file that holds it. Nothing is required: without any
setting it serves the free tier on this machine. A line that is commented out shows the default, or an example.`;

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
    | 'authorities'
    | 'trustedProxies'
    | 'internalHosts'
    | 'proxy'
    | 'pages'
    | 'session'
    | 'shutdown'
    | 'logLevel'
  > {
  datasetFile: string | undefined;
  free: FreeTier;
  plans: readonly Plan[];
  /** The token of the payment system; undefined if plans are confirmed only by command. */
  paymentToken: string | undefined;
  bans: { refusals: number; seconds: number };
  /** The provider for registration; undefined if there is only the free tier. */
  signIn: SignInSettings | undefined;
}

export type LoadedSettings = { settings: BinServiceSettings; faults: [] } | { settings?: never; faults: string[] };

/** Returns the settings, or all faults: sentences that name the setting and say what to do. */
export function loadBinServiceSettings(source: ConfigSource): LoadedSettings {
  const { values, faults: settingFaults, faulty } = readSettings(BIN_SERVICE_SETTINGS, source);
  const faults = [...settingFaults];
  const publicUrl = values.PUBLIC_URL ?? loopbackUrl(values);
  if (!publicUrl && !faulty.has('PUBLIC_URL')) faults.push(`PUBLIC_URL is required: ${PUBLIC_URL_ADVICE}`);
  const server = { ...values, PUBLIC_URL: publicUrl ?? SETTINGS.PUBLIC_URL.standIn };
  faults.push(...serverFaults(server, faulty), ...redisChoiceFaults(values, faulty));
  const signIn = readSignIn(values, faulty, faults);
  if (faults.length > 0) return { faults: [...new Set(faults)] };
  const settings: BinServiceSettings = {
    ...toServer(server),
    ...toOutbound(values),
    dataDirectory: values.DATA_DIR,
    redis: toRedis(values),
    authorities: values.CA_FILE,
    datasetFile: values.BIN_DATASET_FILE,
    free: toFreeTier(values),
    plans: values.PLANS,
    paymentToken: values.PAYMENT_TOKEN,
    bans: { refusals: values.BAN_REFUSALS, seconds: values.BAN_SECONDS },
    signIn,
  };
  return { settings: deepFreeze(settings), faults: [] };
}

type Values = ValuesOf<typeof BIN_SERVICE_SETTINGS>;

function toFreeTier({ FREE_MONTHLY_REQUESTS: monthlyRequests, FREE_REQUESTS_PER_MINUTE: perMinute }: Values): FreeTier {
  return perMinute === 0 ? { monthlyRequests } : { monthlyRequests, requestsPerMinute: perMinute };
}

/** Returns the URL of a loopback address, at which only programs on this machine can call. */
function loopbackUrl({ HOST: host, PORT: port }: Values): PublicUrl | undefined {
  if (!isLoopbackHost(host)) return undefined;
  return parsePublicUrl(`http://${host.includes(':') ? `[${host}]` : host}:${port}`).publicUrl;
}

function readSignIn(values: Values, faulty: ReadonlySet<string>, faults: string[]): SignInSettings | undefined {
  const { SIGN_IN_ISSUER: issuer, SIGN_IN_CLIENT_ID: clientId, SIGN_IN_CLIENT_SECRET: clientSecret } = values;
  if (issuer === undefined && clientId === undefined && clientSecret === undefined) return undefined;
  if (issuer === undefined || clientId === undefined || clientSecret === undefined) {
    const isFileFault = faulty.has('SIGN_IN_CLIENT_SECRET');
    if (!isFileFault)
      faults.push('SIGN_IN_ISSUER, SIGN_IN_CLIENT_ID and SIGN_IN_CLIENT_SECRET belong together: set all or none.');
    return undefined;
  }
  const rule = createAddressPolicy(values.INTERNAL_HOSTS).checkUrl(issuer);
  if (rule) faults.push(`SIGN_IN_ISSUER: ${ADDRESS_ADVICE[rule]}`);
  return { issuer, clientId, clientSecret, name: values.SIGN_IN_NAME ?? URL.parse(issuer)?.host ?? issuer };
}
