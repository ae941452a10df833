/** Describes the entries of an import, the causes of their failures, and the report. */
import { z } from 'zod';
import { SUBJECT } from '../../shared/provider/provider-jwt.ts';
import { FAILURE_WORDS } from '../grants/refresh-failure.ts';

const subject = z.string().regex(SUBJECT, 'Use 1 to 255 visible ASCII characters.').optional();

const importedUser = z
  .strictObject(
    {
      id: z
        .string()
        .regex(/^[\w-]{1,60}$/, 'This is not a user id.')
        .optional()
        .describe('the id of a user who has signed in'),
      subject: subject.describe('the `sub` of the user at the sign-in provider'),
      issuer: z
        .string()
        .min(1)
        .max(2000)
        .optional()
        .describe('the issuer of that provider; required if users sign in at several'),
    },
    {
      error: ({ code }) =>
        code === 'unrecognized_keys'
          ? 'Identify a user by "id", or by "subject" and "issuer". An e-mail address does not identify a user.'
          : undefined,
    },
  )
  .refine(({ id, subject, issuer }) => (id === undefined ? subject !== undefined : !(subject ?? issuer)), {
    message: 'Use either "id" or "subject".',
  });

export const importEntry = z.strictObject({
  user: importedUser,
  app: z
    .string()
    .regex(/^[a-z0-9-]{1,40}$/, 'This is not the id of a connected app.')
    .describe('the id of a connected app'),
  // RFC 6749 appendix A.17.
  refreshToken: z.string().regex(/^[\x20-\x7e]{1,16384}$/, 'Use 1 to 16,384 visible ASCII characters.'),
  scopes: z
    .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,200}$/, 'This is not a scope.'))
    .max(100)
    .optional()
    .describe('the scopes that the user granted; default: the scopes of the app'),
  account: z
    .strictObject({ subject })
    .optional()
    .describe('the account at the provider of the app, if it is not the sign-in account'),
});

export type ImportEntry = z.output<typeof importEntry>;

export const IMPORT_CAUSES = {
  ...FAILURE_WORDS,
  unreadable:
    'The user has a connection that cannot be read because its encryption key is missing. It was not replaced.',
  malformed_json: 'This is not a JSON object.',
  invalid_entry: 'The entry is not valid.',
  unknown_app: 'There is no connected app with this id.',
  app_disabled: 'The connected app is disabled.',
  unknown_user: 'No user with this id has signed in. Identify the user by "subject".',
  user_disabled: 'The user is disabled.',
  issuer_missing: 'Users sign in at several providers, or at none: add the issuer.',
  unknown_issuer: 'No connected app signs users in at this issuer.',
  duplicate: 'An earlier entry is for the same user and app.',
  same_token: 'An earlier entry has the same refresh token.',
  other_account: 'The refresh token belongs to another account. It was deleted.',
  removed: 'The connection was removed while it was being checked.',
} as const;

export type ImportCause = keyof typeof IMPORT_CAUSES;

const importFailure = z.object({
  userId: z.string().nullable().describe('if it is known'),
  app: z.string().nullable(),
  result: z.enum(['refused', 'unchecked', 'invalid']),
  cause: z.enum(Object.keys(IMPORT_CAUSES) as ImportCause[]),
  detail: z.string(),
});

const count = z.int();
const importCounts = z.object({
  imported: count,
  alreadyConnected: count.describe('not changed: the user has a connection to this app'),
  refused: count.describe('the provider refused the refresh token'),
  unchecked: count.describe('stored, but not tried successfully yet: import them again, or wait for the first use'),
  invalid: count.describe('nothing was stored'),
});

export const importReport = importCounts.extend({
  failures: z.array(importFailure.extend({ position: z.int().describe('the position in `entries`, from 0') })),
});

export type ImportFailure = z.output<typeof importFailure> & { line: number };
export type ImportReport = z.output<typeof importCounts> & { failures: ImportFailure[] };
