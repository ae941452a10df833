/** Sign-ins in the administration: the search, failures grouped by cause, and each sign-in with its steps. */
import type { Request } from 'express';
import { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import { listOf } from '../../../shared/http/list-schema.ts';
import { operation } from '../../../shared/http/operation.ts';
import type { SignInRecord } from '../../sign-in-record/attempt.ts';
import { listQuery } from '../listing.ts';
import type { AdminPageData, AdminPageOfList } from '../page.ts';
import type { AdminParts } from '../parts.ts';
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
    };
    'admin/sign-ins/one': AdminPageData & {
      record: SignInWithSteps;
      /** Other sign-ins that failed for the same cause. */
      similar: number;
    };
  }
}

const signInQuery = listQuery.extend({
  q: z.string().max(200).optional().describe('the reference of an error page, or an e-mail address'),
  failed: z.enum(['true', 'false']).default('false').describe('only those that failed'),
});

/** How many of the newest failures are grouped, and as many of the newest attempts without a result. */
const MAX_GROUPED = 200;

interface Found {
  items: SignInView[];
  next?: string;
  problem?: ProblemView | undefined;
}

export function adminSignInRoutes(parts: AdminParts) {
  const { signInRecords: records, references, connectedApps, pages, publicUrl } = parts;
  const { apps } = connectedApps;
  const viewOf = (record: SignInRecord) => signInView(record, { records, apps });

  const search = async (
    q: string,
    place: { after?: string | undefined; limit: number; failedOnly: boolean },
  ): Promise<Found> => {
    const wanted = q.trim();
    if (wanted === '' || wanted.includes('@')) {
      const { items, ...rest } = await records.store.page({ ...place, email: wanted || undefined });
      return { items: items.map(viewOf), ...rest };
    }
    const record = await records.store.find(wanted);
    if (record) return { items: [viewOf(record)] };
    const problem = await references.find(wanted);
    return { items: [], problem: problem && problemView(problem) };
  };

  const groups = async (): Promise<FailureGroup[]> => {
    // A provider that does not know the callback URL keeps the user: such an attempt has failed without a result.
    const [failed, open] = await Promise.all([
      records.store.page({ limit: MAX_GROUPED, failedOnly: true }),
      records.store.page({ limit: MAX_GROUPED, openOnly: true }),
    ]);
    return failureGroups([...failed.items, ...open.items].map(viewOf));
  };

  const withSteps = async (req: Request): Promise<SignInWithSteps> => {
    const record = await records.store.find(String(req.params.id));
    if (record) return signInWithSteps(record, { records, apps });
    throw new AppError('not_found', {
      detail: 'There is no sign-in with this reference. They are kept for 30 days.',
    });
  };

  const list = pages.page('admin/sign-ins/list', async ({ req, res }) => {
    const found = await pages.list(req, res, {
      name: 'sign-ins',
      fields: ['q', 'failed'],
      columns: SIGN_IN_COLUMNS,
      read: ({ q, failed, ...place }) => search(q, { ...place, failedOnly: failed === 'true' }),
    });
    if (!found) return undefined;
    const { items, problem, list: shown } = found;
    const q = shown.values.q?.trim() ?? '';
    const [only] = items;
    // A reference names one attempt.
    if (only && q !== '' && !q.includes('@')) {
      res.redirect(303, `${publicUrl.basePath}/admin/sign-ins/${encodeURIComponent(only.id)}`);
      return undefined;
    }
    return {
      title: 'Sign-ins',
      groups: q === '' && shown.previous === undefined ? await groups() : [],
      records: items,
      problem,
      list: shown,
    };
  });

  const one = pages.page('admin/sign-ins/one', async ({ req }) => {
    const record = await withSteps(req);
    const { cause, app } = record;
    const group = cause && (await groups()).find((each) => each.cause === cause.name && each.app === app);
    return { title: `Sign-in ${record.reference}`, record, similar: Math.max(0, (group?.count ?? 1) - 1) };
  });

  return {
    page: list.handler,
    onePage: one.handler,

    list: operation(
      {
        summary: 'List sign-ins, newest first; with q the one of a reference, or those of an e-mail address',
        query: signInQuery,
        response: listOf(signInJson).extend({
          problem: problemJson.optional().describe('the failure, if q is the reference of another error page'),
        }),
      },
      ({ query: { q = '', failed, ...place } }) => search(q, { ...place, failedOnly: failed === 'true' }),
    ),
    one: operation(
      {
        summary: 'Read a sign-in with its steps, by its id or the reference of an error page',
        response: signInWithStepsJson,
      },
      ({ req }) => withSteps(req),
    ),
  };
}
