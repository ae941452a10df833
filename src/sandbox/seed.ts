/** Parses the seed file: users, apps, API tokens and threads that exist at every start. Reports all faults at once. */
import { z } from 'zod';
import { networkFault } from '../shared/config/networks.ts';
import { createAccounts } from './accounts.ts';
import { isApiToken } from './api-tokens.ts';
import { appSettingsSchema } from './app-settings.ts';
import { CALLBACK_FAULTS, callbackFaults } from './callback-rules.ts';
import { AUTH_METHODS, OWN_CLIENT_IDS } from './clients.ts';
import { FULL_SCOPE, READ_SCOPE, SCOPES } from './scopes.ts';
import { THREAD_ID } from './threads.ts';
import { isTotpSecret } from './totp.ts';

const text = (max: number) =>
  z.string('must be text').trim().min(1, 'must not be empty').max(max, `must be ${max} characters or less`);
const email = z.email('must be an e-mail address').max(200, 'must be 200 characters or less').toLowerCase();
const time = z.iso
  .datetime({ offset: true, error: 'must be a time such as 2027-01-31T00:00:00Z' })
  .transform((iso) => Date.parse(iso));
export const webUrlSchema = z
  .string('must be a URL')
  .refine((url) => /^https?:$/.test(URL.parse(url)?.protocol ?? ''), 'must be an http: or https: URL');

const networkSchema = z.string().superRefine((text, context) => {
  const fault = networkFault(text);
  if (fault) context.addIssue({ code: 'custom', message: fault });
});
export const callbackUrlsSchema = z
  .array(z.string('must be text'))
  .min(1, 'needs at least one callback URL')
  .superRefine((urls, ctx) => {
    for (const [index, faults] of callbackFaults(urls).entries()) {
      for (const fault of faults) {
        ctx.addIssue({ code: 'custom', path: [index], message: `${CALLBACK_FAULTS[fault]} (${fault})` });
      }
    }
  });
export const appScopesSchema = z
  .array(z.enum(SCOPES, `must be one of ${SCOPES.join(', ')}`))
  .min(1, 'needs at least one scope');
export const tokenScopesSchema = z
  .array(z.enum([READ_SCOPE, FULL_SCOPE], `must be ${READ_SCOPE} or ${FULL_SCOPE}`))
  .min(1, 'needs at least one scope');

export const userSchema = z.strictObject({
  login: email,
  name: text(100),
  kind: z.enum(['person', 'service'], 'must be person or service').optional(),
  password: z.string().min(8, 'must have 8 characters or more').max(200, 'must be 200 characters or less').optional(),
  groups: z.array(text(100)).optional(),
  networks: z.array(networkSchema).optional(),
  restrictTokens: z.boolean().optional(),
  totpSecret: z.string().refine(isTotpSecret, 'must be 16 to 64 characters of base32 (A-Z, 2-7)').optional(),
});

const appSchema = z
  .strictObject({
    clientId: z
      .string()
      .regex(/^[A-Za-z0-9._-]{1,100}$/, 'must be 1 to 100 of letters, digits, dot, _ and -')
      .refine((id) => !OWN_CLIENT_IDS.includes(id), 'is reserved by the sandbox: choose another'),
    clientSecret: z.string().min(16, 'must have 16 characters or more').max(200, 'must be 200 or less').optional(),
    name: text(100).optional(),
    callbackUrls: callbackUrlsSchema,
    postLogoutUrls: z.array(webUrlSchema).optional(),
    scopes: appScopesSchema.optional(),
    tokenEndpointAuthMethod: z.enum(AUTH_METHODS, `must be one of ${AUTH_METHODS.join(', ')}`).optional(),
    jwksUri: webUrlSchema.optional(),
    idTokenAlgorithm: z.enum(['RS256', 'ES256'], 'must be RS256 or ES256').optional(),
    backchannelLogoutUri: webUrlSchema.optional(),
    settings: appSettingsSchema.optional(),
  })
  .superRefine(({ tokenEndpointAuthMethod: method = 'client_secret_basic', clientSecret, jwksUri }, ctx) => {
    const addFault = (name: string, message: string) => ctx.addIssue({ code: 'custom', path: [name], message });
    if (method.startsWith('client_secret') && !clientSecret) addFault('clientSecret', `is needed with ${method}`);
    if (method === 'private_key_jwt' && !jwksUri) addFault('jwksUri', 'is needed with private_key_jwt');
  });

