/** The form of a relay token that another administrator may change at the same time. */
import { z } from 'zod';
import { dateText } from '../../../shared/pages/show.ts';
import { isoTime } from '../../../shared/time.ts';
import { RELAY_WORDS } from '../../relay/policy.ts';
import type { RelayTokenInput } from '../../relay/relay-token.ts';
import { createEditing, type Editing, wordsOfValue } from '../editing.ts';
import type { Members } from '../merge.ts';
import type { AdminParts } from '../parts.ts';
import { newRelayToken } from './view.ts';

const LABELS: Readonly<Record<string, string>> = {
  name: 'Name',
  scopes: 'Scopes',
  apps: 'Connected apps',
  routes: 'Routes',
  users: 'Users',
  networks: 'Networks',
  expiresAt: 'Expiry',
  binCallsPerMonth: 'Calls to the BIN lookup service per month',
  ...Object.fromEntries(RELAY_WORDS.flags.map(({ name, title }) => [name, title])),
};

/** The members of a token that the form changes. */
export const editedToken = z.object({ ...newRelayToken.shape, expiresAt: z.int() });

export function relayTokenEditing(parts: AdminParts): Editing {
  return createEditing(parts, {
    resource: 'relay_token',
    noun: 'relay token',
    changes: ['relay_token.changed'],
    labelOf: (member) => LABELS[member] ?? member,
    wordsOf,
  });
}

export function membersOfToken(token: RelayTokenInput): Members {
  const names = Object.keys(editedToken.shape);
  return Object.fromEntries(Object.entries(token).filter(([name]) => names.includes(name)));
}

function wordsOf(member: string, value: unknown): string {
  if (member === 'expiresAt') return dateText(isoTime(Number(value)));
  if (value === 'reads') return 'every route with GET';
  if (member === 'users' && Array.isArray(value)) return value.length === 1 ? 'one user' : `${value.length} users`;
  return wordsOfValue(member, value);
}
