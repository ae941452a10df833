/** Sign-ins in the administration: the list, failures grouped by cause, and each sign-in with its steps. */
import type { Request } from 'express';
import { AppError } from '../../../shared/errors.ts';
import { listOf } from '../../../shared/http/list-schema.ts';
import { operation } from '../../../shared/http/operation.ts';
import type { SignInRecord } from '../../sign-in-record/attempt.ts';
import type { AdminPageData, AdminPageOfList } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { PERIODS } from '../time-range.ts';
import { OUTCOMES, pageOptions, SIGN_IN_FIELDS, type SignInFilter, signInQuery } from './filter.ts';
import { type FailureGroup, failureGroups } from './groups.ts';
import {
  type ProblemView,
  problemJson,
  problemView,
  SIGN_IN_COLUMNS,
  type SignInView,
  type SignInWithSteps,
  signInJson,
  signInView,
  signInWithSteps,
  signInWithStepsJson,
} from './view.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/sign-ins/list': AdminPageOfList & {
      groups: readonly FailureGroup[];
      records: readonly SignInView[];
      problem: ProblemView | undefined;
      apps: readonly { id: string; name: string }[];
      /** The causes in `groups`. */
      causes: readonly { code: string; words: string }[];
      outcomes: typeof OUTCOMES;
      periods: typeof PERIODS;
    };
    'admin/sign-ins/detail': AdminPageData & {
      record: SignInWithSteps;
      /** The number of other sign-ins that failed for the same cause. */
      similar: number;
    };
  }
}

/** The groups contain this many of the newest failures, and as many of the newest attempts without a result. */
const MAX_GROUPED = 200;

interface SignInPage {
  items: SignInView[];
  next?: string;
  problem?: ProblemView | undefined;
}

export function adminSignInRoutes(parts: AdminParts) {
  const { signInRecords: records, references, connectedApps, pages, publicUrl, clock } = parts;
  const { apps } = connectedApps;
  const viewOf = (record: SignInRecord) => signInView(record, { records, apps });

  const search = async ({
    after,
    limit,
    ...fields
  }: SignInFilter & { after?: string | undefined; limit: number }): Promise<SignInPage> => {
    const text = fields.q?.trim() ?? '';
    if (text === '' || text.includes('@')) {
      const options = pageOptions(fields, records.causeOf, clock());
      const { items, ...rest } = await records.store.page({ after, limit, ...options });
      return { items: items.map(viewOf), ...rest };
    }
    const record = await records.store.find(text);
    if (record) return { items: [viewOf(record)] };
    const problem = await references.find(text);
    return { items: [], problem: problem && problemView(problem) };
  };

  const readGroups = async (): Promise<FailureGroup[]> => {
    // Attempts without a result are included: if a provider does not know the callback URL, users do not come back.
    const [failures, openAttempts] = await Promise.all([
      records.store.page({ limit: MAX_GROUPED, list: 'failed' }),
      records.store.page({ limit: MAX_GROUPED, list: 'open' }),
    ]);
    return failureGroups([...failures.items, ...openAttempts.items].map(viewOf));
  };

  const readWithSteps = async (req: Request): Promise<SignInWithSteps> => {
    const record = await records.store.find(String(req.params.id));
    if (record) return signInWithSteps(record, { records, apps });
    throw new AppError('not_found', {
      detail: 'There is no sign-in with this reference. Sign-ins are kept for 30 days.',
    });
  };

  const listPage = pages.page('admin/sign-ins/list', async ({ req, res }) => {
    const result = await pages.list(req, res, {
      name: 'sign-ins',
      fields: SIGN_IN_FIELDS,
      query: signInQuery,
      isKnown: {
        app: (id) => apps.find(id) !== undefined,
        cause: async (code) => (await readGroups()).some(({ cause }) => cause === code),
      },
      columns: SIGN_IN_COLUMNS,
      read: search,
    });
    if (!result) return undefined;
    const { items, problem, list } = result;
    const { q: entered = '', result: _result, cause = '', ...filters } = list.values;
    const q = entered.trim();
    const [first] = items;
    // A reference names one attempt.
    if (first && q !== '' && !q.includes('@')) {
      res.redirect(303, `${publicUrl.basePath}/admin/sign-ins/${encodeURIComponent(first.id)}`);
      return undefined;
    }
    const groups = await readGroups();
    const causes = new Map(groups.map(({ cause, text }) => [cause, text]));
    const isOverview = `${q}${cause}${Object.values(filters).join('')}` === '' && list.previous === undefined;
    return {
      title: 'Sign-ins',
      groups: isOverview ? groups : [],
      records: items,
      problem,
      apps: apps.named(),
      causes: [...causes].map(([code, words]) => ({ code, words })),
      outcomes: OUTCOMES,
      periods: PERIODS,
      list,
    };
  });

  const detailPage = pages.page('admin/sign-ins/detail', async ({ req }) => {
    const record = await readWithSteps(req);
    const { cause, app } = record;
    const group =
      cause && (await readGroups()).find((candidate) => candidate.cause === cause.code && candidate.app === app);
    return { title: `Sign-in ${record.reference}`, record, similar: Math.max(0, (group?.count ?? 1) - 1) };
  });

  return {
    page: listPage.handler,
    detailPage: detailPage.handler,

    list: operation(
      {
        summary: 'List sign-ins, newest first; with q, the sign-in of a reference, or those of an e-mail address',
        query: signInQuery,
        response: listOf(signInJson).extend({
          problem: problemJson
            .optional()
            .describe('the error, if q is the reference of an error page outside a sign-in'),
        }),
      },
      ({ query }) => search(query),
    ),
    read: operation(
      {
        summary: 'Read a sign-in with its steps, by its id or the reference of an error page',
        response: signInWithStepsJson,
      },
      ({ req }) => readWithSteps(req),
    ),
  };
}
