/** The overview: what is left to set up, key figures, what needs attention, charts, and causes of failed sign-ins. */
import { z } from 'zod';
import { queryField } from '../../../shared/http/body.ts';
import { operation } from '../../../shared/http/operation.ts';
import { isoTime } from '../../../shared/time.ts';
import type { AdminPageData } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { failureGroups } from '../sign-ins/groups.ts';
import { signInView } from '../sign-ins/view.ts';
import { createAttention, foldAttention } from './attention/attention.ts';
import { attentionJson } from './attention/view.ts';
import { CHART_SIZE, type Chart, chartsOf } from './charts.ts';
import { figuresOf, OVERVIEW_PERIODS, type OverviewPeriod } from './figures.ts';
import { type KeyFigure, keyFigures, type PresentFigure, presentFigures } from './key-figures.ts';
import { createSetup, setupJson } from './setup.ts';
import { dismissedNotice, openSteps, type SetupWords } from './setup-words.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/overview/page': AdminPageData & {
      overview: OverviewView;
      openSteps: readonly SetupWords[];
      attention: ReturnType<typeof foldAttention>;
      periods: typeof OVERVIEW_PERIODS;
      figures: readonly KeyFigure[];
      now: readonly PresentFigure[];
      /** The number of refused and failed sign-ins in the period whose causes are not in the list. */
      otherFailures: number;
      charts: readonly Chart[];
      chartSize: typeof CHART_SIZE;
    };
  }
}

const PERIOD_NAMES = Object.keys(OVERVIEW_PERIODS) as [OverviewPeriod, ...OverviewPeriod[]];

const overviewQuery = z.strictObject({
  period: z
    .enum(PERIOD_NAMES)
    .default('day')
    .describe('hour: by five minutes; day: 24 hours, by hour; week and month: 7 and 30 days, by day'),
});

const counts = z.record(z.string(), z.int());

const overviewJson = z.object({
  period: z.enum(PERIOD_NAMES),
  from: z.iso.datetime().describe('the start of the period'),
  users: z.int(),
  sessions: z.int(),
  connections: z.object({
    total: z.int(),
    active: z.int(),
    expiring: z.int(),
    unverified: z.int(),
    reconnect_needed: z.int(),
  }),
  binQuota: z.object({ used: z.int(), limit: z.int(), resetsAt: z.iso.datetime() }).nullable(),
  intervals: z.array(z.object({ at: z.iso.datetime(), counts })),
  total: counts.describe('the counts of all intervals'),
  previousTotal: counts.describe('the counts of an equally long time before the period, for comparison'),
  causes: z
    .array(
      z.object({
        cause: z.string(),
        text: z.string(),
        app: z.string(),
        appName: z.string(),
        count: z.int(),
        lastAt: z.iso.datetime(),
        signInId: z.string().describe('the latest sign-in with this cause'),
      }),
    )
    .describe('the most frequent causes among the latest failed sign-ins of the period'),
  attention: z.array(attentionJson).describe('a group for each kind, the worst first'),
  setup: z.array(setupJson).describe('the steps of setting up this installation'),
  checkedAt: z.iso.datetime().describe('when what needs attention was read'),
});

type OverviewView = z.output<typeof overviewJson>;

/** The number of recent failed sign-ins whose causes are counted. */
const MAX_FAILED = 200;
const MAX_CAUSES = 5;

export function overviewRoutes(parts: AdminParts) {
  const { audit, grants, users, sessions, bins, signInRecords, connectedApps, pages, publicUrl, clock } = parts;
  const { index } = grants;
  const readAttention = createAttention(parts);
  const setup = createSetup(parts);

  const causesSince = async (from: string): Promise<OverviewView['causes']> => {
    const { items } = await signInRecords.store.page({ limit: MAX_FAILED, list: 'failed' });
    const viewParts = { records: signInRecords, apps: connectedApps.apps };
    const failed = items.map((record) => signInView(record, viewParts)).filter(({ startedAt }) => startedAt >= from);
    return failureGroups(failed)
      .slice(0, MAX_CAUSES)
      .map(({ field: _, id, ...group }) => ({ ...group, signInId: id }));
  };

  const overviewOf = async (period: OverviewPeriod): Promise<OverviewView> => {
    const { unit, number } = OVERVIEW_PERIODS[period];
    const [tallied, userCount, sessionCount, total, health, quota, attention, steps] = await Promise.all([
      audit.tallies.read(unit, 2 * number),
      users.store.count(),
      sessions.ofUsers.count(),
      index.count(),
      index.countByHealth(),
      bins.quota?.status(),
      readAttention(),
      setup.read(),
    ]);
    const figures = figuresOf(tallied, period, clock());
    const from = figures.intervals[0]?.at ?? isoTime(clock());
    return {
      period,
      from,
      users: userCount,
      sessions: sessionCount,
      connections: { total, ...health },
      binQuota: quota ?? null,
      ...figures,
      causes: await causesSince(from),
      attention,
      setup: steps,
      checkedAt: isoTime(clock()),
    };
  };

  const page = pages.page('admin/overview/page', async ({ req }) => {
    const period = queryField(req, 'period');
    const overview = await overviewOf(PERIOD_NAMES.find((name) => name === period) ?? 'day');
    return {
      title: 'Overview',
      overview,
      periods: OVERVIEW_PERIODS,
      attention: foldAttention(overview.attention, clock()),
      openSteps: openSteps(overview.setup, connectedApps.apps.list()),
      figures: keyFigures(overview),
      now: presentFigures(overview),
      otherFailures: failuresBeyond(overview),
      charts: chartsOf(overview.intervals),
      chartSize: CHART_SIZE,
    };
  });

  return {
    page: page.handler,
    dismissStep: pages.button(async (req) => {
      const step = await setup.dismiss(req);
      return { url: `${publicUrl.basePath}/admin`, flash: { notice: dismissedNotice(step) } };
    }),
    overview: operation(
      {
        summary: 'Read the attention list, the counts of a period, and the health of connections',
        query: overviewQuery,
        response: overviewJson,
      },
      ({ query }) => overviewOf(query.period),
    ),
  };
}

function failuresBeyond({ total, causes }: OverviewView): number {
  const failures = (total['sign_in.refused'] ?? 0) + (total['sign_in.failed'] ?? 0);
  return Math.max(0, failures - causes.reduce((sum, { count }) => sum + count, 0));
}
