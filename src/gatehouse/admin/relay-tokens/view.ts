/** The JSON of a relay token: what creates or changes one, and its view. */
import { z } from 'zod';
import { isoOrNull, isoTime } from '../../../shared/time.ts';
import { relayPolicySchema } from '../../relay/policy.ts';
import { RELAY_TOKEN_PREFIX, type RelayToken, type RelayTokenUse } from '../../relay/relay-token.ts';
import { stateOf, TOKEN_STATES } from '../expiry.ts';
import { givenName } from '../name.ts';
import { rotationOf } from '../overlap.ts';
import { type IdleScopes, idleScopesJson } from './idle-scopes.ts';

const binCallsPerMonth = z
  .int()
  .min(0)
  .max(999_999_999)
  .nullable()
  .default(null)
  .describe(
    'calls to the BIN lookup service that it may cause in a month (UTC); null: all that are not reserved for users',
  );

export const wantedRelayToken = z.strictObject({
  name: givenName,
  ...relayPolicySchema.shape,
  expiresAt: z.iso
    .datetime({ offset: true, error: 'Give a time as in 2027-01-31T00:00:00Z.' })
    .transform((text) => Date.parse(text)),
  binCallsPerMonth,
});
export const changedRelayToken = wantedRelayToken.extend({ version: z.int() });
export const rotation = rotationOf(0);

export const relayTokenJson = z.object({
  id: z.string(),
  version: z.int(),
  name: z.string(),
  prefix: z.string().describe('how the token begins, to recognise it in the settings of a service'),
  ...relayPolicySchema.shape,
  // Without the rules for input: a token with a scope that only a newer version knows can be listed.
  scopes: z.array(z.string()).readonly(),
  apps: z.array(z.string()).readonly(),
  users: z.union([z.enum(['all', 'none']), z.array(z.string()).readonly()]),
  networks: z.array(z.string()).readonly(),
  expiresAt: z.iso.datetime(),
  expired: z.boolean(),
  state: z.enum(TOKEN_STATES).describe('"expiring": within two weeks'),
  binCallsPerMonth,
  createdAt: z.iso.datetime(),
  rotatedAt: z.iso.datetime(),
  overlapEndsAt: z.iso.datetime().nullable(),
  lastUsedAt: z.iso.datetime().nullable(),
  lastUsedFrom: z.string().nullable(),
  idleScopes: idleScopesJson,
});

export type RelayTokenView = z.output<typeof relayTokenJson>;

/** Without the secret. The prefix holds the token's id. */
export function relayTokenView(
  token: RelayToken,
  { use, idleScopes, now }: { use: RelayTokenUse | undefined; idleScopes: IdleScopes; now: number },
): RelayTokenView {
  return {
    ...token,
    prefix: `${RELAY_TOKEN_PREFIX}${token.id}`,
    expiresAt: isoTime(token.expiresAt),
    expired: token.expiresAt <= now,
    state: stateOf(token, now),
    createdAt: isoTime(token.createdAt),
    rotatedAt: isoTime(token.rotatedAt),
    overlapEndsAt: isoOrNull(token.overlapEndsAt),
    lastUsedAt: isoOrNull(use?.at),
    lastUsedFrom: use?.address ?? null,
    idleScopes,
  };
}
