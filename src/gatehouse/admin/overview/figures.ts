/** The counts of a period, and of an equally long period before it. Pure. */
import { HOUR_MS } from '../../../shared/time.ts';
import type { TallyInterval, TallyUnit } from '../../audit/tallies.ts';

export const OVERVIEW_PERIODS = {
  hour: { unit: 'minutes', number: 12, words: 'Last hour', short: '1 h' },
  day: { unit: 'hour', number: 24, words: 'Last 24 hours', short: '24 h' },
  week: { unit: 'day', number: 7, words: 'Last 7 days', short: '7 d' },
  month: { unit: 'day', number: 30, words: 'Last 30 days', short: '30 d' },
} as const satisfies Record<string, { unit: TallyUnit; number: number; words: string; short: string }>;

export type OverviewPeriod = keyof typeof OVERVIEW_PERIODS;
export type Counts = Record<string, number>;

/**
 * Sums the counts of the period, and as `previousTotal` those of an equally long time before it. The first interval of
 * that time counts only by the share that has passed of the current interval. Otherwise an hour that has just begun
 * would look like a decline.
 * @param intervals the intervals of twice the period, oldest first; the last one is not complete yet
 */
export function figuresOf(
  intervals: readonly TallyInterval[],
  period: OverviewPeriod,
  now: number,
): { intervals: { at: string; counts: Counts }[]; total: Counts; previousTotal: Counts } {
  const { number } = OVERVIEW_PERIODS[period];
  const current = intervals.slice(-number).map(({ at, counts }) => ({ at, counts: { ...counts } as Counts }));
  const [partial, ...whole] = intervals.slice(-2 * number, -number);
  const [first, second] = current;
  const length = first && second ? Date.parse(second.at) - Date.parse(first.at) : HOUR_MS;
  const elapsed = (now - Date.parse(current.at(-1)?.at ?? '')) / length;
  return {
    intervals: current,
    total: sumOf(current),
    previousTotal: sumOf(whole, partial && scale(partial.counts, elapsed)),
  };
}

function sumOf(intervals: readonly { counts: Partial<Counts> }[], start: Counts = {}): Counts {
  const sum: Counts = { ...start };
  for (const { counts } of intervals) {
    for (const [name, count = 0] of Object.entries(counts)) sum[name] = (sum[name] ?? 0) + count;
  }
  return sum;
}

/** Scales the counts of an interval, assuming that they are distributed evenly. */
function scale(counts: Partial<Counts>, elapsed: number): Counts {
  const share = Math.min(1, Math.max(0, elapsed));
  return Object.fromEntries(Object.entries(counts).map(([name, count = 0]) => [name, Math.round(count * share)]));
}
