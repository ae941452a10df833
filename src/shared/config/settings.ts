/**
 * Every setting of Gatehouse, in the order of `.env.example`, which `test/documents.test.ts` generates from this table.
 */
import { z } from 'zod';
import { certificates, privateKey } from './pem.ts';
import {
  internalHostFault,
  isBaseUrl,
  isProxyUrl,
  parseOtlpHeaders,
  parsePublicUrl,
  splitList,
  trustedProxyFault,
  weakSecretFault,
  withoutTrailingSlash,
} from './rules.ts';
import { integer, list, listOf, oneOf, required, type SettingTable, type ValuesOf } from './setting.ts';

const TRACE_SAMPLERS = [
  ...['parentbased_always_on', 'parentbased_traceidratio', 'parentbased_always_off'],
  ...['always_on', 'traceidratio', 'always_off'],
] as const;

const SECRETS_ADVICE =
  'comma-separated random texts of 32 characters or more; create one with: openssl rand -base64 48';

const PUBLIC_URL_ADVICE = 'the URL under which browsers reach Gatehouse, such as https://gatehouse.example.com';

const publicUrl = required(PUBLIC_URL_ADVICE).transform((text, context) => {
  const { publicUrl: parsed, fault } = parsePublicUrl(text);
  if (parsed) return parsed;
  context.addIssue({ code: 'custom', message: ` ${fault}` });
  return z.NEVER;
});

const sessionSecrets = required(SECRETS_ADVICE)
  .transform(splitList)
  .superRefine((secrets, context) => {
    const refuse = (message: string) => context.addIssue({ code: 'custom', message });
    if (secrets.length === 0) refuse(` is a list without a secret: set ${SECRETS_ADVICE}`);
    for (const [position, secret] of secrets.entries()) {
      const fault = weakSecretFault(secret);
      if (fault) refuse(`: number ${position + 1} ${fault}; create one with: openssl rand -base64 48`);
    }
  });

const otlpHeaders = z.string().transform((text, context) => {
  const headers = parseOtlpHeaders(text);
  if (headers) return headers;
  context.addIssue({ code: 'custom', message: ' must be name=value pairs, comma-separated, percent-encoded.' });
  return z.NEVER;
});

const RATIO_FAULT = ' must be a number from 0 to 1.';
const ratio = z.string().transform(Number).pipe(z.number(RATIO_FAULT).min(0, RATIO_FAULT).max(1, RATIO_FAULT));

