/** The filters of the list of sign-ins: by user, app, cause, outcome and time. Each reads the shortest index that has all matches. */
import { z } from 'zod';
import { isRange } from '../../audit/time-limits.ts';
import { folded, type SignInRecord } from '../../sign-in-record/attempt.ts';
import type { SignInCause } from '../../sign-in-record/cause.ts';
import type { RecordStore } from '../../sign-in-record/record-store.ts';
import { listQuery } from '../listing.ts';
import { NO_RANGE, RANGE_FIELDS, rangeOf, rangeQuery } from '../time-range.ts';

/** The values of `outcome`, with their words on the page and the list of attempts that has them all. */
export const OUTCOMES = {
  succeeded: { words: 'Succeeded', list: undefined, accepts: ({ outcome }) => isSuccess(outcome) },
  unsuccessful: {
    words: 'Refused or failed',
    list: 'failed',
    accepts: ({ outcome }) => outcome !== undefined && !isSuccess(outcome),
  },
  refused: { words: 'Refused', list: 'failed', accepts: ({ outcome }) => outcome === 'refused' },
  failed: { words: 'Failed', list: 'failed', accepts: ({ outcome }) => outcome === 'failed' },
  open: { words: 'No response', list: 'open', accepts: ({ outcome }) => outcome === undefined },
} as const satisfies Record<
  string,
  { words: string; list: 'failed' | 'open' | undefined; accepts: (record: SignInRecord) => boolean }
>;
type Outcome = keyof typeof OUTCOMES;

const isSuccess = (outcome: SignInRecord['outcome']) => outcome === 'signed_in' || outcome === 'connected';

export const signInQuery = listQuery
  .extend({
    q: z.string().max(200).optional().describe('the reference of an error page, or an e-mail address'),
    user: z.string().max(320).optional().describe('id or e-mail address of a user'),
    app: z.string().max(40).optional().describe('id of a connected app'),
    cause: z.string().max(60).optional().describe('the code of a cause'),
    outcome: z
      .enum(Object.keys(OUTCOMES) as Outcome[])
      .optional()
      .describe('unsuccessful: refused or failed; open: the user has not come back'),
    ...rangeQuery,
  })
  .refine(isRange, NO_RANGE);

export const SIGN_IN_FIELDS = ['q', 'outcome', 'app', 'cause', 'user', ...RANGE_FIELDS] as const;

/** Texts that are not set are undefined or empty. */
export type SignInFilter = Partial<Record<(typeof SIGN_IN_FIELDS)[number], string | undefined>>;
type PageOptions = Omit<Parameters<RecordStore['page']>[0], 'after' | 'limit'>;

/** @param causeOf returns the cause of an attempt, @param now in milliseconds since the epoch */
export function pageOptions(
  fields: SignInFilter,
  causeOf: (record: SignInRecord) => SignInCause | undefined,
  now: number,
): PageOptions {
  const { app, cause, outcome: name = '' } = fields;
  const address = fields.q?.trim();
  const user = fields.user?.trim() || undefined;
  const outcome = Object.entries(OUTCOMES).find(([key]) => key === name)?.[1];
  const tests = [
    user && address ? (record: SignInRecord) => folded(record.email ?? '') === folded(address) : undefined,
    app ? (record: SignInRecord) => record.app === app : undefined,
    cause ? (record: SignInRecord) => causeOf(record)?.code === cause : undefined,
    outcome?.accepts,
  ].filter((test) => test !== undefined);
  return {
    user: user ?? (address || undefined),
    // Only an attempt that has not ended can have this cause.
    list: cause === 'nothing_came_back' ? 'open' : cause ? 'failed' : outcome?.list,
    range: rangeOf(fields, now),
    filter: tests.length === 0 ? undefined : (record) => tests.every((test) => test(record)),
  };
}
