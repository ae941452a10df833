/** Decides by its relay policy whether a relay token may make a call, and names the rule that refuses it. Pure. */
import { z } from 'zod';
import { isAllowedFrom, networkFault } from '../../shared/config/networks.ts';
import type { AppRoute } from '../../shared/provider/app-routes.ts';

/** The scopes of relay tokens, with their texts on pages. */
const scopeWords = {
  'threads:read': 'Read the current thread',
  'api:call': 'Call routes of platforms',
  'bin:read': 'Look up BINs',
  'token:exchange': 'Get users’ access tokens',
  'connections:read': 'See the state of connections',
  'connect_links:create': 'Create links with which users connect',
} as const;
export type RelayScope = keyof typeof scopeWords;
export const RELAY_SCOPES = Object.keys(scopeWords) as readonly RelayScope[];

/** The form of the ids of users and service accounts. */
export const SUBJECT_ID = /^[A-Za-z0-9_-]{1,64}$/;

const userId = z.string().regex(SUBJECT_ID, 'Enter user ids as the page of the user and GET /session show them.');
/** So that a form and a request of the API hold them all. */
export const MAX_LISTED_USERS = 1_000;
const listedUsers = z.array(userId).max(MAX_LISTED_USERS);

const routeName = z.string().regex(/^[a-z0-9-]{1,40}$/, 'Enter names of routes, as the app declares them.');

const network = z.string().superRefine((text, context) => {
  const fault = networkFault(text);
  if (fault) context.addIssue({ code: 'custom', message: `This ${fault}`, params: { rule: 'network' } });
});

/** `title` and `description` are shown in the form, on the token's page and in the API documentation. */
const flag = (title: string, description: string) => z.boolean().default(false).meta({ title, description });

const flags = {
  assertUser: flag(
    'Name users without proof',
    'Anyone who has the token can act for all allowed users at any time, even while they are away.',
  ),
  fullScope: flag(
    'Get the whole access token if the provider issues no narrower one',
    'Applies to exchanges that request fewer scopes than the user granted.',
  ),
  acceptIdTokens: flag(
    'Accept ID tokens as proof of a user',
    'Applies to exchanges. The ID token of a sign-in, at most 10 minutes old, proves its user until the user signs out here.',
  ),
};

/**
 * What an administrator allows one relay token. This schema defines the type, the stored form, the JSON of the API and
 * the fields of the form.
 */
export const relayPolicySchema = z.object({
  scopes: z.array(z.enum(RELAY_SCOPES)).min(1, 'Choose at least one scope.').readonly(),
  apps: z
    .array(z.string().max(40))
    .max(200)
    .readonly()
    .default([])
    .describe('ids of the connected apps that it may use'),
  routes: z
    .union([z.literal('reads'), z.array(routeName).max(200).readonly()], {
      error: 'Use "reads", or a list of names of routes.',
    })
    .default([])
    .describe('for api:call, the names of the routes that it may call, in any of its apps; "reads": every GET'),
  users: z
    .union([z.enum(['all', 'none']), listedUsers.min(1).readonly()], {
      error: 'Use "all", "none", or a list of user ids.',
    })
    .describe('"none": only service accounts and BIN lookups'),
  networks: z.array(network).max(200).readonly().default([]).describe('CIDRs; an empty list allows every address'),
  /** In JSON a time in ISO 8601, otherwise milliseconds since the epoch. */
  expiresAt: z.int(),
  ...flags,
});

export type RelayPolicy = z.output<typeof relayPolicySchema>;

/** What tokens have that were stored before a flag, or the rule `routes`, existed. */
export const POLICY_DEFAULTS = z.object({ ...flags, routes: relayPolicySchema.shape.routes }).parse({});

export type RelayFlag = keyof typeof flags;
export const RELAY_FLAGS = Object.keys(flags) as readonly RelayFlag[];

/** The texts of scopes and flags on pages. */
export const RELAY_WORDS = {
  scopes: scopeWords,
  flags: Object.entries(flags).map(([name, schema]) => {
    const { title = '', description = '' } = schema.meta() ?? {};
    return { name, title, description };
  }),
};

