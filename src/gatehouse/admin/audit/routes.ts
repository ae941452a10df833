/** The audit trail in the administration: search, and export as NDJSON. */
import type { Request, Response } from 'express';
import { z } from 'zod';
import { listOf } from '../../../shared/http/list-schema.ts';
import { operation } from '../../../shared/http/operation.ts';
import { problemSchema } from '../../../shared/http/problem-document.ts';
import { isoTime } from '../../../shared/time.ts';
import type { AuditFilter } from '../../audit/facets.ts';
import { AUDIT_EVENTS, isAuditEvent } from '../../audit/kinds.ts';
import { AUDIT_OUTCOMES } from '../../audit/outcome.ts';
import { isRange } from '../../audit/time-limits.ts';
import type { Columns } from '../columns.ts';
import { sendExport } from '../export.ts';
import { listQuery } from '../listing.ts';
import type { AdminPageOfList } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { searchable } from '../search/searchable.ts';
import { NO_RANGE, PERIODS, RANGE_FIELDS, rangeOf, rangeQuery } from '../time-range.ts';
import { withNamedIds } from './named.ts';
import { type AuditRow, auditRows } from './view.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/audit/list': AdminPageOfList & {
      entries: readonly AuditRow[];
      events: readonly { name: string; words: string }[];
      periods: typeof PERIODS;
      searchedTo: string | undefined;
      /** True if some of the users that match a filter are ignored. */
      hasTooManyUsers: boolean | undefined;
    };
  }
}

declare module '../columns.ts' {
  interface CellViews {
    '/admin/audit/event': { entry: AuditRow };
    '/admin/audit/details': { row: AuditRow };
  }
}

const COLUMNS: Columns<AuditRow> = [
  // This column is only exported. On the page, the time is the second column.
  { name: 'Time', csv: ({ at }) => at },
  {
    name: 'Event',
    width: 'wide',
    csv: ({ words }) => words,
    cell: (entry) => ({ view: '/admin/audit/event', data: { entry } }),
  },
  { name: 'Time', width: 'time', sorted: 'always', cell: ({ at }) => ({ time: at }) },
  {
    name: 'Actor',
    label: 'By',
    csv: ({ actorName }) => actorName,
    cell: ({ actorName, actorId }) =>
      actorId ? { filter: 'actor', value: actorId, text: actorName, title: actorName } : { text: actorName },
  },
  { name: 'Address', isBelow: true, cell: ({ from }) => (from ? { text: from } : undefined) },
  { name: 'Actor ID', csv: ({ actorId }) => actorId },
  {
    name: 'Target',
    label: 'Target',
    isWideOnly: ({ targetId, user }) => !targetId && !user,
    csv: ({ targetName }) => targetName,
    cell: ({ targetName, targetId }) =>
      targetId ? { filter: 'target', value: targetId, text: targetName ?? targetId, title: targetId } : { words: '–' },
  },
  { name: 'Target ID', csv: ({ targetId }) => targetId },
  {
    name: 'For',
    isBelow: true,
    cell: ({ user }) => user && { filter: 'target', value: user.id, text: `For ${user.name}`, title: user.id },
  },
  { name: 'User', csv: ({ user }) => user?.name },
  { name: 'Outcome', csv: ({ outcome }) => outcome },
  { name: 'Code', csv: ({ code }) => code },
  // This column is only exported. On the page, the address is below the actor.
  { name: 'Address', csv: ({ from }) => from },
  { name: 'Request ID', csv: ({ requestId }) => requestId },
  { name: 'Details', csv: ({ facts }) => facts.map(([name, value]) => `${name}: ${value}`).join('; ') },
];

const FIELDS = ['q', 'event', 'actor', 'target', ...RANGE_FIELDS] as const;
type AuditField = (typeof FIELDS)[number];

