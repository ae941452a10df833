/** The audit trail in the administration: searched page by page, and streamed whole as NDJSON. */
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Request, Response } from 'express';
import { z } from 'zod';
import type { AuditFilter } from '../../audit/facets.ts';
import { AUDIT_EVENTS, type AuditRecord, isAuditEvent } from '../../audit/kinds.ts';
import { queryField } from '../../http/body.ts';
import { listOf } from '../../http/list-schema.ts';
import { operation } from '../../http/operation.ts';
import { actorOf } from '../../sessions/actor.ts';
import { DAY_MS, isoTime } from '../../time.ts';
import type { AdminParts } from '../admin.ts';
import { listQuery } from '../listing.ts';
import type { AdminPageData } from '../page.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/audit': AdminPageData & {
      entries: readonly ReturnType<typeof auditView>[];
      form: Record<AuditField, string>;
      events: readonly { name: string; words: string }[];
      /** The query of this page without its place in the list. */
      query: string;
      next: string | undefined;
      searchedTo: string | undefined;
    };
  }
}

const FIELDS = ['event', 'who', 'whom', 'from', 'to', 'text'] as const;
type AuditField = (typeof FIELDS)[number];

const DATE = /^\d{4}-\d{2}-\d{2}$/;

const instant = z
  .string()
  .max(40)
  .refine((text) => !Number.isNaN(Date.parse(text)), 'Give a date as 2026-11-21, or a time as 2026-11-21T08:00:00Z.');

const auditQuery = listQuery.extend({
  event: z.string().max(60).refine(isAuditEvent, 'There is no such event.').optional(),
  who: z.string().max(200).optional().describe('the actor: id, name or e-mail address'),
  whom: z.string().max(200).optional().describe('the target or the user concerned: id or name'),
  from: instant.optional(),
  to: instant.optional().describe('a date counts to its end'),
  text: z.string().max(200).optional().describe('any text of the entry; the same as q'),
  format: z.enum(['json', 'ndjson']).default('json').describe('ndjson: every matching entry, oldest first'),
});

const entryJson = z.object({
  id: z.string(),
  at: z.iso.datetime(),
  event: z.string(),
  actor: z.object({ kind: z.string(), id: z.string().optional(), name: z.string().optional() }),
  target: z.object({ kind: z.string(), id: z.string(), name: z.string().optional() }).optional(),
  userId: z.string().optional().describe('the user concerned'),
  address: z.string().optional(),
  requestId: z.string().optional(),
  outcome: z.string().optional(),
  facts: z.record(z.string(), z.unknown()).optional(),
});

const listJson = listOf(entryJson).extend({
  searchedTo: z.iso.datetime().optional().describe('a search may end early: go on with "next" to look further back'),
});

export function auditRoutes({ audit, pages }: AdminParts) {
  const { trail } = audit;

  const stream = async (req: Request, res: Response, filter: AuditFilter) => {
    await trail.append({ event: 'audit.exported', ...actorOf(req), facts: factsOf(filter) });
    res.type('application/x-ndjson').set('Content-Disposition', 'attachment; filename="audit.ndjson"');
    const lines = async function* () {
      for await (const record of trail.export(filter)) yield `${JSON.stringify(record)}\n`;
    };
    // The client disconnected: there is no response left to send.
    await pipeline(Readable.from(lines()), res).catch(() => res.destroy());
  };

  const list = pages.page('admin/audit', async ({ req }) => {
    const typed = Object.fromEntries(FIELDS.map((name) => [name, queryField(req, name)?.trim() ?? '']));
    const form = typed as Record<AuditField, string>;
    const { items, next, searchedTo } = await trail.page({
      after: queryField(req, 'after') || undefined,
      limit: 50,
      filter: filterOf({ ...form, event: isAuditEvent(form.event) ? form.event : '' }),
    });
    return {
      title: 'Audit trail',
      entries: items.map(auditView),
      form,
      events: Object.entries(AUDIT_EVENTS).map(([name, words]) => ({ name, words })),
      query: new URLSearchParams(Object.entries(form).filter(([, value]) => value !== '')).toString(),
      next,
      searchedTo,
    };
  });

  return {
    page: list.handler,

    list: operation(
      {
        summary: 'Search the audit trail, newest first, or stream it as NDJSON',
        query: auditQuery,
        response: listJson,
        mediaType: 'application/x-ndjson',
      },
      async ({ req, res, query }) => {
        const filter = filterOf({ ...query, text: query.text ?? query.q });
        if (query.format === 'ndjson') return stream(req, res, filter);
        return trail.page({ after: query.after || undefined, limit: query.limit, filter });
      },
    ),
  };
}

function filterOf(fields: Partial<Record<AuditField, string | undefined>>): AuditFilter {
  const { event, who, whom, from, to, text } = fields;
  return {
    event: event || undefined,
    who: who || undefined,
    whom: whom || undefined,
    text: text || undefined,
    from: timeOf(from),
    to: to && DATE.test(to) ? (timeOf(to) ?? 0) + DAY_MS - 1 : timeOf(to),
  };
}

function timeOf(text: string | undefined): number | undefined {
  const time = Date.parse(text ?? '');
  return Number.isNaN(time) ? undefined : time;
}

function factsOf({ from, to, ...filter }: AuditFilter): Record<string, string | undefined> {
  return { ...filter, from: isoTime(from), to: isoTime(to) };
}

const ACTORS: Record<AuditRecord['actor']['kind'], string> = {
  user: 'A user',
  administrator: 'An administrator',
  admin_token: 'An admin token',
  relay_token: 'A relay token',
  provider: 'An identity provider',
  operator: 'An operator at the terminal',
  system: 'Gatehouse itself',
  anonymous: 'Not signed in',
};

function auditView(record: AuditRecord) {
  const { at, event, actor, target, userId, address, outcome, requestId, facts } = record;
  const isShown = userId === undefined || actor.id === userId || target?.id.startsWith(userId) === true;
  return {
    at,
    words: AUDIT_EVENTS[event] ?? event,
    who: actor.name ?? actor.id ?? ACTORS[actor.kind],
    whoId: actor.id,
    whom: target?.name ?? target?.id,
    whomId: target?.id,
    /** The user concerned, unless that is the actor or the target. */
    userId: isShown ? undefined : userId,
    from: address,
    outcome,
    requestId,
    facts: Object.entries(facts ?? {}).map(([name, value]): [string, string] => [
      name,
      Array.isArray(value) ? value.join(', ') : String(value),
    ]),
  };
}
