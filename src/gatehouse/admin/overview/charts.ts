/** Computes the charts of the overview: stacked bars, and a table with the same numbers. Pure. */
import { isoTime } from '../../../shared/time.ts';
import type { Tallied } from '../../audit/tallies.ts';
import type { Counts } from './figures.ts';

type Tone = 'good' | 'notice' | 'bad';

const CHARTS: readonly {
  id: string;
  title: string;
  /** The path of the list that a bar links to, below `/admin`; the times of the bar are added to it. */
  path: string;
  series: readonly [name: Tallied, label: string, tone: Tone][];
}[] = [
  {
    id: 'sign-ins',
    title: 'Sign-ins',
    path: '/sign-ins?',
    series: [
      ['sign_in.succeeded', 'Succeeded', 'good'],
      ['sign_in.refused', 'Refused', 'notice'],
      ['sign_in.failed', 'Failed', 'bad'],
    ],
  },
  {
    id: 'refreshes',
    title: 'Refreshes',
    // The audit trail has no refreshes that succeeded.
    path: '/audit?event=refresh.failed&',
    series: [
      ['refresh.succeeded', 'Succeeded', 'good'],
      ['refresh.failed', 'Failed', 'bad'],
    ],
  },
  {
    id: 'relay',
    title: 'Relay calls',
    path: '/audit?event=relay.used&',
    series: [
      ['relay.succeeded', 'Succeeded', 'good'],
      ['relay.refused', 'Refused', 'notice'],
      ['relay.failed', 'Failed', 'bad'],
    ],
  },
];

export const CHART_SIZE = { width: 600, height: 120 };
/** The share of a bar in the width of the bar and its gap. */
const BAR_SHARE = 0.75;
/** The number of bars under each label of the time axis, by the number of all bars. Each divides it. */
const BARS_UNDER_LABEL: Readonly<Record<number, number>> = { 7: 1, 12: 3, 24: 6, 30: 6 };

export interface Chart {
  id: string;
  title: string;
  series: readonly { label: string; tone: Tone }[];
  /** The rows of the table. */
  rows: readonly Row[];
  totals: readonly number[];
  /** Empty if nothing was counted. */
  bars: readonly Bar[];
  /** The labels of the vertical axis, from its top down. */
  ticks: readonly number[];
  /** The times at the beginnings of equal parts of the horizontal axis. */
  times: readonly string[];
}

interface Row {
  at: string;
  values: readonly number[];
  /** The path of the list with the events of this time, below `/admin`. */
  path: string;
}

interface Bar extends Row {
  x: number;
  width: number;
  step: number;
  parts: readonly { y: number; height: number; tone: Tone }[];
}

export function chartsOf(intervals: readonly { at: string; counts: Counts }[]): Chart[] {
  return CHARTS.map(({ id, title, path, series }) => {
    const rows = intervals.map(({ at, counts }, index) => {
      const next = intervals[index + 1]?.at;
      const times = new URLSearchParams({ from: at, ...(next && { to: isoTime(Date.parse(next) - 1) }) });
      return { at, values: series.map(([name]) => counts[name] ?? 0), path: `${path}${times}` };
    });
    const totals = series.map((_series, index) => rows.reduce((sum, { values }) => sum + (values[index] ?? 0), 0));
    const sums = rows.map(({ values }) => values.reduce((sum, value) => sum + value, 0));
    const max = ceiling(Math.max(...sums));
    const step = CHART_SIZE.width / rows.length;
    const bars = Math.max(...sums) === 0 ? [] : rows.map((row, index) => barOf(row, index * step));
    const labelled = BARS_UNDER_LABEL[rows.length] ?? 1;
    return {
      id,
      title,
      series: series.map(([, label, tone]) => ({ label, tone })),
      rows,
      totals,
      bars,
      ticks: max === 1 ? [1, 0] : [max, max / 2, 0],
      times: rows.filter((_row, index) => index % labelled === 0).map(({ at }) => at),
    };

    function barOf(row: Row, x: number): Bar {
      let top = CHART_SIZE.height;
      const parts = row.values.map((value, index) => {
        // At least two units, so every non-zero value is visible.
        const height = value === 0 ? 0 : Math.max(2, (value / max) * CHART_SIZE.height);
        top -= height;
        return { y: round(top), height: round(height), tone: series[index]?.[2] ?? 'good' };
      });
      return { ...row, x: round(x), width: round(step * BAR_SHARE), step: round(step), parts };
    }
  });
}

/** Returns the next number that is 1, 2, 4, 6 or 8 times a power of ten: its half is 0.5 or a whole number. */
function ceiling(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return ([1, 2, 4, 6, 8, 10].find((factor) => factor * power >= value) ?? 10) * power;
}

const round = (value: number) => Math.round(value * 100) / 100;