const auditQuery = listQuery
  .extend({
    event: z.string().max(60).refine(isAuditEvent, 'There is no such event.').optional(),
    actor: z
      .string()
      .max(200)
      .optional()
      .describe('the actor: id, or the beginning of the name or e-mail address of users'),
    target: z
      .string()
      .max(200)
      .optional()
      .describe('the target or the user concerned: id, name, or the beginning of the name or e-mail address of users'),
    ...rangeQuery,
    q: z.string().max(200).optional().describe('any text of the entry, or of the name or e-mail address of its users'),
    format: z.enum(['json', 'ndjson']).default('json').describe('ndjson: every matching entry, oldest first'),
  })
  .refine(isRange, NO_RANGE);

const entryJson = z.object({
  id: z.string(),
  at: z.iso.datetime(),
  event: z.string(),
  actor: z.object({ kind: z.string(), id: z.string().optional(), name: z.string().optional() }),
  target: z.object({ kind: z.string(), id: z.string(), name: z.string().optional() }).optional(),
  userId: z.string().optional().describe('the user concerned'),
  address: z.string().optional(),
  requestId: z.string().optional(),
  outcome: z
    .enum(AUDIT_OUTCOMES)
    .optional()
    .describe('for a change, set only if it failed: `not_done`, or `unknown` if it may have been made'),
  code: problemSchema.shape.code.optional().describe('why a change was not made, or the administration was refused'),
  facts: z.record(z.string(), z.unknown()).optional(),
});

const listJson = listOf(entryJson).extend({
  searchedTo: z.iso
    .datetime()
    .optional()
    .describe('set if the search ended early: continue with "next" to search older entries'),
});

export function auditRoutes({ audit, users, connectedApps, pages, clock }: AdminParts) {
  const { trail } = audit;
  const names = { users: users.store, apps: connectedApps.apps };

  const stream = async (req: Request, res: Response, filter: AuditFilter) => {
    const { filter: filterWithIds } = await withNamedIds(filter, names);
    const lines = async function* () {
      for await (const record of trail.export(filterWithIds)) yield `${JSON.stringify(record)}\n`;
    };
    const entry = { event: 'audit.exported', facts: factsOf(filter) } as const;
    await sendExport(req, res, { trail, entry, name: 'audit.ndjson', type: 'application/x-ndjson', lines: lines() });
  };

  const listPage = pages.page('admin/audit/list', async ({ req, res }) => {
    const result = await pages.list(req, res, {
      name: 'audit',
      fields: FIELDS,
      query: auditQuery,
      columns: COLUMNS,
      async read({ after, limit, ...fields }) {
        const { filter, hasTooManyUsers } = await withNamedIds(filterOf(fields, clock()), names);
        const { items, ...rest } = await trail.page({ after, limit, filter });
        return { items: await auditRows(items, names), hasTooManyUsers, ...rest };
      },
    });
    return (
      result && {
        title: 'Audit trail',
        entries: result.items,
        periods: PERIODS,
        events: Object.entries(AUDIT_EVENTS).map(([name, words]) => ({ name, words })),
        list: result.list,
        searchedTo: result.searchedTo,
        hasTooManyUsers: result.hasTooManyUsers,
      }
    );
  });

  return {
    page: listPage.handler,

    list: operation(
      {
        summary: 'Search the audit trail, newest first, or stream it as NDJSON',
        query: auditQuery,
        response: listJson,
        mediaType: 'application/x-ndjson',
      },
      async ({ req, res, query }) => {
        const filter = filterOf(query, clock());
        if (query.format === 'ndjson') return stream(req, res, filter);
        const { filter: filterWithIds } = await withNamedIds(filter, names);
        return trail.page({ after: query.after, limit: query.limit, filter: filterWithIds });
      },
    ),
  };
}

function filterOf(fields: Partial<Record<AuditField, string | undefined>>, now: number): AuditFilter {
  const { event, actor, target, q, ...range } = fields;
  return {
    event: event || undefined,
    actor: actor || undefined,
    target: target || undefined,
    text: q || undefined,
    ...rangeOf(range, now),
  };
}

function factsOf({ from, to, named: _, ...filter }: AuditFilter): Record<string, string | undefined> {
  const { actor, target, text } = filter;
  const searchableText = (entered: string | undefined) => entered && searchable(entered);
  return {
    ...filter,
    actor: searchableText(actor),
    target: searchableText(target),
    text: searchableText(text),
    from: isoTime(from),
    to: isoTime(to),
  };
}
