/** The JSON of service accounts: what creates or changes one, its view, which never holds the API token, and the columns of the list. */
import { z } from 'zod';
import { isoTime } from '../../../shared/time.ts';
import type { ServiceAccount } from '../../relay/service-account.ts';
import type { Columns } from '../columns.ts';
import { givenName, secretAge } from '../credential.ts';

export const apiToken = z
  .string()
  .regex(/^[!-~]{8,4096}$/, 'Give the API token as the platform showed it, without blanks.');

export const newAccount = z.strictObject({ name: givenName, app: z.string().max(40), apiToken });
export const changedAccount = z.strictObject({
  name: givenName,
  app: z.string().max(40).optional().describe('cannot be changed: another app needs another service account'),
  apiToken: apiToken.optional().describe('left out: the stored one stays'),
  version: z.int(),
});

export const accountJson = z.object({
  id: z.string(),
  version: z.int(),
  name: z.string(),
  app: z.string(),
  createdAt: z.iso.datetime(),
  tokenSetAt: z.iso.datetime().describe('when its API token was entered'),
});

export type AccountView = z.output<typeof accountJson>;

export function accountView({ id, version, name, app, createdAt, tokenSetAt }: ServiceAccount): AccountView {
  return { id, version, name, app, createdAt: isoTime(createdAt), tokenSetAt: isoTime(tokenSetAt) };
}

/** @param appNameOf the name of the account's app */
export const accountColumns = (
  appNameOf: (account: AccountView) => string,
  clock: () => number,
): Columns<AccountView> => [
  { name: 'Name', width: 'wide', csv: ({ name }) => name, cell: ({ name }) => ({ text: name }) },
  { name: 'App', cell: (account) => ({ text: appNameOf(account) }) },
  {
    name: 'ID',
    width: 'id',
    isWideOnly: true,
    csv: ({ id }) => id,
    cell: ({ id }) => ({ id, of: 'account ID' }),
  },
  {
    name: 'Created',
    width: 'time',
    label: 'Created',
    sorted: 'always',
    csv: ({ createdAt }) => createdAt,
    cell: ({ createdAt }) => ({ time: createdAt }),
  },
  {
    name: 'API token set',
    width: 'states',
    label: 'API token set',
    csv: ({ tokenSetAt }) => tokenSetAt,
    cell: ({ tokenSetAt }) => ({
      time: tokenSetAt,
      remark: secretAge({ setAt: tokenSetAt }, clock()).isOld ? 'Old' : undefined,
    }),
  },
  // The export has it last.
  { name: 'App', csv: appNameOf },
];
