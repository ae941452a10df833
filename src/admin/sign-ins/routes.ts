/** Why sign-ins failed, in the administration: one search box, similar failures together, and each attempt with its steps. */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import type { AppStore } from '../../connected-apps/app-store.ts';
import { AppError } from '../../errors.ts';
import { queryField } from '../../http/body.ts';
import { type DescribedHandler, operation } from '../../http/operation.ts';
import type { Pages } from '../../pages/pages.ts';
import type { ProblemRecord, ProblemReferences } from '../../pages/problem-references.ts';
import type { SignInRecord } from '../../sign-in-record/attempt.ts';
import type { SignInRecords } from '../../sign-in-record/sign-in-record.ts';
import { isoOrNull, isoTime } from '../../time.ts';
import { listOf, listQuery } from '../listing.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/sign-ins': {
      page: SignedInFrame;
      q: string;
      groups: readonly GroupView[];
      records: readonly SignInRow[];
      problem: ProblemView | undefined;
      next: string | undefined;
    };
    'admin/sign-in': {
      page: SignedInFrame;
      record: SignInView;
      similar: number;
    };
  }
}

export interface SignInAdminRoutes {
  page: RequestHandler;
  onePage: RequestHandler;
  list: DescribedHandler;
  one: DescribedHandler;
}

const causeAnswer = z.object({
  name: z.string(),
  words: z.string(),
  advice: z.string(),
  field: z.string().nullable().describe('of the connected app: where to look first'),
});

const rowAnswer = z.object({
  id: z.string(),
  app: z.string(),
  appName: z.string(),
  purpose: z.enum(['sign_in', 'connect', 'unknown']),
  startedAt: z.iso.datetime(),
  endedAt: z.iso.datetime().nullable(),
  outcome: z.enum(['signed_in', 'connected', 'refused', 'failed']).nullable().describe('null: nothing came back'),
  cause: causeAnswer.nullable(),
  user: z
    .object({
      id: z.string().nullable().describe('null: known by e-mail address alone'),
      name: z.string().nullable(),
      email: z.string().nullable(),
      presumed: z.boolean().describe('not proven: the address is that of an ID token that was refused'),
    })
    .nullable(),
  browser: z.string().nullable(),
  address: z.string().nullable(),
  references: z.array(z.string()).describe('those of error pages, and that of the start'),
});

const oneAnswer = rowAnswer.extend({
  redirectUri: z.string().nullable().describe('the callback URL that was sent'),
  steps: z.array(
    z.object({
      name: z.string(),
      words: z.string(),
      result: z.enum(['passed', 'failed', 'not_reached']),
      at: z.iso.datetime().nullable(),
      detail: z.string().nullable(),
    }),
  ),
});

const problemAnswer = z.object({
  reference: z.string(),
  requestId: z.string(),
  at: z.iso.datetime(),
  code: z.string(),
  status: z.number(),
  route: z.string(),
  userId: z.string().nullable().describe('null: nobody was signed in'),
  cause: z.string().nullable().describe('code or class of the error behind it'),
});

type ProblemView = z.output<typeof problemAnswer>;
type SignInRow = z.output<typeof rowAnswer>;
type SignInView = z.output<typeof oneAnswer>;

interface GroupView {
  cause: string;
  words: string;
  field: string | null;
  app: string;
  appName: string;
  count: number;
  lastAt: string;
  /** The newest of them. */
  id: string;
}

const signInQuery = listQuery.extend({
  q: z.string().max(200).optional().describe('the reference of an error page, or an e-mail address'),
  failed: z.enum(['true', 'false']).default('false').describe('only those that failed'),
});

/** How many of the newest failures are put into groups, and of those that never came back. */
const MAX_GROUPED = 200;

