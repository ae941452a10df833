/** The JSON of service accounts: what creates or changes one, and its view, which never holds the API token. */
import { z } from 'zod';
import { isoTime } from '../../../shared/time.ts';
import type { ServiceAccount } from '../../relay/service-account.ts';
import { givenName } from '../name.ts';

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