/**
 * The subject of a call. `proven`: by a user assertion or an ID token; otherwise the service only claims it.
 * `disabled`: by an administrator.
 */
export type RelaySubject =
  | { kind: 'user'; id: string; proven: boolean; state: 'active' | 'disabled' | 'unknown' }
  /**
   * A platform API token without a user. `app`: the connected app that it belongs to; undefined if there is no such
   * account. `moved`: the origin of the app's platform has changed since the API token was entered.
   */
  | { kind: 'service_account'; id: string; app: string | undefined; moved: boolean };

export interface RelayCall {
  /** The scope that the call needs. */
  scope: RelayScope;
  /** The id of the connected app; undefined for BIN lookups, as is the subject. */
  app?: string | undefined;
  subject?: RelaySubject | undefined;
  /** True if the call lists the connections of every user that the token may act for, without proof of any user. */
  everyUser?: boolean;
  /** The route that is called; undefined if the call is none of `/relay/api`, or before the route is known. */
  route?: CalledRoute | undefined;
  /** The client's address, from the TCP connection or a trusted proxy. */
  address: string;
  /** Milliseconds since the epoch. */
  now: number;
  /** True for a token exchange in which the provider could not narrow the token: only the whole one is available. */
  fullScope?: boolean;
  /** True for a token exchange in which an ID token proves the user. */
  idToken?: boolean;
}

/**
 * The rule that refuses, named after the member of the policy that it reads. `serviceAccount` reads none: it refuses if
 * the account does not exist or its platform has moved. An invalid proof of a user is refused before the policy is
 * applied, so it is not a rule (`UseResult` in `stored-uses.ts`).
 */
export type RelayRule = keyof RelayPolicy | 'serviceAccount';

/** `unknown`: the user or service account does not exist. */
export type RelayRefusal = { allowed: false; rule: RelayRule; detail: string; unknown?: boolean };
export type RelayDecision = { allowed: true } | RelayRefusal;

/** Applies `RULES` in order. The first rule that refuses decides. */
export function decide(policy: RelayPolicy, call: RelayCall): RelayDecision {
  const refusing = RULES.find(({ allows }) => allows(policy, call) === false);
  if (!refusing) return { allowed: true };
  const { allows: _, check: _check, ...refusal } = refusing;
  return { allowed: false, ...refusal };
}

/** `not_applicable`: the rule concerns other calls, such as those for a service account. */
export type RuleResult = 'passed' | 'failed' | 'not_applicable';

export interface RuleCheck {
  rule: RelayRule;
  /** The requirement of the rule, as a sentence. */
  check: string;
  result: RuleResult;
  /** What to change; undefined unless the result is `failed`. */
  detail?: string;
}

/** Applies every rule, including those after the first refusal. */
export function checkRules(policy: RelayPolicy, call: RelayCall): RuleCheck[] {
  return RULES.map(({ rule, check, detail, allows }) => {
    const allowed = allows(policy, call);
    if (allowed === false) return { rule, check, result: 'failed', detail };
    return { rule, check, result: allowed ? 'passed' : 'not_applicable' };
  });
}

export const SERVICE_ACCOUNT_MOVED =
  'Rule serviceAccount: the platform of this app has moved. An administrator must enter its API token again.';