export const SETTINGS = {
  PUBLIC_URL: {
    schema: publicUrl,
    standIn: { href: '', origin: '', host: '', basePath: '', secure: true },
    about: `The URL under which browsers reach Gatehouse; may have a path. https, unless the host is loopback. Required.`,
    example: 'https://gatehouse.example.com',
  },
  HOST: {
    schema: z.string().default('127.0.0.1'),
    about: `Address and port to listen on.`,
  },
  PORT: {
    schema: integer(0, 65_535).default(3000),
  },
  MANAGEMENT_HOST: {
    schema: z.string().default('127.0.0.1'),
    about: `A second listener, for /healthz, /readyz and /metrics. Do not expose it publicly.`,
  },
  MANAGEMENT_PORT: {
    schema: integer(0, 65_535).default(3009),
  },
  SESSION_SECRETS: {
    schema: sessionSecrets,
    standIn: [],
    about: `Secrets that sign cookies, comma-separated (in a file also one per line), 32 characters or more each; the first signs,
all verify. Required.
Create one: openssl rand -base64 48`,
    secret: true,
  },
  ENCRYPTION_KEYS: {
    schema: required('create one with: npm run -s gatehouse -- keys generate'),
    standIn: '',
    about: `Keys that seal tokens, comma-separated (in a file also one per line); the first seals, all open. Losing them loses every
connection. Required.
Create one: npm run -s gatehouse -- keys generate`,
    secret: true,
  },
  DATA_DIR: {
    schema: z.string().default('./data'),
    about: `Embedded storage (SQLite), used if Redis is not configured.`,
  },
  REDIS_URL: {
    schema: z.string().optional(),
    about: `Shared storage, for more than one machine, in one of three ways: a redis:// or rediss:// URL, the nodes of a cluster,
or sentinels with the name of the master they watch (host:port, comma-separated).`,
    secret: true,
  },
  REDIS_CLUSTER: {
    schema: z.string().optional(),
    secret: true,
  },
  REDIS_SENTINELS: {
    schema: z.string().optional(),
    secret: true,
  },
  REDIS_SENTINEL_NAME: {
    schema: z.string().optional(),
    about: `The name under which the sentinels watch the master; no default. If the sentinels require a password, set theirs here, and
the user name if they have one: the credentials of the master are not sent to them.`,
  },
  REDIS_SENTINEL_USERNAME: {
    schema: z.string().optional(),
  },
  REDIS_SENTINEL_PASSWORD: {
    schema: z.string().optional(),
    secret: true,
  },
  REDIS_CERT_FILE: {
    schema: certificates.optional(),
    file: true,
    about: `Client certificate and its private key, both PEM, for a Redis that requires one (tls-auth-clients); with rediss:// only.
Sentinels get it, too.`,
    example: '/etc/gatehouse/redis-client.crt',
  },
  REDIS_KEY_FILE: {
    schema: privateKey.optional(),
    file: true,
    example: '/etc/gatehouse/redis-client.key',
  },
  REDIS_DURABILITY: {
    schema: oneOf(['aof', 'replicas', 'none']).default('aof'),
    about: `What Redis must have, or Gatehouse does not start: aof (an append-only file; set appendfsync to always, which Gatehouse cannot
check), replicas (at least one; writes wait for it), or none. A Redis that may evict keys is always refused.
Behind sentinels choose replicas: the file of a lost master does not help its successor. Use a master with two replicas:
with one replica, the loss of either refuses every write until it is back. Writes to a cluster wait for no replica: if a
master is lost, its latest writes may be lost, too.`,
  },
  REDIS_TIMEOUT_MS: {
    schema: integer(300, 3_000).default(2_000),
    about: `How long a command waits for Redis, in milliseconds, from 300 to 3000. After that, the request gets a 503; further
requests get one immediately until Redis responds again. With replicas, writes also get one until a replica confirms writes again.`,
  },
  CONNECTED_APPS_FILE: {
    schema: z.string().optional(),
    about: `JSON file of connected apps; docs/connected-apps.md explains it.`,
    example: './connected-apps.json',
  },
  ADMIN_APP: {
    schema: z.string().optional(),
    about: `Administrators are the users who have one of these values in this claim of this app: the name of a claim, or
a JSON Pointer such as /realm_access/roles. With ADMIN_CLAIM=email, addresses that the provider calls verified.
Default of ADMIN_APP: the only app of the file for sign-ins. Without ADMIN_VALUES, no user is an administrator.`,
  },
  ADMIN_CLAIM: {
    schema: z.string().default('groups'),
  },
  ADMIN_VALUES: {
    schema: list.default([]),
    example: 'gatehouse-admins',
  },
  ADMIN_ACR: {
    schema: z.string().regex(/^\S+$/, ' must be one value, without spaces.').optional(),
    about: `The acr value of the provider that the admin pages require. An administrator who signed in without it is
sent there to sign in again (step-up). Default: none.`,
    example: 'mfa',
  },
  TRUSTED_PROXIES: {
    schema: listOf(trustedProxyFault).default([]),
    about: `Addresses and CIDRs of reverse proxies whose X-Forwarded-* count, comma-separated. A network of every address
(0.0.0.0/0) is refused. List only your proxies: a peer listed here can choose the client address that Gatehouse sees. Any
other address may hold 500 idle connections. The log warns once if X-Forwarded-For comes from a peer that is not listed, or
contains no address.`,
    example: '10.0.0.10',
  },
  INTERNAL_HOSTS: {
    schema: listOf(internalHostFault).default([]),
    about: `Host names, addresses and CIDRs in loopback or private ranges that may be called, comma-separated.
Without it, only public addresses may be called. Plain http is allowed only for loopback addresses that are listed here.`,
    example: 'idp.internal.example,10.1.0.0/16',
  },
  CA_FILE: {
    schema: certificates.default([]),
    file: true,
    about: `Certificates of private authorities (one PEM file), trusted in addition to the public ones of Node: for providers, platforms,
webhook receivers, the BIN lookup service, Redis and the collector of traces.`,
    example: '/etc/gatehouse/ca.pem',
  },
  HTTPS_PROXY: {
    schema: z
      .string()
      .refine(
        isProxyUrl,
        ' must be the URL of a proxy, such as http://proxy.example.com:3128. Encode special characters of its user name and password, such as % as %25.',
      )
      .optional(),
    lowerCase: true,
    about: `Proxy for https calls, and hosts that are called without it, comma-separated (a name includes its subdomains; no ranges of addresses). The proxy
resolves names itself. Gatehouse also resolves each name first, and requests no tunnel to an address that may not be called, or to
a name that it cannot resolve within 3 s. List hosts that only the proxy can resolve in INTERNAL_HOSTS. Both are also read as
https_proxy and no_proxy, which count if both spellings are set.`,
    example: 'http://proxy.example.com:3128',
  },
  NO_PROXY: {
    schema: z.string().default(''),
    lowerCase: true,
    example: 'internal.example,10.1.2.3',
  },
  OUTBOUND_CONCURRENT_CALLS: {
    schema: integer(1, 10_000).default(64),
    about: `Calls to one host (platform, provider, webhook receiver, BIN lookup service): how many may run at a time, and how many may
wait. A request beyond that gets a 503 immediately. Each process counts separately. Discovery and pushed authorization
requests, which anonymous callers cause by starting a sign-in, use at most an eighth of both each. Services use at most five
eighths, and one relay token half of those. So users always have slots, if there are at least four; with fewer than five,
services have one slot, which one relay token may hold.`,
  },
  OUTBOUND_WAITING_CALLS: {
    schema: integer(0, 1_000_000).default(1_000),
  },
  OPERATOR_NAME: {
    schema: z.string().default('Gatehouse'),
    about: `Shown on pages.`,
  },
  SUPPORT_CONTACT: {
    schema: z.string().optional(),
    example: 'support@example.com',
  },
  SESSION_IDLE_SECONDS: {
    schema: integer(60, 31_536_000).default(1_800),
    about: `A session ends once it has not been used for SESSION_IDLE_SECONDS, and always SESSION_MAX_SECONDS after sign-in. Use is recorded
ten times per idle time, and at least every five minutes: a session may end that much earlier.`,
  },
  SESSION_MAX_SECONDS: {
    schema: integer(60, 31_536_000).default(28_800),
  },
  BIN_DATASET_FILE: {
    schema: z.string().optional(),
    about: `BIN data set (CSV, may be gzipped), loaded at the start and searched before the built-in one.`,
    example: './bins.csv',
  },
  BIN_SERVICE_URL: {
    schema: z
      .string()
      .refine(isBaseUrl, ' must be an absolute https URL without user name, query or fragment.')
      .transform(withoutTrailingSlash)
      .optional(),
    about: `BIN lookup service for BINs that the data set lacks.`,
    example: 'https://bins.example.com',
  },
  BIN_SERVICE_API_KEY: {
    schema: z.string().optional(),
    secret: true,
  },
  BIN_SERVICE_AUTH: {
    schema: oneOf(['bearer', 'query', 'basic']).default('bearer'),
    about: `bearer, query (as apiKey) or basic`,
  },
  BIN_SERVICE_MONTHLY_QUOTA: {
    schema: integer(0).default(10_000),
  },
  BIN_SERVICE_MONTHLY_USER_RESERVE: {
    schema: integer(0).optional(),
    about: `How many of these calls are reserved for users: relay tokens and "bin enrich" do not use them. Default: a tenth of the quota.`,
    example: '1000',
  },
  BIN_SERVICE_USER_DAILY_QUOTA: {
    schema: integer(0).optional(),
    about: `How many calls one user may cause in a day (UTC). With 0, users cause no calls at all; in the rate limits, 0 means no limit.
Default: a hundredth of the quota.`,
    example: '100',
  },
  CONNECTION_CHECK_SECONDS: {
    schema: integer(0, 2_592_000).default(86_400),
    about: `A connection that was not refreshed for this long is refreshed even without a call: providers then do not end it as idle, and
a revoked one is found. 0 for no checks. Disabled users and connections unused for 90 days are left out. The settings of each
connected app are checked as often.`,
  },
  AUDIT_DAYS: {
    schema: integer(1, 3_650).default(365),
    about: `How many days the audit trail is kept: at most 1,000,000 changes, and 1,000,000 other entries (sign-ins, use of the relay,
refusals).`,
  },
  RATE_LIMIT_PER_ADDRESS_PER_MINUTE: {
    schema: integer(0, 100_000_000).default(30_000),
    about: `Requests that one caller may send in a minute, counted across all processes; 0 for no limit. Counted by address (behind a
proxy, set TRUSTED_PROXIES, or all users share the proxy's address), by session, and by relay token.`,
  },
  RATE_LIMIT_SIGN_INS_PER_ADDRESS_PER_MINUTE: {
    schema: integer(0, 100_000_000).default(60),
    about: `How many of the requests from one address may start a sign-in or a connection in a minute. Twice as many may be callbacks.`,
  },
  RATE_LIMIT_PER_SESSION_PER_MINUTE: {
    schema: integer(0, 100_000_000).default(6_000),
  },
  RATE_LIMIT_PER_RELAY_TOKEN_PER_MINUTE: {
    schema: integer(0, 100_000_000).default(6_000),
  },
  SHUTDOWN_SECONDS: {
    schema: integer(1, 600).default(25),
    about: `How long requests in flight may continue after SIGTERM.`,
  },
  SHUTDOWN_DELAY_SECONDS: {
    schema: integer(0, 300).default(0),
    about: `How long new requests are still served before that, while /readyz already responds with 503. Give a load balancer that does not
retry requests time to notice: two or three of its polls. The nginx of docs/deploy.md needs none.`,
  },
  LOG_LEVEL: {
    schema: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
    about: `trace, debug, info, warn, error, fatal or silent`,
  },
  ACCESS_LOG: {
    schema: oneOf(['on', 'off']).default('off'),
    about: `A log line for each request: method, pattern of the route, status and duration. Never a path, a query or an address.`,
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    schema: z
      .string()
      .refine(isBaseUrl, ' must be the base URL of a collector for OTLP over HTTP, such as http://127.0.0.1:4318.')
      .transform(withoutTrailingSlash)
      .optional(),
    about: `Traces (OpenTelemetry): the URL of a collector for OTLP over HTTP, as JSON; /v1/traces is added. Without it, nothing is traced.
docs/operating-reference.md describes the traces. Headers as name=value, comma-separated, for collectors that require a key.`,
    example: 'http://127.0.0.1:4318',
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    schema: otlpHeaders.default({}),
    secret: true,
  },
  OTEL_SERVICE_NAME: {
    schema: z.string().optional(),
    example: 'gatehouse',
  },
  OTEL_TRACES_SAMPLER: {
    schema: oneOf(TRACE_SAMPLERS).default('parentbased_always_on'),
    about: `Which requests are traced: parentbased_always_on, parentbased_traceidratio, parentbased_always_off, always_on, traceidratio
or always_off. parentbased: a caller that sends a trace context decides. The argument is the ratio, from 0 to 1.`,
  },
  OTEL_TRACES_SAMPLER_ARG: {
    schema: ratio.default(1),
  },
  SANDBOX_PORT: {
    schema: integer(1, 65_533).default(3001),
    about: `For the demo and the sandbox: port of the identity provider. The platform uses the next port, the BIN lookup service the one after.`,
  },
} as const satisfies SettingTable;

export type SettingValues = ValuesOf<typeof SETTINGS>;
