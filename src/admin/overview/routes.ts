/** The overview: what happened in the last day or month, how connections are, and what is left of quotas, all from the store. */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import type { Tallied, Tallies, TallySpan } from '../../audit/tallies.ts';
import type { ConnectionIndex } from '../../grants/connection-index.ts';
import { queryField } from '../../http/body.ts';
import { type DescribedHandler, operation } from '../../http/operation.ts';
import type { Pages } from '../../pages/pages.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/home': {
      page: SignedInFrame;
      overview: OverviewView;
      charts: readonly ChartView[];
    };
  }
}

/** One chart, and the table that it is drawn from. */
export interface ChartView {
  id: string;
  title: string;
  series: readonly { label: string; tone: 'good' | 'notice' | 'bad' }[];
  rows: readonly { at: string; values: readonly number[] }[];
  totals: readonly number[];
}

export interface OverviewRoutes {
  page: RequestHandler;
  overview: DescribedHandler;
}

const RANGES = { day: { unit: 'hour', number: 24 }, month: { unit: 'day', number: 30 } } as const;

const overviewQuery = z.strictObject({
  range: z.enum(['day', 'month']).default('day').describe('day: 24 hours, hour by hour; month: 30 days, day by day'),
});

const overviewAnswer = z.object({
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

type OverviewView = z.output<typeof overviewAnswer>;

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

export function overviewRoutes(parts: {
  tallies: Tallies;
  index: Pick<ConnectionIndex, 'count' | 'countByHealth'>;
  countUsers: () => Promise<number>;
  countSessions: () => Promise<number>;
  binQuota: () => Promise<{ used: number; limit: number; resetsAt: string } | undefined>;
  pages: Pages;
}): OverviewRoutes {
  const { tallies, index, countUsers, countSessions, binQuota, pages } = parts;

  const overviewOf = async (range: keyof typeof RANGES): Promise<OverviewView> => {
    const { unit, number } = RANGES[range];
    const [spans, users, sessions, total, health, quota] = await Promise.all([
      tallies.read(unit, number),
      countUsers(),
      countSessions(),
      index.count(),
      index.countByHealth(),
      binQuota(),
    ]);
    return {
      range,
      users,
      sessions,
      connections: { total, ...health },
      binQuota: quota ?? null,
      spans: spans.map(spanOf),
    };
  };

  return {
    async page(req, res) {
      const overview = await overviewOf(queryField(req, 'range') === 'month' ? 'month' : 'day');
      const page = pages.signedInFrame(req, 'Overview');
      pages.send(res, 'admin/home', { page, overview, charts: chartsOf(overview) });
    },
    overview: operation(
      {
        summary: 'What happened in the last day or month, how connections are, and what is left of the BIN quota',
        query: overviewQuery,
        answer: overviewAnswer,
      },
      ({ query }) => overviewOf(query.range),
    ),
  };
}

function spanOf({ at, counts }: TallySpan): OverviewView['spans'][number] {
  return { at, counts: counts as Record<string, number> };
}

function chartsOf({ spans }: OverviewView): ChartView[] {
  return CHARTS.map(({ id, title, series }) => {
    const rows = spans.map(({ at, counts }) => ({ at, values: series.map(([name]) => counts[name] ?? 0) }));
    const totals = series.map((_one, place) => rows.reduce((sum, { values }) => sum + (values[place] ?? 0), 0));
    return { id, title, series: series.map(([, label, tone]) => ({ label, tone })), rows, totals };
  });
}
