/** Owns relay policy: what a relay token may do, for whom, with which app and from where, and by which rule not. Pure. */
import { isInNetworks } from './network.ts';

/** The scopes of relay tokens, each of which is the name of what it opens. */
export const RELAY_SCOPES = ['threads:read', 'bin:read', 'token:exchange'] as const;
export type RelayScope = (typeof RELAY_SCOPES)[number];

/** What an administrator has said about one relay token. */
export interface RelayPolicy {
  scopes: readonly RelayScope[];
  /** Ids of connected apps. */
  apps: readonly string[];
  /** `none`: service accounts and BIN look-ups alone. */
  users: 'all' | 'none' | readonly string[];
  /** CIDRs; an empty list allows every address. */
  networks: readonly string[];
  /** Milliseconds since the epoch. */
  expiresAt: number;
  /** May name a user without proof. */
  assertUser: boolean;
  /** May have a token with every scope of the grant where the provider cannot narrow one. */
  fullScope: boolean;
}

/**
 * For whom a call is made. `proven`: by a user assertion or an ID token; otherwise the service only says so. `disabled`: by
 * an administrator.
 */
export type RelaySubject =
  | { kind: 'user'; id: string; proven: boolean; disabled: boolean }
  /** A platform API token that Gatehouse keeps, with no user behind it. */
  | { kind: 'service_account'; id: string };

export interface RelayCall {
  route: RelayScope;
  /** Undefined for BIN look-ups, as is the subject. */
  app: string | undefined;
  subject: RelaySubject | undefined;
  /** As our own connection or a trusted proxy gives it. */
  address: string;
  /** Milliseconds since the epoch. */
  now: number;
  /** Exchange: scopes that the provider could not narrow the token to, so that only the whole one is left. */
  unnarrowed?: boolean;
}

/** The member of the policy that refuses. */
export type RelayRule = 'expiresAt' | 'networks' | 'scopes' | 'apps' | 'users' | 'assertUser' | 'fullScope';

export type RelayDecision = { allowed: true } | { allowed: false; rule: RelayRule; detail: string };

/** The first rule that refuses, in the order of `RULES`; allowed where none does. */
export function decide(policy: RelayPolicy, call: RelayCall): RelayDecision {
  const refusing = RULES.find(({ refuses }) => refuses(policy, call));
  return refusing ? { allowed: false, rule: refusing.rule, detail: refusing.detail } : { allowed: true };
}

const RULES: readonly {
  rule: RelayRule;
  /** What to change, for the administrator and the service's owner alike. Holds nothing of the request. */
  detail: string;
  refuses: (policy: RelayPolicy, call: RelayCall) => boolean;
}[] = [
  {
    rule: 'expiresAt',
    detail: 'Rule expiresAt: the relay token has ended. Rotate it with a later end.',
    refuses: ({ expiresAt }, { now }) => now >= expiresAt,
  },
  {
    rule: 'networks',
    detail: 'Rule networks: the call does not come from a network that this relay token is bound to.',
    refuses: ({ networks }, { address }) => networks.length > 0 && !isInNetworks(address, networks),
  },
  {
    rule: 'scopes',
    detail: 'Rule scopes: the relay token lacks the scope that this route needs.',
    refuses: ({ scopes }, { route }) => !scopes.includes(route),
  },
  {
    rule: 'apps',
    detail: 'Rule apps: the relay token may not use this connected app.',
    refuses: ({ apps }, { app }) => app !== undefined && !apps.includes(app),
  },
  {
    rule: 'users',
    detail: 'Rule users: the relay token may not act for this user.',
    refuses: ({ users }, { subject }) => subject?.kind === 'user' && !includesUser(users, subject.id),
  },
  {
    rule: 'users',
    detail: 'Rule users: an administrator has disabled this user.',
    refuses: (_policy, { subject }) => subject?.kind === 'user' && subject.disabled,
  },
  {
    rule: 'assertUser',
    detail: 'Rule assertUser: the relay token may not name a user without proof. Send a user assertion.',
    refuses: ({ assertUser }, { subject }) => subject?.kind === 'user' && !subject.proven && !assertUser,
  },
  {
    rule: 'fullScope',
    detail: 'Rule fullScope: the provider gives no narrower token, and the relay token may not have the whole one.',
    refuses: ({ fullScope }, { unnarrowed }) => unnarrowed === true && !fullScope,
  },
];

function includesUser(users: RelayPolicy['users'], id: string): boolean {
  if (users === 'all' || users === 'none') return users === 'all';
  return users.includes(id);
}
