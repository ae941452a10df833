/** The settings of `npm run sandbox`: names, defaults, descriptions and validation. */
import { Command, Option } from 'commander';
import { z } from 'zod';
import { CALLBACK_FAULTS, callbackFaults } from './callback-rules.ts';

interface NamedOption {
  flag: string;
  env: string;
  fallback?: string;
  description: string;
}

const wholeNumber = (min: number, max: number) =>
  z
    .string()
    .transform((text) => (/^\d+$/.test(text) ? Number(text) : Number.NaN))
    .pipe(
      z
        .int(`must be a whole number from ${min} to ${max}`)
        .min(min, `must be ${min} or more`)
        .max(max, `must be ${max} or less`),
    );
const oneOf = <const T extends readonly string[]>(values: T) => z.enum(values, `must be one of ${values.join(', ')}`);
const yesFlag = z
  .union([z.boolean(), z.string()])
  .transform((value) => value === true || /^(1|yes|true)$/i.test(String(value)));
const text = z.string().min(1, 'must not be empty');
const YEAR_SECONDS = 365 * 24 * 60 * 60;

const shape = {
  host: text,
  beyondLoopback: yesFlag.optional(),
  publicHost: text.optional(),
  port: wholeNumber(1, 65_533),
  seed: text.optional(),
  callbackUrl: z.string().superRefine((url, ctx) => {
    for (const fault of callbackFaults([url]).flat()) {
      ctx.addIssue({ code: 'custom', message: `${CALLBACK_FAULTS[fault]} (${fault})` });
    }
  }),
  accessTokenSeconds: wholeNumber(1, YEAR_SECONDS),
  refreshIdleSeconds: wholeNumber(1, YEAR_SECONDS),
  refreshMaxSeconds: wholeNumber(1, YEAR_SECONDS).optional(),
  refreshPolicy: oneOf(['rotating', 'reusable', 'grace']),
  graceSeconds: wholeNumber(1, 86_400),
  tokenDelayMilliseconds: wholeNumber(0, 60_000),
  secondFactor: oneOf(['on_request', 'always']),
  leanIdToken: yesFlag.optional(),
  maxApprovals: wholeNumber(1, 1_000),
  overLimit: oneOf(['503', '429', 'none']),
  userCallsPerMinute: wholeNumber(1, 1_000_000),
  userCallsPerHour: wholeNumber(1, 1_000_000),
  companyCallsPerMinute: wholeNumber(1, 1_000_000),
};