const tokenSchema = z.strictObject({
  name: text(100),
  user: email,
  scopes: tokenScopesSchema,
  expiresAt: time.optional(),
  token: z.string().refine(isApiToken, 'must be sbxt_ and 32 to 128 of letters, digits, _ and -'),
});

const threadSchema = z.strictObject({
  id: z.string().regex(THREAD_ID, 'must be 4 to 40 letters and digits').optional(),
  author: email,
  title: text(200),
  html: text(100_000),
  createdAt: time.optional(),
  updatedAt: time.optional(),
  sharedWith: z.array(email).optional(),
  current: z.boolean().optional(),
});

const seedSchema = z.strictObject({
  builtInUsers: z.boolean().default(true),
  users: z.array(userSchema).default([]),
  apps: z.array(appSchema).default([]),
  tokens: z.array(tokenSchema).default([]),
  threads: z.array(threadSchema).default([]),
});

export type Seed = z.infer<typeof seedSchema>;

export type ReadSeed = { seed: Seed; faults?: never } | { seed?: never; faults: string[] };

/** Returns the seed, or all faults with their paths. */
export function readSeed(json: string): ReadSeed {
  let input: unknown;
  try {
    input = JSON.parse(json);
  } catch {
    return { faults: ['It is not JSON: check commas, quotes and brackets.'] };
  }
  const parsed = seedSchema.safeParse(input);
  if (!parsed.success)
    return { faults: parsed.error.issues.map((issue) => `${pathOf(issue.path)}: ${inWords(issue)}`) };
  const faults = contradictions(parsed.data);
  return faults.length > 0 ? { faults } : { seed: parsed.data };
}

/** Returns the faults between entries: duplicates, and references to users that do not exist. */
function contradictions({ builtInUsers, users, apps, tokens, threads }: Seed): string[] {
  const { all } = createAccounts({ builtIn: builtInUsers, more: users });
  const logins = new Set(all.map(({ login }) => login));
  const unknown = (path: string, login: string) => (logins.has(login) ? [] : [`${path}: there is no user ${login}`]);
  const duplicates = (path: string, values: (string | undefined)[]) =>
    values.flatMap((value, index) =>
      value !== undefined && values.indexOf(value) < index ? [`${path}[${index}]: is a duplicate`] : [],
    );
  const names = {
    users: users.map(({ login }) => login),
    apps: apps.map(({ clientId }) => clientId),
    tokens: tokens.map(({ token }) => token),
    threads: threads.map(({ id }) => id),
  };
  return [
    ...Object.entries(names).flatMap(([path, values]) => duplicates(path, values)),
    ...threads.flatMap(({ author, current }, index) =>
      current && threads.findIndex((thread) => thread.current && thread.author === author) < index
        ? [`threads[${index}].current: ${author} already has a current thread`]
        : [],
    ),
    ...tokens.flatMap(({ user }, index) => unknown(`tokens[${index}].user`, user)),
    ...threads.flatMap(({ author, sharedWith = [] }, index) => [
      ...unknown(`threads[${index}].author`, author),
      ...sharedWith.flatMap((login, at) => unknown(`threads[${index}].sharedWith[${at}]`, login)),
    ]),
  ];
}

const KINDS: Readonly<Record<string, string>> = {
  array: 'a list',
  boolean: 'true or false',
  object: 'an object',
  string: 'text',
};

/** Returns a plain sentence in place of a message of zod, which is written for programmers. */
function inWords(issue: z.core.$ZodIssue): string {
  if (issue.code === 'unrecognized_keys') return `has no field ${issue.keys.join(', ')}: check the spelling`;
  if (issue.code !== 'invalid_type' || !issue.message.startsWith('Invalid input')) return issue.message;
  return issue.message.endsWith('undefined') ? 'is missing' : `must be ${KINDS[issue.expected] ?? issue.expected}`;
}

function pathOf(path: readonly PropertyKey[]): string {
  const text = path.map((key) => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`)).join('');
  return text.replace(/^\./, '') || 'the file';
}
