/** The overview: counts of the last day or month, the health of connections, and the BIN quota. */
import { z } from 'zod';
import type { Tallied } from '../../audit/tallies.ts';
import { queryField } from '../../http/body.ts';
import { operation } from '../../http/operation.ts';
import type { AdminParts } from '../admin.ts';
import type { AdminPageData } from '../page.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/home': AdminPageData & {
      overview: OverviewView;
      charts: ReturnType<typeof chartsOf>;
    };
  }
}

const RANGES = { day: { unit: 'hour', number: 24 }, month: { unit: 'day', number: 30 } } as const;

const overviewQuery = z.strictObject({
  range: z.enum(['day', 'month']).default('day').describe('day: 24 hours, hour by hour; month: 30 days, day by day'),
});

const overviewJson = z.object({
  range: z.enum(['day', 'month']),
  users: z.int(),
  sessions: z.int(),
  connections: z.object({
    total: z.int(),
    active: z.int(),
    expiring: z.int(),
    in_doubt: z.int(),
    reconnect_needed: z.int(),
  }),
  binQuota: z.object({ used: z.int(), limit: z.int(), resetsAt: z.iso.datetime() }).nullable(),
  spans: z.array(z.object({ at: z.iso.datetime(), counts: z.record(z.string(), z.number()) })),
});

type OverviewView = z.output<typeof overviewJson>;

const CHARTS: readonly {
  id: string;
  title: string;
  series: readonly [Tallied, string, 'good' | 'notice' | 'bad'][];
}[] = [
  {
    id: 'sign-ins',
    title: 'Sign-ins',
    series: [
      ['sign_in.succeeded', 'Succeeded', 'good'],
      ['sign_in.refused', 'Refused', 'notice'],
      ['sign_in.failed', 'Failed', 'bad'],
    ],
  },
  {
    id: 'refreshes',
    title: 'Refreshes',
    series: [
      ['refresh.done', 'Done', 'good'],
      ['refresh.failed', 'Failed', 'bad'],
    ],
  },
  {
    id: 'relay',
    title: 'Relay calls',
    series: [
      ['relay.answered', 'Answered', 'good'],
      ['relay.refused', 'Refused by policy', 'notice'],
      ['relay.failed', 'Failed', 'bad'],
    ],
  },
];

export function overviewRoutes({ audit, grants, users, sessions, bins, pages }: AdminParts) {
  const { index } = grants;

  const overviewOf = async (range: keyof typeof RANGES): Promise<OverviewView> => {
    const { unit, number } = RANGES[range];
    const [spans, userCount, sessionCount, total, health, quota] = await Promise.all([
      audit.tallies.read(unit, number),
      users.store.count(),
      sessions.ofUsers.count(),
      index.count(),
      index.countByHealth(),
      bins.quota?.status(),
    ]);
    return {
      range,
      users: userCount,
      sessions: sessionCount,
      connections: { total, ...health },
      binQuota: quota ?? null,
      spans: spans.map(({ at, counts }) => ({ at, counts: { ...counts } })),
    };
  };

  const home = pages.page('admin/home', async ({ req }) => {
    const overview = await overviewOf(queryField(req, 'range') === 'month' ? 'month' : 'day');
    return { title: 'Overview', overview, charts: chartsOf(overview) };
  });

  return {
    page: home.handler,
    overview: operation(
      {
        summary: 'Counts of the last day or month, the health of connections, and the BIN quota',
        query: overviewQuery,
        response: overviewJson,
      },
      ({ query }) => overviewOf(query.range),
    ),
  };
}

/** `rows` is the table that a chart is drawn from. */
function chartsOf({ spans }: OverviewView) {
  return CHARTS.map(({ id, title, series }) => {
    const rows = spans.map(({ at, counts }) => ({ at, values: series.map(([name]) => counts[name] ?? 0) }));
    const totals = series.map((_one, place) => rows.reduce((sum, { values }) => sum + (values[place] ?? 0), 0));
    return { id, title, series: series.map(([, label, tone]) => ({ label, tone })), rows, totals };
  });
}
