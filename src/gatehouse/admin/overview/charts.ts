/** Computes the charts of the overview: stacked bars, and a table with the same numbers. Pure. */
import type { Tallied } from '../../audit/tallies.ts';
import type { Counts } from './figures.ts';

type Tone = 'good' | 'notice' | 'bad';

const CHARTS: readonly {
  id: string;
  title: string;
  series: readonly [name: Tallied, label: string, tone: Tone][];
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
      ['refresh.succeeded', 'Done', 'good'],
      ['refresh.failed', 'Failed', 'bad'],
    ],
  },
  {
    id: 'relay',
    title: 'Relay calls',
    series: [
      ['relay.answered', 'Answered', 'good'],
      ['relay.refused', 'Refused', 'notice'],
      ['relay.failed', 'Failed', 'bad'],
    ],
  },
];

export const CHART_SIZE = { width: 600, height: 120 };
/** The share of a bar in the width of the bar and its gap. */
const BAR_SHARE = 0.75;

export interface Chart {
  id: string;
  title: string;
  series: readonly { label: string; tone: Tone }[];
  /** The rows of the table. */
  rows: readonly { at: string; values: readonly number[] }[];
  totals: readonly number[];
  /** Empty if nothing was counted. */
  bars: readonly Bar[];
  /** The count at the top of the chart. */
  max: number;
}

interface Bar {
  at: string;
  values: readonly number[];
  x: number;
  width: number;
  step: number;
  parts: readonly { y: number; height: number; tone: Tone }[];
}

export function chartsOf(spans: readonly { at: string; counts: Counts }[]): Chart[] {
  return CHARTS.map(({ id, title, series }) => {
    const rows = spans.map(({ at, counts }) => ({ at, values: series.map(([name]) => counts[name] ?? 0) }));
    const totals = series.map((_series, index) => rows.reduce((sum, { values }) => sum + (values[index] ?? 0), 0));
    const sums = rows.map(({ values }) => values.reduce((sum, value) => sum + value, 0));
    const max = ceiling(Math.max(...sums));
    const step = CHART_SIZE.width / rows.length;
    const bars = Math.max(...sums) === 0 ? [] : rows.map(({ at, values }, index) => barOf(at, values, index * step));
    return { id, title, series: series.map(([, label, tone]) => ({ label, tone })), rows, totals, bars, max };

    function barOf(at: string, values: readonly number[], x: number): Bar {
      let top = CHART_SIZE.height;
      const parts = values.map((value, index) => {
        // At least two units, so every non-zero value is visible.
        const height = value === 0 ? 0 : Math.max(2, (value / max) * CHART_SIZE.height);
        top -= height;
        return { y: round(top), height: round(height), tone: series[index]?.[2] ?? 'good' };
      });
      return { at, values, x: round(x), width: round(step * BAR_SHARE), step: round(step), parts };
    }
  });
}

/** Returns the next number that is 1, 2, 4, 5 or 8 times a power of ten. */
function ceiling(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return ([1, 2, 4, 5, 8, 10].find((factor) => factor * power >= value) ?? 10) * power;
}

const round = (value: number) => Math.round(value * 100) / 100;
