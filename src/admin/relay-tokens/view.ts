/** The JSON of a relay token: what makes or changes one, its faults, and its view. */
import { z } from 'zod';
import { networkFault } from '../../config/networks.ts';
import { RELAY_SCOPES } from '../../relay/policy.ts';
import type { RelayToken, RelayTokenUse, WantedRelayToken } from '../../relay/relay-token.ts';
import { givenName } from '../name.ts';

export const MAX_OVERLAP_SECONDS = 2_592_000;

export const userId = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, 'Give user ids, as the page of users and GET /session show them.');

const network = z.string().superRefine((text, context) => {
  const fault = networkFault(text);
  if (fault) context.addIssue({ code: 'custom', message: `This ${fault}`, params: { rule: 'network' } });
});

const fields = {
  name: givenName,
  scopes: z.array(z.enum(RELAY_SCOPES)).min(1, 'Choose at least one scope.'),
  apps: z.array(z.string().max(40)).max(200).default([]).describe('ids of the connected apps that it may use'),
  users: z
    .union([z.enum(['all', 'none']), z.array(userId).min(1).max(10_000)], {
      error: 'Give "all", "none", or a list of user ids.',
    })
    .describe('"none": service accounts and BIN look-ups alone'),
  networks: z.array(network).max(200).default([]).describe('CIDRs; none means from anywhere'),
  expiresAt: z.iso.datetime({ offset: true, error: 'Give a time as in 2027-01-31T00:00:00Z.' }),
  assertUser: z.boolean().default(false).describe('dangerous: may act for a user without proof that the user is there'),
  fullScope: z
    .boolean()
    .default(false)
    .describe('exchange: may have a token with every granted scope where the provider gives no narrower one'),
  binCallsPerMonth: z
    .int()
    .min(0)
    .max(999_999_999)
    .nullable()
    .default(null)
    .describe(
      'calls to the BIN lookup service that it may cause in a month (UTC); null: all that is not kept for users',
    ),
  acceptIdTokens: z
    .boolean()
    .default(false)
    .describe('exchange: takes the ID token that began a session, at most 10 minutes old, as proof of its user'),
};

export const wantedRelayToken = z.strictObject(fields);
export const changedRelayToken = z.strictObject({ ...fields, version: z.int() });
export const rotation = z.strictObject({
  overlapSeconds: z
    .int()
    .min(0)
    .max(MAX_OVERLAP_SECONDS)
    .default(0)
    .describe('how long the secret before counts as well'),
});

export type RelayTokenInput = z.output<typeof wantedRelayToken>;

export const relayTokenAnswer = z.object({
  id: z.string(),
  version: z.int(),
  name: z.string(),
  prefix: z.string().describe('how its secret begins, to find it again among those that a service holds'),
  scopes: z.array(z.enum(RELAY_SCOPES)),
  apps: z.array(z.string()),
  users: z.union([z.enum(['all', 'none']), z.array(z.string())]),
  networks: z.array(z.string()),
  expiresAt: z.iso.datetime(),
  expired: z.boolean(),
  assertUser: z.boolean(),
  fullScope: z.boolean(),
  binCallsPerMonth: z.int().nullable(),
  acceptIdTokens: z.boolean(),
  createdAt: z.iso.datetime(),
  rotatedAt: z.iso.datetime(),
  overlapEndsAt: z.iso.datetime().nullable(),
  lastUsedAt: z.iso.datetime().nullable(),
  lastUsedFrom: z.string().nullable(),
});

export type RelayTokenView = z.output<typeof relayTokenAnswer>;

export function wantedPolicy(input: RelayTokenInput): WantedRelayToken {
  return { ...input, expiresAt: Date.parse(input.expiresAt) };
}

/** Never a secret: only its beginning, which is the token's id. */
export function relayTokenView(token: RelayToken, use: RelayTokenUse | undefined, now: number): RelayTokenView {
  const { id, version, name, apps, networks, scopes, users } = token;
  const { assertUser, fullScope, acceptIdTokens, binCallsPerMonth } = token;
  const time = (at: number) => new Date(at).toISOString();
  return {
    ...{ id, version, name, prefix: `gthr_${id}`, assertUser, fullScope, acceptIdTokens, binCallsPerMonth },
    ...{ scopes: [...scopes], apps: [...apps], networks: [...networks] },
    users: typeof users === 'string' ? users : [...users],
    expiresAt: time(token.expiresAt),
    expired: token.expiresAt <= now,
    createdAt: time(token.createdAt),
    rotatedAt: time(token.rotatedAt),
    overlapEndsAt: token.overlapEndsAt === undefined ? null : time(token.overlapEndsAt),
    lastUsedAt: use ? time(use.at) : null,
    lastUsedFrom: use?.address ?? null,
  };
}
