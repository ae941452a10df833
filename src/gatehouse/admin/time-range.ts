/** The time range of a list: a period until now, or from and to a date or a time. Both may be given. */
import { z } from 'zod';
import { DAY_MS } from '../../shared/time.ts';
import { endOf, RANGE_ADVICE, startOf, TIME_ADVICE } from '../audit/time-limits.ts';

/** The periods, with their words on pages. */
export const PERIODS = {
  hour: { words: 'Last hour', milliseconds: DAY_MS / 24 },
  day: { words: 'Last 24 hours', milliseconds: DAY_MS },
  week: { words: 'Last 7 days', milliseconds: 7 * DAY_MS },
  month: { words: 'Last 30 days', milliseconds: 30 * DAY_MS },
} as const;

const instant = z
  .string()
  .max(40)
  .refine((text) => startOf(text) !== undefined, TIME_ADVICE);

/** The parameters of a list in the API. */
export const rangeQuery = {
  period: z
    .enum(Object.keys(PERIODS) as (keyof typeof PERIODS)[])
    .optional()
    .describe('only the last hour, 24 hours, 7 days or 30 days'),
  from: instant.optional().describe('a date in UTC, or a time'),
  to: instant.optional().describe('a date in UTC, which counts to its end, or a time'),
};

export const NO_RANGE = { path: ['to'], error: RANGE_ADVICE };

/** The parameters of a list on a page. */
export const RANGE_FIELDS = ['period', 'from', 'to'] as const;

/** Milliseconds since the epoch. Both ends are included. */
export interface TimeRange {
  from: number | undefined;
  to: number | undefined;
}

/** Returns the range; a text that is no period, date or time limits nothing. @param now in ms since the epoch */
export function rangeOf(
  { period = '', from = '', to = '' }: Partial<Record<(typeof RANGE_FIELDS)[number], string | undefined>>,
  now: number,
): TimeRange {
  const span = Object.entries(PERIODS).find(([name]) => name === period)?.[1].milliseconds;
  const starts = [startOf(from), span && now - span].filter((start) => start !== undefined);
  return { from: starts.length === 0 ? undefined : Math.max(...starts), to: endOf(to) };
}