const OPTIONS: Record<keyof typeof shape, NamedOption> = {
  host: { flag: '--host <host>', env: 'SANDBOX_HOST', fallback: '127.0.0.1', description: 'address to listen on' },
  beyondLoopback: {
    flag: '--beyond-loopback [yes]',
    env: 'SANDBOX_BEYOND_LOOPBACK',
    description: 'required if --host is not loopback: every client that reaches the sandbox can do everything in it',
  },
  publicHost: {
    flag: '--public-host <host>',
    env: 'SANDBOX_PUBLIC_HOST',
    description: 'host in URLs, if not --host (such as a container name)',
  },
  port: {
    flag: '--port <number>',
    env: 'SANDBOX_PORT',
    fallback: '3001',
    description: 'first of three ports: identity provider, platform, BIN lookup service',
  },
  seed: {
    flag: '--seed <file>',
    env: 'SANDBOX_SEED_FILE',
    description: 'JSON file of users, apps, tokens and threads that exist at every start',
  },
  callbackUrl: {
    flag: '--callback-url <url>',
    env: 'SANDBOX_CALLBACK_URL',
    fallback: 'http://127.0.0.1:3000/oauth/callback/platform',
    description: 'callback URL of the sandbox’s own app',
  },
  accessTokenSeconds: {
    flag: '--access-token-seconds <n>',
    env: 'SANDBOX_ACCESS_TOKEN_SECONDS',
    fallback: '60',
    description: 'lifetime of access tokens',
  },
  refreshIdleSeconds: {
    flag: '--refresh-idle-seconds <n>',
    env: 'SANDBOX_REFRESH_IDLE_SECONDS',
    fallback: '1209600',
    description: 'a refresh token expires if it is not used for this long',
  },
  refreshMaxSeconds: {
    flag: '--refresh-max-seconds <n>',
    env: 'SANDBOX_REFRESH_MAX_SECONDS',
    description: 'a refresh token expires this long after the sign-in, even if it is used (default: no limit)',
  },
  refreshPolicy: {
    flag: '--refresh-policy <policy>',
    env: 'SANDBOX_REFRESH_POLICY',
    fallback: 'rotating',
    description:
      'used refresh tokens: rotating (a second use ends the grant), grace (valid for a while longer), reusable',
  },
  graceSeconds: {
    flag: '--grace-seconds <n>',
    env: 'SANDBOX_GRACE_SECONDS',
    fallback: '60',
    description: 'how long a used refresh token stays valid with --refresh-policy grace',
  },
  tokenDelayMilliseconds: {
    flag: '--token-delay-milliseconds <n>',
    env: 'SANDBOX_TOKEN_DELAY_MILLISECONDS',
    fallback: '0',
    description: 'delay of the token endpoint’s responses',
  },
  secondFactor: {
    flag: '--second-factor <when>',
    env: 'SANDBOX_SECOND_FACTOR',
    fallback: 'on_request',
    description: 'require second factors on_request (acr_values=mfa) or always',
  },
  leanIdToken: {
    flag: '--lean-id-token [yes]',
    env: 'SANDBOX_LEAN_ID_TOKEN',
    description: 'name, e-mail and groups at userinfo only, not in the ID token',
  },
  maxApprovals: {
    flag: '--max-approvals <n>',
    env: 'SANDBOX_MAX_APPROVALS',
    fallback: '5',
    description: 'approvals of one app by one user; a further one ends the oldest',
  },
  overLimit: {
    flag: '--over-limit <response>',
    env: 'SANDBOX_OVER_LIMIT',
    fallback: '503',
    description: 'response to platform calls over a limit: 503 "Over Rate Limit", 429, or none (allowed)',
  },
  userCallsPerMinute: {
    flag: '--user-calls-per-minute <n>',
    env: 'SANDBOX_USER_CALLS_PER_MINUTE',
    fallback: '50',
    description: 'limit of each user',
  },
  userCallsPerHour: {
    flag: '--user-calls-per-hour <n>',
    env: 'SANDBOX_USER_CALLS_PER_HOUR',
    fallback: '750',
    description: 'limit of each user',
  },
  companyCallsPerMinute: {
    flag: '--company-calls-per-minute <n>',
    env: 'SANDBOX_COMPANY_CALLS_PER_MINUTE',
    fallback: '600',
    description: 'limit of all users together',
  },
};

const schema = z.object(shape);

export type Settings = z.infer<typeof schema>;

export type ReadSettings = { settings: Settings; faults?: never } | { settings?: never; faults: string[] };

/** Creates the command, whose `opts()` are for `readSettings`. @param helpText added below the list of settings */
export function createCommand(helpText: string): Command {
  const command = new Command('npm run sandbox --')
    .description(
      'Starts an identity provider, the platform and the BIN lookup service, with one registered app and three accounts.\n' +
        'Everything is kept in memory and lost when it stops. Each setting is an option or an environment variable.',
    )
    .allowExcessArguments(false)
    .addHelpText('after', `\n${helpText}`);
  for (const { flag, env, fallback, description } of Object.values(OPTIONS)) {
    const option = new Option(flag, description).env(env);
    command.addOption(fallback === undefined ? option : option.default(fallback));
  }
  return command;
}

/** Returns the settings or all faults. An empty environment variable counts as unset. */
export function readSettings(options: Record<string, unknown>): ReadSettings {
  const entries = Object.entries(OPTIONS).map(([name, { fallback }]) => [
    name,
    options[name] === '' ? fallback : options[name],
  ]);
  const parsed = schema.safeParse(Object.fromEntries(entries));
  if (parsed.success) return { settings: parsed.data };
  const faults = parsed.error.issues.map(({ path, message }) => {
    const { flag, env } = OPTIONS[path[0] as keyof typeof OPTIONS];
    return `${flag.split(' ')[0]} (${env}) ${message}`;
  });
  return { faults };
}