const RULES: readonly {
  rule: RelayRule;
  check: string;
  /** What to change, for the administrator and the service's owner. Never repeats input. */
  detail: string;
  unknown?: true;
  /** Undefined if the rule does not apply to the call. */
  allows: (policy: RelayPolicy, call: RelayCall) => boolean | undefined;
}[] = [
  {
    rule: 'expiresAt',
    check: 'The relay token has not expired.',
    detail: 'Rule expiresAt: the relay token has expired. Set a later expiry.',
    allows: ({ expiresAt }, { now }) => now < expiresAt,
  },
  {
    rule: 'networks',
    check: 'The call comes from an allowed network.',
    detail: 'Rule networks: the call does not come from a network that this relay token is bound to.',
    allows: ({ networks }, { address }) => isAllowedFrom(address, networks),
  },
  {
    rule: 'scopes',
    check: 'The relay token has the scope for this action.',
    detail: 'Rule scopes: the relay token lacks the scope that this route needs.',
    allows: ({ scopes }, { scope }) => scopes.includes(scope),
  },
  {
    rule: 'apps',
    check: 'The relay token may use the connected app.',
    detail: 'Rule apps: the relay token may not use this connected app.',
    allows: ({ apps }, { app }) => (app === undefined ? undefined : apps.includes(app)),
  },
  {
    rule: 'serviceAccount',
    check: 'The service account exists and belongs to the app.',
    detail: 'Rule serviceAccount: there is no service account with this id for this connected app.',
    unknown: true,
    allows: (_policy, { subject, app }) =>
      subject?.kind === 'service_account' ? subject.app !== undefined && subject.app === app : undefined,
  },
  {
    rule: 'serviceAccount',
    check: 'The API token was entered for the present platform of the app.',
    detail: SERVICE_ACCOUNT_MOVED,
    allows: (_policy, { subject }) =>
      subject?.kind === 'service_account' && subject.app !== undefined ? !subject.moved : undefined,
  },
  {
    rule: 'acceptIdTokens',
    check: 'The relay token accepts ID tokens as proof of a user.',
    detail: 'Rule acceptIdTokens: the relay token does not accept ID tokens. Send a user assertion.',
    allows: ({ acceptIdTokens }, { idToken }) => (idToken === true ? acceptIdTokens : undefined),
  },
  {
    rule: 'assertUser',
    check: 'The relay token may name users without proof.',
    detail: 'Rule assertUser: the relay token may not name a user without proof. Send a user assertion.',
    allows: ({ assertUser }, { subject, everyUser }) =>
      everyUser === true || (subject?.kind === 'user' && !subject.proven) ? assertUser : undefined,
  },
  {
    rule: 'users',
    check: 'The relay token may act for the user.',
    detail: 'Rule users: the relay token may not act for this user.',
    allows({ users }, { subject, everyUser }) {
      if (everyUser) return users !== 'none';
      return subject?.kind === 'user' ? includesUser(users, subject.id) : undefined;
    },
  },
  {
    rule: 'users',
    check: 'The user exists.',
    detail:
      'Rule users: there is no user with this id. The user has to sign in first; GET /session and the page of the user show the id.',
    unknown: true,
    // After the rule above, so that a relay token cannot probe for users that it may not act for.
    allows: (_policy, { subject }) => (subject?.kind === 'user' ? subject.state !== 'unknown' : undefined),
  },
  {
    rule: 'users',
    check: 'The user is not disabled.',
    detail: 'Rule users: an administrator has disabled this user.',
    allows: (_policy, { subject }) =>
      subject?.kind === 'user' && subject.state !== 'unknown' ? subject.state !== 'disabled' : undefined,
  },
  {
    // After the rules about app and user: the route is looked up only for a caller that these allow.
    rule: 'routes',
    check: 'The relay token may call the route.',
    detail: 'Rule routes: the relay token may not call this route.',
    allows({ routes }, { route }) {
      return route && isAllowedRoute(routes, route);
    },
  },
  {
    rule: 'fullScope',
    check: 'The relay token may get the whole access token.',
    detail: 'Rule fullScope: the provider issues no narrower token, and the relay token may not get the whole one.',
    allows: ({ fullScope }, call) => (call.fullScope === true ? fullScope : undefined),
  },
];

type CalledRoute = Pick<AppRoute, 'name' | 'method'>;

export function isAllowedRoute(routes: RelayPolicy['routes'], { name, method }: CalledRoute): boolean {
  return routes === 'reads' ? method === 'GET' : routes.includes(name);
}

function includesUser(users: RelayPolicy['users'], id: string): boolean {
  if (users === 'all' || users === 'none') return users === 'all';
  return users.includes(id);
}