export function signInAdminRoutes(parts: {
  records: SignInRecords;
  references: Pick<ProblemReferences, 'find'>;
  apps: AppStore;
  pages: Pages;
}): SignInAdminRoutes {
  const { records, references, apps, pages } = parts;

  const rowOf = (record: SignInRecord): SignInRow => {
    const { id, app, purpose, startedAt, endedAt, outcome, userId, name, email, presumed } = record;
    const { browser, address, references } = record;
    const cause = records.causeOf(record);
    return {
      id,
      app,
      appName: apps.find(app)?.name ?? app,
      purpose,
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
  };

  const viewOf = (record: SignInRecord): SignInView => ({
    ...rowOf(record),
    redirectUri: record.facts.redirectUri ?? null,
    steps: records.stepsOf(record).map(({ at, detail, ...step }) => ({
      ...step,
      at: isoOrNull(at),
      detail: detail ?? null,
    })),
  });

  const searched = async (q: string, request: { after?: string | undefined; limit: number; failedOnly: boolean }) => {
    const wanted = q.trim();
    if (wanted === '') return records.page(request);
    if (wanted.includes('@')) return records.page({ ...request, email: wanted });
    const found = await records.find(wanted);
    if (found) return { items: [found] };
    const problem = await references.find(wanted);
    return { items: [], problem: problem && problemView(problem) };
  };

  const grouped = async (): Promise<GroupView[]> => {
    // A callback URL that the provider does not know leaves people there: such attempts have failed, and none says so.
    const [failed, open] = await Promise.all([
      records.page({ limit: MAX_GROUPED, failedOnly: true }),
      records.page({ limit: MAX_GROUPED, openOnly: true }),
    ]);
    const groups = new Map<string, GroupView>();
    for (const record of [...failed.items, ...open.items]) {
      const { id, app, appName, cause, startedAt: lastAt } = rowOf(record);
      if (!cause) continue;
      const key = `${cause.name} ${app}`;
      const { name, words, field } = cause;
      const group = groups.get(key) ?? { cause: name, words, field, app, appName, count: 0, lastAt, id };
      groups.set(key, { ...group, count: group.count + 1 });
    }
    // Who closes the page leaves the same trace, and anybody can: what is known to have failed stands first.
    const isGuess = ({ cause }: GroupView) => Number(cause === 'nothing_came_back');
    return [...groups.values()].sort(
      (left, right) =>
        isGuess(left) - isGuess(right) || right.count - left.count || (left.lastAt < right.lastAt ? 1 : -1),
    );
  };

  const recordOf = async (id: string): Promise<SignInRecord> => {
    const record = await records.find(id);
    if (record) return record;
    throw new AppError('not_found', {
      detail: 'There is no sign-in with this reference. They are kept for 30 days.',
    });
  };

  return {
    async page(req, res) {
      const q = queryField(req, 'q')?.slice(0, 200).trim() ?? '';
      const found = {
        next: undefined,
        problem: undefined,
        ...(await searched(q, { after: queryField(req, 'after') || undefined, limit: 30, failedOnly: false })),
      };
      const [only] = found.items;
      // A reference names one attempt: there is nothing to choose from.
      if (only && q !== '' && !q.includes('@')) return res.redirect(303, `sign-ins/${encodeURIComponent(only.id)}`);
      return pages.send(res, 'admin/sign-ins', {
        page: pages.signedInFrame(req, 'Sign-ins'),
        q,
        groups: q === '' ? await grouped() : [],
        records: found.items.map(rowOf),
        problem: found.problem,
        next: found.next,
      });
    },

    async onePage(req, res) {
      const record = await recordOf(String(req.params.id));
      const view = viewOf(record);
      const alike = view.cause
        ? (await grouped()).find(({ cause, app }) => cause === view.cause?.name && app === view.app)
        : undefined;
      pages.send(res, 'admin/sign-in', {
        page: pages.signedInFrame(req, `Sign-in ${record.id}`),
        record: view,
        similar: Math.max(0, (alike?.count ?? 1) - 1),
      });
    },

    list: operation(
      {
        summary: 'List sign-ins, the newest first; with q what has that reference, or those of an address',
        query: signInQuery,
        answer: listOf(rowAnswer).extend({
          problem: problemAnswer.optional().describe('what failed, where q is the reference of another error page'),
        }),
      },
      async ({ query }) => {
        const request = { after: query.after || undefined, limit: query.limit, failedOnly: query.failed === 'true' };
        const { items, ...rest } = await searched(query.q ?? '', request);
        return { items: items.map(rowOf), ...rest };
      },
    ),
    one: operation(
      { summary: 'Read a sign-in with its steps, by its id or the reference of an error page', answer: oneAnswer },
      async ({ req }) => viewOf(await recordOf(String(req.params.id))),
    ),
  };
}

function problemView({ at, userId, cause, ...problem }: ProblemRecord): ProblemView {
  return { ...problem, at: isoTime(at), userId: userId ?? null, cause: cause ?? null };
}
