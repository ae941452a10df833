/** The JSON of service accounts, for input and output, and the columns of their list. */
import { z } from 'zod';
import { isoTime } from '../../../shared/time.ts';
import type { ServiceAccount } from '../../relay/service-account.ts';
import type { Columns } from '../columns.ts';
import { credentialName, secretAge } from '../credential.ts';

export const apiToken = z
  .string()
  .regex(/^[!-~]{8,4096}$/, 'Enter the API token as the platform showed it, without spaces.');

export const newAccount = z.strictObject({ name: credentialName, app: z.string().max(40), apiToken });
export const changedAccount = z.strictObject({
  name: credentialName,
  app: z.string().max(40).optional().describe('cannot be changed; create another service account for another app'),
  apiToken: apiToken.optional().describe('if omitted, the stored token is kept'),
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

/** Returns the columns of the list. @param appNameOf returns the name of an account's app */
export const accountColumns = (
  appNameOf: (account: AccountView) => string,
  clock: () => number,
): Columns<AccountView> => [
  { name: 'Name', width: 'wide', csv: ({ name }) => name, cell: ({ name }) => ({ text: name }) },
  { name: 'App', isBelow: true, cell: (account) => ({ text: appNameOf(account) }) },
  {
    name: 'ID',
    width: 'id',
    isWideOnly: true,
    csv: ({ id }) => id,
    cell: ({ id }) => ({ id, label: 'account ID' }),
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
  // This column is only exported. On the page, the app is the second column.
  { name: 'App', csv: appNameOf },
];
