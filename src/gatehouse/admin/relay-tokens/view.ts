/** The JSON of relay tokens, for input and output, and the columns of their list. */
import { z } from 'zod';
import { isoOrNull, isoTime } from '../../../shared/time.ts';
import { RELAY_WORDS, relayPolicySchema } from '../../relay/policy.ts';
import { RELAY_TOKEN_PREFIX, type RelayToken, type RelayTokenUse } from '../../relay/relay-token.ts';
import type { Cell, Columns } from '../columns.ts';
import { credentialName, stateOf, TOKEN_STATES } from '../credential.ts';
import { namedMembers } from '../named-members.ts';
import { type IdleScopes, idleScopesJson } from './idle-scopes.ts';

const binCallsPerMonth = z
  .int()
  .min(0)
  .max(999_999_999)
  .nullable()
  .default(null)
  .describe(
    'the maximum number of calls to the BIN lookup service in a month (UTC); null: all that are not reserved for users',
  );

export const newRelayToken = z.strictObject({
  name: credentialName,
  ...relayPolicySchema.shape,
  expiresAt: z.iso
    .datetime({ offset: true, error: 'Enter a time such as 2027-01-31T00:00:00Z.' })
    .transform((text) => Date.parse(text)),
  binCallsPerMonth,
});
export const changedRelayToken = z.strictObject({ ...namedMembers(newRelayToken.shape), version: z.int() });

export const relayTokenJson = z.object({
  id: z.string(),
  version: z.int(),
  name: z.string(),
  prefix: z.string().describe('the beginning of the token, to recognize it in the settings of a service'),
  ...relayPolicySchema.shape,
  // The rules for input do not apply here: a newer version may have stored a scope that this one does not know.
  scopes: z.array(z.string()).readonly(),
  apps: z.array(z.string()).readonly(),
  routes: z.union([z.literal('reads'), z.array(z.string()).readonly()]),
  users: z.union([z.enum(['all', 'none']), z.array(z.string()).readonly()]),
  networks: z.array(z.string()).readonly(),
  expiresAt: z.iso.datetime(),
  state: z.enum(TOKEN_STATES).describe('"expiring": within two weeks'),
  binCallsPerMonth,
  createdAt: z.iso.datetime(),
  rotatedAt: z.iso.datetime(),
  overlapEndsAt: z.iso.datetime().nullable(),
  lastUsedAt: z.iso.datetime().nullable(),
  lastUsedAddress: z.string().nullable(),
  idleScopes: idleScopesJson,
});

export type RelayTokenView = z.output<typeof relayTokenJson>;

/** Returns the JSON of a token, without the secret. The prefix contains the token's id. */
export function relayTokenView(
  token: RelayToken,
  { use, idleScopes, now }: { use: RelayTokenUse | undefined; idleScopes: IdleScopes; now: number },
): RelayTokenView {
  return {
    ...token,
    prefix: `${RELAY_TOKEN_PREFIX}${token.id}`,
    expiresAt: isoTime(token.expiresAt),
    state: stateOf(token, now),
    createdAt: isoTime(token.createdAt),
    rotatedAt: isoTime(token.rotatedAt),
    overlapEndsAt: isoOrNull(token.overlapEndsAt),
    lastUsedAt: isoOrNull(use?.at),
    lastUsedAddress: use?.address ?? null,
    idleScopes,
  };
}

/** Returns the columns of the list. @param namesOf returns the names of a token's apps */
export const relayTokenColumns = (namesOf: (token: RelayTokenView) => readonly string[]): Columns<RelayTokenView> => [
  {
    name: 'Name',
    width: 'wide',
    csv: ({ name }) => name,
    cell: ({ id, name }) => ({ path: `relay-tokens/${id}`, text: name, title: name }),
  },
  { name: 'ID', csv: ({ id }) => id },
  {
    name: 'Apps',
    isBelow: true,
    csv: (token) => namesOf(token).join(', '),
    cell: (token) => ({ text: namesOf(token).join(', ') || 'None' }),
  },
  { name: 'Scopes', csv: ({ scopes }) => scopes.join(' '), cell: scopesCell },
  {
    name: 'Users',
    width: 'time',
    isWideOnly: true,
    csv: ({ users }) => (typeof users === 'string' ? users : users.join(' ')),
    cell: ({ users }) => ({ words: usersText(users) }),
  },
  {
    name: 'Proof',
    isBelow: true,
    cell: ({ assertUser }) => (assertUser ? { words: 'Without proof' } : undefined),
  },
  {
    name: 'Last used',
    width: 'time',
    label: 'Used',
    csv: ({ lastUsedAt }) => lastUsedAt,
    cell: ({ lastUsedAt }) => ({ time: lastUsedAt, fallback: 'Never' }),
  },
  { name: 'Last used from', csv: ({ lastUsedAddress }) => lastUsedAddress },
  {
    name: 'Expires',
    width: 'state',
    label: 'Expires',
    csv: ({ expiresAt }) => expiresAt,
    cell: (token) => ({ view: '/admin/parts/expiry', data: { token } }),
  },
  { name: 'State', csv: ({ state }) => state },
  { name: 'Idle scopes', csv: ({ idleScopes }) => idleScopes.map(({ scope }) => scope).join(' ') },
];

function scopesCell({ scopes, idleScopes }: RelayTokenView): Cell {
  if (idleScopes.length === scopes.length) {
    return { status: 'bad', words: 'Can do nothing', title: idleScopes[0]?.reason ?? '' };
  }
  const words: Readonly<Record<string, string>> = RELAY_WORDS.scopes;
  return { text: scopes.map((scope) => words[scope] ?? scope).join(', ') };
}

function usersText(users: RelayTokenView['users']): string {
  if (users === 'all') return 'All users';
  if (users === 'none') return 'No users';
  return users.length === 1 ? '1 user' : `${users.length} users`;
}
