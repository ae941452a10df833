/** The JSON of sign-ins and of other errors with a reference, and the columns of the list of sign-ins. */
import { z } from 'zod';
import type { ProblemRecord } from '../../../shared/pages/problem-references.ts';
import { isoOrNull, isoTime } from '../../../shared/time.ts';
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import type { SignInRecord } from '../../sign-in-record/attempt.ts';
import type { SignInRecords } from '../../sign-in-record/sign-in-record.ts';
import { stepResults } from '../../sign-in-record/steps.ts';
import type { Cell, Columns } from '../columns.ts';

declare module '../columns.ts' {
  interface CellViews {
    '/admin/sign-ins/result': { record: SignInView };
  }
}

const causeJson = z.object({
  code: z.string(),
  text: z.string(),
  advice: z.string(),
  field: z.string().nullable().describe('the field of the connected app to check first'),
});

export const signInJson = z.object({
  id: z.string(),
  reference: z.string().describe('the reference of the latest error page or, without one, of the start'),
  app: z.string(),
  appName: z.string().describe('followed by the id if several apps have this name'),
  purpose: z.enum(['sign_in', 'connect', 'unknown']),
  trial: z.boolean().describe('a trial by an administrator'),
  startedAt: z.iso.datetime(),
  endedAt: z.iso.datetime().nullable(),
  outcome: z
    .enum(['signed_in', 'connected', 'refused', 'failed'])
    .nullable()
    .describe('null: the callback has not come'),
  cause: causeJson.nullable(),
  user: z
    .object({
      id: z.string().nullable().describe('null: only the e-mail address is known'),
      name: z.string().nullable(),
      email: z.string().nullable(),
      presumed: z.boolean().describe('not proven: the address comes from a refused ID token'),
    })
    .nullable(),
  browser: z.string().nullable(),
  address: z.string().nullable(),
  references: z.array(z.string()).describe('the references of the start and of error pages'),
});

export const signInWithStepsJson = signInJson.extend({
  redirectUri: z.string().nullable().describe('the callback URL in the authorization request'),
  steps: z.array(
    z.object({
      name: z.string(),
      text: z.string(),
      result: z.enum(['passed', 'failed', 'not_reached']),
      at: z.iso.datetime().nullable(),
      detail: z.string().nullable(),
    }),
  ),
});

export const problemJson = z.object({
  reference: z.string(),
  requestId: z.string(),
  at: z.iso.datetime(),
  code: z.string(),
  status: z.int(),
  route: z.string(),
  userId: z.string().nullable().describe('null: no user was signed in'),
  cause: z.string().nullable().describe('code or class of the underlying error'),
});

export type SignInView = z.output<typeof signInJson>;
export type SignInWithSteps = z.output<typeof signInWithStepsJson>;
export type ProblemView = z.output<typeof problemJson>;

export interface ViewParts {
  records: Pick<SignInRecords, 'causeOf'>;
  apps: Pick<CurrentApps, 'nameOf'>;
}

/** Returns the reference of the latest error page, which users quote, or the reference of the start. */
export function shownReference({ id, failure, references }: SignInRecord): string {
  return failure === undefined ? id : (references.at(-1) ?? id);
}

export function signInView(record: SignInRecord, { records, apps }: ViewParts): SignInView {
  const { id, app, purpose, trial, startedAt, endedAt, outcome, userId, name, email, presumed } = record;
  const { browser, address, references } = record;
  const cause = records.causeOf(record);
  return {
    id,
    reference: shownReference(record),
    app,
    appName: apps.nameOf(app),
    purpose,
    trial: trial === true,
    startedAt: isoTime(startedAt),
    endedAt: isoOrNull(endedAt),
    outcome: outcome ?? null,
    cause: cause ? { ...cause, field: cause.field ?? null } : null,
    user:
      userId === undefined && email === undefined
        ? null
        : { id: userId ?? null, name: name ?? null, email: email ?? null, presumed: presumed === true },
    browser: browser ?? null,
    address: address ?? null,
    references,
  };
}

export function signInWithSteps(record: SignInRecord, parts: ViewParts): SignInWithSteps {
  return {
    ...signInView(record, parts),
    redirectUri: record.facts.redirectUri ?? null,
    steps: stepResults(record.steps).map(({ at, detail, ...step }) => ({
      ...step,
      at: isoOrNull(at),
      detail: detail ?? null,
    })),
  };
}

export function problemView({ at, userId, cause, ...problem }: ProblemRecord): ProblemView {
  return { ...problem, at: isoTime(at), userId: userId ?? null, cause: cause ?? null };
}

export const SIGN_IN_COLUMNS: Columns<SignInView> = [
  {
    name: 'Reference',
    width: 'ago',
    csv: ({ reference }) => reference,
    cell: ({ id, reference }) => ({ path: `sign-ins/${encodeURIComponent(id)}`, code: reference }),
  },
  // This column is only exported. On the page, the start is the last column.
  { name: 'Started', csv: ({ startedAt }) => startedAt },
  {
    name: 'Result',
    width: 'state',
    csv: ({ outcome }) => outcome,
    cell: (record) => ({ view: '/admin/sign-ins/result', data: { record } }),
  },
  {
    name: 'Cause',
    isText: true,
    csv: ({ cause }) => cause?.text,
    cell: ({ cause }) => (cause ? { text: cause.text } : undefined),
  },
  { name: 'User', cell: userCell },
  { name: 'App', isBelow: true, csv: ({ appName }) => appName, cell: ({ appName }) => ({ text: appName }) },
  { name: 'E-mail address', csv: ({ user }) => user?.email },
  { name: 'User ID', csv: ({ user }) => user?.id },
  { name: 'Browser', csv: ({ browser }) => browser },
  { name: 'Address', csv: ({ address }) => address },
  {
    name: 'Started',
    width: 'time',
    label: 'Started',
    sorted: 'always',
    cell: ({ startedAt }) => ({ time: startedAt }),
  },
];

function userCell({ user }: SignInView): Cell {
  const name = user?.name ?? user?.email ?? user?.id ?? 'Unknown';
  if (user?.id) return { path: `users/${encodeURIComponent(user.id)}`, text: name, title: name };
  return { text: user?.presumed ? `Probably ${name}` : name };
}
